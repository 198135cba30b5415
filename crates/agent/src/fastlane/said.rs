//! What the thread is told: when it starts, and by others later.

use agent_api::config::FastLane as Config;
use kernel::state::fastlane::{FastCall, FastKey};

/// What the thread was started with; with others it is started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// ifindex of both ends of the pair by which segments come again.
    pub(crate) devices: [u32; 2],
}

/// What a peer says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromPeer {
    /// Its number.
    pub(crate) peer: u32,
    /// The guest's here and its MAC address; the connection by the direction in which that guest sends.
    pub(crate) key: FastKey,
    pub(crate) guest: [u8; 6],
    pub(crate) detail: u8,
    /// When this host heard it, ns of CLOCK_MONOTONIC.
    pub(crate) time: u64,
    /// The packets, as their sender has sent them.
    pub(crate) packet: wire::Packet,
}

/// A drop that somebody told of, without the packet's payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    /// Of which [`FastCall::what`] is filled in here.
    pub(crate) call: FastCall,
    /// MAC address.
    pub(crate) guest: [u8; 6],
}

/// What others tell the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Reported(Reported),
    /// A peer has dropped packets of a guest here.
    Dropped(FromPeer),
    /// A peer asks for what was dropped here of a guest of its own.
    Again(FromPeer),
}
