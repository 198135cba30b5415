//! Distributions as points for drawing.

use super::Samples;

/// Points (value, cumulative share) of the empirical distribution for drawing, at most about `limit` of them, in order:
/// half evenly spaced in rank, half geometrically towards the largest, so that the tail keeps its shape. Unfinished
/// samples count in the share, so that the curve ends below 1 if there are any.
pub fn cdf_points(samples: &Samples, limit: usize) -> Vec<(f64, f64)> {
    let sorted = samples.finished();
    let n = sorted.len();
    let ranks: Vec<usize> = if n <= limit { (1..=n).collect() } else { chosen_ranks(n, limit.max(4)) };
    ranks.into_iter().map(|r| (sorted[r - 1], r as f64 / samples.count() as f64)).collect()
}

fn chosen_ranks(n: usize, limit: usize) -> Vec<usize> {
    let half = limit / 2;
    let even = (0..half).map(|i| 1 + i * (n - 1) / (half - 1));
    let from_top = |i: usize| libm::floor(libm::pow(n as f64, i as f64 / (half - 1) as f64)) as usize;
    let mut ranks: Vec<usize> = even.chain((0..half).map(|i| n + 1 - from_top(i).clamp(1, n))).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_kept_whole() {
        let samples = Samples::new([3.0, 1.0, 2.0], 1);
        assert_eq!(cdf_points(&samples, 500), [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75)]);
        assert_eq!(cdf_points(&Samples::default(), 500), []);
    }

    #[test]
    fn many_samples_keep_ends_and_tail() {
        let samples = Samples::new((1..=1_000_000).map(f64::from), 0);
        let points = cdf_points(&samples, 500);
        assert!((400..=500).contains(&points.len()), "{}", points.len());
        assert_eq!((points[0].0, points[points.len() - 1]), (1.0, (1e6, 1.0)));
        assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        // Every decade of the tail has points of its own.
        for decade in [1e-2, 1e-3, 1e-4, 1e-5] {
            let inside = points.iter().filter(|p| 1.0 - p.1 < decade && 1.0 - p.1 >= decade / 10.0).count();
            assert!(inside >= 9, "{decade}: {inside}");
        }
    }

    #[test]
    fn tiny_limits_do_not_fail() {
        let samples = Samples::new((0..100).map(f64::from), 0);
        for limit in 0..8 {
            assert!(cdf_points(&samples, limit).len() <= limit.max(4));
        }
    }
}
