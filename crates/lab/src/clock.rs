//! The lab's clocks: the machine's monotonic clock, counted from the lab's beginning, and the time that a thread has used of a core.

use nix::time::{clock_gettime, ClockId};
use units::Time;

/// The wall clock as the lab's model sees it: time since the lab began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun_ns: u64,
}

fn clock_ns(clock: ClockId) -> u64 {
    // The clocks asked for exist on every Linux, so the call cannot fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

fn monotonic_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// What the calling thread has used of a core.
pub(crate) fn thread_cpu() -> Time {
    Time::from_ns(clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { begun_ns: monotonic_ns() }
    }
    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::from_ns(monotonic_ns() - self.begun_ns)
    }
    /// On the machine's real-time clock, as that is set now.
    pub(crate) fn begun_real_ns(&self) -> u64 {
        let passed = monotonic_ns() - self.begun_ns;
        clock_ns(ClockId::CLOCK_REALTIME).saturating_sub(passed)
    }
    /// On the machine's monotonic clock, which traffic generators read too.
    pub(crate) fn begun(&self) -> Time {
        Time::from_ns(self.begun_ns)
    }
}
