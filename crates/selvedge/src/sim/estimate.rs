//! `sim run --estimate` and `sweep --estimate`: what the runs will take, before they are started.

use crate::run::RunError;
use crate::scenario::{Plan, SchemePlan};
use crate::Failure;
use host::experiment::Experiment;
use host::Begun;
use serde_json::json;
use std::time::Instant;
use units::Time;

/// The beginning of a run that takes so long tells how the rest will go, seconds.
const ENOUGH_S: f64 = 1.0;

/// A plan, of which so many seeds are to run with each scheme.
pub(crate) type Runs<'a> = (&'a Plan, usize);

/// All that a plan says.
pub(super) fn all(plan: &Plan) -> Vec<Runs<'_>> {
    vec![(plan, plan.scenario.seeds.0.len())]
}

/// Memory and time of the runs of all groups, one group after another, `threads` runs of a group at a time.
///
/// # Errors
/// A run that fails at once.
pub(crate) fn print(groups: &[Vec<Runs<'_>>], threads: usize, as_json: bool) -> Result<(), Failure> {
    let (mut seconds, mut runs, mut most, mut memory, mut measured) = (0.0, 0, 1, 0.0f64, Time::MAX);
    for group in groups {
        let here: usize = group.iter().map(|(plan, seeds)| plan.schemes.len() * seeds).sum();
        let at_once = threads.clamp(1, here.max(1));
        let mut one_by_one = 0.0;
        for &(plan, seeds) in group {
            for scheme in &plan.schemes {
                let (each, part) = trial(scheme, plan.scenario.seeds.0.first().copied().unwrap_or(1))?;
                one_by_one += each * seeds as f64;
                measured = measured.min(part);
            }
            // Runs of other plans stand beside those of one that has few.
            let planned = threads.clamp(1, (plan.schemes.len() * plan.scenario.seeds.0.len()).max(1));
            memory = memory.max(plan.memory() * at_once as f64 / planned as f64);
        }
        seconds += one_by_one / at_once as f64;
        runs += here;
        most = most.max(at_once);
    }
    if as_json {
        crate::say::json(&json!({"runs": runs, "threads": threads, "memory_bytes": memory, "seconds": seconds}));
        return Ok(());
    }
    say!("Memory: about {}, with {} at a time", crate::scenario::shown_bytes(memory), counted(most));
    let tried = format!("{:.3}ms", measured.as_ms_f64());
    let (time, runs) = (spoken(seconds), counted(runs));
    say!("Time: about {time} for {runs} on one thread each, by the first {tried} of a run of each scheme");
    Ok(())
}

fn counted(runs: usize) -> String {
    format!("{runs} run{}", if runs == 1 { "" } else { "s" })
}

/// Seconds that one run takes, and how much of it was tried. What comes before the first event, such as tables of routes, comes once.
#[allow(clippy::disallowed_methods)] // the time of a trial is what is wanted
fn trial(scheme: &SchemePlan, seed: u64) -> Result<(f64, Time), RunError> {
    let mut experiment = scheme.experiment(seed);
    (experiment.record.sample_every, experiment.record.capture) = (Time::ZERO, None);
    let started = Instant::now();
    let mut marks: Vec<(f64, Time)> = Vec::new();
    let tried = host::begin(&experiment, &mut |progress| {
        let spent = started.elapsed().as_secs_f64();
        marks.push((spent, progress.now));
        spent - marks[0].0 >= ENOUGH_S
    });
    let begun = tried.map_err(|problem| RunError::Workload { scheme: scheme.name.clone(), seed, problem })?;
    Ok(extrapolated(&marks, begun, crate::scenario::planned_bytes(&experiment), &experiment))
}

/// From (seconds, simulated time) at some moments of a trial, and from what the flows of bounded size are to carry: seconds of the whole,
/// and the simulated time that was tried.
fn extrapolated(marks: &[(f64, Time)], begun: Begun, planned: f64, experiment: &Experiment) -> (f64, Time) {
    let (Some(&first), Some(&last)) = (marks.first(), marks.last()) else { return (0.0, Time::ZERO) };
    if begun.ended || last.1 <= first.1 {
        return (last.0, last.1);
    }
    let half = (first.0 + last.0) / 2.0;
    let middle = marks.iter().copied().rfind(|mark| mark.0 <= half && mark.1 < last.1).unwrap_or(first);
    let by_time = |time: Time| (last.0 - middle.0) * time.as_ps() as f64 / (last.1 - middle.1).as_ps() as f64;
    let measured = by_time(experiment.duration.saturating_sub(last.1));
    // A drain ends when flows of bounded size have all that they are to carry; without such flows there is none.
    let end = experiment.duration.saturating_add(experiment.drain);
    let drain = by_time(end.saturating_sub(last.1.max(experiment.duration)));
    let left = planned - begun.delivered as f64;
    let carried = match (left > 0.0, begun.delivered) {
        (true, 0) => f64::INFINITY,
        (true, delivered) => (last.0 - first.0) * left / delivered as f64 - measured,
        // More than was thought, and it is not over.
        (false, _) if planned > 0.0 && last.1 >= experiment.duration => f64::INFINITY,
        (false, _) => 0.0,
    };
    (last.0 + measured + carried.clamp(0.0, drain), last.1)
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
    use crate::scenario::{Choice, Room};

    fn experiment(duration: Time, drain: Time) -> Experiment {
        let text = format!(
            "title = \"t\"\nduration = \"{}ms\"\ndrain = \"{}ms\"\nschemes = [\"s\"]\n[topology]\nkind = \"fat-tree\"\nk = 4\n\
             [scheme.s]\nbalance = \"ecmp\"\n[[workload]]\nname = \"w\"\npattern = \"stride\"\nk = 4\n",
            duration.as_ms_f64(),
            drain.as_ms_f64()
        );
        let document = config::Document::parse("s.toml", &text, "p").unwrap();
        Plan::within(&document, &Choice::default(), Room::default()).unwrap().schemes[0].experiment(1)
    }

    #[test]
    fn a_trial_tells_the_rest_by_its_second_half() {
        let ms = Time::from_ms;
        let (of, begun) = (experiment(ms(13), ms(0)), Begun { ended: false, delivered: 0 });
        // 5 s to begin with, then 0.25 s a millisecond, at last 0.5.
        let marks = [(5.0, ms(0)), (5.5, ms(2)), (6.0, ms(3))];
        let without_end = 0.0;
        assert_eq!(extrapolated(&marks, begun, without_end, &of), (11.0, ms(3)));
        assert_eq!(
            extrapolated(&marks, Begun { ended: true, ..begun }, without_end, &of),
            (6.0, ms(3)),
            "nothing left"
        );
        assert_eq!(extrapolated(&marks[..1], begun, without_end, &of), (5.0, ms(0)), "no step was made");
        let drained = experiment(ms(13), ms(1000));
        assert_eq!(extrapolated(&marks, begun, without_end, &drained), (11.0, ms(3)), "they are over before the drain");
    }

    #[test]
    fn a_drain_ends_when_flows_of_bounded_size_have_all() {
        let ms = Time::from_ms;
        // A second for 3 ms, which are two thirds of what is measured.
        let (of, marks) = (experiment(Time::from_us(4_500), ms(1_000)), [(5.0, ms(0)), (6.0, ms(3))]);
        let seconds = |delivered, planned| extrapolated(&marks, Begun { ended: false, delivered }, planned, &of).0;
        assert_eq!(seconds(100, 300.0), 8.0, "a second for 100 bytes");
        assert_eq!(seconds(100, 110.0), 6.5, "the run goes on when they have it");
        assert_eq!(seconds(400, 300.0), 6.5, "more than was thought");
        let all = 6.5 + 1_000.0 / 3.0;
        assert!((seconds(1, 1e9) - all).abs() < 1e-6, "as much as there is time for");
        assert!((seconds(0, 300.0) - all).abs() < 1e-6, "nothing has arrived");
        let late = [(5.0, ms(0)), (6.0, ms(5))];
        let begun = Begun { ended: false, delivered: 400 };
        let seconds = extrapolated(&late, begun, 300.0, &of).0;
        assert!(
            (seconds - (6.0 + 999.5 / 5.0)).abs() < 1e-6,
            "more than was thought, and not over in the drain: {seconds}"
        );
    }

    #[test]
    fn times_are_told_in_the_unit_that_reads_best() {
        for (seconds, text) in
            [(0.2, "a second"), (40.4, "40 s"), (2400.0, "40 min"), (9000.0, "2.5 h"), (1e6, "12 days")]
        {
            assert_eq!(spoken(seconds), text);
        }
    }
}
