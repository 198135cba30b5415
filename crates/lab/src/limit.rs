//! Rate limiters of hosts: segments wait between edge and uplink, in the same model of HTB as modelled hosts have
//! (`edge::shape`). To a host's kernel they have left when the lab has read them: its TCP small queues do not reach here, as with
//! a virtual machine.

use super::driver::{Driver, Event};
use super::frame;
use edge::limiter::Standing;
use edge::shape::Htb;
use fabric::Packet;
use host::experiment::Limiter;
use port::FrameId;
use std::sync::Arc;
use units::Time;

/// Segments that wait at most, in all classes of a host: the queue of a Linux device. Their frames are the lab's.
const MAX_WAITING: usize = 1000;

/// What Linux counts. How large a frame is that is neither TCP nor UDP its headers do not say.
fn bytes(segment: &Packet) -> u64 {
    match frame::is_opaque(&segment.headers) {
        true => segment.wire_len.saturating_sub(frame::WIRE_OVERHEAD).into(),
        false => Limiter::bytes(&segment.headers),
    }
}

/// A host's rate limiter and what waits in it.
pub(crate) struct Queues {
    limiter: Arc<Limiter>,
    htb: Htb<(FrameId, Packet)>,
    waiting: usize,
    /// The earliest wake-up in the event queue.
    wake_at: Option<Time>,
    /// Segments that found no room.
    pub(crate) dropped: u64,
}

impl Queues {
    /// Of `host`, if the limiter is there too.
    pub(crate) fn new(limiter: Option<&Arc<Limiter>>, host: u32) -> Option<Queues> {
        let limiter = limiter.filter(|limiter| limiter.has(host))?;
        // A hierarchy that cannot work limits nothing; scenarios refuse it before.
        let htb = Htb::new(&limiter.shaper()).ok()?;
        Some(Queues { limiter: limiter.clone(), htb, waiting: 0, wake_at: None, dropped: 0 })
    }

    /// Bytes that wait in all classes.
    pub(crate) fn backlog(&self) -> u64 {
        (0..self.htb.classes()).map(|class| self.htb.backlog(class)).sum()
    }

    /// Bytes that went past the queues.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.htb.first_bytes()
    }

    pub(super) fn standing(&self, to: u32, now: Time) -> Option<Standing> {
        Some(self.htb.standing(self.limiter.class_of(to)?, now))
    }

    /// Of a segment that is about to be queued.
    fn arrival(&mut self, segment: &Packet, now: Time) -> Option<Standing> {
        let class = self.limiter.class_of(segment.dst)?;
        Some(self.htb.arrival(class, &segment.headers, bytes(segment), now))
    }

    /// False: there is no room.
    fn enqueue(&mut self, now: Time, class: usize, id: FrameId, segment: &Packet) -> bool {
        let bytes = bytes(segment);
        let at = Standing { class, first: segment.first, ..Standing::default() };
        let queued =
            self.waiting < MAX_WAITING && self.htb.enqueue(now, &at, (id, *segment), &segment.headers, bytes).is_ok();
        self.waiting += usize::from(queued);
        self.dropped += u64::from(!queued);
        queued
    }

    fn dequeue(&mut self, now: Time) -> Option<(FrameId, Packet)> {
        let mut due = self.htb.dequeue(now)?;
        self.waiting -= 1;
        if due.mark {
            due.item.1.headers.mark_ce();
        }
        Some(due.item)
    }

    /// A frame that its queue has dropped.
    fn poll_dropped(&mut self) -> Option<FrameId> {
        let (id, _) = self.htb.poll_dropped()?;
        self.waiting -= 1;
        self.dropped += 1;
        Some(id)
    }
}

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
