//! The fabric by itself: packets in, packets out, at times computed by hand.

mod common;

use common::{clos, DELAY, FULL, RATE};
use fabric::{
    conga_suits, Aqm, Buffer, Codel, Delivery, Event, Fabric, Multipath, Notify, Packet, Parallel, RandomLoss,
    SwitchConfig,
};
use proptest::prelude::*;
use sim::Scheduler;
use topology::{Dumbbell, FatTree, SingleSwitch, Topology};
use units::{BitRate, Bytes, Time};
use wire::ecn;

/// Of a full packet at 10 Gbps.
const TX: Time = Time::from_ps(1_230_400);

struct Net {
    fabric: Fabric,
    scheduler: Scheduler<Event>,
}

impl Net {
    fn new(topology: &Topology, switches: SwitchConfig) -> Net {
        Net::with(topology, switches, Multipath::Ecmp, RandomLoss::default())
    }
    fn with(topology: &Topology, switches: SwitchConfig, multipath: Multipath, loss: RandomLoss) -> Net {
        let fabric = Fabric::new(topology, &switches, multipath, loss, Time::from_ms(1), 7);
        Net { fabric, scheduler: Scheduler::new() }
    }
    fn send(&mut self, packet: Packet) {
        let id = self.fabric.packets.add(packet);
        self.fabric.send(id, &mut self.scheduler);
    }
    /// The next delivery.
    fn step(&mut self) -> Option<(Time, u32, Packet)> {
        loop {
            let fired = self.scheduler.pop_until(Time::MAX)?;
            if let Some(Delivery { host, packet }) = self.fabric.handle(fired.event, &mut self.scheduler) {
                return Some((fired.at, host, self.fabric.packets.take(packet)));
            }
        }
    }
    fn drain(&mut self) -> Vec<(Time, u32, Packet)> {
        std::iter::from_fn(|| self.step()).collect()
    }
}

fn packet(src: u32, dst: u32) -> Packet {
    Packet { src, dst, wire_len: FULL, hash: src * 31 + dst, ..Packet::default() }
}

fn ect(src: u32, dst: u32) -> Packet {
    let mut p = packet(src, dst);
    p.headers.ecn = ecn::ECT0;
    p
}

fn one_switch(hosts: u32) -> Topology {
    SingleSwitch { hosts, host_rate: RATE, host_delay: DELAY }.build().unwrap()
}

#[test]
fn an_idle_network_takes_the_time_computed_by_hand() {
    let mut net = Net::new(&one_switch(2), SwitchConfig::default());
    net.send(packet(0, 1));
    assert_eq!(net.drain().iter().map(|d| (d.0, d.1)).collect::<Vec<_>>(), [((TX + DELAY) * 2, 1)]);

    let mut net = Net::new(&clos(2, 2, 1, 2), SwitchConfig::default());
    net.send(packet(0, 3));
    let delivered = net.drain();
    assert_eq!(delivered[0].0, (TX + DELAY) * 4, "host, leaf, spine, leaf, host: four links");
    assert_eq!(delivered[0].2.hops, 4);
    assert_eq!(net.fabric.packet_hops(), 4);
}

#[test]
fn packets_follow_one_another_at_line_rate() {
    let mut net = Net::new(&one_switch(2), SwitchConfig::default());
    (0..10).for_each(|_| net.send(packet(0, 1)));
    let at: Vec<Time> = net.drain().iter().map(|d| d.0).collect();
    assert_eq!(at.len(), 10);
    assert!(at.windows(2).all(|w| w[1] - w[0] == TX), "{at:?}");
    assert_eq!(net.fabric.packets.live(), 0);
}

#[test]
fn drop_tail_keeps_what_fits() {
    // Two senders at line rate into one port that holds five packets, the one being sent included.
    let config = SwitchConfig { buffer: Buffer::PerPort(Bytes(5 * u64::from(FULL))), ..SwitchConfig::default() };
    let mut net = Net::new(&one_switch(3), config);
    for _ in 0..20 {
        net.send(packet(0, 2));
        net.send(packet(1, 2));
    }
    let delivered = net.drain().len() as u64;
    let port = 2 * 2 + 1; // link 2, from the switch to host 2
    let stats = net.fabric.stats(port);
    assert_eq!(delivered + stats.dropped_packets, 40);
    // Pair n of arrivals meets n - 1 packets: from the fifth of the twenty pairs on, one of two is lost.
    assert_eq!(stats.dropped_packets, 16);
    assert_eq!(stats.queue_max, 5 * u64::from(FULL));
}

/// Four packets wait when the measured part begins, half-way through the first, and when it is looked at half-way through the third.
#[test]
fn what_waits_and_what_is_half_sent_counts_for_its_time_in_the_measured_part() {
    let mut net = Net::new(&one_switch(2), SwitchConfig::default());
    (0..4).for_each(|_| net.send(packet(0, 1)));
    let half = Time::from_ps(TX.as_ps() / 2);
    let held = |halves: u64| u128::from(FULL) * u128::from(half.as_ps() * halves);
    assert_eq!(net.fabric.byte_time(0, half), held(4));
    net.fabric.begin_measurement(half);
    assert_eq!((net.fabric.busy(0, half), net.fabric.byte_time(0, half)), (Time::ZERO, 0));
    let later = half + TX * 2;
    assert_eq!((net.fabric.busy(0, later), net.fabric.byte_time(0, later)), (TX * 2, held(4 + 6 + 2)));
    let at_end = TX * 10;
    assert_eq!((net.fabric.busy(0, at_end), net.fabric.byte_time(0, at_end)), (TX * 3 + half, held(4 + 6 + 4 + 2)));
    assert_eq!((net.fabric.stats(0).queue_max, net.drain().len()), (4 * u64::from(FULL), 4));
}

#[test]
fn a_port_takes_alpha_times_what_is_free() {
    // Total T, alpha 1, one busy port: it may grow until it holds as much as is free, half of T.
    let total = 20 * u64::from(FULL);
    let config = SwitchConfig { buffer: Buffer::Shared { total: Bytes(total), alpha: 1.0 }, ..SwitchConfig::default() };
    let mut net = Net::new(&one_switch(3), config);
    for _ in 0..60 {
        net.send(packet(0, 2));
        net.send(packet(1, 2));
    }
    net.drain();
    let stats = net.fabric.stats(5);
    assert_eq!(stats.queue_max, total / 2 + u64::from(FULL), "the packet that crosses the threshold still fits");
    assert!(stats.dropped_packets > 0);
}

#[test]
fn the_threshold_marks_ect_and_spares_the_rest() {
    let k = Bytes(3 * u64::from(FULL));
    let config = SwitchConfig { aqm: Some(Aqm::Threshold { k }), ..SwitchConfig::default() };
    let mut net = Net::new(&one_switch(3), config);
    for _ in 0..10 {
        net.send(ect(0, 2));
        net.send(packet(1, 2));
    }
    let delivered = net.drain();
    assert_eq!(delivered.len(), 20);
    let marked = |src| delivered.iter().filter(|d| d.2.src == src && d.2.headers.ecn == ecn::CE).count();
    assert_eq!(marked(1), 0);
    // Arrival n of either sender meets n packets (of both) less those sent: above three from the fourth pair on.
    assert_eq!(net.fabric.stats(5).marked_packets, marked(0) as u64);
    assert_eq!(marked(0), 6);
}

#[test]
fn red_marks_in_proportion_and_drops_what_cannot_be_marked() {
    let red = |kmin, kmax, pmax| SwitchConfig {
        aqm: Some(Aqm::Red { kmin: Bytes(kmin), kmax: Bytes(kmax), pmax }),
        buffer: Buffer::PerPort(Bytes(1 << 30)),
        ..SwitchConfig::default()
    };
    let run = |config: SwitchConfig, make: fn(u32, u32) -> Packet| {
        let mut net = Net::new(&one_switch(3), config);
        for _ in 0..2_000 {
            net.send(make(0, 2));
            net.send(make(1, 2));
        }
        let delivered = net.drain();
        (delivered.len(), delivered.iter().filter(|d| d.2.headers.ecn == ecn::CE).count())
    };
    // Never above kmin.
    assert_eq!(run(red(1 << 29, 1 << 30, 1.0), ect), (4_000, 0));
    // The queue grows evenly from 0 to 2000 packets, so the mean marking probability is half of pmax.
    let (all, marked) = run(red(0, 2_000 * u64::from(FULL), 0.5), ect);
    assert_eq!(all, 4_000);
    assert!((900..1_100).contains(&marked), "{marked}");
    // Without ECT the same decisions drop.
    assert!(run(red(0, 100 * u64::from(FULL), 1.0), packet).0 < 3_000);
}

#[test]
fn strict_priority_is_served_first() {
    let config = SwitchConfig { priorities: 2, ..SwitchConfig::default() };
    let mut net = Net::new(&one_switch(3), config);
    for _ in 0..10 {
        net.send(Packet { priority: 1, ..packet(0, 2) });
        net.send(Packet { priority: 0, ..packet(1, 2) });
    }
    let order: Vec<u8> = net.drain().iter().map(|d| d.2.priority).collect();
    // All high packets leave one packet time apart; low ones only when none waits.
    let last_high = order.iter().rposition(|&p| p == 0).unwrap();
    assert!(last_high <= 10, "{order:?}");
}

#[test]
fn hashing_spreads_flows_and_keeps_each_on_one_path() {
    let topology = clos(2, 4, 1, 4);
    let mut net = Net::new(&topology, SwitchConfig::default());
    for hash in 0..400u32 {
        for _ in 0..3 {
            net.send(Packet { hash: hash.wrapping_mul(0x9e37_79b9), ..packet(0, 4) });
        }
    }
    net.drain();
    let uplinks: Vec<u64> = (8..12).map(|link| net.fabric.stats(2 * link).tx_packets).collect();
    assert_eq!(uplinks.iter().sum::<u64>(), 1_200);
    assert!(uplinks.iter().all(|&n| n % 3 == 0 && (200..400).contains(&n)), "{uplinks:?}");
}

#[test]
fn labels_name_disjoint_trees() {
    let topology = clos(4, 4, 2, 2);
    let trees = topology.trees(&[]).len() as u16;
    assert_eq!(trees, 8);
    let mut used = std::collections::BTreeSet::new();
    for label in 1..=trees {
        let mut net = Net::new(&topology, SwitchConfig::default());
        net.send(Packet { label, ..packet(0, 7) });
        assert_eq!(net.drain().len(), 1);
        let path: Vec<u32> = (0..net.fabric.n_ports() as u32).filter(|&p| net.fabric.stats(p).tx_packets > 0).collect();
        assert_eq!(path.len(), 4);
        used.extend(path.into_iter().filter(|&p| p / 2 >= 8));
    }
    assert_eq!(used.len(), 16, "two fabric links per tree, none shared");
}

/// Presto's per-hop variant: the edge's label comes with the number but does not bind the switches.
#[test]
fn hashing_flowcells_spreads_the_cells_of_one_labelled_flow() {
    let topology = clos(2, 4, 1, 4);
    let mut net = Net::with(&topology, SwitchConfig::default(), Multipath::EcmpFlowcell, RandomLoss::default());
    for cell in 0..400u32 {
        for _ in 0..3 {
            let mut p = Packet { label: 1, ..packet(0, 4) };
            (p.headers.cell, p.headers.has_cell) = (cell, 1);
            net.send(p);
        }
    }
    net.drain();
    let uplinks: Vec<u64> = (8..12).map(|link| net.fabric.stats(2 * link).tx_packets).collect();
    assert_eq!(uplinks.iter().sum::<u64>(), 1_200);
    assert!(uplinks.iter().all(|&n| n % 3 == 0 && (200..400).contains(&n)), "{uplinks:?}");
}

#[test]
fn a_failed_link_loses_what_it_carries_and_is_routed_round() {
    let topology = clos(2, 2, 1, 1);
    let dead = topology.link_named("leaf1-spine1").unwrap();
    for label in 0..=2 {
        let mut net = Net::new(&topology, SwitchConfig::default());
        net.scheduler.schedule(Time::from_us(50), 0, Event::Link { link: dead, up: false });
        let mut sent = 0;
        let mut delivered = Vec::new();
        for i in 0..2_000u64 {
            // Keep the network busy for 5 ms: the tables change 1 ms after the failure.
            while net.scheduler.now() < Time::from_us(2) * i {
                match net.scheduler.pop_until(Time::from_us(2) * i) {
                    Some(f) => {
                        if let Some(d) = net.fabric.handle(f.event, &mut net.scheduler) {
                            delivered.push(f.at);
                            net.fabric.packets.remove(d.packet);
                        }
                    }
                    None => break,
                }
            }
            net.send(Packet { label, hash: (i as u32).wrapping_mul(0x9e37_79b9), ..packet(0, 1) });
            sent += 1;
        }
        delivered.extend(net.drain().iter().map(|d| d.0));
        let audit = net.fabric.audit();
        assert_eq!(audit.inside_bytes, 0);
        assert_eq!(audit.delivered_bytes + audit.dropped_bytes, audit.sent_bytes);
        let late = delivered.iter().filter(|&&t| t > Time::from_ms(2)).count();
        assert!(late > 900, "label {label}: all arrive once the tables have changed, {late} of {sent}");
        if label == 2 {
            assert_eq!(delivered.len(), 2_000, "the other tree never noticed");
        } else {
            assert!(delivered.len() < 2_000, "label {label}: some were lost");
        }
    }
}

#[test]
fn telemetry_reports_the_load_of_every_hop() {
    let topology = one_switch(2);
    let mut net = Net::new(&topology, SwitchConfig::default());
    net.fabric.measure_utilisation();
    let mut last = None;
    for i in 0..300u64 {
        // Half of line rate.
        while let Some(f) = net.scheduler.pop_until(TX * 2 * i) {
            if let Some(d) = net.fabric.handle(f.event, &mut net.scheduler) {
                last = Some(net.fabric.packets.take(d.packet));
            }
        }
        net.send(Packet { int: true, ..packet(0, 1) });
    }
    let seen = last.unwrap().utilisation;
    assert!((115..=140).contains(&seen[0]) && (115..=140).contains(&seen[1]), "{seen:?}");
    assert_eq!(seen[2..], [0; 4]);
}

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (2u32..5, 1u32..4, 1u32..3, 1u32..4).prop_map(|(l, s, g, h)| clos(l, s, g, h)),
        (2u32..9).prop_map(one_switch),
        Just(
            FatTree {
                k: 4,
                hosts_per_edge: 2,
                host_rate: RATE,
                host_delay: DELAY,
                fabric_rate: RATE,
                fabric_delay: DELAY
            }
            .build()
            .unwrap()
        ),
        (1u32..5).prop_map(|pairs| {
            Dumbbell {
                pairs,
                host_rate: RATE,
                host_delay: DELAY,
                bottleneck_rate: BitRate::from_gbps(3),
                bottleneck_delay: DELAY,
            }
            .build()
            .unwrap()
        }),
    ]
}

fn any_switch() -> impl Strategy<Value = SwitchConfig> {
    let buffer = prop_oneof![
        (2_000u64..40_000).prop_map(|b| Buffer::PerPort(Bytes(b))),
        (4_000u64..80_000, 1u32..40).prop_map(|(t, a)| Buffer::Shared { total: Bytes(t), alpha: f64::from(a) / 10.0 }),
    ];
    let aqm = prop_oneof![
        Just(None),
        (0u64..20_000).prop_map(|k| Some(Aqm::Threshold { k: Bytes(k) })),
        (0u64..10_000, 1u64..10_000).prop_map(|(a, b)| Some(Aqm::Red {
            kmin: Bytes(a),
            kmax: Bytes(a + b),
            pmax: 0.7
        })),
        (1u64..20, 1u64..20, any::<bool>()).prop_map(|(target, interval, drop)| {
            let (target, interval) = (Time::from_us(target), Time::from_us(interval));
            Some(Aqm::Codel(Codel { target, interval, drop }))
        }),
    ];
    let told = (any::<bool>(), any::<bool>(), any::<bool>());
    let parallel = prop_oneof![Just(Parallel::Hash), Just(Parallel::InOrder)];
    (buffer, aqm, 1u8..4, parallel, told).prop_map(|(buffer, aqm, priorities, parallel, told)| {
        let (notify, ranked, quench) = told;
        let notify = notify.then(Notify::default);
        SwitchConfig { buffer, aqm, priorities, parallel, notify, ranked, quench }
    })
}

fn any_multipath() -> impl Strategy<Value = Multipath> {
    let gap = Time::from_us(3);
    prop_oneof![
        Just(Multipath::Ecmp),
        Just(Multipath::Spray),
        Just(Multipath::LetFlow { gap }),
        Just(Multipath::Conga { gap })
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// At every event, each octet that was sent is delivered, dropped and counted, or still inside; no switch holds
    /// more than its buffer.
    #[test]
    fn every_octet_is_accounted_for(
        topology in any_topology(),
        switches in any_switch(),
        multipath in any_multipath(),
        loss in prop_oneof![Just(0u32), 1u32..200_000],
        sends in prop::collection::vec((any::<u16>(), any::<u16>(), 84u32..9_038, any::<u32>(), 0u16..6, 0u8..4, 0u64..3_000), 1..250),
        fail in prop::option::of((any::<u16>(), 0u64..200, 0u64..200)),
    ) {
        let conga = matches!(multipath, Multipath::Conga { .. });
        let multipath = if conga && conga_suits(&topology).is_err() { Multipath::Ecmp } else { multipath };
        let mut net = Net::with(&topology, switches, multipath, RandomLoss { per_million: loss });
        if let Some((link, at, heal)) = fail {
            let link = u32::from(link) % topology.links.len() as u32;
            net.scheduler.schedule(Time::from_us(at), 0, Event::Link { link, up: false });
            net.scheduler.schedule(Time::from_us(at + heal), 0, Event::Link { link, up: true });
        }
        let n = topology.n_hosts() as u32;
        let mut at = Time::ZERO;
        let check = |net: &Net| {
            let a = net.fabric.audit();
            prop_assert_eq!(a.sent_bytes, a.delivered_bytes + a.dropped_bytes + a.inside_bytes);
            prop_assert_eq!(a.inside_packets as usize, net.fabric.packets.live());
            Ok(())
        };
        for (src, dst, wire_len, hash, label, priority, gap_ns) in sends {
            let src = u32::from(src) % n;
            let dst = u32::from(dst) % n;
            if src == dst { continue; }
            at += Time::from_ns(gap_ns);
            while let Some(f) = net.scheduler.pop_until(at) {
                if let Some(d) = net.fabric.handle(f.event, &mut net.scheduler) {
                    net.fabric.packets.remove(d.packet);
                }
                check(&net)?;
            }
            let mut p = Packet { wire_len, hash, label, priority, ..ect(src, dst) };
            p.rank = hash % 7;
            p.headers.proto = if hash % 3 == 0 { wire::proto::TCP } else { p.headers.proto };
            p.headers.ecn = if hash % 2 == 0 { ecn::ECT0 } else { ecn::NOT_ECT };
            net.send(p);
            check(&net)?;
        }
        while let Some(f) = net.scheduler.pop_until(Time::MAX) {
            if let Some(d) = net.fabric.handle(f.event, &mut net.scheduler) {
                net.fabric.packets.remove(d.packet);
            }
            check(&net)?;
        }
        prop_assert_eq!(net.fabric.audit().inside_packets, 0);
    }
}

#[test]
fn a_changed_wire_lets_no_packet_overtake() {
    let mut net = Net::new(&one_switch(2), SwitchConfig::default());
    net.fabric.set_wire(1, RATE, Time::from_us(10), Time::ZERO);
    assert_eq!(net.fabric.wire(1), (RATE, Time::from_us(10)));
    net.send(packet(0, 1));
    // The first packet is on its way to host 1 when the wire becomes short and ten times as slow.
    let at_switch = TX + DELAY;
    let fired = net.scheduler.pop_until(Time::MAX).unwrap();
    assert_eq!((fired.at, net.fabric.handle(fired.event, &mut net.scheduler)), (at_switch, None));
    let tenth = BitRate::from_gbps(1);
    net.fabric.set_wire(1, tenth, DELAY, at_switch);
    net.send(packet(0, 1));
    let arrivals: Vec<Time> = net.drain().iter().map(|d| d.0).collect();
    let first = at_switch + TX + Time::from_us(10);
    assert_eq!(arrivals[0], first);
    assert_eq!(arrivals[1], first.max(at_switch + at_switch + TX * 10 + DELAY));
    net.send(packet(0, 1));
    let next = net.drain()[0].0;
    assert_eq!(next, arrivals[1] + at_switch + TX * 10 + DELAY);
}

#[test]
fn a_port_that_catches_up_hurries_what_has_waited() {
    let mut net = Net::new(&one_switch(2), SwitchConfig::default());
    net.fabric.let_catch_up(0);
    (0..3).for_each(|_| net.send(packet(0, 1)));
    let hurried = Time::from_ps(TX.as_ps() / 10 * 9);
    let at: Vec<Time> = net.drain().iter().map(|(at, ..)| *at).collect();
    // The switch's port is the slower one for what came faster.
    let first = TX * 2 + DELAY * 2;
    assert_eq!(at, [first, first + TX, first + TX * 2]);
    let begun = net.scheduler.now();
    assert_eq!(net.fabric.busy(0, begun), TX * 3, "it is as busy as its rate says");
    (0..2).for_each(|_| net.send(packet(0, 1)));
    net.fabric.queue_bytes(0, begun + TX + hurried);
    assert_eq!(net.fabric.queue_bytes(0, begun + TX + hurried), 0, "the second needed less");
}

#[test]
fn a_driver_hears_of_the_frames_that_are_lost() {
    let switches = SwitchConfig { buffer: Buffer::PerPort(Bytes(2 * 1538)), ..SwitchConfig::default() };
    let topology = Dumbbell {
        pairs: 1,
        host_rate: RATE,
        host_delay: DELAY,
        bottleneck_rate: BitRate::from_gbps(1),
        bottleneck_delay: Time::from_us(50),
    }
    .build()
    .unwrap();
    let mut net = Net::new(&topology, switches);
    net.fabric.remember_lost_slots();
    for slot in 0..6 {
        net.send(Packet { slot, ..packet(0, 1) });
    }
    while net.fabric.audit().dropped_bytes == 0 {
        let fired = net.scheduler.pop_until(Time::MAX).unwrap();
        assert_eq!(net.fabric.handle(fired.event, &mut net.scheduler), None);
    }
    let mut lost: Vec<u32> = net.fabric.take_lost_slots().collect();
    assert_eq!(lost.len(), 1, "one drop, one slot");
    let now = net.scheduler.now();
    let link = topology.link_named("left-right").unwrap();
    net.scheduler.schedule(now, 0, Event::Link { link, up: false });
    let delivered: Vec<u32> = net.drain().iter().map(|d| d.2.slot).collect();
    lost.extend(net.fabric.take_lost_slots());
    let mut all: Vec<u32> = lost.iter().chain(&delivered).copied().collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    assert_eq!(net.fabric.failed(), [link]);
    assert_eq!(net.fabric.packets.live(), 0);
}
