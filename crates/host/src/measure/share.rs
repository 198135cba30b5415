//! How long a workload that begins among others takes to its share.

use crate::outcome::{FlowRecord, Outcome};
use units::Time;

/// A window is within this part of the share.
const SLACK: f64 = 0.2;

/// Seconds from the start of the first endless flow that `which` picks until, in every later window, these flows have an equal share
/// within a fifth: of what all endless flows have in the median window from then on. Infinite if they never have. The mean over the runs; `None` unless
/// each run has such flows that begin in the measured part beside others, and series that divide the window.
pub(super) fn settled_s(
    outcomes: &[&Outcome],
    which: &dyn Fn(&FlowRecord) -> bool,
    warmup: Time,
    window: Time,
) -> Option<f64> {
    let each: Vec<f64> = outcomes.iter().map(|o| of_run(o, which, warmup, window)).collect::<Option<_>>()?;
    (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
}

fn of_run(outcome: &Outcome, which: &dyn Fn(&FlowRecord) -> bool, warmup: Time, window: Time) -> Option<f64> {
    let every = outcome.sample_every.as_ps();
    if every == 0 || window.as_ps() % every != 0 {
        return None;
    }
    let per_window = (window.as_ps() / every) as usize;
    let endless = || outcome.flows.iter().filter(|f| f.size.is_none() && f.finish.is_none());
    let (own, all) = (endless().filter(|f| which(f)).count(), endless().count());
    let start = endless().filter(|f| which(f)).map(|f| f.start).min()?;
    if own == all || start < warmup {
        return None;
    }
    // Series end together; a flow that began later has a shorter one.
    let length = outcome.goodput_series.iter().map(|(_, s)| s.len()).max()?;
    let (mut mine, mut total) = (vec![0u64; length], vec![0u64; length]);
    for flow in endless() {
        let Some((_, series)) = outcome.goodput_series.iter().find(|(id, _)| *id == flow.id) else { continue };
        let offset = length - series.len();
        for (n, bytes) in series.iter().enumerate() {
            total[offset + n] += bytes;
            mine[offset + n] += if which(flow) { *bytes } else { 0 };
        }
    }
    let sums = |s: &[u64]| s.chunks_exact(per_window).map(|w| w.iter().sum::<u64>() as f64).collect::<Vec<f64>>();
    let (mine, total) = (sums(&mine), sums(&total));
    let first = (start - warmup).as_ps().div_ceil(window.as_ps()) as usize;
    // A window in which a hole of TCP's fills has more than the link carries.
    let mut later = total.get(first..)?.to_vec();
    later.sort_by(f64::total_cmp);
    let fair = later.get(later.len() / 2)? * own as f64 / all as f64;
    if fair <= 0.0 {
        return None;
    }
    let outside = |n: &usize| (mine[*n] / fair - 1.0).abs() > SLACK;
    let settled = (first..mine.len()).rev().find(outside).map_or(first, |last| last + 1);
    if settled >= mine.len() {
        return Some(f64::INFINITY);
    }
    let at = warmup + window * settled as u64;
    Some(at.saturating_sub(start).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_ms(1);

    /// A flow from the beginning, and one from 20 ms on, in windows of 10 ms that begin at 10 ms.
    fn run(first: &[u64], second: &[u64]) -> Option<f64> {
        let flow = |id: u32, start: Time| FlowRecord { id, start, ..FlowRecord::endless() };
        let outcome = Outcome {
            flows: vec![flow(0, Time::ZERO), flow(1, MS * 20)],
            goodput_series: vec![(0, first.to_vec()), (1, second.to_vec())],
            sample_every: MS * 5,
            ..Outcome::default()
        };
        settled_s(&[&outcome], &|f| f.id == 1, MS * 10, MS * 10)
    }

    #[test]
    fn a_flow_has_settled_when_it_stays_within_a_fifth() {
        let alone = [50, 50];
        let with = |rest: &[u64]| [&alone[..], rest].concat();
        // 41 to 59 of 100 in each later window.
        assert_eq!(run(&with(&[25, 25, 25, 25]), &[25, 25, 30, 25]), Some(0.0));
        assert_eq!(run(&with(&[50, 25, 25, 25, 25, 25]), &[0, 25, 25, 25, 20, 25]), Some(0.01));
        assert_eq!(run(&with(&[25, 25, 25, 25]), &[25, 25, 5, 25]), Some(f64::INFINITY), "it has lost it again");
    }

    #[test]
    fn only_a_newcomer_among_others_settles() {
        let flow = FlowRecord { start: MS * 20, ..FlowRecord::endless() };
        let series = vec![(0, vec![5, 5, 5, 5])];
        let outcome = Outcome { flows: vec![flow], goodput_series: series, sample_every: MS * 5, ..Outcome::default() };
        assert_eq!(settled_s(&[&outcome], &|_| true, MS * 10, MS * 10), None, "nobody else");
        assert_eq!(run(&[1, 1], &[1]), None, "no window");
        assert_eq!(settled_s(&[], &|_| true, MS, MS * 10), None);
    }
}
