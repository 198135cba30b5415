//! [`Packet`], the edge's view of a frame: mirror of `struct sv_packet`, with the constants of its fields.

use crate::FlowKey;

/// TCP header flags as on the wire (RFC 9293 section 3.1, RFC 3168).
pub mod tcp {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// ECN codepoints (RFC 3168 section 5).
pub mod ecn {
    pub const NOT_ECT: u8 = 0;
    pub const ECT1: u8 = 1;
    pub const ECT0: u8 = 2;
    pub const CE: u8 = 3;
}

/// IP protocol numbers.
pub mod proto {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
}

/// Bits of [`Packet::dirty`].
pub mod dirty {
    pub const WINDOW: u16 = 0x0001;
    pub const ECN: u16 = 0x0002;
    /// Metadata: the driver carries the label, [`write_back`](crate::write_back) does not.
    pub const LABEL: u16 = 0x0004;
    /// TCP flags and [`reserved`](super::reserved) bits.
    pub const FLAGS: u16 = 0x0008;
    /// The feedback option came or went, [`Packet::pack`]. Frames change their length with it:
    /// [`write_back_resized`](crate::write_back_resized).
    pub const OPTION: u16 = 0x0010;
    /// With [`FLAGS`]: the bit by which a SYN offers accurate ECN (RFC 9768) is to be 0.
    pub const AE: u16 = 0x0020;
    /// The sequence number of a pure ACK.
    pub const SEQ: u16 = 0x0040;
}

/// TCP's reserved bits (byte 12 of its header), by which edges speak to one another; guests neither see nor set them.
pub mod reserved {
    pub const MASK: u8 = 0x0e;
    /// The sender's edge does virtual congestion control.
    pub const EDGE: u8 = 0x08;
    /// The guest itself had sent the packet as ECN-capable.
    pub const ECT: u8 = 0x04;
    /// The last option is the feedback of docs/wire.md. A packet without the ACK flag is then feedback only, for the edge
    /// and not for the guest.
    pub const PACK: u8 = 0x02;
}

/// [`Packet::wscale`] of a SYN that is signed (RFC 2385, RFC 5925). [`emit`](crate::emit) leaves the signature itself empty.
pub const SIGNED: u8 = 0xff;

/// Values of [`Packet::pack`].
pub mod pack {
    pub const NONE: u8 = 0;
    pub const OK: u8 = 1;
    /// Announced, and not there.
    pub const MALFORMED: u8 = 2;
    /// In the shim of version 2: the TCP header has none.
    pub const SHIM: u8 = 3;
    /// Bytes that the option adds to a TCP header.
    pub const LEN: u8 = 8;
}

/// Values of [`Packet::wire`].
pub mod version {
    /// Reports stand in TCP's header, the outer ECN field is the inner one's; also without any tunnel.
    pub const ONE: u8 = 0;
    /// As [`ONE`], without a tunnel and between edges that know of one another.
    pub const PLAIN: u8 = 1;
    /// Version 2 of docs/wire.md: reports stand in a shim, the outer ECN field is the edges'.
    pub const TWO: u8 = 2;
}

/// Parsed headers and edge metadata of one segment, in host byte order: the mirror of `struct sv_packet`.
///
/// A segment may be larger than a packet; [`segment_size`](Packet::segment_size) says how the NIC splits it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Packet {
    /// Most significant word first; IPv4 as `::ffff:a.b.c.d`, see [`v4`].
    pub saddr: [u32; 4],
    pub daddr: [u32; 4],
    pub seq: u32,
    pub ack: u32,
    /// Transport payload of the whole segment, bytes.
    pub payload: u32,
    /// Flowcell number modulo 2^32; means something when `has_cell` is 1.
    pub cell: u32,
    pub sport: u16,
    pub dport: u16,
    /// Payload bytes per packet once the NIC has split; 0: it fits in one.
    pub segment_size: u16,
    /// TCP's window field as on the wire, unscaled.
    pub window: u16,
    /// Path label, 0: none.
    pub label: u16,
    /// MSS option of a SYN, bytes; 0: none.
    pub mss: u16,
    /// Fields that the edge changed, [`dirty`].
    pub dirty: u16,
    /// IP protocol, [`proto`].
    pub proto: u8,
    /// 4 or 6.
    pub family: u8,
    /// [`tcp`] flags.
    pub tcp_flags: u8,
    /// ECN codepoint, [`ecn`].
    pub ecn: u8,
    /// Window scale option of a SYN: shift + 1; 0: none; [`SIGNED`].
    pub wscale: u8,
    /// What the edge asks to have sent besides this packet; drivers use `Edge::poll_transmit`.
    pub emit: u8,
    /// 1: the IP length exceeds the bytes that are there.
    pub truncated: u8,
    /// Bytes, extension headers included.
    pub ip_header_len: u8,
    /// Bytes.
    pub l4_header_len: u8,
    /// 1: `cell` means something.
    pub has_cell: u8,
    /// TCP's [`reserved`] bits.
    pub tcp_reserved: u8,
    /// The feedback option of docs/wire.md, [`pack`]. It is counted in `l4_header_len`.
    pub pack: u8,
    /// Payload bytes received, modulo 2^24, most significant byte first.
    pub pack_total: [u8; 3],
    /// Those of them that came in marked packets.
    pub pack_ce: [u8; 3],
    /// How edges speak to one another on the packet's way: [`version`].
    pub wire: u8,
    /// Egress with [`version::TWO`]: codepoint of the outer header where the inner one is Not-ECT.
    pub outer_ecn: u8,
    /// Ingress with [`version::TWO`]: inner codepoint as it came.
    pub sent_ecn: u8,
    /// Ingress: 1: CE was met on the way.
    pub marked: u8,
    /// To the peer, or from it: 0: none; 1: CE; 2: utilisation; 3: marks counted.
    pub feedback: u8,
    /// Index of the path that it is about; of counts, the high byte.
    pub feedback_path: u8,
    /// 1/255 of capacity, for utilisation; of counts, the low byte.
    pub feedback_value: u8,
    /// To the guest: 1: marks that the packet reports do not count, load balancing answers to them.
    pub masked: u8,
}

const _: () = assert!(size_of::<Packet>() == 88);

/// An IPv4 address in the form of [`Packet::saddr`].
pub const fn v4(addr: [u8; 4]) -> [u32; 4] {
    [0, 0, 0xffff, u32::from_be_bytes(addr)]
}

impl Packet {
    /// The flow of this packet in the direction it travels.
    pub fn flow_key(&self) -> FlowKey {
        FlowKey {
            saddr: self.saddr,
            daddr: self.daddr,
            sport: self.sport,
            dport: self.dport,
            proto: self.proto,
            pad: [0; 3],
        }
    }

    /// The codepoint that the network sees: the outer header's, where there is one.
    pub fn network_ecn(&self) -> u8 {
        if self.wire == crate::version::TWO {
            self.outer_ecn
        } else {
            self.ecn
        }
    }

    /// Sets CE where the network sees it, if the packet may be marked; says whether it may.
    pub fn mark_ce(&mut self) -> bool {
        let markable = self.network_ecn() != ecn::NOT_ECT;
        if markable && self.wire == crate::version::TWO {
            self.outer_ecn = ecn::CE;
        } else if markable {
            self.ecn = ecn::CE;
        }
        markable
    }

    /// True when any of the [`tcp`] flags in `flags` is set.
    pub fn has_flags(&self, flags: u8) -> bool {
        self.tcp_flags & flags != 0
    }

    /// The first sequence number after this segment; SYN and FIN count one each.
    pub fn end_seq(&self) -> u32 {
        let phantom = u32::from(self.has_flags(tcp::SYN)) + u32::from(self.has_flags(tcp::FIN));
        self.seq.wrapping_add(self.payload).wrapping_add(phantom)
    }

    /// Packets on the wire once the NIC has split this segment, at least 1.
    pub fn packet_count(&self) -> u32 {
        match self.segment_size {
            0 => 1,
            size => self.payload.div_ceil(u32::from(size)).max(1),
        }
    }
}
