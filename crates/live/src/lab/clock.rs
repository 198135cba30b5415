use nix::time::{clock_gettime, ClockId};
use units::Time;

/// The wall clock as the lab's model sees it: time since the lab began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun_ns: u64,
}

fn monotonic_ns() -> u64 {
    // The monotonic clock exists on every Linux, so the call cannot fail.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// What the calling thread has used of a core.
pub(crate) fn thread_cpu() -> Time {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Time::from_ns(used.map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64))
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { begun_ns: monotonic_ns() }
    }
    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::from_ns(monotonic_ns() - self.begun_ns)
    }
    /// On the machine's monotonic clock, which traffic generators read too.
    pub(crate) fn begun(&self) -> Time {
        Time::from_ns(self.begun_ns)
    }
}
