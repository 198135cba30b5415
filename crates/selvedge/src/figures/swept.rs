//! The report of a sweep: metrics over its axis.

use super::merge;
use crate::report::{Cell, ReportData, Sweep, SweepLine, SweepMetric, Table, TopologyDrawing};

/// A point of the axis.
pub struct Part {
    pub label: String,
    /// Where it stands on the axis, if that is one of numbers.
    pub number: Option<f64>,
    /// The report of this point alone.
    pub data: ReportData,
}

/// One report of all points: each metric over the axis, completion times to choose from. What belongs to one fabric, such as its links,
/// is left out, because each point may have another.
pub fn swept(axis: &str, parts: Vec<Part>) -> ReportData {
    let sweep = sweep(axis, &parts);
    let labelled = parts.iter().map(|part| (part.label.as_str(), part.data.clone())).collect();
    let mut merged = merge(labelled);
    merged.facts = vec![["axis".to_owned(), axis.to_owned()], ["points".to_owned(), sweep.points.join(", ")]];
    merged.sweep = Some(sweep);
    // The numbers below the chart have no value where samples are too few: a warning for each point would hide the others.
    merged.warnings.retain(|warning| !warning.contains(" is not shown: "));
    merged.table = Table::default();
    merged.topology = TopologyDrawing::default();
    for scheme in &mut merged.schemes {
        scheme.throughput.clear();
        scheme.throughput_mean_gbps = None;
        scheme.slowdown.clear(); // over the axis, as a metric
        scheme.link_utilisation.clear();
        scheme.queue.clear();
        scheme.goodput = None;
        scheme.rtt = None;
    }
    merged
}

fn sweep(axis: &str, parts: &[Part]) -> Sweep {
    let mut metrics: Vec<SweepMetric> = Vec::new();
    for column in parts.iter().flat_map(|part| &part.data.table.columns) {
        if metrics.iter().any(|metric| metric.column.key == column.key) {
            continue;
        }
        let mut lines: Vec<SweepLine> = Vec::new();
        for row in parts.iter().flat_map(|part| &part.data.table.rows) {
            if !lines.iter().any(|line| line.scheme == row.scheme) {
                let values = parts.iter().map(|part| cell(&part.data.table, &row.scheme, &column.key)).collect();
                lines.push(SweepLine { scheme: row.scheme.clone(), values });
            }
        }
        let known = |cell: &Cell| cell.value.is_some_and(f64::is_finite);
        if lines.iter().flat_map(|line| &line.values).any(known) {
            metrics.push(SweepMetric { column: column.clone(), lines });
        }
    }
    Sweep {
        axis: axis.to_owned(),
        points: parts.iter().map(|part| part.label.clone()).collect(),
        numbers: parts.iter().map(|part| part.number).collect(),
        metrics,
    }
}

/// Missing where the point has no such metric or scheme.
fn cell(table: &Table, scheme: &str, key: &str) -> Cell {
    let at = table.columns.iter().position(|column| column.key == key);
    let row = table.rows.iter().find(|row| row.scheme == scheme);
    row.zip(at).and_then(|(row, at)| row.cells.get(at)).cloned().unwrap_or_default()
}
