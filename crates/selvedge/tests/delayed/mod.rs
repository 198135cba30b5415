//! Frames that take their time, where the kernel has no netem.

use port::{FrameId, Pool, Port, Tap};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// One direction of a path: gives what it has taken, in order, when `delay` is over.
pub(crate) struct Delayed {
    delay: Duration,
    pool: Pool,
    waiting: VecDeque<(Instant, FrameId)>,
    taken: Vec<FrameId>,
}

#[allow(clippy::disallowed_methods, reason = "a delay in real time")]
impl Delayed {
    pub(crate) fn by(delay: Duration) -> Delayed {
        Delayed { delay, pool: Pool::new(8192), waiting: VecDeque::new(), taken: Vec::new() }
    }

    pub(crate) fn take(&mut self, from: &mut Tap) {
        let _ = from.receive(&mut self.pool, &mut self.taken, 256);
        let due = Instant::now() + self.delay;
        self.waiting.extend(self.taken.drain(..).map(|frame| (due, frame)));
    }

    pub(crate) fn give(&mut self, to: &mut Tap) {
        let now = Instant::now();
        while self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, frame)) = self.waiting.pop_front() else { break };
            let _ = to.send(&self.pool.header(frame), &[IoSlice::new(self.pool.frame(frame))]);
            self.pool.release(frame);
        }
    }
}
