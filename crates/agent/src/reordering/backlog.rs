//! The time up to which the thread has read all segments that were diverted.
//!
//! Where the thread gets a processor too late, the segments that fill a gap wait in the device while the timeout of those behind
//! the gap expires. The thread must not release these before it has read what waited in the device.

use units::Time;

/// Frames that the device holds at most: the kernel's TUN_READQ_SIZE is 500.
const QUEUE: usize = 512;

/// Follows the readings of the device.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Frames of a full reading.
    batch: usize,
    complete: Time,
    /// When the first of the present full readings began, and the frames read since.
    since: Time,
    frames: usize,
}

impl Backlog {
    pub(super) fn new(batch: usize) -> Backlog {
        Backlog { batch, complete: Time::ZERO, since: Time::ZERO, frames: 0 }
    }

    /// A reading that began at `began` brought `n` frames.
    pub(super) fn note(&mut self, began: Time, n: usize) {
        if self.frames == 0 {
            self.since = began;
        }
        self.frames += n;
        if n < self.batch {
            self.complete = began;
            self.frames = 0;
        } else if self.frames >= QUEUE {
            // What waited when the first reading began is among these.
            self.complete = self.since;
            self.frames = 0;
        }
    }

    /// Everything that was in the device at this time has been read.
    pub(super) fn complete(&self) -> Time {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_reading_ends_a_backlog() {
        let mut backlog = Backlog::new(16);
        for (at, n, complete) in [(5, 0, 5), (10, 16, 5), (20, 16, 5), (30, 15, 30), (40, 16, 30), (50, 0, 50)] {
            backlog.note(Time::from_us(at), n);
            assert_eq!(backlog.complete(), Time::from_us(complete), "at {at}");
        }
    }

    #[test]
    fn a_backlog_without_end_holds_nothing_back_for_ever() {
        let mut backlog = Backlog::new(16);
        let mut last = Time::ZERO;
        for at in 1..=1000 {
            backlog.note(Time::from_us(at), 16);
            let complete = backlog.complete();
            assert!(complete >= last && complete < Time::from_us(at));
            assert!(at < 64 || complete >= Time::from_us(at - 63), "{complete:?} at {at}");
            last = complete;
        }
    }
}
