//! How alike pairs of hosts fare: the mean completion time of each pair's flows.

use crate::outcome::{FlowRecord, Outcome};
use std::collections::BTreeMap;

/// Flows that each pair must have finished for its mean to say something.
const FLOWS: usize = 10;

/// Mean completion times over the pairs of one run, milliseconds.
pub(super) struct Pairs {
    pub max: f64,
    /// Of the whole population: divided by the number of pairs.
    pub deviation: f64,
}

/// Of the finished flows that `which` picks. `None` with one pair, or if a pair finished too few.
pub(super) fn pairs(run: &Outcome, which: &dyn Fn(&FlowRecord) -> bool) -> Option<Pairs> {
    let mut of: BTreeMap<(u32, u32), (usize, f64)> = BTreeMap::new();
    for f in run.flows.iter().filter(|f| which(f)) {
        let (count, sum) = of.entry((f.src, f.dst)).or_default();
        if let Some(finish) = f.finish {
            *count += 1;
            *sum += finish.saturating_sub(f.start).as_ms_f64();
        }
    }
    if of.len() < 2 || of.values().any(|&(count, _)| count < FLOWS) {
        return None;
    }
    let means: Vec<f64> = of.values().map(|&(count, sum)| sum / count as f64).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / means.len() as f64;
    Some(Pairs { max: means.iter().copied().fold(0.0, f64::max), deviation: variance.sqrt() })
}
