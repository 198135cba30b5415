//! Whether a check is decided, by what it says with each seed.
//!
//! A comparison is decided if the interval of its margin over seeds lies on one side of zero. There are four looks, with more
//! seeds each; each look's interval covers 98.75%, so that all four together err in at most 5% of cases (Bonferroni).

use super::expression::Comparison;
use super::file::Check;
use super::judge::{values, At};
use crate::results::{metric, SchemeResults};

/// Seeds of each look, and the 0.99375 quantile of Student's t with one degree of freedom less.
pub(super) const LOOKS: [(usize, f64); 4] = [(5, 4.3147), (10, 3.1109), (20, 2.7586), (40, 2.6189)];

/// What is known of a check at one point; `None`: more seeds may tell.
pub(super) fn decided(check: &Check, at: &At, all: &[At]) -> Option<bool> {
    let seeds = at.results.schemes.first()?.each.len();
    let t = LOOKS.iter().find(|(of_look, _)| *of_look == seeds)?.1;
    let compare = |of: Source<'_>| check.holds.comparisons(&values(&check.holds, at, all, of)?).ok();
    let whole = compare(&|_, scheme, name| metric(&scheme.pooled, name))?;
    let each = |seed: usize| compare(&|_, scheme, name| metric(scheme.each.get(seed)?, name));
    let each: Option<Vec<Vec<Comparison>>> = (0..seeds).map(each).collect();
    let mut without: Option<Option<Vec<Vec<Comparison>>>> = None;
    let mut known = Vec::new();
    for (n, pooled) in whole.iter().enumerate() {
        let of = |replicas: &[Vec<Comparison>]| {
            one(&replicas.iter().filter_map(|said| said.get(n).copied()).collect::<Vec<_>>(), t)
        };
        let mut pseudo = || of(without.get_or_insert_with(|| leave_out(check, at, all, &whole, seeds)).as_ref()?);
        known.push(match each.as_deref() {
            Some(each) => agreed(of(each), pooled.holds, pseudo),
            None => pseudo(),
        });
    }
    outcome(check, &known)
}

/// What is known of a check by what is known of its comparisons, in their order.
pub(super) fn outcome(check: &Check, known: &[Option<bool>]) -> Option<bool> {
    let with = |unknown: bool| {
        let outcomes: Vec<bool> = known.iter().map(|known| known.unwrap_or(unknown)).collect();
        check.holds.holds_if(&outcomes).ok()
    };
    let (low, high) = (with(false)?, with(true)?);
    (low == high).then_some(low)
}

/// What the seeds say one by one counts, unless all of them together say otherwise. That happens where a check bounds a distance:
/// noise makes it larger in single seeds. Then what they say without each in turn has to agree with all.
fn agreed(each: Option<bool>, pooled: bool, without: impl FnOnce() -> Option<bool>) -> Option<bool> {
    match each {
        Some(each) if each != pooled => without().filter(|without| *without == pooled),
        each => each,
    }
}

/// One comparison, over seeds.
fn one(said: &[Comparison], t: f64) -> Option<bool> {
    let n = said.len() as f64;
    let mean = said.iter().map(|one| one.margin).sum::<f64>() / n;
    let squares: f64 = said.iter().map(|one| (one.margin - mean) * (one.margin - mean)).sum();
    by_interval(said, t * (squares / (n - 1.0) / n).sqrt())
}

/// One comparison, by half of the interval of its mean margin.
pub(super) fn by_interval(said: &[Comparison], half_width: f64) -> Option<bool> {
    let first = said.first()?;
    if said.iter().all(|one| one.holds == first.holds && !one.margin.is_finite()) {
        return Some(first.holds);
    }
    let mean = said.iter().map(|one| one.margin).sum::<f64>() / said.len() as f64;
    if !(mean.is_finite() && half_width.is_finite()) {
        return None;
    }
    if half_width == 0.0 && mean == 0.0 {
        return Some(first.holds); // equal with every seed: the operator decides
    }
    (mean.abs() > half_width).then_some(mean > 0.0)
}

/// What the comparisons say of all seeds but one, in turn (jackknife): margins are its pseudo-values, about the margin of all seeds. Also for
/// a metric that no single seed has, such as a far percentile.
fn leave_out(check: &Check, at: &At, all: &[At], whole: &[Comparison], seeds: usize) -> Option<Vec<Vec<Comparison>>> {
    let compare = |of: Source<'_>| check.holds.comparisons(&values(&check.holds, at, all, of)?).ok();
    let n = seeds as f64;
    let pseudo = |seed: usize| {
        let left = compare(&|at, scheme, name| metric(scheme.without(seed, &at.results.plan.scenario)?, name))?;
        let margins = whole.iter().zip(&left).map(|(whole, left)| {
            let margin = n * whole.margin - (n - 1.0) * left.margin;
            Comparison { margin: if margin.is_nan() { left.margin } else { margin }, holds: left.holds }
        });
        Some(margins.collect())
    };
    Some(centred((0..seeds).map(pseudo).collect::<Option<Vec<_>>>()?, whole))
}

/// Pseudo-values tell how far a margin varies. Their mean also corrects a bias, and of a percentile it is no estimate of any: one
/// sample more or less below the rank decides it, times the number of seeds.
fn centred(mut replicas: Vec<Vec<Comparison>>, whole: &[Comparison]) -> Vec<Vec<Comparison>> {
    for (n, pooled) in whole.iter().enumerate() {
        let margins: Vec<f64> = replicas.iter().filter_map(|said| said.get(n)).map(|one| one.margin).collect();
        let off = pooled.margin - margins.iter().sum::<f64>() / margins.len() as f64;
        if off.is_finite() {
            replicas.iter_mut().filter_map(|said| said.get_mut(n)).for_each(|one| one.margin += off);
        }
    }
    replicas
}

/// A metric of a scheme at a point.
type Source<'a> = &'a dyn Fn(&At, &SchemeResults, &str) -> Option<f64>;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(margins: &[f64]) -> Vec<Comparison> {
        margins.iter().map(|margin| Comparison { margin: *margin, holds: *margin >= 0.0 }).collect()
    }

    #[test]
    fn an_interval_on_one_side_decides() {
        let t = LOOKS[0].1;
        assert_eq!(one(&said(&[1.0, 1.1, 0.9, 1.0, 1.05]), t), Some(true));
        assert_eq!(one(&said(&[-1.0, -1.1, -0.9, -1.0, -1.05]), t), Some(false));
        assert_eq!(one(&said(&[1.0, -0.4, 0.9, 0.1, 0.3]), t), None);
        assert_eq!(one(&said(&[0.0; 5]), t), Some(true), "at the bar with every seed");
        assert_eq!(one(&said(&[f64::INFINITY; 5]), t), Some(true));
        assert_eq!(one(&said(&[f64::INFINITY, 1.0, 1.0, 1.0, 1.0]), t), None);
    }

    #[test]
    fn pseudo_values_vary_about_what_all_seeds_say() {
        let whole = said(&[2.0, f64::INFINITY]);
        let margins =
            |replicas: &[Vec<Comparison>], n: usize| replicas.iter().map(|of| of[n].margin).collect::<Vec<_>>();
        let replicas = centred([-3.0, -1.0, 1.0].map(|margin| said(&[margin, 1.0])).into(), &whole);
        assert_eq!(margins(&replicas, 0), [0.0, 2.0, 4.0], "as far from one another as before");
        assert_eq!(margins(&replicas, 1), [1.0; 3], "nothing is about what has no end");
        assert!(replicas.iter().all(|of| !of[0].holds || of[0].margin > 2.0), "and what held with a seed less is kept");
    }

    #[test]
    fn seeds_one_by_one_do_not_outvote_all_together() {
        let never = || -> Option<bool> { panic!("not asked") };
        assert_eq!(agreed(Some(true), true, never), Some(true));
        assert_eq!(agreed(None, true, never), None);
        // Four seeds, each 8% to one side or the other of equal means, where 5% are allowed.
        assert_eq!(agreed(Some(false), true, || Some(true)), Some(true));
        assert_eq!(agreed(Some(false), true, || Some(false)), None);
        assert_eq!(agreed(Some(true), false, || None), None);
    }

    #[test]
    fn quantiles_are_those_of_students_t() {
        for (seeds, t) in LOOKS {
            let df = (seeds - 1) as f64;
            // The density without its constant factor, by the midpoint rule, below t and beyond.
            let density = |x: f64| (1.0 + x * x / df).powf(-(df + 1.0) / 2.0);
            let area = |from: f64, to: f64| {
                let n = 100_000;
                let step = (to - from) / f64::from(n);
                (0..n).map(|k| density(from + (f64::from(k) + 0.5) * step)).sum::<f64>() * step
            };
            let (below, beyond) = (area(0.0, t), area(t, 400.0));
            let tail = beyond / (2.0 * (below + beyond));
            assert!((tail - 0.00625).abs() < 2e-5, "{seeds} seeds: {tail}");
        }
    }
}
