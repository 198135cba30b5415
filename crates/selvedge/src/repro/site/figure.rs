//! The page of one experiment: what was measured for each of its results, beside what the paper prints.

use super::super::clause::{recorded, unspoken};
use super::super::file::{Check, Experiment, Published};
use super::super::printed::Printed;
use super::super::records::{status, Recorded};
use super::page::{badge, page};
use super::{curve, prose, About, Sources};
use crate::report::html::{count, escape, number as shorten, script_json, MISSING};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// One row of a chart.
#[derive(Serialize)]
struct Dot {
    label: String,
    /// None: the record does not have it.
    value: Option<f64>,
    /// Of the 95% interval over seeds; null: single runs cannot give the value.
    half_width: Option<f64>,
    paper: Option<f64>,
}

/// The numbers of a result that have one unit.
#[derive(Serialize)]
struct Chart {
    unit: String,
    dots: Vec<Dot>,
}

pub(super) fn render(experiment: &Experiment, about: &About, sources: &Sources<'_>) -> String {
    let here = sources.prose.iter().filter(|section| section.is_of(&experiment.file));
    let mut body = prose::card("What differs from the paper, and why", here);
    body += &curve::card(experiment, sources);
    for result in &experiment.results {
        card(&mut body, result, sources);
    }
    let _ = write!(
        body,
        "<section class=\"card\"><details><summary><h2>Set-up</h2></summary><p>Scenario <code>scenarios/{}</code>, at the first point of its \
         sweep, as <code>--full</code> runs it:</p><pre><code>{}</code></pre></details></section>",
        escape(&experiment.file),
        escape(&about.effective)
    );
    let lead = format!("<p class=\"lead\">{}</p>", escape(&about.description));
    page(&about.title, &lead, &body)
}

fn card(out: &mut String, result: &Published, sources: &Sources<'_>) {
    let Sources { claims, kept, printed, .. } = *sources;
    let line = kept.line(&result.id);
    let known = line.filter(|_| !kept.is_stale(&result.id)).and_then(|line| status(line, result));
    let word = known.unwrap_or(Recorded::NotRun).word();
    let _ = write!(
        out,
        "<section class=\"card\" id=\"{id}\"><h2>{} {id}</h2><p>{} <span class=\"remark\">[{}]</span></p>",
        badge(word),
        escape(&result.what),
        escape(&result.source),
        id = escape(&result.id),
    );
    let reason = line.filter(|line| !rows_tell(line, known)).and_then(|line| line["reason"].as_str());
    for text in reason.into_iter().chain(Some(result.notes.as_str())) {
        if !text.trim().is_empty() {
            let _ = write!(out, "<p class=\"remark\">{}</p>", escape(text));
        }
    }
    if kept.is_stale(&result.id) {
        out.push_str("<p class=\"remark\">Its record is of another scenario or of other checks: what follows was measured then.</p>");
    }
    if kept.is_of_other_sources(&result.id) {
        out.push_str("<p class=\"remark\">The simulator's sources have changed since it was measured; <code>selvedge repro --check-records</code> runs a sample again.</p>");
    }
    if let Some(quick) = kept.quick(&result.id).and_then(|line| status(line, result)) {
        let _ = write!(out, "<p class=\"remark\">The shorter run of --quick says: {}.</p>", quick.word());
    }
    let decided: Vec<String> = (claims.iter().flat_map(|catalogue| &catalogue.entries))
        .filter(|entry| entry.scenario.contains(&result.id) && entry.id != result.id)
        .map(|entry| format!("<code>{}</code>", escape(&entry.id)))
        .collect();
    if !decided.is_empty() {
        let _ = write!(out, "<p class=\"remark\">decides, with others: {}</p>", decided.join(", "));
    }
    let empty = Vec::new();
    let seen = line.and_then(|line| line["checks"].as_array()).unwrap_or(&empty);
    table(out, result, seen);
    for chart in charts(result, seen) {
        match curve_of(&chart, result, seen) {
            Some(curve) => curve::draw(out, &curve),
            None => draw(out, &chart),
        }
    }
    let printed: Vec<&Printed> = printed.iter().filter(|number| number.result == result.id).collect();
    numbers(out, &printed, result, line);
    out.push_str("<p class=\"remark\">");
    if let Some(line) = line {
        let _ = write!(out, "{}", escape(&told(line)));
    }
    let _ = write!(out, "Again: <code>selvedge repro --full {}</code></p></section>", escape(&result.id));
}

/// Do the rows of checks tell why it failed, or is the reason that of a check which decides nothing any more?
fn rows_tell(line: &Value, status: Option<Recorded>) -> bool {
    let any_fails = line["checks"].as_array().is_some_and(|checks| checks.iter().any(|check| check["holds"] == false));
    match status {
        Some(Recorded::Holds) => true,
        Some(Recorded::Fails | Recorded::Reversed) => any_fails,
        _ => false,
    }
}

fn draw(out: &mut String, chart: &Chart) {
    let _ = write!(
        out,
        "<div class=\"dots\"><script type=\"application/json\">{}</script><div class=\"chart\" role=\"img\" style=\"height:{}px\" \
         aria-label=\"What was measured, with 95% intervals, and what the paper prints\"></div></div>",
        script_json(chart),
        70 + 26 * chart.dots.len()
    );
}

/// The paper's own numbers, point by point, beside what was measured: a chart a unit, and how each number was obtained.
fn numbers(out: &mut String, printed: &[&Printed], result: &Published, line: Option<&Value>) {
    if printed.is_empty() {
        return;
    }
    let mut charts: Vec<Chart> = Vec::new();
    let mut rows = String::new();
    for number in printed {
        let measured = line.and_then(|line| number.measured(line, result));
        let (value, half_width) = (measured.map(|(value, _)| value), measured.and_then(|(_, half)| half));
        let (label, paper) = (number.label(), Some(number.value));
        let mut shown = value.map_or(MISSING.to_owned(), shorten);
        if let Some(half) = half_width {
            let _ = write!(shown, " \u{b1} {}", shorten(half));
        }
        let _ = write!(
            rows,
            "<tr><td><code>{}</code></td><td>{shown}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&label),
            number.value,
            escape(&number.unit),
            escape(&number.how)
        );
        let dot = Dot { label, value, half_width, paper };
        match charts.iter_mut().find(|chart| chart.unit == number.unit) {
            Some(chart) => chart.dots.push(dot),
            None => charts.push(Chart { unit: number.unit.clone(), dots: vec![dot] }),
        }
    }
    charts.iter().for_each(|chart| draw(out, chart));
    let _ = write!(
        out,
        "<details><summary>The paper's numbers, and how they were obtained</summary><div class=\"scroll\"><table class=\"points\"><thead><tr><th>Metric</th>\
         <th>Measured</th><th>Paper</th><th>Unit</th><th>How obtained</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
    );
}

/// Where a record is from.
fn told(line: &Value) -> String {
    let mut told = String::new();
    let seeds = line["seeds"].as_u64().or_else(|| line["seeds"].as_array().map(|seeds| seeds.len() as u64));
    if let Some(mode) = line["mode"].as_str() {
        told += &format!("--{mode}");
    }
    if let Some(seeds) = seeds {
        told += &format!(", {seeds} seed{}", if seeds == 1 { "" } else { "s" });
    }
    for (key, before) in [
        ("version", "version "),
        ("commit", "commit "),
        ("sources", "sources "),
        ("configuration", "configuration "),
        ("machine", ""),
    ] {
        if let Some(text) = line[key].as_str() {
            told += &format!(", {before}{text}");
        }
    }
    if let Some(seconds) = line["core_s"].as_f64() {
        told += &format!(", {} s of processor time for all of the page", shorten(seconds));
    }
    told + ". "
}

/// A row for each check and point.
fn table(out: &mut String, result: &Published, seen: &[Value]) {
    out.push_str("<div class=\"scroll\"><table class=\"points\"><thead><tr><th></th><th class=\"wide\">Check</th><th>Point</th><th>Measured</th><th>95% interval</th><th>Paper</th></tr></thead><tbody>");
    for (n, check) in result.checks.iter().enumerate() {
        // Of a record with other checks, none is shown beside a text that is not its own.
        let record = seen.get(n).filter(|record| record["text"] == check.text.as_str());
        let fails = record.is_some_and(|record| record["holds"] == false);
        let word = match record.and_then(|record| record["holds"].as_bool()) {
            Some(_) if record.is_some_and(|record| record["decided"] == false) => "undecided",
            Some(true) if check.absolute => "absolute: holds",
            Some(false) if check.absolute => "absolute: fails",
            Some(true) => "holds",
            Some(false) => "fails",
            None => "not run",
        };
        let mut text = escape(&check.text);
        if check.absolute {
            text += "<p class=\"remark\">An absolute figure: reported, and decides nothing.</p>";
        }
        let paper = check
            .paper
            .as_ref()
            .map_or(MISSING.to_owned(), |p| p.as_str().map_or_else(|| p.to_string(), str::to_owned));
        let points = record.map(points).unwrap_or_default();
        for (row, point) in points.iter().copied().map(Some).chain(points.is_empty().then_some(None)).enumerate() {
            let value = point.and_then(|point| point["value"].as_f64());
            let half = point.and_then(|point| point["ci95_half_width"].as_f64());
            let unit =
                if value.is_some() && !check.unit.is_empty() { format!(" {}", check.unit) } else { String::new() };
            let first = |text: String| if row == 0 { text } else { String::new() };
            let clause = point.filter(|_| fails).and_then(|point| unspoken(check, &recorded(point)));
            let clause = clause.map(|clause| {
                let (text, sides) = (escape(&clause.text), escape(&clause.to_string()));
                format!("<p class=\"remark\"><code>{text}</code>: {sides}</p>")
            });
            let jobs = point.and_then(|point| point["jobs"].as_u64());
            let jobs = jobs.map(|jobs| format!("<p class=\"remark\">{} jobs a seed</p>", count(jobs)));
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}{}{}{}</td><td>{}</td><td>{}</td></tr>",
                first(badge(word)),
                first(text.clone()),
                escape(point.and_then(|point| point["at"].as_str()).unwrap_or_default()),
                value.map_or(MISSING.to_owned(), shorten),
                escape(&unit),
                jobs.unwrap_or_default(),
                clause.unwrap_or_default(),
                half.map_or(MISSING.to_owned(), |half| format!("\u{b1} {}", shorten(half))),
                first(escape(&paper)),
            );
        }
    }
    out.push_str("</tbody></table></div>");
}

/// What a check's record measured: one object, or one a point.
fn points(record: &Value) -> Vec<&Value> {
    match &record["measured"] {
        Value::Array(points) => points.iter().collect(),
        object @ Value::Object(_) => vec![object],
        _ => Vec::new(),
    }
}

fn printed(check: &Check) -> Option<f64> {
    check.paper.as_ref().and_then(|paper| paper.as_float().or_else(|| Some(paper.as_integer()? as f64)))
}

/// A chart's numbers as lines, where all its checks have them over a sweep of numbers.
fn curve_of(chart: &Chart, result: &Published, seen: &[Value]) -> Option<curve::Curve> {
    let here = |(check, record): &(&Check, &Value)| check.unit == chart.unit && record["text"] == check.text.as_str();
    let lines = result.checks.iter().zip(seen).filter(here).map(|(check, record)| {
        let value = |point: &Value, key: &str| point[key].as_f64();
        let points = points(record)
            .into_iter()
            .filter_map(|point| Some((point["at"].as_str()?, value(point, "value")?, value(point, "ci95_half_width"))));
        curve::Values { text: &check.text, points: points.collect(), paper: printed(check) }
    });
    let lines: Vec<_> = lines.filter(|line| !line.points.is_empty()).collect();
    curve::of_checks(&chart.unit, &lines)
}

/// A chart for each unit that has at least two numbers, or one beside the paper's.
fn charts(result: &Published, seen: &[Value]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for (check, record) in
        result.checks.iter().zip(seen).filter(|(check, record)| record["text"] == check.text.as_str())
    {
        for point in points(record) {
            let Some(value) = point["value"].as_f64() else { continue };
            let at = point["at"].as_str().unwrap_or_default();
            let label = match (at, result.checks.len()) {
                ("", _) => check.text.clone(),
                (at, 1) => at.to_owned(),
                (at, _) => format!("{at}: {}", check.text),
            };
            let dot =
                Dot { label, value: Some(value), half_width: point["ci95_half_width"].as_f64(), paper: printed(check) };
            match charts.iter_mut().find(|chart| chart.unit == check.unit) {
                Some(chart) => chart.dots.push(dot),
                None => charts.push(Chart { unit: check.unit.clone(), dots: vec![dot] }),
            }
        }
    }
    charts.retain(|chart| chart.dots.len() > 1 || chart.dots.iter().any(|dot| dot.paper.is_some()));
    charts
}
