//! Packets that this host has dropped on their way to its guests, of senders elsewhere: kept until the edge of their sender asks for them, for
//! a while, and bounded for each guest and in all.

use super::segment::Frame;
use kernel::again::Way;
use kernel::state::fastlane::FastKey;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a packet takes besides its frame, bytes.
const OVERHEAD: u64 = 256;
/// So long they are kept, ns: what was dropped more than once is asked for later than the sender's least timeout.
pub(super) const HOLD_NS: u64 = 1_000_000_000;

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
}

impl Held {
    pub(super) fn new(per_guest: u64, in_all: u64) -> Held {
        let (packets, until) = (BTreeMap::new(), BTreeSet::new());
        Held { per_guest, in_all, packets, until, held: 0, of_guests: HashMap::new() }
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

    /// All that begin in so many numbers from `seq` on, in their order.
    pub(super) fn take_range(&mut self, key: FastKey, seq: u32, numbers: u32) -> Vec<Packet> {
        let Some(last) = numbers.checked_sub(1).map(|more| seq.wrapping_add(more)) else { return Vec::new() };
        let first = if last < seq { u32::MAX } else { last };
        let mut found: Vec<u32> = self.numbers(key, seq, first).collect();
        if last < seq {
            found.extend(self.numbers(key, 0, last));
        }
        found.into_iter().filter_map(|seq| self.take(key, seq)).collect()
    }

    fn numbers(&self, key: FastKey, first: u32, last: u32) -> impl Iterator<Item = u32> + '_ {
        self.packets.range((key, first)..=(key, last)).map(|((_, seq), _)| *seq)
    }

    /// Forgets what is too old.
    pub(super) fn expire(&mut self, now: u64) {
        while let Some(&(_, key, seq)) = self.until.first().filter(|(until, ..)| *until <= now) {
            self.take(key, seq);
        }
    }

    /// When the next one is too old, ns.
    pub(super) fn due(&self) -> Option<u64> {
        self.until.first().map(|(until, ..)| *until)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::VnetHeader;

    fn key(port: u32) -> FastKey {
        FastKey { port, ..FastKey::default() }
    }

    fn packet(mark: u32) -> Packet {
        let frame = Frame { header: VnetHeader::default(), bytes: vec![0; 744] };
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
            held.take_range(key(1), seq, numbers).iter().map(|packet| packet.way.mark).collect()
        };
        assert_eq!(asked(1001, 999), [] as [u32; 0]);
        assert_eq!(asked(0, 0), [] as [u32; 0]);
        assert_eq!(asked(u32::MAX - 999, 2000), [0, 1]);
        assert_eq!(asked(u32::MAX - 999, 2000), [] as [u32; 0]);
        assert_eq!(asked(2000, u32::MAX), [3, 2], "from there on");
        assert_eq!(held.len(), 1, "another guest's is left");
    }
}
