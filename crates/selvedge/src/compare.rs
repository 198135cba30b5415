//! `selvedge compare`: what two results have in common, and whether it differs.

mod judge;
mod source;

use crate::cli::Compare;
use crate::{table, Failure};
use config::ConfigError;
use judge::{judge, Comparison, Verdict};
use serde_json::{json, Value};
use source::{Key, Measured};

/// True if nothing differs.
///
/// # Errors
/// Results that cannot be read, or that have nothing in common.
pub(crate) fn run(arguments: &Compare) -> Result<bool, Failure> {
    let (a, b) = (source::read(&arguments.a)?, source::read(&arguments.b)?);
    for (of, path) in [(&a, &arguments.a), (&b, &arguments.b)] {
        if of.ungathered > 0 {
            let jobs = if of.ungathered == 1 { "job that is" } else { "jobs that are" };
            let problem = format!("{}: its table lacks {} {jobs} done", path.display(), of.ungathered);
            crate::say::note(&format!("{problem}; run `selvedge sweep` once more, which gathers them"));
        }
    }
    let wanted =
        |key: &Key| arguments.metric.is_empty() || arguments.metric.iter().any(|part| key.metric.contains(part));
    let common = || a.rows.iter().filter(|(key, _)| wanted(key) && b.rows.contains_key(*key));
    if common().next().is_none() {
        return Err(nothing(arguments, &a, &b).into());
    }
    let share = arguments.within / 100.0;
    let compared: Vec<(&Key, Comparison)> =
        common().map(|(key, series)| (key, judge(series, &b.rows[key], share))).collect();
    let count = |verdict: Verdict| compared.iter().filter(|(_, c)| c.verdict == verdict).count();
    let alone = |one: &Measured, other: &Measured| {
        one.rows.keys().filter(|key| wanted(key) && !other.rows.contains_key(*key)).count()
    };
    let differ = count(Verdict::Differs);
    if arguments.json {
        let metrics: Vec<Value> = compared.iter().map(|(key, comparison)| comparison.json(key)).collect();
        crate::say::json(&json!({
            "a": arguments.a.display().to_string(), "b": arguments.b.display().to_string(),
            "within_percent": arguments.within, "metrics": metrics,
            "differ": differ, "equal": count(Verdict::Equal), "undecided": count(Verdict::Undecided),
            "only_in_a": alone(&a, &b), "only_in_b": alone(&b, &a),
        }));
        return Ok(differ == 0);
    }
    say_on!("{}", table::aligned(&grid(&compared)));
    let words = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    say!(
        "\n{}: {}, {}, {} undecided (more seeds decide)",
        words(compared.len(), "metric", "metrics"),
        words(differ, "differs", "differ"),
        words(count(Verdict::Equal), "is equal", "are equal"),
        count(Verdict::Undecided)
    );
    for (n, name) in [(alone(&a, &b), "A"), (alone(&b, &a), "B")] {
        if n > 0 {
            say!("{} only in {name}", words(n, "metric is", "metrics are"));
        }
    }
    Ok(differ == 0)
}

fn nothing(arguments: &Compare, a: &Measured, b: &Measured) -> ConfigError {
    let names = |of: &Measured, what: fn(&Key) -> String| {
        let mut names: Vec<String> = of.rows.keys().map(what).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(5);
        names.join(", ")
    };
    let place = format!("{} and {}", arguments.a.display(), arguments.b.display());
    if !arguments.metric.is_empty() {
        let problem = format!("have no common metric with {} in its name", arguments.metric.join(" or "));
        return ConfigError::new(place, problem, "docs/metrics.md lists names");
    }
    let scheme = |key: &Key| key.scheme.clone();
    let point = |key: &Key| key.point.clone();
    let problem = format!(
        "have no metric of one point and scheme in common: A has schemes {} at points {:?}, B {} at {:?}",
        names(a, scheme),
        names(a, point),
        names(b, scheme),
        names(b, point)
    );
    ConfigError::new(place, problem, "compare results of scenarios with the same schemes and points")
}

fn grid(compared: &[(&Key, Comparison)]) -> Vec<Vec<String>> {
    let points = compared.iter().any(|(key, _)| !key.point.is_empty());
    let mut grid = vec![["scheme", "metric", "A", "B", "B - A", "", "verdict"].map(str::to_owned).to_vec()];
    grid.extend(compared.iter().map(|(key, c)| {
        let unit = if c.unit.is_empty() { String::new() } else { format!(" ({})", c.unit) };
        let spread = |mean: f64, half: Option<f64>| match half.filter(|half| half.is_finite()) {
            // Of values that are infinite on both sides.
            _ if mean.is_nan() => "-".to_owned(),
            Some(half) => format!("{} \u{b1}{}", table::number(mean), table::number(half)),
            None => table::number(mean),
        };
        let change = c.change_percent().map(|percent| format!("{percent:+.1}%")).unwrap_or_default();
        vec![
            key.scheme.clone(),
            format!("{}{unit}", key.metric),
            spread(c.a.mean, c.a.half_width),
            spread(c.b.mean, c.b.half_width),
            spread(c.difference.mean, c.difference.half_width),
            change,
            c.verdict.word().to_owned(),
        ]
    }));
    if points {
        let named = std::iter::once("point").chain(compared.iter().map(|(key, _)| key.point.as_str()));
        grid.iter_mut().zip(named).for_each(|(line, point)| line.insert(0, point.to_owned()));
    }
    grid
}
