//! Applications that wait for one another, and flows that end without a size, through the whole model.

use host::experiment::{EdgeConfig, Experiment, HostConfig, Record};
use host::measure::{summarise, Buckets};
use host::outcome::Outcome;
use host::run;
use host::workload::{Cdf, Connection, HostMap, Pairs, Pattern, Workload};
use topology::SingleSwitch;
use units::{BitRate, Time};

const MS: Time = Time::from_ms(1);

fn experiment(hosts: u32, workloads: Vec<Workload>, duration: Time) -> Experiment {
    let switch = SingleSwitch { hosts, host_rate: BitRate::from_gbps(10), host_delay: Time::from_us(1) };
    let mut host = HostConfig::default();
    host.tcp.rto_min = Time::from_ms(10);
    Experiment {
        topology: switch.build().unwrap(),
        switches: fabric::SwitchConfig::default(),
        multipath: fabric::Multipath::Ecmp,
        loss: fabric::RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::ZERO,
        hosts: host,
        edge: EdgeConfig::default(),
        racks: HostMap::uniform(hosts, 0),
        workloads,
        duration,
        drain: Time::ZERO,
        warmup: Time::ZERO,
        seed: 1,
        record: Record { sample_every: MS, ..Record::default() },
    }
}

fn outcome(experiment: &Experiment) -> Outcome {
    run(experiment, &mut |_| {}).unwrap()
}

#[test]
fn a_staircase_frees_the_link_step_by_step() {
    let pairs = Pairs::Fixed(vec![(0, 2), (1, 2)]);
    let stairs = Workload::new("join", Pattern::Staircase { pairs, every: MS * 30 });
    let e = experiment(3, vec![stairs], MS * 90);
    let o = outcome(&e);
    let ends: Vec<_> = o.flows.iter().map(|f| f.finish).collect();
    let soon = |at: Option<Time>, due: Time| at.is_some_and(|at| at >= due && at < due + MS * 10);
    assert!(soon(ends[1], MS * 60), "{ends:?}: the second ends when what it had sent has arrived");
    let (first, second) = (&o.goodput_series[0].1, &o.goodput_series[1].1);
    assert_eq!((first.len(), second.len()), (90, 61), "series run to the end; the second flow began at an instant");
    assert!(second[46..].iter().all(|&b| b == 0) && second[..25].iter().sum::<u64>() > 5_000_000);
    assert_eq!(second.iter().sum::<u64>(), o.flows[1].delivered);
    // 9.4 Gbps are 1,175 KB in a millisecond.
    assert!(first[75..].iter().sum::<u64>() > 15 * 1_100_000, "the first has the link for itself again");
    let s = summarise(&o, &["join".to_owned()], Time::ZERO, &Buckets::default());
    assert_eq!(s.get("join.step1.jain"), Some(1.0));
    assert!(s.get("join.steps.goodput_gbps.min").unwrap() > 9.0);
    assert!(s.get("join.step3.jain").is_some() && s.get("join.step4.jain").is_none());
}

#[test]
fn requests_follow_one_another_on_a_connection_of_each_application() {
    let pause = Time::from_us(100);
    let pattern =
        Pattern::Sequence { size: Cdf::constant(64).unwrap(), applications: 3, pause, to: Pairs::Fixed(vec![(0, 1)]) };
    let ping = Workload { connection: Connection::Persistent, reply: true, ..Workload::new("rtt", pattern) };
    let o = outcome(&experiment(2, vec![ping], MS * 20));
    assert_eq!(o.peak_connections, 3);
    let mut flows = o.flows.iter().collect::<Vec<_>>();
    flows.sort_by_key(|f| f.start);
    assert!(flows.iter().all(|f| f.finish.is_some() || f.start > MS * 19));
    // Two 20 us polls, two times two microseconds of wire and little else, on an idle network.
    let trips: Vec<Time> = flows.iter().skip(3).filter_map(|f| Some(f.finish? - f.start)).collect();
    assert!(trips.iter().all(|&t| t > Time::from_us(44) && t < Time::from_us(60)), "{:?}", trips.iter().max());
    assert!(trips.len() > 3 * 110 && trips.len() < 3 * 140, "{}: one each 145 us", trips.len());
}

/// 20 segments a round trip that one cannot exceed, whoever holds the sender to it.
#[test]
fn clamps_bound_the_rate_and_only_the_obedient_keep_to_the_window() {
    let window = 20 * 1460;
    let rate = |change: &dyn Fn(&mut Experiment)| {
        let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1)]), size: None };
        let mut e = experiment(2, vec![Workload::new("long", long)], MS * 20);
        change(&mut e);
        outcome(&e).flows[0].delivered
    };
    let free = rate(&|_| {});
    let clamped = rate(&|e| e.hosts.tcp.cwnd_clamp = window);
    let told = rate(&|e| e.hosts.tcp.rcvbuf = window);
    assert!(clamped < free / 2 && clamped > free / 20, "{clamped} of {free}");
    assert!(told.abs_diff(clamped) < clamped / 10, "{told} and {clamped}");
    let unruly = rate(&|e| {
        e.hosts.tcp.rcvbuf = window;
        e.workloads[0].ignore_window = true;
    });
    assert!(unruly > told * 11 / 10, "{unruly} and {told}");
}
