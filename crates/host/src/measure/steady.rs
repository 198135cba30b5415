//! Steadiness of a workload's rate.

use crate::outcome::{FlowRecord, Outcome};
use units::Time;

/// Of all endless flows together, over windows of one length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Steady {
    /// Standard deviation over the mean.
    pub cov: f64,
    /// The slowest window over the mean.
    pub least: f64,
}

/// `None` without series that divide the window, or with fewer than two windows in the measured part. Several runs: the
/// mean of the deviations, the least of the least.
pub(super) fn steady(outcomes: &[&Outcome], which: &dyn Fn(&FlowRecord) -> bool, window: Time) -> Option<Steady> {
    let each: Vec<Steady> = outcomes.iter().map(|o| of_run(o, which, window)).collect::<Option<_>>()?;
    let first = each.first()?;
    let cov = each.iter().map(|s| s.cov).sum::<f64>() / each.len() as f64;
    Some(Steady { cov, least: each.iter().map(|s| s.least).fold(first.least, f64::min) })
}

fn of_run(outcome: &Outcome, which: &dyn Fn(&FlowRecord) -> bool, window: Time) -> Option<Steady> {
    let every = outcome.sample_every.as_ps();
    if every == 0 || window.as_ps() % every != 0 {
        return None;
    }
    let per_window = (window.as_ps() / every) as usize;
    let of_flow = |id: u32| outcome.flows.get(id as usize).is_some_and(|f| f.size.is_none() && which(f));
    let series = || outcome.goodput_series.iter().filter(|(id, _)| of_flow(*id)).map(|(_, series)| series);
    // Series end together; a flow that began later has a shorter one.
    let length = series().map(Vec::len).max()?;
    let mut total = vec![0u64; length];
    for one in series() {
        let offset = length - one.len();
        one.iter().enumerate().for_each(|(n, bytes)| total[offset + n] += bytes);
    }
    let windows: Vec<f64> = total.chunks_exact(per_window).map(|w| w.iter().sum::<u64>() as f64).collect();
    let mean = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
    if windows.len() < 2 || mean <= 0.0 {
        return None;
    }
    let variance = windows.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / windows.len() as f64;
    let least = windows.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Steady { cov: variance.sqrt() / mean, least: least / mean })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(series: &[&[u64]]) -> Outcome {
        let flow = |id: usize| FlowRecord { id: id as u32, ..FlowRecord::endless() };
        Outcome {
            flows: (0..series.len()).map(flow).collect(),
            goodput_series: series.iter().enumerate().map(|(id, s)| (id as u32, s.to_vec())).collect(),
            sample_every: Time::from_ms(5),
            ..Outcome::default()
        }
    }

    #[test]
    fn flows_are_taken_together_and_windows_whole() {
        let run = outcome(&[&[1, 3, 2, 2, 5, 7, 9], &[2, 2, 1, 1, 0]]);
        // Windows of 10 ms: 1 + 3, 2 + 2 + 2 + 2, 5 + 1 + 7 + 1; the last interval fills none.
        let s = steady(&[&run], &|_| true, Time::from_ms(10)).unwrap();
        let (mean, deviation) = (
            26.0 / 3.0,
            (((4.0f64 - 26.0 / 3.0).powi(2) + (8.0f64 - 26.0 / 3.0).powi(2) + (14.0f64 - 26.0 / 3.0).powi(2)) / 3.0)
                .sqrt(),
        );
        assert!((s.cov - deviation / mean).abs() < 1e-12 && (s.least - 4.0 / mean).abs() < 1e-12, "{s:?}");
        let alone = steady(&[&run, &run], &|f| f.id == 1, Time::from_ms(5)).unwrap();
        assert_eq!(alone.least, 0.0);
    }

    #[test]
    fn there_is_no_answer_without_windows() {
        let run = outcome(&[&[1, 2, 3]]);
        assert_eq!(steady(&[&run], &|_| true, Time::from_ms(10)), None, "one window");
        assert_eq!(steady(&[&run], &|_| true, Time::from_ms(7)), None, "no whole intervals");
        assert_eq!(steady(&[&run], &|_| false, Time::from_ms(5)), None, "no flow");
        assert_eq!(steady(&[], &|_| true, Time::from_ms(5)), None);
    }
}
