//! What the uplink's program does with what peers say of dropped packets. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;
mod world;

use conformance::{Config, Peer, GUEST, PEERS, PORT, STRANGER, VNI};
use edge::Direction;
use fabric::in_namespace;
use kernel::emit::encapsulate;
use kernel::state::{Counter, Event, EVENT_AGAIN, EVENT_DROPPED};
use std::net::IpAddr;
use std::time::Duration;
use units::Time;
use wire::dropped::Dropped;
use wire::encap::{Encap, Shim};
use wire::{emit, proto, tcp, words, Packet, TcpOptions};
use world::World;

const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;
/// As in datapath/kernel/state.h: of one peer in 10 ms.
const OF_PEER: u64 = 256;

/// A message as it arrives from that outer address.
fn arrives(from: [u32; 4], family: u8, vni: u32, (shim, frame): ([u8; 8], Vec<u8>)) -> Vec<u8> {
    let encap = Encap { shim: 1, ..Encap::new(vni, 2) };
    let datagram = encapsulate(&[&shim[..], &frame].concat(), &encap, 0xc107, PORT).unwrap();
    let own: IpAddr = if family == 4 { "192.168.99.1" } else { "fd99::1" }.parse().unwrap();
    let payload = datagram.len() as u32 - 8;
    let outer = Packet { saddr: from, daddr: words(own), family, proto: proto::UDP, payload, ..Packet::default() };
    let mut outer = emit(&outer, &TcpOptions::default()).unwrap();
    let udp = outer.len() - datagram.len();
    outer[udp..].copy_from_slice(&datagram);
    outer
}

/// A packet of this host's guest to the peer's, or the other way.
fn packet(peer: &Peer, family: u8, of_here: bool) -> Packet {
    let (here, there) = (GUEST.address(family), peer.guest.address(family));
    let (saddr, daddr) = if of_here { (here, there) } else { (there, here) };
    let (seq, ack, tcp_flags) = (5000, 9000, tcp::ACK);
    Packet { saddr, daddr, family, sport: 1000, dport: 80, proto: proto::TCP, seq, ack, tcp_flags, ..sizes() }
}

fn sizes() -> Packet {
    Packet { payload: 3000, segment_size: 1448, ..Packet::default() }
}

fn dropped(peer: &Peer, family: u8) -> Dropped {
    Dropped { kind: Shim::DROP, detail: 1, packet: packet(peer, family, true) }
}

fn again(peer: &Peer, family: u8) -> Dropped {
    Dropped { kind: Shim::AGAIN, detail: 1, packet: packet(peer, family, false) }
}

fn told(world: &World) -> Vec<Event> {
    let events = world.edge().poll_events(Duration::from_millis(10)).unwrap();
    events.into_iter().filter(|event| matches!(event.kind, EVENT_DROPPED | EVENT_AGAIN)).collect()
}

#[test]
fn what_a_peer_says_goes_to_the_agent_and_to_no_guest() {
    let Some(world) = World::new("wa", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        for (id, peer) in (1..).zip(&PEERS).filter(|(_, peer)| peer.version == 2) {
            for family in [4, 6] {
                for (message, kind) in [(dropped(peer, family), EVENT_DROPPED), (again(peer, family), EVENT_AGAIN)] {
                    let frame = arrives(peer.address, peer.family, VNI, message.frame().unwrap());
                    assert_eq!(world.run(Direction::Ingress, &frame).0, TC_ACT_SHOT);
                    let events = told(&world);
                    let [event] = events.as_slice() else { panic!("{events:?}") };
                    assert_eq!((event.kind, event.ifindex, event.addr), (kind, world.port, peer.address));
                    assert_eq!(event.value, 1 << 16 | id);
                    let (read, said) = (event.packet, message.packet);
                    assert_eq!((read.flow_key(), read.seq, read.ack), (said.flow_key(), said.seq, said.ack));
                    assert_eq!((read.payload, read.segment_size, read.tcp_flags), (3000, 1448, tcp::ACK));
                }
            }
        }
        assert_eq!(world.counters().get(Counter::DropsTold), 8);
        assert_eq!(world.counters().get(Counter::InSegments), 0);
        assert_eq!(world.counters().get(Counter::MarksConsumed), 0);
    });
}

/// Whoever is no peer of version 2, or speaks for a guest that is not its own, says nothing.
#[test]
fn nobody_speaks_for_anothers_guest() {
    let Some(world) = World::new("wb", &Config { any_peer: true, ..Config::default() }) else { return };
    in_namespace(&world.fabric.host(0), || {
        let two: Vec<&Peer> = PEERS.iter().filter(|peer| peer.version == 2).collect();
        let messages = |peer: &Peer| [dropped(peer, 4), again(peer, 4)].map(|message| message.frame().unwrap());
        let frames = |from, family, vni, peer: &Peer| messages(peer).map(|message| arrives(from, family, vni, message));
        let runs = |frames: &[Vec<u8>]| {
            for frame in frames {
                let (verdict, _) = world.run(Direction::Ingress, frame);
                assert!(verdict != TC_ACT_REDIRECT, "it reaches a guest");
            }
        };
        runs(&frames(two[0].address, two[0].family, VNI, two[1]));
        runs(&frames(two[1].address, two[1].family, VNI, two[0]));
        assert_eq!(world.counters().get(Counter::DropForged), 4);
        for peer in PEERS.iter().filter(|peer| peer.version != 2) {
            runs(&frames(peer.address, peer.family, VNI, peer));
        }
        for (address, family) in STRANGER.into_iter().zip([4, 6]) {
            runs(&frames(address, family, VNI, two[0]));
        }
        // In a network whose routes lead to a port of another, and in one that nobody has.
        runs(&frames(two[0].address, two[0].family, 8, two[0]));
        runs(&frames(two[0].address, two[0].family, 9, two[0]));
        // A message that contradicts itself, and one that its own guest could not have caused.
        let (mut shim, frame) = dropped(two[0], 4).frame().unwrap();
        shim[5] = 1;
        runs(&[arrives(two[0].address, two[0].family, VNI, (shim, frame.clone()))]);
        let (shim, _) = dropped(two[0], 4).frame().unwrap();
        runs(&[arrives(two[0].address, two[0].family, VNI, (shim, frame[..40].to_vec()))]);
        assert!(told(&world).is_empty(), "{:?}", told(&world));
        assert_eq!(world.counters().get(Counter::DropsTold), 0);
        assert!(world.counters().get(Counter::DropsToldMalformed) >= 12);
    });
}

#[test]
fn one_peer_takes_its_part_and_leaves_anothers_to_it() {
    let Some(world) = World::with_clock("wc", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        for later in 0..2 {
            world.set_time(Time::from_ms(1000 + 10 * later));
            for peer in PEERS.iter().filter(|peer| peer.version == 2) {
                let count = || [Counter::DropsTold, Counter::DropsToldWithheld].map(|c| world.counters().get(c));
                let before = count();
                let frame = arrives(peer.address, peer.family, VNI, dropped(peer, 4).frame().unwrap());
                for n in 0..2 * OF_PEER {
                    assert_eq!(world.run(Direction::Ingress, &frame).0, TC_ACT_SHOT);
                    if n % 64 == 0 {
                        told(&world); // so that there is room
                    }
                }
                let after = count();
                assert_eq!([after[0] - before[0], after[1] - before[1]], [OF_PEER; 2]);
            }
        }
    });
}
