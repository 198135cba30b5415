//! The hidden overlay (`datapath/hidden.h`, docs/wire.md): which guest is behind which edge, and what is counted.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// All edges, and their guests. The operator's, as the routes of a tunnel are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peers {
    /// By the guest's address, IPv4; looked up only.
    edge_of: FxHashMap<u32, u32>,
    edges: FxHashSet<u32>,
}

impl Peers {
    /// Pairs of a guest's address and its edge's, IPv4.
    pub fn new(guests: impl IntoIterator<Item = (u32, u32)>) -> Peers {
        let edge_of: FxHashMap<u32, u32> = guests.into_iter().collect();
        Peers { edges: edge_of.values().copied().collect(), edge_of }
    }

    /// The edge of the guest with this address; 0: nobody has it.
    pub(crate) fn edge_of(&self, guest: &[u32; 4]) -> u32 {
        match guest {
            [0, 0, 0xffff, v4] => self.edge_of.get(v4).copied().unwrap_or(0),
            _ => 0,
        }
    }

    pub(crate) fn is_edge(&self, address: &[u32; 4]) -> bool {
        matches!(address, [0, 0, 0xffff, v4] if self.edges.contains(v4))
    }
}

/// How one edge hides its guests' packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Its own address in the fabric, IPv4, which no guest has.
    pub address: u32,
    pub peers: Arc<Peers>,
    /// Bytes of an IP packet in the fabric.
    pub mtu: u16,
}

/// Packets are those that the fabric carries; segments are what a guest sends at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments that left with their five-tuple in the option.
    pub hidden_segments: u64,
    /// TCP segments to guests of other edges that left as they were, because the option had no room.
    pub no_room_segments: u64,
    /// Other traffic: UDP, IPv6, and to addresses that are nobody's.
    pub plain_segments: u64,
    /// SYNs whose MSS was lowered.
    pub lowered_mss: u64,
    /// Packets from other edges that were restored.
    pub restored_packets: u64,
    /// Packets to this edge that were dropped: without the option, or with one that no edge has written.
    pub malformed_packets: u64,
    /// Packets to this edge that were dropped: the sender's edge has no such guest, or this one has not.
    pub forged_packets: u64,
    /// Segments of guests that were dropped: under another's address, or to an edge.
    pub refused_segments: u64,
}
