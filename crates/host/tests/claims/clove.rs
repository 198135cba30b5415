//! Clove (SOSR 2017), sections 3.2 and 6.2.

use edge::Balance;
use fabric::{Aqm, Buffer, Multipath, Parallel, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::outcome::{Outcome, Weights};
use host::workload::{Cdf, Connection, HostMap, Pairs, Pattern, Workload};
use std::collections::{BTreeMap, BTreeSet};
use topology::Clos;
use units::{BitRate, Bytes, Time};
use wire::feedback::CE;

const CLIENTS: u32 = 16;

/// Two leaves with 16 hosts each and two spines, with two links of 40 Gbps each between leaf and spine, of which one is down; web search to the other
/// leaf at 70% of what all links would carry.
fn experiment(multipath: Multipath, balance: &str, seed: u64) -> Experiment {
    let delay = Time::from_us(10);
    let topology = Clos {
        leaves: 2,
        spines: 2,
        parallel_links: 2,
        hosts_per_leaf: CLIENTS,
        host_rate: BitRate::from_gbps(10),
        host_delay: delay,
        fabric_rate: BitRate::from_gbps(40),
        fabric_delay: delay,
    };
    let topology = topology.build().unwrap();
    let link = topology.link_named("leaf2-spine2").unwrap();
    // Each client has three servers, and each server three clients.
    let pairs = (0..CLIENTS).flat_map(|c| [0, 5, 10].map(|n| (c, CLIENTS + (c + n) % CLIENTS))).collect();
    let cdf = Cdf::built_in("websearch").unwrap();
    let search = Pattern::Poisson { cdf, load: 0.7, capacity: BitRate::from_gbps(10), pairs: Pairs::Fixed(pairs) };
    let mut hosts = HostConfig { rx_coalesce: Time::from_us(50), ..HostConfig::default() };
    (hosts.tcp.rto_min, hosts.tcp.rto_initial) = (Time::from_ms(10), Time::from_ms(10));
    Experiment {
        racks: HostMap::new(topology.hosts().map(|host| topology.leaf_of(host)).collect()),
        topology,
        switches: SwitchConfig {
            buffer: Buffer::Shared { total: Bytes(9_000_000), alpha: 1.0 },
            aqm: Some(Aqm::Threshold { k: Bytes(30_760) }),
            parallel: Parallel::InOrder,
            ..SwitchConfig::default()
        },
        multipath,
        loss: RandomLoss::default(),
        failures: vec![Failure { at: Time::ZERO, link, up: false }],
        reroute_after: Time::ZERO,
        hosts,
        edge: EdgeConfig { balance: balance.parse::<Balance>().unwrap(), ..EdgeConfig::default() },
        workloads: vec![Workload { connection: Connection::Persistent, ..Workload::new("web", search) }],
        duration: Time::from_ms(110),
        drain: Time::ZERO,
        warmup: Time::from_ms(20),
        seed,
        record: Record::default(),
    }
}

/// Of the links from spines to the servers' leaf: mean queue in bytes, and utilisation of the busiest over that of the least busy one.
fn bottlenecks(outcome: &Outcome) -> (f64, f64) {
    let down = outcome.ports.iter().filter(|port| port.name.starts_with("spine") && port.name.contains("-leaf2"));
    let used: Vec<_> = down.filter(|port| port.utilisation > 0.0).collect();
    assert_eq!(used.len(), 3, "{:?}", outcome.ports.iter().map(|port| &port.name).collect::<Vec<_>>());
    let queue = used.iter().map(|port| port.queue_mean_bytes).sum::<f64>() / 3.0;
    let most = used.iter().map(|port| port.utilisation).fold(0.0, f64::max);
    (queue, most / used.iter().map(|port| port.utilisation).fold(1.0, f64::min))
}

/// CONGA keeps the queues of the links that are left shorter than Clove-ECN, and these more alike in use.
#[test]
fn conga_keeps_queues_shorter_and_links_more_alike_than_clove() {
    let gap = Time::from_us(200);
    let mean = |multipath, balance: &str| {
        let seen =
            [1, 2, 3].map(|seed| bottlenecks(&host::run(&experiment(multipath, balance, seed), &mut |_| {}).unwrap()));
        println!("{balance}: {seen:?}");
        (seen.iter().map(|s| s.0).sum::<f64>() / 3.0, seen.iter().map(|s| s.1).sum::<f64>() / 3.0)
    };
    let conga = mean(Multipath::Conga { gap }, "ecmp");
    let clove = mean(Multipath::Ecmp, "clove,flowlet_gap=200us,clove_relay=100us,clove_clear=400us");
    assert!(conga.0 < clove.0 && conga.1 < clove.1, "{conga:?} with CONGA, {clove:?} with Clove-ECN");
}

/// More packets than cross a link in these runs.
const ALL: u32 = 4_000_000;

/// Edge-Flowlet: how many flowlets a megabyte go out through the first link to this spine.
fn flowlets_per_mb(spine: &str, seed: u64) -> f64 {
    let mut e = experiment(Multipath::Ecmp, "flowlet,flowlet_gap=200us,flowlet_choice=hash", seed);
    let link = e.topology.link_named(&format!("leaf1-{spine}")).unwrap();
    e.record.capture = Some((2 * link, ALL));
    let outcome = host::run(&e, &mut |_| {}).unwrap();
    assert!(outcome.captured.len() < ALL as usize, "the capture is full");
    let data = || outcome.captured.iter().map(|seen| &seen.packet).filter(|packet| packet.headers.payload > 0);
    let flowlets: BTreeSet<_> = data().map(|packet| (packet.flow, packet.headers.cell)).collect();
    let bytes: u64 = data().map(|packet| u64::from(packet.headers.payload)).sum();
    flowlets.len() as f64 / (bytes as f64 / 1e6)
}

/// With one link from the second spine down, paths over it are congested. Nobody tells Edge-Flowlet, but flows wait there for their ACKs.
#[test]
fn flows_on_congested_paths_begin_more_flowlets_a_byte() {
    let each = [1, 2, 3].map(|seed| ["spine1", "spine2"].map(|spine| flowlets_per_mb(spine, seed)));
    println!("flowlets a MB over the first and the second spine: {each:?}");
    let [free, congested] = [0, 1].map(|i| each.iter().map(|spines| spines[i]).sum::<f64>());
    assert!(congested > free, "{each:?}");
}

/// The mean over all paths of how far their weights are from their own mean, a standard deviation, 1/65536.
fn restlessness(samples: &[Weights]) -> f64 {
    let mut series: BTreeMap<(u32, u32, usize), Vec<f64>> = BTreeMap::new();
    for sample in samples {
        for (i, weight) in sample.paths.iter().enumerate().filter(|(_, weight)| **weight > 0) {
            series.entry((sample.host, sample.to, i)).or_default().push(f64::from(*weight));
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread = |values: &Vec<f64>| {
        let middle = mean(values);
        mean(&values.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()).sqrt()
    };
    mean(&series.values().map(spread).collect::<Vec<_>>())
}

/// Feedback every two round trips, and with nearly every packet that could carry it: restlessness of weights, marks that one server told of,
/// and the mean completion time in ms.
#[test]
fn rare_feedback_makes_weights_calmer_and_flows_no_slower() {
    let run = |relay: &str| {
        let balance = format!("clove,flowlet_gap=200us,clove_relay={relay},clove_clear=400us");
        let seen = [1, 2, 3].map(|seed| {
            let mut e = experiment(Multipath::Ecmp, &balance, seed);
            e.failures.clear();
            e.record = Record { sample_every: Time::from_us(500), weights: true, ..Record::default() };
            e.record.capture = Some((2 * CLIENTS, ALL));
            let outcome = host::run(&e, &mut |_| {}).unwrap();
            let told = outcome.captured.iter().filter(|seen| seen.packet.feedback.kind == CE).count() as f64;
            let done = outcome.flows.iter().filter_map(|flow| Some((flow.finish? - flow.start).as_ms_f64()));
            let done: Vec<f64> = done.collect();
            [restlessness(&outcome.weights), told, done.iter().sum::<f64>() / done.len() as f64]
        });
        println!("{relay}: {seen:?}");
        [0, 1, 2].map(|i| seen.iter().map(|run| run[i]).sum::<f64>() / 3.0)
    };
    let (rare, often) = (run("400us"), run("5us"));
    assert!(rare[0] < often[0] && rare[1] < often[1] && rare[2] <= 1.1 * often[2], "{rare:?} {often:?}");
}

/// Web search at 60%, which the links that are left just carry: weights wander no further in its second half than in its first.
#[test]
fn weights_wander_no_further_as_time_goes_on() {
    let seen = [1, 2].map(|seed| {
        let balance = "clove,flowlet_gap=200us,clove_relay=100us,clove_clear=400us";
        let mut e = experiment(Multipath::Ecmp, balance, seed);
        if let Pattern::Poisson { load, .. } = &mut e.workloads[0].pattern {
            *load = 0.6;
        }
        e.duration = Time::from_ms(300);
        e.record = Record { sample_every: Time::from_us(500), weights: true, ..Record::default() };
        let all = host::run(&e, &mut |_| {}).unwrap().weights;
        let between = |from, to| {
            let within = |sample: &&Weights| sample.at >= Time::from_ms(from) && sample.at < Time::from_ms(to);
            restlessness(&all.iter().filter(within).cloned().collect::<Vec<_>>())
        };
        [between(60, 180), between(180, 300)]
    });
    let [early, late] = [0, 1].map(|i| seen.iter().map(|seed| seed[i]).sum::<f64>());
    assert!(early > 0.0 && late <= 1.1 * early, "{seen:?}");
}
