//! The named metrics of one run, as `docs/metrics.md` lists them.

mod edges;
mod network;

use super::pairs::{pairs, Pairs};
use super::requests::requests;
use super::share::settled_s;
use super::steady::steady;
use super::steps::{steps, Steps};
use super::{jain, Buckets, Quantile, Samples, Summary};
use crate::outcome::{FlowRecord, Outcome};
use edges::{congestion, fastlane, limiter, tenants};
use network::{per_million, ports, servers};
use units::Time;

/// First parts of metric names that are not a workload's; workloads may not be called so.
pub const RESERVED: &[&str] = &[
    "all",
    "loss",
    "ecn",
    "probe",
    "tcp",
    "queue",
    "link",
    "reordering",
    "flowcell",
    "segment_bytes",
    "cpu",
    "window",
    "congestion",
    "limiter",
    "tenants",
    "notify",
    "fastlane",
    "hidden",
    "server",
    "quench",
];

/// Flows of at most this size are "small"; the Presto paper's mice in section 6.
const SMALL: u64 = 100_000;
/// Flows above this size, and those without an end, have a throughput; the Presto paper's elephants in section 6.
const LARGE: u64 = 1_000_000;

/// The metrics of one run. `names[i]` names workload i; workloads of one name are condensed together. Flows of bounded
/// size count if they start at or after `warmup`.
pub fn summarise(outcome: &Outcome, names: &[String], warmup: Time, buckets: &Buckets) -> Summary {
    summarise_pooled(&[outcome], names, warmup, buckets)
}

/// The metrics of several runs of one experiment, samples thrown together: for percentiles that one run cannot carry.
/// Counts are per run. What varies between the runs is for [`super::across_seeds`] to tell.
pub fn summarise_pooled(outcomes: &[&Outcome], names: &[String], warmup: Time, buckets: &Buckets) -> Summary {
    let mut summary = Summary::default();
    if outcomes.is_empty() {
        return summary;
    }
    for (i, name) in names.iter().enumerate() {
        if !names[..i].contains(name) {
            let of_name = |f: &FlowRecord| names.get(usize::from(f.class)) == Some(name);
            // Of a seed without any, the count is 0 and not unknown.
            let draws = |o: &&Outcome| names.iter().zip(&o.draws_arrivals).any(|(n, draws)| n == name && *draws);
            let may_have_none = outcomes.iter().any(draws);
            workload(&mut summary, outcomes, (name, may_have_none), &of_name, warmup, buckets);
            let found = outcomes.iter().map(|o| steps(o, i as u16, warmup)).collect::<Option<Vec<_>>>();
            put_steps(&mut summary, name, &found.unwrap_or_default());
        }
    }
    totals(&mut summary, outcomes, warmup);
    ports(&mut summary, outcomes);
    receivers(&mut summary, outcomes, warmup);
    congestion(&mut summary, outcomes);
    limiter(&mut summary, outcomes);
    tenants(&mut summary, outcomes);
    fastlane(&mut summary, outcomes);
    for (name, count) in super::hidden::drops(outcomes) {
        summary.put(name, count, "count");
    }
    servers(&mut summary, outcomes);
    summary
}

fn workload(
    summary: &mut Summary,
    outcomes: &[&Outcome],
    (name, may_have_none): (&str, bool),
    of_name: &dyn Fn(&FlowRecord) -> bool,
    warmup: Time,
    buckets: &Buckets,
) {
    let runs = outcomes.len() as f64;
    let bounded = |f: &FlowRecord| of_name(f) && f.size.is_some() && f.start >= warmup;
    let within = |low: u64, high: u64| move |f: &FlowRecord| f.size.is_some_and(|s| s > low && s <= high);
    let fct = fct_ms(outcomes, &bounded);
    if fct.count() > 0 || may_have_none {
        summary.put(format!("{name}.flows"), fct.count() as f64 / runs, "count");
        summary.put(format!("{name}.unfinished"), fct.unfinished() as f64 / runs, "count");
    }
    if fct.count() > 0 {
        summary.put_tail(&format!("{name}.fct_ms"), &fct, "ms");
        put_pairs(summary, outcomes, name, &bounded);
        connections(summary, outcomes, name, &bounded);
        let small = fct_ms(outcomes, &|f| bounded(f) && within(0, SMALL)(f));
        if small.count() < fct.count() {
            summary.put_tail(&format!("{name}.small.fct_ms"), &small, "ms");
        }
        let slowdown = slowdowns(outcomes, &bounded);
        summary.put_tail(&format!("{name}.slowdown"), &slowdown, "ratio");
        for bucket in buckets.list() {
            let held = |f: &FlowRecord| bounded(f) && f.size.is_some_and(|s| bucket.holds(s));
            let inside = slowdowns(outcomes, &held);
            if inside.count() < slowdown.count() {
                summary.put_tail(&format!("{name}.slowdown.{}", bucket.name), &inside, "ratio");
                summary.put_tail(&format!("{name}.fct_ms.{}", bucket.name), &fct_ms(outcomes, &held), "ms");
            }
        }
    }
    put_requests(summary, name, outcomes, warmup, of_name);
    let large = |f: &FlowRecord| of_name(f) && f.size.is_none_or(|s| s > LARGE);
    let throughput = throughputs_gbps(outcomes, warmup, &large);
    summary.put_all(&format!("{name}.throughput_gbps"), &throughput, "Gbps", &["mean", "min", "max"]);
    put_jain(summary, name, outcomes, warmup, &large);
    if let Some(rate) = goodput_gbps(outcomes, warmup, of_name) {
        summary.put(format!("{name}.goodput_gbps"), rate, "Gbps");
    }
    for (window, span) in [("rate_10ms", 10), ("rate_100ms", 100), ("rate_1s", 1000)] {
        if let Some(s) = steady(outcomes, of_name, Time::from_ms(span)) {
            summary.put(format!("{name}.{window}.cov"), s.cov, "ratio");
            summary.put(format!("{name}.{window}.least"), s.least, "ratio");
        }
    }
    if let Some(s) = settled_s(outcomes, of_name, warmup, Time::from_ms(100)) {
        summary.put(format!("{name}.settled_ms"), s * 1e3, "ms");
    }
    let paths: Vec<f64> =
        flows(outcomes).filter(|f| of_name(f) && f.paths_used > 0).map(|f| f64::from(f.paths_used)).collect();
    summary.put_all(&format!("{name}.paths_used"), &paths, "count", &["mean", "max"]);
}

/// Rounds of answers to one host, where the workload has any.
fn put_requests(
    summary: &mut Summary,
    name: &str,
    outcomes: &[&Outcome],
    warmup: Time,
    which: &dyn Fn(&FlowRecord) -> bool,
) {
    let Some(found) = requests(outcomes, which, warmup) else { return };
    let runs = outcomes.len() as f64;
    summary.put(format!("{name}.requests"), found.times.count() as f64 / runs, "count");
    summary.put(format!("{name}.requests.unfinished"), found.times.unfinished() as f64 / runs, "count");
    summary.put_tail(&format!("{name}.request_ms"), &found.times, "ms");
    if let Some(rate) = found.gbps {
        summary.put(format!("{name}.request_gbps"), rate, "Gbps");
    }
}

/// The slowest pair of hosts over all runs, and the mean over runs of how much pairs differ.
fn put_pairs(summary: &mut Summary, outcomes: &[&Outcome], name: &str, which: &dyn Fn(&FlowRecord) -> bool) {
    let Some(runs) = outcomes.iter().map(|run| pairs(run, which)).collect::<Option<Vec<_>>>() else { return };
    let all = |of: fn(&Pairs) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    summary.put_all(&format!("{name}.fct_ms.pair_mean"), &all(|p| p.max), "ms", &["max"]);
    summary.put_all(&format!("{name}.fct_ms.pair_deviation"), &all(|p| p.deviation), "ms", &["mean"]);
}

/// Connections that lost a SYN or its answer, and those that were not set up in the end, a run.
fn connections(summary: &mut Summary, outcomes: &[&Outcome], name: &str, which: &dyn Fn(&FlowRecord) -> bool) {
    let begun = || flows(outcomes).filter(|f| which(f)).filter_map(|f| f.handshake);
    if begun().next().is_none() {
        return;
    }
    let runs = outcomes.len() as f64;
    let retried = || begun().filter(|h| h.syns_sent > 1);
    summary.put(format!("{name}.connect.retried"), retried().count() as f64 / runs, "count");
    summary.put(format!("{name}.connect.failed"), retried().filter(|h| !h.done).count() as f64 / runs, "count");
}

/// Jain's index of the throughputs within each run: the mean over the runs, and the least. Flows of different runs share nothing.
fn put_jain(
    summary: &mut Summary,
    name: &str,
    outcomes: &[&Outcome],
    warmup: Time,
    which: &dyn Fn(&FlowRecord) -> bool,
) {
    let each: Vec<f64> = outcomes.iter().filter_map(|run| jain(&throughputs_gbps(&[run], warmup, which))).collect();
    if !each.is_empty() {
        summary.put(format!("{name}.jain"), each.iter().sum::<f64>() / each.len() as f64, "ratio");
        summary.put_all(&format!("{name}.jain"), &each, "ratio", &["min"]);
    }
}

/// Means over the runs, extremes over all.
fn put_steps(summary: &mut Summary, name: &str, runs: &[Steps]) {
    let Some(first) = runs.first() else { return };
    for n in 0..first.jain.len() {
        let each: Vec<f64> = runs.iter().filter_map(|r| r.jain.get(n).copied()).collect();
        summary.put(format!("{name}.step{}.jain", n + 1), each.iter().sum::<f64>() / each.len() as f64, "ratio");
    }
    let all = |of: fn(&Steps) -> &Vec<f64>| runs.iter().flat_map(|r| of(r).iter().copied()).collect::<Vec<f64>>();
    // One flow is always fair.
    let shared: Vec<f64> = all(|s| &s.jain).into_iter().filter(|&j| j < 1.0).collect();
    summary.put_all(&format!("{name}.steps.jain"), &shared, "ratio", &["mean", "min"]);
    summary.put_all(&format!("{name}.steps.share"), &all(|s| &s.shares), "ratio", &["min", "max"]);
    summary.put_all(&format!("{name}.steps.deviation"), &all(|s| &s.deviations), "ratio", &["mean"]);
    summary.put_all(&format!("{name}.steps.goodput_gbps"), &all(|s| &s.gbps), "Gbps", &["min"]);
}

fn flows<'a>(outcomes: &'a [&Outcome]) -> impl Iterator<Item = &'a FlowRecord> + 'a {
    outcomes.iter().flat_map(|o| &o.flows)
}

/// Completion times in milliseconds of the flows that `which` picks; flows without an end have none and are left out.
pub fn fct_ms(outcomes: &[&Outcome], which: &dyn Fn(&FlowRecord) -> bool) -> Samples {
    completion(outcomes, which, |f, fct| f.size.map(|_| fct.as_ms_f64()))
}

/// Completion times as multiples of the ideal, for flows that have one.
pub fn slowdowns(outcomes: &[&Outcome], which: &dyn Fn(&FlowRecord) -> bool) -> Samples {
    completion(outcomes, which, |f, fct| {
        let ideal = f.ideal.filter(|&i| i > Time::ZERO && i < Time::MAX)?;
        Some(fct.as_ps() as f64 / ideal.as_ps() as f64)
    })
}

/// `value` is asked for finished flows with their completion time, and for unfinished ones with zero, to learn whether
/// they count.
fn completion(
    outcomes: &[&Outcome],
    which: &dyn Fn(&FlowRecord) -> bool,
    value: impl Fn(&FlowRecord, Time) -> Option<f64>,
) -> Samples {
    let mut values = Vec::new();
    let mut unfinished = 0;
    for f in flows(outcomes).filter(|f| f.size.is_some() && which(f)) {
        let fct = f.finish.map(|finish| finish.saturating_sub(f.start));
        match (fct, value(f, fct.unwrap_or(Time::ZERO))) {
            (Some(_), Some(v)) => values.push(v),
            (None, Some(_)) => unfinished += 1,
            (_, None) => {}
        }
    }
    Samples::new(values, unfinished)
}

/// Gbit/s of each flow that `which` picks: bytes delivered in the measured part of the run over the part of its life
/// within it. Flows that were over before it are left out.
pub fn throughputs_gbps(outcomes: &[&Outcome], warmup: Time, which: &dyn Fn(&FlowRecord) -> bool) -> Vec<f64> {
    let mut rates = Vec::new();
    for outcome in outcomes {
        let picked = outcome.flows.iter().filter(|f| which(f));
        rates.extend(picked.filter_map(|f| throughput_gbps(f, outcome.measured_until, warmup)));
    }
    rates
}

/// Of one flow: bytes delivered in the measured part of the run, which ends at `until`, over the part of its life within it. `None` if
/// it was over before.
pub fn throughput_gbps(flow: &FlowRecord, until: Time, warmup: Time) -> Option<f64> {
    let until = flow.finish.unwrap_or(Time::MAX).min(until);
    gbps(flow.delivered_measured, until.saturating_sub(flow.start.max(warmup)))
}

/// Bytes of all flows together in the measured part, over its length; the mean over the runs.
fn goodput_gbps(outcomes: &[&Outcome], warmup: Time, which: &dyn Fn(&FlowRecord) -> bool) -> Option<f64> {
    let mut rates = Vec::new();
    for outcome in outcomes {
        let mut any = false;
        let bytes =
            outcome.flows.iter().filter(|f| which(f)).inspect(|_| any = true).map(|f| f.delivered_measured).sum();
        rates.extend(gbps(bytes, outcome.measured_until.saturating_sub(warmup)).filter(|_| any));
    }
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn gbps(bytes: u64, span: Time) -> Option<f64> {
    // Bits per picosecond are Tbit/s.
    (span > Time::ZERO).then(|| bytes as f64 * 8.0 / span.as_ps() as f64 * 1e3)
}

fn totals(summary: &mut Summary, outcomes: &[&Outcome], warmup: Time) {
    let runs = outcomes.len() as f64;
    let per_run = |of: &dyn Fn(&FlowRecord) -> u64| flows(outcomes).map(of).sum::<u64>() as f64 / runs;
    summary.put("all.flows", per_run(&|_| 1), "count");
    let unfinished = |f: &FlowRecord| u64::from(f.size.is_some() && f.finish.is_none());
    summary.put("all.unfinished", per_run(&unfinished), "count");
    if let Some(rate) = goodput_gbps(outcomes, warmup, &|_| true) {
        summary.put("all.goodput_gbps", rate, "Gbps");
    }
    put_jain(summary, "all", outcomes, warmup, &|f| f.size.is_none());
    summary.put("all.retransmits", per_run(&|f| u64::from(f.retransmitted_segments)), "count");
    summary.put("all.fast_retransmits", per_run(&|f| u64::from(f.fast_retransmits)), "count");
    summary.put("all.timeouts", per_run(&|f| u64::from(f.timeouts)), "count");
}

fn receivers(summary: &mut Summary, outcomes: &[&Outcome], warmup: Time) {
    let runs = outcomes.len() as f64;
    let later = |&&(at, _, _): &&(Time, u32, Time)| at >= warmup;
    let probes = outcomes.iter().flat_map(|o| &o.probes).filter(later).map(|p| p.2.as_us_f64());
    let lost = outcomes.iter().map(|o| o.probes_lost).sum::<u64>();
    let probes = Samples::new(probes, lost);
    summary.put_tail("probe.rtt_us", &probes, "us");
    if probes.count() > 0 {
        summary.put("probe.lost", lost as f64 / runs, "count");
    }
    let rtts = outcomes.iter().flat_map(|o| &o.rtt_samples).filter(later).map(|s| s.2.as_us_f64());
    summary.put_tail("tcp.rtt_us", &Samples::new(rtts, 0), "us");

    let received: u64 = flows(outcomes).map(|f| u64::from(f.segments_received)).sum();
    if received > 0 {
        let disordered = flows(outcomes).map(|f| u64::from(f.out_of_order)).sum();
        summary.put("reordering.segments_per_million", per_million(disordered, received), "ppm");
    }
    let disorder: Vec<f64> = outcomes.iter().flat_map(|o| &o.flowcell_disorder).map(|&n| f64::from(n)).collect();
    if !disorder.is_empty() {
        let zero = disorder.iter().filter(|&&n| n == 0.0).count();
        summary.put("flowcell.disorder_zero_share", zero as f64 / disorder.len() as f64, "ratio");
        summary.put_all("flowcell.disorder", &disorder, "count", &["mean", "max"]);
    }
    let segments = Samples::new(outcomes.iter().flat_map(|o| &o.segment_sizes).map(|&s| f64::from(s)), 0);
    if let (Some(mean), Ok(median)) = (segments.mean_finished(), segments.percentile(Quantile::P50)) {
        summary.put("segment_bytes.mean", mean, "B");
        summary.put("segment_bytes.p50", median, "B");
    }
    let share =
        |busy: Time, o: &Outcome| busy.as_ps() as f64 / o.measured_until.saturating_sub(warmup).as_ps().max(1) as f64;
    let hosts = || outcomes.iter().flat_map(|o| o.hosts.iter().map(move |h| (o, h)));
    if hosts().any(|(_, h)| h.tx_cpu_busy > Time::ZERO || h.rx_cpu_busy > Time::ZERO) {
        let tx: Vec<f64> = hosts().map(|(o, h)| share(h.tx_cpu_busy, o)).collect();
        let rx: Vec<f64> = hosts().map(|(o, h)| share(h.rx_cpu_busy, o)).collect();
        summary.put_all("cpu.tx", &tx, "ratio", &["mean", "max"]);
        summary.put_all("cpu.rx", &rx, "ratio", &["mean", "max"]);
    }
}
