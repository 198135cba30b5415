//! What a job leaves, as data frames; docs/results-files.md describes every column.

use super::jobs::{Job, Jobs};
use super::store::{Store, METRICS, SUMMARY};
use super::summary::{again, Summaries};
use crate::axes::{AxisValue, Point};
use crate::scenario::Plan;
use crate::Failure;
use config::ConfigError;
use frame::{Column, Frame, Kind, Values, Writer, MOST_BYTES};
use host::measure::Summary;
use host::outcome::Outcome;
use std::path::Path;
use units::Time;

/// Names of the columns that every table of metrics has. No axis can be called so.
pub(crate) const COLUMNS: [&str; 14] = [
    "job",
    "point",
    "scheme",
    "seed",
    "metric",
    "unit",
    "value",
    "samples_needed",
    "samples",
    "mean",
    "ci95_half_width",
    "min",
    "max",
    "runs",
];

/// Rows of one part of the table of all jobs, at least.
const PART: usize = 100_000;

/// What a file of a job says of itself: the version, the job, and the configuration in effect, which is a scenario.
fn facts(plan: &Plan, hash: &str) -> Vec<(String, String)> {
    let fact = |name: &str, text: &str| (format!("selvedge.{name}"), text.to_owned());
    vec![fact("version", env!("CARGO_PKG_VERSION")), fact("job", hash), fact("configuration", &plan.effective())]
}

/// One row a metric, and one a percentile that was refused.
pub(crate) fn metrics(plan: &Plan, job: &Job, summary: &Summary) -> Frame {
    let (kept, refused) = (&summary.metrics, &summary.refused);
    let rows = kept.len() + refused.len();
    let texts = |of: Vec<&str>| of.into_iter().map(|text| Some(text.to_owned())).collect::<Vec<_>>();
    let names = kept.iter().map(|m| m.name.as_str()).chain(refused.iter().map(|r| r.name.as_str()));
    let units = kept.iter().map(|m| Some(m.unit.to_owned())).chain(refused.iter().map(|_| None));
    let values = kept.iter().map(|m| Some(m.value)).chain(refused.iter().map(|_| None));
    let counts = |of: fn(&host::measure::Refusal) -> u64| -> Vec<Option<i64>> {
        kept.iter().map(|_| None).chain(refused.iter().map(|r| i64::try_from(of(r)).ok())).collect()
    };
    let columns = vec![
        Column::text("scheme", texts(vec![&job.scheme; rows])),
        Column::whole("seed", vec![i64::try_from(job.seed).ok(); rows]),
        Column::text("metric", texts(names.collect())),
        Column::text("unit", units.collect()),
        Column::number("value", values.collect()),
        Column::whole("samples_needed", counts(|r| r.needed)),
        Column::whole("samples", counts(|r| r.samples)),
    ];
    Frame { columns, facts: facts(plan, &job.hash) }
}

/// One row a flow: what `flows.csv` has.
pub(crate) fn flows(plan: &Plan, job: &Job, outcome: &Outcome) -> Frame {
    let flows = &outcome.flows;
    let whole = |of: &dyn Fn(&host::outcome::FlowRecord) -> Option<u64>| -> Vec<Option<i64>> {
        flows.iter().map(|flow| of(flow).and_then(|n| i64::try_from(n).ok())).collect()
    };
    let us = |of: &dyn Fn(&host::outcome::FlowRecord) -> Option<Time>| -> Vec<Option<f64>> {
        flows.iter().map(|flow| of(flow).map(|time| time.as_us_f64())).collect()
    };
    let fct = |f: &host::outcome::FlowRecord| f.finish.map(|finish| finish.saturating_sub(f.start));
    let ideal = |f: &host::outcome::FlowRecord| f.ideal.filter(|&i| i > Time::ZERO && i < Time::MAX);
    let slowdown = |f: &host::outcome::FlowRecord| {
        fct(f).zip(ideal(f)).map(|(fct, ideal)| fct.as_ps() as f64 / ideal.as_ps() as f64)
    };
    let workload = |class: u16| plan.scenario.workload.get(usize::from(class)).map(|w| w.name.clone());
    let columns = vec![
        Column::text("scheme", vec![Some(job.scheme.clone()); flows.len()]),
        Column::whole("seed", vec![i64::try_from(job.seed).ok(); flows.len()]),
        Column::whole("flow", whole(&|f| Some(f.id.into()))),
        Column::text("workload", flows.iter().map(|f| workload(f.class)).collect()),
        Column::whole("src", whole(&|f| Some(f.src.into()))),
        Column::whole("dst", whole(&|f| Some(f.dst.into()))),
        Column::whole("size_bytes", whole(&|f| f.size)),
        Column::number("start_us", us(&|f| Some(f.start))),
        Column::number("finish_us", us(&|f| f.finish)),
        Column::number("fct_us", us(&fct)),
        Column::number("ideal_fct_us", us(&ideal)),
        Column::number("slowdown", flows.iter().map(slowdown).collect()),
        Column::whole("finished", whole(&|f| Some(f.finish.is_some().into()))),
        Column::whole("delivered_bytes", whole(&|f| Some(f.delivered))),
        Column::whole("delivered_after_warmup_bytes", whole(&|f| Some(f.delivered_measured))),
        Column::whole("retransmitted_segments", whole(&|f| Some(f.retransmitted_segments.into()))),
        Column::whole("fast_retransmits", whole(&|f| Some(f.fast_retransmits.into()))),
        Column::whole("timeouts", whole(&|f| Some(f.timeouts.into()))),
        Column::whole("out_of_order_segments", whole(&|f| Some(f.out_of_order.into()))),
        Column::whole("received_segments", whole(&|f| Some(f.segments_received.into()))),
        Column::whole("paths_used", whole(&|f| Some(f.paths_used.into()))),
    ];
    Frame { columns, facts: facts(plan, &job.hash) }
}

/// Writes the metrics of all jobs that are done into one file, with their points, and what they are over the seeds into another.
///
/// # Errors
/// A job's file that is damaged; as the file system gives them.
pub(crate) fn gather(store: &Store, jobs: &Jobs) -> Result<(), Failure> {
    let axes: Vec<(&str, Kind)> =
        jobs.axes.iter().enumerate().map(|(n, name)| (name.as_str(), kind(jobs, n))).collect();
    let text = |name| (name, Kind::Text);
    let mut columns = vec![text("job"), text("point")];
    columns.extend(&axes);
    columns.extend([text("scheme"), ("seed", Kind::Whole), text("metric"), text("unit"), ("value", Kind::Number)]);
    columns.extend([("samples_needed", Kind::Whole), ("samples", Kind::Whole)]);
    let facts = [
        ("selvedge.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("selvedge.axes".to_owned(), serde_json::json!(jobs.axes).to_string()),
    ];
    let mut writer = Writer::new(Vec::new(), &columns, &facts).map_err(Failure::Form)?;
    let mut summary = Summaries::new(&axes);
    let empty = || -> Vec<Column> {
        columns.iter().map(|(name, kind)| Column { name: (*name).to_owned(), values: Values::new(*kind) }).collect()
    };
    let mut part = empty();
    for job in jobs.all.iter().filter(|job| store.done(&job.hash)) {
        let path = store.path(&Store::file(&job.hash));
        let frame = read(&path)?;
        let lacking = || damaged(&path, "it lacks a column");
        append(&mut part, &frame, &jobs.points[job.point], &job.hash).ok_or_else(lacking)?;
        summary.add(&jobs.points[job.point], job, &frame).ok_or_else(lacking)?;
        if part[0].values.len() >= PART {
            writer.add(&part).map_err(Failure::Form)?;
            part = empty();
        }
    }
    writer.add(&part).map_err(Failure::Form)?;
    store.write(METRICS, &writer.finish().map_err(Failure::Form)?)?;
    let summary = Frame { columns: summary.finish(), facts: facts.to_vec() };
    Ok(store.write(SUMMARY, &frame::parquet(&summary).map_err(Failure::Form)?)?)
}

fn read(path: &Path) -> Result<Frame, ConfigError> {
    let bytes = files::read_regular(path, MOST_BYTES).map_err(|e| damaged(path, &format!("cannot be read: {e}")))?;
    frame::read(bytes).map_err(|e| damaged(path, &e.to_string()))
}

fn damaged(path: &Path, problem: &str) -> ConfigError {
    ConfigError::new(path.display().to_string(), problem, "remove it and run the sweep again: only this job is run")
}

/// What all values of an axis are.
fn kind(jobs: &Jobs, axis: usize) -> Kind {
    let values = || jobs.points.iter().filter_map(|point| point.values.get(axis));
    if values().all(|value| matches!(value, AxisValue::Whole(_))) {
        Kind::Whole
    } else if values().all(|value| !matches!(value, AxisValue::Text(_))) {
        Kind::Number
    } else {
        Kind::Text
    }
}

/// Adds the rows of a job to a part of the table: its own columns, and before them where the job belongs.
fn append(part: &mut [Column], frame: &Frame, point: &Point, hash: &str) -> Option<()> {
    let rows = frame.rows();
    let (own, rest) = part.split_at_mut(2 + point.values.len());
    again(&mut own[0].values, &AxisValue::Text(hash.to_owned()), rows);
    again(&mut own[1].values, &AxisValue::Text(point.label.clone()), rows);
    own[2..].iter_mut().zip(&point.values).for_each(|(column, value)| again(&mut column.values, value, rows));
    for column in rest {
        match (&mut column.values, frame.column(&column.name)?) {
            (Values::Whole(to), Values::Whole(from)) => to.extend(from),
            (Values::Number(to), Values::Number(from)) => to.extend(from),
            (Values::Text(to), Values::Text(from)) => to.extend(from.iter().cloned()),
            _ => return None,
        }
    }
    Some(())
}
