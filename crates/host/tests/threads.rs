//! One run on several threads: the same outcome, to the last byte of its records.

use edge::balance::{Quantity, Scheme, SCHEMES};
use edge::Balance;
use fabric::{Aqm, Buffer, Multipath, Notify, Parallel, RandomLoss, SwitchConfig};
use host::experiment::{
    Controller, EdgeConfig, Experiment, Failure, HostConfig, Limiter, LimiterClass, Record, ServerModel, Tenants,
};
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::tcp::{fastlane, pfabric, Recovery};
use host::workload::{Cdf, Datagrams, HostMap, Pairs, Pattern, Workload};
use host::{mptcp, Windows};
use proptest::bool::weighted;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use topology::{Clos, FatTree, Prune, SingleSwitch, Topology};
use units::{BitRate, Bytes, Time};

const RATE: BitRate = BitRate::from_gbps(10);
const DELAY: Time = Time::from_us(1);
const DURATION: Time = Time::from_us(700);

/// Three leaves.
fn clos([hosts_per_leaf, spines, parallel_links]: [u32; 3], fabric_delay: Time) -> Topology {
    let leaves = 3;
    let (host_rate, fabric_rate) = (RATE, RATE);
    Clos { leaves, spines, parallel_links, hosts_per_leaf, host_rate, host_delay: DELAY, fabric_rate, fabric_delay }
        .build()
        .unwrap()
}

fn fat_tree() -> Topology {
    FatTree { k: 4, hosts_per_edge: 2, host_rate: RATE, host_delay: DELAY, fabric_rate: RATE, fabric_delay: DELAY }
        .build()
        .unwrap()
}

fn base(topology: Topology, seed: u64) -> Experiment {
    let mut hosts = HostConfig::default();
    hosts.tcp.congestion = Algorithm::Dctcp;
    hosts.tcp.rto_min = Time::from_us(300);
    Experiment {
        racks: HostMap::new(topology.hosts().map(|host| topology.leaf_of(host) - topology.n_hosts() as u32).collect()),
        topology,
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_us(150),
        hosts,
        edge: EdgeConfig::default(),
        workloads: Vec::new(),
        duration: DURATION,
        drain: Time::from_us(400),
        warmup: Time::from_us(100),
        seed,
        record: Record {
            sample_every: Time::from_us(50),
            probe_every: Time::from_us(90),
            rtt_samples: true,
            flowcells: true,
            weights: true,
            capture: Some((5, 200)),
        },
    }
}

fn workloads(n: u32) -> Vec<Workload> {
    let poisson =
        Pattern::Poisson { cdf: Cdf::constant(20_000).unwrap(), load: 0.5, capacity: RATE, pairs: Pairs::AnyOther };
    let sequence = Pattern::Sequence {
        size: Cdf::constant(30_000).unwrap(),
        applications: 1,
        pause: Time::from_us(3),
        to: Pairs::AnyOther,
    };
    let mut datagrams = Workload::new("udp", Pattern::Long { pairs: Pairs::Fixed(vec![(0, n - 1)]), size: None });
    datagrams.datagrams = Some(Datagrams { rate: BitRate::from_gbps(2) });
    datagrams.until = Some(Time::from_us(500));
    vec![
        Workload::new("long", Pattern::Stride { k: n / 2, size: None }),
        Workload::new("poisson", poisson),
        Workload::new("incast", Pattern::Incast { senders: n - 2, receiver: 1, size: Bytes(30_000), every: None }),
        Workload::new("shuffle", Pattern::Shuffle { size: Bytes(40_000), concurrent: 2 }),
        Workload::new("sequence", sequence),
        Workload::new("mice", Pattern::Mice { size: Bytes(3_000), every: Time::from_us(80), to: Pairs::AnyOther }),
        datagrams,
    ]
}

fn speak_pfabric(e: &mut Experiment) {
    e.switches.ranked = true;
    (e.hosts.tso, e.hosts.tcp.undo, e.hosts.tcp.recovery) = (false, false, Recovery::Timer);
    e.hosts.tcp.pfabric = Some(pfabric::Options::default());
    (e.hosts.tcp.rto_min, e.hosts.tcp.rto_initial) = (Time::from_us(150), Time::from_us(150));
}

/// `parameter`: for each parameter, in bytes, microseconds, or as a word's place; `None`: their defaults.
fn balance(scheme: &'static Scheme, parameter: Option<u16>) -> Balance {
    let drawn = Balance::new(scheme, |known| {
        let units = u64::from(parameter?);
        Some(known.nearest(match known.default {
            Quantity::Bytes(_) => units,
            Quantity::Time(_) => units * 1000,
            Quantity::Word(_) => units % 4,
        }))
    });
    if drawn.contradiction().is_none() {
        drawn
    } else {
        Balance::new(scheme, |_| None)
    }
}

const SERVER: ServerModel = ServerModel { parallel: 2, service: Time::from_us(2), notifications: true };

/// Of three guests of each host.
fn shares() -> Tenants {
    let hold = edge::hygenicc::Hold::Delay(Bytes(200_000));
    let config = edge::hygenicc::Config { hold, ..edge::hygenicc::Config::new(RATE, Time::from_us(20)) };
    Tenants { config, weights: vec![1, 2, 1] }
}

fn run(e: &Experiment, threads: usize) -> Outcome {
    host::run_on(e, threads, &mut |_| {}).unwrap()
}

/// All that a run yields, without what depends on the number of threads.
fn bytes(mut outcome: Outcome) -> String {
    outcome.windows = Windows::default();
    outcome.peak_packets = 0;
    format!("{outcome:#?}")
}

/// The first lines that differ.
fn difference(a: &str, b: &str) -> Option<String> {
    let at = a.lines().zip(b.lines()).position(|(a, b)| a != b);
    let around =
        |text: &str, at: usize| text.lines().skip(at.saturating_sub(12)).take(20).collect::<Vec<_>>().join("\n");
    match at {
        Some(at) => Some(format!("line {at}:\n{}\n---\n{}", around(a, at), around(b, at))),
        None => (a.len() != b.len()).then(|| "one is longer".to_owned()),
    }
}

fn same_on_any_number_of_threads(e: &Experiment) -> Result<Outcome, String> {
    let alone = run(e, 1);
    let expected = bytes(alone.clone());
    for threads in [2, 3] {
        let outcome = run(e, threads);
        if let Some(why) = &outcome.windows.refused {
            return Err(format!("refused: {why}"));
        }
        if outcome.windows.other_events == 0 {
            return Err("nothing ran elsewhere".to_owned());
        }
        if let Some(difference) = difference(&expected, &bytes(outcome)) {
            return Err(format!("{threads} threads differ in {difference}"));
        }
    }
    Ok(alone)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 18, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_scenario_gives_the_same_bytes(
        seed in 0u64..1000,
        shape in 0usize..5,
        multipath in 0usize..6,
        (scheme, parameter, reorder) in (select(SCHEMES.to_vec()), option::of(any::<u16>()), any::<bool>()),
        (shared, red, priorities, in_order) in (any::<bool>(), any::<bool>(), 1u8..4, any::<bool>()),
        (loss, notify, fails, controller) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        (mptcp, limiter, congestion) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (tenants, repairs, server, ranks) in (weighted(0.3), any::<bool>(), weighted(0.3), weighted(0.3)),
        which in 1u8..128,
    ) {
        let topology = match shape {
            0 => clos([3, 2, 1], DELAY),
            1 => clos([3, 2, 2], Time::from_ns(600)),
            2 => clos([3, 2, 1], Time::from_us(3)),
            // Two threads have a leaf among the hosts.
            3 => clos([2, 6, 1], DELAY),
            _ => fat_tree(),
        };
        let gap = Time::from_us(20);
        let mut e = base(topology, seed);
        e.multipath = match multipath {
            0 => Multipath::Ecmp,
            1 => Multipath::Wcmp,
            2 => Multipath::EcmpFlowcell,
            3 => Multipath::Spray,
            4 => Multipath::LetFlow { gap },
            _ if shape == 4 => Multipath::Ecmp,
            _ => Multipath::Conga { gap },
        };
        e.edge.balance = balance(scheme, parameter);
        e.edge.reorder = reorder.then(edge::reorder::Config::default);
        let small = Bytes(60_000);
        e.switches.buffer =
            if shared { Buffer::Shared { total: Bytes(150_000), alpha: 0.5 } } else { Buffer::PerPort(small) };
        e.switches.aqm = Some(match red {
            true => Aqm::Red { kmin: Bytes(5_000), kmax: Bytes(50_000), pmax: 0.3 },
            false => Aqm::Threshold { k: Bytes(30_000) },
        });
        e.switches.priorities = priorities;
        e.switches.parallel = if in_order { Parallel::InOrder } else { Parallel::Hash };
        e.loss = RandomLoss { per_million: if loss { 500 } else { 0 } };
        if notify {
            e.switches.notify = Some(Notify { work_conserving: seed % 2 == 0, ..Notify::default() });
            match repairs {
                true => e.edge.fastlane = Some(edge::fastlane::Config::default()),
                false => e.hosts.tcp.fastlane = Some(fastlane::Options::default()),
            }
        }
        if ranks {
            speak_pfabric(&mut e);
        }
        e.hosts.server = server.then_some(SERVER);
        e.edge.tenants = tenants.then(shares);
        if fails {
            // A busy link, in the middle of a window and at the very start of the measured part.
            let link = e.topology.fabric_links().start;
            e.failures = vec![
                Failure { at: Time::from_us(100), link: link + 1, up: false },
                Failure { at: Time::from_ps(203_456_789), link, up: false },
                Failure { at: Time::from_us(400), link, up: true },
            ];
        }
        e.edge.controller =
            controller.then_some(Controller { reacts_after: Time::from_us(100), prune: Prune::default() });
        e.hosts.mptcp = (mptcp && !ranks).then_some(mptcp::Config { subflows: 3, congestion: Algorithm::Olia });
        e.edge.limiter = limiter.then(|| Limiter {
            hosts: Some(vec![0, 3]),
            total: None,
            classes: vec![LimiterClass {
                to: None,
                class: edge::shape::Class::fixed(BitRate::from_gbps(3)),
                law: edge::limiter::Law::default(),
            }],
        });
        e.edge.congestion = congestion.then(edge::vcc::Config::default);
        let n = e.topology.n_hosts() as u32;
        e.workloads = workloads(n).into_iter().enumerate().filter(|(n, _)| which & 1 << n != 0).map(|w| w.1).collect();
        for (n, workload) in e.workloads.iter_mut().enumerate() {
            workload.priority = n as u8 % 3;
            workload.guest = if tenants { n as u8 % 3 } else { 0 };
        }
        if let Err(problem) = same_on_any_number_of_threads(&e) {
            return Err(TestCaseError::fail(problem));
        }
    }
}

/// None of the table is left to chance. Switches mark and drop here.
#[test]
fn every_scheme_gives_the_same_bytes() {
    for scheme in SCHEMES {
        let mut e = base(clos([3, 2, 2], DELAY), 4);
        e.edge.balance = balance(scheme, None);
        e.switches.buffer = Buffer::PerPort(Bytes(60_000));
        e.switches.aqm = Some(Aqm::Threshold { k: Bytes(30_000) });
        e.workloads = workloads(9);
        if let Err(problem) = same_on_any_number_of_threads(&e) {
            panic!("{}: {problem}", scheme.name);
        }
    }
}

/// What only some switches do: probes that they turn back.
#[test]
fn discovery_gives_the_same_bytes() {
    let mut e = base(clos([3, 2, 2], DELAY), 3);
    let period = Time::from_ms(20);
    e.edge.discovery = Some(discovery::Config {
        period,
        patience: Time::from_ms(2),
        paths: 4,
        idle: period * 10,
        ..discovery::Config::default()
    });
    e.edge.balance = "flowcell".parse::<Balance>().unwrap();
    e.workloads = vec![Workload::new("long", Pattern::Long { pairs: Pairs::Fixed(vec![(0, 8)]), size: None })];
    (e.duration, e.drain, e.record.sample_every) = (Time::from_ms(50), Time::ZERO, Time::from_ms(1));
    let outcome = same_on_any_number_of_threads(&e).unwrap();
    assert!(!outcome.discovered.is_empty());
}

/// What hosts and edges do on their own: shares of guests, repairs of drops, a server in front of the receive path.
#[test]
fn shares_and_repairs_give_the_same_bytes() {
    let mut e = base(fat_tree(), 5);
    e.switches.buffer = Buffer::PerPort(Bytes(30_000));
    e.switches.aqm = Some(Aqm::Threshold { k: Bytes(10_000) });
    e.switches.notify = Some(Notify::default());
    e.edge.fastlane = Some(edge::fastlane::Config::default());
    e.edge.tenants = Some(shares());
    e.hosts.server = Some(SERVER);
    e.workloads = workloads(16);
    for (n, workload) in e.workloads.iter_mut().enumerate() {
        workload.guest = n as u8 % 3;
    }
    let outcome = same_on_any_number_of_threads(&e).unwrap();
    let sum = |of: fn(&host::outcome::HostRecord) -> u64| outcome.hosts.iter().map(of).sum::<u64>();
    let did = [sum(|h| h.hygenicc.marks_heard), sum(|h| h.fastlane.notifications), sum(|h| h.fastlane.resent)];
    assert!(did.iter().all(|&n| n > 0), "{did:?}");
    assert_ne!(outcome.server_delays, host::measure::Delays::default());
}

/// A guest's segments carry its five-tuple in a TCP option, and labels are source ports.
#[test]
fn the_hidden_overlay_gives_the_same_bytes() {
    for scheme in ["clove,flowlet_gap=20us", "clove-int,flowlet_gap=20us", "flowcell,threshold=16KiB"] {
        let mut e = base(clos([3, 2, 2], DELAY), 8);
        e.edge.balance = scheme.parse::<Balance>().unwrap();
        e.edge.hidden = true;
        e.edge.reorder = Some(edge::reorder::Config::default());
        e.switches.buffer = Buffer::PerPort(Bytes(60_000));
        e.switches.aqm = Some(Aqm::Threshold { k: Bytes(30_000) });
        e.workloads = workloads(9);
        let outcome = same_on_any_number_of_threads(&e).unwrap_or_else(|problem| panic!("{scheme}: {problem}"));
        let sum = |of: fn(&edge::hidden::Counters) -> u64| outcome.hosts.iter().map(|h| of(&h.hidden)).sum::<u64>();
        let did = [sum(|c| c.hidden_segments), sum(|c| c.restored_packets)];
        assert!(did.iter().all(|&n| n > 0), "{scheme}: {did:?}");
        let wrong = sum(|c| c.malformed_packets + c.forged_packets + c.refused_segments);
        assert_eq!(wrong, 0, "{scheme}");
    }
}

#[test]
fn pfabric_gives_the_same_bytes() {
    let mut e = base(fat_tree(), 6);
    e.switches.buffer = Buffer::PerPort(Bytes(20_000));
    speak_pfabric(&mut e);
    e.workloads = workloads(16);
    let outcome = same_on_any_number_of_threads(&e).unwrap();
    assert!(outcome.ports.iter().map(|port| port.dropped_packets).sum::<u64>() > 0);
}

/// The packets on a wire are dropped when its link fails, wherever they are kept.
#[test]
fn a_failed_link_drops_what_is_under_way() {
    let mut e = base(clos([3, 2, 1], Time::from_us(3)), 1);
    e.workloads = workloads(9).into_iter().take(1).collect();
    let link = e.topology.fabric_links().start;
    e.failures = vec![Failure { at: Time::from_us(250), link, up: false }];
    let outcome = same_on_any_number_of_threads(&e).unwrap();
    let port = |port: usize| outcome.ports[2 * link as usize + port].dropped_packets;
    assert!(port(0) > 0 && port(1) > 0, "{} and {}", port(0), port(1));
}

#[test]
fn a_fabric_without_delay_runs_on_one_thread_and_says_why() {
    let topology = SingleSwitch { hosts: 4, host_rate: RATE, host_delay: Time::from_ns(10) }.build().unwrap();
    let mut e = base(topology, 1);
    e.workloads = workloads(4).into_iter().take(1).collect();
    let outcome = run(&e, 2);
    let why = outcome.windows.refused.clone().expect("the delay is too short");
    assert!(why.contains("10ns"), "{why}");
    assert_eq!(difference(&bytes(run(&e, 1)), &bytes(outcome)), None);
}

#[test]
fn windows_are_counted() {
    let mut e = base(fat_tree(), 1);
    e.workloads = workloads(16).into_iter().take(1).collect();
    let outcome = run(&e, 2);
    let windows = &outcome.windows;
    // All hosts with half of the racks' switches, and the other switches. A packet takes the link's delay and its own time.
    assert_eq!((windows.parts, windows.lookahead), (2, DELAY + RATE.tx_time(64)));
    assert!(windows.windows <= (e.duration + e.drain).as_ps() / DELAY.as_ps() * 2, "{windows:?}");
    assert!(windows.busiest_other_events * 2 >= windows.other_events, "{windows:?}");
    let events = windows.hosts_part_events + windows.other_events;
    assert!(windows.hosts_part_events * 4 >= events, "{windows:?}");
    // No thread does less than an equal share of a window, or than its largest part.
    assert_eq!(windows.threads, 2);
    assert!(windows.busiest_thread_events * 2 >= events && windows.busiest_thread_events < events, "{windows:?}");
    assert!(windows.critical_events <= windows.busiest_thread_events, "{windows:?}");
    assert!(windows.critical_events >= windows.hosts_part_events.max(windows.busiest_other_events), "{windows:?}");
    let globals = outcome.events - events;
    assert!((2..100).contains(&globals), "{globals} events concern the whole network");
    assert_eq!(run(&e, 1).windows, Windows::default());
}
