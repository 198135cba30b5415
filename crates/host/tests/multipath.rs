//! Several paths: schedules that follow failures, flowlets, hosts without an edge, and MPTCP.

use edge::{reorder, Balance};
use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{Controller, EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::mptcp;
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::workload::{Connection, HostMap, Pairs, Pattern, Workload};
use topology::{Clos, Prune, Topology};
use units::{BitRate, Bytes, Time};

const G10: BitRate = BitRate::from_gbps(10);

fn clos(leaves: u32, spines: u32, hosts_per_leaf: u32, fabric_rate: BitRate) -> Topology {
    let delay = Time::from_us(1);
    Clos {
        leaves,
        spines,
        parallel_links: 1,
        hosts_per_leaf,
        host_rate: G10,
        host_delay: delay,
        fabric_rate,
        fabric_delay: delay,
    }
    .build()
    .unwrap()
}

fn experiment(topology: Topology, workloads: Vec<Workload>, duration: Time) -> Experiment {
    let racks = HostMap::new(topology.hosts().map(|h| topology.leaf_of(h)).collect());
    Experiment {
        racks,
        topology,
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::ZERO,
        hosts: HostConfig::default(),
        edge: EdgeConfig {
            balance: Balance::flowcell(Bytes::kib(64)),
            reorder: Some(reorder::Config::default()),
            ..EdgeConfig::default()
        },
        workloads,
        duration,
        drain: Time::ZERO,
        warmup: duration / 4,
        seed: 1,
        record: Record::default(),
    }
}

fn run(e: &Experiment) -> Outcome {
    host::run(e, &mut |_| {}).unwrap()
}

/// Of all flows together, in Gbps.
fn goodput(e: &Experiment, o: &Outcome) -> f64 {
    let bytes: u64 = o.flows.iter().map(|f| f.delivered_measured).sum();
    bytes as f64 * 8e-9 / (e.duration - e.warmup).as_secs_f64()
}

fn long(pairs: &[(u32, u32)]) -> Workload {
    Workload::new("long", Pattern::Long { pairs: Pairs::Fixed(pairs.to_vec()), size: None })
}

/// Ports between switches that sent anything in the measured part.
fn busy_uplinks(o: &Outcome, leaf: &str) -> Vec<f64> {
    let uplinks = o.ports.iter().filter(|p| p.forward && p.name.starts_with(leaf));
    uplinks.map(|p| p.utilisation).filter(|&u| u > 0.01).collect()
}

fn with_a_dead_link(controller: Option<Controller>) -> Experiment {
    let topology = clos(2, 4, 4, G10);
    let link = topology.link_named("leaf1-spine1").unwrap();
    let pairs: Vec<(u32, u32)> = (0..4).map(|i| (i, i + 4)).collect();
    let mut e = experiment(topology, vec![long(&pairs)], Time::from_ms(60));
    e.failures = vec![Failure { at: Time::ZERO, link, up: false }];
    e.edge.controller = controller;
    e
}

/// Presto section 3.3: leaves move a dead path's share to one neighbour, the controller then spreads it over all.
#[test]
fn new_schedules_after_a_failure_carry_more_than_failover() {
    let failover = with_a_dead_link(None);
    let controller = Controller { reacts_after: Time::from_ms(1), prune: Prune::Pair };
    let weighted = with_a_dead_link(Some(controller));
    let (o_failover, o_weighted) = (run(&failover), run(&weighted));
    let (before, after) = (goodput(&failover, &o_failover), goodput(&weighted, &o_weighted));
    assert!(after > 1.2 * before, "{before:.1} Gbps with failover, {after:.1} weighted");
    assert!(after > 0.9 * 30.0 * 1460.0 / 1538.0, "three of four uplinks: {after:.1} Gbps");
    let shares = busy_uplinks(&o_weighted, "leaf1");
    assert_eq!(shares.len(), 3, "{shares:?}");
    assert!(shares.iter().all(|&u| u > 0.9), "{shares:?}");
}

#[test]
fn every_guest_of_a_host_has_the_controllers_schedule() {
    let mut e = with_a_dead_link(Some(Controller { reacts_after: Time::from_ms(1), prune: Prune::Pair }));
    e.workloads[0].guest = 3;
    let outcome = run(&e);
    let shares = busy_uplinks(&outcome, "leaf1");
    assert!(shares.len() == 3 && shares.iter().all(|&u| u > 0.9), "{shares:?}");
}

#[test]
fn a_controller_without_failures_changes_nothing_where_paths_are_alike() {
    let mut e = with_a_dead_link(None);
    e.failures.clear();
    e.duration = Time::from_ms(5);
    let without = run(&e);
    e.edge.controller = Some(Controller { reacts_after: Time::ZERO, prune: Prune::All });
    assert_eq!(format!("{without:?}"), format!("{:?}", run(&e)));
}

#[test]
fn a_path_of_half_the_rate_gets_half_the_flowcells() {
    let mut topology = clos(2, 3, 3, G10);
    for leaf in ["leaf1", "leaf2"] {
        let slow = topology.link_named(&format!("{leaf}-spine2")).unwrap();
        topology.links[slow as usize].rate = BitRate::from_gbps(5);
    }
    let pairs: Vec<(u32, u32)> = (0..3).map(|i| (i, i + 3)).collect();
    let mut e = experiment(topology, vec![long(&pairs)], Time::from_ms(40));
    let equal = goodput(&e, &run(&e));
    e.edge.controller = Some(Controller { reacts_after: Time::ZERO, prune: Prune::Pair });
    let weighted = goodput(&e, &run(&e));
    assert!(weighted > 1.3 * equal, "{equal:.1} Gbps in equal shares, {weighted:.1} weighted");
}

#[test]
fn hosts_without_an_edge_see_no_labels() {
    let mut e = experiment(clos(2, 4, 2, G10), vec![long(&[(0, 2), (1, 3)])], Time::from_ms(5));
    e.hosts.plain = vec![3];
    let o = run(&e);
    assert!(o.flows[0].paths_used > 1, "{}", o.flows[0].paths_used);
    assert_eq!(o.flows[1].paths_used, 1, "no label at all");
    assert!(o.flows[1].delivered > 1_000_000);
}

#[test]
fn a_capped_workload_keeps_to_its_rate() {
    let mut capped = long(&[(0, 2)]);
    capped.rate_cap = Some(BitRate::from_mbps(100));
    let e = experiment(clos(2, 2, 2, G10), vec![capped], Time::from_ms(200));
    let rate = goodput(&e, &run(&e));
    assert!((0.09..=0.101).contains(&rate), "{rate} Gbps");
}

/// A flow that sends without pause is one flowlet; one that rests takes the next path each time.
#[test]
fn flowlets_change_path_after_a_pause() {
    let mut mice = Workload::new(
        "mice",
        Pattern::Mice { size: Bytes(10_000), every: Time::from_ms(1), to: Pairs::Fixed(vec![(0, 2)]) },
    );
    mice.connection = Connection::Persistent;
    mice.reply = false;
    let mut e = experiment(clos(2, 4, 2, G10), vec![mice], Time::from_ms(20));
    e.record.capture = Some((0, 10_000));
    e.edge = EdgeConfig { balance: Balance::flowlet(Time::from_us(200)), ..EdgeConfig::default() };
    let labels = |e: &Experiment| {
        let data = run(e).captured;
        let mut labels: Vec<u16> =
            data.iter().filter(|c| c.packet.headers.payload > 0).map(|c| c.packet.label).collect();
        labels.dedup();
        labels
    };
    let taken = labels(&e);
    assert!(taken.len() >= 15, "{taken:?}");
    assert!(taken.windows(2).all(|pair| pair[1] == pair[0] % 4 + 1), "in turn: {taken:?}");
    e.edge.balance = Balance::flowlet(Time::from_ms(2));
    assert_eq!(labels(&e).len(), 1);
}

fn olia(subflows: u8) -> Option<mptcp::Config> {
    Some(mptcp::Config { subflows, congestion: Algorithm::Olia })
}

/// One path per flow, drawn at random.
fn random_paths(e: &mut Experiment) {
    e.edge = EdgeConfig { balance: Balance::random_path(), ..EdgeConfig::default() };
}

#[test]
fn subflows_use_paths_that_one_connection_cannot() {
    for congestion in [Algorithm::Olia, Algorithm::Lia, Algorithm::Cubic] {
        let mut e = experiment(clos(2, 4, 1, BitRate::from_gbps(2)), vec![long(&[(0, 1)])], Time::from_ms(80));
        random_paths(&mut e);
        let one = goodput(&e, &run(&e));
        e.hosts.mptcp = Some(mptcp::Config { subflows: 8, congestion });
        let o = run(&e);
        let eight = goodput(&e, &o);
        assert!(one < 2.0 && eight > 2.5, "{congestion:?}: {one:.2} Gbps, {eight:.2} with eight subflows");
        assert!(o.flows[0].paths_used >= 3, "{}", o.flows[0].paths_used);
    }
}

#[test]
fn mptcp_messages_complete_and_their_subflows_are_closed() {
    let mice = |connection| {
        let pattern = Pattern::Mice { size: Bytes(50_000), every: Time::from_ms(1), to: Pairs::Stride(2) };
        let mut mice = Workload::new("mice", pattern);
        mice.connection = connection;
        mice
    };
    for connection in [Connection::Fresh, Connection::Persistent] {
        let mut e = experiment(clos(2, 2, 2, G10), vec![mice(connection)], Time::from_ms(30));
        e.drain = Time::from_ms(30);
        e.hosts.mptcp = olia(4);
        random_paths(&mut e);
        let o = run(&e);
        assert!(o.flows.len() >= 4 * 29);
        for f in &o.flows {
            assert_eq!((f.delivered, f.finish.is_some()), (50_000, true), "{f:?}");
            assert!(f.finish.unwrap() - f.start >= f.ideal.unwrap(), "{f:?}");
        }
        assert!(o.peak_connections <= 4 * 4 * 2, "{connection:?}: {} connections", o.peak_connections);
    }
}

/// The links of one path die for good: what its subflows had goes over the others.
#[test]
fn what_a_dead_path_holds_is_sent_on_another() {
    let topology = clos(2, 4, 1, BitRate::from_gbps(2));
    let link = topology.link_named("leaf1-spine1").unwrap();
    let pattern = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1)]), size: Some(Bytes(20_000_000)) };
    let mut e = experiment(topology, vec![Workload::new("long", pattern)], Time::from_ms(400));
    random_paths(&mut e);
    e.failures = vec![Failure { at: Time::from_ms(5), link, up: false }];
    e.reroute_after = Time::from_secs(10);
    e.hosts.tcp.rto_min = Time::from_ms(10);
    e.hosts.tcp.delayed_ack = Time::from_ms(5);
    e.hosts.mptcp = olia(8);
    let o = run(&e);
    assert!(o.flows[0].timeouts > 0, "some subflow was on the dead path");
    assert_eq!(o.flows[0].delivered, 20_000_000);
    assert!(o.flows[0].finish.is_some());
}

#[test]
fn an_mptcp_run_is_a_function_of_its_seed() {
    let mut e = experiment(
        clos(2, 4, 4, G10),
        vec![Workload::new("e", Pattern::Stride { k: 4, size: None })],
        Time::from_ms(5),
    );
    e.hosts.mptcp = olia(8);
    random_paths(&mut e);
    let text = |e: &Experiment| format!("{:?}", run(e));
    let first = text(&e);
    assert!(first == text(&e), "two runs of one seed differ");
    e.seed = 2;
    assert!(first != text(&e), "the seed has no effect");
}
