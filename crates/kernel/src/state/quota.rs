//! Mirrors of `datapath/quota.h` and `datapath/kernel/quota.h`: who may have how many slots of a table, and who has.

use super::Plain;

/// The connections of the edge.
pub const TABLE_FLOWS: u16 = 0;
/// Those through rate limits.
pub const TABLE_LIMITED: u16 = 1;
/// Pairs of guests whose shares are counted.
pub const TABLE_PAIRS: u16 = 2;
/// Connections that FastLane follows.
pub const TABLE_FASTLANE: u16 = 3;
/// Of [`TallyKey::kind`]: the whole table, a port by its ifindex, a network.
pub const TALLY_TABLE: u16 = 0;
pub const TALLY_PORT: u16 = 1;
pub const TALLY_NETWORK: u16 = 2;

/// `struct sv_bounds`, of one table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Slots; 0: no quotas.
    pub table: u32,
    /// Slots of one port at most.
    pub port: u32,
    /// Slots of one network at most.
    pub network: u32,
    pub pad: u32,
}

/// `struct sv_tally_key`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TallyKey {
    /// `TABLE_*`
    pub table: u16,
    /// `TALLY_*`
    pub kind: u16,
    pub id: u32,
}

impl TallyKey {
    pub fn new(table: u16, kind: u16, id: u32) -> TallyKey {
        TallyKey { table, kind, id }
    }
}

/// `struct sv_tally`: what a table, a port or a network holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub flows: i32,
    /// Of these, begun from outside or perhaps so, and not settled.
    pub unsettled: i32,
}

impl Tally {
    pub(crate) fn add(&mut self, flows: i32, unsettled: i32) {
        self.flows += flows;
        self.unsettled += unsettled;
    }
}

/// `SV_CHARGED_*`: what a slot was charged as whose key names no network. 0: nobody was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charged(pub(crate) u32);

impl Charged {
    const PORT: u32 = 1 << 31;
    const NETWORK: u32 = 1 << 30;
    const OUTSIDE: u32 = 1 << 29;
    const VNI: u32 = (1 << 24) - 1;

    /// The port that was charged, if it was: `port`.
    pub(crate) fn port(self, port: u32) -> Option<u32> {
        (self.0 & Self::PORT != 0).then_some(port)
    }

    /// The network that was.
    pub(crate) fn network(self) -> Option<u32> {
        (self.0 & Self::NETWORK != 0).then_some(self.0 & Self::VNI)
    }

    /// As begun from outside and not settled?
    pub(crate) fn outside(self) -> bool {
        self.0 & Self::OUTSIDE != 0
    }
}

plain!(Bounds = 16, TallyKey = 8, Tally = 8, Limited = 48);

/// `struct sv_limited_key`: a connection through a limiter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limited {
    /// Of the limited direction.
    pub key: wire::FlowKey,
    pub limiter: super::limiter::LimiterKey,
}
