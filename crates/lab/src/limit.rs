//! Rate limiters of hosts: segments wait between edge and uplink, in the same model of HTB as modelled hosts have
//! (`edge::shape`). To a host's kernel they have left when the lab has read them: its TCP small queues do not reach here, as with
//! a virtual machine.

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
    pub(super) limiter: Arc<Limiter>,
    pub(super) htb: Htb<(FrameId, Packet)>,
    waiting: usize,
    /// The earliest wake-up in the event queue.
    pub(super) wake_at: Option<Time>,
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
    pub(super) fn arrival(&mut self, segment: &Packet, now: Time) -> Option<Standing> {
        let class = self.limiter.class_of(segment.dst)?;
        Some(self.htb.arrival(class, &segment.headers, bytes(segment), now))
    }

    /// False: there is no room.
    pub(super) fn enqueue(&mut self, now: Time, class: usize, id: FrameId, segment: &Packet) -> bool {
        let bytes = bytes(segment);
        let at = Standing { class, first: segment.first, ..Standing::default() };
        let queued =
            self.waiting < MAX_WAITING && self.htb.enqueue(now, &at, (id, *segment), &segment.headers, bytes).is_ok();
        self.waiting += usize::from(queued);
        self.dropped += u64::from(!queued);
        queued
    }

    pub(super) fn dequeue(&mut self, now: Time) -> Option<(FrameId, Packet)> {
        let mut due = self.htb.dequeue(now)?;
        self.waiting -= 1;
        if due.mark {
            due.item.1.headers.mark_ce();
        }
        Some(due.item)
    }

    /// A frame that its queue has dropped.
    pub(super) fn poll_dropped(&mut self) -> Option<FrameId> {
        let (id, _) = self.htb.poll_dropped()?;
        self.waiting -= 1;
        self.dropped += 1;
        Some(id)
    }
}
