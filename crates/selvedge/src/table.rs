//! The comparison of schemes: the same columns on standard output and in the report.

use crate::report::{Better, Cell, Column, Row, Table};
use crate::results::{Results, SchemeResults};
use crate::scenario::Scenario;
use host::measure::{jackknife, Summary};

const WORST: &str = "throughput_gbps.min";

/// Suffixes of a workload's metrics worth a place in a summary, with title, unit and direction.
const OF_WORKLOAD: [(&str, &str, &str, Better); 10] = [
    ("throughput_gbps.mean", "throughput, mean", "Gbps", Better::Higher),
    (WORST, "throughput, worst flow", "Gbps", Better::Higher),
    ("jain", "fairness (Jain)", "", Better::Higher),
    ("fct_ms.p50", "FCT p50", "ms", Better::Lower),
    ("fct_ms.p99", "FCT p99", "ms", Better::Lower),
    ("fct_ms.p999", "FCT p99.9", "ms", Better::Lower),
    ("slowdown.p50", "slowdown p50", "", Better::Lower),
    ("slowdown.p99", "slowdown p99", "", Better::Lower),
    ("unfinished", "unfinished flows per run", "", Better::Lower),
    ("flows", "flows per run", "", Better::Neither),
];

const OF_ALL: [(&str, &str, &str, Better); 9] = [
    ("probe.rtt_us.p50", "probe RTT p50", "us", Better::Lower),
    ("probe.rtt_us.p99", "probe RTT p99", "us", Better::Lower),
    ("segment_bytes.p50", "segment at TCP, p50", "B", Better::Higher),
    ("flowcell.disorder_zero_share", "flowcells in order", "", Better::Higher),
    ("reordering.segments_per_million", "segments out of order", "ppm", Better::Lower),
    ("all.retransmits", "retransmits per run", "", Better::Lower),
    ("all.timeouts", "timeouts per run", "", Better::Lower),
    ("loss.packets_per_million", "loss", "ppm", Better::Lower),
    ("queue.mean_kb.max", "busiest queue, mean", "KB", Better::Lower),
];

/// One row a scheme. A metric that no scheme has is left out; one that was refused for want of samples says so.
pub fn comparison(results: &Results) -> Table {
    let mut wanted: Vec<(String, Column)> = Vec::new();
    let many = results.plan.scenario.workload.len() > 1;
    for workload in &results.plan.scenario.workload {
        // Of flows that come and go by the clock, the worst says when it came, not how it was treated.
        let open_loop = workload.pattern.is_open_loop();
        let of_workload = OF_WORKLOAD.into_iter().filter(|(suffix, ..)| !(open_loop && *suffix == WORST));
        for (suffix, title, unit, better) in of_workload {
            let key = format!("{}.{suffix}", workload.name);
            let title = if many { format!("{}: {title}", workload.name) } else { title.to_owned() };
            wanted.push((key.clone(), Column { key, title, unit: unit.to_owned(), better }));
        }
    }
    for (key, title, unit, better) in OF_ALL {
        let column = Column { key: key.to_owned(), title: title.to_owned(), unit: unit.to_owned(), better };
        wanted.push((key.to_owned(), column));
    }
    wanted.retain(|(key, _)| results.schemes.iter().any(|s| known(s, key)));
    let rows = results.schemes.iter().map(|scheme| {
        let without = without_each(scheme, &results.plan.scenario);
        let cells = wanted.iter().map(|(key, _)| cell(scheme, &without, key)).collect();
        Row { scheme: scheme.name.clone(), cells }
    });
    let rows = rows.collect();
    Table { columns: wanted.into_iter().map(|(_, column)| column).collect(), rows }
}

fn known(scheme: &SchemeResults, key: &str) -> bool {
    scheme.pooled.get(key).is_some() || scheme.pooled.refused.iter().any(|r| r.name == key)
}

/// What all runs but one measured, in turn; nothing of a single run.
fn without_each<'a>(scheme: &'a SchemeResults, scenario: &Scenario) -> Vec<&'a Summary> {
    let runs = if scheme.runs.len() > 1 { scheme.runs.len() } else { 0 };
    (0..runs).filter_map(|place| scheme.without(place, scenario)).collect()
}

/// An interval that is nothing but rounding: all seeds agree.
fn no_noise(value: f64, ci: f64) -> f64 {
    if ci <= value.abs() * 1e-9 {
        0.0
    } else {
        ci
    }
}

/// The value of all seeds' samples together with its interval. Of extremes, the mean of what each seed had: the largest of many
/// runs only grows with their number.
fn cell(scheme: &SchemeResults, without: &[&Summary], key: &str) -> Cell {
    let extreme = key.ends_with(".min") || key.ends_with(".max");
    let across = scheme.across.iter().find(|a| a.name == key && a.estimate.runs == scheme.runs.len());
    if let Some(across) = across.filter(|a| extreme && a.estimate.mean.is_finite()) {
        let (mean, ci) = (across.estimate.mean, across.estimate.half_width);
        return Cell { value: Some(mean), ci: ci.map(|ci| no_noise(mean, ci)), note: None };
    }
    match scheme.measured(key) {
        Ok(measured) if measured.value.is_finite() => {
            let left: Option<Vec<f64>> = without.iter().map(|summary| summary.get(key)).collect();
            let ci = left.and_then(|left| jackknife(measured.value, &left)).map(|ci| no_noise(measured.value, ci));
            let ci = ci.or((!without.is_empty()).then_some(f64::INFINITY));
            Cell { value: Some(measured.value), ci, note: None }
        }
        Ok(_) => Cell { value: None, ci: None, note: Some("falls among unfinished flows".to_owned()) },
        Err(_) => {
            let refused = scheme.pooled.refused.iter().find(|r| r.name == key);
            let note = refused.map(|r| format!("{} of {} samples", r.samples, r.needed));
            Cell { value: None, ci: None, note }
        }
    }
}

/// For a terminal: one column a scheme, each with its difference from the first unless that may be chance.
pub fn text(table: &Table) -> String {
    let mut grid: Vec<Vec<String>> = Vec::new();
    let mut heading = vec![String::new()];
    heading.extend(table.rows.iter().map(|row| row.scheme.clone()));
    grid.push(heading);
    for (n, column) in table.columns.iter().enumerate() {
        let unit = if column.unit.is_empty() { String::new() } else { format!(" ({})", column.unit) };
        let mut line = vec![format!("{}{unit}", column.title)];
        let base = table.rows.first().and_then(|row| row.cells.get(n));
        for (at, row) in table.rows.iter().enumerate() {
            let cell = row.cells.get(n).cloned().unwrap_or_default();
            line.push(show(&cell, if at == 0 { None } else { base }, column.better));
        }
        grid.push(line);
    }
    aligned(&grid)
}

/// Lines of cells in columns: the first to the left, the others to the right.
pub(crate) fn aligned(grid: &[Vec<String>]) -> String {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| grid.iter().filter_map(|line| line.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in grid {
        let Some(first) = line.first() else { continue };
        let mut shown = format!("{first:<0$}", widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            shown += &format!("  {cell:>width$}");
        }
        out += shown.trim_end();
        out.push('\n');
    }
    out
}

fn show(cell: &Cell, base: Option<&Cell>, better: Better) -> String {
    let Some(value) = cell.value else {
        return match &cell.note {
            Some(note) if note.contains("samples") => "too few".to_owned(),
            Some(_) => "unfinished".to_owned(),
            None => "-".to_owned(),
        };
    };
    let mut text = number(value);
    if let Some(ci) = cell.ci.filter(|ci| ci.is_finite()) {
        text += &format!(" \u{b1}{}", number(ci));
    }
    let told = base.filter(|base| better != Better::Neither && cell.differs(base)).and_then(|base| base.value);
    if let Some(base) = told.filter(|base| *base != 0.0) {
        let change = (value - base) / base * 100.0;
        if change < -99.0 && value > 0.0 {
            text += &format!(" ({:.1}%)", change.max(-99.9)); // nearly everything gone is not everything
        } else if change.abs() < 1000.0 {
            text += &format!(" ({change:+.0}%)");
        } else {
            text += &format!(" (x{:.0})", value / base);
        }
    }
    text
}

/// Three significant digits or so.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if value == 0.0 => "0".to_owned(),
        a if a >= 1000.0 => format!("{value:.0}"),
        a if a >= 100.0 => format!("{value:.1}"),
        a if a >= 1.0 => format!("{value:.2}"),
        a if a >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_against_the_first_scheme() {
        let column =
            Column { key: "a.fct_ms.p99".into(), title: "FCT p99".into(), unit: "ms".into(), better: Better::Lower };
        let row = |name: &str, value: Option<f64>| Row { scheme: name.into(), cells: vec![value.into()] };
        let table = Table {
            columns: vec![column],
            rows: vec![row("ecmp", Some(4.0)), row("presto", Some(1.0)), row("x", None)],
        };
        let text = text(&table);
        assert!(text.contains("4.00  1.00 (-75%)  -"), "{text}");
        assert!(text.contains("FCT p99 (ms)"));
    }

    #[test]
    fn where_all_seeds_agree_rounding_is_no_interval() {
        assert_eq!([no_noise(30.27, 4.93e-15), no_noise(0.0, 0.0), no_noise(-5.0, 1e-12)], [0.0; 3]);
        assert_eq!([no_noise(30.27, 1e-6), no_noise(0.0, 1e-20)], [1e-6, 1e-20]);
    }

    #[test]
    fn what_may_be_chance_is_no_difference() {
        let cell = |value: f64, ci: f64| Cell { value: Some(value), ci: Some(ci), note: None };
        assert_eq!(show(&cell(1.0, 0.5), Some(&cell(2.0, 0.5)), Better::Lower), "1.00 \u{b1}0.5000 (-50%)");
        assert_eq!(show(&cell(1.0, 0.9), Some(&cell(2.0, 0.5)), Better::Lower), "1.00 \u{b1}0.9000");
        assert_eq!(show(&Cell::from(0.1), Some(&Cell::from(900.0)), Better::Lower), "0.1000 (-99.9%)");
    }
}
