//! Metrics of outcomes made by hand.

use super::*;
use crate::outcome::{FlowRecord, Handshake, HostRecord, Outcome, PortRecord};
use proptest::prelude::*;
use units::Time;

const MS: Time = Time::from_ms(1);

fn flow(class: u16, size: Option<u64>, start: Time, finish: Option<Time>) -> FlowRecord {
    FlowRecord { class, size, start, finish, ..FlowRecord::endless() }
}

fn ended(flows: Vec<FlowRecord>) -> Outcome {
    Outcome { flows, measured_until: Time::from_ms(100), ended_at: Time::from_ms(100), ..Outcome::default() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

fn of(outcome: &Outcome, warmup: Time) -> Summary {
    summarise(outcome, &names(&["mice", "elephants"]), warmup, &Buckets::default())
}

#[track_caller]
fn near(summary: &Summary, name: &str, expected: f64) {
    let value = summary.get(name).unwrap_or_else(|| panic!("{name} is absent"));
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{name}: {value}, not {expected}");
}

#[test]
fn completion_times_with_unfinished_flows() {
    // Mice of 1, 2, 3 ms and two that never finish: the median is the third, the mean only of those that finish.
    let mut flows: Vec<_> = (1..=3).map(|i| flow(0, Some(50_000), MS * 5, Some(MS * (5 + i)))).collect();
    flows.extend([flow(0, Some(50_000), MS * 5, None), flow(0, Some(50_000), MS * 99, None)]);
    let s = of(&ended(flows.clone()), Time::ZERO);
    near(&s, "mice.flows", 5.0);
    near(&s, "mice.unfinished", 2.0);
    near(&s, "mice.fct_ms.p50", 3.0);
    near(&s, "mice.fct_ms.mean_finished", 2.0);
    let p99 = s.refused.iter().find(|r| r.name == "mice.fct_ms.p99").unwrap();
    assert_eq!((p99.samples, p99.needed, s.get("mice.fct_ms.p99")), (5, 1000, None));
    assert_eq!(s.get("mice.small.fct_ms.p50"), None, "all are small");
    assert_eq!((s.get("elephants.flows"), s.get("mice.throughput_gbps.mean")), (None, None));

    flows.push(flow(0, Some(50_000), MS * 5, None));
    assert_eq!(of(&ended(flows), Time::ZERO).get("mice.fct_ms.p50"), Some(3.0));
    let most = vec![flow(0, Some(1), MS, None), flow(0, Some(1), MS, None), flow(0, Some(1), MS, Some(MS * 2))];
    assert_eq!(of(&ended(most), Time::ZERO).get("mice.fct_ms.p50"), Some(f64::INFINITY));
}

#[test]
fn a_run_into_which_no_flow_was_drawn_has_none() {
    let drawn = |flows| Outcome { draws_arrivals: vec![true, false], ..ended(flows) };
    let (none, one) = (drawn(vec![]), drawn(vec![flow(0, Some(50_000), MS * 5, Some(MS * 6))]));
    near(&of(&none, Time::ZERO), "mice.flows", 0.0);
    near(&of(&none, Time::ZERO), "mice.unfinished", 0.0);
    assert_eq!(of(&none, Time::ZERO).get("elephants.flows"), None);
    near(&of(&one, Time::ZERO), "mice.flows", 1.0);
}

#[test]
fn pairs_of_hosts_differ_by_their_mean_times() {
    // Of ten flows each the first pair takes 2 ms, the second 6, of which one more never ends.
    let pair = |dst, ms: u64| FlowRecord { dst, ..flow(0, Some(50_000), MS * 5, Some(MS * (5 + ms))) };
    let mut flows: Vec<_> = (0..10).flat_map(|_| [pair(1, 2), pair(2, 6)]).collect();
    flows.push(FlowRecord { finish: None, ..pair(2, 6) });
    let s = of(&ended(flows.clone()), Time::ZERO);
    near(&s, "mice.fct_ms.pair_mean.max", 6.0);
    near(&s, "mice.fct_ms.pair_deviation.mean", 2.0);
    flows.push(pair(3, 2));
    assert_eq!(of(&ended(flows), Time::ZERO).get("mice.fct_ms.pair_mean.max"), None, "the third has one flow");
    let alone: Vec<_> = (0..10).map(|_| pair(1, 2)).collect();
    assert_eq!(of(&ended(alone), Time::ZERO).get("mice.fct_ms.pair_mean.max"), None, "there is nothing to compare");
}

#[test]
fn rounds_of_answers_have_times_and_throughput_beside_those_of_their_flows() {
    let answer = |round, finish: Option<u64>| FlowRecord {
        request: Some(round),
        ..flow(0, Some(500_000), MS * 5, finish.map(|ms| MS * ms))
    };
    let flows = vec![answer(0, Some(6)), answer(0, Some(9)), answer(1, Some(7)), answer(1, None)];
    let s = of(&ended(flows), Time::ZERO);
    near(&s, "mice.requests", 2.0);
    near(&s, "mice.requests.unfinished", 1.0);
    near(&s, "mice.request_ms.mean_finished", 4.0);
    near(&s, "mice.request_ms.p50", 4.0);
    near(&s, "mice.request_gbps", 2.0);
    assert_eq!(s.get("elephants.requests"), None);
    let alone = of(&ended(vec![flow(0, Some(1), MS, None)]), Time::ZERO);
    assert_eq!((alone.get("mice.requests"), alone.get("mice.request_gbps")), (None, None), "no answers");
}

#[test]
fn flows_of_the_warm_up_have_no_completion_time_but_are_not_lost() {
    let flows = vec![flow(0, Some(1), MS, None), flow(0, Some(1), MS * 20, Some(MS * 22))];
    let s = of(&ended(flows), MS * 10);
    near(&s, "mice.flows", 1.0);
    near(&s, "mice.unfinished", 0.0);
    near(&s, "all.flows", 2.0);
    near(&s, "all.unfinished", 1.0);
}

#[test]
fn throughput_over_the_measured_life() {
    let carried = |delivered_measured, f: FlowRecord| FlowRecord { delivered_measured, ..f };
    let s = of(
        &ended(vec![
            // 90 ms measured of 100: 90 MB are 8 Gbps.
            carried(90_000_000, flow(1, None, Time::ZERO, None)),
            // Started after the warm-up, 50 ms left: 12.5 MB are 2 Gbps.
            carried(12_500_000, flow(1, None, MS * 50, None)),
            // 5 MB in 10 ms: 4 Gbps.
            carried(5_000_000, flow(1, Some(5_000_000), MS * 20, Some(MS * 30))),
            // Over before the measurement, and too small to have a throughput.
            carried(0, flow(1, Some(5_000_000), Time::ZERO, Some(MS * 9))),
            carried(1_000_000, flow(1, Some(1_000_000), MS * 20, Some(MS * 30))),
        ]),
        MS * 10,
    );
    near(&s, "elephants.throughput_gbps.mean", 14.0 / 3.0);
    near(&s, "elephants.throughput_gbps.min", 2.0);
    near(&s, "elephants.throughput_gbps.max", 8.0);
    // (8 + 2 + 4)^2 / (3 x (64 + 4 + 16))
    near(&s, "elephants.jain", 196.0 / 252.0);
    // 108.5 MB in 90 ms.
    near(&s, "elephants.goodput_gbps", 108.5 * 8.0 / 90.0);
    near(&s, "all.goodput_gbps", 108.5 * 8.0 / 90.0);
}

#[test]
fn slowdown_by_size() {
    let slow = |size, times| FlowRecord { ideal: Some(MS), ..flow(0, Some(size), Time::ZERO, Some(MS * times)) };
    let unfinished = FlowRecord { ideal: Some(MS), ..flow(0, Some(20_000_000), Time::ZERO, None) };
    let without_ideal = flow(0, Some(500), Time::ZERO, Some(MS));
    let s = of(&ended(vec![slow(5_000, 2), slow(10_000, 4), slow(10_001, 9), unfinished, without_ideal]), Time::ZERO);
    near(&s, "mice.slowdown.to_10KB.mean_finished", 3.0);
    near(&s, "mice.slowdown.to_10KB.p50", 2.0);
    near(&s, "mice.slowdown.to_100KB.p50", 9.0);
    assert_eq!(s.get("mice.slowdown.above_10MB.p50"), Some(f64::INFINITY));
    assert_eq!(s.get("mice.slowdown.above_10MB.mean_finished"), None);
    assert_eq!(s.get("mice.slowdown.to_1MB.p50"), None);
    near(&s, "mice.slowdown.p50", 4.0);
    near(&s, "mice.small.fct_ms.p50", 2.0);
}

#[test]
fn workloads_of_one_name_are_one() {
    let flows = vec![
        flow(0, Some(1), Time::ZERO, Some(MS)),
        flow(1, Some(1), Time::ZERO, Some(MS * 3)),
        flow(7, None, MS, None),
    ];
    let s = summarise(&ended(flows), &names(&["mice", "mice"]), Time::ZERO, &Buckets::default());
    near(&s, "mice.flows", 2.0);
    assert_eq!(s.metrics.iter().filter(|m| m.name == "mice.flows").count(), 1);
    near(&s, "all.flows", 3.0);
}

#[test]
fn connections_that_needed_another_syn() {
    let began = |start: u64, syns_sent: u32, done: bool| FlowRecord {
        handshake: Some(Handshake { syns_sent, done }),
        ..flow(0, Some(1000), MS * start, None)
    };
    // The first began in the warm-up, the last just now.
    let flows =
        vec![began(1, 2, false), began(11, 1, true), began(12, 3, true), began(13, 2, false), began(99, 1, false)];
    let s = of(&ended(flows), MS * 10);
    near(&s, "mice.connect.retried", 2.0);
    near(&s, "mice.connect.failed", 1.0);
    let kept = of(&ended(vec![flow(0, Some(1000), MS * 20, None)]), MS * 10);
    assert_eq!(kept.get("mice.connect.failed"), None, "nobody has looked");
}

#[test]
fn ports_hosts_and_receivers() {
    let port = |link, forward| PortRecord { link, forward, ..PortRecord::default() };
    let mut outcome = ended(vec![
        FlowRecord {
            retransmitted_segments: 3,
            fast_retransmits: 2,
            timeouts: 1,
            out_of_order: 5,
            segments_received: 1000,
            paths_used: 4,
            ..flow(1, None, Time::ZERO, None)
        },
        FlowRecord { segments_received: 1000, paths_used: 1, ..flow(1, None, Time::ZERO, None) },
    ]);
    // Two hosts, so links 0 and 1 are theirs and link 2 joins switches.
    outcome.hosts = vec![
        HostRecord { rx_packets: 500, rx_cpu_busy: MS * 45, ..HostRecord::default() },
        HostRecord { rx_packets: 480, rx_ring_drops: 10, tx_cpu_busy: MS * 9, ..HostRecord::default() },
    ];
    outcome.ports = vec![
        PortRecord { queue_max_bytes: 9_000_000, queue_mean_bytes: 5e6, marked_packets: 9, ..port(0, true) },
        PortRecord { queue_max_bytes: 4_000, tx_packets: 500, dropped_packets: 10, ..port(0, false) },
        PortRecord { queue_mean_bytes: 3_000.0, utilisation: 0.9, tx_packets: 400, ..port(2, true) },
        PortRecord { utilisation: 0.1, tx_packets: 100, marked_packets: 20, ..port(2, false) },
    ];
    outcome.probes = vec![(MS, 0, MS), (MS * 11, 0, Time::from_us(70)), (MS * 12, 1, Time::from_us(50))];
    outcome.probes_lost = 2;
    outcome.rtt_samples = vec![(MS * 10, 0, Time::from_us(80))];
    outcome.flowcell_disorder = vec![0, 0, 0, 4];
    outcome.segment_sizes = vec![1460, 2920, 64_000];
    let s = of(&outcome, MS * 10);
    for (name, value) in [
        ("all.retransmits", 3.0),
        ("all.fast_retransmits", 2.0),
        ("all.timeouts", 1.0),
        ("elephants.paths_used.mean", 2.5),
        ("elephants.paths_used.max", 4.0),
        // 10 dropped at ports and 10 at rings, of those and 500 + 480 that hosts took in.
        ("loss.packets_per_million", 20_000.0),
        ("ecn.marked_per_million", 20_000.0),
        ("queue.max_kb", 4.0),
        ("queue.mean_kb.mean", 1.0),
        ("queue.mean_kb.max", 3.0),
        ("link.utilisation.mean", 0.5),
        ("link.utilisation.min", 0.1),
        ("link.utilisation.max", 0.9),
        // Of two round trips and two that were lost.
        ("probe.rtt_us.p50", 70.0),
        ("probe.lost", 2.0),
        ("tcp.rtt_us.mean_finished", 80.0),
        ("reordering.segments_per_million", 2_500.0),
        ("flowcell.disorder_zero_share", 0.75),
        ("flowcell.disorder.mean", 1.0),
        ("segment_bytes.p50", 2920.0),
        ("segment_bytes.mean", 68_380.0 / 3.0),
        ("cpu.rx.mean", 0.25),
        ("cpu.rx.max", 0.5),
        ("cpu.tx.max", 0.1),
    ] {
        near(&s, name, value);
    }
}

#[test]
fn what_was_not_measured_is_absent() {
    let s = of(&ended(vec![]), Time::ZERO);
    let present: Vec<&str> = s.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(present, ["all.flows", "all.unfinished", "all.retransmits", "all.fast_retransmits", "all.timeouts"]);
    assert_eq!(s.refused, []);
    assert_eq!(summarise_pooled(&[], &[], Time::ZERO, &Buckets::default()), Summary::default());
}

#[test]
fn pooling_carries_tails_that_one_run_cannot() {
    let run =
        |from: u64| ended((0..600).map(|i| flow(0, Some(9), Time::ZERO, Some(Time::from_us(from + i)))).collect());
    let (a, b) = (run(1), run(601));
    assert_eq!(of(&a, Time::ZERO).get("mice.fct_ms.p99"), None);
    let pooled = summarise_pooled(&[&a, &b], &names(&["mice"]), Time::ZERO, &Buckets::default());
    near(&pooled, "mice.fct_ms.p99", 1.188);
    near(&pooled, "mice.flows", 600.0);
}

/// Of what hosts sent, ports of switches apart.
#[test]
fn syns_and_acks_that_went_again_are_a_share_of_octets() {
    let mut outcome = ended(vec![flow(0, Some(9), Time::ZERO, Some(MS))]);
    outcome.hosts = vec![HostRecord::default(); 2];
    let port = |link, forward| PortRecord { link, forward, tx_bytes: 84_000, ..PortRecord::default() };
    outcome.ports = vec![port(0, true), port(0, false), port(1, true), port(2, true)];
    assert_eq!(of(&outcome, Time::ZERO).get("notify.control_bytes_per_million"), None, "no switch notified");
    outcome.ports[1].notifications.tx_packets = 5;
    outcome.controls_again = 3;
    near(&of(&outcome, Time::ZERO), "notify.control_bytes_per_million", 1500.0);
}

/// The first part of every metric name is a workload's or reserved.
#[test]
fn reserved_names_cover_all_metrics() {
    let mut outcome = ended(vec![flow(0, Some(2_000_000), Time::ZERO, Some(MS))]);
    outcome.hosts = vec![HostRecord { rx_packets: 1, rx_cpu_busy: MS, ..HostRecord::default() }];
    outcome.ports = vec![PortRecord { link: 1, tx_packets: 1, ..PortRecord::default() }];
    outcome.ports[0].notifications.tx_packets = 1;
    (outcome.probes, outcome.rtt_samples) = (vec![(MS, 0, MS)], vec![(MS, 0, MS)]);
    (outcome.flowcell_disorder, outcome.segment_sizes) = (vec![0], vec![1]);
    outcome.limiter_delays = vec![MS];
    (0..20).for_each(|_| outcome.server_delays.add(MS));
    outcome.quenches = 1;
    outcome.flows[0].segments_received = 1;
    outcome.hosts[0].hygenicc.marks_heard = 1;
    outcome.hosts[0].fastlane.notifications = 1;
    outcome.hosts[0].hidden.hidden_segments = 1;
    (outcome.hosts[0].congestion.packs_sent, outcome.window_series) = (1, vec![(0, vec![(1, 1)])]);
    let s = of(&outcome, Time::ZERO);
    let firsts: std::collections::BTreeSet<&str> =
        s.metrics.iter().filter_map(|m| m.name.split('.').next()).filter(|f| *f != "mice").collect();
    assert_eq!(firsts.into_iter().collect::<Vec<_>>(), {
        let mut reserved = RESERVED.to_vec();
        reserved.sort_unstable();
        reserved
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Any records: no panic, no NaN, no name twice, and the same result again.
    #[test]
    fn summaries_are_total(
        flows in prop::collection::vec(
            (0u16..4, prop::option::of(any::<u64>()), any::<u64>(), prop::option::of(any::<u64>()), any::<u64>(),
             prop::option::of(any::<u64>())),
            0..40,
        ),
        warmup: u64, ended_at: u64, host_count in 0usize..3,
    ) {
        let flows = flows.into_iter().map(|(class, size, start, finish, delivered, ideal)| FlowRecord {
            delivered_measured: delivered >> 8,
            ideal: ideal.map(Time::from_ps),
            ..flow(class, size, Time::from_ps(start), finish.map(Time::from_ps))
        }).collect();
        let outcome = Outcome {
            flows,
            hosts: vec![HostRecord::default(); host_count],
            ports: vec![PortRecord::default(); 3],
            measured_until: Time::from_ps(ended_at),
            ended_at: Time::from_ps(ended_at),
            ..Outcome::default()
        };
        let s = of(&outcome, Time::from_ps(warmup));
        prop_assert!(s.metrics.iter().all(|m| !m.value.is_nan()));
        let mut seen: Vec<&str> = s.metrics.iter().map(|m| m.name.as_str()).chain(s.refused.iter().map(|r| r.name.as_str())).collect();
        let n = seen.len();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), n);
        prop_assert_eq!(s, of(&outcome, Time::from_ps(warmup)));
    }
}

#[test]
fn steps_of_flows_that_join_and_leave() {
    // Two flows, a step of 30 ms each, sampled every 10 ms: the first alone, both, the first alone again.
    let ends = Some(MS * 60);
    let mut flows = vec![flow(1, None, Time::ZERO, Some(MS * 90)), flow(1, None, MS * 30, ends)];
    flows[1].id = 1;
    let mb = |rates: &[u64]| rates.iter().map(|r| r * 1_000_000).collect::<Vec<u64>>();
    let port = PortRecord { queue_series: vec![0; 9], ..PortRecord::default() };
    let outcome = Outcome {
        ports: vec![port],
        sample_every: MS * 10,
        steps: vec![vec![], vec![Time::ZERO, MS * 30, MS * 60, MS * 90]],
        goodput_series: vec![(0, mb(&[5, 10, 10, 9, 6, 6, 9, 10, 10])), (1, mb(&[1, 2, 6, 0, 0, 0]))],
        ..ended(flows)
    };
    let s = of(&outcome, Time::ZERO);
    near(&s, "elephants.step1.jain", 1.0);
    // (6 + 2)^2 / (2 x 40) and 1.
    near(&s, "elephants.step2.jain", 0.9);
    near(&s, "elephants.steps.jain.mean", 0.9);
    near(&s, "elephants.steps.share.max", 1.2);
    near(&s, "elephants.steps.share.min", 0.8);
    // Only the second flow varies, in one of four: 2 and 6 about 4, of a fair 5.
    near(&s, "elephants.steps.deviation.mean", 0.4 / 4.0);
    near(&s, "elephants.steps.goodput_gbps.min", 8.0);
    assert_eq!(s.get("elephants.step4.jain"), None);
    assert_eq!(of(&outcome, MS).get("elephants.step1.jain"), None, "the first step began in the warm-up");
}
