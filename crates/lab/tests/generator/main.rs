//! The traffic generator between network namespaces that a veth pair or a bridge joins. Skips, with a reason, without root.

use host::experiment::{EdgeConfig, Experiment, HostConfig, Record};
use host::measure::{summarise, Buckets};
use host::outcome::Handshake;
use host::workload::{Connection, Datagrams, FlowSpec, HostMap, Pairs, Pattern, Workload};
use lab::traffic::{self, HostHandle, Report};
use std::process::Command;
use topology::SingleSwitch;
use units::{BitRate, Bytes, Time};

/// Hosts on a bridge.
struct Hosts {
    tag: String,
    n: usize,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

impl Hosts {
    /// `None`, with a printed reason, where namespaces cannot be made.
    fn new(name: &str, n: usize) -> Option<Hosts> {
        let hosts = Hosts { tag: format!("tg{}{name}", std::process::id() % 100_000), n };
        let switch = format!("{}s", hosts.tag);
        if !nix::unistd::Uid::effective().is_root() || !ip(&format!("netns add {switch}")) {
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        assert!(ip(&format!("-n {switch} link add br0 type bridge")));
        assert!(ip(&format!("-n {switch} link set br0 up")));
        for i in 0..n {
            let host = hosts.namespace(i);
            assert!(ip(&format!("netns add {host}")));
            assert!(ip(&format!("link add eth0 netns {host} type veth peer name p{i} netns {switch}")));
            assert!(ip(&format!("-n {switch} link set p{i} master br0 up")));
            assert!(ip(&format!("-n {host} addr add 10.5.0.{}/24 dev eth0", i + 1)));
            assert!(ip(&format!("-n {host} link set eth0 up")));
            assert!(ip(&format!("-n {host} link set lo up")));
        }
        Some(hosts)
    }

    /// Gives a host's guest 1 its address.
    fn add_guest(&self, i: usize) {
        assert!(ip(&format!("-n {} addr add 10.6.0.{}/24 dev eth0", self.namespace(i), i + 1)));
    }

    fn namespace(&self, i: usize) -> String {
        format!("{}h{i}", self.tag)
    }

    fn handles(&self) -> Vec<HostHandle> {
        let handle = |i: usize| HostHandle {
            namespace: format!("/run/netns/{}", self.namespace(i)).into(),
            address: format!("10.5.0.{}", i + 1).parse().unwrap(),
        };
        (0..self.n).map(handle).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for i in 0..self.n {
            ip(&format!("netns del {}", self.namespace(i)));
        }
        ip(&format!("netns del {}s", self.tag));
    }
}

fn experiment(hosts: u32, workloads: Vec<Workload>, duration: Time) -> Experiment {
    let (host_rate, host_delay) = (BitRate::from_gbps(10), Time::from_us(1));
    Experiment {
        racks: HostMap::uniform(hosts, 1),
        topology: SingleSwitch { hosts, host_rate, host_delay }.build().unwrap(),
        switches: fabric::SwitchConfig::default(),
        multipath: fabric::Multipath::Ecmp,
        loss: fabric::RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::ZERO,
        hosts: HostConfig::default(),
        edge: EdgeConfig::default(),
        workloads,
        duration,
        drain: Time::from_secs(5),
        warmup: Time::ZERO,
        seed: 1,
        record: Record::default(),
    }
}

fn run(experiment: &Experiment, hosts: &Hosts) -> Report {
    let laws = vec!["cubic".to_owned(); experiment.workloads.len()];
    let report = traffic::run(experiment, &laws, &hosts.handles(), &mut |_| {}).unwrap();
    assert_eq!((report.failed, &report.first_failure), (0, &None));
    report
}

fn list(flows: &[(u64, u32, u32, u64)], connection: Connection, reply: bool) -> Pattern {
    let spec = |&(ms, src, dst, size): &(u64, u32, u32, u64)| FlowSpec {
        start: Time::from_ms(ms),
        src,
        dst,
        size: Some(size),
        class: 0,
        reply,
        request: None,
        connection,
        tag: 0,
    };
    Pattern::List(flows.iter().map(spec).collect())
}

#[test]
fn three_flows_arrive_whole() {
    let Some(hosts) = Hosts::new("a", 2) else { return };
    for reply in [false, true] {
        let flows = [(0, 0, 1, 1), (10, 1, 0, 1_000_003), (20, 0, 1, 20_000_000)];
        let workload = Workload::new("three", list(&flows, Connection::Fresh, reply));
        let e = experiment(2, vec![workload], Time::from_ms(50));
        let report = run(&e, &hosts);
        let o = &report.outcome;
        assert_eq!(o.flows.len(), 3);
        for (record, (ms, src, dst, size)) in o.flows.iter().zip(flows) {
            assert_eq!(
                (record.src, record.dst, record.size, record.delivered),
                (src, dst, Some(size), size),
                "{reply}"
            );
            assert!(record.start >= Time::from_ms(ms), "not before its time");
            assert!(record.finish.unwrap() > record.start);
            assert!(record.ideal.unwrap() > Time::ZERO);
            assert!(u64::from(record.segments_received) >= size.div_ceil(65_536), "{record:?}");
        }
        assert_eq!((report.start_lag.len(), report.counters.len(), o.hosts.len()), (3, 2, 2));
        assert!(report.counters[1].bytes_in > 20_000_000, "{:?}", report.counters);
        let again: u32 = o.flows.iter().map(|f| f.retransmitted_segments).sum();
        assert_eq!(again == 0, report.counters.iter().all(|c| c.retransmitted_segments == 0));
        let summary = summarise(o, &["three".to_owned()], e.warmup, &Buckets::default());
        assert_eq!((summary.get("three.flows"), summary.get("all.unfinished")), (Some(3.0), Some(0.0)));
    }
}

/// Elephants without an end, mice on kept connections that wait for replies, and probes: everything that a report shows.
#[test]
fn elephants_mice_and_probes() {
    let Some(hosts) = Hosts::new("b", 4) else { return };
    let elephants = Workload::new("elephants", Pattern::Stride { k: 2, size: None });
    let mice = Workload {
        connection: Connection::Persistent,
        ..Workload::new("mice", Pattern::Mice { size: Bytes(50_000), every: Time::from_ms(20), to: Pairs::Stride(1) })
    };
    let mut e = experiment(4, vec![elephants, mice], Time::from_ms(300));
    e.warmup = Time::from_ms(100);
    e.record = Record {
        sample_every: Time::from_ms(20),
        probe_every: Time::from_ms(5),
        rtt_samples: true,
        ..Record::default()
    };
    let report = run(&e, &hosts);
    let o = &report.outcome;
    let elephants: Vec<_> = o.flows.iter().filter(|f| f.class == 0).collect();
    assert_eq!(elephants.len(), 4);
    for f in &elephants {
        assert!(f.size.is_none() && f.finish.is_none() && f.delivered > f.delivered_measured, "{f:?}");
        assert!(f.delivered_measured > 0, "{f:?}");
    }
    // Four clocks of 20 ms in 300 ms.
    let mice: Vec<_> = o.flows.iter().filter(|f| f.class == 1).collect();
    assert!((56..=64).contains(&mice.len()), "{}", mice.len());
    assert!(mice.iter().all(|f| f.delivered == 50_000 && f.finish.is_some()));
    assert_eq!(o.goodput_series.len(), 4);
    for (flow, series) in &o.goodput_series {
        let record = &o.flows[*flow as usize];
        assert_eq!(series.len(), 10, "200 ms");
        // The last sample and the end of the measured part are moments apart.
        assert!(series.iter().sum::<u64>() <= record.delivered, "{record:?} {series:?}");
        assert!(series.iter().sum::<u64>() > record.delivered_measured / 2, "{record:?} {series:?}");
    }
    assert!(o.probes.len() as u64 + o.probes_lost > 100, "{} probes", o.probes.len());
    assert!(o.probes.iter().all(|&(at, host, rtt)| at <= Time::from_secs(1) && host < 4 && rtt > Time::ZERO));
    assert!(!o.rtt_samples.is_empty());
    let names = ["elephants".to_owned(), "mice".to_owned()];
    let summary = summarise(o, &names, e.warmup, &Buckets::default());
    for metric in ["elephants.throughput_gbps.mean", "elephants.jain", "mice.fct_ms.p50", "probe.rtt_us.p50"] {
        assert!(summary.get(metric).is_some_and(|value| value > 0.0), "{metric}: {:?}", summary.metrics);
    }
}

/// The next flow of a host starts when one of its two completes.
#[test]
fn a_shuffle_waits_for_completions() {
    let Some(hosts) = Hosts::new("c", 4) else { return };
    let shuffle = Workload::new("shuffle", Pattern::Shuffle { size: Bytes(2_000_000), concurrent: 2 });
    let report = run(&experiment(4, vec![shuffle], Time::from_secs(2)), &hosts);
    let flows = &report.outcome.flows;
    assert_eq!(flows.len(), 12, "every host to every other");
    assert!(flows.iter().all(|f| f.delivered == 2_000_000 && f.finish.is_some()));
    for host in 0..4 {
        let own: Vec<_> = flows.iter().filter(|f| f.src == host).collect();
        let first_done = own.iter().filter_map(|f| f.finish).min().unwrap();
        assert!(own.iter().filter(|f| f.start < first_done).count() <= 2, "{own:?}");
    }
}

/// Flows that join and leave, and messages one after another on connections of their own.
#[test]
fn flows_leave_and_messages_follow_one_another() {
    let Some(hosts) = Hosts::new("e", 3) else { return };
    let every = Time::from_ms(50);
    let stairs = Workload::new("stairs", Pattern::Staircase { pairs: Pairs::Fixed(vec![(0, 2), (1, 2)]), every });
    let size = host::workload::Cdf::parse("one size", "9999 0\n10000 1\n").unwrap();
    let sequence = Workload {
        connection: Connection::Persistent,
        ..Workload::new(
            "sequence",
            Pattern::Sequence { size, applications: 2, pause: Time::from_ms(10), to: Pairs::Fixed(vec![(1, 0)]) },
        )
    };
    let mut e = experiment(3, vec![stairs, sequence], Time::from_ms(300));
    e.edge.ports_by_workload = true;
    let flows = run(&e, &hosts).outcome.flows;
    let stairs: Vec<_> = flows.iter().filter(|f| f.class == 0).collect();
    assert_eq!(stairs.len(), 2);
    let [first, last] = [stairs[0], stairs[1]];
    assert!(first.finish.unwrap() > last.finish.unwrap(), "the last to come is the first to go: {stairs:?}");
    assert!(first.finish.unwrap() < Time::from_ms(300) && first.delivered > 0 && last.delivered > 0);
    let messages: Vec<_> = flows.iter().filter(|f| f.class == 1).collect();
    assert!(messages.len() > 10, "{}", messages.len());
    assert!(messages.iter().all(|f| f.finish.is_some() && f.delivered == f.size.unwrap()));
}

/// The simulator with the same seed starts the same flows.
#[test]
fn arrivals_are_the_simulators() {
    let Some(hosts) = Hosts::new("d", 4) else { return };
    let cdf = host::workload::Cdf::built_in(host::workload::Cdf::BUILT_IN[0].0).unwrap();
    let capacity = BitRate::from_mbps(200);
    let poisson = Workload::new("poisson", Pattern::Poisson { cdf, load: 0.5, capacity, pairs: Pairs::AnyOther });
    let e = experiment(4, vec![poisson], Time::from_ms(500));
    let key = |f: &host::outcome::FlowRecord| (f.src, f.dst, f.size);
    let mut real: Vec<_> = run(&e, &hosts).outcome.flows.iter().map(key).collect();
    let mut simulated: Vec<_> = host::run(&e, &mut |_| {}).unwrap().flows.iter().map(key).collect();
    real.sort_unstable();
    simulated.sort_unstable();
    assert!(!real.is_empty());
    assert_eq!(real, simulated);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    let e = experiment(2, vec![Workload::new("w", Pattern::Stride { k: 1, size: None })], Time::from_ms(10));
    let handle = HostHandle { namespace: "/nowhere".into(), address: "127.0.0.1".parse().unwrap() };
    let hosts = vec![handle.clone(), handle];
    let reason = |laws: &[&str], hosts: &[HostHandle]| {
        let laws: Vec<String> = laws.iter().map(|&law| law.to_owned()).collect();
        traffic::run(&e, &laws, hosts, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(reason(&["cubic"], &hosts[..1]).contains("1 hosts are given"));
    assert!(reason(&[], &hosts).contains("give one for each"));
    assert!(reason(&["warp"], &hosts).contains("no congestion control \"warp\"; it has "));
    assert!(reason(&["reno"], &hosts).starts_with("host 0: cannot enter its namespace"));
}

#[test]
fn guests_send_from_addresses_of_their_own() {
    let Some(hosts) = Hosts::new("x", 2) else { return };
    let flows = [(0, 0, 1, 100_003), (10, 1, 0, 5)];
    let workload = Workload { guest: 1, ..Workload::new("guests", list(&flows, Connection::Fresh, true)) };
    let e = experiment(2, vec![workload], Time::from_ms(50));
    hosts.add_guest(0);
    let laws = ["cubic".to_owned()];
    let refused = traffic::run(&Experiment { drain: Time::ZERO, ..e.clone() }, &laws, &hosts.handles(), &mut |_| {});
    assert_eq!(refused.unwrap().failed, 1, "host 1 has no such guest");
    hosts.add_guest(1);
    let report = run(&e, &hosts);
    assert!(report.outcome.flows.iter().all(|record| record.finish.is_some()), "{:?}", report.outcome.flows);
    let begun = Some(Handshake { syns_sent: 1, done: true });
    assert!(report.outcome.flows.iter().all(|record| record.handshake == begun), "{:?}", report.outcome.flows);
}

#[test]
fn datagrams_have_their_rate_and_their_own_guest() {
    let Some(hosts) = Hosts::new("y", 3) else { return };
    (0..3).for_each(|i| hosts.add_guest(i));
    let rate = BitRate::from_mbps(10);
    let long = |pairs: &[(u32, u32)]| Pattern::Long { pairs: Pairs::Fixed(pairs.to_vec()), size: None };
    let datagrams = Some(Datagrams { rate });
    let workloads = vec![
        Workload { datagrams, ..Workload::new("host", long(&[(0, 2), (1, 2)])) },
        Workload { datagrams, guest: 1, ..Workload::new("guest", long(&[(0, 2)])) },
    ];
    let mut e = experiment(3, workloads, Time::from_ms(500));
    (e.warmup, e.record.sample_every) = (Time::from_ms(100), Time::from_ms(100));
    let report = run(&e, &hosts);
    let outcome = &report.outcome;
    assert_eq!(outcome.flows.len(), 3);
    for record in &outcome.flows {
        // A busy machine sends less, and ends the measured part late.
        assert!(record.delivered_measured > 0 && record.delivered_measured <= record.delivered, "{record:?}");
        assert!(record.delivered_measured < 2 * rate.bytes_in(Time::from_ms(400)), "{record:?}");
        assert_eq!(record.finish, None);
    }
    assert_eq!(outcome.goodput_series.len(), 3, "{:?}", outcome.goodput_series);
}
