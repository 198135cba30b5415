//! Fairness of flows while others join and leave.

use super::jain;
use crate::outcome::{FlowRecord, Outcome};
use units::Time;

/// What the last two thirds of each step of a [`crate::workload::Pattern::Staircase`] show; the first third is left to
/// the flows to find their shares.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Steps {
    /// Per step: Jain's index in each sampling interval, the mean over them.
    pub jain: Vec<f64>,
    /// Per step and flow: its rate in multiples of the equal share.
    pub shares: Vec<f64>,
    /// Per step and flow: standard deviation of its rate over sampling intervals in multiples of the equal share.
    pub deviations: Vec<f64>,
    /// Per step: all flows together.
    pub gbps: Vec<f64>,
}

/// `None` if the run had no such workload in `class`, or no series that are fine enough.
pub(super) fn steps(outcome: &Outcome, class: u16, warmup: Time) -> Option<Steps> {
    let bounds = outcome.steps.get(usize::from(class))?;
    let every = outcome.sample_every;
    if bounds.len() < 2 || every == Time::ZERO {
        return None;
    }
    let instants = outcome.ports.iter().map(|p| p.queue_series.len()).max()?;
    let mut steps = Steps::default();
    for (from, to) in bounds.iter().zip(&bounds[1..]) {
        let settled = Time::from_ps(from.as_ps() + (to.as_ps() - from.as_ps()) / 3).saturating_sub(warmup);
        let first = settled.as_ps().div_ceil(every.as_ps()) as usize;
        let last = (to.saturating_sub(warmup).as_ps() / every.as_ps()) as usize;
        if *from < warmup || first >= last || last > instants {
            return None;
        }
        let present = |f: &&FlowRecord| {
            f.class == class && f.size.is_none() && f.start <= *from && f.finish.is_none_or(|at| at >= *to)
        };
        let rates: Vec<Vec<f64>> = outcome
            .flows
            .iter()
            .filter(present)
            .map(|f| {
                let series = outcome.goodput_series.iter().find(|(flow, _)| *flow == f.id).map(|(_, s)| s.as_slice());
                let series = series.unwrap_or_default();
                let at = |n: usize| n.checked_sub(instants - series.len().min(instants)).and_then(|n| series.get(n));
                (first..last).map(|n| at(n).map_or(0.0, |&b| b as f64 * 8.0 / every.as_ps() as f64 * 1e3)).collect()
            })
            .collect();
        let means: Vec<f64> = rates.iter().map(|r| mean(r)).collect();
        let total: f64 = means.iter().sum();
        let fair = total / rates.len() as f64;
        if rates.is_empty() || total <= 0.0 {
            return None;
        }
        let each: Vec<f64> =
            (0..last - first).filter_map(|n| jain(&rates.iter().map(|r| r[n]).collect::<Vec<_>>())).collect();
        steps.jain.push(mean(&each));
        steps.shares.extend(means.iter().map(|m| m / fair));
        steps.deviations.extend(
            rates
                .iter()
                .zip(&means)
                .map(|(r, m)| mean(&r.iter().map(|x| (x - m).powi(2)).collect::<Vec<_>>()).sqrt() / fair),
        );
        steps.gbps.push(total);
    }
    Some(steps)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
