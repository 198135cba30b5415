//! Uplinks without a tunnel: what the loaded programs write into guests' packets, and read from them. Root only; says why where it is
//! skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use edge::hygenicc::{Config as Hygenicc, PROTO};
use fabric::{in_namespace, Fabric};
use kernel::emit;
use kernel::state::{
    Config, Counter, Event, Peer, Port, Route, Share, Tenants, Tunnel, EVENT_MARKS, ROUTE_LOCAL, ROUTE_PEER, VERSION_1,
};
use kernel::{KernelEdge, Options, Role, Segment};
use std::path::PathBuf;
use std::time::Duration;
use units::{BitRate, Bytes, Time};
use wire::checksum::Sum;
use wire::{ecn, proto, v4, Packet};

const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;
const TC_ACT_UNSPEC: u32 = u32::MAX;

const OWN4: [u32; 4] = v4([10, 7, 0, 1]);
const OTHER4: [u32; 4] = v4([10, 7, 0, 2]);
const OWN6: [u32; 4] = [0xfd07_0000, 0, 0, 1];
const OTHER6: [u32; 4] = [0xfd07_0000, 0, 0, 2];
const NUMBER: u16 = 1;

struct Host {
    fabric: Fabric,
    edge: Option<KernelEdge>,
    port: u32,
    uplink: u32,
    pins: PathBuf,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.edge.take().map(KernelEdge::destroy);
        let _ = std::fs::remove_dir_all(&self.pins);
    }
}

/// A host whose guest shares 100 Mb/s; the clock stands at 1 s.
fn host(name: &str, carry: bool) -> Option<Host> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    let fabric = Fabric::new(name);
    let pins = PathBuf::from(format!("/sys/fs/bpf/{}p", fabric.host(0)));
    std::fs::create_dir(&pins).unwrap();
    let mut host = Host { fabric, edge: None, port: 0, uplink: 0, pins };
    let options =
        Options { pins: host.pins.clone(), max_flows: 1024, plain: true, test_clock: true, ..Options::default() };
    let (edge, port, uplink) = in_namespace(&host.fabric.host(0), || {
        let index = |name| kernel::ifindex(name).unwrap();
        (KernelEdge::open(&options).unwrap(), index("g"), index("u0"))
    });
    edge.set_config(&Config { udp_port: 0, ..Config::default() }).unwrap();
    let mut conf = Hygenicc::new(BitRate::from_mbps(100), Time::from_us(100));
    (conf.depth, conf.patience, conf.carry) = (Bytes(1 << 20), Time::from_ms(1), carry);
    edge.set_tenants(&Tenants { conf: conf.conf(), backlog: 0, numbers: NUMBER.into(), pad: 0 }).unwrap();
    edge.set_port(port, &Port { mac: [2; 6], ..Port::default() }.with_share(NUMBER, 1)).unwrap();
    let address = |a: &str| a.parse().unwrap();
    let tunnel = Tunnel::new(address("192.168.99.1"), address("192.168.99.2"), 0, VERSION_1).unwrap();
    edge.set_peer(1, &Peer::new(tunnel, uplink)).unwrap();
    for (own, other) in [(OWN4, OTHER4), (OWN6, OTHER6)] {
        let local = Route { kind: ROUTE_LOCAL, target: port, ..Route::default() };
        let remote = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
        edge.set_route(0, wire::address(own), 128, &local).unwrap();
        edge.set_route(0, wire::address(other), 128, &remote).unwrap();
    }
    (host.edge, host.port, host.uplink) = (Some(edge), port, uplink);
    host.set_time(Time::from_secs(1));
    Some(host)
}

impl Host {
    fn edge(&self) -> &KernelEdge {
        self.edge.as_ref().expect("only drop takes it")
    }

    fn set_time(&self, now: Time) {
        let config = self.edge().config().unwrap();
        self.edge().set_config(&Config { test_now_us: (now.as_ns() / 1000) as u32, ..config }).unwrap();
    }

    /// Verdict, and the frame as it leaves.
    fn run(&self, role: Role, frame: &[u8], gso_size: u16) -> (u32, Vec<u8>) {
        let ifindex = if role == Role::Guest { self.port } else { self.uplink };
        in_namespace(&self.fabric.host(0), || {
            self.edge().test_run_segment(role, frame, Segment { ifindex, gso_size, ..Segment::default() }).unwrap()
        })
    }

    /// The guest sends; returns what leaves.
    fn send(&self, packet: &Packet) -> Vec<u8> {
        let (verdict, frame) = self.run(Role::Guest, &frame(packet), packet.segment_size);
        assert_eq!(verdict, TC_ACT_REDIRECT);
        checked(frame)
    }

    /// A packet for the guest comes; returns what it gets.
    fn receive(&self, frame: &[u8], gso_size: u16) -> Vec<u8> {
        let (verdict, frame) = self.run(Role::Uplink, frame, gso_size);
        assert_eq!(verdict, TC_ACT_REDIRECT);
        checked(frame)
    }

    fn count(&self, counter: Counter) -> u64 {
        self.edge().counters().unwrap().get(counter)
    }

    fn share(&self) -> Share {
        self.edge().share(NUMBER).unwrap().unwrap()
    }

    /// Packets of feedback that the agent is asked for.
    fn asked(&self) -> Vec<Event> {
        let mut events = self.edge().poll_events(Duration::ZERO).unwrap();
        events.retain(|event| event.kind == EVENT_MARKS);
        events
    }
}

/// With the checksum that its header has.
fn checked(frame: Vec<u8>) -> Vec<u8> {
    if frame[14] >> 4 == 4 {
        assert_eq!(Sum::default().bytes(&frame[14..34]).finish(), 0, "checksum");
    }
    frame
}

fn datagram(saddr: [u32; 4], daddr: [u32; 4], ecn: u8) -> Packet {
    let family = if saddr[..3] == [0, 0, 0xffff] { 4 } else { 6 };
    Packet { saddr, daddr, family, proto: proto::UDP, sport: 5, dport: 6, payload: 1000, ecn, ..Packet::default() }
}

fn out4(ecn: u8) -> Packet {
    datagram(OWN4, OTHER4, ecn)
}

fn in4(ecn: u8) -> Packet {
    datagram(OTHER4, OWN4, ecn)
}

fn frame(packet: &Packet) -> Vec<u8> {
    wire::emit(packet, &wire::TcpOptions::default()).unwrap()
}

/// With the reserved bit.
fn with_bit(packet: &Packet) -> Vec<u8> {
    let mut frame = frame(packet);
    frame[20] |= 0x80;
    frame[24..26].fill(0);
    let check = Sum::default().bytes(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

/// Feedback in a packet of its own, to the guest.
fn told(packet: &Packet, marks: u16) -> Vec<u8> {
    let ip = emit::plain(&Packet { proto: PROTO, payload: 0, ..*packet }, Some(marks)).unwrap();
    [&frame(packet)[..14], &ip].concat()
}

fn bit(frame: &[u8]) -> bool {
    frame[20] & 0x80 != 0
}

fn ecn_of(frame: &[u8]) -> u8 {
    if frame[14] >> 4 == 4 {
        frame[15] & 3
    } else {
        frame[15] >> 4 & 3
    }
}

#[test]
fn marks_go_back_as_a_bit_that_each_packet_pays_for() {
    let Some(host) = host("pa", false) else { return };
    let first = host.send(&out4(ecn::NOT_ECT));
    assert_eq!((ecn_of(&first), bit(&first)), (ecn::ECT0, false));
    assert_eq!(first.len(), 14 + 28 + 1000, "nothing is put in front of it");
    // A merged segment of two packets.
    let merged = Packet { payload: 2000, ..in4(ecn::CE) };
    assert_eq!(ecn_of(&host.receive(&frame(&merged), 1000)), ecn::NOT_ECT, "the guest sees nothing of it");
    let long = host.send(&Packet { payload: 3000, segment_size: 1000, ..out4(ecn::NOT_ECT) });
    assert!(!bit(&long), "three packets would pay three");
    host.receive(&frame(&in4(ecn::CE)), 0);
    assert_eq!(host.count(Counter::MarksCounted), 3);
    let short = host.send(&Packet { payload: 2000, segment_size: 1000, ..out4(ecn::NOT_ECT) });
    assert!(bit(&short));
    assert_eq!([0; 2].map(|_| bit(&host.send(&out4(ecn::NOT_ECT)))), [true, false]);
    assert_eq!(host.count(Counter::FeedbackSent), 2);
    assert!(host.asked().is_empty());
}

#[test]
fn a_bit_that_comes_is_a_mark_for_each_packet_and_the_guest_does_not_see_it() {
    let Some(host) = host("pb", false) else { return };
    (0..5).for_each(|_| drop(host.send(&out4(ecn::NOT_ECT))));
    let shown = host.receive(&with_bit(&in4(ecn::ECT0)), 0);
    assert_eq!((bit(&shown), shown[20] & 0x40 != 0, ecn_of(&shown)), (false, true, ecn::ECT0));
    assert_eq!((host.share().marks, host.count(Counter::MarksHeard)), (1, 1));
    // One that is merged, as over devices without GRO it can be.
    host.receive(&with_bit(&Packet { payload: 3000, ..in4(ecn::CE) }), 1000);
    assert_eq!((host.share().marks, host.count(Counter::MarksCounted)), (4, 3), "both are counted");
    // Forged ones: no more than was sent.
    (0..40).for_each(|_| drop(host.receive(&with_bit(&in4(ecn::ECT0)), 0)));
    assert_eq!(host.share().marks, 5);
}

#[test]
fn guests_neither_forge_the_bit_nor_packets_of_feedback() {
    let Some(host) = host("pc", false) else { return };
    let (verdict, sent) = host.run(Role::Guest, &with_bit(&out4(ecn::NOT_ECT)), 0);
    assert_eq!((verdict, bit(&checked(sent))), (TC_ACT_REDIRECT, false));
    for forged in [told(&out4(0), 9), told(&datagram(OWN6, OTHER6, 0), 9)] {
        assert_eq!(host.run(Role::Guest, &forged, 0).0, TC_ACT_SHOT);
    }
    assert_eq!(host.count(Counter::DropMalformed), 2);
    // Nor without a share.
    let port = host.edge().port(host.port).unwrap().unwrap();
    host.edge().set_port(host.port, &Port { share: 0, ..port }).unwrap();
    assert!(!bit(&host.run(Role::Guest, &with_bit(&out4(ecn::NOT_ECT)), 0).1));
    assert!(!bit(&host.receive(&with_bit(&in4(ecn::NOT_ECT)), 0)));
}

/// A host takes a priority tag off before it forwards: what a peer would take for feedback must not be behind one.
#[test]
fn guests_forge_no_feedback_behind_tags() {
    let Some(host) = host("pt", false) else { return };
    let tagged = |frame: &[u8], tags: usize| {
        let tags = [0x81, 0, 0, 0].repeat(tags);
        [&frame[..12], &tags, &frame[12..]].concat()
    };
    let behind_an_option = |frame: &[u8]| {
        let mut frame = [&frame[..54], &[frame[20], 0, 0, 0, 0, 0, 0, 0], &frame[54..]].concat();
        frame[20] = 60;
        frame
    };
    let six = told(&datagram(OWN6, OTHER6, 0), 9);
    let forged = [told(&out4(0), 9), with_bit(&out4(0)), behind_an_option(&six), six];
    for frame in forged.iter().flat_map(|frame| [1, 4].map(|tags| tagged(frame, tags))) {
        assert_eq!(host.run(Role::Guest, &frame, 0).0, TC_ACT_SHOT, "{frame:02x?}");
    }
    assert_eq!(host.count(Counter::DropMalformed), 8);
    // Nobody needs more tags. All else is the host's, as without an edge.
    assert_eq!(host.run(Role::Guest, &tagged(&frame(&out4(0)), 5), 0).0, TC_ACT_SHOT);
    for packet in [out4(ecn::CE), datagram(OWN6, OTHER6, 0)] {
        let frame = tagged(&frame(&packet), 1);
        assert_eq!(host.run(Role::Guest, &frame, 0), (TC_ACT_UNSPEC, frame));
    }
}

#[test]
fn marks_that_waited_go_back_in_packets_of_their_own() {
    let Some(host) = host("pd", false) else { return };
    for packet in [in4(ecn::CE), datagram(OTHER6, OWN6, ecn::CE)] {
        host.set_time(Time::from_secs(1));
        (0..3).for_each(|_| drop(host.receive(&frame(&packet), 0)));
        assert!(host.asked().is_empty());
        host.set_time(Time::from_secs(1) + Time::from_ms(2));
        host.receive(&frame(&packet), 0);
        let asked = host.asked();
        assert_eq!(asked.len(), 1);
        let Event { value, packet: told, .. } = asked[0];
        assert_eq!((value, told.proto, told.wire), (4, PROTO, wire::version::PLAIN));
        assert_eq!((told.saddr, told.daddr, told.family), (packet.daddr, packet.saddr, packet.family));
        // All was told: nothing goes back as a bit, too.
        assert!(!bit(&host.send(&out4(ecn::NOT_ECT))));
    }
}

#[test]
fn marks_that_wait_when_traffic_ends_go_back_by_a_sweep() {
    let Some(host) = host("pw", false) else { return };
    for packet in [in4(ecn::CE), datagram(OTHER6, OWN6, ecn::CE)] {
        (0..3).for_each(|_| drop(host.receive(&frame(&packet), 0)));
    }
    let asked = |ms: u64| {
        host.set_time(Time::from_ms(ms));
        host.edge().sweep(Time::from_ms(ms).as_ns()).unwrap();
        let mut asked = host.asked();
        asked.sort_unstable_by_key(|event| event.packet.family);
        asked
    };
    assert!(asked(1900).is_empty());
    let told = asked(2100);
    for (event, (own, other)) in told.iter().zip([(OWN4, OTHER4), (OWN6, OTHER6)]) {
        let Event { value, packet: told, .. } = event;
        assert_eq!((*value, told.proto, told.wire), (3, PROTO, wire::version::PLAIN));
        assert_eq!((told.saddr, told.daddr), (own, other));
    }
    // A sum is told once.
    assert_eq!((told.len(), asked(8000).len()), (2, 0));
    assert!(!bit(&host.send(&out4(ecn::NOT_ECT))));
}

#[test]
fn packets_of_feedback_are_heard_and_reach_no_guest() {
    let Some(host) = host("pe", false) else { return };
    for (n, (own, other)) in [(OWN4, OTHER4), (OWN6, OTHER6)].into_iter().enumerate() {
        (0..6).for_each(|_| drop(host.send(&datagram(own, other, ecn::NOT_ECT))));
        let told = |marks| told(&datagram(other, own, ecn::NOT_ECT), marks);
        let short = told(5)[..told(5).len() - 1].to_vec();
        for (frame, marks) in [(short, 0), (told(0), 0), (told(4), 4), (told(65_535), 6)] {
            assert_eq!(host.run(Role::Uplink, &frame, 0).0, TC_ACT_SHOT);
            assert_eq!(host.share().marks, n as u64 * 6 + marks);
        }
    }
    assert_eq!(host.count(Counter::MarksConsumed), 8);
}

#[test]
fn with_carry_guests_see_what_was_sent_to_them() {
    let Some(host) = host("pf", true) else { return };
    let sent = [ecn::NOT_ECT, ecn::ECT0, ecn::ECT1].map(|ecn| ecn_of(&host.send(&out4(ecn))));
    assert_eq!(sent, [ecn::ECT1, ecn::ECT0, ecn::ECT0]);
    let shown = [ecn::ECT1, ecn::CE, ecn::ECT0, ecn::CE].map(|ecn| ecn_of(&host.receive(&frame(&in4(ecn)), 0)));
    assert_eq!(shown, [ecn::NOT_ECT, ecn::NOT_ECT, ecn::ECT0, ecn::ECT0]);
    let six = [ecn::ECT1, ecn::ECT0, ecn::CE];
    let shown = six.map(|ecn| ecn_of(&host.receive(&frame(&datagram(OTHER6, OWN6, ecn)), 0)));
    assert_eq!(shown, [ecn::NOT_ECT, ecn::ECT0, ecn::ECT0]);
}

#[test]
fn what_is_not_from_a_peers_guest_for_one_of_ours_is_the_hosts() {
    let Some(host) = host("pg", false) else { return };
    let stranger = v4([10, 9, 0, 9]);
    for (from, to) in [(stranger, OWN4), (OTHER4, stranger), (OWN4, OWN4)] {
        let frame = with_bit(&datagram(from, to, ecn::CE));
        assert_eq!(host.run(Role::Uplink, &frame, 0), (TC_ACT_UNSPEC, frame), "{from:?}");
    }
    let frame = told(&datagram(stranger, OWN4, 0), 7);
    assert_eq!(host.run(Role::Uplink, &frame, 0).0, TC_ACT_UNSPEC);
}

#[test]
fn what_no_stage_sees_is_counted_too() {
    let Some(host) = host("ph", false) else { return };
    let fragment = |packet: &Packet| {
        let mut frame = frame(packet);
        frame[20] = 0x20; // more fragments
        frame[24..26].fill(0);
        let check = Sum::default().bytes(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&check.to_be_bytes());
        frame
    };
    let shown = host.receive(&fragment(&in4(ecn::CE)), 0);
    assert_eq!((ecn_of(&shown), host.count(Counter::MarksCounted)), (ecn::ECT0, 1));
    // An unmarked fragment of the same datagram looks alike: a guest would drop a mixture.
    assert_eq!(ecn_of(&host.receive(&fragment(&in4(ecn::ECT0)), 0)), ecn::ECT0);
    let (verdict, sent) = host.run(Role::Guest, &fragment(&out4(ecn::NOT_ECT)), 0);
    assert_eq!((verdict, bit(&checked(sent.clone())), ecn_of(&sent)), (TC_ACT_REDIRECT, true, ecn::ECT0));
    assert_eq!(sent[20] & 0x20, 0x20);
}
