//! What the receiving side of a NIC merges in one poll, as Linux's GRO does; the rules are those of the modelled hosts.

use super::frame::tcp_options;
use crate::port::{FrameId, Pool};
use fabric::Packet;
use wire::{proto, tcp};

/// Part of a frame's payload, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) frame: FrameId,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// What a host is handed: one packet, or several of one flow merged. Each part counts as a user of its frame.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The first packet, with the payload of all.
    pub(crate) packet: Packet,
    pub(crate) parts: Vec<Part>,
}

/// Payload of a merged segment must fit an IP packet.
const MAX_SEGMENT: u32 = 65_535 - 60;
/// The kernel's bound on flows merged at once.
const MAX_FLOWS: usize = 8;

impl Segment {
    pub(crate) fn new(packet: Packet) -> Segment {
        Segment { parts: vec![part(&packet)], packet }
    }

    /// Appends the next packet of the same flow.
    pub(crate) fn append(&mut self, next: &Packet) {
        let h = &mut self.packet.headers;
        if h.segment_size == 0 {
            h.segment_size = h.payload as u16;
        }
        h.payload += next.headers.payload;
        h.tcp_flags |= next.headers.tcp_flags & (tcp::PSH | tcp::FIN);
        h.window = next.headers.window;
        self.parts.push(part(next));
    }

    /// May `next` follow on in the same segment? Never with another ECN codepoint.
    pub(crate) fn accepts(&self, next: &Packet, pool: &Pool) -> bool {
        let (a, b) = (&self.packet.headers, &next.headers);
        let size = if a.segment_size == 0 { a.payload } else { u32::from(a.segment_size) };
        // A shorter packet may only be the last.
        let whole = self.parts.last().is_some_and(|last| last.len == size);
        whole
            && a.seq.wrapping_add(a.payload) == b.seq
            && b.payload <= size
            && a.payload + b.payload <= MAX_SEGMENT
            && a.ack == b.ack
            && a.ecn == b.ecn
            && (a.tcp_flags ^ b.tcp_flags) & !(tcp::PSH | tcp::FIN) == 0
            && (a.l4_header_len, a.tcp_reserved) == (b.l4_header_len, b.tcp_reserved)
            && (a.label, a.cell) == (b.label, b.cell)
            && same_options(&self.packet, next, pool)
    }
}

fn part(packet: &Packet) -> Part {
    Part { frame: packet.slot, offset: packet.flow, len: packet.headers.payload }
}

/// The packets of one frame share their options.
fn same_options(a: &Packet, b: &Packet, pool: &Pool) -> bool {
    let options = |p: &Packet| tcp_options(pool.frame(p.slot), &p.headers);
    a.slot == b.slot || options(a) == options(b)
}

/// May the packet be merged with others at all? Only with a checksum left undone: a finished one would have to be
/// verified first.
pub(crate) fn is_mergeable(packet: &Packet, pool: &Pool) -> bool {
    let h = &packet.headers;
    h.proto == proto::TCP
        && h.payload > 0
        && h.tcp_flags & (tcp::SYN | tcp::FIN | tcp::RST | tcp::URG | tcp::CWR) == 0
        && pool.header(packet.slot).needs_csum()
}

/// Segments being built in the current poll: one per flow, as the kernel keeps one.
#[derive(Debug, Default)]
pub(crate) struct Gro {
    open: Vec<Segment>,
}

impl Gro {
    /// Takes a packet; segments that it completes or evicts go to `up` in order.
    pub(crate) fn receive(&mut self, packet: Packet, pool: &Pool, up: &mut Vec<Segment>) {
        let key = packet.headers.flow_key();
        let found = self.open.iter().position(|s| s.packet.headers.flow_key() == key);
        let mergeable = is_mergeable(&packet, pool);
        let push = packet.headers.has_flags(tcp::PSH);
        if let Some(i) = found {
            if mergeable && self.open[i].accepts(&packet, pool) {
                self.open[i].append(&packet);
                let size = u32::from(self.open[i].packet.headers.segment_size);
                if push || packet.headers.payload < size {
                    up.push(self.open.remove(i));
                }
                return;
            }
            up.push(self.open.remove(i));
        }
        if !mergeable || push {
            up.push(Segment::new(packet));
            return;
        }
        if self.open.len() == MAX_FLOWS {
            up.push(self.open.remove(0));
        }
        self.open.push(Segment::new(packet));
    }

    /// The poll ended: everything goes up.
    pub(crate) fn flush(&mut self, up: &mut Vec<Segment>) {
        up.append(&mut self.open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::VnetHeader;
    use wire::{ecn, TcpOptions};

    /// Packets of 1448 bytes, each a frame of its own, with these options.
    struct Bench {
        pool: Pool,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { pool: Pool::new(64) }
        }
        fn packet(&mut self, number: u32, change: impl Fn(&mut wire::Packet), tsval: u32, flags: u8) -> Packet {
            let mut headers = wire::Packet {
                family: 4,
                proto: proto::TCP,
                seq: number * 1448,
                payload: 1448,
                tcp_flags: tcp::ACK,
                ecn: ecn::ECT0,
                ..wire::Packet::default()
            };
            change(&mut headers);
            let options = TcpOptions { timestamps: Some((tsval, 0)), ..TcpOptions::default() };
            let frame = wire::emit(&headers, &options).unwrap();
            let vnet = VnetHeader { flags, ..VnetHeader::default() };
            let slot = self.pool.insert(vnet, &frame).unwrap();
            let mut parsed = wire::parse(self.pool.frame(slot)).unwrap();
            (parsed.label, parsed.cell) = (headers.label, headers.cell);
            Packet { slot, headers: parsed, ..Packet::default() }
        }
        /// (sequence number, payload, parts) of everything that one poll pushes up.
        fn poll(&self, packets: &[Packet]) -> Vec<(u32, u32, usize)> {
            let (mut gro, mut up) = (Gro::default(), Vec::new());
            packets.iter().for_each(|&p| gro.receive(p, &self.pool, &mut up));
            gro.flush(&mut up);
            up.iter().map(|s| (s.packet.headers.seq, s.packet.headers.payload, s.parts.len())).collect()
        }
    }

    const PARTIAL: u8 = VnetHeader::NEEDS_CSUM;

    #[test]
    fn a_train_in_order_becomes_one_segment() {
        let mut bench = Bench::new();
        let train: Vec<_> = (0..4).map(|i| bench.packet(i, |_| (), 1, PARTIAL)).collect();
        assert_eq!(bench.poll(&train), [(0, 4 * 1448, 4)]);
        let gap = [train[0], train[2], train[1]];
        assert_eq!(bench.poll(&gap).len(), 3);
    }

    #[test]
    fn what_differs_stays_apart() {
        let mut bench = Bench::new();
        let first = bench.packet(0, |_| (), 1, PARTIAL);
        let marked = bench.packet(1, |h| h.ecn = ecn::CE, 1, PARTIAL);
        let later = bench.packet(1, |_| (), 2, PARTIAL);
        let cell = bench.packet(1, |h| h.cell = 1, 1, PARTIAL);
        let acks = bench.packet(1, |h| h.ack = 1, 1, PARTIAL);
        let other = bench.packet(1, |h| h.sport = 1, 1, PARTIAL);
        let finished = bench.packet(1, |_| (), 1, 0);
        for (second, why) in [
            (marked, "another ECN codepoint"),
            (later, "another timestamp"),
            (cell, "another flowcell"),
            (acks, "another acknowledgement"),
            (other, "another flow"),
            (finished, "a checksum that would have to be verified"),
        ] {
            assert_eq!(bench.poll(&[first, second]).len(), 2, "{why}");
        }
    }

    #[test]
    fn a_short_packet_ends_a_segment() {
        let mut bench = Bench::new();
        let first = bench.packet(0, |_| (), 1, PARTIAL);
        let short = bench.packet(1, |h| h.payload = 10, 1, PARTIAL);
        let next = bench.packet(1, |h| (h.seq, h.payload) = (1458, 10), 1, PARTIAL);
        assert_eq!(bench.poll(&[first, short, next]), [(0, 1458, 2), (1458, 10, 1)]);
        // As the reorder engine's joins could ask for.
        let mut segment = Segment::new(first);
        segment.append(&short);
        assert!(!segment.accepts(&next, &bench.pool));
    }
}
