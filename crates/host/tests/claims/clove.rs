//! Clove (SOSR 2017), section 6.2.

use edge::Balance;
use fabric::{Aqm, Buffer, Multipath, Parallel, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::outcome::Outcome;
use host::workload::{Cdf, Connection, HostMap, Pairs, Pattern, Workload};
use topology::Clos;
use units::{BitRate, Bytes, Time};

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
