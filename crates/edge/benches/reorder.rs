//! What a packet costs in the reordering engine, by the number of flows under way: `cargo bench -p edge`.
//!
//! Two paths, one of them a flowcell behind: of every flow, cell n + 1 arrives before cell n, so that every second cell is
//! held across polls. Polls take 64 packets in turn over all flows, as they would come from many senders. A constant cost
//! per packet is what the paper claims (section 3.2: insertion at the head).

use edge::{reorder, Config, Direction, Edge, Slot};
use std::hint::black_box;
use std::time::Instant;
use units::Time;
use wire::{proto, tcp, Packet};

const POLL: usize = 64;
/// Packets of a flowcell, full ones.
const CELL: u32 = 45;
const PAYLOAD: u32 = 1460;
const PACKETS: usize = 2_000_000;

/// The `n`-th packet of a flow to arrive: cells 0, 1, 2, 3, ... or 1, 0, 3, 2, ...
fn packet(flow: u32, n: u32, in_order: bool) -> Packet {
    let (cell, within) = ((n / CELL) ^ u32::from(!in_order), n % CELL);
    Packet {
        saddr: [0, 0, 0xffff, flow >> 12],
        daddr: [0, 0, 0xffff, 1],
        sport: 1024 + (flow & 0xfff) as u16,
        dport: 80,
        seq: (cell * CELL + within) * PAYLOAD + 1,
        cell,
        payload: PAYLOAD,
        has_cell: 1,
        proto: proto::TCP,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    }
}

/// Nanoseconds per packet.
#[allow(clippy::disallowed_methods)] // a benchmark
fn run(flows: u32, in_order: bool) -> f64 {
    let reorder = reorder::Config {
        timeout: reorder::Timeout::Fixed(Time::from_secs(1)),
        total_slots: 1 << 22,
        ..reorder::Config::default()
    };
    let mut edge = Edge::new(Config { reorder: Some(reorder), max_flows: 1 << 15, ..Config::default() });
    for flow in 0..flows {
        let mut syn = Packet { tcp_flags: tcp::SYN, payload: 0, seq: 0, cell: 0, ..packet(flow, 0, true) };
        edge.process(Time::ZERO, Direction::Ingress, Slot(0), &mut syn);
    }
    let mut released = 0usize;
    let mut now = Time::ZERO;
    let begun = Instant::now();
    let (mut flow, mut n) = (0, 0);
    for given in 0..PACKETS {
        let mut p = packet(flow, n, in_order);
        edge.process(now, Direction::Ingress, Slot(given as u32), &mut p);
        flow += 1;
        if flow == flows {
            (flow, n) = (0, n + 1);
        }
        if given % POLL == POLL - 1 {
            now += Time::from_us(50);
            edge.end_batch(now);
            while let Some(release) = edge.poll_release(now) {
                released += usize::from(black_box(release).slot.0 > 0);
            }
        }
    }
    black_box(released);
    begun.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn main() {
    println!("{:>8}  {:>20}  {:>20}", "flows", "in order (ns/packet)", "reordered (ns/packet)");
    for flows in [1, 10, 100, 1_000, 10_000] {
        println!("{flows:>8}  {:>20.0}  {:>20.0}", run(flows, true), run(flows, false));
    }
}
