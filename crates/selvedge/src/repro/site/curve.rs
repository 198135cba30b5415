//! Curves: what was measured over a sweep whose points are numbers, a line a scheme, beside the paper's points.

use super::super::file::Experiment;
use super::super::printed::Printed;
use super::Sources;
use crate::report::html::{escape, script_json};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Fewer points make no curve.
const LEAST: usize = 3;

/// One line, and the paper's points of it.
#[derive(Serialize)]
struct Line {
    name: String,
    /// Place on the axis, value, half of the 95% interval's width if the record has it.
    points: Vec<(f64, f64, Option<f64>)>,
    paper: Vec<(f64, f64)>,
}

/// Lines of one metric.
#[derive(Serialize)]
pub(super) struct Curve {
    axis: String,
    unit: String,
    lines: Vec<Line>,
}

/// Where a label stands: `load=0.7`, `rate=9.7Gbps`, `20ms`, or `1G-60KB`, whose first part is that of a group of points.
#[derive(Debug, PartialEq)]
struct Place<'a> {
    group: &'a str,
    /// Name and unit of the number.
    axis: String,
    x: f64,
}

fn place(label: &str) -> Option<Place<'_>> {
    let number = |group, name: &str, value: &str| {
        let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        let (digits, unit) = value.split_at(digits);
        let x = digits.parse().ok().filter(|_| unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%'))?;
        let said: Vec<&str> = [name, unit].into_iter().filter(|part| !part.is_empty()).collect();
        Some(Place { group, axis: said.join(", "), x })
    };
    match label.split_once('=') {
        Some((name, value)) => number("", name, value),
        None => {
            number("", "", label).or_else(|| label.rsplit_once('-').and_then(|(group, value)| number(group, "", value)))
        }
    }
}

/// The axis of labels that are all numbers of one, at least three, and of no group.
fn axis<'a>(labels: impl Iterator<Item = &'a str>) -> Option<String> {
    let places: Vec<Place<'_>> = labels.map(place).collect::<Option<_>>()?;
    let first = &places.first()?.axis;
    let alike = places.len() >= LEAST && places.iter().all(|place| place.axis == *first && place.group.is_empty());
    alike.then(|| first.clone())
}

/// `scheme.metric[label]` as scheme and metric, and the label or that of the point.
fn split<'a>(name: &'a str, at: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let (name, at) = match name.split_once('[') {
        Some((name, label)) => (name, label.strip_suffix(']')?),
        None => (name, at),
    };
    let (scheme, metric) = name.split_once('.')?;
    Some((scheme, metric, at))
}

/// The values of one check over the points of a sweep.
pub(super) struct Values<'a> {
    pub(super) text: &'a str,
    /// Label, value, half of its interval.
    pub(super) points: Vec<(&'a str, f64, Option<f64>)>,
    /// What the paper prints for each point.
    pub(super) paper: Option<f64>,
}

/// A line for each check, if all have one axis.
pub(super) fn of_checks(unit: &str, checks: &[Values<'_>]) -> Option<Curve> {
    let mut axes = checks.iter().map(|check| axis(check.points.iter().map(|point| point.0)));
    let said = axes.next()??;
    if axes.any(|axis| axis.as_ref() != Some(&said)) {
        return None;
    }
    let lines = checks.iter().map(|check| {
        let at = |label| place(label).map(|place| place.x);
        let points = check.points.iter().filter_map(|&(label, value, half)| Some((at(label)?, value, half)));
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let paper =
            check.paper.into_iter().flat_map(|paper| points.iter().map(move |point| (point.0, paper))).collect();
        Line { name: check.text.to_owned(), points, paper }
    });
    Some(Curve { axis: said, unit: unit.to_owned(), lines: lines.collect() })
}

/// Numbers of one line by label: place on the axis, value, half of its interval.
type Numbers<'a> = BTreeMap<&'a str, (f64, f64, Option<f64>)>;
/// Lines of one chart by scheme and group.
type Lines<'a> = BTreeMap<(&'a str, &'a str), Numbers<'a>>;

/// A curve for each metric of the page's records that has one.
fn of_metrics(experiment: &Experiment, sources: &Sources<'_>) -> Vec<Curve> {
    let ids = || experiment.results.iter().map(|result| result.id.as_str());
    let lines: Vec<&Value> =
        ids().filter(|id| !sources.kept.is_stale(id)).filter_map(|id| sources.kept.line(id)).collect();
    // By metric and axis.
    let mut found: BTreeMap<(&str, String), Lines<'_>> = BTreeMap::new();
    for check in lines.iter().filter_map(|line| line["checks"].as_array()).flatten() {
        let points = match &check["measured"] {
            Value::Array(points) => points.iter().collect(),
            object => vec![object],
        };
        for point in points {
            let at = point["at"].as_str().unwrap_or_default();
            for (name, value) in point["metrics"].as_object().into_iter().flatten() {
                let Some((scheme, metric, label)) = split(name, at) else { continue };
                let (Some(place), Some(value)) = (place(label), value.as_f64()) else { continue };
                let half = point["metrics_ci95_half_width"][name].as_f64();
                let lines = found.entry((metric, place.axis)).or_default();
                lines.entry((scheme, place.group)).or_default().insert(label, (place.x, value, half));
            }
        }
    }
    let printed: Vec<&Printed> = sources.printed.iter().filter(|number| ids().any(|id| id == number.result)).collect();
    let mut curves = Vec::new();
    for ((metric, axis), schemes) in found {
        let mut lines = Vec::new();
        for ((scheme, group), points) in schemes.into_iter().filter(|(_, points)| points.len() >= LEAST) {
            let paper = printed.iter().filter_map(|number| {
                let (s, m, label) = split(&number.metric, &number.at)?;
                let place = place(label).filter(|place| (s, m, place.group) == (scheme, metric, group))?;
                Some((place.x, number.value))
            });
            let mut points: Vec<_> = points.into_values().collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = [scheme.replace('_', "-"), group.to_owned()].into_iter().filter(|part| !part.is_empty());
            lines.push(Line { name: name.collect::<Vec<_>>().join(", "), points, paper: paper.collect() });
        }
        if !lines.is_empty() {
            curves.push(Curve { axis, unit: metric.to_owned(), lines });
        }
    }
    curves
}

/// A card with the curves of the page's metrics, or nothing.
pub(super) fn card(experiment: &Experiment, sources: &Sources<'_>) -> String {
    let curves = of_metrics(experiment, sources);
    if curves.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section class=\"card curves\"><h2>Over the sweep</h2><p class=\"remark\">Over all seeds, with 95% intervals where the record \
         has them; diamonds are the paper's numbers.</p><div class=\"grid\">",
    );
    curves.iter().for_each(|curve| draw(&mut out, curve));
    out + "</div></section>"
}

pub(super) fn draw(out: &mut String, curve: &Curve) {
    let _ = write!(
        out,
        "<div class=\"dots\"><script type=\"application/json\">{}</script><div class=\"chart\" role=\"img\" style=\"height:320px\" \
         aria-label=\"{} over {}\"></div></div>",
        script_json(curve),
        escape(&curve.unit),
        escape(&curve.axis)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_numbers_of_one_kind_make_an_axis() {
        let of = |labels: &[&str]| axis(labels.iter().copied());
        assert_eq!(of(&["load=0.2", "load=0.4", "load=0.8"]).as_deref(), Some("load"));
        assert_eq!(of(&["rate=9Gbps", "rate=9.5Gbps", "rate=9.7Gbps"]).as_deref(), Some("rate, Gbps"));
        assert_eq!(of(&["0.02ms", "1ms", "20ms"]).as_deref(), Some("ms"));
        let none =
            [&["load=0.2", "load=0.4"][..], &["1G-1", "1G-2", "1G-8"], &["n=1", "m=2", "n=3"], &["1us", "1ms", "2ms"]];
        assert!(none.iter().all(|labels| of(labels).is_none()));
        let grouped = |label| place(label).map(|place| (place.group, place.axis, place.x));
        assert_eq!(grouped("1G-60KB"), Some(("1G", "KB".to_owned(), 60.0)));
        assert_eq!(grouped("1G-16"), Some(("1G", String::new(), 16.0)));
        assert_eq!((grouped("idle"), grouped("L1-L4"), grouped("20Mbps x8")), (None, None, None));
        assert_eq!(split("clove.web.fct_ms.p95[n=10]", ""), Some(("clove", "web.fct_ms.p95", "n=10")));
        assert_eq!(split("ecmp.loss", "n=2"), Some(("ecmp", "loss", "n=2")));
    }

    #[test]
    fn checks_over_a_sweep_make_a_line_each_in_order() {
        let values = |name: &'static str, paper| Values {
            text: name,
            points: vec![
                (["n=16", "m=16"][usize::from(name == "B")], 2.0, Some(0.1)),
                ("n=4", 1.0, None),
                ("n=8", 1.5, None),
            ],
            paper,
        };
        let curve = of_checks("times", &[values("A", Some(3.0)), values("C", None)]).unwrap();
        assert_eq!((curve.axis.as_str(), curve.lines.len()), ("n", 2));
        assert_eq!(curve.lines[0].points, [(4.0, 1.0, None), (8.0, 1.5, None), (16.0, 2.0, Some(0.1))]);
        assert_eq!(curve.lines[0].paper.len(), 3);
        assert!(of_checks("times", &[values("A", None), values("B", None)]).is_none(), "one has no axis");
        assert!(of_checks("times", &[]).is_none());
    }
}
