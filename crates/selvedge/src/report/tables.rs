//! The numbers under each chart, for readers without the chart.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{
    Cdf, Cell, Direction, Link, LinkEvent, LinkUtilisation, ReportData, SchemeReport, Series, UnfinishedFlow,
};
use super::html::{self, data_table, number, optional, MISSING};
use super::summary::interval;

/// Rows under a chart are for reading; past this many, the results files serve better.
const MAX_ROWS: usize = 500;

fn head<const N: usize>(titles: [&str; N]) -> Vec<String> {
    titles.map(str::to_owned).to_vec()
}

/// A table whose rows are named things and whose columns are schemes. `values` gives a scheme's things, in order.
fn by_scheme(
    out: &mut String,
    data: &ReportData,
    caption: &str,
    what: &str,
    values: impl Fn(&SchemeReport) -> Vec<(String, String)>,
) {
    let columns: Vec<Vec<(String, String)>> = data.schemes.iter().map(values).collect();
    let mut names: Vec<&String> = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, _) in columns.iter().flatten() {
        if seen.insert(name) {
            names.push(name);
        }
    }
    let lookup: Vec<BTreeMap<&String, &String>> =
        columns.iter().map(|c| c.iter().map(|(n, v)| (n, v)).collect()).collect();
    let rows: Vec<Vec<String>> = names
        .iter()
        .take(MAX_ROWS)
        .map(|name| {
            let cells = lookup.iter().map(|c| c.get(name).map_or_else(|| MISSING.to_owned(), |v| (*v).clone()));
            std::iter::once((*name).clone()).chain(cells).collect()
        })
        .collect();
    let titles: Vec<String> =
        std::iter::once(what.to_owned()).chain(data.schemes.iter().map(|s| s.name.clone())).collect();
    let caption = match names.len() {
        n if n > MAX_ROWS => format!("{caption}, first {MAX_ROWS} of {n}"),
        _ => caption.to_owned(),
    };
    data_table(out, &caption, &titles, &rows);
}

/// One row a point and scheme, one column a metric.
pub(super) fn sweep(out: &mut String, data: &ReportData) {
    let Some(sweep) = &data.sweep else { return };
    let mut head = vec![sweep.axis.clone(), "Scheme".to_owned()];
    head.extend(sweep.metrics.iter().map(|metric| match metric.column.unit.as_str() {
        "" => metric.column.title.clone(),
        unit => format!("{} ({unit})", metric.column.title),
    }));
    let mut rows = Vec::new();
    for (at, point) in sweep.points.iter().enumerate() {
        for scheme in &data.schemes {
            let mut row = vec![point.clone(), scheme.name.clone()];
            row.extend(sweep.metrics.iter().map(|metric| {
                let line = metric.lines.iter().find(|line| line.scheme == scheme.name);
                shown(line.and_then(|line| line.values.get(at)))
            }));
            rows.push(row);
        }
    }
    data_table(out, "The numbers, with 95% intervals over seeds", &head, &rows);
}

fn shown(cell: Option<&Cell>) -> String {
    let Some(value) = cell.and_then(|cell| cell.value).filter(|value| value.is_finite()) else {
        return MISSING.to_owned();
    };
    match cell.and_then(|cell| cell.ci).filter(|ci| ci.is_finite()) {
        Some(ci) => format!("{} \u{b1}{}", number(value), interval(ci, value)),
        None => number(value),
    }
}

/// Changes of links, then unfinished flows by scheme and cause.
pub(super) fn timeline(out: &mut String, data: &ReportData) {
    let links = data.timeline.iter().flat_map(|timeline| &timeline.links);
    let changes =
        |e: &LinkEvent| vec![number(e.at_ms), format!("{} {}", e.link, if e.up { "recovers" } else { "fails" })];
    let many = data.timeline.as_ref().is_some_and(|timeline| !timeline.points.is_empty());
    let at = |point: &str, row: Vec<String>| many.then(|| point.to_owned()).into_iter().chain(row).collect::<Vec<_>>();
    let titles = |rest: &[&str]| at("Point", rest.iter().map(|title| (*title).to_owned()).collect());
    let rows: Vec<Vec<String>> = links.map(|event| at(&event.point, changes(event))).collect();
    data_table(out, "Changes of links", &titles(&["Time (ms)", "Change"]), &rows);
    let flow = |s: &SchemeReport, f: &UnfinishedFlow| {
        at(
            &f.point,
            vec![s.name.clone(), f.flow.clone(), number(f.from_ms), number(f.delivered * 100.0), f.cause.clone()],
        )
    };
    let rows: Vec<Vec<String>> =
        data.schemes.iter().flat_map(|s| s.unfinished_flows.iter().map(|f| flow(s, f))).take(MAX_ROWS).collect();
    let titles = titles(&["Scheme", "Flow", "Started (ms)", "Delivered (%)", "Such flows ..."]);
    data_table(out, "Flows that had not finished, the first of each seed", &titles, &rows);
}

pub(super) fn throughput(out: &mut String, data: &ReportData) {
    by_scheme(out, data, "The numbers, in Gbps", "Flow", |s| {
        s.throughput.iter().map(|t| (t.name.clone(), number(t.gbps))).collect()
    });
}

pub(super) fn goodput(out: &mut String, data: &ReportData) {
    let rows: Vec<Vec<String>> =
        data.schemes.iter().filter_map(|s| Some((s, s.goodput.as_ref()?))).map(|(s, g)| spread(&s.name, g)).collect();
    data_table(out, "The numbers, in Gbps", &head(["Scheme", "mean", "least", "most"]), &rows);
}

fn distribution(name: String, class: Option<&str>, cdf: &Cdf) -> Vec<String> {
    let counts = [cdf.count, cdf.censored].map(html::count);
    let percentiles = [cdf.p50, cdf.p99, cdf.p999].map(optional);
    let mut row = vec![name];
    row.extend(class.map(str::to_owned));
    row.extend(counts);
    row.extend(percentiles);
    row
}

pub(super) fn fct(out: &mut String, data: &ReportData) {
    let rows: Vec<Vec<String>> = data
        .schemes
        .iter()
        .flat_map(|s| s.fct.iter().map(|f| distribution(s.name.clone(), Some(&f.class), &f.cdf)))
        .collect();
    let unit = data.schemes.iter().flat_map(|s| &s.fct).map(|f| f.cdf.unit.as_str()).next().unwrap_or_default();
    let titles = head(["Scheme", "class", "flows finished", "unfinished", "median", "p99", "p99.9"]);
    data_table(out, &format!("The numbers, in {unit}"), &titles, &rows);
}

pub(super) fn rtt(out: &mut String, data: &ReportData) {
    let rows: Vec<Vec<String>> =
        data.schemes.iter().filter_map(|s| Some(distribution(s.name.clone(), None, s.rtt.as_ref()?))).collect();
    let unit = data.schemes.iter().filter_map(|s| s.rtt.as_ref()).map(|c| c.unit.as_str()).next().unwrap_or_default();
    let titles = head(["Scheme", "samples", "lost", "median", "p99", "p99.9"]);
    data_table(out, &format!("The numbers, in {unit}"), &titles, &rows);
}

pub(super) fn requests(out: &mut String, data: &ReportData) {
    let lines = data.real.iter().flat_map(|real| &real.lines);
    let rows: Vec<Vec<String>> = lines.map(|line| distribution(line.name.clone(), None, &line.beside)).collect();
    let titles = head(["Limiter", "answered", "not answered", "median", "p99", "p99.9"]);
    data_table(out, "The numbers of those that count, in ms", &titles, &rows);
}

pub(super) fn downloads(out: &mut String, data: &ReportData) {
    let lines = data.real.iter().flat_map(|real| &real.lines);
    let rows: Vec<Vec<String>> = lines.map(|line| spread(&line.name, &line.downloads)).collect();
    data_table(out, "The numbers, warm-up included, in Mb/s", &head(["Limiter", "mean", "least", "most"]), &rows);
}

/// Mean, least and most of a series.
fn spread(name: &str, series: &Series) -> Vec<String> {
    let values = &series.values;
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = values.iter().copied().min_by(f64::total_cmp);
    let most = values.iter().copied().max_by(f64::total_cmp);
    vec![name.to_owned(), number(mean), optional(least), optional(most)]
}

pub(super) fn slowdown(out: &mut String, data: &ReportData) {
    let rows: Vec<Vec<String>> = data
        .schemes
        .iter()
        .flat_map(|s| {
            s.slowdown.iter().map(|b| {
                vec![s.name.clone(), b.size_label.clone(), html::count(b.count), optional(b.p50), optional(b.p99)]
            })
        })
        .collect();
    data_table(out, "The numbers", &head(["Scheme", "flow size", "flows", "median", "p99"]), &rows);
}

pub(super) fn links(out: &mut String, data: &ReportData) {
    let links: BTreeMap<&str, &Link> = data.topology.links.iter().map(|l| (l.name.as_str(), l)).collect();
    let name = |u: &LinkUtilisation| match (links.get(u.link.as_str()), u.dir) {
        (Some(l), Direction::AToB) => format!("{} ({} → {})", u.link, l.a, l.b),
        (Some(l), Direction::BToA) => format!("{} ({} → {})", u.link, l.b, l.a),
        (None, Direction::AToB) => format!("{} →", u.link),
        (None, Direction::BToA) => format!("{} ←", u.link),
    };
    by_scheme(out, data, "The numbers, mean in %", "Link", |s| {
        s.link_utilisation.iter().map(|u| (name(u), number(u.mean * 100.0))).collect()
    });
}

pub(super) fn queue(out: &mut String, data: &ReportData) {
    by_scheme(out, data, "The numbers, mean and largest in KB", "Port", |s| {
        s.queue.iter().map(|q| (q.port.clone(), format!("{} / {}", number(q.mean_kb), number(q.max_kb)))).collect()
    });
}
