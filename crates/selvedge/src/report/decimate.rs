//! Samples to drawable curves of bounded size.

use std::collections::BTreeSet;

use super::data::{Cdf, Series};

/// Most points that a CDF keeps.
pub(super) const MAX_CDF_POINTS: usize = 500;
/// Most steps that a time series keeps.
pub(super) const MAX_STEPS: usize = 200;

/// Points spent evenly over the ranks. The slowest tenth gets more: each is a tenth closer to the maximum than the one
/// before, which is 190 points at a thousand million samples.
const BODY_POINTS: u64 = 300;

impl Cdf {
    /// The distribution of `samples` (any order, in `unit`) and of `censored` further samples of which only their
    /// existence is known: flows unfinished at the end. Those count as larger than every observed sample, so the curve
    /// ends below 1 and a percentile that falls among them is `None`. Samples that are not finite are ignored.
    ///
    /// Percentiles are nearest-rank over all samples. One that too few samples carry is `None`: p99 below
    /// 100 samples, p99.9 below 10,000.
    pub fn from_samples(unit: &str, mut samples: Vec<f64>, censored: u64) -> Cdf {
        samples.retain(|x| x.is_finite());
        samples.sort_by(f64::total_cmp);
        let count = samples.len() as u64;
        let total = count + censored;
        let percentile = |per_mille: u64, least: u64| {
            let rank = nearest_rank(total, per_mille);
            if total < least || rank > count {
                return None;
            }
            samples.get((rank - 1) as usize).copied()
        };
        let points = kept_ranks(count, total)
            .into_iter()
            .map(|rank| [significant(samples[(rank - 1) as usize]), rank as f64 / total as f64])
            .collect();
        Cdf {
            unit: unit.to_owned(),
            count,
            censored,
            points,
            p50: percentile(500, 1),
            p99: percentile(990, 100),
            p999: percentile(999, 10_000),
        }
    }
}

/// 1-based nearest rank of a percentile given in 1/1000.
fn nearest_rank(total: u64, per_mille: u64) -> u64 {
    (u128::from(total) * u128::from(per_mille)).div_ceil(1000).max(1) as u64
}

/// The 1-based ranks that a CDF of `count` observed samples keeps: the first, the last, the usual percentiles, an even
/// spread over the body and a geometric one towards the maximum.
fn kept_ranks(count: u64, total: u64) -> BTreeSet<u64> {
    if count <= MAX_CDF_POINTS as u64 {
        return (1..=count).collect();
    }
    let mut ranks = BTreeSet::from([1, count]);
    ranks
        .extend((0..BODY_POINTS).map(|i| 1 + (u128::from(count - 1) * u128::from(i) / u128::from(BODY_POINTS)) as u64));
    let mut above = count / 10;
    while above > 0 {
        ranks.insert(count - above);
        above = above * 9 / 10;
    }
    ranks.extend([500, 900, 990, 999].map(|p| nearest_rank(total, p)).into_iter().filter(|&r| r <= count));
    ranks
}

impl Series {
    /// `values` at steps of `step_ms` from `start_ms`, thinned to at most 200 by averaging whole groups of
    /// neighbours, so that the mean is kept (the last group may be shorter). Values that are not finite count as 0.
    pub fn new(start_ms: f64, step_ms: f64, values: &[f64]) -> Series {
        let group = values.len().div_ceil(MAX_STEPS).max(1);
        let values = values
            .chunks(group)
            .map(|chunk| {
                let sum: f64 = chunk.iter().filter(|v| v.is_finite()).sum();
                significant(sum / chunk.len() as f64)
            })
            .collect();
        Series { start_ms, step_ms: step_ms * group as f64, values }
    }
}

/// `x` to five significant digits: more would only make the page larger.
fn significant(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, ..., n in a scrambled order.
    fn ramp(n: u64) -> Vec<f64> {
        // 7919 is prime and divides no n used here, so that this is a permutation.
        (0..n).map(|i| (i * 7919 % n + 1) as f64).collect()
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let cdf = Cdf::from_samples("ms", ramp(10_000), 0);
        assert_eq!((cdf.p50, cdf.p99, cdf.p999), (Some(5000.0), Some(9900.0), Some(9990.0)));
        let odd = Cdf::from_samples("ms", vec![3.0, 1.0, 2.0], 0);
        assert_eq!(odd.p50, Some(2.0));
        assert_eq!(odd.points, vec![[1.0, 1.0 / 3.0], [2.0, 2.0 / 3.0], [3.0, 1.0]]);
    }

    #[test]
    fn percentiles_need_their_samples() {
        let few = Cdf::from_samples("ms", ramp(99), 0);
        assert_eq!((few.p50, few.p99, few.p999), (Some(50.0), None, None));
        assert_eq!(Cdf::from_samples("ms", ramp(9_999), 0).p999, None);
        assert_eq!(Cdf::from_samples("ms", vec![], 0).p50, None);
    }

    #[test]
    fn decimation_keeps_first_last_and_p999() {
        for n in [501, 10_000, 1_000_000] {
            let cdf = Cdf::from_samples("ms", ramp(n), 0);
            assert!(cdf.points.len() <= MAX_CDF_POINTS, "{n}: {} points", cdf.points.len());
            assert_eq!(cdf.points[0], [1.0, 1.0 / n as f64]);
            assert_eq!(*cdf.points.last().unwrap(), [n as f64, 1.0]);
            let rank = (n * 999).div_ceil(1000);
            assert!(cdf.points.iter().any(|p| p[1] == rank as f64 / n as f64), "{n}: p99.9 is lost");
            assert!(cdf.points.windows(2).all(|w| w[0][0] <= w[1][0] && w[0][1] < w[1][1]), "{n}: not ascending");
            // The curve between kept points is never far off: no gap over 1/250, and in the slowest thousandth a
            // resolution of a tenth.
            assert!(cdf.points.windows(2).all(|w| w[1][1] - w[0][1] < 1.0 / 250.0), "{n}: gap in the body");
            let tail = cdf.points.iter().filter(|p| p[1] >= 0.999).count() as u64;
            assert!(tail >= (n / 1000).min(20), "{n}: {tail} points in the tail");
        }
    }

    #[test]
    fn unfinished_flows_lower_the_curve() {
        let cdf = Cdf::from_samples("ms", ramp(900), 100);
        assert_eq!((cdf.count, cdf.censored), (900, 100));
        assert_eq!(*cdf.points.last().unwrap(), [900.0, 0.9]);
        assert_eq!(cdf.p50, Some(500.0));
        assert_eq!(cdf.p99, None, "p99 lies among the unfinished flows");
    }

    #[test]
    fn samples_that_are_not_finite_are_ignored() {
        let cdf = Cdf::from_samples("ms", vec![f64::NAN, 2.0, f64::INFINITY, 1.0], 0);
        assert_eq!(cdf.points, vec![[1.0, 0.5], [2.0, 1.0]]);
    }

    #[test]
    fn series_keep_their_mean() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i % 10)).collect();
        let series = Series::new(5.0, 0.1, &values);
        assert_eq!(series.values.len(), 200);
        assert_eq!((series.start_ms, series.step_ms), (5.0, 0.5));
        let mean = series.values.iter().sum::<f64>() / 200.0;
        assert!((mean - 4.5).abs() < 1e-9, "{mean}");
        assert_eq!(Series::new(0.0, 1.0, &[]).values, Vec::<f64>::new());
        assert_eq!(Series::new(0.0, 1.0, &[f64::NAN, 2.0]).values, vec![0.0, 2.0]);
    }
}
