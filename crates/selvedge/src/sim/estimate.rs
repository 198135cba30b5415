//! `sim run --estimate`: what the runs will take, before they are started.

use crate::run::RunError;
use crate::scenario::{Plan, SchemePlan};
use crate::Failure;
use serde_json::json;
use std::time::Instant;
use units::Time;

/// A beginning of a run that takes so much longer than a quarter of it tells how the rest will go, seconds.
const ENOUGH_S: f64 = 0.3;
/// The first beginning that is tried, as a part of the run.
const FIRST_PART: u64 = 1 << 16;

/// Memory and time of the runs of all plans, one plan after another, `threads` runs of a plan at a time.
///
/// # Errors
/// A run that fails at once.
pub(super) fn print(plans: &[&Plan], threads: usize, as_json: bool) -> Result<(), Failure> {
    let (mut seconds, mut runs, mut measured) = (0.0, 0, Time::MAX);
    for plan in plans {
        let seeds = plan.scenario.seeds.0.len();
        let mut one_by_one = 0.0;
        for scheme in &plan.schemes {
            let (each, part) = trial(scheme, plan.scenario.seeds.0.first().copied().unwrap_or(1))?;
            one_by_one += each * seeds as f64;
            measured = measured.min(part);
        }
        let here = plan.schemes.len() * seeds;
        seconds += one_by_one / threads.clamp(1, here.max(1)) as f64;
        runs += here;
    }
    let memory = plans.iter().map(|plan| plan.memory()).fold(0.0, f64::max);
    if as_json {
        crate::say::json(&json!({"runs": runs, "threads": threads, "memory_bytes": memory, "seconds": seconds}));
        return Ok(());
    }
    say!("Memory: about {}, with {threads} runs at a time", crate::scenario::shown_bytes(memory));
    say!("Time: about {} for {runs} runs, by the first {measured} of each scheme", spoken(seconds));
    Ok(())
}

/// Seconds that one run takes, and how much of it was tried. Two beginnings of the run tell: what both need, such as tables of
/// routes, counts once, and what the longer needs more is the rate of the rest. The drain counts as if no flow finished in it.
#[allow(clippy::disallowed_methods)] // the time of a trial is what is wanted
fn trial(scheme: &SchemePlan, seed: u64) -> Result<(f64, Time), RunError> {
    let experiment = scheme.experiment(seed);
    let whole = experiment.duration;
    let run = |part: Time| {
        let mut beginning = experiment.clone();
        let drain = if part < whole { Time::ZERO } else { experiment.drain };
        (beginning.duration, beginning.drain, beginning.warmup) = (part, drain, Time::ZERO);
        (beginning.record.sample_every, beginning.record.capture) = (Time::ZERO, None);
        let begun = Instant::now();
        let outcome = host::run(&beginning, &mut |_| {});
        let failed = |problem| RunError::Workload { scheme: scheme.name.clone(), seed, problem };
        outcome.map_err(failed).map(|_| begun.elapsed().as_secs_f64())
    };
    let mut part = Time::from_ps((whole.as_ps() / FIRST_PART).max(1_000_000)).min(whole);
    let mut before = run(part)?;
    while part < whole {
        let longer = Time::from_ps(part.as_ps().saturating_mul(4)).min(whole);
        let now = run(longer)?;
        let more = (now - before).max(0.0);
        let rate = more / (longer - part).as_ps() as f64;
        (part, before) = (longer, now);
        if more >= ENOUGH_S {
            let drain = if longer < whole { experiment.drain } else { Time::ZERO };
            return Ok((now + rate * (whole - longer).saturating_add(drain).as_ps() as f64, longer));
        }
    }
    Ok((before, whole))
}

/// "40 s", "12 min", "3.5 h".
fn spoken(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "a second".to_owned(),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_reads_best() {
        for (seconds, text) in
            [(0.2, "a second"), (40.4, "40 s"), (2400.0, "40 min"), (9000.0, "2.5 h"), (1e6, "12 days")]
        {
            assert_eq!(spoken(seconds), text);
        }
    }
}
