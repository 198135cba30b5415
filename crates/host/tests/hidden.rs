//! The hidden overlay on the modelled fabric: no tunnel, and paths are chosen as through one.

use edge::Balance;
use fabric::{Aqm, Buffer, Fabric, Multipath, Parallel, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Record};
use host::outcome::Outcome;
use host::workload::{Cdf, HostMap, Pairs, Pattern, Workload};
use std::collections::BTreeSet;
use topology::{Clos, Topology};
use units::{BitRate, Bytes, Time};

const HOSTS_PER_LEAF: u32 = 8;
const CLOVE: &str = "clove,flowlet_gap=100us,clove_relay=50us,clove_clear=200us";

/// 2 leaves, 4 spines; the last has a quarter of the others' rate.
fn lopsided() -> Topology {
    let delay = Time::from_us(1);
    let mut topology = Clos {
        leaves: 2,
        spines: 4,
        parallel_links: 1,
        hosts_per_leaf: HOSTS_PER_LEAF,
        host_rate: BitRate::from_gbps(10),
        host_delay: delay,
        fabric_rate: BitRate::from_gbps(20),
        fabric_delay: delay,
    }
    .build()
    .unwrap();
    for leaf in ["leaf1", "leaf2"] {
        let link = topology.link_named(&format!("{leaf}-spine4")).unwrap();
        topology.links[link as usize].rate = BitRate::from_gbps(5);
    }
    topology
}

fn experiment(topology: Topology, pattern: Pattern, balance: &str, hidden: bool, seed: u64) -> Experiment {
    Experiment {
        racks: HostMap::new(topology.hosts().map(|host| topology.leaf_of(host)).collect()),
        topology,
        switches: SwitchConfig {
            buffer: Buffer::Shared { total: Bytes(4_000_000), alpha: 1.0 },
            aqm: Some(Aqm::Threshold { k: Bytes(30_000) }),
            ..SwitchConfig::default()
        },
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::ZERO,
        hosts: HostConfig::default(),
        edge: EdgeConfig { balance: balance.parse::<Balance>().unwrap(), hidden, ..EdgeConfig::default() },
        workloads: vec![Workload::new("work", pattern)],
        duration: Time::from_ms(60),
        drain: Time::from_secs(2),
        warmup: Time::ZERO,
        seed,
        record: Record::default(),
    }
}

fn run(experiment: &Experiment) -> Outcome {
    host::run(experiment, &mut |_| {}).unwrap()
}

/// Web-search flows to the other leaf at 60% of what is between the leaves.
fn search(balance: &str, hidden: bool, seed: u64) -> Outcome {
    let capacity = BitRate::from_mbps(65_000 / u64::from(HOSTS_PER_LEAF));
    let cdf = Cdf::built_in("websearch").unwrap();
    let pattern = Pattern::Poisson { cdf, load: 0.6, capacity, pairs: Pairs::OtherRack };
    run(&experiment(lopsided(), pattern, balance, hidden, seed))
}

fn mean_ms(outcome: &Outcome) -> f64 {
    let last = Time::from_secs(3);
    let times = outcome.flows.iter().map(|flow| (flow.finish.unwrap_or(last) - flow.start).as_secs_f64() * 1e3);
    times.sum::<f64>() / outcome.flows.len() as f64
}

/// Of the bytes that the leaves sent to spines, those to each.
fn shares(outcome: &Outcome) -> [f64; 4] {
    let sent = |end: &str| {
        let up = outcome.ports.iter().filter(|port| port.name.starts_with("leaf") && port.name.contains(end));
        up.map(|port| port.tx_bytes as f64).sum::<f64>()
    };
    [1, 2, 3, 4].map(|spine| sent(&format!("-spine{spine}")) / sent("-spine"))
}

/// (hidden, without room, restored, malformed and forged) of all edges.
fn counted(outcome: &Outcome) -> (u64, u64, u64, u64) {
    let all = |of: fn(&edge::hidden::Counters) -> u64| outcome.hosts.iter().map(|host| of(&host.hidden)).sum();
    (
        all(|c| c.hidden_segments),
        all(|c| c.no_room_segments),
        all(|c| c.restored_packets),
        all(|c| c.malformed_packets + c.forged_packets + c.refused_segments),
    )
}

/// Measured when this was written: the slow spine has 7.7% of the paths' rate, and gets 20.2% under hashing, 11.8% from Clove either way.
#[test]
fn clove_balances_as_through_a_tunnel() {
    let all = [("ecmp", true), (CLOVE, false), (CLOVE, true)].map(|(balance, hidden)| {
        let outcomes = [1, 2, 3].map(|seed| search(balance, hidden, seed));
        let mean = outcomes.iter().map(mean_ms).sum::<f64>() / outcomes.len() as f64;
        let slow = outcomes.iter().map(|outcome| shares(outcome)[3]).sum::<f64>() / outcomes.len() as f64;
        for outcome in &outcomes {
            let (sent, _, restored, wrong) = counted(outcome);
            assert_eq!((sent > 0, restored > 0, wrong), (hidden, hidden, 0), "{balance}");
        }
        (mean, slow)
    });
    println!("mean completion time in ms, share of the slow spine: ecmp, clove in a tunnel, clove hidden: {all:?}");
    let [ecmp, tunnel, hidden] = all;
    // A few of the largest flows decide the mean: it is 1.29 times the tunnel's in these seeds, 1.08 times in ten, 0.4 to 3.1 times in one.
    assert!(hidden.0 < 1.5 * tunnel.0, "{all:?}");
    assert!(hidden.1 < 0.65 * ecmp.1 && (hidden.1 - tunnel.1).abs() < 0.02, "{all:?}");
}

#[test]
fn almost_all_packets_are_hidden_and_the_mss_makes_room() {
    let outcome = search(CLOVE, true, 1);
    let (sent, plain, _, _) = counted(&outcome);
    assert!(plain * 20 < sent, "{plain} of {sent} had no room: acknowledgements with SACK blocks");
    assert_eq!(outcome.flows, search(CLOVE, true, 1).flows, "the same seed, the same run");
    assert!(outcome.flows.iter().all(|flow| flow.finish.is_some()));
}

/// One host to another over four equal spines: ports are known that take each of them.
#[test]
fn a_flow_takes_all_paths_by_their_ports() {
    let mut topology = lopsided();
    topology.links.iter_mut().for_each(|link| link.rate = BitRate::from_gbps(10));
    let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, HOSTS_PER_LEAF)]), size: None };
    let mut e = experiment(topology, long, "flowcell,threshold=16KiB", true, 1);
    e.edge.reorder = Some(edge::reorder::Config::default());
    e.drain = Time::ZERO;
    let outcome = run(&e);
    let shares = shares(&outcome);
    assert!(shares.iter().all(|share| (share - 0.25).abs() < 0.05), "{shares:?}");
    // 1440 of 1538 octets at most, of 10 Gbps.
    let rate = outcome.flows[0].delivered as f64 * 8.0 / e.duration.as_secs_f64() / 1e9;
    assert!(rate > 8.5 && rate < 10.0 * 1440.0 / 1538.0, "{rate}");
}

#[test]
fn edges_discover_ports_of_the_hidden_overlay() {
    let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, HOSTS_PER_LEAF)]), size: None };
    let mut e = experiment(lopsided(), long, "flowcell", true, 1);
    e.edge.reorder = Some(edge::reorder::Config::default());
    e.edge.discovery = Some(discovery::Config {
        period: Time::from_ms(20),
        patience: Time::from_ms(2),
        paths: 4,
        idle: Time::from_ms(200),
        ..discovery::Config::default()
    });
    e.drain = Time::ZERO;
    let outcome = run(&e);
    let told = outcome.discovered.iter().rfind(|told| (told.host, told.to) == (0, HOSTS_PER_LEAF)).unwrap();
    // Data of those ports takes the hops that probes met: there is no other hash than that of the packets.
    let mut fabric = Fabric::new(&e.topology, &e.switches, e.multipath, e.loss, e.reroute_after, e.seed);
    let known = host::ports::known(&mut fabric, 0, HOSTS_PER_LEAF, 4);
    let spines: BTreeSet<u32> = told.paths.iter().map(|(_, hops)| hops[1] / 2).collect();
    assert_eq!((told.paths.len(), spines.len(), known.len()), (4, 4, 4), "{told:?}");
    assert!(shares(&outcome).iter().all(|share| *share > 0.1), "{:?}", shares(&outcome));
}

#[test]
fn known_ports_are_disjoint_and_differ_in_their_index() {
    for parallel in [Parallel::default(), Parallel::InOrder] {
        let topology = lopsided();
        let switches = SwitchConfig { parallel, ..SwitchConfig::default() };
        let mut fabric = Fabric::new(&topology, &switches, Multipath::Ecmp, RandomLoss::default(), Time::ZERO, 7);
        let ports = host::ports::known(&mut fabric, 0, HOSTS_PER_LEAF, 4);
        assert_eq!(ports.iter().map(|port| port & 0xff).collect::<BTreeSet<_>>().len(), 4, "{ports:?}");
        assert_eq!(fabric.packets.live(), 0);
    }
}
