//! Mirrors of the values in `datapath/kernel/fastlane.h`.

use super::Plain;

/// `struct sv_fast_key`: a connection, by the direction in which its guest sends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FastKey {
    pub key: wire::FlowKey,
    /// ifindex of the guest's port.
    pub port: u32,
}

/// Of [`FastConf::bytes`]: the interval, ns.
pub const FAST_INTERVAL_NS: u64 = 10_000_000;

/// `struct sv_fast_conf`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastConf {
    /// Of what is dropped of one guest, the agent is told of so many bytes in [`FAST_INTERVAL_NS`].
    pub bytes: u64,
}

/// `struct sv_fast_reasons`: numbers of this kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastReasons {
    /// Bits of the reasons for which queues drop.
    pub queues: [u64; 4],
    /// Of packets that a tc program drops on ingress, on egress; 0: none.
    pub shot: [u32; 2],
    /// Inode of the network namespace.
    pub netns: u32,
    pub pad: u32,
}

/// Of [`FastDrop::place`]: on the way to a peer in the tunnel, without one, to a guest of this host, in the queue of the sender's limit,
/// and by the edge itself.
pub const FAST_UNDERLAY: u8 = 1;
pub const FAST_PLAIN: u8 = 2;
pub const FAST_PORT: u8 = 3;
pub const FAST_LIMITER: u8 = 4;
pub const FAST_EDGE: u8 = 5;
/// Of a guest elsewhere, on the way to a guest of this host: [`FastDrop::key`] is of the other direction.
pub const FAST_OF_PEER: u8 = 6;

/// `struct sv_fast_drop`: a segment of a guest that this host has dropped. Its bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastDrop {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    pub key: FastKey,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
    /// Bytes that follow.
    pub len: u32,
    /// Of these, where the guest's IP header begins.
    pub at: u32,
    /// ifindex of that whose queue dropped it.
    pub device: u32,
    /// With which it was queued.
    pub mark: u32,
    pub priority: u32,
    /// Payload bytes of each packet; 0: it is one packet.
    pub segment_size: u16,
    pub tcp_flags: u8,
    /// `FAST_*`
    pub place: u8,
    pub family: u8,
    pub ip_header_len: u8,
    pub l4_header_len: u8,
    /// 1: of the transport checksum only the pseudo-header is summed up.
    pub unfinished: u8,
    /// The guest's header.
    pub ethernet: [u8; 14],
    pub reason: u8,
    /// 1: edges speak in TCP's reserved bits, and have written the guest's ECN field (docs/wire.md, version 1).
    pub spoken: u8,
    /// Of [`FAST_OF_PEER`]: its number.
    pub peer: u32,
}

/// Of [`FastCall::what`]: the agent has the packet's bytes; somebody says that it was dropped; it has waited.
pub const FAST_DROPPED: u8 = 0;
pub const FAST_REPORTED: u8 = 1;
pub const FAST_DUE: u8 = 2;
/// It was to wait, and nobody keeps it.
pub const FAST_GIVEN_UP: u8 = 3;
/// A peer has dropped it, and has its bytes.
pub const FAST_ELSEWHERE: u8 = 4;

/// `struct sv_fast_call`: what is to be done about a packet?
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCall {
    pub key: FastKey,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
    pub tcp_flags: u8,
    /// `FAST_*`
    pub what: u8,
    /// Written: 1 if the packet is to have the TCP timestamp `stamp`, if that is later than its own.
    pub stamped: u8,
    pub pad: u8,
    pub stamp: u32,
    /// Written: when to ask again, ns of CLOCK_MONOTONIC.
    pub due: u64,
    /// Written: an ACK of which the guest is to get three.
    pub answer: wire::Packet,
    /// Of [`FAST_DROPPED`] and [`FAST_ELSEWHERE`]: when it was dropped, ns of CLOCK_MONOTONIC; 0: nobody knows.
    pub dropped: u64,
}

plain!(FastKey = 44, FastConf = 8, FastReasons = 48, FastDrop = 112, FastCall = 168);

/// `struct sv_fast_counts`, summed over CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCounts {
    /// Segments dropped by this host of which the agent was told.
    pub told: u64,
    /// Their frames.
    pub told_bytes: u64,
    /// Dropped TCP segments of no connection that is followed.
    pub foreign: u64,
    /// More of one guest than the agent is told of in a while.
    pub withheld: u64,
    /// Longer than what the agent can be told.
    pub large: u64,
    /// For which the agent's buffer had no room.
    pub lost: u64,
    /// Segments of guests that did not leave: the edge's own copies are under way.
    pub suppressed: u64,
    /// ACKs whose window was lowered.
    pub lowered: u64,
    /// Segments without room for their connection's state.
    pub full: u64,
}

plain!(FastCounts = 72);

impl FastCounts {
    pub(crate) fn add(&mut self, other: &FastCounts) {
        for (sum, n) in [
            (&mut self.told, other.told),
            (&mut self.told_bytes, other.told_bytes),
            (&mut self.foreign, other.foreign),
            (&mut self.withheld, other.withheld),
            (&mut self.large, other.large),
            (&mut self.lost, other.lost),
            (&mut self.suppressed, other.suppressed),
            (&mut self.lowered, other.lowered),
            (&mut self.full, other.full),
        ] {
            *sum = sum.wrapping_add(n);
        }
    }
}
