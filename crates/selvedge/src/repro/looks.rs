//! A full run: as many seeds as its checks need, in looks.

use super::cost::processor_time;
use super::decide::{decided, LOOKS};
use super::file::{Check, Experiment, Mode, Point, Published};
use super::judge::{judge, values, At, Judged};
use super::once::Ran;
use crate::report::CheckStatus;
use crate::results::{Results, SchemeResults};
use crate::run::{run_all, Bar, Finished};
use crate::scenario::Seeds;
use crate::Failure;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Of the last look.
const MOST_SEEDS: usize = LOOKS[LOOKS.len() - 1].0;

/// Runs the points that the wanted results need, with 5 seeds, and those that undecided results need with 10, 20 and 40, while
/// `limit` of processor time is not spent. What is undecided then says so in its reason.
///
/// # Errors
/// A scenario that makes no sense at a point, or a run that fails.
#[allow(clippy::disallowed_methods, reason = "how long it took is part of the report")]
pub fn run_looks(
    experiment: &Experiment,
    threads: usize,
    limit: Duration,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Ran, Failure> {
    let (begun, used) = (Instant::now(), processor_time());
    let results: Vec<&Published> = experiment.results.iter().filter(|r| wanted(&r.id)).collect();
    let points = experiment.points(Mode::Full, &|label| results.iter().any(|r| r.needs(label)))?;
    let mut all: Vec<At> = Vec::new();
    let mut open: Vec<&Published> = results.clone();
    // As it was when its points had equally many seeds: those that it shares with others may get more.
    let mut judged: BTreeMap<&str, Judged> = BTreeMap::new();
    let spent = || processor_time().saturating_sub(used);
    let (mut before, mut why) = (0, "40 seeds do not decide it");
    for (seeds, _) in LOOKS {
        let needed = |label: &str| open.iter().any(|result| result.needs(label));
        let new: Vec<Point> =
            points.iter().filter(|point| needed(&point.label)).map(|p| with(p, before, seeds)).collect();
        let bar = Bar::new(new.iter().map(|point| &point.plan));
        for point in new {
            let finished = run_all(&point.plan, threads, &bar)?;
            add(&mut all, point, finished, seeds);
        }
        bar.finish();
        before = seeds;
        open.retain(|result| {
            let known = known(result, &all);
            judged.insert(&result.id, told(result, &all, &known));
            outcome(&known).is_none() && may_be_decided(result, &all)
        });
        if open.is_empty() {
            break;
        }
        // The next look, if there is one, costs as much as all before it.
        if seeds < MOST_SEEDS && spent() * 2 > limit {
            why = "the processor time that it may take is spent";
            break;
        }
    }
    let (wall_s, core_s) = (begun.elapsed().as_secs_f64(), spent().as_secs_f64());
    let finish = |result: &Published| {
        let judged = judged.remove(result.id.as_str())?;
        let undecided = judged.undecided.map(|told| if told.is_empty() { why } else { told });
        Some(Judged { wall_s, undecided, core_s, ..judged })
    };
    let judged = results.into_iter().filter_map(finish).collect();
    Ok(Ran { points: all, judged })
}

/// What the seeds say as a whole counts, also where all samples thrown together say otherwise.
fn told(result: &Published, all: &[At], known: &[Option<bool>]) -> Judged {
    let mut judged = judge(result, all, Mode::Full.name(), 0.0);
    for (verdict, known) in judged.verdicts.iter_mut().zip(known) {
        verdict.undecided |= known.is_none() && verdict.status != CheckStatus::NotRun;
    }
    match outcome(known) {
        _ if judged.status == CheckStatus::NotRun => {}
        Some(true) => judged.status = CheckStatus::Holds,
        Some(false) => judged.status = CheckStatus::Fails,
        None => judged.undecided = Some(""),
    }
    judged
}

/// The point with the seeds after `before`.
fn with(point: &Point, before: usize, seeds: usize) -> Point {
    let mut point = point.clone();
    point.plan.scenario.seeds = Seeds((before as u64 + 1..=seeds as u64).collect());
    point
}

/// Joins new runs with those of earlier looks.
fn add(all: &mut Vec<At>, point: Point, mut runs: Vec<Finished>, seeds: usize) {
    let Point { label, parameter, mut plan } = point;
    let place = all.iter().position(|other| other.label == label);
    if let Some(place) = place {
        runs.extend(all.remove(place).results.schemes.into_iter().flat_map(|scheme| scheme.runs));
    }
    runs.sort_by_key(|run| (plan.schemes.iter().position(|scheme| scheme.name == run.scheme), run.seed));
    plan.scenario.seeds = Seeds((1..=seeds as u64).collect());
    let at = At { label, parameter, results: Results::new(plan, runs) };
    all.insert(place.unwrap_or(all.len()), at);
}

/// What is known of each check; `None`: more seeds may tell. A check that cannot be evaluated needs more of them, too. Absolute checks need none.
fn known(result: &Published, all: &[At]) -> Vec<Option<bool>> {
    let one = |check: &Check| {
        let mut whole = Some(true);
        for at in all.iter().filter(|at| result.counts(&at.label)) {
            match decided(check, at, all) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => whole = None,
            }
        }
        whole
    };
    result.checks.iter().map(|check| if check.absolute { Some(true) } else { one(check) }).collect()
}

/// One check that fails is enough.
fn outcome(known: &[Option<bool>]) -> Option<bool> {
    match () {
        () if known.contains(&Some(false)) => Some(false),
        () if known.contains(&None) => None,
        () => Some(true),
    }
}

/// Not if a scheme or a metric of its checks does not exist, however many seeds there are.
fn may_be_decided(result: &Published, all: &[At]) -> bool {
    let exists = |at: &At, check: &Check| {
        let known = |_: &At, scheme: &SchemeResults, name: &str| scheme.can_have(name).then_some(0.0);
        values(&check.holds, at, all, &known).is_some()
    };
    let mut points = all.iter().filter(|at| result.counts(&at.label));
    points.all(|at| result.deciding().all(|check| exists(at, check)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_that_fails_decides_and_one_that_is_open_does_not() {
        assert_eq!(outcome(&[Some(true), None, Some(false)]), Some(false));
        assert_eq!(outcome(&[Some(true), None]), None);
        assert_eq!(outcome(&[Some(true), Some(true)]), Some(true));
    }
}
