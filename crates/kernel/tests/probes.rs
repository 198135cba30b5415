//! What the uplink's program does with probes of path discovery and their replies.
#![cfg(feature = "libbpf")]

mod fabric;
mod world;

use conformance::{Config, PEERS, PORT, STRANGER};
use edge::Direction;
use fabric::in_namespace;
use kernel::probes::Probe;
use kernel::state::{address, Counter, CONFIG_DISCOVERS, EVENT_REPLY};
use std::net::IpAddr;
use std::time::Duration;
use units::Time;
use wire::encap::{read_outer, Shim};
use world::World;

const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;
/// As in datapath/kernel/state.h: probes of one peer that are answered within 10 ms, and replies that the agent is told of.
const PROBES: u32 = 128;
const REPLIES: u32 = 64;

fn own(family: u8) -> IpAddr {
    if family == 4 { "192.168.99.1" } else { "fd99::1" }.parse().unwrap()
}

/// As it arrives from `from`.
fn probe(from: [u32; 4], family: u8) -> Vec<u8> {
    let probe =
        Probe { local: address(from), remote: own(family), udp_port: PORT, port: 0xc107, ttl: 1, id: 0x1243, time: 77 };
    let ethertype = if family == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2; 6][..], &[4; 6], &ethertype, &probe.packet().unwrap()].concat()
}

fn reply(from: [u32; 4], family: u8) -> Vec<u8> {
    let mut frame = probe(from, family);
    let shim = frame.len() - 14 - 8;
    frame[shim] = Shim::REPLY;
    frame
}

/// Whether the agent wants to hear of replies.
fn discover(world: &World, on: bool) {
    let config = world.edge().config().unwrap();
    let flags = if on { config.flags | CONFIG_DISCOVERS } else { config.flags & !CONFIG_DISCOVERS };
    world.edge().set_config(&kernel::state::Config { flags, ..config }).unwrap();
}

#[test]
fn a_peers_probe_goes_back_as_a_reply_and_a_reply_to_the_agent() {
    let Some(world) = World::new("pr", &Config::default()) else { return };
    discover(&world, true);
    in_namespace(&world.fabric.host(0), || {
        for peer in PEERS.iter().filter(|peer| peer.version == 2) {
            let (verdict, frame) = world.run(Direction::Ingress, &probe(peer.address, peer.family));
            assert_eq!(verdict, TC_ACT_REDIRECT);
            let outer = read_outer(&frame, PORT).unwrap();
            assert_eq!((address(outer.saddr), address(outer.daddr)), (own(peer.family), address(peer.address)));
            assert_eq!((outer.sport, outer.frame_len as usize), (0xc107, frame.len()));
            let shim = Shim { kind: Shim::REPLY, id: 0x1243, value: 77, ..Shim::default() };
            assert_eq!(Shim::read(&outer.shim), Some(shim));
            assert_eq!((&frame[..6], &frame[6..12]), (&[4; 6][..], &[2; 6][..]), "to where it came from");
            let ttl = if peer.family == 4 { 14 + 8 } else { 14 + 7 };
            assert_eq!(frame[ttl], 64);
            let (verdict, _) = world.run(Direction::Ingress, &reply(peer.address, peer.family));
            assert_eq!(verdict, TC_ACT_SHOT);
            let events = world.edge().poll_events(Duration::from_millis(10)).unwrap();
            let told = events.iter().filter(|event| event.kind == EVENT_REPLY);
            let told: Vec<_> = told.map(|event| (event.addr, event.value)).collect();
            assert_eq!(told, [(peer.address, 0x1243_c107)]);
        }
        assert_eq!(world.counters().get(Counter::ProbesAnswered), 2);
        assert_eq!(world.counters().get(Counter::ProbeReplies), 2);
        assert_eq!(world.counters().get(Counter::InNoGuest), 0);
        // Who discovers nothing hears of no reply, and answers all the same.
        discover(&world, false);
        let two = PEERS.iter().find(|peer| peer.version == 2).unwrap();
        assert_eq!(world.run(Direction::Ingress, &reply(two.address, two.family)).0, TC_ACT_SHOT);
        assert_eq!(world.edge().poll_events(Duration::from_millis(10)).unwrap().len(), 0);
        assert_eq!(world.counters().get(Counter::ProbeReplies), 2);
        assert_eq!(world.run(Direction::Ingress, &probe(two.address, two.family)).0, TC_ACT_REDIRECT);
    });
}

/// Its guests may only receive: then it says so in no other way, and their senders' packets would never ask for marks.
#[test]
fn a_peer_that_asks_or_answers_speaks_version_2() {
    let Some(world) = World::new("pv", &Config::default()) else { return };
    discover(&world, false);
    let ids = world.edge().peers().unwrap();
    let frames = [probe as fn([u32; 4], u8) -> Vec<u8>, reply];
    for (peer, frame) in PEERS.iter().filter(|peer| peer.version == 2).zip(frames) {
        let (id, _) = ids.iter().find(|(_, known)| known.tunnel.remote == peer.address).unwrap();
        let spoken = || world.edge().heard(*id).unwrap().unwrap().version(2, kernel::monotonic_ns());
        assert_eq!(spoken(), 1);
        in_namespace(&world.fabric.host(0), || world.run(Direction::Ingress, &frame(peer.address, peer.family)));
        assert_eq!(spoken(), 2);
    }
}

#[test]
fn nobody_else_is_answered_and_nobody_without_end() {
    let Some(world) = World::with_clock("ps", &Config::default()) else { return };
    in_namespace(&world.fabric.host(0), || {
        let older = PEERS.iter().filter(|peer| peer.version < 2).map(|peer| (peer.address, peer.family));
        let others: Vec<_> = older.chain([(STRANGER[0], 4), (STRANGER[1], 6)]).collect();
        for (from, family) in &others {
            for frame in [probe(*from, *family), reply(*from, *family)] {
                let (verdict, out) = world.run(Direction::Ingress, &frame);
                assert!(verdict != TC_ACT_REDIRECT && verdict != TC_ACT_SHOT && out == frame, "left to the host");
            }
        }
        assert_eq!(world.counters().get(Counter::InNoGuest), 2 * others.len() as u64);
        let two = PEERS.iter().find(|peer| peer.version == 2).unwrap();
        // With a payload it is no probe.
        let mut longer = probe(two.address, two.family);
        longer.extend([0; 4]);
        let lengths = [14 + 2, 14 + 20 + 4].map(|at| (at, u16::from_be_bytes([longer[at], longer[at + 1]]) + 4));
        for (at, len) in lengths {
            longer[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
        assert_ne!(world.run(Direction::Ingress, &longer).0, TC_ACT_REDIRECT);
        discover(&world, true);
        // One peer takes its part, and leaves another's to it.
        let known: Vec<_> = PEERS.iter().filter(|peer| peer.version == 2).collect();
        for later in 0..2 {
            world.set_time(Time::from_ms(1000 + 10 * later));
            let counters = || [Counter::ProbesAnswered, Counter::ProbeReplies].map(|c| world.counters().get(c));
            for peer in &known {
                let before = counters();
                for frame in [probe(peer.address, peer.family), reply(peer.address, peer.family)] {
                    (0..2 * PROBES).for_each(|_| drop(world.run(Direction::Ingress, &frame)));
                }
                let n = [0, 1].map(|kind| (counters()[kind] - before[kind]) as u32);
                assert_eq!(n, [PROBES, REPLIES], "{peer:?}");
            }
            world.edge().poll_events(Duration::from_millis(10)).unwrap();
        }
        assert!(known.len() > 1 && world.counters().get(Counter::ProbesWithheld) > 0);
    });
}
