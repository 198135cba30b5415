//! Schedules of paths from weights: the order in which a flow takes them, at most 256 slots.

use std::fmt;

/// The longest schedule, in slots; the most paths one can name.
pub const MAX_SCHEDULE: usize = 256;

/// Why weights make no schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScheduleError {
    /// No weight above zero, so no path to use; also for no weights at all.
    AllZero,
    /// A weight that is negative, infinite or not a number.
    Invalid { path: usize, weight: f64 },
    /// More paths with a weight above zero than slots.
    TooManyPaths { paths: usize },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ScheduleError::AllZero => f.write_str("no path has a weight above 0: give at least one"),
            ScheduleError::Invalid { path, weight } => {
                write!(f, "the weight of path {path} is {weight}: give a finite number, 0 or above")
            }
            ScheduleError::TooManyPaths { paths } => {
                write!(f, "{paths} paths have a weight above 0: a schedule holds at most {MAX_SCHEDULE}, set some to 0")
            }
        }
    }
}
impl std::error::Error for ScheduleError {}

/// The order in which successive flowcells take paths so that path `i` gets a share of `weights[i]` (Presto, section
/// 3.3: labels are repeated in the list). (1, 2, 1) and (.25, .5, .25) give 0, 1, 2, 1.
///
/// Slots: with `n_i` slots for path `i`, its copy `j` = 0, 1, ... gets the key `j / n_i`; slots are ordered by key, then
/// path. Counting copies from zero is what gives the paper's example: from one, or with midpoints, path 1 would come
/// first. Keys are compared as fractions, so no rounding decides.
///
/// Counts: the smallest that have the weights' proportions; if there are none up to [`MAX_SCHEDULE`] slots in all, that
/// many slots by largest remainder. A path of weight 0 is absent, any other gets at least one slot.
///
/// # Errors
/// See [`ScheduleError`].
pub fn schedule(weights: &[f64]) -> Result<Vec<usize>, ScheduleError> {
    let counts = slot_counts(weights)?;
    let mut slots: Vec<(u64, u64, usize)> = Vec::with_capacity(MAX_SCHEDULE);
    for (path, &n) in counts.iter().enumerate() {
        slots.extend((0..n).map(|j| (j, n, path)));
    }
    slots.sort_by(|&(j, n, path), &(k, m, other)| (j * m).cmp(&(k * n)).then(path.cmp(&other)));
    Ok(slots.into_iter().map(|(_, _, path)| path).collect())
}

fn slot_counts(weights: &[f64]) -> Result<Vec<u64>, ScheduleError> {
    if let Some((path, &weight)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
        return Err(ScheduleError::Invalid { path, weight });
    }
    let paths = weights.iter().filter(|&&w| w > 0.0).count();
    if paths == 0 {
        return Err(ScheduleError::AllZero);
    }
    if paths > MAX_SCHEDULE {
        return Err(ScheduleError::TooManyPaths { paths });
    }
    // First by the largest, so that the sum is finite.
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|w| w / largest).sum();
    let shares: Vec<f64> = weights.iter().map(|w| w / largest / sum).collect();

    // Weights come as decimals (0.1, 0.33) or quotients; this is far above their error and far below half a slot.
    const NEAR: f64 = 1e-6;
    let fits = |slots: usize| {
        shares.iter().zip(weights).all(|(share, &weight)| {
            let exact = share * slots as f64;
            let count = exact.round();
            (exact - count).abs() <= NEAR && (count >= 1.0 || weight == 0.0)
        })
    };
    if let Some(slots) = (paths..=MAX_SCHEDULE).find(|&slots| fits(slots)) {
        return Ok(shares.iter().map(|share| (share * slots as f64).round() as u64).collect());
    }
    Ok(largest_remainder(&shares, weights))
}

fn largest_remainder(shares: &[f64], weights: &[f64]) -> Vec<u64> {
    let exact: Vec<f64> = shares.iter().map(|share| share * MAX_SCHEDULE as f64).collect();
    let least = |path: usize| u64::from(weights[path] > 0.0);
    let mut counts: Vec<u64> = exact.iter().enumerate().map(|(path, x)| (*x as u64).max(least(path))).collect();
    let lack = |path: usize, counts: &[u64]| exact[path] - counts[path] as f64;
    loop {
        // The first of equals, both ways, so that the result does not depend on the order of evaluation.
        let candidates = (0..counts.len()).filter(|&path| weights[path] > 0.0);
        match counts.iter().sum::<u64>().cmp(&(MAX_SCHEDULE as u64)) {
            std::cmp::Ordering::Equal => return counts,
            std::cmp::Ordering::Less => {
                let poorest = candidates.rev().max_by(|&a, &b| lack(a, &counts).total_cmp(&lack(b, &counts)));
                let Some(path) = poorest else { return counts };
                counts[path] += 1;
            }
            std::cmp::Ordering::Greater => {
                let shrinkable = candidates.filter(|&path| counts[path] > 1);
                let Some(path) = shrinkable.min_by(|&a, &b| lack(a, &counts).total_cmp(&lack(b, &counts))) else {
                    return counts;
                };
                counts[path] -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tables_of_the_specification() {
        for (weights, expected) in [
            (&[1.0, 2.0, 1.0][..], &[0, 1, 2, 1][..]),
            (&[0.25, 0.5, 0.25], &[0, 1, 2, 1]),
            (&[1.0, 3.0], &[0, 1, 1, 1]),
            (&[1.0, 0.0, 1.0], &[0, 2]),
            (&[1.0, 1.0, 1.0, 1.0], &[0, 1, 2, 3]),
            (&[5.0], &[0]),
            (&[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], &[0, 1, 2]),
            (&[2.0, 3.0], &[0, 1, 1, 0, 1]),
            (&[0.1, 0.2, 0.3], &[0, 1, 2, 2, 1, 2]),
            (&[f64::MAX, f64::MAX], &[0, 1]),
        ] {
            assert_eq!(schedule(weights).as_deref(), Ok(expected), "{weights:?}");
        }
    }

    #[test]
    fn weights_that_make_no_schedule() {
        assert_eq!(schedule(&[]), Err(ScheduleError::AllZero));
        assert_eq!(schedule(&[0.0, 0.0, -0.0]), Err(ScheduleError::AllZero));
        assert_eq!(schedule(&[1.0, -0.5]), Err(ScheduleError::Invalid { path: 1, weight: -0.5 }));
        assert_eq!(schedule(&[f64::INFINITY]), Err(ScheduleError::Invalid { path: 0, weight: f64::INFINITY }));
        assert!(matches!(schedule(&[1.0, f64::NAN]), Err(ScheduleError::Invalid { path: 1, .. })));
        assert_eq!(schedule(&[1.0; 257]), Err(ScheduleError::TooManyPaths { paths: 257 }));
        assert_eq!(schedule(&[1.0; 256]).unwrap().len(), 256);
        let text = ScheduleError::Invalid { path: 1, weight: -0.5 }.to_string();
        assert_eq!(text, "the weight of path 1 is -0.5: give a finite number, 0 or above");
    }

    #[test]
    fn awkward_weights_fill_the_longest_schedule() {
        let slots = schedule(&[1e-9, 1.0]).unwrap();
        assert_eq!((slots.len(), slots.iter().filter(|&&path| path == 0).count()), (256, 1));
        let slots = schedule(&[1.0, std::f64::consts::PI]).unwrap();
        assert_eq!((slots.len(), slots.iter().filter(|&&path| path == 0).count()), (256, 62), "256 / (1 + pi) = 61.8");
        // 255 paths that need their slot although they deserve none.
        let mut weights = [1e-6; 256];
        weights[7] = 1.0;
        assert_eq!(schedule(&weights).unwrap().len(), 256);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn small_integer_weights_are_kept_exactly_and_spread(weights in prop::collection::vec(0u32..9, 1..12)) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let as_float: Vec<f64> = weights.iter().map(|&w| f64::from(w)).collect();
            let slots = schedule(&as_float).unwrap();
            let total: u32 = weights.iter().sum();
            for (path, &weight) in weights.iter().enumerate() {
                let at: Vec<usize> = (0..slots.len()).filter(|&s| slots[s] == path).collect();
                prop_assert_eq!(at.len() as u32 * total, weight * slots.len() as u32);
                // A path's copies are a period apart, give or take one slot per other path.
                for pair in at.windows(2) {
                    let period = slots.len() as f64 / at.len() as f64;
                    prop_assert!((pair[1] - pair[0]) as f64 <= period + weights.len() as f64);
                }
            }
        }

        #[test]
        fn any_weights_are_bounded_and_near(weights in prop::collection::vec(0.0f64..1e3, 1..40)) {
            prop_assume!(weights.iter().any(|&w| w > 0.0));
            let slots = schedule(&weights).unwrap();
            prop_assert!(slots.len() <= MAX_SCHEDULE);
            let sum: f64 = weights.iter().sum();
            for (path, weight) in weights.iter().enumerate() {
                let share = slots.iter().filter(|&&p| p == path).count() as f64 / slots.len() as f64;
                prop_assert_eq!(share > 0.0, *weight > 0.0);
                // Every other path may claim one slot that it does not deserve.
                prop_assert!((share - weight / sum).abs() <= weights.len() as f64 / 256.0);
            }
        }
    }
}
