//! What experiments take: processor time, measured or expected.

use super::decide::LOOKS;
use super::file::{Experiment, Mode};
use config::ConfigError;
use std::time::Duration;

/// Seconds of processor time for a second in which a host could send one gigabit a second: a rough mean over the papers' scenarios.
pub(super) const TYPICAL: f64 = 0.03;

/// Simulated seconds times hosts times their gigabits a second, of the runs at the `wanted` points: by what a run costs at most.
/// `seeds`: how many a point had, else as many as the mode has, which are those of the first look for a full run.
///
/// # Errors
/// A scenario that makes no sense at a point.
pub(super) fn work(
    experiment: &Experiment,
    mode: Mode,
    wanted: &dyn Fn(&str) -> bool,
    seeds: &dyn Fn(&str) -> Option<u64>,
) -> Result<f64, ConfigError> {
    let mut whole = 0.0;
    for point in experiment.points(mode, wanted)? {
        let scenario = &point.plan.scenario;
        let own = if mode == Mode::Full { LOOKS[0].0 } else { scenario.seeds.0.len() };
        let seconds = scenario.duration.saturating_add(scenario.drain).as_secs_f64();
        let carried: f64 = (point.plan.schemes.iter().map(|scheme| &scheme.template().topology))
            .map(|fabric| fabric.n_hosts() as f64 * fabric.links.first().map_or(1.0, |link| link.rate.as_gbps_f64()))
            .sum();
        whole += seconds * carried * seeds(&point.label).unwrap_or(own as u64) as f64;
    }
    Ok(whole)
}

/// Processor time of this process so far, all threads together.
pub(super) fn processor_time() -> Duration {
    nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// "40 s", "12 min", "3.5 h".
pub(super) fn spoken(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_follows_durations_and_seeds() {
        let (file, text) = super::super::embedded().find(|(file, _)| *file == "presto/fig6.toml").unwrap();
        let experiment = Experiment::parse(file, text).unwrap();
        let of = |seeds: Option<u64>| work(&experiment, Mode::Full, &|_| true, &|_| seeds).unwrap();
        let first = of(None);
        assert!(first > 0.0);
        assert!((of(Some(10)) / first - 2.0).abs() < 1e-9, "the first look has five seeds");
        let at = |label: &str| work(&experiment, Mode::Full, &|other| other == label, &|_| None).unwrap();
        let parts: f64 = experiment.labels().iter().map(|label| at(label)).sum();
        assert!((parts / first - 1.0).abs() < 1e-9, "each point has its part");
    }

    #[test]
    fn times_are_told_in_the_unit_that_reads_best() {
        for (seconds, text) in [(0.24, "0.2 s"), (40.4, "40 s"), (2400.0, "40 min"), (9000.0, "2.5 h")] {
            assert_eq!(spoken(seconds), text);
        }
    }
}
