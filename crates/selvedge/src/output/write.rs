//! The files of a results directory; docs/results-files.md describes every column.

use super::cells::{finish, or_empty, us, WriteError};
use super::{flowmonitor, pcapng, series, Staging};
use crate::results::Results;
use host::measure::Summary;
use serde_json::{json, Map, Value};
use std::path::Path;
use units::Time;

/// What to write besides the usual.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    pub xml: bool,
    /// What was sampled, as `series.csv`.
    pub series: bool,
    /// Link whose packets were captured.
    pub capture: Option<String>,
}

/// Writes everything but the report into `staging`, file names beginning with `prefix`.
///
/// # Errors
/// As the file system gives them.
pub fn write(results: &Results, staging: &Staging, prefix: &str, extras: &Extras) -> Result<(), WriteError> {
    let name = |name: &str| format!("{prefix}{name}");
    staging.write(&name("flows.csv"), flows(results)?)?;
    staging.write(&name("ports.csv"), ports(results)?)?;
    staging.write(&name("metrics.csv"), metrics_csv(results)?)?;
    staging.write(&name("metrics.json"), format!("{:#}\n", metrics(results)))?;
    staging.write(&name("effective.toml"), effective(results))?;
    if extras.series {
        series::write(results, staging, &name("series.csv"))?;
    }
    for scheme in &results.schemes {
        let plan = results.plan.schemes.iter().find(|p| p.name == scheme.name);
        for run in &scheme.runs {
            if extras.xml {
                if let Some(plan) = plan {
                    let xml = flowmonitor::render(plan.template(), &run.outcome);
                    staging.write(&name(&format!("flowmonitor-{}-{}.xml", scheme.name, run.seed)), xml)?;
                }
            }
            if let Some(port) =
                extras.capture.as_deref().filter(|_| plan.is_some_and(|p| p.template().record.capture.is_some()))
            {
                let file = pcapng::render(port, &run.outcome.captured)?;
                let port = port.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.', "_");
                staging.write(&name(&format!("{port}-{}-{}.pcapng", scheme.name, run.seed)), file)?;
            }
        }
    }
    Ok(())
}

/// The effective configuration with its version, as a scenario file.
pub fn effective(results: &Results) -> String {
    format!(
        "# selvedge {}: the configuration in effect, every default filled in. It is a scenario: running it with the same\n\
         # version gives the same results, byte for byte.\n{}",
        env!("CARGO_PKG_VERSION"),
        results.plan.effective()
    )
}

fn flows(results: &Results) -> Result<Vec<u8>, WriteError> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record([
        "scheme",
        "seed",
        "flow",
        "workload",
        "src",
        "dst",
        "size_bytes",
        "start_us",
        "finish_us",
        "fct_us",
        "ideal_fct_us",
        "slowdown",
        "finished",
        "delivered_bytes",
        "delivered_after_warmup_bytes",
        "retransmitted_segments",
        "fast_retransmits",
        "timeouts",
        "out_of_order_segments",
        "received_segments",
        "paths_used",
    ])?;
    for scheme in &results.schemes {
        for run in &scheme.runs {
            for f in &run.outcome.flows {
                let workload = results.plan.scenario.workload.get(usize::from(f.class)).map_or("", |w| &w.name);
                let fct = f.finish.map(|finish| finish.saturating_sub(f.start));
                let ideal = f.ideal.filter(|&i| i > Time::ZERO && i < Time::MAX);
                let slowdown = fct.zip(ideal).map(|(fct, ideal)| fct.as_ps() as f64 / ideal.as_ps() as f64);
                csv.write_record(&[
                    scheme.name.clone(),
                    run.seed.to_string(),
                    f.id.to_string(),
                    workload.to_owned(),
                    f.src.to_string(),
                    f.dst.to_string(),
                    or_empty(f.size),
                    us(f.start),
                    or_empty(f.finish.map(us)),
                    or_empty(fct.map(us)),
                    or_empty(ideal.map(us)),
                    or_empty(slowdown),
                    u8::from(f.finish.is_some()).to_string(),
                    f.delivered.to_string(),
                    f.delivered_measured.to_string(),
                    f.retransmitted_segments.to_string(),
                    f.fast_retransmits.to_string(),
                    f.timeouts.to_string(),
                    f.out_of_order.to_string(),
                    f.segments_received.to_string(),
                    f.paths_used.to_string(),
                ])?;
            }
        }
    }
    finish(csv)
}

fn ports(results: &Results) -> Result<Vec<u8>, WriteError> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record([
        "scheme",
        "seed",
        "port",
        "link",
        "tx_packets",
        "tx_bytes",
        "dropped_packets",
        "dropped_bytes",
        "marked_packets",
        "utilisation",
        "queue_mean_bytes",
        "queue_max_bytes",
    ])?;
    for (scheme, plan) in results.schemes.iter().zip(&results.plan.schemes) {
        let fabric = &plan.template().topology;
        for run in &scheme.runs {
            for p in &run.outcome.ports {
                csv.write_record(&[
                    scheme.name.clone(),
                    run.seed.to_string(),
                    p.name.clone(),
                    fabric.link_name(p.link),
                    p.tx_packets.to_string(),
                    p.tx_bytes.to_string(),
                    p.dropped_packets.to_string(),
                    p.dropped_bytes.to_string(),
                    p.marked_packets.to_string(),
                    p.utilisation.to_string(),
                    p.queue_mean_bytes.to_string(),
                    p.queue_max_bytes.to_string(),
                ])?;
            }
        }
    }
    finish(csv)
}

fn metrics_csv(results: &Results) -> Result<Vec<u8>, WriteError> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(["scheme", "seed", "metric", "unit", "value", "samples_needed", "samples"])?;
    metric_rows(results, &mut |row| csv.write_record(row))?;
    finish(csv)
}

/// The rows of all metrics: of each run, then of all runs of a scheme together.
pub(super) fn metric_rows(
    results: &Results,
    write: &mut dyn FnMut([&str; 7]) -> Result<(), csv::Error>,
) -> Result<(), csv::Error> {
    for scheme in &results.schemes {
        let each = scheme.runs.iter().zip(&scheme.each).map(|(run, summary)| (run.seed.to_string(), summary));
        for (seed, summary) in each.chain([("all".to_owned(), &scheme.pooled)]) {
            for m in &summary.metrics {
                let value = m.value.to_string();
                write([&scheme.name, &seed, &m.name, m.unit, &value, "", ""])?;
            }
            for r in &summary.refused {
                let (needed, samples) = (r.needed.to_string(), r.samples.to_string());
                write([&scheme.name, &seed, &r.name, "", "", &needed, &samples])?;
            }
        }
    }
    Ok(())
}

/// An infinite value becomes null: the percentile falls among flows that did not finish.
fn flat(summary: &Summary) -> Value {
    let metrics = summary.metrics.iter().map(|m| (m.name.clone(), json!(m.value)));
    Value::Object(metrics.collect())
}

/// All metrics of all schemes as one JSON object: what `sim run --json` prints.
pub fn metrics(results: &Results) -> Value {
    let mut schemes = Map::new();
    for scheme in &results.schemes {
        let across: Map<String, Value> = scheme
            .across
            .iter()
            .map(|a| {
                let e = &a.estimate;
                let value = json!({
                    "mean": e.mean, "ci95_half_width": e.half_width, "min": e.min, "max": e.max, "runs": e.runs,
                });
                (a.name.clone(), value)
            })
            .collect();
        let refused: Map<String, Value> = scheme
            .pooled
            .refused
            .iter()
            .map(|r| (r.name.clone(), json!({"samples": r.samples, "needed": r.needed})))
            .collect();
        let units: Map<String, Value> = scheme.pooled.metrics.iter().map(|m| (m.name.clone(), json!(m.unit))).collect();
        let seeds: Vec<Value> = scheme
            .runs
            .iter()
            .zip(&scheme.each)
            .map(|(run, summary)| {
                json!({
                    "seed": run.seed,
                    "metrics": flat(summary),
                    "packet_hops": run.outcome.packet_hops,
                    "events": run.outcome.events,
                })
            })
            .collect();
        let unfinished = scheme.unfinished();
        schemes.insert(
            scheme.name.clone(),
            json!({
                "metrics": flat(&scheme.pooled), "units": units, "across_seeds": across, "refused": refused,
                "unfinished_flows": unfinished, "seeds": seeds,
            }),
        );
    }
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "title": results.plan.scenario.title,
        "seeds": results.plan.scenario.seeds.0,
        "order": results.plan.scenario.schemes,
        "schemes": schemes,
    })
}

/// Where `report.html` goes; the caller adds checks to the data first.
///
/// # Errors
/// As the file system gives them.
pub fn write_report(staging: &Staging, data: &crate::report::ReportData) -> Result<(), WriteError> {
    staging.write("report.html", crate::report::render(data))?;
    Ok(())
}

/// The name of a file as results mention it: without directories, so that results do not depend on where they were made.
pub fn shown(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}
