//! The verdict over one metric of two results.

use super::source::{Key, Series};
use host::measure::{difference, estimate, Estimate};
use serde_json::{json, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The 95% interval of the difference is on one side of zero.
    Differs,
    /// The interval has zero in it, and is narrow; or all seeds gave the same in both.
    Equal,
    /// The interval has zero in it and is wide, or there is none: too few seeds, or infinite values.
    Undecided,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Differs => "differs",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) unit: String,
    pub(super) a: Estimate,
    pub(super) b: Estimate,
    /// B less A.
    pub(super) difference: Estimate,
    /// Both have the same seeds: the difference is that of each seed, which shared chance does not widen.
    pub(super) paired: bool,
    pub(super) verdict: Verdict,
}

/// `share` of A's mean is what the interval of an equal metric may reach.
pub(super) fn judge(a: &Series, b: &Series, share: f64) -> Comparison {
    let (x, y): (Vec<f64>, Vec<f64>) = (a.seeds.values().copied().collect(), b.seeds.values().copied().collect());
    let nothing = Estimate { mean: f64::NAN, half_width: None, min: f64::NAN, max: f64::NAN, runs: 0 };
    let paired = a.seeds.keys().eq(b.seeds.keys());
    let same = paired && x == y;
    let of = |values: &[f64]| estimate(values).unwrap_or(nothing);
    let between = match paired {
        true => estimate(&x.iter().zip(&y).map(|(x, y)| y - x).collect::<Vec<_>>()),
        false => difference(&x, &y),
    };
    let mut between = between.unwrap_or(nothing);
    if same {
        (between.mean, between.min, between.max) = (0.0, 0.0, 0.0); // also if both are infinite
    }
    let half = between.half_width.filter(|half| half.is_finite() && between.mean.is_finite());
    let verdict = match half {
        _ if same => Verdict::Equal,
        Some(half) if between.mean.abs() > half => Verdict::Differs,
        Some(half) if half + between.mean.abs() <= share * of(&x).mean.abs() => Verdict::Equal,
        _ => Verdict::Undecided,
    };
    Comparison { unit: a.unit.clone(), a: of(&x), b: of(&y), difference: between, paired, verdict }
}

impl Comparison {
    /// The difference in percent of A.
    pub(super) fn change_percent(&self) -> Option<f64> {
        let percent = self.difference.mean / self.a.mean.abs() * 100.0;
        percent.is_finite().then_some(percent)
    }

    /// What is infinite, or not known, is null.
    pub(super) fn json(&self, key: &Key) -> Value {
        let of = |e: &Estimate| json!({"mean": e.mean, "ci95_half_width": e.half_width, "runs": e.runs});
        json!({
            "point": key.point, "scheme": key.scheme, "metric": key.metric, "unit": self.unit,
            "a": of(&self.a), "b": of(&self.b),
            "difference": {"mean": self.difference.mean, "ci95_half_width": self.difference.half_width},
            "change_percent": self.change_percent(), "paired": self.paired, "verdict": self.verdict.word(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(u64, f64)]) -> Series {
        Series { unit: "ms".to_owned(), seeds: values.iter().copied().collect() }
    }

    #[test]
    fn verdicts_follow_the_interval_of_the_difference() {
        let a = series(&[(1, 10.0), (2, 11.0), (3, 12.0)]);
        let shifted = |by: [f64; 3]| series(&[(1, 10.0 + by[0]), (2, 11.0 + by[1]), (3, 12.0 + by[2])]);
        // Of each seed by about one: the seeds' own spread does not hide it.
        let c = judge(&a, &shifted([1.0, 1.1, 0.9]), 0.1);
        assert!(c.paired && c.verdict == Verdict::Differs);
        assert!((c.difference.mean - 1.0).abs() < 1e-9 && (c.change_percent().unwrap() - 100.0 / 11.0).abs() < 1e-9);
        // The same shift between other seeds could be chance.
        let other = series(&[(4, 11.0), (5, 12.1), (6, 12.9)]);
        let c = judge(&a, &other, 0.1);
        assert!(!c.paired && c.verdict == Verdict::Undecided);
        assert_eq!(judge(&a, &shifted([0.01, -0.02, 0.01]), 0.1).verdict, Verdict::Equal);
        assert_eq!(
            judge(&a, &shifted([3.0, -3.0, 0.1]), 0.1).verdict,
            Verdict::Undecided,
            "zero is in it, and much else"
        );
        assert_eq!(judge(&a, &shifted([3.0, -3.0, 0.1]), 10.0).verdict, Verdict::Equal, "by a wider tolerance");
    }

    #[test]
    fn one_seed_decides_only_what_is_the_same() {
        let one = |value: f64| series(&[(1, value)]);
        assert_eq!(judge(&one(1.0), &one(2.0), 0.1).verdict, Verdict::Undecided);
        assert_eq!(judge(&one(1.0), &one(1.0), 0.1).verdict, Verdict::Equal);
        assert_eq!(judge(&one(0.0), &one(0.0), 0.1).verdict, Verdict::Equal);
        let never = judge(&one(f64::INFINITY), &one(f64::INFINITY), 0.1);
        assert_eq!((never.verdict, never.difference.mean), (Verdict::Equal, 0.0));
        let two = series(&[(1, f64::INFINITY), (2, 1.0)]);
        assert_eq!(judge(&two, &series(&[(1, 1.0), (2, 1.0)]), 0.1).verdict, Verdict::Undecided);
    }
}
