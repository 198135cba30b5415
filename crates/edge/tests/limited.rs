//! DEM through the edge's public contract: what an ACK tells of the limiter's queue, and when.

use edge::limiter::{Law, Standing};
use edge::{Config, Direction, Edge, Slot};
use units::{Bytes, Time};
use wire::{ecn, proto, tcp, v4, Packet};

const K: u64 = 30_000;

fn packet(flags: u8, seq: u32, ack: u32, payload: u32) -> Packet {
    Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 0, 2]),
        sport: 4000,
        dport: 80,
        proto: proto::TCP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 20,
        tcp_flags: flags,
        seq,
        ack,
        payload,
        window: 60_000,
        ecn: if payload > 0 { ecn::ECT0 } else { ecn::NOT_ECT },
        ..Packet::default()
    }
}

/// An edge whose guest has opened a connection with ECN, and sent one segment of 64 KB through a limiter with DEM.
fn opened() -> Edge {
    let mut edge = Edge::new(Config { limits: vec![Law::Dem { k: Bytes(K) }], ..Config::default() });
    give(&mut edge, Direction::Egress, packet(tcp::SYN | tcp::ECE | tcp::CWR, 0, 0, 0), 0);
    give(&mut edge, Direction::Ingress, packet(tcp::SYN | tcp::ACK | tcp::ECE, 1000, 1, 0), 0);
    give(&mut edge, Direction::Egress, packet(tcp::ACK, 1, 1001, 65_160), 0);
    edge
}

/// What becomes of a packet while so many bytes wait. Incoming ones are written as the guest's own, for brevity.
fn give(edge: &mut Edge, direction: Direction, packet: Packet, backlog: u64) -> Packet {
    let mut packet = match direction {
        Direction::Egress => packet,
        Direction::Ingress => {
            Packet { saddr: packet.daddr, daddr: packet.saddr, sport: packet.dport, dport: packet.sport, ..packet }
        }
    };
    let standing = Standing { backlog, ..Standing::default() };
    edge.process_limited(Time::from_us(1), direction, Slot(0), &mut packet, Some(standing));
    packet
}

/// He 2017, sections 4.1 and 4.4.1: marks change from one ACK to the next as the queue crosses K, within one segment of 64 KB. Each ACK tells
/// of the queue at its own instant: no earlier backlog, and no path, is in it.
#[test]
fn each_ack_tells_of_the_queue_at_its_own_instant() {
    let mut edge = opened();
    let mut random = 7u64;
    let mut changes = 0;
    let mut before = false;
    for n in 1..=44u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let backlog = (random >> 33) % (2 * K);
        let ack = give(&mut edge, Direction::Ingress, packet(tcp::ACK, 1001, 1 + n * 1460, 0), backlog);
        let marked = ack.has_flags(tcp::ECE);
        assert_eq!(marked, backlog > K, "ACK {n}, {backlog} bytes wait");
        changes += u32::from(marked != before);
        before = marked;
    }
    assert!(changes > 15, "{changes} changes in the ACKs of one segment");
}
