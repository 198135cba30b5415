//! Rows of maps, and what of the pinned ones decides new ones.

use kernel::state::{Peer, Plain};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Rows of a map, as the kernel sees them.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What of the pinned state decides numbers that must stay as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Numbers of peers.
    pub(crate) peers: Vec<(u32, Peer)>,
    /// Of the flow hash.
    pub(crate) seed: u64,
    /// Of the tables, see [`kernel::state::Config::epoch`].
    pub(crate) epoch: u32,
    /// Numbers of guests' shares, by ifindex of their ports.
    pub(crate) shares: BTreeMap<u32, u16>,
    /// MTUs of paths that are smaller than the uplink's, for guests' packets, bytes; by peers' addresses.
    pub(crate) path_mtus: BTreeMap<IpAddr, u16>,
    /// What exceeds a guest's share can wait.
    pub(crate) waits: bool,
    /// Peers are asked whether they are there.
    pub(crate) asks: bool,
    /// ifindex of both ends of the pair of devices that cuts segments, where it is in place.
    pub(crate) cutter: Option<[u32; 2]>,
    /// The same of the pair by which FastLane sends again.
    pub(crate) again: Option<[u32; 2]>,
}

/// A key or a value.
pub(crate) fn row(value: &impl Plain) -> Vec<u8> {
    value.as_bytes().to_vec()
}
