//! Packets that this host has dropped on their way from senders elsewhere to its guests.
//!
//! Each is kept for a while, until the edge of its sender asks for it. What is kept is bounded for each guest and in all.

use super::segment::Frame;
use kernel::again::Way;
use kernel::state::fastlane::FastKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;

/// What a packet takes besides its frame, bytes.
const OVERHEAD: u64 = 256;
/// So long they are kept, ns: what was dropped more than once is asked for later than the sender's least timeout.
pub(super) const HOLD_NS: u64 = 1_000_000_000;
/// Of so many it is known as long that they were asked for.
const MOST_GONE: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// The number of the peer that may ask for it.
    pub(super) peer: u32,
    /// In which it was.
    pub(super) network: u32,
    /// Into the queue that has dropped it.
    pub(super) way: Way,
    pub(super) frame: Frame,
}

impl Packet {
    fn bytes(&self) -> u64 {
        self.frame.bytes.len() as u64 + OVERHEAD
    }
}

#[derive(Debug)]
pub(super) struct Held {
    per_guest: u64,
    in_all: u64,
    /// By connection and sequence number, with the time until when it is kept, ns.
    packets: BTreeMap<(FastKey, u32), (u64, Packet)>,
    /// The same by that time.
    until: BTreeSet<(u64, FastKey, u32)>,
    held: u64,
    /// By ifindex of the port; nothing is ever listed in its order.
    of_guests: HashMap<u32, u64>,
    gone: Gone,
}

impl Held {
    pub(super) fn new(per_guest: u64, in_all: u64) -> Held {
        let (packets, until) = (BTreeMap::new(), BTreeSet::new());
        Held { per_guest, in_all, packets, until, held: 0, of_guests: HashMap::new(), gone: Gone::default() }
    }

    /// In place of one with the same number. False: there is no room for it.
    pub(super) fn put(&mut self, key: FastKey, seq: u32, packet: Packet, now: u64) -> bool {
        self.take(key, seq);
        let bytes = packet.bytes();
        let of_guest = self.of_guests.get(&key.port).copied().unwrap_or(0);
        if of_guest + bytes > self.per_guest || self.held + bytes > self.in_all {
            return false;
        }
        self.of_guests.insert(key.port, of_guest + bytes);
        self.held += bytes;
        let until = now.saturating_add(HOLD_NS);
        self.until.insert((until, key, seq));
        self.packets.insert((key, seq), (until, packet));
        true
    }

    pub(super) fn take(&mut self, key: FastKey, seq: u32) -> Option<Packet> {
        let (until, packet) = self.packets.remove(&(key, seq))?;
        self.until.remove(&(until, key, seq));
        let bytes = packet.bytes();
        self.held -= bytes;
        match self.of_guests.get_mut(&key.port) {
            Some(held) if *held > bytes => *held -= bytes,
            _ => drop(self.of_guests.remove(&key.port)),
        }
        Some(packet)
    }

    /// All that begin in so many numbers from `seq` on, in their order, because somebody asks for them.
    pub(super) fn take_range(&mut self, key: FastKey, seq: u32, numbers: u32, now: u64) -> Vec<Packet> {
        let spans = spans(key, seq, numbers).flatten();
        let found: Vec<u32> = spans.flat_map(|span| self.packets.range(span)).map(|((_, seq), _)| *seq).collect();
        found
            .into_iter()
            .filter_map(|seq| {
                self.gone.note(key, seq, now);
                self.take(key, seq)
            })
            .collect()
    }

    /// Was one of these asked for less than [`HOLD_NS`] ago?
    pub(super) fn is_gone(&self, key: FastKey, seq: u32, numbers: u32, now: u64) -> bool {
        let mut gone = spans(key, seq, numbers).flatten().flat_map(|span| self.gone.since.range(span));
        gone.any(|(_, since)| now.saturating_sub(*since) < HOLD_NS)
    }

    /// Forgets what is too old.
    pub(super) fn expire(&mut self, now: u64) {
        while let Some(&(_, key, seq)) = self.until.first().filter(|(until, ..)| *until <= now) {
            self.take(key, seq);
        }
        self.gone.expire(now);
    }

    /// When the next one is too old, ns.
    pub(super) fn due(&self) -> Option<u64> {
        self.until.first().map(|(until, ..)| *until)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Those that were asked for: the newest of them.
#[derive(Debug, Default)]
struct Gone {
    /// By connection and sequence number: since when, ns.
    since: BTreeMap<(FastKey, u32), u64>,
    /// The same in the order in which they went; those of `since` that went again are there once more.
    order: VecDeque<(u64, FastKey, u32)>,
}

impl Gone {
    fn note(&mut self, key: FastKey, seq: u32, now: u64) {
        self.since.insert((key, seq), now);
        self.order.push_back((now, key, seq));
        if self.order.len() > MOST_GONE {
            self.forget_first();
        }
    }

    fn expire(&mut self, now: u64) {
        while self.order.front().is_some_and(|(since, ..)| now.saturating_sub(*since) >= HOLD_NS) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((since, key, seq)) = self.order.pop_front() else { return };
        if self.since.get(&(key, seq)) == Some(&since) {
            self.since.remove(&(key, seq));
        }
    }
}

/// So many numbers from `seq` on, which wrap around.
fn spans(key: FastKey, seq: u32, numbers: u32) -> impl Iterator<Item = Option<RangeInclusive<(FastKey, u32)>>> {
    let last = numbers.checked_sub(1).map(|more| seq.wrapping_add(more));
    let wraps = last.filter(|last| *last < seq);
    let first = last.map(|last| (key, seq)..=(key, if wraps.is_some() { u32::MAX } else { last }));
    [first, wraps.map(|last| (key, 0)..=(key, last))].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::VnetHeader;

    fn key(port: u32) -> FastKey {
        FastKey { port, ..FastKey::default() }
    }

    fn packet(mark: u32) -> Packet {
        let frame = Frame { header: VnetHeader::default(), bytes: vec![0; 744], l4: 34 };
        Packet { peer: 1, network: 7, way: Way { device: 3, mark, priority: 0 }, frame }
    }

    #[test]
    fn no_guest_takes_all_and_what_is_old_makes_room() {
        let mut held = Held::new(2_500, 4_000);
        assert!(held.put(key(1), 0, packet(0), 10) && held.put(key(1), 1000, packet(1), 20));
        assert!(!held.put(key(1), 2000, packet(2), 20), "the first guest's part is full");
        assert!(held.put(key(1), 1000, packet(3), 30), "but not for the same number");
        assert!(held.put(key(2), 0, packet(4), 30) && held.put(key(2), 1, packet(5), 30));
        assert!(!held.put(key(3), 0, packet(6), 30), "all of it is");
        held.expire(9 + HOLD_NS);
        assert_eq!((held.len(), held.due()), (4, Some(10 + HOLD_NS)));
        held.expire(10 + HOLD_NS);
        assert_eq!((held.len(), held.due()), (3, Some(30 + HOLD_NS)));
        held.expire(u64::MAX);
        assert_eq!((held.len(), held.held, held.of_guests.len(), held.due()), (0, 0, 0, None));
    }

    #[test]
    fn what_is_asked_for_leaves_once_and_numbers_wrap_around() {
        let mut held = Held::new(1 << 20, 1 << 20);
        for (n, seq) in [u32::MAX - 999, 0, 1000, 2000].into_iter().enumerate() {
            assert!(held.put(key(1), seq, packet(n as u32), 0));
        }
        assert!(held.put(key(2), 0, packet(9), 0));
        let mut asked = |seq, numbers| -> Vec<u32> {
            held.take_range(key(1), seq, numbers, 5).iter().map(|packet| packet.way.mark).collect()
        };
        assert_eq!(asked(1001, 999), [] as [u32; 0]);
        assert_eq!(asked(0, 0), [] as [u32; 0]);
        assert_eq!(asked(u32::MAX - 999, 2000), [0, 1]);
        assert_eq!(asked(u32::MAX - 999, 2000), [] as [u32; 0]);
        assert_eq!(asked(2000, u32::MAX), [3, 2], "from there on");
        assert_eq!(held.len(), 1, "another guest's is left");
        let gone = |seq, numbers, now| held.is_gone(key(1), seq, numbers, now);
        assert!(gone(u32::MAX - 999, 1, 5) && gone(u32::MAX - 1500, 2000, 4 + HOLD_NS), "they are known to have gone");
        assert!(!gone(1, 999, 5) && !gone(0, 0, 5) && !gone(0, 1, 5 + HOLD_NS));
        assert!(!held.is_gone(key(2), 0, 1, 5), "nobody has asked for it");
    }

    #[test]
    fn what_went_is_forgotten_in_turn() {
        let mut gone = Gone::default();
        for n in 0..2 * MOST_GONE as u32 {
            gone.note(key(1), n, n.into());
            gone.note(key(1), 7, n.into());
        }
        assert_eq!((gone.order.len(), gone.since.len()), (MOST_GONE, MOST_GONE / 2 + 1));
        assert!(gone.since.contains_key(&(key(1), 7)));
        gone.expire(HOLD_NS + 2 * MOST_GONE as u64 - 2);
        assert_eq!((gone.order.len(), gone.since.len()), (2, 2), "the last two");
        gone.expire(u64::MAX);
        assert_eq!((gone.order.len(), gone.since.len()), (0, 0));
    }
}
