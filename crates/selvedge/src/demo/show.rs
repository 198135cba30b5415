//! The numbers of real traffic: on the terminal, as JSON and in the report.

use super::agent::limits;
use super::network::PORT;
use super::real::{Behind, Real, RATE};
use super::traffic::{DOWNLOADS, INTERVAL, STEP};
use crate::report::{self, Better, Cell, Column, RealLine, ReportData, Row, Series, Table};
use crate::{run, table};
use serde_json::{json, Value};

pub(super) fn what() -> String {
    format!(
        "A container with a limit of {} Mb/s has {DOWNLOADS} downloads, and beside them a request of one byte every {} ms.",
        mbps(),
        INTERVAL.as_millis()
    )
}

fn mbps() -> u64 {
    RATE.as_bps() / 1_000_000
}

/// One row a limiter.
fn numbers(real: &Real) -> Table {
    let column = |key: &str, title: &str, unit: &str, better| Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
        better,
    };
    let columns = vec![
        column("request_ms.p50", "request, p50", "ms", Better::Lower),
        column("request_ms.p99", "request, p99", "ms", Better::Lower),
        column("idle_ms.p50", "request without downloads, p50", "ms", Better::Neither),
        column("downloads_mbps", "downloads, payload", "Mb/s", Better::Neither),
    ];
    let row = |behind: &Behind| Row {
        scheme: behind.limiter.name.to_owned(),
        cells: vec![
            Cell::from(behind.beside.p50),
            Cell::from(behind.beside.p99),
            Cell::from(behind.idle.p50),
            Cell::from(behind.seen.mbps),
        ],
    };
    Table { columns, rows: real.behind.iter().map(row).collect() }
}

pub(super) fn print(real: &Real) {
    say_on!("{}", table::text(&numbers(real)));
}

/// `traffic.json`; docs/results-files.md describes it.
pub(super) fn json(real: &Real) -> Value {
    let limiter = |behind: &Behind| {
        let Behind { limiter, seen, idle, beside } = behind;
        json!({
            "limiter": limiter.key,
            "law": limiter.law.name,
            "sparse_first": limiter.law.sparse_first,
            "request_ms": { "p50": beside.p50, "p99": beside.p99, "count": beside.count, "unanswered": beside.censored },
            "idle_ms": { "p50": idle.p50, "count": idle.count },
            "downloads_mbps": seen.mbps,
            "congestion_control": seen.congestion,
            "requests": requests(behind),
            "downloads": { "step_s": STEP.as_secs_f64(), "mbps": seen.steps },
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": kernel(),
        "cpus": run::default_threads(),
        "limit_mbps": mbps(),
        "downloads": DOWNLOADS,
        "request_every_ms": INTERVAL.as_millis() as u64,
        "warmup_s": real.phases.warmup.as_secs_f64(),
        "measured_s": real.phases.measured.as_secs_f64(),
        "limiters": real.behind.iter().map(limiter).collect::<Vec<_>>(),
    })
}

/// Time of each answered request in seconds since the downloads began, and its round trip in ms.
fn requests(behind: &Behind) -> Vec<[f64; 2]> {
    behind.seen.sent.iter().zip(&behind.seen.answered).map(|(sent, took)| [*sent, *took]).collect()
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Adds the section to a report, and is all of it where nothing else was run.
pub(super) fn add(data: &mut ReportData, real: &Real, command: &str) {
    if data.title.is_empty() {
        data.title = "A rate limit without its queue".to_owned();
        data.subtitle = "Small requests need not wait behind the downloads of their container.".to_owned();
        data.version = env!("CARGO_PKG_VERSION").to_owned();
        data.command = command.to_owned();
    }
    let line = |behind: &Behind| RealLine {
        name: behind.limiter.name.to_owned(),
        note: behind.limiter.note.to_owned(),
        requests: requests(behind),
        beside: behind.beside.clone(),
        downloads: Series::new(0.0, STEP.as_secs_f64() * 1e3, &behind.seen.steps),
    };
    let congestion = real.behind.first().map(|behind| behind.seen.congestion.to_uppercase()).unwrap_or_default();
    data.real = Some(report::Real {
        title: "Real traffic on this machine".to_owned(),
        text: format!(
            "{} The container is a network namespace on a bridge, its TCP that of this machine (Linux {}, {congestion}). Counted are {} s, from \
             {} s after the downloads began.",
            what(),
            kernel(),
            real.phases.measured.as_secs(),
            real.phases.warmup.as_secs()
        ),
        warmup_s: real.phases.warmup.as_secs_f64(),
        table: numbers(real),
        lines: real.behind.iter().map(line).collect(),
    });
    if !data.effective_config.is_empty() {
        data.effective_config.push('\n');
    }
    data.effective_config += &config(real);
}

/// How the agent was told to limit.
fn config(real: &Real) -> String {
    let mut text = format!(
        "# Real traffic: the agent's [limits], then `selvedge ctl limit {PORT} --egress {RATE} --ingress {RATE}`\n"
    );
    for behind in &real.behind {
        text += &format!("\n# {}\n{}", behind.limiter.name, limits(&behind.limiter.law));
    }
    text
}
