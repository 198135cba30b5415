//! Path discovery on the modelled fabric: two leaves, two spines, two links between each leaf and each spine.

use edge::Balance;
use fabric::{Multipath, Parallel, PortId, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::outcome::{Discovered, Outcome};
use host::workload::{HostMap, Pairs, Pattern, Workload};
use std::collections::BTreeSet;
use topology::{Clos, LinkId, Topology};
use units::{BitRate, Time};

const PERIOD: Time = Time::from_ms(20);
/// The last moment at which the first survey of 64 ports can begin, and what its probes take at 10,000 a second.
const A_ROUND: Time = Time::from_ms(22);

fn fabric() -> Topology {
    let delay = Time::from_us(1);
    Clos {
        leaves: 2,
        spines: 2,
        parallel_links: 2,
        hosts_per_leaf: 2,
        host_rate: BitRate::from_gbps(10),
        host_delay: delay,
        fabric_rate: BitRate::from_gbps(10),
        fabric_delay: delay,
    }
    .build()
    .unwrap()
}

/// Host 0 sends to host 2 on the other leaf. `parallel`: how spines join parallel links.
fn experiment(balance: &str, parallel: Parallel, paths: usize, seed: u64) -> Experiment {
    let topology = fabric();
    let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 2)]), size: None };
    let config = discovery::Config {
        period: PERIOD,
        patience: Time::from_ms(2),
        paths,
        idle: PERIOD * 10,
        ..discovery::Config::default()
    };
    Experiment {
        racks: HostMap::new(topology.hosts().map(|host| topology.leaf_of(host)).collect()),
        topology,
        switches: SwitchConfig { parallel, ..SwitchConfig::default() },
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(200),
        hosts: HostConfig::default(),
        edge: EdgeConfig {
            balance: balance.parse::<Balance>().unwrap(),
            discovery: Some(config),
            reorder: Some(edge::reorder::Config::default()),
            ..EdgeConfig::default()
        },
        workloads: vec![Workload::new("long", long)],
        duration: Time::from_ms(100),
        drain: Time::ZERO,
        warmup: Time::ZERO,
        seed,
        record: Record::default(),
    }
}

fn run(e: &Experiment) -> Outcome {
    host::run(e, &mut |_| {}).unwrap()
}

/// What host 0 knew of the paths to host 2, in order of time.
fn told(outcome: &Outcome) -> Vec<&Discovered> {
    outcome.discovered.iter().filter(|told| (told.host, told.to) == (0, 2)).collect()
}

/// The links between switches that a path crosses: the first hop is the host's own link.
fn links(path: &(u16, Vec<PortId>)) -> Vec<LinkId> {
    path.1.iter().skip(1).map(|port| port / 2).collect()
}

#[test]
fn one_round_finds_four_disjoint_paths() {
    for seed in 1..=4 {
        for parallel in [Parallel::default(), Parallel::InOrder] {
            let outcome = run(&experiment("flowcell", parallel, 4, seed));
            let first = told(&outcome)[0];
            assert!(first.at <= A_ROUND, "seed {seed}: {}", first.at);
            let crossed: Vec<LinkId> = first.paths.iter().flat_map(links).collect();
            assert_eq!((first.paths.len(), crossed.len()), (4, 8), "seed {seed}: {first:?}");
            assert_eq!(crossed.iter().collect::<BTreeSet<_>>().len(), 8, "seed {seed}: every link once");
        }
    }
}

#[test]
fn flowcells_take_the_paths_that_were_found_and_no_others() {
    let mut e = experiment("flowcell", Parallel::InOrder, 4, 1);
    e.duration = Time::from_ms(200);
    let outcome = run(&e);
    let up: Vec<u64> =
        outcome.ports.iter().filter(|port| port.name.starts_with("leaf1-spine")).map(|port| port.tx_bytes).collect();
    let total: u64 = up.iter().sum();
    assert_eq!(up.len(), 4);
    // The eight ports that were guessed before the first survey ended may share paths.
    assert!(up.iter().all(|bytes| *bytes * 5 > total && *bytes * 10 < total * 3), "{up:?}");
    assert_eq!(outcome.discovered, run(&e).discovered, "the same seed finds the same");
}

/// Tables change long after: nothing but probes tells of the failure.
#[test]
fn a_failed_link_is_avoided_within_two_periods() {
    for balance in ["flowcell", "clove,flowlet_gap=100us,clove_relay=50us,clove_clear=200us"] {
        let mut e = experiment(balance, Parallel::InOrder, 4, 2);
        let (at, link) = (Time::from_ms(60), e.topology.link_named("leaf1-spine1").unwrap());
        e.failures = vec![Failure { at, link, up: false }];
        e.duration = Time::from_ms(200);
        let outcome = run(&e);
        let told = told(&outcome);
        let over = |told: &Discovered| told.paths.iter().flat_map(links).any(|crossed| crossed == link);
        let before = told.iter().rfind(|told| told.at <= at).unwrap();
        assert!(over(before), "{balance}: the link was in use");
        let avoids = told.iter().find(|told| told.at > at && !over(told)).unwrap();
        assert!(avoids.at <= at + PERIOD * 2, "{balance}: {}", avoids.at);
        assert!(told.iter().filter(|told| told.at >= avoids.at).all(|told| !over(told)), "{balance}");
        assert_eq!(avoids.paths.len(), 3, "{balance}: {avoids:?}");
        // The others stay; some under other ports, where answers to the old ones went over the failed link.
        let hops = |told: &Discovered| told.paths.iter().map(|(_, hops)| hops.clone()).collect::<BTreeSet<_>>();
        assert!(hops(before).is_superset(&hops(avoids)), "{balance}: {before:?} {avoids:?}");
        assert!(outcome.flows[0].delivered > 0);
    }
}

#[test]
fn without_discovery_no_probe_leaves_and_traffic_alone_begins_one() {
    let mut e = experiment("flowcell", Parallel::default(), 4, 1);
    e.edge.discovery = None;
    assert_eq!(run(&e).discovery_probes, 0);
    let outcome = run(&experiment("flowcell", Parallel::default(), 4, 1));
    let pairs: BTreeSet<(u32, u32)> = outcome.discovered.iter().map(|told| (told.host, told.to)).collect();
    assert_eq!(pairs, BTreeSet::from([(0, 2), (2, 0)]), "data one way, acknowledgements the other");
    // At most the bound of each host, over the whole run.
    assert!(outcome.discovery_probes <= 2 * (64 + 1000), "{}", outcome.discovery_probes);
}
