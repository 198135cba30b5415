//! Percentiles by nearest rank. A percentile is refused if fewer than ten samples lie beyond it.

/// A quantile level in millionths, so that ranks are computed in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantile {
    millionths: u32,
}

/// Why a percentile is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{have} samples, {need} needed")]
pub struct TooFew {
    pub have: u64,
    pub need: u64,
}

impl Quantile {
    pub const P50: Quantile = Quantile { millionths: 500_000 };
    pub const P90: Quantile = Quantile { millionths: 900_000 };
    pub const P95: Quantile = Quantile { millionths: 950_000 };
    pub const P99: Quantile = Quantile { millionths: 990_000 };
    pub const P999: Quantile = Quantile { millionths: 999_000 };
    pub const P9995: Quantile = Quantile { millionths: 999_500 };

    /// `None` unless 0 < millionths < 1,000,000.
    pub const fn from_millionths(millionths: u32) -> Option<Quantile> {
        if millionths == 0 || millionths >= MILLION {
            return None;
        }
        Some(Quantile { millionths })
    }

    /// How many samples carry it: ten beyond it, that is 10 / (1 - q), or 10 / q below the median. p95 needs 200, p99
    /// 1,000, p99.9 10,000. The median needs one.
    pub fn needs(self) -> u64 {
        match self.millionths.min(MILLION - self.millionths) {
            beyond if beyond == MILLION / 2 => 1,
            beyond => (10 * u64::from(MILLION)).div_ceil(u64::from(beyond)),
        }
    }

    /// The nearest rank among `n` samples, from 1: the least k with k / n >= q.
    fn rank(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.millionths)).div_ceil(u128::from(MILLION)) as u64
    }

    fn probability(self) -> f64 {
        f64::from(self.millionths) / f64::from(MILLION)
    }
}

const MILLION: u32 = 1_000_000;

/// Measured values in ascending order, and how many more exist that are only known to be larger than all of them.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Samples {
    sorted: Vec<f64>,
    unfinished: u64,
}

impl Samples {
    /// NaN and infinities count as unfinished.
    pub fn new(values: impl IntoIterator<Item = f64>, unfinished: u64) -> Samples {
        let mut all: Vec<f64> = values.into_iter().collect();
        let given = all.len();
        all.retain(|v| v.is_finite());
        let unfinished = unfinished + (given - all.len()) as u64;
        all.sort_by(f64::total_cmp);
        Samples { sorted: all, unfinished }
    }

    /// Finished and unfinished.
    pub fn count(&self) -> u64 {
        self.sorted.len() as u64 + self.unfinished
    }
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }
    /// The finished ones, ascending.
    pub fn finished(&self) -> &[f64] {
        &self.sorted
    }

    /// Mean of the finished ones; too low if any is unfinished.
    pub fn mean_finished(&self) -> Option<f64> {
        let n = self.sorted.len();
        (n > 0).then(|| self.sorted.iter().sum::<f64>() / n as f64)
    }

    /// The percentile by nearest rank: a value that was measured, never an interpolation. Infinite if it falls among
    /// the unfinished.
    ///
    /// # Errors
    /// If there are fewer samples than [`Quantile::needs`].
    pub fn percentile(&self, q: Quantile) -> Result<f64, TooFew> {
        let (have, need) = (self.count(), q.needs());
        if have < need {
            return Err(TooFew { have, need });
        }
        Ok(self.at_rank(q.rank(have)))
    }

    /// A 95% confidence interval of the percentile from these samples alone, by order statistics: the ranks l and u for
    /// which a binomial count of samples below the true percentile lies in l..u with that probability (Conover,
    /// Practical Nonparametric Statistics, section 3.2). Assumes independent samples. The upper end is infinite if it
    /// falls among the unfinished; `None` if so few samples bound nothing.
    pub fn interval(&self, q: Quantile) -> Option<(f64, f64)> {
        let n = self.count();
        let (lower, upper) = interval_ranks(n, q.probability());
        (lower >= 1 && upper <= n).then(|| (self.at_rank(lower), self.at_rank(upper)))
    }

    fn at_rank(&self, rank: u64) -> f64 {
        self.sorted.get((rank.max(1) - 1) as usize).copied().unwrap_or(f64::INFINITY)
    }
}

/// Ranks from 1 of the 95% interval: the largest l with P(B < l) <= 0.025 and the least u with P(B < u) >= 0.975 for B
/// binomial (n, q). l = 0 or u = n + 1 mean that there is none.
fn interval_ranks(n: u64, q: f64) -> (u64, u64) {
    let mean = n as f64 * q;
    let spread = 12.0 * libm::sqrt(n as f64 * q * (1.0 - q)) + 12.0;
    // Below `from` the probability is negligible (under 1e-20), and its first term cannot underflow.
    let from = libm::floor((mean - spread).max(0.0)) as u64;
    let ln_choose =
        |k: u64| libm::lgamma(n as f64 + 1.0) - libm::lgamma(k as f64 + 1.0) - libm::lgamma((n - k) as f64 + 1.0);
    let mut term = libm::exp(ln_choose(from) + from as f64 * libm::log(q) + (n - from) as f64 * libm::log1p(-q));
    let (mut below, mut lower, mut k) = (0.0, from, from);
    // `below` is P(B < k).
    loop {
        if below <= 0.025 {
            lower = k;
        }
        if below >= 0.975 || k > n {
            return (lower, k);
        }
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64 * (q / (1.0 - q));
        k += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn up_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn nearest_rank_by_hand() {
        let samples = Samples::new([40.0, 15.0, 50.0, 20.0, 35.0], 0);
        let at = |millionths| samples.at_rank(Quantile::from_millionths(millionths).unwrap().rank(5));
        assert_eq!([50_000, 300_000, 400_000, 500_000, 999_999].map(at), [15.0, 20.0, 20.0, 35.0, 50.0]);
        // 0.07 x 100 is above 7 in floating point; the rank is 7.
        assert_eq!(Quantile::from_millionths(70_000).unwrap().rank(100), 7);
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        assert_eq!(
            [Quantile::P50, Quantile::P90, Quantile::P95, Quantile::P99, Quantile::P999, Quantile::P9995]
                .map(Quantile::needs),
            [1, 100, 200, 1_000, 10_000, 20_000]
        );
        assert_eq!(Samples::new(up_to(999), 0).percentile(Quantile::P99), Err(TooFew { have: 999, need: 1000 }));
        assert_eq!(Samples::new(up_to(1000), 0).percentile(Quantile::P99), Ok(990.0));
        assert_eq!(Samples::new(up_to(10_000), 0).percentile(Quantile::P999), Ok(9990.0));
        assert_eq!(Samples::new([], 0).percentile(Quantile::P50), Err(TooFew { have: 0, need: 1 }));
        assert_eq!((Quantile::from_millionths(0), Quantile::from_millionths(MILLION)), (None, None));
    }

    #[test]
    fn unfinished_flows_push_the_percentile_up() {
        // 989 finished and 11 not: rank 990 is unfinished. With 10 not, rank 990 is the largest finished.
        assert_eq!(Samples::new(up_to(989), 11).percentile(Quantile::P99), Ok(f64::INFINITY));
        assert_eq!(Samples::new(up_to(990), 10).percentile(Quantile::P99), Ok(990.0));
        let mixed = Samples::new([f64::NAN, 1.0, f64::INFINITY], 1);
        assert_eq!((mixed.unfinished(), mixed.count(), mixed.mean_finished()), (3, 4, Some(1.0)));
    }

    /// Textbook ranks: the median of 10 samples lies between the 2nd and the 9th with probability 0.979; of 5 there is
    /// no 95% interval; of 100 it lies between the 40th and the 61st (0.965).
    #[test]
    fn interval_ranks_by_the_table() {
        assert_eq!(interval_ranks(10, 0.5), (2, 9));
        assert_eq!(Samples::new(up_to(5), 0).interval(Quantile::P50), None);
        assert_eq!(interval_ranks(100, 0.5), (40, 61));
        assert_eq!(Samples::new(up_to(10), 0).interval(Quantile::P50), Some((2.0, 9.0)));
        assert_eq!(Samples::new(up_to(8), 2).interval(Quantile::P50), Some((2.0, f64::INFINITY)));
        assert_eq!(Samples::new([], 0).interval(Quantile::P50), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Against the plain sum of the binomial law.
        #[test]
        fn interval_ranks_equal_the_plain_sum(n in 0u64..400, millionths in 1u32..MILLION) {
            let q = f64::from(millionths) / 1e6;
            let mut pmf = vec![1.0f64];
            for _ in 0..n {
                let mut next = vec![0.0; pmf.len() + 1];
                for (k, p) in pmf.iter().enumerate() {
                    next[k] += p * (1.0 - q);
                    next[k + 1] += p * q;
                }
                pmf = next;
            }
            let below = |k: u64| pmf[..k as usize].iter().sum::<f64>();
            let (lower, upper) = interval_ranks(n, q);
            prop_assert!(below(lower) <= 0.025 + 1e-9);
            prop_assert!(lower == n + 1 || below(lower + 1) > 0.025 - 1e-9);
            prop_assert!(upper == n + 1 || below(upper) >= 0.975 - 1e-9);
            prop_assert!(upper == 0 || below(upper - 1) < 0.975 + 1e-9);
        }

        #[test]
        fn percentiles_are_samples_and_monotone(values in prop::collection::vec(prop::num::f64::ANY, 1..50), lost in 0u64..5) {
            let samples = Samples::new(values, lost);
            let mut before = f64::NEG_INFINITY;
            for m in (1..MILLION).step_by(39_999) {
                let v = samples.at_rank(Quantile { millionths: m }.rank(samples.count()));
                prop_assert!(v >= before && (v == f64::INFINITY || samples.finished().contains(&v)));
                before = v;
            }
        }
    }
}
