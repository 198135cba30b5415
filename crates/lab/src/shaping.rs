//! Segments on their way through a host's rate limiter.

use super::driver::{Driver, Event};
use super::limit::Queues;
use edge::limiter::Standing;
use fabric::Packet;
use port::FrameId;
use units::Time;

impl Driver {
    /// How the class stands that a segment from `host` is about to enter; it is noted in the segment if it goes first.
    pub(super) fn arrival(&mut self, now: Time, host: u32, segment: &mut Packet) -> Option<Standing> {
        let at = self.hosts[host as usize].queues.as_mut()?.arrival(segment, now)?;
        segment.first = at.first;
        Some(at)
    }

    /// A segment goes onto its host's uplink, or waits in the limiter until it may.
    pub(super) fn send(&mut self, now: Time, host: u32, id: FrameId, segment: &Packet) {
        let queues = self.hosts[host as usize].queues.as_mut();
        let class = queues.as_ref().and_then(|queues| queues.limiter.class_of(segment.dst));
        let (Some(queues), Some(class)) = (queues, class) else {
            self.launch(now, host, id, segment);
            return;
        };
        if !queues.enqueue(now, class, id, segment) {
            self.pool.release(id);
            return;
        }
        self.let_go(now, host);
    }

    /// The limiter's wake-up.
    pub(super) fn limiter_event(&mut self, at: Time, host: u32) {
        if let Some(queues) = &mut self.hosts[host as usize].queues {
            queues.wake_at = queues.wake_at.filter(|&wake_at| wake_at > at);
        }
        self.let_go(at, host);
    }

    /// Sends what may go by now, and sees to it that the rest is looked at in time.
    fn let_go(&mut self, now: Time, host: u32) {
        let index = host as usize;
        while let Some((id, segment)) = self.hosts[index].queues.as_mut().and_then(|queues| queues.dequeue(now)) {
            self.launch(now, host, id, &segment);
        }
        while let Some(id) = self.hosts[index].queues.as_mut().and_then(Queues::poll_dropped) {
            self.pool.release(id);
        }
        let Some(queues) = &mut self.hosts[index].queues else { return };
        let Some(at) = queues.htb.poll_timeout(now) else { return };
        if queues.wake_at.is_none_or(|wake_at| at < wake_at) {
            queues.wake_at = Some(at);
            self.scheduler.schedule(at, host, Event::Limiter);
        }
    }
}
