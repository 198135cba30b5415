//! The timer laws of many connections at once. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use edge::vcc::{self, Law};
use fabric::{in_namespace, Fabric};
use kernel::state::{Config, CONFIG_CONGESTION, EMIT_DUPACK, EVENT_TIMER, VERSION_1};
use kernel::Role;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{proto, tcp, Packet, TcpOptions};

/// More than there is room for events.
const BUSY: u16 = 3000;
const IDLE: u16 = 2000;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

fn frame(out: bool, port: u16, flags: u8, (seq, ack): (u32, u32), payload: u32) -> Vec<u8> {
    let (here, there) = (wire::v4([10, 7, 0, 1]), wire::v4([10, 7, 0, 2]));
    let packet = Packet {
        saddr: if out { here } else { there },
        daddr: if out { there } else { here },
        sport: if out { port } else { 80 },
        dport: if out { 80 } else { port },
        tcp_flags: flags,
        seq,
        ack,
        window: 60_000,
        payload,
        mss: if flags & tcp::SYN != 0 { 1400 } else { 0 },
        proto: proto::TCP,
        family: 4,
        ..Packet::default()
    };
    wire::emit(&packet, &TcpOptions::default()).unwrap()
}

#[test]
fn only_those_with_data_outstanding_are_looked_at_and_none_is_forgotten() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("ta");
    let config = Config { flags: CONFIG_CONGESTION, ..Config::default() };
    fabric.add_edge(0, &config, &[50_001], VERSION_1, false, 8192);
    let host = &fabric.edges[0];
    let congestion = vcc::Config::new(vcc::Class { law: Law::NewReno, ..vcc::Class::default() });
    host.edge.set_congestion(&congestion).unwrap();
    let send = |port, flags, numbers, payload| {
        host.edge.test_run(Role::Guest, host.port, &frame(true, port, flags, numbers, payload)).unwrap();
    };
    let receive = |port, flags, numbers| {
        let outer = fabric::encapsulated(&frame(false, port, flags, numbers, 0), fabric::VNI);
        host.edge.test_run(Role::Uplink, host.uplink, &outer).unwrap();
    };
    in_namespace(&fabric.host(0), || {
        for port in 1..=BUSY + IDLE {
            send(port, tcp::SYN, (100, 0), 0);
            receive(port, tcp::SYN | tcp::ACK, (500, 101));
            send(port, tcp::ACK, (101, 501), 0);
            send(port, tcp::ACK, (101, 501), 1000);
            receive(port, tcp::ACK, (501, 1101));
        }
        for port in 1..=BUSY {
            send(port, tcp::ACK, (1101, 501), 1000);
        }
        let flows = host.edge.flows().unwrap();
        assert_eq!(flows.len(), usize::from(BUSY + IDLE), "all are read, however many");
        let mut told = BTreeMap::new();
        // A round trip that this machine made long makes the timeout long.
        for _ in 0..1000 {
            host.edge.tick().unwrap();
            for event in host.edge.poll_events(Duration::ZERO).unwrap() {
                assert_eq!((event.kind, event.value, event.ifindex), (EVENT_TIMER, EMIT_DUPACK, fabric::VNI));
                assert_eq!((event.packet.ack, event.packet.tcp_flags), (1101, tcp::ACK));
                *told.entry(event.packet.dport).or_insert(0) += 1;
            }
            if told.len() == usize::from(BUSY) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!((1..=BUSY).all(|port| told.contains_key(&port)) && told.len() == usize::from(BUSY), "{}", told.len());
        // Those that were acknowledged leave.
        let timed = || host.edge.flows().unwrap().iter().filter(|(_, slot)| slot.timer != 0).count();
        // A connection at rest is still looked for during a while.
        let rest = |n: u16| {
            for _ in 0..1000 {
                host.edge.tick().unwrap();
                if timed() == usize::from(n) {
                    break;
                }
                host.edge.poll_events(Duration::ZERO).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(timed(), usize::from(n));
        };
        rest(BUSY);
        (1..=BUSY).for_each(|port| receive(port, tcp::ACK, (501, 2101)));
        rest(0);
        host.edge.poll_events(Duration::ZERO).unwrap();
        assert_eq!(host.edge.tick().unwrap().touched, 0);
        // What is forgotten meanwhile does no harm, nor does what begins anew under its name.
        send(7, tcp::ACK, (2101, 501), 1000);
        assert_eq!(timed(), 1);
        host.edge.sweep(kernel::monotonic_ns() + 100_000_000_000).unwrap();
        send(7, tcp::SYN, (100, 0), 0);
        host.edge.tick().unwrap();
        assert_eq!(host.edge.flows().unwrap().len(), 1);
    });
}
