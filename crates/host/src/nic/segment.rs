//! Segments as GRO builds them, and the rules by which a packet joins one.

use fabric::Packet;
use wire::{proto, tcp};

/// Payload of a merged segment must fit an IP packet, bytes.
const MAX_SEGMENT: u32 = 65_535 - 60;

/// What a driver keeps of each packet of a segment.
pub trait Part: std::fmt::Debug {
    fn of(packet: &Packet) -> Self;
}

/// The model has no bytes.
impl Part for () {
    fn of(_: &Packet) {}
}

/// What a driver knows of packets beyond their parsed headers.
pub trait Frames {
    /// What it keeps of each packet in a segment.
    type Part: Part;
    /// The packet's checksum needs no verification before the packet is merged.
    fn is_verified(&self, packet: &Packet) -> bool;
    /// Both packets carry the same bytes of TCP options.
    fn same_options(&self, a: &Packet, b: &Packet) -> bool;
    /// The packet's TCP timestamp, if it has one.
    fn stamp(&self, packet: &Packet) -> Option<u32>;
    /// The option of the hidden overlay in the packet's TCP header, if it has room for one.
    fn hidden(&self, packet: &Packet) -> Option<wire::hidden::Bytes>;
    /// The packet does not pass the edge, which knows TCP and UDP only.
    fn bypasses_edge(&self, packet: &Packet) -> bool;
}

/// The modelled hosts: every checksum is right, and options are parsed.
#[derive(Clone, Copy, Debug)]
pub struct Modelled;

impl Frames for Modelled {
    type Part = ();
    fn is_verified(&self, _: &Packet) -> bool {
        true
    }
    fn same_options(&self, a: &Packet, b: &Packet) -> bool {
        a.options == b.options
    }
    /// Nobody needs it: modelled guests drop nothing because it is old.
    fn stamp(&self, _: &Packet) -> Option<u32> {
        None
    }
    fn hidden(&self, packet: &Packet) -> Option<wire::hidden::Bytes> {
        packet.options.hidden
    }
    fn bypasses_edge(&self, _: &Packet) -> bool {
        false
    }
}

/// What the NIC's driver hands up: one packet, or several of one flow merged.
#[derive(Clone, Debug)]
pub struct Segment<P = ()> {
    /// The first packet, with the payload of all; options are those of the first.
    pub packet: Packet,
    /// Payload of the last packet, bytes.
    last: u32,
    /// Of each packet, in order.
    pub parts: Vec<P>,
}

impl<P: Part> Segment<P> {
    pub fn new(packet: Packet) -> Segment<P> {
        Segment { last: packet.headers.payload, parts: vec![P::of(&packet)], packet }
    }

    /// Appends the next packet of the same flow. Its PSH, FIN and window survive, as in Linux.
    pub(super) fn append(&mut self, next: &Packet) {
        let h = &mut self.packet.headers;
        if h.segment_size == 0 {
            h.segment_size = h.payload.min(u32::from(u16::MAX)) as u16;
        }
        h.payload += next.headers.payload;
        h.tcp_flags |= next.headers.tcp_flags & (tcp::PSH | tcp::FIN);
        h.window = next.headers.window;
        self.last = next.headers.payload;
        if self.packet.int {
            for (most, hop) in self.packet.utilisation.iter_mut().zip(next.utilisation) {
                *most = hop.max(*most);
            }
        }
        self.parts.push(P::of(next));
    }

    /// Payload of each packet but the last, bytes.
    pub(super) fn size(&self) -> u32 {
        match self.packet.headers.segment_size {
            0 => self.packet.headers.payload,
            size => u32::from(size),
        }
    }

    /// Does `next`, a packet of the same flow, continue this segment? The rules of Linux's `tcp_gro_receive` and
    /// `inet_gro_receive`: contiguous, after whole packets only, equal acknowledgement, flags, options and ECN codepoint.
    /// Label, flowcell number and feedback stand in the encapsulation or the Ethernet header, and Linux compares those too.
    pub(super) fn accepts<F: Frames<Part = P>>(&self, next: &Packet, frames: &F) -> bool {
        let (a, b) = (&self.packet.headers, &next.headers);
        let size = self.size();
        self.last == size
            && a.seq.wrapping_add(a.payload) == b.seq
            && b.payload <= size
            && a.payload + b.payload <= MAX_SEGMENT
            && a.ack == b.ack
            && (a.ecn, a.outer_ecn) == (b.ecn, b.outer_ecn)
            && (a.l4_header_len, a.tcp_reserved) == (b.l4_header_len, b.tcp_reserved)
            && (a.tcp_flags ^ b.tcp_flags) & !(tcp::PSH | tcp::FIN) == 0
            && (a.label, a.cell) == (b.label, b.cell)
            && self.packet.feedback == next.feedback
            && frames.same_options(&self.packet, next)
    }
}

/// May the packet be merged with others at all?
pub(super) fn is_mergeable<F: Frames>(packet: &Packet, frames: &F) -> bool {
    let h = &packet.headers;
    h.payload > 0
        && h.proto == proto::TCP
        && h.tcp_flags & (tcp::SYN | tcp::FIN | tcp::RST | tcp::URG | tcp::CWR) == 0
        && frames.is_verified(packet)
}

/// Do both packets belong to one flow?
pub(super) fn same_flow(a: &wire::Packet, b: &wire::Packet) -> bool {
    (a.sport, a.dport, a.proto) == (b.sport, b.dport, b.proto) && a.saddr == b.saddr && a.daddr == b.daddr
}
