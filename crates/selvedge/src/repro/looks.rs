//! A full run: as many seeds as its checks need, in looks.

use super::decide::{decided, LOOKS};
use super::file::{Experiment, Mode, Point, Published};
use super::judge::{judge, At, Judged};
use super::Ran;
use crate::report::CheckStatus;
use crate::results::Results;
use crate::run::{run_all, Bar, Finished};
use crate::scenario::Seeds;
use crate::Failure;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    let begun = Instant::now();
    let results: Vec<&Published> = experiment.results.iter().filter(|r| wanted(&r.id)).collect();
    let points = experiment.points(Mode::Full, &|label| results.iter().any(|r| r.needs(label)))?;
    let mut all: Vec<(Point, At)> = Vec::new();
    let mut open: Vec<&Published> = results.clone();
    let mut spent = Duration::ZERO;
    let (mut before, mut why) = (0, "40 seeds do not decide it");
    for (seeds, _) in LOOKS {
        let needed = |label: &str| open.iter().any(|result| result.needs(label));
        let new: Vec<Point> =
            points.iter().filter(|point| needed(&point.label)).map(|p| with(p, before, seeds)).collect();
        let bar = Bar::new(new.iter().map(|point| &point.plan));
        for point in new {
            let finished = run_all(&point.plan, threads, &bar)?;
            spent += finished.iter().map(|run| run.wall).sum::<Duration>();
            add(&mut all, point, finished, seeds);
        }
        bar.finish();
        before = seeds;
        open.retain(|result| outcome(result, &all).is_none());
        if open.is_empty() {
            break;
        }
        // The next look costs as much as all before it.
        if spent * 2 > limit {
            why = "the processor time that it may take is spent";
            break;
        }
    }
    let outcomes: BTreeMap<String, Option<bool>> =
        results.iter().map(|result| (result.id.clone(), outcome(result, &all))).collect();
    let done: Vec<At> = all.into_iter().map(|(_, at)| at).collect();
    let wall_s = begun.elapsed().as_secs_f64();
    let judged = results.into_iter().map(|result| {
        let mut judged = judge(result, &done, Mode::Full.name(), wall_s);
        match outcomes.get(&result.id) {
            _ if judged.status == CheckStatus::NotRun => {}
            // What the seeds say as a whole counts, also where all samples thrown together say otherwise.
            Some(Some(true)) => judged.status = CheckStatus::Holds,
            Some(Some(false)) => judged.status = CheckStatus::Fails,
            _ => judged.undecided = Some(why),
        }
        judged.core_s = spent.as_secs_f64();
        judged
    });
    let judged: Vec<Judged> = judged.collect();
    Ok(Ran { points: done, judged })
}

/// The point with the seeds after `before`.
fn with(point: &Point, before: usize, seeds: usize) -> Point {
    let mut point = point.clone();
    point.plan.scenario.seeds = Seeds((before as u64 + 1..=seeds as u64).collect());
    point
}

/// Joins new runs with those of earlier looks.
fn add(all: &mut Vec<(Point, At)>, mut point: Point, finished: Vec<Finished>, seeds: usize) {
    let place = all.iter().position(|(other, _)| other.label == point.label);
    let mut runs = finished;
    if let Some(place) = place {
        let (_, old) = all.remove(place);
        runs.extend(old.results.schemes.into_iter().flat_map(|scheme| scheme.runs));
    }
    let order = |run: &Finished| {
        let scheme = point.plan.schemes.iter().position(|scheme| scheme.name == run.scheme);
        (scheme, run.seed)
    };
    runs.sort_by_key(order);
    point.plan.scenario.seeds = Seeds((1..=seeds as u64).collect());
    let results = Results::new(point.plan.clone(), runs);
    let at = At { label: point.label.clone(), parameter: point.parameter.clone(), results };
    let place = place.unwrap_or(all.len());
    all.insert(place, (point, at));
}

/// `None` while more seeds may decide the result. A check that cannot be evaluated needs more of them, too.
fn outcome(result: &Published, all: &[(Point, At)]) -> Option<bool> {
    let points: Vec<&At> = all.iter().map(|(_, at)| at).collect();
    let mut whole = Some(true);
    for check in &result.checks {
        for at in points.iter().filter(|at| result.counts(&at.label)) {
            match decided(check, at, &points) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => whole = None,
            }
        }
    }
    whole
}
