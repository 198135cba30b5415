//! The one host that all scripts play on: a guest, a neighbour beside it, and peers with guests of their own.

use wire::{v4, ParseError};

/// The guests' network.
pub const VNI: u32 = 7;
/// UDP port of the encapsulation.
pub const PORT: u16 = 4789;
/// The schedule towards every peer.
pub const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// The edge's own, in answers about guests whose MAC address is not known.
pub const EDGE_MAC: [u8; 6] = [0x02, 0xed, 0x9e, 0, 0, 1];

/// Inner addresses of one guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest {
    pub v4: [u32; 4],
    pub v6: [u32; 4],
    /// Written over the destination of what goes to it; zero: left as it is.
    pub mac: [u8; 6],
}

const fn guest(n: u8, mac: [u8; 6]) -> Guest {
    Guest { v4: v4([10, 7, 0, n]), v6: [0xfd07_0000, 0, 0, n as u32], mac }
}

/// The guest of this host whose port the scripts use.
pub const GUEST: Guest = guest(1, [0; 6]);
/// Another guest of this host.
pub const NEIGHBOUR: Guest = guest(9, [0x02, 0, 0, 0, 0, 0x99]);

/// Another host.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub name: &'static str,
    /// Outer address, as in a packet.
    pub address: [u32; 4],
    /// 4 or 6, of the outer address.
    pub family: u8,
    /// The highest version of docs/wire.md that is spoken to it; 0: plain VXLAN.
    pub version: u8,
    pub guest: Guest,
}

pub const PEERS: [Peer; 6] = [
    Peer { name: "peer", address: v4([192, 168, 99, 2]), family: 4, version: 1, guest: guest(2, [0; 6]) },
    Peer {
        name: "plain",
        address: v4([192, 168, 99, 3]),
        family: 4,
        version: 0,
        guest: guest(3, [0x02, 0, 0, 0, 0, 0x33]),
    },
    Peer { name: "six", address: [0xfd99_0000, 0, 0, 4], family: 6, version: 1, guest: guest(4, [0; 6]) },
    Peer { name: "six-plain", address: [0xfd99_0000, 0, 0, 5], family: 6, version: 0, guest: guest(5, [0; 6]) },
    Peer { name: "two", address: v4([192, 168, 99, 6]), family: 4, version: 2, guest: guest(6, [0; 6]) },
    Peer { name: "six-two", address: [0xfd99_0000, 0, 0, 7], family: 6, version: 2, guest: guest(7, [0; 6]) },
];

/// Outer addresses of a host that is nobody's peer, IPv4 and IPv6.
pub const STRANGER: [[u32; 4]; 2] = [v4([192, 168, 99, 77]), [0xfd99_0000, 0, 0, 0x77]];

/// Outer addresses of this host.
pub(crate) fn local(family: u8) -> [u32; 4] {
    if family == 4 {
        v4([192, 168, 99, 1])
    } else {
        [0xfd99_0000, 0, 0, 1]
    }
}

impl Guest {
    pub fn address(&self, family: u8) -> [u32; 4] {
        if family == 4 {
            self.v4
        } else {
            self.v6
        }
    }

    pub(crate) fn has(&self, address: &[u32; 4]) -> bool {
        self.v4 == *address || self.v6 == *address
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Through the stages, and on.
    Forward,
    /// On, without flow state.
    Carry,
    /// To another guest of this host.
    Local,
    /// Left to the host as it came.
    Pass,
    /// Encapsulated, but for nobody here: left to the host as it came.
    Nobody,
    DropEcn,
    DropStranger,
    DropLarge,
    /// Not from the guest's own address.
    DropSpoofed,
    /// Tagged, on a strict port.
    DropTagged,
    /// Neither ARP nor an IP packet that parses, on a strict port.
    DropMalformed,
    /// To the tunnel's port of no guest.
    DropTunnel,
    /// For the host, on an isolated port.
    DropHost,
    /// The outer lengths are not the frame's.
    DropLengths,
    /// The inner source is no guest of the peer that sent it.
    DropForged,
    /// Larger than the port allows: dropped, and answered now and then.
    Oversize,
    /// Turned into the answer to its question.
    Answer,
    /// Beyond the window that the guest was granted.
    DropPoliced,
    /// Beyond its share of the uplink.
    DropOverRate,
    /// A report for the edge, and nothing else.
    Consume,
}

impl Verdict {
    pub(crate) const NAMES: [(&'static str, Verdict); 20] = [
        ("forward", Verdict::Forward),
        ("carry", Verdict::Carry),
        ("local", Verdict::Local),
        ("pass", Verdict::Pass),
        ("nobody", Verdict::Nobody),
        ("drop-ecn", Verdict::DropEcn),
        ("drop-stranger", Verdict::DropStranger),
        ("drop-large", Verdict::DropLarge),
        ("drop-spoofed", Verdict::DropSpoofed),
        ("drop-tagged", Verdict::DropTagged),
        ("drop-malformed", Verdict::DropMalformed),
        ("drop-tunnel", Verdict::DropTunnel),
        ("drop-host", Verdict::DropHost),
        ("drop-lengths", Verdict::DropLengths),
        ("drop-forged", Verdict::DropForged),
        ("oversize", Verdict::Oversize),
        ("answer", Verdict::Answer),
        ("drop-policed", Verdict::DropPoliced),
        ("drop-over-rate", Verdict::DropOverRate),
        ("consume", Verdict::Consume),
    ];

    /// What a tc program returns: TC_ACT_REDIRECT, TC_ACT_UNSPEC or TC_ACT_SHOT; also TC_ACT_REDIRECT where an oversize packet
    /// is answered.
    pub fn action(self) -> u32 {
        match self {
            Verdict::Forward | Verdict::Carry | Verdict::Local | Verdict::Answer => 7,
            Verdict::Pass | Verdict::Nobody => u32::MAX,
            _ => 2,
        }
    }
}

/// Why a frame did not go through the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No [`Packet`](wire::Packet) can be made of it.
    Parse(ParseError),
    /// It has a VLAN tag: no guest's own.
    Tagged,
    /// Nobody knows its destination.
    Route,
    /// It is not in the format of the encapsulation.
    Format,
}

impl Why {
    pub(crate) const NAMES: [(&'static str, Why); 8] = [
        ("not-ip", Why::Parse(ParseError::NotIp)),
        ("transport", Why::Parse(ParseError::NotTransport)),
        ("fragment", Why::Parse(ParseError::Fragment)),
        ("malformed", Why::Parse(ParseError::Malformed)),
        ("short", Why::Parse(ParseError::Short)),
        ("tagged", Why::Tagged),
        ("route", Why::Route),
        ("format", Why::Format),
    ];
}
