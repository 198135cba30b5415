//! The clock of a run of the traffic generator. All its threads count from the instant at which the run begins.

use nix::time::{clock_gettime, ClockId};
use units::Time;

/// The run's clock: the machine's monotonic one, from the instant at which the run begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    begin_ns: u64,
}

fn monotonic_ns() -> u64 {
    // The monotonic clock exists on every Linux.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

impl Clock {
    /// The run begins `ahead` from now.
    pub(super) fn begin_in(ahead: Time) -> Clock {
        Clock { begin_ns: monotonic_ns() + ahead.as_ns() }
    }

    /// Zero until the run has begun.
    pub(super) fn now(self) -> Time {
        Time::from_ns(monotonic_ns().saturating_sub(self.begin_ns))
    }

    /// How long until `at`; zero if it has passed.
    pub(super) fn until(self, at: Time) -> Time {
        Time::from_ns((self.begin_ns + at.as_ns()).saturating_sub(monotonic_ns()))
    }
}
