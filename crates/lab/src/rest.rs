//! When the lab's thread has to let go of its core.
//!
//! Linux takes 5% of every core from real-time threads that never sleep, and takes it in one piece: 50 ms of each second.
//! A thread that is never done, or has met that, gives the same away in pieces that no round trip notices.

use units::Time;

/// Who has been awake for so long will go on.
const BUSY: Time = Time::from_ms(100);
/// A turn of the loop that took longer was interrupted.
const INTERRUPTED: Time = Time::from_ms(10);
/// Asleep for so long out of so much.
const NAP: Time = Time::from_us(60);
const PERIOD: Time = Time::from_ms(1);

#[derive(Debug, Default)]
pub(super) struct Rest {
    last: Time,
    awake_since: Time,
    needed: bool,
}

impl Rest {
    pub(super) fn slept(&mut self, now: Time) {
        self.last = now;
        self.awake_since = now;
    }

    /// The thread has waited for frames or time; where there were frames already, it did not sleep.
    pub(super) fn waited(&mut self, from: Time, now: Time) {
        self.last = now;
        if now.saturating_sub(from) > NAP / 2 {
            self.awake_since = now;
        }
    }

    /// Another turn: how long to sleep before it.
    pub(super) fn due(&mut self, now: Time) -> Option<Time> {
        let awake = now.saturating_sub(self.awake_since);
        self.needed |= now.saturating_sub(self.last) > INTERRUPTED || awake > BUSY;
        self.last = now;
        (self.needed && awake > PERIOD).then_some(NAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_interrupted_rests() {
        let mut rest = Rest::default();
        rest.slept(Time::ZERO);
        assert!((1..5000).all(|n| rest.due(Time::from_us(n * 10)).is_none()), "awake for 50 ms and never interrupted");
        assert_eq!(rest.due(Time::from_ms(100)), Some(NAP));
        rest.slept(Time::from_us(100_060));
        assert_eq!(rest.due(Time::from_us(100_500)), None);
        assert_eq!(rest.due(Time::from_us(101_100)), Some(NAP), "a millisecond later");
        rest.waited(Time::from_us(101_200), Time::from_us(101_300));
        assert_eq!(rest.due(Time::from_us(101_400)), None, "it has slept anyway");
    }

    #[test]
    fn who_is_never_done_rests() {
        let mut rest = Rest::default();
        rest.slept(Time::ZERO);
        let first = (1..20_000).map(|n| Time::from_us(n * 10)).find(|&now| rest.due(now).is_some());
        assert_eq!(first, Some(BUSY + Time::from_us(10)));
    }
}
