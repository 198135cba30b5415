//! FastLane against New Reno and SACK: answers of many hosts at once to one, over a switch with small buffers.

use fabric::{Buffer, Multipath, Notify, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Record};
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::tcp::{fastlane, EcnMode, Recovery};
use host::workload::{HostMap, Pattern, Workload};
use topology::{Clos, SingleSwitch, Topology};
use units::{BitRate, Bytes, Time};

const RTO_MIN: Time = Time::from_ms(10);

fn burst(topology: Topology, senders: u32, guests: Option<Recovery>) -> Experiment {
    let mut hosts = HostConfig { rx_coalesce: Time::from_us(2), ..HostConfig::default() };
    hosts.tcp.congestion = Algorithm::NewReno;
    hosts.tcp.ecn = EcnMode::Off;
    hosts.tcp.rto_min = RTO_MIN;
    hosts.tcp.rto_initial = RTO_MIN;
    hosts.tcp.delayed_ack = Time::ZERO;
    hosts.tcp.recovery = guests.unwrap_or(Recovery::NewReno);
    hosts.tcp.fastlane = guests.is_none().then(fastlane::Options::default);
    let every = Some(Time::from_ms(20));
    let pattern = Pattern::Incast { senders, receiver: 0, size: Bytes(16_000), every };
    Experiment {
        racks: HostMap::uniform(topology.n_hosts() as u32, 1),
        topology,
        switches: SwitchConfig {
            buffer: Buffer::PerPort(Bytes(64_000)),
            notify: guests.is_none().then(Notify::default),
            ..SwitchConfig::default()
        },
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(10),
        hosts,
        edge: EdgeConfig::default(),
        workloads: vec![Workload::new("burst", pattern)],
        duration: Time::from_ms(100),
        drain: Time::from_secs(2),
        warmup: Time::ZERO,
        seed: 1,
        record: Record::default(),
    }
}

struct Seen {
    timeouts: u32,
    slowest: Time,
    outcome: Outcome,
}

fn run(e: &Experiment) -> Seen {
    let outcome = host::run(e, &mut |_| {}).unwrap();
    assert!(!outcome.flows.is_empty());
    let took = |f: &host::outcome::FlowRecord| f.finish.expect("every flow completes") - f.start;
    let slowest = outcome.flows.iter().map(took).max().unwrap();
    Seen { timeouts: outcome.flows.iter().map(|f| f.timeouts).sum(), slowest, outcome }
}

fn one_switch(hosts: u32) -> Topology {
    SingleSwitch { hosts, host_rate: BitRate::from_gbps(10), host_delay: Time::from_us(2) }.build().unwrap()
}

#[test]
fn bursts_that_overflow_a_port_complete_without_timeouts() {
    let senders = 30;
    let fastlane = run(&burst(one_switch(senders + 1), senders, None));
    let drops: u64 = fastlane.outcome.ports.iter().map(|p| p.dropped_packets).sum();
    assert!(drops > 100, "{drops}");
    for recovery in [Recovery::NewReno, Recovery::Sack] {
        let plain = run(&burst(one_switch(senders + 1), senders, Some(recovery)));
        assert!(plain.timeouts > 20, "{recovery:?}: {}", plain.timeouts);
        assert!(fastlane.timeouts * 10 <= plain.timeouts, "{} {}", fastlane.timeouts, plain.timeouts);
        assert!(fastlane.slowest * 2 < plain.slowest, "{recovery:?}: {} {}", fastlane.slowest, plain.slowest);
        assert!(plain.outcome.ports.iter().all(|p| p.notifications == fabric::NotifyStats::default()));
    }
    let most = fastlane.outcome.ports.iter().map(|p| p.notifications.queue_max).max().unwrap();
    assert!(most > 0 && most <= 3_200, "{most}");
}

#[test]
fn notifications_find_their_way_back_through_a_fabric() {
    let gbps = BitRate::from_gbps(10);
    let delay = Time::from_us(2);
    let clos = || {
        Clos {
            leaves: 4,
            spines: 2,
            parallel_links: 1,
            hosts_per_leaf: 6,
            host_rate: gbps,
            host_delay: delay,
            fabric_rate: gbps,
            fabric_delay: delay,
        }
        .build()
        .unwrap()
    };
    let (fastlane, plain) = (run(&burst(clos(), 23, None)), run(&burst(clos(), 23, Some(Recovery::Sack))));
    assert!(plain.timeouts > 10, "{}", plain.timeouts);
    assert!(fastlane.timeouts * 5 <= plain.timeouts, "{} {}", fastlane.timeouts, plain.timeouts);
}

/// Guests that know nothing of notifications, and edges that act on them.
fn helped(topology: Topology, senders: u32, guests: Recovery) -> Experiment {
    let mut e = burst(topology, senders, Some(guests));
    e.switches.notify = Some(Notify::default());
    e.edge.fastlane = Some(edge::fastlane::Config::default());
    e
}

#[test]
fn an_edge_saves_unmodified_guests_their_timeouts() {
    for recovery in [Recovery::NewReno, Recovery::Sack, Recovery::Rack] {
        let plain = run(&burst(one_switch(31), 30, Some(recovery)));
        let helped = run(&helped(one_switch(31), 30, recovery));
        assert!(plain.timeouts > 20, "{recovery:?}: {}", plain.timeouts);
        assert!(helped.timeouts * 5 <= plain.timeouts, "{recovery:?}: {} {}", helped.timeouts, plain.timeouts);
        assert!(helped.slowest * 2 <= plain.slowest, "{recovery:?}: {} {}", helped.slowest, plain.slowest);
        let sum = |of: fn(&edge::fastlane::Counters) -> u64| {
            helped.outcome.hosts.iter().map(|h| of(&h.fastlane)).sum::<u64>()
        };
        let arrived = sum(|c| c.notifications);
        let drops: u64 = helped.outcome.ports.iter().map(|p| p.dropped_packets).sum();
        let unsent: u64 = helped.outcome.ports.iter().map(|p| p.notifications.dropped_packets).sum();
        assert_eq!(arrived + unsent, drops, "every drop is told of");
        assert!(sum(|c| c.resent + c.resent_later) > drops / 2, "{recovery:?}");
        assert_eq!(sum(|c| c.outside + c.untracked + c.unkept), 0, "{recovery:?}");
    }
}

#[test]
fn a_run_with_edges_is_the_same_every_time() {
    let e = helped(one_switch(20), 19, Recovery::Rack);
    let (a, b) = (run(&e), run(&e));
    assert_eq!((a.outcome.flows, a.outcome.ports), (b.outcome.flows, b.outcome.ports));
    assert_eq!(a.outcome.hosts, b.outcome.hosts);
}

#[test]
fn a_run_is_the_same_every_time() {
    let e = burst(one_switch(20), 19, None);
    let (a, b) = (run(&e), run(&e));
    assert_eq!((a.outcome.flows, a.outcome.ports), (b.outcome.flows, b.outcome.ports));
}
