//! Where a receiver may put packets in order (Presto, section 2.2): in GRO, above it, or below it within one poll.

use edge::{reorder, Edge};
use fabric::{Packet, Packets};
use host::experiment::HostConfig;
use host::nic::{Handed, Io, Modelled, Rx};
use units::Time;
use wire::{proto, tcp};

const PAYLOAD: u32 = 1460;
/// Packets of a flowcell of 64 KB.
const CELL: u32 = 44;
const CELLS: u32 = 200;
/// Of a packet at 10 Gbps.
const GAP: Time = Time::from_ns(1230);
/// How much longer the second of two paths takes: several polls.
const SKEW: Time = Time::from_us(80);
const POLL: Time = Time::from_us(20);

/// When each packet of a flow arrives whose flowcells take two unlike paths in turn.
fn arrivals(labelled: bool) -> Vec<(Time, Packet)> {
    let mut all: Vec<(Time, Packet)> = (0..CELL * CELLS)
        .map(|n| {
            let cell = n / CELL;
            let headers = wire::Packet {
                seq: n * PAYLOAD,
                payload: PAYLOAD,
                proto: proto::TCP,
                tcp_flags: tcp::ACK,
                has_cell: u8::from(labelled),
                cell: if labelled { cell } else { 0 },
                ..wire::Packet::default()
            };
            let late = if cell % 2 == 1 { SKEW } else { Time::ZERO };
            (GAP * u64::from(n) + late, Packet { dst: 1, headers, ..Packet::default() })
        })
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Segments that enter the stack, as (sequence number, payload), of polls every 20 us.
fn receive(labelled: bool, sort: bool) -> Vec<(u32, u32)> {
    // A poll starts when it is told to, not by a number of packets.
    let config = HostConfig { rx_coalesce: Time::ZERO, rx_coalesce_frames: u32::MAX, ..HostConfig::default() };
    let reorder = labelled.then(reorder::Config::default);
    let mut edge = Edge::new(edge::Config { reorder, ..edge::Config::default() });
    let (mut rx, mut packets, mut up) = (Rx::<()>::default(), Packets::default(), Vec::new());
    let arrivals = arrivals(labelled);
    let mut rest = &arrivals[..];
    let mut now = Time::ZERO;
    while !rest.is_empty() || edge.poll_timeout().is_some() {
        now += POLL;
        let (polled, later) = rest.split_at(rest.iter().take_while(|(at, _)| *at <= now).count());
        rest = later;
        let mut polled: Vec<Packet> = polled.iter().map(|(_, packet)| *packet).collect();
        if sort {
            polled.sort_by_key(|packet| packet.headers.seq);
        }
        let mut poll = None;
        for packet in polled {
            let id = packets.add(packet);
            poll = rx.arrive(now, Time::ZERO, &config, id, &mut packets).expect("the ring has room").or(poll);
        }
        let mut io = Io { now, config: &config, edge: &mut edge, packets: &mut packets, frames: &Modelled };
        if let Some(poll) = poll {
            assert!(rx.begin_poll(poll.generation));
            while let Some(Handed::Up(segment)) = rx.next(&mut io, |_| None) {
                up.push(segment);
            }
            io.edge.end_batch(now);
            up.extend(std::iter::from_fn(|| rx.released(&mut io)));
            assert_eq!(rx.end_poll(now, now), None);
        } else if io.edge.poll_timeout().is_some_and(|due| due <= now) {
            io.edge.handle_timeout(now);
            up.extend(std::iter::from_fn(|| rx.released(&mut io)));
        }
    }
    up.iter().map(|segment| (segment.packet.headers.seq, segment.packet.headers.payload)).collect()
}

/// Segments whose successor in the list begins before them.
fn out_of_order(segments: &[(u32, u32)]) -> usize {
    segments.windows(2).filter(|pair| pair[1].0 < pair[0].0).count()
}

#[test]
fn a_buffer_above_gro_gets_small_segments_and_sorting_a_poll_leaves_reordering_between_polls() {
    let (stock, sorted, presto) = (receive(false, false), receive(false, true), receive(true, false));
    let bytes = |segments: &[(u32, u32)]| segments.iter().map(|segment| u64::from(segment.1)).sum::<u64>();
    let all = u64::from(CELL * CELLS * PAYLOAD);
    assert_eq!([bytes(&stock), bytes(&sorted), bytes(&presto)], [all; 3]);
    // A buffer above GRO changes the order of GRO's segments, and not their number.
    println!("{} segments of stock GRO, {} sorted by poll, {} of Presto", stock.len(), sorted.len(), presto.len());
    assert!(stock.len() >= 2 * presto.len(), "{} and {}", stock.len(), presto.len());
    let late = [out_of_order(&stock), out_of_order(&sorted), out_of_order(&presto)];
    assert!(late[1] > late[2] && late[2] == 0, "{late:?} of stock GRO, of sorted polls, of Presto");
}
