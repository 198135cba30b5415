//! Who may fill the tables of the kernel edge, and who may not. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use fabric::{in_namespace, Fabric};
use kernel::state::quota::{
    Bounds, Tally, TallyKey, TABLE_FASTLANE, TABLE_FLOWS, TABLE_LIMITED, TABLE_PAIRS, TALLY_NETWORK, TALLY_PORT,
    TALLY_TABLE,
};
use kernel::state::{Config, Counter, Port, Route, Tenants, ROUTE_LOCAL, ROUTE_PEER, VERSION_1};
use kernel::{KernelEdge, Role, Segment};
use units::{BitRate, Bytes, Time};
use wire::{proto, tcp, Packet, TcpOptions};

const FLOWS: u32 = 1024;
/// Of the fabric's guests; another tenant's.
const VNI: u32 = fabric::VNI;
const OTHER: u32 = 9;
const SECOND: u64 = 1_000_000_000;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

/// Host 0 with quotas, and a second port of another network: the loopback device.
fn host(name: &str) -> Option<Fabric> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    let mut fabric = Fabric::new(name);
    fabric.add_edge(0, &Config::default(), &[50_001], VERSION_1, false, FLOWS);
    let edge = &fabric.edges[0].edge;
    edge.set_bounds(TABLE_FLOWS, &Bounds { table: FLOWS, port: FLOWS, network: FLOWS, pad: 0 }).unwrap();
    add_port(edge, 1, OTHER);
    Some(fabric)
}

fn add_port(edge: &KernelEdge, ifindex: u32, vni: u32) {
    edge.set_port(ifindex, &Port { vni, ..Port::default() }).unwrap();
    let local = Route { kind: ROUTE_LOCAL, target: ifindex, ..Route::default() };
    let remote = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
    edge.set_route(vni, "10.7.0.1".parse().unwrap(), 128, &local).unwrap();
    edge.set_route(vni, "10.7.0.2".parse().unwrap(), 128, &remote).unwrap();
}

/// A TCP segment from guest 0 to guest 1, or back.
fn segment(out: bool, port: u16, flags: u8) -> Packet {
    let (here, there) = (wire::v4([10, 7, 0, 1]), wire::v4([10, 7, 0, 2]));
    Packet {
        saddr: if out { here } else { there },
        daddr: if out { there } else { here },
        sport: if out { port } else { 80 },
        dport: if out { 80 } else { port },
        tcp_flags: flags,
        proto: proto::TCP,
        family: 4,
        ..Packet::default()
    }
}

fn frame(packet: &Packet) -> Vec<u8> {
    wire::emit(packet, &TcpOptions::default()).unwrap()
}

/// What the guest on port `ifindex` sends.
fn send(edge: &KernelEdge, ifindex: u32, port: u16, flags: u8) {
    edge.test_run(Role::Guest, ifindex, &frame(&segment(true, port, flags))).unwrap();
}

/// What its peer sends to it.
fn receive(fabric: &Fabric, vni: u32, port: u16, flags: u8) {
    let host = &fabric.edges[0];
    let inner = frame(&segment(false, port, flags));
    let outer = fabric::encapsulated(&inner, vni);
    host.edge.test_run(Role::Uplink, host.uplink, &outer).unwrap();
}

fn of_port(fabric: &Fabric, ifindex: u32) -> Tally {
    tally(fabric, TALLY_PORT, ifindex)
}

fn tally(fabric: &Fabric, kind: u16, id: u32) -> Tally {
    let tallies = fabric.edges[0].edge.tallies().unwrap();
    tallies.get(&TallyKey::new(TABLE_FLOWS, kind, id)).copied().unwrap_or_default()
}

fn refused(fabric: &Fabric) -> [u64; 4] {
    let counters = fabric.edges[0].edge.counters().unwrap();
    [Counter::FlowTableFull, Counter::FullPort, Counter::FullNetwork, Counter::FullOutside].map(|c| counters.get(c))
}

#[test]
fn one_guest_leaves_the_others_room() {
    let Some(fabric) = host("qa") else { return };
    in_namespace(&fabric.host(0), || {
        let (edge, greedy) = (&fabric.edges[0].edge, fabric.edges[0].port);
        let begun = kernel::monotonic_ns();
        for port in 0..5000 {
            send(edge, greedy, port, tcp::SYN);
        }
        let held = of_port(&fabric, greedy).flows;
        assert_eq!(held, FLOWS as i32 / 2, "as much as it leaves");
        assert_eq!(refused(&fabric), [4488, 4488, 0, 0]);
        // Another tenant begins as if nobody else were there.
        for port in 0..200 {
            send(edge, 1, port, tcp::SYN);
        }
        assert_eq!(of_port(&fabric, 1).flows, 200);
        assert_eq!(refused(&fabric), [4488, 4488, 0, 0]);
        assert_eq!(tally(&fabric, TALLY_NETWORK, OTHER).flows, 200);
        assert_eq!(tally(&fabric, TALLY_TABLE, 0).flows, held + 200);
        // What nobody answered goes after ten seconds, although idle flows may stay for a minute.
        assert_eq!(edge.sweep(begun + 9 * SECOND).unwrap().expired, 0);
        let swept = edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
        assert_eq!((swept.expired, swept.kept, swept.mended), (712, 0, 0));
        assert_eq!(tally(&fabric, TALLY_TABLE, 0), Tally::default());
    });
}

#[test]
fn a_network_with_twice_what_is_free_gets_no_more() {
    let Some(fabric) = host("qb") else { return };
    in_namespace(&fabric.host(0), || {
        let edge = &fabric.edges[0].edge;
        let begun = kernel::monotonic_ns();
        let (greedy, tallies) = (fabric.edges[0].port, |n| Tally { flows: n, unsettled: 0 });
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_NETWORK, VNI), &tallies(700)).unwrap();
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_TABLE, 0), &tallies(700)).unwrap();
        (0..20).for_each(|port| send(edge, greedy, port, tcp::SYN));
        assert_eq!(of_port(&fabric, greedy).flows, 16, "as any port may");
        assert_eq!(refused(&fabric), [4, 0, 4, 0], "700 is more than twice 324");
        (0..20).for_each(|port| send(edge, 1, port, tcp::SYN));
        assert_eq!(refused(&fabric), [4, 0, 4, 0]);
        // A port that holds much leaves its network some; one that holds little begins.
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_NETWORK, VNI), &tallies(500)).unwrap();
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_PORT, greedy), &tallies(200)).unwrap();
        send(edge, greedy, 100, tcp::SYN);
        assert_eq!(refused(&fabric), [5, 0, 5, 0], "200 are more than 576 - 500");
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_PORT, greedy), &tallies(16)).unwrap();
        // The next sweep finds that nobody holds so much.
        let swept = edge.sweep(begun).unwrap();
        assert_eq!((swept.kept, swept.mended), (36, 2));
        assert_eq!(tally(&fabric, TALLY_TABLE, 0), tallies(36));
        assert_eq!(tally(&fabric, TALLY_NETWORK, VNI), tallies(16));
        (16..20).for_each(|port| send(edge, greedy, port, tcp::SYN));
        assert_eq!(of_port(&fabric, greedy).flows, 20);
        // Bounds of the configuration come on top.
        edge.set_bounds(TABLE_FLOWS, &Bounds { table: FLOWS, port: 3, network: FLOWS, pad: 0 }).unwrap();
        edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
        (2..10).for_each(|port| send(edge, greedy, port, tcp::SYN));
        assert_eq!(of_port(&fabric, greedy).flows, 3);
        edge.set_bounds(TABLE_FLOWS, &Bounds { table: FLOWS, port: FLOWS, network: 2, pad: 0 }).unwrap();
        (2..10).for_each(|port| send(edge, 1, port, tcp::SYN));
        assert_eq!(of_port(&fabric, 1).flows, 2);
    });
}

#[test]
fn nobody_fills_a_guests_port_from_outside() {
    let Some(fabric) = host("qc") else { return };
    in_namespace(&fabric.host(0), || {
        let (edge, victim) = (&fabric.edges[0].edge, fabric.edges[0].port);
        for port in 0..5000 {
            receive(&fabric, VNI, port, tcp::SYN);
            send(edge, victim, port, tcp::SYN | tcp::ACK); // it answers, as it must
        }
        let held = of_port(&fabric, victim);
        assert_eq!(held.flows, held.unsettled);
        assert!(held.flows <= FLOWS as i32 / 5 + 1, "{held:?}: a quarter of what is free");
        assert!(refused(&fabric)[3] > 4000, "{:?}", refused(&fabric));
        // The guest's own connections find room, and so does who completes a handshake that has a place.
        for port in 10_000..10_200 {
            send(edge, victim, port, tcp::SYN);
            receive(&fabric, VNI, port, tcp::SYN | tcp::ACK);
            send(edge, victim, port, tcp::ACK);
        }
        assert_eq!(of_port(&fabric, victim).flows, held.flows + 200);
        receive(&fabric, VNI, 0, tcp::ACK);
        assert_eq!(of_port(&fabric, victim).unsettled, held.unsettled - 1, "settled");
        // Half-open ones go after ten seconds; the others stay.
        let swept = edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
        assert_eq!((swept.kept, swept.expired), (201, held.flows as usize - 1));
        assert_eq!(of_port(&fabric, victim), Tally { flows: 201, unsettled: 0 });
    });
}

/// What the guest on port `ifindex` sends under its port `port`.
fn send_other(edge: &KernelEdge, ifindex: u32, port: u16, protocol: u8, flags: u8, payload: u32) {
    let packet = Packet { proto: protocol, payload, ..segment(true, port, flags) };
    edge.test_run(Role::Guest, ifindex, &frame(&packet)).unwrap();
}

/// Strangers make a guest answer: its answers are not its own connections, whatever they are.
#[test]
fn a_guests_answers_do_not_cost_it_its_own_connections() {
    let floods = [
        ("closed ports", proto::TCP, tcp::SYN, tcp::RST | tcp::ACK),
        ("segments of no connection", proto::TCP, tcp::ACK, tcp::RST),
        ("challenges", proto::TCP, tcp::SYN, tcp::ACK),
        ("datagrams", proto::UDP, 0, 0),
    ];
    for (what, protocol, theirs, answer) in floods {
        let Some(fabric) = host("qf") else { return };
        in_namespace(&fabric.host(0), || {
            let (host, victim) = (&fabric.edges[0], fabric.edges[0].port);
            for port in 1..5000 {
                let inner = frame(&Packet { proto: protocol, ..segment(false, port, theirs) });
                host.edge.test_run(Role::Uplink, host.uplink, &fabric::encapsulated(&inner, VNI)).unwrap();
                send_other(&host.edge, victim, port, protocol, answer, 0);
            }
            let held = of_port(&fabric, victim);
            assert_eq!(held.flows, held.unsettled, "{what}");
            assert!(held.flows <= FLOWS as i32 / 5 + 1, "{what}: {held:?}: a quarter of what is free");
            let before = refused(&fabric);
            for port in 10_000..10_100 {
                send_other(&host.edge, victim, port, proto::TCP, tcp::SYN, 0);
                send_other(&host.edge, victim, port, proto::UDP, 0, 0);
            }
            assert_eq!(of_port(&fabric, victim).flows, held.flows + 200, "{what}");
            assert_eq!(refused(&fabric), before, "{what}");
            // Who completed a handshake that found no room is remembered when the guest sends data.
            receive(&fabric, VNI, 20_000, tcp::SYN);
            send(&host.edge, victim, 20_000, tcp::SYN | tcp::ACK);
            receive(&fabric, VNI, 20_000, tcp::ACK);
            assert_eq!(of_port(&fabric, victim).flows, held.flows + 200, "{what}");
            send_other(&host.edge, victim, 20_000, proto::TCP, tcp::ACK, 1000);
            assert_eq!(
                of_port(&fabric, victim),
                Tally { flows: held.flows + 201, unsettled: held.unsettled },
                "{what}"
            );
        });
    }
}

/// What may have begun outside, and the data path cannot know, leaves an eighth to what the guest surely begins.
#[test]
fn the_last_eighth_of_a_port_is_for_what_its_guest_surely_began() {
    let Some(fabric) = host("qg") else { return };
    in_namespace(&fabric.host(0), || {
        let (edge, port) = (&fabric.edges[0].edge, fabric.edges[0].port);
        edge.set_bounds(TABLE_FLOWS, &Bounds { table: FLOWS, port: 80, network: FLOWS, pad: 0 }).unwrap();
        let held = || of_port(&fabric, port);
        (0..200).for_each(|n| receive(&fabric, VNI, n, tcp::SYN));
        assert_eq!(held(), Tally { flows: 20, unsettled: 20 }, "not settled: a quarter");
        (1000..1200).for_each(|n| send_other(edge, port, n, proto::TCP, tcp::ACK, 1000));
        assert_eq!(held(), Tally { flows: 60, unsettled: 20 }, "began outside: three quarters");
        (2000..2200).for_each(|n| send_other(edge, port, n, proto::UDP, 0, 0));
        assert_eq!(held(), Tally { flows: 70, unsettled: 20 }, "perhaps its own: seven eighths");
        (3000..3200).for_each(|n| send(edge, port, n, tcp::SYN));
        assert_eq!(held(), Tally { flows: 80, unsettled: 20 }, "its own");
    });
}

/// Guests of one network, on ports 1 to `n`.
fn neighbours(fabric: &Fabric, n: u32) {
    for ifindex in 1..=n {
        add_port(&fabric.edges[0].edge, ifindex, VNI);
    }
}

/// The guest on port `ifindex` opens `n` connections, at most 1000, of its own.
fn open(edge: &KernelEdge, ifindex: u32, n: u16) {
    (0..n).for_each(|port| send(edge, ifindex, 1000 * ifindex as u16 + port, tcp::SYN));
}

#[test]
fn greedy_ports_leave_their_networks_others_room() {
    let Some(fabric) = host("qh") else { return };
    in_namespace(&fabric.host(0), || {
        let edge = &fabric.edges[0].edge;
        neighbours(&fabric, 3);
        for port in 0..1000 {
            (1..=2).for_each(|greedy| send(edge, greedy, 1000 * greedy as u16 + port, tcp::SYN));
        }
        // Each may hold what its network has room for: 2 (1024 - 2 n) - 2 n.
        let two = [1, 2].map(|ifindex| of_port(&fabric, ifindex).flows);
        assert!(two.iter().all(|held| (292..=293).contains(held)), "{two:?}: two sevenths");
        open(edge, 3, 1000);
        assert_eq!(of_port(&fabric, 3).flows, 73, "a quarter of what the network had room for");
    });
}

#[test]
fn the_configured_bound_of_a_network_is_shared_too() {
    let Some(fabric) = host("qi") else { return };
    in_namespace(&fabric.host(0), || {
        let edge = &fabric.edges[0].edge;
        neighbours(&fabric, 3);
        edge.set_bounds(TABLE_FLOWS, &Bounds { table: FLOWS, port: FLOWS, network: 60, pad: 0 }).unwrap();
        (1..=3).for_each(|ifindex| open(edge, ifindex, 1000));
        // Half of what there is; 16, as for any port; what the bound leaves.
        assert_eq!([1, 2, 3].map(|ifindex| of_port(&fabric, ifindex).flows), [30, 16, 14]);
        assert_eq!(refused(&fabric), [2940, 0, 2940, 0]);
    });
}

#[test]
fn counts_outlive_the_agent() {
    let Some(mut fabric) = host("qd") else { return };
    let (port, begun) = (fabric.edges[0].port, kernel::monotonic_ns());
    in_namespace(&fabric.host(0), || (0..20).for_each(|n| send(&fabric.edges[0].edge, port, n, tcp::SYN)));
    let pins = fabric.edges[0].pins();
    fabric.edges[0].edge = in_namespace(&fabric.host(0), || {
        let options = kernel::Options { pins, max_flows: FLOWS, ..Default::default() };
        KernelEdge::open(&options).unwrap() // as when the agent was killed
    });
    let edge = &fabric.edges[0].edge;
    assert_eq!(edge.adopted(), kernel::Adopted::Existing);
    assert_eq!(of_port(&fabric, port).flows, 20);
    let swept = edge.sweep(begun).unwrap();
    assert_eq!((swept.kept, swept.mended), (20, 0));
    // A count that drifted is mended, in either direction.
    for wrong in [-5, 1000] {
        edge.set_tally(&TallyKey::new(TABLE_FLOWS, TALLY_PORT, port), &Tally { flows: wrong, unsettled: 3 }).unwrap();
        assert_eq!(edge.sweep(begun).unwrap().mended, 1);
        assert_eq!(of_port(&fabric, port), Tally { flows: 20, unsettled: 0 });
    }
    // A port that is gone leaves nothing behind once its flows are.
    edge.remove_port(port).unwrap();
    edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
    edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
    let left = edge.tallies().unwrap();
    assert!(!left.contains_key(&TallyKey::new(TABLE_FLOWS, TALLY_PORT, port)), "{left:?}");
    assert!(!left.contains_key(&TallyKey::new(TABLE_FLOWS, TALLY_NETWORK, VNI)), "{left:?}");
}

/// Two ports of one network, and one of another.
const GREEDY: [u32; 2] = [2, 3];
const MODEST: u32 = 1;

/// Greedy ports of one network leave another one's room in `table`, and whoever was charged gets back what is forgotten.
/// `begin` has the guest on a port begin its `n`th row.
fn networks_share(fabric: &Fabric, table: u16, begin: impl Fn(u32, u16)) {
    let edge = &fabric.edges[0].edge;
    edge.set_bounds(table, &Bounds { table: FLOWS, port: FLOWS, network: FLOWS, pad: 0 }).unwrap();
    let held = |kind, id| edge.tallies().unwrap().get(&TallyKey::new(table, kind, id)).map_or(0, |tally| tally.flows);
    let networks = || [held(TALLY_NETWORK, VNI), held(TALLY_NETWORK, OTHER), held(TALLY_TABLE, 0)];
    let begun = kernel::monotonic_ns();
    for n in 0..1000 {
        GREEDY.iter().for_each(|greedy| begin(*greedy, n));
    }
    // Each of them may hold what its network has room for, two sevenths; then the other one half of what is free.
    (0..1000).for_each(|n| begin(MODEST, n));
    let [greedy, modest, all] = networks();
    assert!((584..=586).contains(&greedy) && (219..=220).contains(&modest), "{greedy}, {modest}");
    assert_eq!(greedy, GREEDY.iter().map(|port| held(TALLY_PORT, *port)).sum::<i32>());
    assert_eq!(all, greedy + modest);
    // A port that moves leaves to its former network what that was charged for.
    let port = edge.port(GREEDY[0]).unwrap().unwrap();
    edge.set_port(GREEDY[0], &Port { vni: OTHER, ..port }).unwrap();
    assert_eq!(edge.sweep(begun).unwrap().mended, 0);
    assert_eq!(networks(), [greedy, modest, all]);
    assert_eq!(edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap().mended, 0);
    assert_eq!(networks(), [0; 3]);
    // Each begins anew in its network, within the configuration's bound.
    edge.set_bounds(table, &Bounds { table: FLOWS, port: FLOWS, network: 14, pad: 0 }).unwrap();
    (0..100).for_each(|n| GREEDY.iter().for_each(|port| begin(*port, n)));
    assert_eq!(networks(), [14, 14, 28]);
}

/// What began outside is charged to the port as unsettled until it settles, and to the network until it is forgotten. `pass`: a
/// segment of the guest on the first such port, or to it, with these flags.
fn settles(fabric: &Fabric, table: u16, pass: impl Fn(bool, u8)) {
    let edge = &fabric.edges[0].edge;
    edge.set_bounds(table, &Bounds { table: FLOWS, port: FLOWS, network: FLOWS, pad: 0 }).unwrap();
    let held = || {
        let tallies = edge.tallies().unwrap();
        [(TALLY_PORT, GREEDY[0]), (TALLY_NETWORK, VNI)]
            .map(|(kind, id)| tallies.get(&TallyKey::new(table, kind, id)).map_or((0, 0), |t| (t.flows, t.unsettled)))
    };
    let steps = [(false, tcp::SYN, 1), (true, tcp::SYN | tcp::ACK, 1), (false, tcp::ACK, 0), (true, tcp::RST, 0)];
    for (out, flags, unsettled) in steps {
        pass(out, flags);
        assert_eq!(held(), [(1, unsettled), (1, 0)], "{flags:x}");
    }
    assert_eq!(edge.sweep(kernel::monotonic_ns() + 2 * SECOND).unwrap().mended, 0);
    assert_eq!(held(), [(0, 0); 2]);
}

/// Host 0 with such ports.
fn shared(name: &str) -> Option<Fabric> {
    let fabric = host(name)?;
    GREEDY.iter().for_each(|ifindex| add_port(&fabric.edges[0].edge, *ifindex, VNI));
    Some(fabric)
}

#[test]
fn greedy_ports_leave_other_networks_room_for_pairs() {
    let Some(fabric) = shared("qj") else { return };
    let edge = &fabric.edges[0].edge;
    edge.set_bounds(TABLE_FLOWS, &Bounds::default()).unwrap();
    let mut config = edge::hygenicc::Config::new(BitRate::from_gbps(10), Time::from_us(100));
    config.depth = Bytes(1 << 30);
    edge.set_tenants(&Tenants { conf: config.conf(), backlog: 0, numbers: 3, pad: 0 }).unwrap();
    for (number, ifindex) in [(1, MODEST), (2, GREEDY[0]), (3, GREEDY[1])] {
        let port = edge.port(ifindex).unwrap().unwrap();
        edge.set_port(ifindex, &port.with_share(number, 1)).unwrap();
        let remote = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
        edge.set_route(port.vni, "10.8.0.0".parse().unwrap(), 16, &remote).unwrap();
    }
    in_namespace(&fabric.host(0), || {
        networks_share(&fabric, TABLE_PAIRS, |ifindex, n| {
            let [high, low] = n.to_be_bytes();
            let packet = Packet { daddr: wire::v4([10, 8, high, low]), ..segment(true, 1000, tcp::SYN) };
            edge.test_run(Role::Guest, ifindex, &frame(&packet)).unwrap();
        });
    });
}

#[test]
fn greedy_ports_leave_other_networks_room_in_fastlanes_table() {
    let Some(mut fabric) = shared("qk") else { return };
    let obstacle = fabric::older_than(fabric::WITH_TCX, "FastLane").or_else(|| kernel::drop_reasons().err());
    if let Some(why) = obstacle {
        eprintln!("skipped: {why}");
        return;
    }
    fabric.edges[0].edge.open_fastlane(FLOWS).unwrap();
    let edge = &fabric.edges[0].edge;
    in_namespace(&fabric.host(0), || {
        settles(&fabric, TABLE_FASTLANE, |out, flags| {
            let role = if out { Role::FastGuest } else { Role::FastPort };
            edge.test_run(role, GREEDY[0], &frame(&segment(out, 5000, flags))).unwrap();
        });
        networks_share(&fabric, TABLE_FASTLANE, |ifindex, port| {
            edge.test_run(Role::FastGuest, ifindex, &frame(&segment(true, port, tcp::SYN))).unwrap();
        });
    });
}

#[test]
fn greedy_ports_leave_other_networks_room_in_the_table_of_limits() {
    let Some(mut fabric) = shared("ql") else { return };
    fabric.edges[0].edge.open_limits(FLOWS).unwrap();
    if let Some(why) = fabric.edges[0].edge.lawless() {
        eprintln!("skipped: laws of rate limits: {why}");
        return;
    }
    let edge = &fabric.edges[0].edge;
    in_namespace(&fabric.host(0), || {
        GREEDY.iter().chain([&MODEST]).for_each(|ifindex| limit(edge, *ifindex));
        settles(&fabric, TABLE_LIMITED, |out, flags| {
            let role = if out { Role::LimitGuest } else { Role::LimitPort };
            let segment = frame(&segment(out, 5000, flags));
            edge.test_run_limit(role, &segment, Segment { ifindex: GREEDY[0], ..Segment::default() }, 0).unwrap();
        });
        let begin = |ifindex, port| send_limited(edge, ifindex, port);
        networks_share(&fabric, TABLE_LIMITED, begin);
        // A port that has a limit only is in no network.
        let before = edge.tallies().unwrap();
        edge.remove_port(GREEDY[1]).unwrap();
        (200..210).for_each(|n| begin(GREEDY[1], n));
        let mut after = edge.tallies().unwrap();
        for (kind, id) in [(TALLY_PORT, GREEDY[1]), (TALLY_TABLE, 0)] {
            after.get_mut(&TallyKey::new(TABLE_LIMITED, kind, id)).unwrap().flows -= 10;
        }
        assert_eq!(after, before);
        edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
        assert!(edge.tallies().unwrap().values().all(|tally| *tally == Tally::default()));
    });
}

/// What a port sends has a limit with a law.
fn limit(edge: &KernelEdge, ifindex: u32) {
    use edge::limiter::{Law, Spring};
    use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_OUT};
    let key = LimiterKey { ifindex, direction: LIMITER_OUT };
    let law = Law::Spring(Spring { k1: Bytes(20_000), k2: Bytes(30_000), alpha: 512, beta: 512, hold_edge: false })
        .to_bytes();
    let (rate, horizon_ns, idle_ns) = (125_000_000, SECOND, 60 * SECOND);
    edge.set_limiter(&key, &Limiter { rate, horizon_ns, idle_ns, law, ..Limiter::default() }).unwrap();
}

/// A SYN of the guest on such a port.
fn send_limited(edge: &KernelEdge, ifindex: u32, port: u16) {
    let segment = frame(&segment(true, port, tcp::SYN));
    edge.test_run_limit(Role::LimitGuest, &segment, Segment { ifindex, ..Segment::default() }, 0).unwrap();
}

#[test]
fn one_limited_port_leaves_the_others_room() {
    use kernel::state::limiter::{LimiterKey, LIMITER_OUT};
    let Some(mut fabric) = host("qe") else { return };
    fabric.edges[0].edge.open_limits(FLOWS).unwrap();
    if let Some(why) = fabric.edges[0].edge.lawless() {
        eprintln!("skipped: laws of rate limits: {why}");
        return;
    }
    let (edge, greedy) = (&fabric.edges[0].edge, fabric.edges[0].port);
    edge.set_bounds(TABLE_LIMITED, &Bounds { table: FLOWS, port: FLOWS, network: FLOWS, pad: 0 }).unwrap();
    in_namespace(&fabric.host(0), || {
        [greedy, 1].into_iter().for_each(|ifindex| limit(edge, ifindex));
        let held = |ifindex| {
            let key = TallyKey::new(TABLE_LIMITED, TALLY_PORT, ifindex);
            edge.tallies().unwrap().get(&key).map_or(0, |tally| tally.flows)
        };
        let begun = kernel::monotonic_ns();
        (0..5000).for_each(|port| send_limited(edge, greedy, port));
        assert_eq!(held(greedy), FLOWS as i32 / 2);
        (0..200).for_each(|port| send_limited(edge, 1, port));
        assert_eq!(held(1), 200);
        let key = LimiterKey { ifindex: 1, direction: LIMITER_OUT };
        assert_eq!(edge.limiter_counts(&key).unwrap().untracked, 0);
        edge.sweep(begun + 9 * SECOND).unwrap();
        assert_eq!(held(1), 200);
        edge.sweep(kernel::monotonic_ns() + 11 * SECOND).unwrap();
        assert_eq!((held(greedy), held(1)), (0, 0));
    });
}
