//! How often the same is logged.

use std::time::{Duration, Instant};

/// Lets one line through in each interval, or a few, and counts the rest.
#[derive(Debug)]
pub(super) struct Limit {
    last: Option<Instant>,
    most: u32,
    admitted: u32,
    held_back: u64,
}

/// Between two lines about the same thing, when strangers can cause them.
const INTERVAL: Duration = Duration::from_secs(10);

impl Limit {
    pub(super) const fn new() -> Limit {
        Limit::of(1)
    }

    /// So many lines in each interval.
    pub(super) const fn of(most: u32) -> Limit {
        Limit { last: None, most, admitted: 0, held_back: 0 }
    }

    /// The words to end a line with, such as " (12 more since the last such line)", if it may be written now.
    pub(super) fn admit(&mut self, now: Instant) -> Option<String> {
        if self.last.is_none_or(|last| now.duration_since(last) >= INTERVAL) {
            (self.last, self.admitted) = (Some(now), 0);
        }
        if self.admitted >= self.most {
            self.held_back += 1;
            return None;
        }
        self.admitted += 1;
        let held_back = std::mem::take(&mut self.held_back);
        Some(match held_back {
            0 => String::new(),
            n => format!(" ({n} more since the last such line)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a point in time to count from")]
    fn a_limit_counts_what_it_holds_back() {
        let (mut limit, start) = (Limit::new(), Instant::now());
        assert_eq!(limit.admit(start).as_deref(), Some(""));
        assert_eq!(limit.admit(start + Duration::from_secs(1)), None);
        assert_eq!(limit.admit(start + Duration::from_secs(9)), None);
        let later = limit.admit(start + Duration::from_secs(10)).unwrap();
        assert_eq!(later, " (2 more since the last such line)");
        let mut few = Limit::of(3);
        let admitted = (0..25).filter(|s| few.admit(start + Duration::from_secs(*s)).is_some()).count();
        assert_eq!(admitted, 9, "three in each of three intervals");
    }
}
