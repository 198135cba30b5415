//! Metrics of a point without one of its seeds.

use crate::results::{metric, Results, SchemeResults};
use host::measure::Summary;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Metrics of all seeds but one, each point and scheme computed once for each seed that is left out.
#[derive(Default)]
pub(super) struct Summaries(RefCell<BTreeMap<(usize, String, String), Summary>>);

impl Summaries {
    /// Without `seed`, of a scheme at the point of that label.
    pub(super) fn metric(
        &self,
        label: &str,
        results: &Results,
        scheme: &SchemeResults,
        seed: usize,
        name: &str,
    ) -> Option<f64> {
        let key = (seed, label.to_owned(), scheme.name.clone());
        let mut known = self.0.borrow_mut();
        let summary = known.entry(key).or_insert_with(|| scheme.without(seed, &results.plan.scenario));
        metric(summary, name)
    }
}
