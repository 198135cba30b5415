//! Ring, poll and dispatch of one NIC.

use super::gro::Gro;
use super::segment::{Frames, Part, Segment};
use crate::experiment::{Gro as Offload, HostConfig};
use edge::limiter::Standing;
use edge::{Direction, Edge, Known, Slot, Verdict};
use fabric::{List, Packet, PacketId, Packets};
use std::collections::VecDeque;
use units::Time;
use wire::feedback;

/// The receive side of one NIC.
///
/// 1. [`arrive`](Rx::arrive) for every packet; start the [`Poll`] that it returns at its time.
/// 2. At a poll: [`begin_poll`](Rx::begin_poll), then [`next`](Rx::next) until `None`, then
///    [`Edge::end_batch`], then [`released`](Rx::released) until `None`, then [`end_poll`](Rx::end_poll).
/// 3. [`released`](Rx::released) also after [`Edge::handle_timeout`].
#[derive(Debug)]
pub struct Rx<P> {
    ring: List,
    waiting: u32,
    /// When the next poll is due, and its generation: a poll moved earlier leaves a stale event behind.
    poll_at: Option<Time>,
    generation: u16,
    gro: Gro<P>,
    /// Merged, not yet through the edge.
    up: VecDeque<Segment<P>>,
    /// The segment that released packets are being joined to.
    joining: Option<Segment<P>>,
    /// Merged segments that the edge holds, each by the packet that stands for it.
    held: Vec<(PacketId, Segment<P>)>,
    polled: Polled,
}

/// A poll to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Poll {
    pub at: Time,
    /// To be given to [`Rx::begin_poll`].
    pub generation: u16,
}

/// What the poll under way took from the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    pub packets: u32,
    /// Payload.
    pub bytes: u64,
}

/// The ring has no room: the packet is the caller's to free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingFull;

/// What comes out of a poll.
#[derive(Debug)]
pub enum Handed<P> {
    /// For the guest.
    Up(Segment<P>),
    /// The edge dropped or consumed it.
    Gone(Segment<P>),
}

/// What a call borrows from its driver.
#[derive(Debug)]
pub struct Io<'a, F> {
    pub now: Time,
    pub config: &'a HostConfig,
    pub edge: &'a mut Edge,
    pub packets: &'a mut Packets,
    pub frames: &'a F,
}

impl<P> Default for Rx<P> {
    fn default() -> Rx<P> {
        Rx {
            ring: List::default(),
            waiting: 0,
            poll_at: None,
            generation: 0,
            gro: Gro::default(),
            up: VecDeque::new(),
            joining: None,
            held: Vec::new(),
            polled: Polled::default(),
        }
    }
}

impl<P: Part> Rx<P> {
    /// A packet reached the NIC, whose core is busy until `free_at`. Returns a poll that has to be started.
    ///
    /// # Errors
    /// The ring is full.
    pub fn arrive(
        &mut self,
        now: Time,
        free_at: Time,
        config: &HostConfig,
        id: PacketId,
        packets: &mut Packets,
    ) -> Result<Option<Poll>, RingFull> {
        if self.waiting >= config.rx_ring {
            return Err(RingFull);
        }
        self.ring.push(id, packets);
        self.waiting += 1;
        let wait = if self.waiting >= config.rx_coalesce_frames { Time::ZERO } else { config.rx_coalesce };
        let at = (now + wait).max(free_at);
        Ok(self.poll_at.is_none_or(|due| at < due).then(|| self.plan(at)))
    }

    fn plan(&mut self, at: Time) -> Poll {
        self.poll_at = Some(at);
        self.generation = self.generation.wrapping_add(1);
        Poll { at, generation: self.generation }
    }

    /// A poll is due. False: it has been moved, and nothing is to be done.
    pub fn begin_poll(&mut self, generation: u16) -> bool {
        self.polled = Polled::default();
        self.generation == generation
    }

    /// The next segment of the poll under way. `standing` tells how the limiter's class stands through which the host
    /// sends to another.
    pub fn next<F: Frames<Part = P>>(
        &mut self,
        io: &mut Io<'_, F>,
        standing: impl Fn(u32) -> Option<Standing>,
    ) -> Option<Handed<P>> {
        loop {
            if let Some(segment) = self.up.pop_front() {
                let standing = standing(segment.packet.src);
                if let Some(handed) = self.ingress(io, segment, standing) {
                    return Some(handed);
                }
                continue;
            }
            if self.polled.packets >= io.config.rx_budget {
                self.gro.flush(&mut self.up);
            } else if let Some(id) = self.ring.pop(io.packets) {
                self.waiting -= 1;
                self.polled.packets += 1;
                if io.edge.is_hidden(&io.packets.body(id).headers) && !restore(io, id) {
                    return Some(Handed::Gone(Segment::new(io.packets.take(id))));
                }
                let packet = io.packets.body(id);
                if packet.is_notification() {
                    if io.edge.acts_on_notifications() {
                        io.edge.notified(io.now, &packet.headers);
                        io.packets.remove(id);
                        continue;
                    }
                    return Some(Handed::Up(Segment::new(io.packets.take(id))));
                }
                self.polled.bytes += u64::from(packet.headers.payload);
                if packet.headers.has_cell != 0 && io.edge.config().reorder.is_some() {
                    // The edge merges flowcells itself, packet by packet.
                    let standing = standing(packet.src);
                    if let Some(handed) = self.reorder(io, id, standing) {
                        return Some(handed);
                    }
                    continue;
                }
                let packet = io.packets.arrived(id);
                match io.config.gro {
                    Offload::Off => self.up.push_back(Segment::new(*packet)),
                    Offload::Stock => self.gro.receive(packet, io.frames, &mut self.up),
                }
                io.packets.remove(id);
                continue;
            } else {
                self.gro.flush(&mut self.up);
            }
            if self.up.is_empty() {
                return None;
            }
        }
    }

    /// What the poll under way took from the ring so far.
    pub fn polled(&self) -> Polled {
        self.polled
    }

    /// The poll ended, and the NIC's core is busy until `free_at`. Returns the poll for what is left in the ring.
    pub fn end_poll(&mut self, now: Time, free_at: Time) -> Option<Poll> {
        self.poll_at = None;
        (self.waiting > 0).then(|| self.plan(free_at.max(now)))
    }

    /// The next segment that the edge releases, its packets joined as Linux would join them.
    pub fn released<F: Frames<Part = P>>(&mut self, io: &mut Io<'_, F>) -> Option<Segment<P>> {
        while let Some(release) = io.edge.poll_release(io.now) {
            let packet = io.packets.take(release.slot.0);
            let segment = match self.held.iter().position(|(id, _)| *id == release.slot.0) {
                Some(i) => {
                    let mut segment = self.held.swap_remove(i).1;
                    segment.packet = packet;
                    segment
                }
                None => match &mut self.joining {
                    Some(segment) if release.joins_previous && segment.accepts(&packet, io.frames) => {
                        segment.append(&packet);
                        continue;
                    }
                    _ => Segment::new(packet),
                },
            };
            if let Some(done) = self.joining.replace(segment) {
                return Some(done);
            }
        }
        self.joining.take()
    }

    /// One packet with a flowcell through the edge.
    #[inline(never)]
    fn reorder<F: Frames>(
        &mut self,
        io: &mut Io<'_, F>,
        id: PacketId,
        standing: Option<Standing>,
    ) -> Option<Handed<P>> {
        if says_of_paths(io.packets.body(id)) {
            let mut packet = io.packets.get(id);
            hear(io.edge, io.now, &mut packet);
            io.packets.body_mut(id).headers = packet.headers;
        }
        let known = Known { standing, stamp: io.frames.stamp(io.packets.body(id)) };
        let headers = &mut io.packets.body_mut(id).headers;
        match io.edge.process_known(io.now, Direction::Ingress, Slot(id), headers, known) {
            Verdict::Hold => None,
            Verdict::Forward => Some(Handed::Up(Segment::new(io.packets.take(id)))),
            Verdict::Consume | Verdict::Drop(_) => Some(Handed::Gone(Segment::new(io.packets.take(id)))),
        }
    }

    /// A merged segment through the edge.
    fn ingress<F: Frames>(
        &mut self,
        io: &mut Io<'_, F>,
        mut segment: Segment<P>,
        standing: Option<Standing>,
    ) -> Option<Handed<P>> {
        if io.frames.bypasses_edge(&segment.packet) {
            return Some(Handed::Up(segment));
        }
        hear(io.edge, io.now, &mut segment.packet);
        if io.edge.config().reorder.is_none() {
            // The slot is never used: without a reorder engine nothing is held.
            let (slot, headers) = (Slot::default(), &mut segment.packet.headers);
            return Some(match io.edge.process_limited(io.now, Direction::Ingress, slot, headers, standing) {
                Verdict::Forward => Handed::Up(segment),
                _ => Handed::Gone(segment),
            });
        }
        // A segment without a flowcell waits behind the segments that the engine releases before it.
        let id = io.packets.add(segment.packet);
        let headers = &mut io.packets.body_mut(id).headers;
        let verdict = io.edge.process_limited(io.now, Direction::Ingress, Slot(id), headers, standing);
        if verdict == Verdict::Hold {
            if segment.parts.len() > 1 {
                self.held.push((id, segment));
            }
            return None;
        }
        segment.packet = io.packets.take(id);
        Some(if verdict == Verdict::Forward { Handed::Up(segment) } else { Handed::Gone(segment) })
    }
}

/// Makes a packet of the hidden overlay the guest's, before anything is merged. False: it is to be dropped.
#[inline(never)]
fn restore<F: Frames>(io: &mut Io<'_, F>, id: PacketId) -> bool {
    let mut packet = io.packets.get(id);
    let option = io.frames.hidden(&packet);
    let Ok(feedback) = io.edge.restore(&mut packet.headers, option.as_ref()) else { return false };
    let body = io.packets.body_mut(id);
    (body.headers, body.feedback, body.label) = (packet.headers, feedback, packet.headers.label);
    body.options.hidden = None;
    true
}

fn says_of_paths(packet: &Packet) -> bool {
    packet.int || packet.feedback.kind != feedback::NONE || packet.headers.wire == wire::version::TWO
}

/// Tells the edge what a packet brought of paths, which leaves its tunnel with that.
fn hear(edge: &mut Edge, now: Time, packet: &mut Packet) {
    if says_of_paths(packet) {
        take_news(edge, now, packet);
    }
}

#[inline(never)]
fn take_news(edge: &mut Edge, now: Time, packet: &mut Packet) {
    edge::ecn::arrives(&mut packet.headers);
    edge.hear(now, &packet.headers, packet.label, packet.busiest(), packet.feedback);
}
