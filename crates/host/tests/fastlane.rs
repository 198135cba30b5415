//! FastLane against New Reno and SACK: answers of many hosts at once to one, over a switch with small buffers.

use fabric::{Aqm, Buffer, Codel, Multipath, Notify, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Record, ServerModel};
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::tcp::{fastlane, pfabric, EcnMode, Recovery};
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

/// Guests that speak pFabric, behind switches that rank.
fn pfabric(senders: u32, notify: bool) -> Experiment {
    let mut e = burst(one_switch(senders + 1), senders, Some(Recovery::Timer));
    e.hosts.tso = false;
    e.hosts.tcp.pfabric = Some(pfabric::Options::default());
    e.hosts.tcp.fastlane = notify.then(fastlane::Options::default);
    e.hosts.tcp.undo = false;
    (e.hosts.tcp.rto_min, e.hosts.tcp.rto_initial) = (Time::from_us(250), Time::from_us(250));
    e.switches.ranked = true;
    e.switches.notify = notify.then(Notify::default);
    e
}

#[test]
fn pfabric_repairs_bursts_by_its_timer_and_with_fastlane_nearly_without() {
    let (alone, told) = (run(&pfabric(30, false)), run(&pfabric(30, true)));
    assert!(alone.timeouts > 20, "{}", alone.timeouts);
    assert!(told.timeouts * 5 <= alone.timeouts, "{} {}", told.timeouts, alone.timeouts);
    // The timer is far below TCP's.
    assert!(alone.slowest < RTO_MIN, "{}", alone.slowest);
}

#[test]
fn with_pfabric_short_messages_overtake_long_ones() {
    let mut e = pfabric(8, false);
    e.workloads[0].pattern = Pattern::Incast { senders: 8, receiver: 0, size: Bytes(1_000_000), every: None };
    let short = Pattern::Incast { senders: 8, receiver: 0, size: Bytes(2_000), every: None };
    e.workloads.push(Workload { start: Time::from_ms(2), ..Workload::new("short", short) });
    let of_class = |outcome: &Outcome, class: u16| {
        let took = outcome.flows.iter().filter(|f| f.class == class).map(|f| f.finish.unwrap() - f.start);
        took.max().unwrap()
    };
    let ranked = run(&e).outcome;
    assert!(of_class(&ranked, 0) > Time::from_ms(6) && of_class(&ranked, 1) < Time::from_us(150));
    let mut fifo = e.clone();
    fifo.switches.ranked = false;
    let fifo = run(&fifo).outcome;
    assert!(of_class(&fifo, 1) > of_class(&ranked, 1) * 2, "{} {}", of_class(&fifo, 1), of_class(&ranked, 1));
}

#[test]
fn a_request_comes_before_its_answer_and_hosts_take_their_time_for_every_packet() {
    let mut e = burst(one_switch(4), 3, Some(Recovery::Sack));
    e.hosts.rx_coalesce = Time::ZERO;
    let (size, totals) = (Bytes(2_000), vec![Bytes(2_000)]);
    let pattern = Pattern::FanOut { size, totals, load: 0.001, capacity: BitRate::from_gbps(10) };
    e.workloads = vec![Workload { request: Some(Bytes(10)), ..Workload::new("answers", pattern) }];
    let fastest = |e: &Experiment| {
        let outcome = run(e).outcome;
        assert!(
            outcome.flows.len() > 20 && outcome.flows.iter().all(|f| f.delivered == 2_000 && f.size == Some(2_000))
        );
        assert!(outcome.flows.iter().all(|f| f.finish.unwrap() - f.start >= f.ideal.unwrap()));
        outcome.flows.iter().map(|f| f.finish.unwrap() - f.start).min().unwrap()
    };
    let plain = fastest(&e);
    // Handshake, request and answer: four crossings of two links with 2 us each.
    assert!(plain > Time::from_us(16) && plain < Time::from_us(25), "{plain}");
    e.hosts.server = Some(ServerModel { parallel: 16, service: Time::from_us(5), notifications: true });
    // SYN, SYN-ACK, request with the ACK before it, and the answer's two packets side by side.
    assert_eq!(fastest(&e) - plain, Time::from_us(20));
}

#[test]
fn source_quench_lowers_windows_and_leaves_losses_to_tcp() {
    let mut e = burst(one_switch(9), 8, Some(Recovery::NewReno));
    e.workloads[0].pattern = Pattern::Incast { senders: 8, receiver: 0, size: Bytes(500_000), every: None };
    e.switches.buffer = Buffer::PerPort(Bytes(1_000_000));
    let codel = Codel { target: Time::from_us(20), interval: Time::from_us(200), drop: false };
    e.switches.aqm = Some(Aqm::Codel(codel));
    let queue = |e: &Experiment| {
        let seen = run(e);
        let most = seen.outcome.ports.iter().map(|p| p.queue_mean_bytes as u64).max().unwrap();
        (most, seen.outcome.quenches)
    };
    let (alone, none) = queue(&e);
    (e.switches.quench, e.hosts.tcp.quench) = (true, true);
    let (quenched, messages) = queue(&e);
    assert!(none == 0 && messages > 10, "{messages}");
    assert!(quenched * 4 < alone * 3, "{quenched} {alone}");
}
