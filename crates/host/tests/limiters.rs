//! Rate limiters between edge and NIC, and the laws that keep their queues short.

use edge::limiter::{Law, Spring, DEFAULT_RTT};
use edge::shape::Class;
use edge::vcc;
use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Limiter, LimiterClass, Record};
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::workload::{Connection, HostMap, Pairs, Pattern, Workload};
use topology::SingleSwitch;
use units::{BitRate, Bytes, Time};

const RATE: BitRate = BitRate::from_gbps(1);
/// What Linux counts of a frame less its headers, over all of it.
const PAYLOAD: f64 = 1460.0 / 1514.0;

fn limiter(law: Law) -> Limiter {
    Limiter {
        hosts: Some(vec![0]),
        total: None,
        classes: vec![LimiterClass { to: None, class: Class::fixed(RATE), law }],
    }
}

/// Two flows from one host, whose limiter lets 1 Gbps go.
fn limited(law: Law) -> Experiment {
    let topology = SingleSwitch { hosts: 2, host_rate: BitRate::from_gbps(10), host_delay: Time::from_us(5) };
    let pairs = Pairs::Fixed(vec![(0, 1), (0, 1)]);
    Experiment {
        topology: topology.build().unwrap(),
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(10),
        hosts: HostConfig::default(),
        edge: EdgeConfig { limiter: Some(limiter(law)), ..EdgeConfig::default() },
        racks: HostMap::uniform(2, 1),
        workloads: vec![Workload::new("long", Pattern::Long { pairs, size: None })],
        duration: Time::from_ms(200),
        drain: Time::ZERO,
        warmup: Time::from_ms(80),
        seed: 1,
        record: Record { sample_every: Time::from_us(500), ..Record::default() },
    }
}

/// Gbps of payload, and the mean backlog in bytes.
fn run(e: &Experiment) -> (f64, f64, Outcome) {
    let outcome = host::run(e, &mut |_| {}).unwrap();
    let bytes: u64 = outcome.flows.iter().map(|f| f.delivered_measured).sum();
    let backlogs = &outcome.limiter_backlogs;
    let backlog = backlogs.iter().map(|&b| f64::from(b)).sum::<f64>() / backlogs.len().max(1) as f64;
    (bytes as f64 * 8.0 / (e.duration - e.warmup).as_secs_f64() / 1e9, backlog, outcome)
}

#[test]
fn a_plain_limiter_holds_the_rate_and_a_queue_that_the_guests_bound() {
    let (gbps, backlog, outcome) = run(&limited(Law::None));
    assert!((0.97 * PAYLOAD..=1.001 * PAYLOAD).contains(&gbps), "{gbps}");
    assert!((60_000.0..300_000.0).contains(&backlog), "{backlog}");
    assert!(outcome.limiter_backlog_max <= 2 * (128 << 10) + 20_000, "{}", outcome.limiter_backlog_max);
    let mut routed = limited(Law::None);
    routed.hosts.tcp.tsq_limit = None;
    let (_, without, _) = run(&routed);
    assert!(without > 1.2 * backlog, "{without} without small queues, {backlog} with them");
}

#[test]
fn spring_keeps_the_queue_short_and_the_limiter_busy() {
    let spring = Spring::for_rate(RATE, DEFAULT_RTT);
    let (gbps, backlog, outcome) = run(&limited(Law::Spring(spring)));
    assert!(gbps >= 0.96 * PAYLOAD, "{gbps}");
    assert!(backlog <= 2.0 * spring.k2.get() as f64, "{backlog}");
    assert!(outcome.hosts[0].limiter.windows_cut > 0);
    assert_eq!(outcome.hosts[0].limiter_drops, 0);
}

#[test]
fn dem_needs_guests_that_know_ecn() {
    let law = Law::Dem { k: Bytes(30_000) };
    let (_, plain, outcome) = run(&limited(law));
    assert_eq!(outcome.hosts[0].limiter.acks_marked, 0);
    let mut e = limited(law);
    e.hosts.tcp.congestion = Algorithm::Dctcp;
    let (gbps, backlog, outcome) = run(&e);
    assert!(gbps >= 0.96 * PAYLOAD && backlog < 0.6 * plain, "{gbps} {backlog} {plain}");
    assert!(outcome.hosts[0].limiter.acks_marked > 0);
}

#[test]
fn the_strawman_marks_what_leaves() {
    let mut e = limited(Law::Ecn { k: Bytes(30_000) });
    e.hosts.tcp.congestion = Algorithm::Dctcp;
    let (gbps, _, outcome) = run(&e);
    assert!(gbps >= 0.9 * PAYLOAD, "{gbps}");
    assert!(outcome.hosts[0].limiter.segments_marked > 0);
}

#[test]
fn spring_works_beside_virtual_congestion_control() {
    let spring = Spring::for_rate(RATE, DEFAULT_RTT);
    let mut e = limited(Law::Spring(spring));
    e.edge.congestion = Some(vcc::Config::default());
    let (gbps, backlog, outcome) = run(&e);
    assert!(gbps >= 0.96 * PAYLOAD && backlog <= 2.0 * spring.k2.get() as f64, "{gbps} {backlog}");
    assert_eq!(outcome.hosts[0].congestion.policed_segments, 0, "what the limiter grants is what counts");
}

#[test]
fn a_full_class_drops_and_the_flow_goes_on() {
    let mut e = limited(Law::None);
    if let Some(limiter) = &mut e.edge.limiter {
        limiter.classes[0].class.queue = Some(Bytes(100_000));
    }
    e.hosts.tcp.tsq_limit = None;
    let (gbps, backlog, outcome) = run(&e);
    assert!(outcome.hosts[0].limiter_drops > 0 && backlog <= 100_000.0);
    assert!(gbps > 0.5 * PAYLOAD, "{gbps}");
}

/// A flow whose segments are acknowledged at once must not keep the others at a packet each: by the letter of SPRING the index
/// is 0.37 to 0.66. Polls every 10 us keep modelled flows in step, so that windows of 2 to 4 segments stay as they are.
#[test]
fn flows_share_what_spring_leaves() {
    for (flows, coalesce, seed) in [(6, 20, 1), (7, 10, 1), (7, 20, 2), (8, 20, 1), (9, 10, 3)] {
        let mut e = limited(Law::Spring(Spring::for_rate(RATE, DEFAULT_RTT)));
        let pairs = Pairs::Fixed(vec![(0, 1); flows]);
        e.workloads = vec![Workload::new("long", Pattern::Long { pairs, size: None })];
        e.workloads[0].stagger = Time::from_ms(5);
        e.hosts.rx_coalesce = Time::from_us(coalesce);
        (e.duration, e.seed) = (Time::from_ms(240), seed);
        let (gbps, _, outcome) = run(&e);
        let shares: Vec<f64> = outcome.flows.iter().map(|f| f.delivered_measured as f64).collect();
        let jain = host::measure::jain(&shares);
        assert!(jain > Some(0.85) && gbps >= 0.96 * PAYLOAD, "{flows} flows, {coalesce} us: {jain:?}, {gbps} Gbps");
    }
}

/// Requests of 200 bytes beside eight bulk flows behind one limit: how long the middle one and the slowest of a hundred take, ms,
/// Jain's index of the bulk, and all that the limit carries, Gbps.
fn requests_beside_bulk(law: Law, sparse_first: bool) -> (f64, f64, Option<f64>, f64) {
    let mut e = limited(law);
    if let Some(limiter) = &mut e.edge.limiter {
        limiter.classes[0].class.sparse_first = sparse_first;
    }
    let bulk = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1); 8]), size: None };
    let to = Pairs::Fixed(vec![(0, 1)]);
    let requests = Pattern::Mice { size: Bytes(200), every: Time::from_ms(1), to };
    e.workloads = vec![Workload::new("bulk", bulk), Workload::new("requests", requests)];
    e.workloads[0].stagger = Time::from_ms(5);
    e.workloads[1].connection = Connection::Persistent;
    e.duration = Time::from_ms(300);
    let (gbps, _, outcome) = run(&e);
    let flows = |class| outcome.flows.iter().filter(move |flow| flow.class == class && flow.start >= e.warmup);
    let mut ms: Vec<_> = flows(1).filter_map(|flow| Some((flow.finish? - flow.start).as_secs_f64() * 1e3)).collect();
    assert!(ms.len() > 200, "{} requests", ms.len());
    ms.sort_by(f64::total_cmp);
    let shares: Vec<f64> =
        outcome.flows.iter().filter(|flow| flow.class == 0).map(|f| f.delivered_measured as f64).collect();
    (ms[ms.len() / 2], ms[ms.len() * 99 / 100], host::measure::jain(&shares), gbps)
}

#[test]
fn requests_pass_the_bulk_of_their_limit() {
    let spring = Law::Spring(Spring::for_rate(RATE, DEFAULT_RTT));
    for law in [Law::None, spring] {
        let (p50, p99, jain, gbps) = requests_beside_bulk(law, true);
        let waits = requests_beside_bulk(law, false);
        assert!(p50 < 0.1 && p99 < 0.2 && waits.0 > 3.0 * p50, "{law:?}: {p50} and {p99} ms; {} in the queue", waits.0);
        println!("{law:?}: {p50:.3} {p99:.3} {jain:?} {gbps:.3}, without {waits:?}");
        let fair = if law == Law::None { 0.8 } else { 0.95 };
        assert!(jain >= Some(fair) && gbps >= 0.96 * PAYLOAD, "{law:?}: {jain:?} {gbps}");
    }
}
