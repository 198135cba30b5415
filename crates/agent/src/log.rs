//! Lines on standard error: for journald with their priority in front, plain otherwise.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Error,
    Warning,
    Info,
}

pub(super) struct Log {
    journal: bool,
}

impl Log {
    pub(super) fn new() -> Log {
        // systemd sets it for services whose standard error is the journal.
        Log { journal: std::env::var_os("JOURNAL_STREAM").is_some() }
    }

    pub(super) fn error(&self, text: impl AsRef<str>) {
        self.line(Level::Error, text.as_ref());
    }
    pub(super) fn warning(&self, text: impl AsRef<str>) {
        self.line(Level::Warning, text.as_ref());
    }
    pub(super) fn info(&self, text: impl AsRef<str>) {
        self.line(Level::Info, text.as_ref());
    }

    pub(super) fn line(&self, level: Level, text: &str) {
        use std::io::Write;
        // One write, so that lines of several agents do not mix. Nothing can be done where it fails.
        let line = render(self.journal, level, text);
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

fn render(journal: bool, level: Level, text: &str) -> String {
    // sd-daemon(3)
    let prefix = match (journal, level) {
        (true, Level::Error) => "<3>",
        (true, Level::Warning) => "<4>",
        (true, Level::Info) => "<6>",
        (false, Level::Error) => "error: ",
        (false, Level::Warning) => "warning: ",
        (false, Level::Info) => "",
    };
    // Names of interfaces are others' choice.
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{prefix}{clean}\n")
}

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
    fn lines_carry_their_priority_and_stay_one_line() {
        assert_eq!(render(true, Level::Warning, "a\nb"), "<4>a b\n");
        assert_eq!(render(false, Level::Error, "a"), "error: a\n");
    }

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
