//! Limits that are schedules of departure times, frame by frame. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use edge::delays::BUCKETS;
use edge::limiter::{Law, Spring};
use fabric::{in_namespace, Fabric};
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_BOTH, LIMITER_IN, LIMITER_OUT};
use kernel::state::{words, Config, VERSION_1};
use kernel::{monotonic_ns, KernelEdge, Options, Role, Segment};
use units::Bytes;
use wire::{proto, tcp, Packet, TcpOptions};

const DROP: u32 = 2;
/// On to the next program.
const NEXT: u32 = u32::MAX;
const SECOND: u64 = 1_000_000_000;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

/// One edge for all, because loading it takes most of the time.
#[test]
fn schedules_frame_by_frame() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("la");
    fabric.add_edge(0, &Config::default(), &[50_001], VERSION_1, false, 1024);
    fabric.edges[0].edge.open_limits(1024).unwrap();
    assert_eq!(fabric.edges[0].edge.lawless(), None);
    in_namespace(&fabric.host(0), || {
        departure_times_advance_by_size_over_rate_up_to_the_horizon(&fabric);
        segments_count_as_what_they_become_on_the_wire(&fabric);
        windows_follow_the_schedule(&fabric);
        edges_are_held(&fabric);
    });
    windows_are_read_across_versions(&mut fabric);
}

fn key(fabric: &Fabric, direction: u32) -> LimiterKey {
    LimiterKey { ifindex: fabric.edges[0].port, direction }
}

/// A schedule at `rate` bytes per second that goes `seconds` ahead at most.
fn limit(fabric: &Fabric, direction: u32, rate: u64, seconds: u64, law: Law) {
    let limiter = Limiter {
        rate,
        horizon_ns: seconds * SECOND,
        idle_ns: 3600 * SECOND,
        law: law.to_bytes(),
        flags: LIMITER_BOTH,
        ..Limiter::default()
    };
    fabric.edges[0].edge.set_limiter(&key(fabric, direction), &limiter).unwrap();
}

fn standing(fabric: &Fabric, direction: u32) -> Limiter {
    fabric.edges[0].edge.limiter(&key(fabric, direction)).unwrap().unwrap()
}

/// Verdict, frame and departure time of a frame that came with time `stamp`.
fn run(fabric: &Fabric, role: Role, frame: &[u8], segment: Segment, stamp: u64) -> (u32, Vec<u8>, u64) {
    let host = &fabric.edges[0];
    let segment = Segment { ifindex: host.port, ..segment };
    let (run, stamp) = in_namespace(&fabric.host(0), || host.edge.test_run_limit(role, frame, segment, stamp).unwrap());
    (run.verdict, run.frame, stamp)
}

/// From guest 0, or to it.
fn packet(out: bool, protocol: u8, payload: u32) -> Packet {
    let [me, peer] = ["10.7.0.1", "10.7.0.2"].map(|address| words(address.parse().unwrap()));
    let (saddr, daddr) = if out { (me, peer) } else { (peer, me) };
    let (sport, dport) = if out { (40_000, 80) } else { (80, 40_000) };
    Packet { saddr, daddr, sport, dport, proto: protocol, family: 4, payload, ..Packet::default() }
}

fn framed(packet: &Packet) -> Vec<u8> {
    wire::emit(packet, &TcpOptions::default()).unwrap()
}

fn udp(out: bool, payload: u32) -> Vec<u8> {
    framed(&packet(out, proto::UDP, payload))
}

fn segment(out: bool, flags: u8, seq: u32, ack: u32, payload: u32, window: u16) -> Vec<u8> {
    let mss = if flags & tcp::SYN != 0 { 1460 } else { 0 };
    framed(&Packet { tcp_flags: flags, seq, ack, window, mss, ..packet(out, proto::TCP, payload) })
}

fn departure_times_advance_by_size_over_rate_up_to_the_horizon(fabric: &Fabric) {
    for (direction, role, out) in [(LIMITER_OUT, Role::LimitGuest, true), (LIMITER_IN, Role::LimitPort, false)] {
        // Ten bytes a second: what the test itself takes does not matter.
        limit(fabric, direction, 10, 150, Law::None);
        let frame = udp(out, 958);
        assert_eq!(frame.len(), 1000);
        let before = monotonic_ns();
        // A guest that stamps its packets itself changes nothing.
        let (verdict, _, first) = run(fabric, role, &frame, Segment::default(), 7 * SECOND);
        assert_eq!(verdict, NEXT);
        assert!((before..=monotonic_ns()).contains(&first), "at once, not at {first}");
        let (verdict, _, second) = run(fabric, role, &frame, Segment::default(), u64::MAX / 2);
        assert_eq!((verdict, second - first), (NEXT, 100 * SECOND));
        let (verdict, ..) = run(fabric, role, &frame, Segment::default(), 0);
        assert_eq!(verdict, DROP, "200 s ahead");
        let now = standing(fabric, direction);
        assert_eq!((now.sent, now.dropped, now.next_ns - first), (2000, 1, 200 * SECOND));
        assert_eq!(now.scheduled(monotonic_ns()), 10, "a second's worth at most");
        // Nobody is ahead of the first; the second has a second's worth ahead, the most that is counted; the third never waits.
        let delays = fabric.edges[0].edge.limiter_counts(&key(fabric, direction)).unwrap().delays;
        assert_eq!((delays.counts[0], delays.counts[BUCKETS - 1], delays.count()), (1, 1, 2), "{delays:?}");
        assert_eq!(delays.sum_us, 1_000_000);
        let none = Limiter { flags: LIMITER_BOTH, ..Limiter::default() };
        fabric.edges[0].edge.set_limiter(&key(fabric, direction), &none).unwrap();
    }
}

fn segments_count_as_what_they_become_on_the_wire(fabric: &Fabric) {
    limit(fabric, LIMITER_OUT, 1000, 3600, Law::None);
    let frame = segment(true, tcp::ACK, 1, 1, 3000, 1000);
    run(fabric, Role::LimitGuest, &frame, Segment { gso_size: 1460, gso_segs: 3, ..Segment::default() }, 0);
    assert_eq!(standing(fabric, LIMITER_OUT).sent, 3054 + 2 * 54);
    // Nothing but IP can be stamped, and it counts all the same.
    let mut frame = udp(true, 58);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let (verdict, _, stamp) = run(fabric, Role::LimitGuest, &frame, Segment::default(), 0);
    assert_eq!((verdict, stamp, standing(fabric, LIMITER_OUT).sent), (NEXT, 0, 3162 + 100));
}

fn windows_follow_the_schedule(fabric: &Fabric) {
    let law = Law::Spring(Spring { k1: Bytes(20_000), k2: Bytes(30_000), alpha: 512, beta: 512, hold_edge: false });
    limit(fabric, LIMITER_OUT, 100_000, 3600, law);
    let out = |frame: &[u8]| assert_eq!(run(fabric, Role::LimitGuest, frame, Segment::default(), 0).0, NEXT);
    let window = |frame: &[u8]| {
        let (verdict, frame, _) = run(fabric, Role::LimitPort, frame, Segment::default(), 0);
        assert_eq!(verdict, NEXT);
        u16::from_be_bytes([frame[48], frame[49]])
    };
    out(&segment(true, tcp::SYN, 0, 0, 0, 65_535));
    assert_eq!(window(&segment(false, tcp::SYN | tcp::ACK, 0, 1, 0, 65_535)), 65_535);
    for i in 0..10 {
        out(&segment(true, tcp::ACK, 1 + i * 1460, 1, 1460, 65_535));
    }
    // 15 KB are 0.15 s: whether any of it is left does not matter, they are less than K1.
    let grown = window(&segment(false, tcp::ACK, 1, 1461, 0, 65_535));
    assert_eq!(grown, 11 * 1460);
    for i in 10..400 {
        out(&segment(true, tcp::ACK, 1 + i * 1460, 1, 1460, 65_535));
    }
    // Six seconds ahead, of which one counts: 100,000 bytes, so 1 - (1 - 30/100)/2 is left.
    let cut = window(&segment(false, tcp::ACK, 1, 1 + 2 * 1460, 0, 65_535));
    assert!((10_430..=10_450).contains(&cut), "{cut}");
    let counts = fabric.edges[0].edge.limiter_counts(&key(fabric, LIMITER_OUT)).unwrap();
    assert_eq!((counts.cuts, counts.acks, counts.unread, counts.untracked), (1, 3, 0, 0));
    // Marks, too.
    limit(fabric, LIMITER_OUT, 100_000, 3600, Law::Ecn { k: Bytes(20_000) });
    let marked = |n: u32| {
        let mut seen = 0;
        for _ in 0..n {
            let packet = Packet { ecn: wire::ecn::ECT0, ..packet(true, proto::UDP, 1000) };
            seen = run(fabric, Role::LimitGuest, &framed(&packet), Segment::default(), 0).1[15] & 3;
        }
        seen
    };
    assert_eq!(marked(1), wire::ecn::ECT0);
    assert_eq!(marked(200), wire::ecn::CE);
}

/// What the guest may send up to moves by half of the window, or not at all.
fn edges_are_held(fabric: &Fabric) {
    let spring = |hold_edge| Law::Spring(Spring { k1: Bytes(1), k2: Bytes(2), alpha: 512, beta: 0, hold_edge });
    for (port, hold_edge, held) in [(41_100, false, 10 * 1460), (41_101, true, 65_535 - 38 * 1460)] {
        // More than K2 waits all the time, and no window is cut for it.
        limit(fabric, LIMITER_OUT, 10_000, 3600, spring(hold_edge));
        let pass = |out: bool, flags: u8, seq: u32, ack: u32, payload: u32| {
            let (sport, dport, role) = if out { (port, 80, Role::LimitGuest) } else { (80, port, Role::LimitPort) };
            let mss = if flags & tcp::SYN != 0 { 1460 } else { 0 };
            let plain = packet(out, proto::TCP, payload);
            let frame = framed(&Packet { tcp_flags: flags, seq, ack, window: 65_535, mss, sport, dport, ..plain });
            let (verdict, frame, _) = run(fabric, role, &frame, Segment::default(), 0);
            assert_eq!(verdict, NEXT);
            u16::from_be_bytes([frame[48], frame[49]])
        };
        pass(true, tcp::SYN, 0, 0, 0);
        pass(false, tcp::SYN | tcp::ACK, 0, 1, 0);
        for i in 0..45 {
            pass(true, tcp::ACK, 1 + i * 1460, 1, 1460);
        }
        // The SYN leads up to 65,536. Ten packets lead further by a third of them, and then by more than half.
        let told = [38, 41].map(|packets| pass(false, tcp::ACK, 1, 1 + packets * 1460, 0));
        assert_eq!(told, [held, 10 * 1460], "held: {hold_edge}");
    }
}

/// What only a handshake tells outlives the table in which the connection was.
fn windows_are_read_across_versions(fabric: &mut Fabric) {
    let law = Law::Spring(Spring { k1: Bytes(20_000), k2: Bytes(30_000), alpha: 512, beta: 512, hold_edge: false });
    let shift = std::cell::Cell::new(3);
    let frame = |out: bool, port: u16, flags: u8, (seq, ack, payload): (u32, u32, u32)| {
        let syn = flags & tcp::SYN != 0;
        let plain = packet(out, proto::TCP, payload);
        let (sport, dport) = if out { (port, 80) } else { (80, port) };
        let (mss, wscale, window) = if syn { (1460, 1 + shift.get(), 65_535) } else { (0, 0, 60_000) };
        framed(&Packet { tcp_flags: flags, seq, ack, window, mss, wscale, sport, dport, ..plain })
    };
    let passes = |fabric: &Fabric, role: Role, frame: &[u8]| {
        let (verdict, frame, _) = run(fabric, role, frame, Segment::default(), 0);
        assert_eq!(verdict, NEXT);
        u16::from_be_bytes([frame[48], frame[49]])
    };
    limit(fabric, LIMITER_OUT, 100_000_000, 3600, law);
    passes(fabric, Role::LimitGuest, &frame(true, 41_000, tcp::SYN, (0, 0, 0)));
    passes(fabric, Role::LimitPort, &frame(false, 41_000, tcp::SYN | tcp::ACK, (0, 1, 0)));
    next_version(fabric, 1);
    limit(fabric, LIMITER_OUT, 100_000_000, 3600, law);
    for (port, window) in [(41_000, (10 * 1460) >> 3), (41_001, 60_000)] {
        passes(fabric, Role::LimitGuest, &frame(true, port, tcp::ACK, (1, 1, 1460)));
        let told = passes(fabric, Role::LimitPort, &frame(false, port, tcp::ACK, (1, 1461, 0)));
        assert_eq!(told, window, "port {port}: what began before, and what nobody saw begin");
    }
    // A SYN that nobody answers, and its answer, make it known anew.
    passes(fabric, Role::LimitGuest, &frame(true, 41_001, tcp::SYN, (7000, 0, 0)));
    passes(fabric, Role::LimitPort, &frame(false, 41_001, tcp::SYN | tcp::ACK, (9000, 7001, 0)));
    passes(fabric, Role::LimitGuest, &frame(true, 41_001, tcp::ACK, (7001, 9001, 1460)));
    let told = passes(fabric, Role::LimitPort, &frame(false, 41_001, tcp::ACK, (9001, 7001 + 1460, 0)));
    assert_eq!(told, (10 * 1460) >> 3);
    // Another connection of the same ports: its handshake counts, whatever comes in its middle.
    next_version(fabric, 2);
    limit(fabric, LIMITER_OUT, 100_000_000, 3600, law);
    shift.set(5);
    for (port, out) in [(41_000, false), (41_002, true)] {
        passes(fabric, Role::LimitGuest, &frame(true, port, tcp::SYN, (0, 0, 0)));
        let role = if out { Role::LimitGuest } else { Role::LimitPort };
        passes(fabric, role, &frame(out, port, tcp::ACK, (77, 77, 0)));
        passes(fabric, Role::LimitPort, &frame(false, port, tcp::SYN | tcp::ACK, (0, 1, 0)));
        passes(fabric, Role::LimitGuest, &frame(true, port, tcp::ACK, (1, 1, 1460)));
        let told = passes(fabric, Role::LimitPort, &frame(false, port, tcp::ACK, (1, 1461, 0)));
        assert_eq!(told, (10 * 1460) >> 5, "port {port}");
    }
    next_version(fabric, 3);
    limit(fabric, LIMITER_OUT, 100_000_000, 3600, law);
    for port in [41_000, 41_002] {
        passes(fabric, Role::LimitGuest, &frame(true, port, tcp::ACK, (1461, 1, 1460)));
        let told = passes(fabric, Role::LimitPort, &frame(false, port, tcp::ACK, (1, 2921, 0)));
        assert_eq!(told, (10 * 1460) >> 5, "port {port}: and is kept");
    }
}

/// Replaces the edge of host 0 by one whose state has a version that is so much higher.
fn next_version(fabric: &mut Fabric, higher: u32) {
    let (host, edge) = (fabric.host(0), &mut fabric.edges[0]);
    let version = Some(kernel::state_version() + higher);
    let options = Options { pins: edge.pins(), max_flows: 1024, version, ..Options::default() };
    edge.edge = in_namespace(&host, || {
        let mut next = KernelEdge::open(&options).unwrap();
        next.open_limits(1024).unwrap();
        next
    });
}

/// A process of the host may give its packets a priority, which HTB reads as the number of a class, or of itself for none.
#[test]
fn what_the_host_gives_priority_goes_through_the_ingress_limit_too() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("lp");
    fabric.add_edge(0, &Config::default(), &[50_001], VERSION_1, false, 1024);
    let host = fabric.host(0);
    fabric.edges[0].edge.open_limits(1024).unwrap();
    fabric.exec_ok(&host, "tc qdisc add dev g root handle 5e1f: htb default 1");
    fabric.exec_ok(&host, "tc class add dev g parent 5e1f: classid 5e1f:1 htb rate 1gbit");
    fabric.exec_ok(&host, "ip addr add 10.9.0.1/24 dev g");
    fabric.exec_ok(&host, "ip neigh add 10.9.0.2 lladdr 02:00:0a:07:00:01 dev g nud permanent");
    // Until its carrier was heard of, which takes a busy machine a while, a device has no qdisc that counts.
    for _ in 0..200 {
        let state = fabric.exec(&host, &["cat", "/sys/class/net/g/operstate"]);
        if state.stdout.starts_with(b"up") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let edge = &fabric.edges[0];
    in_namespace(&host, || edge.edge.attach(edge.port, Role::LimitPort).unwrap());
    let past = || {
        in_namespace(&host, || {
            let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Priority, &0x5e1f_0000).unwrap();
            for _ in 0..50 {
                socket.send_to(&[0; 1000], "10.9.0.2:9").unwrap();
            }
        });
        let shown = fabric.exec(&host, &["tc", "-s", "qdisc", "show", "dev", "g"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let count = shown.split_once("direct_packets_stat ").and_then(|(_, rest)| rest.split_whitespace().next());
        count.and_then(|count| count.parse::<u32>().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    assert_eq!(past(), 50, "without a limit of what it gets, the port's qdisc is not ours");
    let limiter = Limiter { device: edge.port, class: 0x5e1f_0001, law: Law::None.to_bytes(), ..Limiter::default() };
    edge.edge.set_limiter(&key(&fabric, LIMITER_IN), &limiter).unwrap();
    assert_eq!(past(), 50, "no further packet went past every class");
}
