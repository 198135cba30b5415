use super::*;
use crate::experiment::HostConfig;
use edge::Edge;
use fabric::{Packet, Packets};
use units::Time;
use wire::{proto, tcp};

/// One NIC with the reorder engine behind it.
struct Bench {
    rx: Rx<()>,
    edge: Edge,
    config: HostConfig,
    packets: Packets,
}

impl Bench {
    fn new(config: HostConfig) -> Bench {
        let reorder = Some(edge::reorder::Config::default());
        let edge = Edge::new(edge::Config { reorder, ..edge::Config::default() });
        Bench { rx: Rx::default(), edge, config, packets: Packets::default() }
    }

    fn arrive(&mut self, now: Time, packet: Packet) -> Result<Option<Poll>, RingFull> {
        let id = self.packets.add(packet);
        self.rx.arrive(now, Time::ZERO, &self.config, id, &mut self.packets)
    }

    /// (sequence number, payload, packets) of everything that one poll hands up.
    fn poll(&mut self, poll: Poll) -> Vec<(u32, u32, usize)> {
        let Bench { rx, edge, config, packets } = self;
        let mut up = Vec::new();
        assert!(rx.begin_poll(poll.generation));
        let mut io = Io { now: poll.at, config, edge, packets, frames: &Modelled };
        while let Some(Handed::Up(segment)) = rx.next(&mut io, |_| None) {
            up.push(segment);
        }
        io.edge.end_batch(poll.at);
        up.extend(std::iter::from_fn(|| rx.released(&mut io)));
        up.iter().map(|s| (s.packet.headers.seq, s.packet.headers.payload, s.parts.len())).collect()
    }
}

fn packet(seq: u32, cell: Option<u32>) -> Packet {
    let headers = wire::Packet {
        seq,
        payload: 1000,
        proto: proto::TCP,
        tcp_flags: tcp::ACK,
        has_cell: u8::from(cell.is_some()),
        cell: cell.unwrap_or_default(),
        ..wire::Packet::default()
    };
    Packet { dst: 1, headers, ..Packet::default() }
}

#[test]
fn a_poll_comes_after_the_coalescing_time_or_with_enough_frames() {
    let mut bench = Bench::new(HostConfig { rx_coalesce_frames: 2, rx_ring: 3, ..HostConfig::default() });
    let now = Time::from_us(7);
    let first = bench.arrive(now, packet(0, None)).unwrap().unwrap();
    assert_eq!(first.at, now + bench.config.rx_coalesce);
    let second = bench.arrive(now, packet(1000, None)).unwrap().unwrap();
    assert_eq!(second.at, now);
    assert!(!bench.rx.begin_poll(first.generation), "it was moved");
    assert_eq!(bench.arrive(now, packet(2000, None)), Ok(None));
    assert_eq!(bench.arrive(now, packet(3000, None)), Err(RingFull));
    assert_eq!(bench.poll(second), [(0, 3000, 3)]);
    assert_eq!(bench.rx.end_poll(now, now), None);
}

#[test]
fn what_exceeds_the_budget_waits_for_the_next_poll() {
    let mut bench = Bench::new(HostConfig { rx_budget: 2, rx_coalesce: Time::ZERO, ..HostConfig::default() });
    let poll = bench.arrive(Time::ZERO, packet(0, None)).unwrap().unwrap();
    for seq in [1000, 2000] {
        bench.arrive(Time::ZERO, packet(seq, None)).unwrap();
    }
    assert_eq!(bench.poll(poll), [(0, 2000, 2)]);
    assert_eq!(bench.rx.polled(), Polled { packets: 2, bytes: 2000 });
    let next = bench.rx.end_poll(Time::ZERO, Time::from_us(3)).unwrap();
    assert_eq!(next.at, Time::from_us(3), "the core is busy until then");
    assert_eq!(bench.poll(next), [(2000, 1000, 1)]);
}

/// A sender whose flow table was full sends without flowcell numbers until there is room again. Linux merges these packets,
/// and what is merged is held whole.
#[test]
fn a_merged_segment_without_a_flowcell_waits_behind_its_flow() {
    let mut bench = Bench::new(HostConfig { rx_coalesce: Time::ZERO, ..HostConfig::default() });
    // Not the slot that an unused name would stand for.
    let other = bench.packets.add(packet(9000, None));
    let poll = bench.arrive(Time::ZERO, packet(0, Some(1))).unwrap().unwrap();
    bench.arrive(Time::ZERO, packet(1000, None)).unwrap();
    bench.arrive(Time::ZERO, packet(2000, None)).unwrap();
    assert_eq!(bench.poll(poll), [(0, 1000, 1), (1000, 2000, 2)]);
    assert_eq!(bench.packets.live(), 1);
    assert_eq!(bench.packets.take(other).headers.seq, 9000);
}
/// The engine compares what Presto's algorithm needs; a segment also has to be one that Linux could have built.
#[test]
fn released_packets_with_other_options_are_segments_of_their_own() {
    let mut bench = Bench::new(HostConfig { rx_coalesce: Time::ZERO, ..HostConfig::default() });
    let at = |seq, tsval| {
        let mut packet = packet(seq, Some(1));
        packet.options.timestamps = Some((tsval, 0));
        packet
    };
    let poll = bench.arrive(Time::ZERO, at(0, 5)).unwrap().unwrap();
    bench.arrive(Time::ZERO, at(1000, 5)).unwrap();
    bench.arrive(Time::ZERO, at(2000, 6)).unwrap();
    assert_eq!(bench.poll(poll), [(0, 2000, 2), (2000, 1000, 1)]);
}
