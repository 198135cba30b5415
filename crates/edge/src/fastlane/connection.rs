//! One connection: its outstanding segments, and the copies of packets that have been dropped or sent again.

use super::room::Room;
use super::Resend;
use crate::native::again::Stamp;
use crate::native::fastlane::{Copies, Decision, FastLane};
use crate::Slot;
use std::collections::VecDeque;
use units::Time;
use wire::{tcp, Packet};

/// Packets of one connection whose copies are counted at once.
const MAX_COPIES: usize = 1024;
/// Packets of a segment whose copies are counted: those of 64 KB at the least MTU of IPv4. It bounds what a guest of tiny packets costs.
const MAX_PIECES: u32 = 128;
/// What a segment takes besides its payload, bytes: headers, and the store's own.
const OVERHEAD: u64 = 256;

/// Sequence numbers that a packet takes.
pub(super) fn seq_len(packet: &Packet) -> u32 {
    packet.payload.wrapping_add(packet.has_flags(tcp::SYN).into()).wrapping_add(packet.has_flags(tcp::FIN).into())
}

fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// A segment that the driver keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    seq: u32,
    end: u32,
    payload: u32,
    /// Payload of each packet but the last.
    size: u32,
    slot: Slot,
}

impl Kept {
    pub(super) fn of(packet: &Packet, slot: Slot) -> Kept {
        let size = if packet.segment_size == 0 { packet.payload } else { packet.segment_size.into() };
        Kept { seq: packet.seq, end: packet.seq.wrapping_add(seq_len(packet)), payload: packet.payload, size, slot }
    }

    fn bytes(&self) -> u64 {
        u64::from(self.payload) + OVERHEAD
    }

    /// The number of the packet with exactly these numbers, if the segment has one: SYN and FIN count.
    fn index(&self, seq: u32, end: u32) -> Option<u32> {
        let offset = seq.wrapping_sub(self.seq);
        let size = if self.size == 0 { 1 } else { self.size };
        if offset != 0 && (offset >= self.payload || offset % size != 0) {
            return None;
        }
        let last = offset.saturating_add(size) >= self.payload;
        let expected = if last { self.end } else { seq.wrapping_add(size) };
        (end == expected).then_some(offset / size)
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: FastLane,
    pub(super) stamp: Stamp,
    guest: [u32; 4],
    /// In order of sequence numbers.
    kept: VecDeque<Kept>,
    /// Of packets that were dropped, or sent more than once.
    copies: Vec<Copies>,
    /// What was sent below this number may have copies that were not counted.
    blind: Option<u32>,
}

impl Connection {
    pub(super) fn new(guest: [u32; 4]) -> Connection {
        Connection {
            state: FastLane::default(),
            stamp: Stamp::default(),
            guest,
            kept: VecDeque::new(),
            copies: Vec::new(),
            blind: None,
        }
    }

    /// False: there is no room.
    pub(super) fn keep(&mut self, kept: Kept, room: &mut Room) -> bool {
        let fits = room.take(&self.guest, kept.bytes());
        if fits {
            self.kept.push_back(kept);
        }
        fits
    }

    /// The segment that was kept last is not kept after all.
    pub(super) fn take_back(&mut self, slot: Slot, room: &mut Room) {
        if self.kept.back().is_some_and(|kept| kept.slot == slot) {
            let bytes = self.kept.pop_back().map_or(0, |kept| kept.bytes());
            room.give_back(&self.guest, bytes);
        }
    }

    pub(super) fn clear(&mut self, room: &mut Room, forgotten: &mut Vec<Slot>) {
        for kept in self.kept.drain(..) {
            room.give_back(&self.guest, kept.bytes());
            forgotten.push(kept.slot);
        }
        room.give_back_copies(self.copies.len());
        self.copies.clear();
        self.blind = None;
        self.stamp = Stamp::default();
    }

    pub(super) fn forget_acked(&mut self, room: &mut Room, forgotten: &mut Vec<Slot>) {
        let una = self.state.conn.snd_una;
        self.stamp.acked(una);
        while let Some(kept) = self.kept.front().filter(|kept| !after(kept.end, una)) {
            room.give_back(&self.guest, kept.bytes());
            forgotten.push(kept.slot);
            self.kept.pop_front();
        }
        let before = self.copies.len();
        self.copies.retain(|copies| after(copies.end, una));
        room.give_back_copies(before - self.copies.len());
        self.blind = self.blind.filter(|&blind| after(blind, una));
    }

    pub(super) fn is_outstanding(&self, seq: u32, slot: Slot) -> bool {
        !after(self.state.conn.snd_una, seq) && self.kept.iter().any(|kept| kept.slot == slot)
    }

    fn known(&self, seq: u32, end: u32) -> Option<Copies> {
        self.copies.iter().find(|copies| (copies.seq, copies.end) == (seq, end)).copied()
    }

    /// What is known of the copies of a packet. One that was sent again in other pieces has as many as those.
    fn copies_of(&self, seq: u32, end: u32) -> Copies {
        let overlapping = self.copies.iter().filter(|copies| after(copies.end, seq) && after(end, copies.seq));
        let inherited = || match overlapping.max_by_key(|copies| (copies.sent_ns, copies.copies)) {
            Some(other) => Copies { seq, end, dropped: 0, waits: 0, ..*other },
            None => Copies { seq, end, copies: 1, ..Copies::default() },
        };
        self.known(seq, end).unwrap_or_else(inherited)
    }

    /// Puts it back. Without room for it, what is outstanding now gets no help any more.
    fn note(&mut self, copies: Copies, room: &mut Room) {
        if let Some(known) = self.copies.iter_mut().find(|known| (known.seq, known.end) == (copies.seq, copies.end)) {
            *known = copies;
        } else if self.copies.len() < MAX_COPIES && room.take_copy() {
            self.copies.push(copies);
        } else {
            self.blind = Some(self.state.conn.snd_nxt);
        }
    }

    /// The guest sends again what it sent before, with this TCP timestamp. True: that need not leave.
    pub(super) fn again(&mut self, now: Time, packet: &Packet, stamp: Option<u32>, room: &mut Room) -> bool {
        let suppressed = self.is_under_way(now, packet, room);
        if let Some(stamp) = stamp.filter(|_| !suppressed) {
            let conn = &self.state.conn;
            self.stamp.note(packet.seq, conn.snd_una, conn.snd_nxt, stamp);
        }
        suppressed
    }

    /// Are the edge's copies of all packets of this segment under way? If not, it counts as one more.
    fn is_under_way(&mut self, now: Time, packet: &Packet, room: &mut Room) -> bool {
        if packet.packet_count() > MAX_PIECES {
            self.blind = Some(self.state.conn.snd_nxt);
            return false;
        }
        let pieces: Vec<_> = pieces(packet).collect();
        let under_way = |&(seq, end): &(u32, u32)| match self.known(seq, end) {
            Some(mut copies) => self.state.again(&mut copies, now),
            None => false,
        };
        if pieces.iter().all(under_way) {
            return true;
        }
        for (seq, end) in pieces {
            self.count(seq, end, now, room);
        }
        false
    }

    /// The guest sends again what it sent below a number, and in the same segment what follows.
    pub(super) fn again_before(&mut self, before: u32, now: Time, packet: &Packet, room: &mut Room) {
        for (n, (seq, end)) in (0..).zip(pieces(packet).take_while(|(seq, _)| after(before, *seq))) {
            if n == MAX_PIECES {
                self.blind = self.blind.filter(|&blind| after(blind, before)).or(Some(before));
                return;
            }
            if !after(end, before) {
                self.count(seq, end, now, room);
                continue;
            }
            // Its last bytes have no copy but this: once it is dropped, no other is waited for.
            let others = self.copies_of(seq, before);
            let copies = others.dropped.saturating_add(1);
            self.count(seq, before, now, room);
            self.note(Copies { seq, end, copies, waits: 0, ..others }, room);
        }
    }

    /// One more copy of a packet leaves, of the guest's.
    fn count(&mut self, seq: u32, end: u32, now: Time, room: &mut Room) {
        let mut copies = self.copies_of(seq, end);
        if self.state.again(&mut copies, now) {
            copies.copies = copies.copies.saturating_add(1);
        }
        self.note(copies, room);
    }

    /// What to do, the copies of the packet, and where the packet is kept.
    pub(super) fn notified(
        &mut self,
        now: Time,
        packet: &Packet,
        room: &mut Room,
    ) -> (Decision, Copies, Option<Resend>) {
        let (seq, end) = (packet.seq, packet.seq.wrapping_add(seq_len(packet)));
        let mut copies = self.copies_of(seq, end);
        let blind = self.blind.is_some_and(|blind| after(blind, seq));
        let around = |kept: &&Kept| !after(kept.seq, seq) && after(kept.end, seq);
        let place = self
            .kept
            .iter()
            .rev()
            .filter(around)
            .find_map(|kept| kept.index(seq, end).map(|index| Resend { slot: kept.slot, index, stamp: None }));
        let known = self.kept.iter().any(|kept| around(&kept));
        let decision = match place.filter(|_| !blind) {
            Some(_) => self.state.notified(Some(&mut copies), packet, now),
            None => match self.state.notified(None, packet, now) {
                // The segment is there, and no packet of it is like this.
                Decision::Unkept if known && !blind => Decision::Outside,
                decision => decision,
            },
        };
        let counted = [Decision::Resend, Decision::Tell, Decision::Leave, Decision::Later, Decision::Stale];
        if place.is_some() && counted.contains(&decision) {
            self.note(copies, room);
        }
        (decision, copies, place)
    }

    /// Packets that waited and are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<(u32, Resend)> {
        let mut due = Vec::new();
        for copies in self.copies.iter_mut().filter(|copies| copies.waits != 0) {
            if self.state.due_at(copies) > now.as_ns() || self.state.due(copies, now) != Decision::Resend {
                continue;
            }
            let place = self.kept.iter().find_map(|kept| {
                let index = kept.index(copies.seq, copies.end)?;
                Some(Resend { slot: kept.slot, index, stamp: None })
            });
            due.extend(place.map(|place| (copies.seq, place)));
        }
        due
    }

    /// When the next packet that waits is due, ns.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.copies.iter().filter(|copies| copies.waits != 0).map(|copies| self.state.due_at(copies)).min()
    }
}

/// The ranges of the packets that the NIC makes of a segment.
fn pieces(packet: &Packet) -> impl Iterator<Item = (u32, u32)> {
    let end = packet.seq.wrapping_add(seq_len(packet));
    let (count, first, size) = (packet.packet_count(), packet.seq, u32::from(packet.segment_size));
    let start = move |i: u32| first.wrapping_add(i.wrapping_mul(size));
    (0..count).map(move |i| (start(i), if i + 1 == count { end } else { start(i + 1) }))
}
