//! What the uplink's program does with what peers say of dropped packets. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;
mod world;

use conformance::{Config, Peer, GUEST, PEERS, PORT, STRANGER, VNI};
use edge::Direction;
use fabric::in_namespace;
use kernel::emit::encapsulate;
use kernel::state::{Counter, Event, CONFIG_NOTIFIED, EVENT_AGAIN, EVENT_DROPPED, EVENT_NOTIFIED};
use std::net::IpAddr;
use std::time::Duration;
use units::Time;
use wire::dropped::Dropped;
use wire::encap::{Encap, Shim};
use wire::{emit, notification, proto, tcp, words, Packet, TcpOptions};
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

/// A switch's notification of a packet of a guest of this host, on its way to `to`.
fn notified(to: [u32; 4], family: u8, vni: u32, packet: &Packet) -> Vec<u8> {
    let own: IpAddr = if family == 4 { "192.168.99.1" } else { "fd99::1" }.parse().unwrap();
    let frame = emit(packet, &TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() }).unwrap();
    let datagram = encapsulate(&frame, &Encap::new(vni, 2), 0xc107, PORT).unwrap();
    let payload = datagram.len() as u32 - 8;
    let outer = Packet { saddr: words(own), daddr: to, family, proto: proto::UDP, payload, ..Packet::default() };
    let mut outer = emit(&outer, &TcpOptions::default()).unwrap();
    let udp = outer.len() - datagram.len();
    outer[udp..].copy_from_slice(&datagram);
    notification::in_tunnel(&outer, PORT).unwrap()
}

/// A frame of the peer, in the tunnel of its version.
fn in_tunnel_from(peer: &Peer, frame: &[u8]) -> Vec<u8> {
    let own: IpAddr = if peer.family == 4 { "192.168.99.1" } else { "fd99::1" }.parse().unwrap();
    let datagram = encapsulate(frame, &Encap::new(VNI, peer.version), 0xc107, PORT).unwrap();
    let payload = datagram.len() as u32 - 8;
    let ends = (peer.address, words(own));
    let outer =
        Packet { saddr: ends.0, daddr: ends.1, family: peer.family, proto: proto::UDP, payload, ..Packet::default() };
    let mut outer = emit(&outer, &TcpOptions::default()).unwrap();
    let udp = outer.len() - datagram.len();
    outer[udp..].copy_from_slice(&datagram);
    outer
}

/// The same, to which somebody gave the DSCP of notifications.
fn marked(peer: &Peer, frame: &[u8]) -> Vec<u8> {
    let mut frame = in_tunnel_from(peer, frame);
    match peer.family {
        4 => frame[15] = notification::DSCP << 2,
        _ => (frame[14], frame[15]) = (0x60 | notification::DSCP >> 2, notification::DSCP << 6),
    }
    frame
}

/// As if the configuration said that switches notify.
fn hears_switches(world: &World, on: bool) {
    let config = world.edge().config().unwrap();
    let flags = config.flags & !CONFIG_NOTIFIED | if on { CONFIG_NOTIFIED } else { 0 };
    world.edge().set_config(&kernel::state::Config { flags, ..config }).unwrap();
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
    events.into_iter().filter(|event| matches!(event.kind, EVENT_DROPPED | EVENT_AGAIN | EVENT_NOTIFIED)).collect()
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

#[test]
fn what_a_switch_notifies_of_goes_to_the_agent_and_to_no_guest() {
    let Some(world) = World::new("wd", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        for on in [false, true] {
            hears_switches(&world, on);
            for peer in &PEERS {
                for family in [4, 6] {
                    let said = Packet { payload: 1400, segment_size: 0, ..packet(peer, family, true) };
                    let frame = notified(peer.address, peer.family, VNI, &said);
                    assert_eq!(world.run(Direction::Ingress, &frame).0, TC_ACT_SHOT);
                    let events = told(&world);
                    let [event] = events.as_slice() else {
                        assert!(!on && events.is_empty(), "{events:?}");
                        continue;
                    };
                    assert_eq!((on, event.kind, event.ifindex), (true, EVENT_NOTIFIED, world.port));
                    assert_eq!((event.addr, event.value), (peer.address, VNI));
                    let read = event.packet;
                    assert_eq!((read.flow_key(), read.seq, read.ack), (said.flow_key(), said.seq, said.ack));
                    assert_eq!((read.payload, read.segment_size, read.tcp_flags), (1400, 0, tcp::ACK));
                }
            }
        }
        let all = 2 * PEERS.len() as u64;
        let counted = |counter| world.counters().get(counter);
        assert_eq!(
            counted(Counter::DropLengths),
            all,
            "where no switch notifies, a cut frame is one whose lengths are wrong"
        );
        assert_eq!((counted(Counter::Notified), counted(Counter::InSegments)), (all, 0));
        assert_eq!(counted(Counter::NotifiedMalformed), 0);
    });
}

/// Only the length of a notification may be wrong.
#[test]
fn a_notification_is_of_a_connection_between_the_two_that_it_names() {
    let Some(world) = World::new("we", &Config { any_peer: true, ..Config::default() }) else { return };
    in_namespace(&world.fabric.host(0), || {
        hears_switches(&world, true);
        let [one, two] = [&PEERS[0], &PEERS[1]];
        let data = |peer: &Peer| Packet { payload: 1400, segment_size: 0, ..packet(peer, 4, true) };
        let mut bad = vec![
            notified(one.address, one.family, VNI, &data(two)),
            notified(two.address, two.family, VNI, &data(one)),
        ];
        for (address, family) in STRANGER.into_iter().zip([4, 6]) {
            bad.push(notified(address, family, VNI, &data(one)));
        }
        let whole = notified(one.address, one.family, VNI, &data(one));
        let inner = whole.len() - 20 - 32;
        let mut udp = whole.clone();
        udp[inner + 9] = proto::UDP;
        let mut fragment = whole.clone();
        fragment[inner + 6] = 0x20;
        bad.extend([udp, fragment, whole[..whole.len() - 40].to_vec()]);
        let run = |frame: &[u8]| world.run(Direction::Ingress, frame).0;
        let counted = |counter| world.counters().get(counter);
        for (n, frame) in bad.iter().enumerate() {
            assert_eq!(run(frame), TC_ACT_SHOT, "{n}");
        }
        assert_eq!((counted(Counter::Notified), counted(Counter::NotifiedMalformed)), (0, bad.len() as u64));
        // For nobody here: in a network whose routes lead to a port of another, in one that nobody has, and to a guest elsewhere.
        let elsewhere = Packet { saddr: two.guest.address(4), ..data(one) };
        for (vni, packet) in [(8, data(one)), (9, data(one)), (VNI, elsewhere)] {
            assert_eq!(run(&notified(one.address, one.family, vni, &packet)), TC_ACT_SHOT, "{vni}");
        }
        assert_eq!(counted(Counter::DropLengths), 3);
        assert!(told(&world).is_empty(), "{:?}", told(&world));
        // After a pure ACK the next one says the same.
        assert_eq!(run(&notified(one.address, one.family, VNI, &Packet { payload: 0, ..data(one) })), TC_ACT_SHOT);
        assert!(told(&world).is_empty() && counted(Counter::Notified) == 1);
        assert_eq!(run(&whole), TC_ACT_SHOT);
        assert_eq!((counted(Counter::Notified), told(&world).len()), (2, 1));
        // Without their DSCP such frames are what they are: cut.
        let mut unmarked = whole;
        unmarked[15] = 0;
        assert_eq!(run(&unmarked), TC_ACT_SHOT);
        assert_eq!((counted(Counter::DropLengths), counted(Counter::InSegments)), (4, 0));
    });
}

/// A fabric that gives packets this DSCP, or a host without an edge that copies its guest's, is none that notifies.
#[test]
fn data_with_the_dscp_of_notifications_reaches_its_guest() {
    let Some(world) = World::new("wg", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        hears_switches(&world, true);
        for peer in &PEERS {
            for family in [4, 6] {
                let data = Packet { payload: 900, segment_size: 0, ..packet(peer, family, false) };
                let frame = emit(&data, &TcpOptions::default()).unwrap();
                let frame = marked(peer, &frame);
                assert_eq!(world.run(Direction::Ingress, &frame).0, TC_ACT_REDIRECT, "{} {family}", peer.version);
            }
        }
        assert!(told(&world).is_empty());
        let all = 2 * PEERS.len() as u64;
        assert_eq!(world.counters().get(Counter::InSegments), all);
    });
}

/// Where the configuration does not say that switches notify, some may nevertheless; and the DSCP may be anybody's.
#[test]
fn unexpected_notifications_of_what_cannot_be_cut_reach_no_guest_and_others_of_their_dscp_do() {
    let Some(world) = World::new("wh", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        let arrives = |frame: &[u8]| world.run(Direction::Ingress, frame).0;
        let (mut taken, mut passed) = (0, 0);
        for (peer, family) in PEERS.iter().flat_map(|peer| [(peer, 4), (peer, 6)]) {
            for (sport, tcp_flags) in [(2000, tcp::SYN), (2001, tcp::ACK), (2002, tcp::FIN | tcp::ACK)] {
                let left = Packet { sport, tcp_flags, payload: 0, segment_size: 0, ..packet(peer, family, true) };
                let case = format!("{} {family} {sport}", peer.version);
                world.run(Direction::Egress, &frame_of(&left));
                let answer = marked(peer, &frame_of(&answer(&left)));
                for _ in 0..2 {
                    assert_eq!(arrives(&notified(peer.address, peer.family, VNI, &left)), TC_ACT_SHOT, "{case}");
                    assert_eq!(arrives(&answer), TC_ACT_REDIRECT, "{case}");
                }
                // Of what nobody has sent: it may begin a connection of the other's.
                let unknown = Packet { sport: sport + 1000, ..left };
                assert_eq!(arrives(&notified(peer.address, peer.family, VNI, &unknown)), TC_ACT_REDIRECT, "{case}");
                (taken, passed) = (taken + 2, passed + 3);
            }
        }
        assert!(told(&world).is_empty());
        let counted = |counter| world.counters().get(counter);
        assert_eq!((counted(Counter::Notified), counted(Counter::InSegments)), (taken, passed));
        assert_eq!((counted(Counter::DropLengths), counted(Counter::NotifiedMalformed)), (0, 0));
    });
}

/// A packet of the same connection, the other way.
fn answer(packet: &Packet) -> Packet {
    let Packet { saddr, daddr, sport, dport, .. } = *packet;
    Packet { saddr: daddr, daddr: saddr, sport: dport, dport: sport, ..*packet }
}

fn frame_of(packet: &Packet) -> Vec<u8> {
    emit(packet, &TcpOptions::default()).unwrap()
}

#[test]
fn notifications_of_one_peer_are_bounded() {
    let Some(world) = World::with_clock("wf", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        hears_switches(&world, true);
        world.set_time(Time::from_ms(1000));
        let peer = &PEERS[0];
        let frame = notified(
            peer.address,
            peer.family,
            VNI,
            &Packet { payload: 1400, segment_size: 0, ..packet(peer, 4, true) },
        );
        for n in 0..2 * OF_PEER {
            assert_eq!(world.run(Direction::Ingress, &frame).0, TC_ACT_SHOT);
            if n % 64 == 0 {
                told(&world); // so that there is room
            }
        }
        let counted = |counter| world.counters().get(counter);
        assert_eq!((counted(Counter::Notified), counted(Counter::NotifiedWithheld)), (OF_PEER, OF_PEER));
    });
}
