//! A slot of the kernel's flow table carries nothing of its former flow: the kernel gives a deleted slot to the next flow at once. What
//! crates/edge/tests/recycled.rs tries of the stages is tried here of the table and of what the programs keep beside the stages. Root
//! only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use edge::vcc::{self, Class};
use fabric::{in_namespace, Fabric};
use kernel::state::{Config, FlowSlot, FlowSlotKey, Port, Route, CONFIG_CONGESTION, ROUTE_LOCAL, VERSION_1};
use kernel::Role;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::encap::Encap;
use wire::{proto, tcp, Packet, TcpOptions};

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];
/// Of one history, and of what follows it.
const FLOWS: u64 = 6;
/// No flow is younger.
const FOREVER: u64 = u64::MAX / 2;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A frame, and whether the guest sends it.
type Frame = (bool, Vec<u8>);

fn frame(out: bool, port: u16, six: bool, protocol: u8, fields: Packet, encap: Encap) -> Frame {
    let [here, there] = if six { ["fd07::1", "fd07::2"] } else { ["10.7.0.1", "10.7.0.2"] };
    let [here, there] = [here, there].map(|address| kernel::state::words(address.parse().unwrap()));
    let packet = Packet {
        saddr: if out { here } else { there },
        daddr: if out { there } else { here },
        sport: if out { port } else { 80 },
        dport: if out { 80 } else { port },
        proto: protocol,
        family: if six { 6 } else { 4 },
        ..fields
    };
    let inner = wire::emit(&packet, &TcpOptions::default()).unwrap();
    if out {
        return (true, inner);
    }
    let mut outer = fabric::encapsulated(&inner, fabric::VNI);
    let (first, second) = encap.pack();
    outer[42..46].copy_from_slice(&first.to_be_bytes());
    outer[46..50].copy_from_slice(&second.to_be_bytes());
    (false, outer)
}

/// Connections from `first` on: their handshakes, then anything; and datagrams.
fn frames(random: &mut Random, first: u16, n: u64) -> Vec<Frame> {
    let none = Encap::new(fabric::VNI, VERSION_1);
    let mut all = Vec::new();
    for flow in 0..FLOWS {
        let (port, six, out) = (first + flow as u16, flow % 2 == 1, random.below(2) == 0);
        let syn = Packet { tcp_flags: tcp::SYN, seq: 100, window: 60_000, mss: 1400, wscale: 8, ..Packet::default() };
        let answer = Packet { tcp_flags: tcp::SYN | tcp::ACK, seq: 500, ack: 101, ..syn };
        let last = Packet { tcp_flags: tcp::ACK, seq: 101, ack: 501, window: 500, ..Packet::default() };
        all.extend(
            [(out, syn), (!out, answer), (out, last)].map(|(out, p)| frame(out, port, six, proto::TCP, p, none)),
        );
    }
    for _ in 0..n {
        let (flow, out) = (random.below(FLOWS), random.below(2) == 0);
        let protocol = if random.below(8) == 0 { proto::UDP } else { proto::TCP };
        let ends = random.below(40) == 0;
        let fields = Packet {
            tcp_flags: tcp::ACK | if ends { tcp::FIN } else { 0 },
            seq: 101 + random.below(20) as u32 * 400,
            ack: 501 + random.below(20) as u32 * 400,
            payload: [0, 400, 1200][random.below(3) as usize],
            window: random.below(1000) as u16,
            ecn: random.below(4) as u8,
            ..Packet::default()
        };
        let has_cell = random.below(2) as u8;
        let encap = Encap { has_cell, cell: random.below(u64::from(has_cell) * 9 + 1) as u8, ..none };
        all.push(frame(out, first + flow as u16, flow % 2 == 1, protocol, fields, encap));
    }
    all
}

/// Verdicts and frames.
fn pass(fabric: &Fabric, frames: &[Frame]) -> Vec<(u32, Vec<u8>)> {
    let host = &fabric.edges[0];
    let run = |(out, frame): &Frame| {
        let (role, ifindex) = if *out { (Role::Guest, host.port) } else { (Role::Uplink, host.uplink) };
        host.edge.test_run(role, ifindex, frame).unwrap()
    };
    frames.iter().map(run).collect()
}

/// The stages' clock, us. All that flows keep of tables is looked up anew.
fn set_time(fabric: &Fabric, test_now_us: u32) {
    let edge = &fabric.edges[0].edge;
    edge.set_config(&Config { test_now_us, ..edge.config().unwrap() }).unwrap();
}

fn forget(fabric: &Fabric) {
    let swept = fabric.edges[0].edge.sweep(FOREVER).unwrap();
    assert_eq!(swept.kept, 0, "{swept:?}");
}

/// All flows, without what real time is in.
fn slots(fabric: &Fabric) -> Vec<(FlowSlotKey, FlowSlot)> {
    let mut slots = fabric.edges[0].edge.flows().unwrap();
    slots.sort_unstable_by_key(|(key, _)| *key);
    for (_, slot) in &mut slots {
        slot.timer = 0; // one of those that are free
        for epoch in [&mut slot.found.out_epoch, &mut slot.found.in_epoch] {
            *epoch = u32::from(*epoch != 0);
        }
    }
    slots
}

#[test]
fn a_slot_carries_nothing_of_its_former_flow() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("re");
    fabric.options.test_clock = true;
    let balance = edge::Balance::flowcell(units::Bytes::kib(4)).conf(false);
    let config = Config { balance, flags: CONFIG_CONGESTION, test_now_us: 7_000_000, ..Config::default() };
    fabric.add_edge(0, &config, &LABELS, VERSION_1, false, 64);
    fabric.edges[0].edge.set_congestion(&vcc::Config::new(Class::default())).unwrap();
    in_namespace(&fabric.host(0), || {
        let after = frames(&mut Random(1), 40_000, 100);
        let seen = pass(&fabric, &after);
        let fresh = slots(&fabric);
        assert!(fresh.len() as u64 >= FLOWS && fresh.iter().any(|(_, slot)| slot.balance.cell > 0), "{fresh:?}");
        // Without forgetting, the same again is seen otherwise.
        set_time(&fabric, 7_000_000);
        assert_ne!(pass(&fabric, &after), seen);
        assert_ne!(slots(&fabric), fresh);
        for round in 0..50 {
            forget(&fabric);
            let mut random = Random(round);
            set_time(&fabric, random.below(6_000_000) as u32);
            let before = frames(&mut random, 30_000, 200);
            pass(&fabric, &before);
            assert!(!slots(&fabric).is_empty());
            forget(&fabric);
            set_time(&fabric, 7_000_000);
            let again = pass(&fabric, &after);
            let differs = again.iter().zip(&seen).position(|(again, seen)| again != seen);
            assert_eq!(differs, None, "round {round}: {:?}", differs.map(|at| (&after[at], &again[at], &seen[at])));
            for (found, fresh) in slots(&fabric).iter().zip(&fresh) {
                assert_eq!(found, fresh, "round {round}");
            }
        }
    });
}

/// Runs of the uplink's program for the first guest, and sweeps meanwhile, at least.
const RUNS: usize = 50_000;
const SWEEPS: usize = 2_000;
const REDIRECT: u32 = 7;

/// A segment of the peer's guest for that one, of one of a few connections.
fn for_guest(to: &str, port: u16) -> Vec<u8> {
    let [saddr, daddr] = ["10.7.0.2", to].map(|address| kernel::state::words(address.parse().unwrap()));
    let (tcp_flags, seq, ack, window, payload) = (tcp::ACK, 101, 501, 500, 400);
    let (family, sport, dport, proto) = (4, 80, port, proto::TCP);
    let packet =
        Packet { saddr, daddr, family, sport, dport, proto, tcp_flags, seq, ack, window, payload, ..Packet::default() };
    fabric::encapsulated(&wire::emit(&packet, &TcpOptions::default()).unwrap(), fabric::VNI)
}

/// Whoever waits for the end need not wait for one that failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const PORT: u32 = 5000; // the number of no interface: nothing is sent in a test run
const SECOND_MAC: [u8; 6] = [2, 0, 0x0a, 7, 0, 0x55];

/// A host with a second guest of the same network, 10.7.0.5, so that nothing but what a slot keeps tells them apart.
fn two_guests(name: &str) -> Fabric {
    let mut fabric = Fabric::new(name);
    // With an epoch, flows keep to which port they lead.
    let config = Config { epoch: 1, ..Config::default() };
    fabric.add_edge(0, &config, &LABELS, VERSION_1, false, 64);
    let edge = &fabric.edges[0].edge;
    edge.set_port(PORT, &Port { vni: fabric::VNI, mac: SECOND_MAC, ..Port::default() }).unwrap();
    let local = Route { kind: ROUTE_LOCAL, target: PORT, ..Route::default() };
    edge.set_route(fabric::VNI, "10.7.0.5".parse().unwrap(), 128, &local).unwrap();
    fabric
}

/// The guest with this MAC gets it.
fn assert_arrives(fabric: &Fabric, frame: &[u8], mac: [u8; 6]) {
    let (verdict, out) = fabric.edges[0].edge.test_run(Role::Uplink, fabric.edges[0].uplink, frame).unwrap();
    assert_eq!((verdict, &out[..6]), (REDIRECT, &mac[..]), "another guest gets {out:02x?}");
}

/// What a program sees that has found a slot just before another guest's flow took it.
#[test]
fn what_another_flow_has_kept_leads_nowhere() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let fabric = two_guests("rk");
    let (first, edge) = (fabric::guest_mac(0), &fabric.edges[0].edge);
    let (own, others) = (for_guest("10.7.0.1", 40_000), for_guest("10.7.0.5", 40_000));
    in_namespace(&fabric.host(0), || {
        for _ in 0..2 {
            assert_arrives(&fabric, &own, first);
            assert_arrives(&fabric, &others, SECOND_MAC);
        }
        let flows = edge.flows().unwrap();
        let led_to = |port| flows.iter().find(|(_, slot)| slot.found.in_port == port).expect("it is kept");
        let ((key, slot), (_, other)) = (led_to(fabric.edges[0].port), led_to(PORT));
        edge.set_flow(key, &FlowSlot { found: other.found, ..*slot }).unwrap();
        assert_arrives(&fabric, &own, first);
        assert_eq!(edge.flow(key).unwrap().unwrap().found.in_port, fabric.edges[0].port, "and it is kept anew");
    });
}

/// While a program holds a slot, the agent deletes it and another guest's flow takes it.
#[test]
fn a_slot_that_is_taken_over_meanwhile_leads_to_no_other_guest() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let fabric = &two_guests("rt");
    let edge = &fabric.edges[0].edge;
    let frames = |to: &'static str| (0..4).map(move |n| for_guest(to, 40_000 + n)).collect::<Vec<_>>();
    let (own, others) = (&frames("10.7.0.1"), &frames("10.7.0.5"));
    let (host, over, swept) = (&fabric.host(0), &AtomicBool::new(false), &AtomicBool::new(false));
    let sweeps = move || {
        let _ended = Ends(swept);
        let (mut sweeps, mut expired) = (0, 0);
        while sweeps < SWEEPS || !over.load(Ordering::Relaxed) {
            expired += edge.sweep(FOREVER).unwrap().expired;
            // The first time a flow keeps where it leads; then that is what it goes by.
            (0..4).for_each(|_| others.iter().for_each(|frame| assert_arrives(fabric, frame, SECOND_MAC)));
            sweeps += 1;
            swept.store(sweeps >= SWEEPS, Ordering::Relaxed);
        }
        expired
    };
    let runs = move || {
        let _ended = Ends(over);
        let mut runs = 0;
        while runs < RUNS || !swept.load(Ordering::Relaxed) {
            own.iter().for_each(|frame| assert_arrives(fabric, frame, fabric::guest_mac(0)));
            runs += own.len();
        }
    };
    let expired = std::thread::scope(|scope| {
        let sweeper = scope.spawn(move || in_namespace(host, sweeps));
        in_namespace(host, runs);
        sweeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(expired >= SWEEPS, "slots are taken over: {expired}");
}
