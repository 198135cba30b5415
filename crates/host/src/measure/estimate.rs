//! Mean, range and confidence interval of a metric over seeds.

use super::Summary;

/// What several runs say of one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// Half the width of the 95% confidence interval of the mean by Student's t; `None` with one run or an infinite
    /// value.
    pub half_width: Option<f64>,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
}

/// A metric across runs with different seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Across {
    pub name: String,
    pub unit: &'static str,
    /// `runs` is the number of runs that had the metric.
    pub estimate: Estimate,
}

/// Mean and spread of independent values; `None` of none.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let half_width =
        (n > 1 && mean.is_finite()).then(|| student_t(n - 1) * libm::sqrt(squares / (n - 1) as f64 / n as f64));
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Estimate { mean, half_width, min, max, runs: n })
}

/// By how much independent values `b` lie above `a` in the mean, with its interval: Welch's, degrees of freedom rounded down. `runs` is
/// the number of all values; smallest and largest are the mean. `None` if either is empty; no half width with one value
/// on a side, or an infinite one.
pub fn difference(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (of_a, of_b) = (estimate(a)?, estimate(b)?);
    let mean = of_b.mean - of_a.mean;
    let errors = |values: &[f64], mean: f64| {
        let n = values.len() as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        (squares / (n - 1.0) / n, n - 1.0)
    };
    let half_width = (a.len() > 1 && b.len() > 1 && of_a.mean.is_finite() && of_b.mean.is_finite()).then(|| {
        let ((e, m), (f, n)) = (errors(a, of_a.mean), errors(b, of_b.mean));
        let spread = e * e / m + f * f / n;
        let freedom = if spread > 0.0 { (e + f) * (e + f) / spread } else { m + n };
        student_t((freedom as usize).max(1)) * libm::sqrt(e + f)
    });
    Some(Estimate { mean, half_width, min: mean, max: mean, runs: a.len() + b.len() })
}

/// The interval of what is computed from all of n samples at once, such as a percentile, by the jackknife: `whole` is of all,
/// `without` of all but one, in turn. `None` with one sample or an infinite value.
pub fn jackknife(whole: f64, without: &[f64]) -> Option<f64> {
    let n = without.len() as f64;
    let values: Vec<f64> = without.iter().map(|left| n * whole - (n - 1.0) * left).collect();
    estimate(&values)?.half_width.filter(|half_width| half_width.is_finite())
}

/// Each metric over the runs that have it, in order of first appearance.
pub fn across_seeds(runs: &[Summary]) -> Vec<Across> {
    let mut order: Vec<(&str, &'static str)> = Vec::new();
    for metric in runs.iter().flat_map(|run| &run.metrics) {
        if !order.iter().any(|&(name, _)| name == metric.name) {
            order.push((&metric.name, metric.unit));
        }
    }
    let of = |(name, unit): (&str, &'static str)| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(name)).collect();
        estimate(&values).map(|estimate| Across { name: name.to_owned(), unit, estimate })
    };
    order.into_iter().filter_map(of).collect()
}

/// The 0.975 quantile of Student's t with `df` degrees of freedom, at least 1: a table up to 30, beyond it linear in
/// 1/df between tabulated values (within 0.001).
fn student_t(df: usize) -> f64 {
    if let Some(&t) = T_975.get(df.saturating_sub(1)) {
        return t;
    }
    let inverse = 1.0 / df as f64;
    let (mut upper, mut lower) = (T_LARGE[0], T_LARGE[0]);
    for entry in T_LARGE {
        lower = entry;
        if entry.0 <= inverse {
            break;
        }
        upper = entry;
    }
    if lower.0 == upper.0 {
        return lower.1;
    }
    lower.1 + (upper.1 - lower.1) * (inverse - lower.0) / (upper.0 - lower.0)
}

/// For 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// (1 / degrees of freedom, quantile) for 30, 40, 60, 120 and infinity.
const T_LARGE: [(f64, f64); 5] =
    [(1.0 / 30.0, 2.042), (1.0 / 40.0, 2.021), (1.0 / 60.0, 2.000), (1.0 / 120.0, 1.980), (0.0, 1.960)];

#[cfg(test)]
mod tests {
    use super::super::Metric;
    use super::*;

    #[test]
    fn interval_by_hand() {
        // Mean 4, variance (4 + 1 + 1 + 4) / 4 = 2.5, standard error sqrt(0.5), t(4) = 2.776.
        let e = estimate(&[2.0, 3.0, 5.0, 6.0, 4.0]).unwrap();
        assert_eq!((e.mean, e.min, e.max, e.runs), (4.0, 2.0, 6.0, 5));
        assert!((e.half_width.unwrap() - 2.776 * 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(estimate(&[7.0]).unwrap().half_width, None);
        assert_eq!(estimate(&[]), None);
        let infinite = estimate(&[1.0, f64::INFINITY]).unwrap();
        assert_eq!((infinite.mean, infinite.half_width), (f64::INFINITY, None));
    }

    #[test]
    fn a_jackknife_of_a_mean_is_the_means_own_interval() {
        let values = [2.0, 3.0, 5.0, 6.0, 4.0];
        let without: Vec<f64> = values.iter().map(|v| (20.0 - v) / 4.0).collect();
        let half_width = jackknife(4.0, &without).unwrap();
        assert!((half_width - estimate(&values).unwrap().half_width.unwrap()).abs() < 1e-12);
        assert_eq!(jackknife(f64::INFINITY, &[1.0, f64::INFINITY]), None);
        assert_eq!(jackknife(1.0, &[1.0]), None);
    }

    #[test]
    fn a_difference_by_hand() {
        // Means 4 and 8, squared standard errors 0.5 and 4/3: 11/6, squared over 0.5^2/4 + (4/3)^2/2 is 3.53 degrees of freedom.
        let (a, b) = ([2.0, 3.0, 5.0, 6.0, 4.0], [6.0, 8.0, 10.0]);
        let d = difference(&a, &b).unwrap();
        assert_eq!((d.mean, d.runs), (4.0, 8));
        assert!((d.half_width.unwrap() - 3.182 * (11.0f64 / 6.0).sqrt()).abs() < 1e-12);
        assert_eq!(difference(&b, &a).unwrap().half_width, d.half_width);
        assert_eq!(difference(&[1.0, 1.0], &[1.0, 1.0]).unwrap().half_width, Some(0.0));
        assert_eq!(difference(&[1.0], &[2.0, 3.0]).unwrap().half_width, None);
        assert_eq!(difference(&[f64::INFINITY, 1.0], &[2.0, 3.0]).unwrap().half_width, None);
        assert!(difference(&[], &[1.0]).is_none());
    }

    #[test]
    fn student_quantiles() {
        // From the tables: 1, 10, 30, 35, 50, 100, 1000 degrees of freedom.
        for (df, t) in [(1, 12.706), (10, 2.228), (30, 2.042), (35, 2.030), (50, 2.009), (100, 1.984), (1000, 1.962)] {
            assert!((student_t(df) - t).abs() < 0.0011, "{df}: {}", student_t(df));
        }
        assert!((31..500).all(|df| student_t(df) <= student_t(df - 1) && student_t(df) > 1.96));
    }

    #[test]
    fn a_metric_that_some_runs_lack() {
        let run = |metrics: &[(&str, f64)]| Summary {
            metrics: metrics.iter().map(|&(n, value)| Metric { name: n.into(), value, unit: "ms" }).collect(),
            refused: Vec::new(),
        };
        let all = across_seeds(&[run(&[("a", 1.0)]), run(&[("b", 5.0), ("a", 3.0)])]);
        assert_eq!(
            all.iter().map(|m| (m.name.as_str(), m.estimate.mean, m.estimate.runs)).collect::<Vec<_>>(),
            [("a", 2.0, 2), ("b", 5.0, 1)]
        );
    }
}
