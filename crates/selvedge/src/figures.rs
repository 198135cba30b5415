//! Fills a report from results.

mod swept;
mod timeline;

pub use swept::{swept, Part};

use crate::report::{
    Cdf, Direction, FctSeries, Link, LinkUtilisation, Node, QueueDepth, ReportData, Row, SchemeReport, Series,
    SlowdownBucket, Table, Throughput, TopologyDrawing,
};
use crate::results::{Results, SchemeResults};
use crate::run::Finished;
use crate::scenario::{Kind, Scenario};
use crate::table;
use host::measure::{fct_ms, slowdowns, throughput_gbps, Buckets, Quantile};
use host::outcome::{Outcome, PortRecord};
use std::collections::BTreeSet;
use topology::{NodeKind, Topology};
use units::{Bytes, Time};

/// The report of one scenario.
pub fn report(results: &Results, command: &str) -> ReportData {
    let scenario = &results.plan.scenario;
    let base = results.plan.schemes.iter().max_by_key(|s| s.template().topology.links.len());
    let mut warnings = results.plan.notes();
    for scheme in &results.schemes {
        let unfinished = scheme.unfinished();
        if unfinished > 0 {
            warnings.push(format!(
                "{}: {unfinished} flows had not finished at the end ({}); percentiles count them as longer than all others",
                scheme.name,
                scheme.causes()
            ));
        }
    }
    let refused = results.schemes.first().map(|s| s.pooled.refused.as_slice()).unwrap_or_default();
    for r in refused.iter().filter(|r| r.name.ends_with("fct_ms.p999") || r.name.ends_with("fct_ms.p99")) {
        warnings.push(format!("{} is not shown: it needs {} samples, there are {}", r.name, r.needed, r.samples));
    }
    let mut schemes: Vec<SchemeReport> = results
        .schemes
        .iter()
        .zip(&results.plan.schemes)
        .map(|(s, p)| scheme_report(results, s, &p.template().topology))
        .collect();
    // Sizes that no flow had, the same in all schemes.
    let buckets = schemes.iter().map(|s| s.slowdown.len()).max().unwrap_or(0);
    for n in (0..buckets).rev() {
        if schemes.iter().all(|s| s.slowdown.get(n).is_none_or(|b| b.count == 0)) {
            schemes.iter_mut().filter(|s| s.slowdown.len() > n).for_each(|s| drop(s.slowdown.remove(n)));
        }
    }
    ReportData {
        title: scenario.title.clone(),
        subtitle: scenario.description.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        seeds: scenario.seeds.0.clone(),
        facts: base.map(|s| facts(scenario, &s.template().topology)).unwrap_or_default(),
        effective_config: results.plan.effective(),
        warnings,
        schemes,
        topology: base.map(|s| drawing(&s.template().topology, scenario.topology.kind)).unwrap_or_default(),
        table: table::comparison(results),
        sweep: None,
        timeline: timeline::timeline(results),
        checks: Vec::new(),
        real: None,
        compared_with: None,
    }
}

/// Rates of links, oversubscription, and offered loads.
fn facts(scenario: &Scenario, fabric: &Topology) -> Vec<[String; 2]> {
    let rates = |links: &[topology::Link]| {
        let rates: BTreeSet<_> = links.iter().map(|link| link.rate).collect();
        rates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let (hosts, switches) = fabric.links.split_at(fabric.n_hosts().min(fabric.links.len()));
    let mut facts = vec![["host links".to_owned(), rates(hosts)], ["switch links".to_owned(), rates(switches)]];
    if !switches.is_empty() {
        facts.push(["oversubscription".to_owned(), format!("{}:1", table::number(fabric.oversubscription()))]);
    }
    let loads = scenario.workload.iter().filter_map(|w| Some(format!("{} {:.0}%", w.name, w.load? * 100.0)));
    facts.push(["load".to_owned(), loads.collect::<Vec<_>>().join(", ")]);
    facts
}

fn scheme_report(results: &Results, scheme: &SchemeResults, fabric: &Topology) -> SchemeReport {
    let scenario = &results.plan.scenario;
    let warmup = scenario.warmup;
    let outcomes: Vec<&Outcome> = scheme.runs.iter().map(|r| &r.outcome).collect();
    let mut report = SchemeReport { name: scheme.name.clone(), note: scheme.note.clone(), ..SchemeReport::default() };
    for (class, workload) in scenario.workload.iter().enumerate() {
        let samples = fct_ms(&outcomes, &|f| usize::from(f.class) == class && f.start >= warmup);
        if samples.count() > 0 {
            let cdf = Cdf::from_samples("ms", samples.finished().to_vec(), samples.unfinished());
            report.fct.push(FctSeries { class: workload.name.clone(), cdf });
        }
    }
    let bounded = slowdowns(&outcomes, &|f| f.start >= warmup);
    if bounded.count() > 0 {
        let mut above = Bytes::ZERO;
        for bucket in Buckets::default().list() {
            let inside = slowdowns(&outcomes, &|f| f.start >= warmup && f.size.is_some_and(|s| bucket.holds(s)));
            let label = match bucket.name.strip_prefix("to_") {
                Some(to) => {
                    let label = if above == Bytes::ZERO { format!("to {to}") } else { format!("{above} to {to}") };
                    above = to.parse().unwrap_or(above);
                    label
                }
                None => bucket.name.replace('_', " "),
            };
            report.slowdown.push(SlowdownBucket {
                size_label: label,
                count: inside.count(),
                p50: inside.percentile(Quantile::P50).ok().filter(|v| v.is_finite()),
                p99: inside.percentile(Quantile::P99).ok().filter(|v| v.is_finite()),
            });
        }
    }
    let whole = results.plan.schemes.iter().all(|s| s.template().topology.fabric_links().is_empty());
    let Some(first) = outcomes.first() else { return report };
    (report.throughput, report.throughput_mean_gbps) = throughputs(results, &scheme.runs);
    report.link_utilisation = utilisation(&outcomes, fabric, whole, warmup, scenario.record.sample_every);
    report.unfinished_flows = timeline::flows(results, scheme);
    report.queue = queues(&outcomes);
    report.goodput = goodput(&outcomes, warmup, scenario.record.sample_every);
    let rtts: Vec<f64> = match first.probes.is_empty() {
        false => outcomes.iter().flat_map(|o| &o.probes).map(|p| p.2.as_ms_f64()).collect(),
        true => outcomes.iter().flat_map(|o| &o.rtt_samples).map(|s| s.2.as_ms_f64()).collect(),
    };
    report.rtt = (!rtts.is_empty()).then(|| Cdf::from_samples("ms", rtts, 0));
    report
}

/// The large or endless flows of all runs, some of them where there are many, and the mean over all.
fn throughputs(results: &Results, runs: &[Finished]) -> (Vec<Throughput>, Option<f64>) {
    const LARGE: u64 = 1_000_000;
    const SHOWN: usize = 200;
    let scenario = &results.plan.scenario;
    let mut all = Vec::new();
    for run in runs {
        let seed = if runs.len() > 1 { format!(", seed {}", run.seed) } else { String::new() };
        for flow in run.outcome.flows.iter().filter(|f| f.size.is_none_or(|s| s > LARGE)) {
            let name = scenario.workload.get(usize::from(flow.class)).map_or("", |w| w.name.as_str());
            if let Some(gbps) = throughput_gbps(flow, run.outcome.measured_until, scenario.warmup) {
                all.push(Throughput { name: format!("{name} {} to {}{seed}", flow.src, flow.dst), gbps });
            }
        }
    }
    let mean = (!all.is_empty()).then(|| all.iter().map(|t| t.gbps).sum::<f64>() / all.len() as f64);
    let step = all.len().div_ceil(SHOWN).max(1);
    (all.into_iter().step_by(step).collect(), mean)
}

/// Of the links between switches, or of all links where no scheme's fabric has any of these: means over the runs, also over time.
fn utilisation(
    outcomes: &[&Outcome],
    fabric: &Topology,
    whole: bool,
    warmup: Time,
    every: Time,
) -> Vec<LinkUtilisation> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let series = |n: usize, port: &PortRecord| {
        let at = |i: usize| mean_of(outcomes, n, |port| port.utilisation_series.get(i).map_or(0.0, |&u| f64::from(u)));
        let values: Vec<f64> = (0..port.utilisation_series.len()).map(at).collect();
        (!values.is_empty()).then(|| Series::new(warmup.as_ms_f64(), every.as_ms_f64(), &values))
    };
    let on = |(_, port): &(usize, &PortRecord)| port.link as usize >= fabric.n_hosts() || whole;
    let of = |(n, port): (usize, &PortRecord)| LinkUtilisation {
        link: fabric.link_name(port.link),
        dir: if port.forward { Direction::AToB } else { Direction::BToA },
        mean: mean_of(outcomes, n, |port| port.utilisation),
        series: series(n, port),
    };
    first.ports.iter().enumerate().filter(on).map(of).collect()
}

/// Mean over the runs, which have the same ports.
fn mean_of(outcomes: &[&Outcome], port: usize, value: impl Fn(&PortRecord) -> f64) -> f64 {
    let values: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.ports.get(port)).map(value).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The queues that are fullest on average, in the order of ports: the mean over the runs, and the largest in any.
fn queues(outcomes: &[&Outcome]) -> Vec<QueueDepth> {
    const SHOWN: usize = 64;
    let Some(first) = outcomes.first() else { return Vec::new() };
    let means: Vec<f64> = (0..first.ports.len()).map(|n| mean_of(outcomes, n, |port| port.queue_mean_bytes)).collect();
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|&a, &b| means[b].total_cmp(&means[a]));
    order.truncate(SHOWN);
    order.sort_unstable();
    let most = |n: usize| outcomes.iter().filter_map(|outcome| outcome.ports.get(n)).map(|p| p.queue_max_bytes).max();
    let of = |n: usize| QueueDepth {
        port: first.ports[n].name.clone(),
        mean_kb: means[n] / 1e3,
        max_kb: most(n).unwrap_or_default() as f64 / 1e3,
    };
    order.into_iter().map(of).collect()
}

/// Sum over the endless flows after the warm-up, the mean over the runs. The flows all last until the end, so series are aligned
/// there.
fn goodput(outcomes: &[&Outcome], warmup: Time, every: Time) -> Option<Series> {
    let series = || outcomes.iter().flat_map(|outcome| &outcome.goodput_series).map(|(_, bytes)| bytes);
    let longest = series().map(Vec::len).max().filter(|n| *n > 0)?;
    let mut sum = vec![0.0; longest];
    for one in series() {
        for (total, bytes) in sum[longest - one.len()..].iter_mut().zip(one) {
            *total += *bytes as f64 * 8.0 / every.as_secs_f64() / 1e9 / outcomes.len() as f64;
        }
    }
    Some(Series::new(warmup.as_ms_f64(), every.as_ms_f64(), &sum))
}

fn drawing(fabric: &Topology, kind: Kind) -> TopologyDrawing {
    let name = |n: u32| fabric.nodes[n as usize].name.clone();
    let places = fabric.layout();
    let nodes = fabric.nodes.iter().zip(&places).map(|(node, &(x, y))| {
        let (kind, tier) = match node.kind {
            NodeKind::Host => ("host", 0),
            NodeKind::Switch { tier } => ("switch", u32::from(tier) + 1),
        };
        let (x, y) = (f64::from(x) * fabric.n_hosts() as f64, f64::from(y) * 3.0);
        Node { name: node.name.clone(), kind: kind.to_owned(), tier, x, y }
    });
    let links = fabric.links.iter().enumerate().map(|(id, link)| Link {
        a: name(link.a),
        b: name(link.b),
        name: fabric.link_name(id as u32),
        rate_gbps: link.rate.as_gbps_f64(),
    });
    let mut drawing = TopologyDrawing { nodes: nodes.collect(), links: links.collect() };
    if !matches!(kind, Kind::Dumbbell | Kind::ParkingLot) {
        drawing.place_by_tier();
    }
    drawing
}

/// One report of several points of a sweep: metrics and distributions side by side, each under its point's label;
/// throughputs and pictures of the fabric from the first point.
pub fn merge(parts: Vec<(&str, ReportData)>) -> ReportData {
    let mut parts = parts.into_iter();
    let Some((label, mut merged)) = parts.next() else { return ReportData::default() };
    if parts.len() == 0 {
        return merged;
    }
    relabel(&mut merged, label);
    for (label, mut part) in parts {
        relabel(&mut part, label);
        merged.warnings.append(&mut part.warnings);
        timeline::join(&mut merged.timeline, part.timeline.take());
        merged.effective_config += &format!("\n# At {label}\n{}", part.effective_config);
        merged.table.columns.append(&mut part.table.columns);
        for row in part.table.rows {
            if let Some(same) = merged.table.rows.iter_mut().find(|r| r.scheme == row.scheme) {
                same.cells.extend(row.cells);
            }
        }
        for scheme in part.schemes {
            if let Some(same) = merged.schemes.iter_mut().find(|s| s.name == scheme.name) {
                same.fct.extend(scheme.fct);
                same.slowdown.extend(scheme.slowdown);
                same.rtt = same.rtt.take().or(scheme.rtt);
                same.unfinished_flows.extend(scheme.unfinished_flows);
            }
        }
    }
    merged
}

/// Two reports of one plan in one: each scheme twice, its names ending as told, the table's columns those of both.
pub fn beside(a: ReportData, a_suffix: &str, b: ReportData, b_suffix: &str) -> ReportData {
    let mut columns = a.table.columns.clone();
    columns.extend(b.table.columns.iter().filter(|c| !a.table.columns.iter().any(|k| k.key == c.key)).cloned());
    let rows = |data: &mut ReportData, suffix: &str| -> Vec<Row> {
        let table = std::mem::take(&mut data.table);
        let cell = |row: &Row, key: &str| {
            let at = table.columns.iter().position(|c| c.key == key);
            at.and_then(|at| row.cells.get(at)).cloned().unwrap_or_default()
        };
        let row = |row: &Row| Row {
            scheme: format!("{}{suffix}", row.scheme),
            cells: columns.iter().map(|c| cell(row, &c.key)).collect(),
        };
        data.schemes.iter_mut().for_each(|s| s.name += suffix);
        table.rows.iter().map(row).collect()
    };
    let (mut a, mut b) = (a, b);
    let (rows_a, rows_b) = (rows(&mut a, a_suffix), rows(&mut b, b_suffix));
    a.schemes = in_turn(a.schemes, b.schemes, |a, b| a.name.strip_suffix(a_suffix) == b.name.strip_suffix(b_suffix));
    let same = |a: &Row, b: &Row| a.scheme.strip_suffix(a_suffix) == b.scheme.strip_suffix(b_suffix);
    a.table = Table { rows: in_turn(rows_a, rows_b, same), columns };
    a.warnings.extend(b.warnings.into_iter().filter(|w| !a.warnings.contains(w)).collect::<Vec<_>>());
    a
}

/// Each of `a` in front of what is the same in `b`, which may have more, in its order.
fn in_turn<T>(a: Vec<T>, b: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut a = a.into_iter().peekable();
    let mut all = Vec::new();
    for b in b {
        all.extend(a.next_if(|a| same(a, &b)));
        all.push(b);
    }
    all.extend(a);
    all
}

fn relabel(part: &mut ReportData, label: &str) {
    let prefix = |text: &mut String| *text = format!("{label}: {text}");
    part.table.columns.iter_mut().for_each(|c| {
        c.key = format!("{label}.{}", c.key);
        prefix(&mut c.title);
    });
    part.warnings.iter_mut().for_each(prefix);
    timeline::name(part, label);
    for scheme in &mut part.schemes {
        scheme.fct.iter_mut().for_each(|f| prefix(&mut f.class));
        scheme.slowdown.iter_mut().for_each(|s| prefix(&mut s.size_label));
    }
}
