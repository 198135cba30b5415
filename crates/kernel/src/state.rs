//! Mirrors of the map values in `datapath/kernel/state.h`, and of what they contain.

use std::net::IpAddr;
use wire::FlowKey;

pub use counters::{Counter, Counters};
pub use edge::MAX_LABELS;
pub use paths::{PeerPaths, PEER_RELAY_BYTES};
pub use tenants::{PairKey, PairSlot, Share, Sharing, Tenants, MAX_SHARES};
pub use wire::{address, words};

/// Plain data that crosses the kernel's border as bytes.
///
/// # Safety
/// Implementors are `repr(C)`, without padding bytes and without invalid bit patterns.
pub unsafe trait Plain: Copy {
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the trait's promise: every byte is initialised.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// `None` unless there are exactly as many bytes as the type has.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the trait's promise: any bytes are a value; the length was checked, alignment is not needed.
        (bytes.len() == size_of::<Self>()).then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

macro_rules! plain {
    ($($name:ident = $size:literal),* $(,)?) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
        // SAFETY: repr(C), integers and arrays of them only; padding is explicit, as the size asserts.
        unsafe impl Plain for $name {}
    )*};
}

mod counters;
pub mod fastlane;
pub mod limiter;
mod paths;
pub mod quota;
mod tenants;

plain!(
    Config = 80,
    Port = 56,
    RouteKey = 24,
    Route = 16,
    Tunnel = 48,
    Peer = 576,
    FlowSlotKey = 44,
    Flow = 16,
    Divert = 20,
    FlowSlot = 328,
    ReorderAlive = 16,
    Bounce = 40,
    Return = 32,
    Mark = 56,
    TickCall = 16
);

const _: () = assert!(size_of::<Event>() == 48 + size_of::<wire::Packet>());
// SAFETY: as above; the size shows that there is no padding.
unsafe impl Plain for Event {}

// SAFETY: integers have no padding and no invalid values.
unsafe impl Plain for u32 {}
// SAFETY: repr(C), integers only; its size in the data path is asserted where it is defined, and has no padding.
unsafe impl Plain for wire::encap::Heard {}

/// Deliver what hosts that are no peers send, without its metadata; else it is dropped.
pub const CONFIG_ANY_PEER: u16 = 1;
/// Virtual congestion control, as the map `congestion` says.
pub const CONFIG_CONGESTION: u16 = 2;
/// Segments that arrive before an earlier flowcell is complete go through the agent's thread, while [`ReorderAlive`] says that it runs.
pub const CONFIG_REORDER: u16 = 4;
/// The agent wants to hear of replies to probes.
pub const CONFIG_DISCOVERS: u16 = 8;
/// Switches notify of what they drop in the tunnel.
pub const CONFIG_NOTIFIED: u16 = 0x10;
/// The labels of a peer are those of paths that were discovered.
pub const PEER_DISCOVERED: u16 = 1;
/// The guest's end of the veth pair is in another network namespace: deliver straight to it.
pub const PORT_PEER: u32 = 1;
/// Send [`EVENT_GUEST`] for source addresses that have no route to this port.
pub const PORT_LEARN: u32 = 2;
/// Drop what comes from such addresses; link-local and unspecified ones are let through to the host.
pub const PORT_STRICT: u32 = 4;
/// Of a strict port: drop what comes from another MAC address than the port's.
pub const PORT_OWN_MAC: u32 = 0x20;
/// Nothing that the guest sends reaches the host's stack.
pub const PORT_ISOLATED: u32 = 0x40;
/// No guest's: what comes out of the limiter, with the port's number as its mark.
pub const PORT_LIMITER: u32 = 8;
/// What the guest sends is limited, and comes back with the port's number as its mark where it is for the host.
pub const PORT_LIMITED: u32 = 16;
/// With a number: key of the row of a port that is limited, and has no network or no device of ours for its queue; its `vni` is the port's
/// ifindex, and with a network it has [`PORT_LIMITED`].
pub const RETURN: u32 = 1 << 31;
/// With [`PORT_LIMITER`]: what comes out of the cutter.
pub const PORT_CUTTER: u32 = 128;
/// With [`PORT_LIMITER`]: a device of the host's own. What has no number ([`RETURN`]) there is another's.
pub const PORT_SHARED: u32 = 256;
/// Of a number in a queue ([`RETURN`]): what has it goes into the guest, whose own end has a program.
pub const PORT_INSIDE: u32 = 0x200;
/// [`Port::vni`] of a port that is between two networks: no number of 24 bits.
pub const PORT_CLOSED: u32 = 1 << 24;
pub const ROUTE_LOCAL: u32 = 1;
pub const ROUTE_PEER: u32 = 2;
/// The highest version of docs/wire.md that is spoken to a peer: plain VXLAN.
pub const VERSION_PLAIN: u8 = 0;
/// What edges spoke before version 2. For tests: the edge then is to this peer as one of that time.
pub const VERSION_1: u8 = 1;
/// What is spoken to edges, as soon as they are known to understand it.
pub const VERSION_2: u8 = 2;

/// `struct sv_config`: the one configuration of the data path.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// ns without a packet after which a flow is forgotten.
    pub idle_ns: u64,
    pub balance: edge::balance::Conf,
    /// Of the flow hash.
    pub seed: u64,
    /// Where encapsulated frames arrive; 0: none are taken.
    pub udp_port: u16,
    /// `CONFIG_*`.
    pub flags: u16,
    /// Answers address resolution for guests elsewhere whose own MAC address is not known; zero: no answer.
    pub mac: [u8; 6],
    pub pad: [u8; 2],
    /// The loader counts it up after every change of ports, routes and remotes; 0: flows do not keep what was found there.
    pub epoch: u32,
    /// ifindex of a device that cuts segments; 0: there is none.
    pub cutter: u32,
    /// With [`Options::test_clock`](crate::Options): the stages' clock, us.
    pub test_now_us: u32,
}

impl Default for Config {
    /// ECMP, 60 s, VXLAN's port.
    fn default() -> Config {
        Config {
            idle_ns: 60_000_000_000,
            balance: edge::balance::Conf::default(),
            seed: 0,
            udp_port: 4789,
            flags: 0,
            mac: [0; 6],
            pad: [0; 2],
            epoch: 0,
            cutter: 0,
            test_now_us: 0,
        }
    }
}

/// `struct sv_port`: a guest's interface.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The guest's network, 24 bits.
    pub vni: u32,
    /// `PORT_*`.
    pub flags: u32,
    /// Written as destination of what the guest gets; zero: left as it is.
    pub mac: [u8; 6],
    /// Largest IP packet, in bytes, that the guest may send to peers, and the bound of MSSs; 0: no bound.
    pub mtu: u16,
    /// The data path's own: when it last sent [`EVENT_GUEST`], ns.
    pub learnt_at_ns: u64,
    /// The data path's own: when it last answered a packet larger than `mtu`, ns.
    pub toobig_at_ns: u64,
    /// The data path's own: when it last told of an answer of the guest's to the agent, ns.
    pub heard_at_ns: u64,
    /// The data path's own: when it last sent [`EVENT_MAC`], ns.
    pub mac_at_ns: u64,
    /// Of the host's uplink, see [`Port::with_share`]; 0: the guest is not held.
    pub share: u32,
    pub pad: u32,
}

impl Port {
    /// The guest is held to its share of the uplink: the number of its row, 1 to [`MAX_SHARES`], and its weight, 1 to 65535.
    #[must_use]
    pub fn with_share(self, number: u16, weight: u16) -> Port {
        Port { share: u32::from(weight) << 16 | u32::from(number), ..self }
    }

    /// In no network ([`PORT_CLOSED`]): nothing reaches its guest, and what it sends is dropped.
    #[must_use]
    pub fn closed(self) -> Port {
        Port { vni: PORT_CLOSED, ..self }
    }

    /// The number of its row among the shares.
    pub fn share_number(&self) -> Option<u16> {
        Some(self.share as u16).filter(|number| *number != 0)
    }
}

/// `struct sv_route_key`; fields in network byte order, see [`RouteKey::new`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteKey {
    prefix_len: u32,
    vni: [u8; 4],
    addr: [u8; 16],
}

impl RouteKey {
    /// Inner addresses `addr`/`len` of network `vni`. Lengths beyond the family's are cut; host bits are ignored.
    pub fn new(vni: u32, addr: IpAddr, len: u8) -> RouteKey {
        let (addr, len) = match addr {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 96 + u32::from(len.min(32))),
            IpAddr::V6(v6) => (v6, u32::from(len.min(128))),
        };
        let kept = if len == 0 { 0 } else { u128::MAX << (128 - len) };
        let bits = u128::from(addr) & kept;
        RouteKey { prefix_len: 32 + len, vni: vni.to_be_bytes(), addr: bits.to_be_bytes() }
    }

    /// The address, as packets have it, if the row is of one.
    pub(crate) fn single(&self) -> Option<[u32; 4]> {
        let bits = u128::from_be_bytes(self.addr);
        (self.prefix_len == 32 + 128).then(|| [96, 64, 32, 0].map(|at| (bits >> at) as u32))
    }
}

/// `struct sv_route`: where an inner destination is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// `ROUTE_*`.
    pub kind: u32,
    /// ifindex of a port, or number of a peer.
    pub target: u32,
    /// Of the guest there; written as inner destination towards a peer; zero: left as it is.
    pub mac: [u8; 6],
    pub pad: [u8; 2],
}

/// `struct sv_tunnel`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    pub local: [u32; 4],
    pub remote: [u32; 4],
    /// Of the next hop; zero: the kernel resolves it by its routes and neighbours.
    pub dmac: [u8; 6],
    pub smac: [u8; 6],
    /// UDP destination port.
    pub port: u16,
    /// 4 or 6.
    pub family: u8,
    /// `VERSION_*`.
    pub version: u8,
}

impl Tunnel {
    /// Between two outer addresses; `None` if they are of different families.
    pub fn new(local: IpAddr, remote: IpAddr, port: u16, version: u8) -> Option<Tunnel> {
        let family = match (local, remote) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 4,
            (IpAddr::V6(_), IpAddr::V6(_)) => 6,
            _ => return None,
        };
        let (local, remote) = (words(local), words(remote));
        Some(Tunnel { local, remote, port, family, version, ..Tunnel::default() })
    }
}

/// `struct sv_peer`: another host.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub tunnel: Tunnel,
    /// Uplink towards it.
    pub ifindex: u32,
    /// `PEER_*`
    pub flags: u16,
    /// Largest IP packet of a guest that the path carries, bytes; 0: not known, as much as the uplink carries.
    pub mtu: u16,
    /// Tells its schedule from others; see [`Peer::with_labels`].
    pub schedule: u32,
    pub n_labels: u32,
    /// The schedule: outer UDP source ports in the order in which flowcells take them; weights by repetition.
    pub labels: [u16; MAX_LABELS],
}

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            tunnel: Tunnel::default(),
            ifindex: 0,
            flags: 0,
            mtu: 0,
            schedule: 0,
            n_labels: 0,
            labels: [0; MAX_LABELS],
        }
    }
}

impl Peer {
    /// Without labels; see [`Peer::with_labels`].
    pub fn new(tunnel: Tunnel, ifindex: u32) -> Peer {
        Peer { tunnel, ifindex, ..Peer::default() }
    }

    /// `labels` beyond [`MAX_LABELS`] are left out.
    pub fn with_labels(mut self, labels: &[u16]) -> Peer {
        let n = labels.len().min(MAX_LABELS);
        self.labels = [0; MAX_LABELS];
        self.labels[..n].copy_from_slice(&labels[..n]);
        self.n_labels = n as u32;
        // FNV-1a: the same labels have the same number in every agent.
        self.schedule = labels[..n].iter().fold(0x811c_9dc5, |hash: u32, label| {
            label.to_ne_bytes().iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
        });
        self
    }

    /// Its schedule.
    pub fn labels(&self) -> &[u16] {
        self.labels.get(..self.n_labels as usize).unwrap_or_default()
    }
}

/// `struct sv_flow_slot_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowSlotKey {
    /// Of the outgoing direction.
    pub key: FlowKey,
    pub vni: u32,
}

/// `struct sv_flow`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// ns, CLOCK_MONOTONIC.
    pub last_seen: u64,
    /// Newest flowcell received, if `has_in_cell`.
    pub in_cell: u32,
    /// 0: new, 1: open, 2: closing.
    pub phase: u8,
    pub has_in_cell: u8,
    /// `FLOW_*`
    pub seen: u8,
    /// ECN codepoint that the guest saw last without a mark, on a network without a tunnel.
    pub codepoint: u8,
}

/// The side that began the flow has sent again after an answer.
pub const FLOW_SETTLED: u8 = 8;

/// `struct sv_flow_slot`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSlot {
    /// The kernel's; reads as zero.
    pub lock: u32,
    /// Of the key; 0: not computed yet.
    pub hash: u32,
    /// ifindex of the port that is charged for it; 0: none is.
    pub port: u32,
    /// It is charged as begun from outside and not settled.
    pub outside: u8,
    /// Its segments are cut: 1: before they are encapsulated, 2: before they leave the tunnel.
    pub cut: u8,
    /// Its place among those that the timer laws look at when they are due; 0: it has none.
    pub timer: u16,
    pub flow: Flow,
    pub balance: edge::balance::State,
    pub out_segments: u64,
    /// Payload.
    pub out_bytes: u64,
    pub in_segments: u64,
    pub in_bytes: u64,
    pub found: Found,
    pub divert: Divert,
    /// Zero without virtual congestion control.
    pub vcc: edge::vcc::State,
}

/// `struct sv_found`: what was found for a flow in ports, routes and remotes; it holds while [`Config::epoch`] is the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub out_epoch: u32,
    pub out_port: u32,
    pub out_peer: u32,
    pub out_mac: [u8; 6],
    pub out_turn: u8,
    pub in_turn: u8,
    pub in_epoch: u32,
    pub in_port: u32,
    pub in_from: [u32; 4],
    pub in_peer: u32,
    /// The highest version that is spoken to that peer.
    pub in_most: u8,
    pub pad: u8,
    /// Of the guest's inner address: 16 bits of which each guest of a network of 65,536 has other ones.
    pub in_to: u16,
}

/// `struct sv_divert`: how far the incoming direction has got, and what of it takes the way through the agent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Divert {
    /// The next sequence number.
    pub exp: u32,
    pub cell: u32,
    /// Units of 2^20 ns.
    pub since: u32,
    /// Numbers mod 2^16 of the segment diverted last, and of that up to which all are back: equal if none is under way.
    pub bounced: u16,
    pub drained: u16,
    pub flags: u8,
    pub pad: [u8; 3],
}

/// `struct sv_reorder_alive`: a sign of life of the agent's thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderAlive {
    /// ns, CLOCK_MONOTONIC.
    pub alive: u64,
    pub secret: u64,
}

/// `struct sv_bounce`: in front of a frame that is diverted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounce {
    pub secret: u64,
    /// ifindex of the guest's port.
    pub port: u32,
    pub vni: u32,
    pub cell: u32,
    pub payload: u32,
    /// Of the flow, before this segment.
    pub exp: u32,
    pub newest_cell: u32,
    pub number: u16,
    pub pad: u16,
    pub first: u8,
    pub has_cell: u8,
    pub pad2: [u8; 2],
}

/// `struct sv_return`: behind the Ethernet header of a frame that is given back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Return {
    pub secret: u64,
    pub port: u32,
    pub vni: u32,
    pub ethernet: [u8; 14],
    pub pad: [u8; 2],
}

/// `struct sv_mark`: up to which number all of a flow is back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub secret: u64,
    pub key: FlowSlotKey,
    pub number: u16,
    pub pad: [u8; 2],
}

/// The type of frames with a [`Mark`].
pub const ETHERTYPE_MARK: u16 = 0x88b5;

/// `struct sv_tick_call`: what is to be done to the flows whose keys follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TickCall {
    /// Of [`TICK_EXPIRE`]: ns, CLOCK_MONOTONIC.
    pub now: u64,
    /// `TICK_*`
    pub what: u32,
    /// At most [`TICK_MAX`].
    pub count: u32,
}

/// Flows of one call.
pub const TICK_MAX: usize = 64;
/// The timer laws, of flows with data outstanding: instead of keys, places in `timers` follow.
pub const TICK_TIMED: u32 = 0;
/// Those of the flows named.
pub const TICK_TIMERS: u32 = 1;
/// The flows are to get the classes that the rules name now.
pub const TICK_RECLASSIFY: u32 = 2;
/// Congestion control begins: what it knew of old is not to be believed.
pub const TICK_FORGET: u32 = 3;
/// What has expired is to be deleted.
pub const TICK_EXPIRE: u32 = 4;
/// Of the shares' program: rates are to be set from now on.
pub const TICK_BEGIN: u32 = 5;
/// Of the shares' program: rates are to be set once.
pub const TICK_RATES: u32 = 6;
/// The same: asks for the marks of pairs that have fallen silent; each key is followed by the guest's address.
pub const TICK_TELL: u32 = 7;
/// The same without a tunnel.
pub const TICK_TELL_PLAIN: u32 = 8;

/// Of a call's result: events are to be read first.
pub const TICK_FULL: u32 = 0x20000;

/// Of [`Event::value`] in [`EVENT_EMIT`]: a report to the peer, before the packet that caused it.
pub const EMIT_FACK: u32 = 1;
/// In [`EVENT_TIMER`]: the packet is to go to the guest once.
pub const EMIT_WINDOW: u32 = 2;
/// In [`EVENT_TIMER`]: the packet is to go to the guest [`DUPLICATE_ACKS`](edge::vcc::DUPLICATE_ACKS) times.
pub const EMIT_DUPACK: u32 = 4;

/// `struct sv_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    /// `EVENT_*`.
    pub kind: u32,
    pub ifindex: u32,
    pub addr: [u32; 4],
    pub value: u32,
    pub mac: [u8; 6],
    pub pad: [u8; 6],
    pub packet: wire::Packet,
}

/// `addr`: inner destination of a segment whose flow is not remembered; `value`: `QUOTA_*`, or 0 if the table is full.
pub const EVENT_TABLE_FULL: u32 = 0;
/// `addr`: outer source.
pub const EVENT_UNKNOWN_PEER: u32 = 1;
/// `addr`: outer source; `value`: the version it speaks.
pub const EVENT_UNKNOWN_VERSION: u32 = 2;
/// `addr`: outer source; the inner source of `packet` is not routed to that peer; `value`: the network.
pub const EVENT_FORGED: u32 = 5;
/// `addr`: outer source; the outer lengths contradict the frame.
pub const EVENT_LENGTHS: u32 = 6;
/// A frame from another MAC address than the port's, which is strict; `addr`: inner source. At most one a second of each port.
pub const EVENT_MAC: u32 = 7;
/// `addr`: inner destination of a guest's segment that was dropped because it was to the tunnel's UDP port.
pub const EVENT_TUNNEL: u32 = 9;
/// A stage asks for a packet to be sent; `value` says which, `packet` caused it.
pub const EVENT_EMIT: u32 = 3;
/// A guest on a port that learns sent from `addr`, which has no route to it; `value`: its network; `mac`: its own.
pub const EVENT_GUEST: u32 = 4;

/// An ACK for a guest is due: `packet`; `value` says which; `ifindex` is its network.
pub const EVENT_TIMER: u32 = 8;

/// A probe's reply; `addr`: outer source; `value`: identifier in the upper 16 bits, outer source port in the lower.
pub const EVENT_REPLY: u32 = 10;

/// A count of marks for a peer's guest: addresses in `packet`; `value`: the count, and [`MARKS_BEGIN`]; `ifindex`: the port here.
pub const EVENT_MARKS: u32 = 11;
/// Of [`EVENT_MARKS`]: the peer is to be told first where the count begins.
pub const MARKS_BEGIN: u32 = 0x10000;

/// New pairs with the guest `addr` of elsewhere are refused from now on, `value` 1, or not any more, 0; `ifindex`: a port here that asked.
/// At most one a second of all.
pub const EVENT_ADMISSION: u32 = 12;

/// A peer has dropped `packet` of a guest of this host, on port `ifindex`; `value`: the peer's number, above it the shim's detail
/// (docs/wire.md).
pub const EVENT_DROPPED: u32 = 13;
/// This host is to send `packet` of a peer's guest again, which it has dropped on its way to the guest on port `ifindex`; `value`: as of
/// [`EVENT_DROPPED`].
pub const EVENT_AGAIN: u32 = 14;
/// A switch has dropped `packet` of a guest of this host, on port `ifindex`, in network `value`.
pub const EVENT_NOTIFIED: u32 = 15;

/// Of [`EVENT_TABLE_FULL`]: the guest's port holds as many flows as it may.
pub const QUOTA_PORT: u32 = 1;
/// Its network does.
pub const QUOTA_NETWORK: u32 = 2;
/// The port holds as many flows as may begin from outside.
pub const QUOTA_OUTSIDE: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_keys_are_in_network_order_without_host_bits() {
        let key = RouteKey::new(7, "10.1.2.3".parse().unwrap(), 24);
        assert_eq!((key.prefix_len, key.vni), (32 + 96 + 24, [0, 0, 0, 7]));
        assert_eq!(key.addr[10..], [0xff, 0xff, 10, 1, 2, 0]);
        assert_eq!(RouteKey::new(0, "::1".parse().unwrap(), 0).addr, [0; 16]);
    }
}
