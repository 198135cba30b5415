//! What the kernel keeps of the paths to each peer, under schemes that keep states of paths.

use super::{Plain, MAX_LABELS};

plain!(PeerPaths = 9224);

/// `struct sv_peer_paths`: what is known of the paths to a peer, by place in its schedule.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerPaths {
    /// The kernel's; reads as zero.
    pub lock: u32,
    /// [`Peer::schedule`](super::Peer::schedule) that the places are of: of another one nothing is known.
    pub schedule: u32,
    pub paths: [edge::PathState; MAX_LABELS],
}

impl Default for PeerPaths {
    /// Nothing.
    fn default() -> PeerPaths {
        PeerPaths { lock: 0, schedule: 0, paths: [edge::PathState::default(); MAX_LABELS] }
    }
}

/// Bytes of `struct sv_peer_relay`, the data path's own; all zero: the peer is to be told nothing.
pub const PEER_RELAY_BYTES: usize = 3348;
