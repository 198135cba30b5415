//! Virtual congestion control against guests and peers that do not play by its rules: a real connection through two
//! loaded edges, and frames beside it that no TCP would send.
#![cfg(feature = "libbpf")]

mod fabric;
#[allow(dead_code, reason = "each test file uses a part")]
mod packet;

use edge::vcc::{self, Class, Connection, Law};
use fabric::{fill, guest_mac, in_namespace, Fabric, VNI};
use kernel::emit::{frame, Uplink};
use kernel::state::{Config, Counter, FlowSlotKey, CONFIG_CONGESTION, VERSION_1};
use kernel::{KernelEdge, Options, Role};
use packet::PacketSocket;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use wire::{ecn, pack, proto, reserved, tcp, Packet};

const LABELS: [u16; 2] = [50_001, 50_002];

/// Two edges, and a connection from guest 0 to guest 1.
struct Rig {
    fabric: Fabric,
    config: vcc::Config,
    client: TcpStream,
    server: TcpStream,
    key: FlowSlotKey,
}

impl Rig {
    fn new(name: &str, class: Class) -> Option<Rig> {
        if let Some(why) = fabric::unavailable() {
            eprintln!("skipped: {why}");
            return None;
        }
        let config = vcc::Config::new(class);
        let mut fabric = Fabric::new(name);
        fabric.add_edges(
            &Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), ..Config::default() },
            &LABELS,
        );
        for host in &fabric.edges {
            host.edge.set_congestion(&config).unwrap();
            let on = Config { flags: CONFIG_CONGESTION, ..host.edge.config().unwrap() };
            host.edge.set_config(&on).unwrap();
        }
        let listener = in_namespace(&fabric.guest(1), || TcpListener::bind("10.7.0.2:9000").unwrap());
        let client = in_namespace(&fabric.guest(0), || TcpStream::connect("10.7.0.2:9000").unwrap());
        let (server, from) = listener.accept().unwrap();
        let packet = Packet {
            saddr: wire::v4([10, 7, 0, 1]),
            daddr: wire::v4([10, 7, 0, 2]),
            sport: from.port(),
            dport: 9000,
            proto: proto::TCP,
            ..Packet::default()
        };
        let mut rig = Rig { fabric, config, client, server, key: FlowSlotKey { key: packet.flow_key(), vni: VNI } };
        rig.carries(100_000);
        Some(rig)
    }

    /// What host 0 knows of what its guest sends.
    fn connection(&self) -> Connection {
        let slot = self.fabric.edges[0].edge.flow(&self.key).unwrap().expect("the flow is known");
        slot.vcc.connection(&self.config).expect("it is looked at")
    }

    fn count(&self, i: usize, counter: Counter) -> u64 {
        self.fabric.edges[i].edge.counters().unwrap().get(counter)
    }

    /// So many bytes get there, whole.
    fn carries(&mut self, bytes: usize) {
        let sent: Vec<u8> = (0..bytes).map(|i| (i ^ i >> 8) as u8).collect();
        let mut received = vec![0; bytes];
        std::thread::scope(|scope| {
            scope.spawn(|| self.client.write_all(&sent).unwrap());
            self.server.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            self.server.read_exact(&mut received).unwrap();
        });
        assert!(received == sent);
    }

    /// A segment of the connection, from guest 0.
    fn segment(&self, seq: u32, payload: u32) -> Packet {
        Packet {
            saddr: self.key.key.saddr,
            daddr: self.key.key.daddr,
            sport: self.key.key.sport,
            dport: self.key.key.dport,
            proto: proto::TCP,
            family: 4,
            seq,
            payload,
            window: 500,
            tcp_flags: tcp::ACK,
            ..Packet::default()
        }
    }
}

#[test]
fn windows_are_read_across_versions() {
    let Some(mut rig) = Rig::new("ve", Class { clamp: Some(units::Bytes::kib(64)), ..Class::default() }) else {
        return;
    };
    let before = rig.connection();
    assert!(before.scale.is_some_and(|scale| scale > 0), "{before:?}");
    for i in 0..2 {
        let old = &rig.fabric.edges[i];
        let version = Some(kernel::state_version() + 1);
        let options = Options { pins: old.pins(), max_flows: 1024, version, ..Options::default() };
        let config = Config { flags: CONFIG_CONGESTION, ..old.edge.config().unwrap() };
        let new = in_namespace(&rig.fabric.host(i), || {
            let new = KernelEdge::open(&options).unwrap();
            new.set_congestion(&rig.config).unwrap();
            fill(&new, i, (old.port, old.uplink), &config, &LABELS, VERSION_1, false);
            new.attach(old.port, Role::Guest).unwrap();
            new.attach(old.uplink, Role::Uplink).unwrap();
            new.remove_other_versions().unwrap();
            new
        });
        rig.fabric.edges[i].edge = new;
    }
    rig.carries(1_000_000);
    let after = rig.connection();
    assert_eq!((after.scale, after.mss), (before.scale, before.mss));
    assert!(rig.count(0, Counter::WindowsLowered) > 0, "the clamp is in force again");
    let kept = rig.fabric.edges[0].pins().join("kept");
    assert!(kept.join("handshakes").exists());
    kernel::remove_edge(&rig.fabric.edges[0].pins()).unwrap();
    assert!(!kept.exists());
}

#[test]
fn a_guest_that_ignores_its_window_is_policed_and_its_connection_lives() {
    let Some(mut rig) = Rig::new("po", Class { clamp: Some(units::Bytes::kib(64)), ..Class::default() }) else {
        return;
    };
    let socket = in_namespace(&rig.fabric.guest(0), || PacketSocket::open(kernel::ifindex("eth0").unwrap()).unwrap());
    let next = rig.connection().snd_nxt;
    let bytes_before = rig.count(0, Counter::OutBytes);
    for n in 1..=50 {
        // Far beyond what any ACK allowed.
        let bad = rig.segment(next.wrapping_add(n << 20), 1000);
        socket.send(&frame(&bad, guest_mac(0), guest_mac(1)).unwrap(), None).unwrap();
    }
    for _ in 0..100 {
        if rig.count(0, Counter::DropPoliced) == 50 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20)); // they are on their way
    }
    assert_eq!(rig.count(0, Counter::DropPoliced), 50);
    assert_eq!(rig.connection().policed_segments, 50);
    assert!(rig.count(0, Counter::OutBytes) - bytes_before < 1000, "nothing of it left the host");
    assert_eq!(rig.connection().snd_nxt, next, "what was dropped was not sent");
    rig.carries(1_000_000);
    assert_eq!(rig.count(0, Counter::DropPoliced), 50, "Linux keeps to the window");
}

/// What it was told before the law began still counts until it must have heard of a smaller window, and no longer.
#[test]
fn a_guest_has_time_to_hear_of_its_first_window() {
    let none = Class { law: Law::None, ..Class::default() };
    let Some(mut rig) = Rig::new("hw", none) else { return };
    // Without a law nothing is followed; then there is one.
    for class in [Class::OFF, Class { clamp: Some(units::Bytes(20_000)), ..none }] {
        rig.config = vcc::Config::new(class);
        for host in &rig.fabric.edges {
            host.edge.set_congestion(&rig.config).unwrap();
        }
        rig.carries(1);
    }
    let socket = in_namespace(&rig.fabric.guest(0), || PacketSocket::open(kernel::ifindex("eth0").unwrap()).unwrap());
    let send = |rig: &Rig, beyond: u32| {
        let next = rig.connection().snd_nxt;
        let mut bad = frame(&rig.segment(next.wrapping_add(beyond), 1000), guest_mac(0), guest_mac(1)).unwrap();
        bad[14 + 20 + 16] ^= 0x55; // its checksum, so that the peer does not take it for data
        socket.send(&bad, None).unwrap();
    };
    let eventually = |rig: &Rig, what: &str, is: &dyn Fn(&Rig) -> bool| {
        let polls = (0..250).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            is(rig)
        });
        assert!(polls, "{what}: {} policed, {:?}", rig.count(0, Counter::DropPoliced), rig.connection());
    };
    eventually(&rig, "the first ACK lowers its window", &|rig| rig.count(0, Counter::WindowsLowered) > 0);
    // More than its peer ever announced.
    send(&rig, 64 << 20);
    eventually(&rig, "that is refused", &|rig| rig.count(0, Counter::DropPoliced) == 1);
    // Less than that, more than what it may: the law is new.
    let next = rig.connection().snd_nxt;
    send(&rig, 40_000);
    eventually(&rig, "it may be under way", &|rig| rig.connection().snd_nxt == next.wrapping_add(41_000));
    assert_eq!(rig.count(0, Counter::DropPoliced), 1);
    rig.carries(1_000_000);
    let last = rig.count(0, Counter::DropPoliced);
    assert_eq!(last, 1, "Linux keeps to the window");
    send(&rig, 40_000);
    eventually(&rig, "by now it has heard", &|rig| rig.count(0, Counter::DropPoliced) == 2);
}

#[test]
fn forged_reports_cost_at_most_the_window_down_to_a_segment() {
    let Some(mut rig) = Rig::new("fr", Class { law: Law::Dctcp, ..Class::default() }) else { return };
    let before = rig.connection();
    assert!(before.aware && before.cwnd >= before.mss);
    let acks_before = rig.count(0, Counter::FacksConsumed);
    in_namespace(&rig.fabric.host(1), || {
        let uplink = Uplink::open().unwrap();
        let (_, peer) = rig.fabric.edges[1].edge.peers().unwrap()[0];
        for n in 1..=1000u32 {
            // Of a peer, so that it is believed: everything was marked, or nonsense.
            let [_, a, b, c] = (100_000 + n * 10_000).to_be_bytes();
            let [_, d, e, f] = if n % 7 == 0 { [0xff; 4] } else { (n * 10_000).to_be_bytes() };
            let forged = Packet {
                saddr: rig.key.key.daddr,
                daddr: rig.key.key.saddr,
                sport: rig.key.key.dport,
                dport: rig.key.key.sport,
                proto: proto::TCP,
                family: 4,
                ecn: ecn::ECT0,
                tcp_reserved: reserved::EDGE | reserved::PACK,
                pack: pack::OK,
                pack_total: [a, b, c],
                pack_ce: [d, e, f],
                ..Packet::default()
            };
            uplink.send(&peer, VNI, &forged, &frame(&forged, guest_mac(1), guest_mac(0)).unwrap()).unwrap();
        }
    });
    for _ in 0..100 {
        if rig.count(0, Counter::FacksConsumed) >= acks_before + 1000 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(rig.count(0, Counter::FacksConsumed), acks_before + 1000, "no guest sees them");
    let after = rig.connection();
    assert!(after.cwnd >= after.mss && after.alpha <= vcc::ONE, "{after:?}");
    assert!(after.cwnd <= before.cwnd, "lies about marks widen no window: {after:?}");
    rig.carries(1_000_000);
    assert_eq!(rig.fabric.edges[0].edge.flows().unwrap().iter().filter(|(key, _)| *key == rig.key).count(), 1);
}

/// What a guest and its peer can make the edge ask of the agent, which has other work, is bounded in time.
#[test]
fn reports_in_packets_of_their_own_are_asked_for_at_a_bounded_rate() {
    /// Of datapath/kernel/state.h: so many in so many ns.
    const MOST: u64 = 64;
    const INTERVAL_NS: u64 = 10_000_000;
    const SEGMENTS: u64 = 2000;
    let Some(rig) = Rig::new("fa", Class::default()) else { return };
    let host = &rig.fabric.edges[0];
    let outgoing = rig.segment(rig.connection().snd_nxt.wrapping_sub(100), 100);
    // More than two segments' worth, each of which is then to be reported.
    let incoming = Packet {
        saddr: outgoing.daddr,
        daddr: outgoing.saddr,
        sport: outgoing.dport,
        dport: outgoing.sport,
        tcp_reserved: reserved::EDGE,
        ecn: ecn::ECT0,
        payload: 3000,
        ..outgoing
    };
    let inner = frame(&incoming, guest_mac(1), guest_mac(0)).unwrap();
    let encap = wire::encap::Encap::new(VNI, kernel::state::VERSION_1);
    let datagram = kernel::emit::encapsulate(&inner, &encap, 50_001, 4789).unwrap();
    let mut received = vec![0; 12];
    received.extend([8, 0, 0x45, 0]);
    received.extend((datagram.len() as u16 + 20).to_be_bytes());
    received.extend([0, 0, 0x40, 0, 64, proto::UDP, 0, 0, 192, 168, 99, 2, 192, 168, 99, 1]);
    let sum = wire::checksum::Sum::default().bytes(&received[14..34]).finish();
    received[24..26].copy_from_slice(&sum.to_be_bytes());
    received.extend(datagram);
    let sent = frame(&outgoing, guest_mac(0), guest_mac(1)).unwrap();
    let emitted = || {
        let events = host.edge.poll_events(std::time::Duration::from_millis(20)).unwrap();
        events.iter().filter(|event| event.kind == kernel::state::EVENT_EMIT).count() as u64
    };
    emitted();
    let before = [Counter::FacksAsked, Counter::FacksWithheld].map(|counter| rig.count(0, counter));
    let nanoseconds = in_namespace(&rig.fabric.host(0), || {
        let mut one = nix::sched::CpuSet::new();
        one.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).unwrap();
        let begin = kernel::monotonic_ns();
        for _ in 0..SEGMENTS {
            host.edge.test_run(kernel::Role::Uplink, host.uplink, &received).unwrap();
            host.edge.test_run(kernel::Role::Guest, host.port, &sent).unwrap();
        }
        kernel::monotonic_ns() - begin
    });
    let [asked, withheld] = [Counter::FacksAsked, Counter::FacksWithheld].map(|counter| rig.count(0, counter));
    let (asked, withheld, emitted) = (asked - before[0], withheld - before[1], emitted());
    assert_eq!((asked, emitted + withheld), (SEGMENTS, SEGMENTS));
    assert!(emitted <= MOST * (nanoseconds / INTERVAL_NS + 2), "{emitted} in {nanoseconds} ns");
}
