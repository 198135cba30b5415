//! `selvedge repro --check-records`: runs a sample of what has a record again, and compares.

use super::file::{Experiment, Mode};
use super::fingerprint::SOURCES;
use super::judge::Judged;
use super::kept::Kept;
use super::looks::run_looks;
use super::once::run_experiment;
use crate::Failure;
use serde_json::Value;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Seeds of the first look, with which a full record is sampled.
const SEEDS: u64 = super::decide::LOOKS[0].0 as u64;

/// An experiment in a mode, with the results that have a record of it.
struct Sample<'a> {
    experiment: &'a Experiment,
    mode: Mode,
    lines: BTreeMap<String, &'a Value>,
    expected_s: f64,
}

/// How often a value was found as it is recorded, or not.
#[derive(Default)]
struct Tally {
    equal: usize,
    within: usize,
    /// A record of these very sources says otherwise.
    wrong: usize,
    /// Outside their intervals: how often chance alone brings each so far away.
    far: Vec<f64>,
    /// Of other sources, and single runs cannot give the value: nothing says how far it may be away.
    open: usize,
}

/// True if no value contradicts its record. `hours`: processor time that it may take.
///
/// # Errors
/// Records that do not read, or a run that fails.
pub(super) fn check(records: Option<&Path>, hours: f64, threads: usize) -> Result<bool, Failure> {
    let kept = Kept::read(records)?;
    let experiments = super::experiments()?;
    let all = samples(&kept, &experiments);
    let (of, experiments) = (all.len(), choose(all, hours * 3600.0));
    let mut tally = Tally::default();
    for sample in &experiments {
        let wanted = |id: &str| sample.lines.contains_key(id);
        let ran = match sample.mode {
            Mode::Full => run_looks(sample.experiment, threads, Duration::ZERO, &wanted)?,
            mode => run_experiment(sample.experiment, mode, threads, &wanted)?,
        };
        let mut here = Tally::default();
        for judged in &ran.judged {
            let Some(line) = sample.lines.get(&judged.published.id) else { continue };
            for told in compare(judged, line, &mut here) {
                say!("{told}");
            }
        }
        say!("{} ({}): {}", sample.experiment.file, sample.mode.name(), here.text());
        tally.add(&here);
    }
    say!("{} of {of} recorded experiments were run again: {}", experiments.len(), tally.text());
    Ok(tally.contradict() == 0)
}

fn samples<'a>(kept: &'a Kept, experiments: &'a [Experiment]) -> Vec<Sample<'a>> {
    let mut all: BTreeMap<(usize, Mode), Sample<'a>> = BTreeMap::new();
    for (record, line) in kept.counting() {
        let Some(mode) = record.mode.filter(|_| record.configuration.is_some()) else { continue };
        let has = |experiment: &Experiment| experiment.results.iter().any(|result| result.id == record.id);
        let Some(place) = experiments.iter().position(has) else { continue };
        let seeds = line["seeds"].as_u64().unwrap_or(SEEDS).max(1);
        let share = if mode == Mode::Full { SEEDS.min(seeds) as f64 / seeds as f64 } else { 1.0 };
        let new = Sample { experiment: &experiments[place], mode, lines: BTreeMap::new(), expected_s: 0.0 };
        let sample = all.entry((place, mode)).or_insert(new);
        sample.lines.insert(record.id.clone(), line);
        sample.expected_s = sample.expected_s.max(line["core_s"].as_f64().unwrap_or_default() * share);
    }
    all.into_values().collect()
}

/// What fits in the time: one experiment of each paper after another, in an order that these sources' hash decides, so that another
/// version looks at others.
fn choose(mut all: Vec<Sample<'_>>, mut left_s: f64) -> Vec<Sample<'_>> {
    all.sort_by_key(|sample| hash(&sample.experiment.file));
    let paper = |sample: &Sample<'_>| sample.experiment.file.split('/').next().unwrap_or_default().to_owned();
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_turn: Vec<(usize, Sample<'_>)> = Vec::new();
    for sample in all {
        let turn = turns.entry(paper(&sample)).or_default();
        in_turn.push((*turn, sample));
        *turn += 1;
    }
    in_turn.sort_by_key(|(turn, _)| *turn);
    let mut chosen = Vec::new();
    for (_, sample) in in_turn {
        if sample.expected_s <= left_s {
            left_s -= sample.expected_s;
            chosen.push(sample);
        }
    }
    chosen
}

fn hash(file: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    SOURCES.bytes().chain(file.bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}

/// Compares each check's values; returns what has to be said.
fn compare(judged: &Judged, line: &Value, tally: &mut Tally) -> Vec<String> {
    // Through text and back, as the record came.
    let now: Value = serde_json::from_str(&judged.json().to_string()).unwrap_or_default();
    let before = line["seeds"].as_u64().unwrap_or_default();
    let same = line["sources"] == SOURCES && before == judged.seeds.len() as u64;
    let (mut told, none) = (Vec::new(), Vec::new());
    for (now, then) in now["checks"].as_array().unwrap_or(&none).iter().zip(line["checks"].as_array().unwrap_or(&none))
    {
        let found = if now["text"] == then["text"] { points(&then["measured"]) } else { Vec::new() };
        for (point, then) in points(&now["measured"]).into_iter().zip(found) {
            let seeds = (before as f64, judged.seeds.len() as f64);
            let Some(problem) = differs(point, then, same, seeds, tally) else { continue };
            let at = point["at"].as_str().map(|at| format!(" at {at}")).unwrap_or_default();
            told.push(format!("{}{at}: {}: {problem}", judged.published.id, now["text"].as_str().unwrap_or_default()));
        }
    }
    told
}

fn points(measured: &Value) -> Vec<&Value> {
    match measured {
        Value::Array(points) => points.iter().collect(),
        Value::Null => Vec::new(),
        object => vec![object],
    }
}

/// What is wrong at a point. `seeds`: of the record, and of now.
fn differs(now: &Value, then: &Value, same: bool, seeds: (f64, f64), tally: &mut Tally) -> Option<String> {
    if now["at"] == then["at"] && now["value"] == then["value"] && now["metrics"] == then["metrics"] {
        tally.equal += 1;
        return None;
    }
    let said = format!("now {}, recorded {}", shown(now), shown(then));
    if same {
        tally.wrong += 1;
        return Some(format!("{said}, with the same sources, configuration and seeds"));
    }
    let half = (then["value"].as_f64(), now["value"].as_f64(), then["ci95_half_width"].as_f64());
    let (Some(before), Some(value), Some(half)) = half else {
        tally.open += 1;
        return None;
    };
    // The record's interval is t s / sqrt(n); that of a difference between n and m seeds is t s sqrt(1/n + 1/m).
    let most = half * (1.0 + seeds.0 / seeds.1.max(1.0)).sqrt();
    if (value - before).abs() <= most {
        tally.within += 1;
        return None;
    }
    let by_chance = by_chance((value - before).abs() / most, seeds.0);
    tally.far.push(by_chance);
    let most = crate::table::number(most);
    Some(format!("{said}; 95 of 100 differ by at most {most}, and {by_chance:.1e} of all by so much"))
}

/// How often two means differ by so many times their 95% interval, which `seeds` give.
fn by_chance(times: f64, seeds: f64) -> f64 {
    StudentsT::new(0.0, 1.0, (seeds - 1.0).max(1.0)).map_or(0.0, |t| 2.0 * t.sf(times * t.inverse_cdf(0.975)))
}

fn shown(point: &Value) -> String {
    point["value"].as_f64().map_or_else(|| point["metrics"].to_string(), crate::table::number)
}

impl Tally {
    /// Values that differ with equal sources, or by more than chance brings among so many: with right records such a value is found in at
    /// most 5% of samples (Bonferroni).
    fn contradict(&self) -> usize {
        let judged = (self.within + self.far.len()) as f64;
        self.wrong + self.far.iter().filter(|by_chance| **by_chance * judged < 0.05).count()
    }

    fn add(&mut self, other: &Tally) {
        self.equal += other.equal;
        self.within += other.within;
        self.wrong += other.wrong;
        self.far.extend(&other.far);
        self.open += other.open;
    }

    fn text(&self) -> String {
        let all = self.equal + self.within + self.wrong + self.far.len() + self.open;
        let contradict = self.contradict();
        let mut text = format!("{} of {all} values are equal", self.equal);
        for (number, what) in [
            (self.within, "are within their intervals"),
            (self.wrong + self.far.len() - contradict, "are outside them as chance allows among so many"),
            (contradict, "contradict their record"),
            (self.open, "changed and have no interval"),
        ] {
            if number > 0 {
                text += &format!(", {number} {what}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_judged_by_sources_and_intervals() {
        let point =
            |value: f64, half: Option<f64>| json!({"value": value, "ci95_half_width": half, "metrics": {"m": value}});
        let mut tally = Tally::default();
        let mut one = |now: f64, then: f64, half: Option<f64>, same: bool, seeds: (f64, f64)| {
            differs(&point(now, None), &point(then, half), same, seeds, &mut tally)
        };
        assert_eq!(one(1.0, 1.0, None, true, (5.0, 5.0)), None);
        assert!(one(1.0, 1.000_000_1, Some(9.0), true, (5.0, 5.0)).unwrap().contains("the same sources"));
        assert_eq!(one(1.0, 1.1, Some(0.08), false, (5.0, 5.0)), None, "0.08 times the root of two is more than 0.1");
        assert!(one(1.0, 1.12, Some(0.08), false, (5.0, 5.0)).is_some());
        assert!(one(1.0, 9.12, Some(0.08), false, (5.0, 5.0)).is_some());
        assert_eq!(one(1.0, 1.12, Some(0.08), false, (40.0, 5.0)), None, "few seeds of many may be further away");
        assert_eq!(one(1.0, 5.0, None, false, (5.0, 5.0)), None);
        assert_eq!((tally.equal, tally.within, tally.wrong, tally.far.len(), tally.open), (1, 2, 1, 2, 1));
        assert_eq!(tally.contradict(), 2, "one of four values is a little outside by chance");
        assert_eq!(tally.text(), "1 of 7 values are equal, 2 are within their intervals, 1 are outside them as chance allows among so many, 2 contradict their record, 1 changed and have no interval");
    }

    #[test]
    fn the_further_the_rarer() {
        // The table of t with 4 degrees of freedom: 2.776 at 0.975, 4.604 at 0.995, 8.610 at 0.9995.
        for (t, p) in [(2.776_445, 0.05), (4.604_095, 0.01), (8.610_302, 0.001)] {
            assert!((by_chance(t / 2.776_445, 5.0) / p - 1.0).abs() < 1e-3, "{t}");
        }
        assert_eq!(by_chance(f64::INFINITY, 5.0), 0.0);
    }
}
