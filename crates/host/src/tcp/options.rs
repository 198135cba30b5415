//! What FastLane's and pFabric's senders may be told.

use crate::tcp::dropped::Slowdown;

/// How an endpoint uses notifications. Both ends of a connection need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastLane {
    pub slowdown: Slowdown,
    /// ACKs tell how many bytes the receiver holds beyond them, and the sender sends that much more.
    pub inflate: bool,
    /// Packets tell how many timeouts their sender had, so that it ignores notifications from before the last one.
    pub count: bool,
}

impl Default for FastLane {
    fn default() -> FastLane {
        FastLane { slowdown: Slowdown::ByRetries, inflate: true, count: true }
    }
}

/// What pFabric's transport may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PFabric {
    pub rank: Rank,
    /// So many timeouts in a row, and only probes leave.
    pub probe_after: u32,
    /// With FastLane a probe goes before what was dropped is sent again, one packet of it at first (section 3.4.2). Else that goes at once:
    /// half a window at first, and one more for each that arrives.
    pub probe_drops: bool,
}

impl Default for PFabric {
    fn default() -> PFabric {
        PFabric { rank: Rank::Size, probe_after: 5, probe_drops: true }
    }
}

/// What ranks a data packet, the smaller the more urgent. Packets without data have rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// All bytes of its message, as in FastLane's report.
    #[default]
    Size,
    /// Bytes of its message from this packet on, as in pFabric's paper.
    Remaining,
}
