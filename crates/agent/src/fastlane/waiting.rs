//! Packets that were dropped more than once and wait to be sent again: bounded for each guest and in all.

use super::segment::Frame;
use kernel::again::Way;
use kernel::state::fastlane::FastCall;
use std::collections::{BTreeMap, HashMap};

/// What a packet takes besides its frame, bytes.
const OVERHEAD: u64 = 256;

#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) call: FastCall,
    pub(super) sends: Sends,
}

/// How it is sent again.
#[derive(Clone, Debug)]
pub(super) enum Sends {
    Here(Way, Frame),
    /// By the peer with that number, which has its bytes.
    Peer(u32),
}

impl Packet {
    fn bytes(&self) -> u64 {
        OVERHEAD
            + match &self.sends {
                Sends::Here(_, frame) => frame.bytes.len() as u64,
                Sends::Peer(_) => 0,
            }
    }
}

#[derive(Debug)]
pub(super) struct Waiting {
    per_guest: u64,
    in_all: u64,
    /// By due time, ns, and the order in which they came.
    packets: BTreeMap<(u64, u64), Packet>,
    next: u64,
    held: u64,
    /// By ifindex of the port; nothing is ever listed in its order.
    of_guests: HashMap<u32, u64>,
}

impl Waiting {
    pub(super) fn new(per_guest: u64, in_all: u64) -> Waiting {
        Waiting { per_guest, in_all, packets: BTreeMap::new(), next: 0, held: 0, of_guests: HashMap::new() }
    }

    /// False: there is no room for it.
    pub(super) fn put(&mut self, due: u64, packet: Packet) -> bool {
        let (port, bytes) = (packet.call.key.port, packet.bytes());
        let held = self.of_guests.get(&port).copied().unwrap_or(0);
        if held + bytes > self.per_guest || self.held + bytes > self.in_all {
            return false;
        }
        self.of_guests.insert(port, held + bytes);
        self.held += bytes;
        self.packets.insert((due, self.next), packet);
        self.next += 1;
        true
    }

    /// One that is due at `now`, ns.
    pub(super) fn take(&mut self, now: u64) -> Option<Packet> {
        let entry = self.packets.first_entry().filter(|entry| entry.key().0 <= now)?;
        let packet = entry.remove();
        let (port, bytes) = (packet.call.key.port, packet.bytes());
        self.held -= bytes;
        match self.of_guests.get_mut(&port) {
            Some(held) if *held > bytes => *held -= bytes,
            _ => drop(self.of_guests.remove(&port)),
        }
        Some(packet)
    }

    /// When the next one is due, ns.
    pub(super) fn due(&self) -> Option<u64> {
        self.packets.keys().next().map(|(due, _)| *due)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::state::fastlane::FastKey;
    use port::VnetHeader;

    fn packet(port: u32, seq: u32) -> Packet {
        let key = FastKey { port, ..FastKey::default() };
        let frame = Frame { header: VnetHeader::default(), bytes: vec![0; 744], l4: 34 };
        let way = Way { device: 1, mark: port, priority: 0 };
        Packet { call: FastCall { key, seq, ..FastCall::default() }, sends: Sends::Here(way, frame) }
    }

    #[test]
    fn no_guest_takes_all_and_what_leaves_makes_room() {
        let mut waiting = Waiting::new(2_500, 4_000);
        assert!(waiting.put(30, packet(1, 0)) && waiting.put(10, packet(1, 1)));
        assert!(!waiting.put(10, packet(1, 2)), "the first guest's share is full");
        assert!(waiting.put(10, packet(2, 3)) && waiting.put(20, packet(2, 4)));
        assert!(!waiting.put(20, packet(3, 5)), "all of it is");
        assert_eq!((waiting.due(), waiting.len()), (Some(10), 4));
        assert!(waiting.take(9).is_none());
        let order: Vec<u32> = std::iter::from_fn(|| waiting.take(100)).map(|packet| packet.call.seq).collect();
        assert_eq!(order, [1, 3, 4, 0], "by due time, then as they came");
        assert_eq!((waiting.held, waiting.of_guests.len(), waiting.due()), (0, 0, None));
        assert!(waiting.put(0, packet(1, 6)) && waiting.put(0, packet(1, 7)));
    }
}
