//! Presto (SIGCOMM 2015).

use edge::{reorder, Balance};
use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{Controller, EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::workload::{HostMap, Pairs, Pattern, Workload};
use topology::{Clos, Prune};
use units::{BitRate, Bytes, Time};

/// Four flows between two leaves with four spines. A link between them fails after 40 ms.
fn failing(reroute_after: Time, controller: Option<Controller>) -> Experiment {
    let (rate, delay) = (BitRate::from_gbps(10), Time::from_us(1));
    let topology = Clos {
        leaves: 2,
        spines: 4,
        parallel_links: 1,
        hosts_per_leaf: 4,
        host_rate: rate,
        host_delay: delay,
        fabric_rate: rate,
        fabric_delay: delay,
    };
    let topology = topology.build().unwrap();
    let link = topology.link_named("leaf1-spine1").unwrap();
    let pairs = (0..4).map(|i| (i, i + 4)).collect();
    let mut hosts = HostConfig::default();
    hosts.tcp.rto_min = Time::from_ms(10);
    Experiment {
        racks: HostMap::new(topology.hosts().map(|h| topology.leaf_of(h)).collect()),
        topology,
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: vec![Failure { at: Time::from_ms(40), link, up: false }],
        reroute_after,
        hosts,
        edge: EdgeConfig {
            balance: Balance::flowcell(Bytes::kib(64)),
            reorder: Some(reorder::Config::default()),
            controller,
            ..EdgeConfig::default()
        },
        workloads: vec![Workload::new("long", Pattern::Long { pairs: Pairs::Fixed(pairs), size: None })],
        duration: Time::from_ms(300),
        drain: Time::ZERO,
        warmup: Time::from_ms(10),
        seed: 1,
        record: Record { sample_every: Time::from_ms(1), ..Record::default() },
    }
}

/// How long it takes until all flows together have a fifth of what they had, ms from the failure on.
fn pause(e: &Experiment) -> usize {
    let outcome = host::run(e, &mut |_| {}).unwrap();
    let series: Vec<&Vec<u64>> = outcome.goodput_series.iter().map(|(_, series)| series).collect();
    let total = |ms: usize| series.iter().map(|flow| flow[ms]).sum::<u64>();
    let fails = (e.failures[0].at - e.warmup).as_us_f64() as usize / 1000;
    let before = (fails - 10..fails).map(total).sum::<u64>() / 10;
    // The failure's own millisecond has what was under way.
    let again = (fails + 1..series[0].len()).find(|&ms| 5 * total(ms) >= before);
    again.expect("flows go on") - fails
}

/// Section 3.3: hardware fails over within several to tens of milliseconds, a controller later. What flows see is as long as who acts first
/// takes, and what TCP needs after it.
#[test]
fn flows_pause_for_the_failover_of_hardware_and_longer_for_a_controllers() {
    let never = Time::from_secs(10);
    let hardware = pause(&failing(Time::from_ms(5), None));
    let controller = Controller { reacts_after: Time::from_ms(60), prune: Prune::Pair };
    let software = pause(&failing(never, Some(controller)));
    println!("{hardware} ms by hardware, {software} ms by a controller");
    assert!((5..=60).contains(&hardware), "{hardware} ms by hardware");
    assert!((60..=200).contains(&software) && hardware < software, "{software} ms by a controller");
}
