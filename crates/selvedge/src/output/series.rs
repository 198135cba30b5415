//! `series.csv`: what was sampled while the runs went on; docs/results-files.md describes every column.

use super::cells::{us, WriteError};
use super::{Staging, StagingError};
use crate::results::Results;
use host::outcome::{Outcome, PortRecord};
use std::io;
use units::Time;

/// More rows, about 250 MB, are left out.
const MOST_ROWS: usize = 5_000_000;

/// The number of rows that the series of these results would have, if that is too many for a file.
pub fn too_many_series(results: &Results) -> Option<usize> {
    Some(rows_of_all(results)).filter(|rows| *rows > MOST_ROWS)
}

fn rows_of_all(results: &Results) -> usize {
    results.schemes.iter().flat_map(|scheme| &scheme.runs).map(|run| rows(&run.outcome)).sum()
}

fn rows(outcome: &Outcome) -> usize {
    let ports = outcome.ports.iter().map(|p| p.queue_series.len() + p.utilisation_series.len()).sum::<usize>();
    let goodput = outcome.goodput_series.iter().map(|(_, series)| series.len()).sum::<usize>();
    let windows = outcome.window_series.iter().map(|(_, series)| 2 * series.len()).sum::<usize>();
    ports + goodput + windows
}

/// Writes the file, unless nothing was sampled or the rows are too many.
///
/// # Errors
/// As the file system gives them.
pub(super) fn write(results: &Results, staging: &Staging, name: &str) -> Result<(), WriteError> {
    if !(1..=MOST_ROWS).contains(&rows_of_all(results)) {
        return Ok(());
    }
    let mut csv = csv::Writer::from_writer(staging.create(name)?);
    let written = fill(results, &mut csv).map_err(as_io).and_then(|()| csv.flush());
    Ok(written.map_err(|source| StagingError::Io { path: staging.shown(name), source })?)
}

/// With its kind, from which a remedy follows and which csv's own conversion hides.
fn as_io(error: csv::Error) -> io::Error {
    match error.is_io_error() {
        true => match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        },
        false => io::Error::other(error),
    }
}

fn fill<W: io::Write>(results: &Results, csv: &mut csv::Writer<W>) -> Result<(), csv::Error> {
    csv.write_record(["scheme", "seed", "metric", "name", "time_us", "value"])?;
    let warmup = results.plan.scenario.warmup;
    for (scheme, plan) in results.schemes.iter().zip(&results.plan.schemes) {
        let fabric = &plan.template().topology;
        // Parallel links have ports of one name.
        let of_port = |port: &PortRecord| match fabric.link_name(port.link).split_once('#') {
            Some((_, copy)) => format!("{}#{copy}", port.name),
            None => port.name.clone(),
        };
        for run in &scheme.runs {
            let outcome = &run.outcome;
            let (seed, every) = (run.seed.to_string(), outcome.sample_every);
            let instants = outcome.ports.iter().map(|port| port.queue_series.len()).max().unwrap_or(0);
            // Series of flows all last until the end, and begin with their flow.
            let mut series = |metric: &str, name: &str, values: &mut dyn ExactSizeIterator<Item = Option<String>>| {
                let before = instants.saturating_sub(values.len());
                for (n, value) in values.enumerate() {
                    let Some(value) = value else { continue };
                    let since = Time::from_ps(every.as_ps().saturating_mul((before + n + 1) as u64));
                    csv.write_record([&scheme.name, &seed, metric, name, &us(warmup.saturating_add(since)), &value])?;
                }
                Ok::<(), csv::Error>(())
            };
            for port in &outcome.ports {
                let name = of_port(port);
                series("queue_bytes", &name, &mut port.queue_series.iter().map(|v| Some(v.to_string())))?;
                series("utilisation", &name, &mut port.utilisation_series.iter().map(|v| Some(v.to_string())))?;
            }
            let gbps = |bytes: &u64| *bytes as f64 * 8.0 / every.as_secs_f64() / 1e9;
            for (flow, values) in &outcome.goodput_series {
                series("goodput_gbps", &flow.to_string(), &mut values.iter().map(|v| Some(gbps(v).to_string())))?;
            }
            for (flow, values) in &outcome.window_series {
                let flow = flow.to_string();
                let bounded = |(window, _): &(u32, u32)| (*window != u32::MAX).then(|| window.to_string());
                series("edge_window_bytes", &flow, &mut values.iter().map(bounded))?;
                series("cwnd_bytes", &flow, &mut values.iter().map(|(_, cwnd)| Some(cwnd.to_string())))?;
            }
        }
    }
    Ok(())
}
