//! Frames behind the packets that a NIC's receive side merges: parts of payload, options, checksums.

use super::frame::{is_opaque, tcp_options};
use fabric::Packet;
use host::nic::Frames;
use port::{FrameId, Pool};

/// Part of a frame's payload, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) frame: FrameId,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// One packet, or several of one flow merged. Each part counts as a user of its frame.
pub(crate) type Segment = host::nic::Segment<Part>;

impl host::nic::Part for Part {
    fn of(packet: &Packet) -> Part {
        Part { frame: packet.slot, offset: packet.flow, len: packet.headers.payload }
    }
}

/// The lab's frames.
#[derive(Debug)]
pub(crate) struct Pooled<'a>(pub(crate) &'a Pool);

impl Frames for Pooled<'_> {
    type Part = Part;

    /// Only a checksum left undone: a finished one would have to be verified first.
    fn is_verified(&self, packet: &Packet) -> bool {
        self.0.header(packet.slot).needs_csum()
    }

    /// The packets of one frame share their options.
    fn same_options(&self, a: &Packet, b: &Packet) -> bool {
        let options = |p: &Packet| tcp_options(self.0.frame(p.slot), &p.headers);
        a.slot == b.slot || options(a) == options(b)
    }

    fn stamp(&self, packet: &Packet) -> Option<u32> {
        wire::timestamp(self.0.frame(packet.slot), &packet.headers)
    }

    fn hidden(&self, packet: &Packet) -> Option<wire::hidden::Bytes> {
        wire::hidden::option(self.0.frame(packet.slot), &packet.headers)
    }

    fn bypasses_edge(&self, packet: &Packet) -> bool {
        is_opaque(&packet.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::Edge;
    use fabric::Packets;
    use host::experiment::HostConfig;
    use host::nic::{Handed, Io, Rx};
    use port::VnetHeader;
    use units::Time;
    use wire::{ecn, proto, tcp, TcpOptions};

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
            (parsed.label, parsed.cell, parsed.has_cell) = (headers.label, headers.cell, headers.has_cell);
            Packet { slot, headers: parsed, ..Packet::default() }
        }
        /// (sequence number, payload, parts) of everything that one poll hands up, with a reorder engine or without.
        fn poll_with(&self, reorder: bool, packets: &[Packet]) -> Vec<(u32, u32, usize)> {
            let config = HostConfig::default();
            let reorder = reorder.then(edge::reorder::Config::default);
            let mut edge = Edge::new(edge::Config { reorder, ..edge::Config::default() });
            let (mut rx, mut slab) = (Rx::default(), Packets::default());
            let mut poll = None;
            for &packet in packets {
                let id = slab.add(packet);
                poll = rx.arrive(Time::ZERO, Time::ZERO, &config, id, &mut slab).unwrap().or(poll);
            }
            let poll = poll.unwrap();
            assert!(rx.begin_poll(poll.generation));
            let mut io =
                Io { now: poll.at, config: &config, edge: &mut edge, packets: &mut slab, frames: &Pooled(&self.pool) };
            let mut up: Vec<Segment> = Vec::new();
            while let Some(Handed::Up(segment)) = rx.next(&mut io, |_| None) {
                up.push(segment);
            }
            io.edge.end_batch(poll.at);
            up.extend(std::iter::from_fn(|| rx.released(&mut io)));
            assert_eq!(slab.live(), 0);
            up.iter().map(|s| (s.packet.headers.seq, s.packet.headers.payload, s.parts.len())).collect()
        }

        fn poll(&self, packets: &[Packet]) -> Vec<(u32, u32, usize)> {
            self.poll_with(false, packets)
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
    }

    /// As the modelled hosts do: Linux merges what carries no flowcell, reordering or not.
    #[test]
    fn a_merged_segment_without_a_flowcell_waits_behind_its_flow() {
        let mut bench = Bench::new();
        let numbered = bench.packet(0, |h| (h.cell, h.has_cell) = (1, 1), 1, PARTIAL);
        let plain: Vec<_> = (1..4).map(|i| bench.packet(i, |_| (), 1, PARTIAL)).collect();
        let all = [numbered, plain[0], plain[1], plain[2]];
        assert_eq!(bench.poll_with(true, &all), [(0, 1448, 1), (1448, 3 * 1448, 3)]);
    }

    /// The engine compares what Presto's algorithm needs; a segment also has to be one that Linux could have built.
    #[test]
    fn released_packets_with_other_options_are_segments_of_their_own() {
        let mut bench = Bench::new();
        let numbered = |h: &mut wire::Packet| (h.cell, h.has_cell) = (1, 1);
        let train = [(0, 1), (1, 1), (2, 2)].map(|(i, tsval)| bench.packet(i, numbered, tsval, PARTIAL));
        assert_eq!(bench.poll_with(true, &train), [(0, 2 * 1448, 2), (2 * 1448, 1448, 1)]);
    }
}
