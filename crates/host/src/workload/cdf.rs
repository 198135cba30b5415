//! Flow-size distributions: points, sampling by inversion, files of the common forms.

use std::fmt;
use std::sync::Arc;

/// A flow-size law: a cumulative distribution that is linear between given points.
///
/// Below the first point the law runs linearly from 0 bytes at probability 0, as the tools do that read such files; a
/// first point of probability 0 puts the smallest size elsewhere. Two points of one size make an atom.
#[derive(Clone, PartialEq)]
pub struct Cdf {
    name: Arc<str>,
    /// (bytes, cumulative probability), both non-decreasing, from probability 0 to exactly 1.
    points: Arc<[(f64, f64)]>,
}

/// Why points are not a distribution; `point` counts from 0 in the order given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CdfError {
    #[error("there are no points; give at least one `bytes probability` pair")]
    Empty,
    #[error("the size {value} is not between 0 and 1e15 bytes")]
    BadSize { point: usize, value: f64 },
    #[error("the probability {value} is not between 0 and 1 (or 0% and 100%)")]
    BadProbability { point: usize, value: f64 },
    #[error("the size {value} is below the one before it; sort the points by size")]
    SizeFalls { point: usize, value: f64 },
    #[error("the probability {value} is below the one before it; the column must be cumulative")]
    ProbabilityFalls { point: usize, value: f64 },
    #[error("the last probability is {value}; a cumulative distribution ends at 1 (or 100 if it is in percent)")]
    EndsElsewhere { point: usize, value: f64 },
    #[error("every flow would have 0 bytes; give a positive size")]
    AllZero,
}

/// No size is larger: about a petabyte, exact as a double.
const MAX_BYTES: f64 = 1e15;

impl Cdf {
    /// A distribution from points of (bytes, cumulative probability), 0 to 1.
    ///
    /// # Errors
    /// If sizes or probabilities fall, are out of range, or the last probability is not 1 within 10^-6.
    pub fn new(name: &str, points: &[(f64, f64)]) -> Result<Cdf, CdfError> {
        let mut checked: Vec<(f64, f64)> = Vec::with_capacity(points.len() + 1);
        for (point, &(bytes, p)) in points.iter().enumerate() {
            if !(0.0..=MAX_BYTES).contains(&bytes) {
                return Err(CdfError::BadSize { point, value: bytes });
            }
            if !(0.0..=1.0 + END_TOLERANCE).contains(&p) {
                return Err(CdfError::BadProbability { point, value: p });
            }
            let &(size_before, p_before) = checked.last().unwrap_or(&(0.0, 0.0));
            if bytes < size_before {
                return Err(CdfError::SizeFalls { point, value: bytes });
            }
            if p < p_before {
                return Err(CdfError::ProbabilityFalls { point, value: p });
            }
            if point == 0 && p > 0.0 {
                checked.push((0.0, 0.0));
            }
            checked.push((bytes, p));
        }
        let Some(&mut (largest, ref mut end)) = checked.last_mut() else {
            return Err(CdfError::Empty);
        };
        if (*end - 1.0).abs() > END_TOLERANCE {
            return Err(CdfError::EndsElsewhere { point: points.len() - 1, value: *end });
        }
        *end = 1.0;
        if largest == 0.0 {
            return Err(CdfError::AllZero);
        }
        for (_, p) in &mut checked {
            *p = p.min(1.0);
        }
        Ok(Cdf { name: name.into(), points: checked.into() })
    }

    /// All flows of one size.
    ///
    /// # Errors
    /// If the size is 0 or above 10^15 bytes.
    pub fn constant(bytes: u64) -> Result<Cdf, CdfError> {
        Cdf::new(&format!("constant {bytes} B"), &[(bytes as f64, 0.0), (bytes as f64, 1.0)])
    }

    /// A built-in distribution by name; see [`Cdf::BUILT_IN`].
    pub fn built_in(name: &str) -> Option<Cdf> {
        let points = match name {
            "websearch" => WEBSEARCH,
            "datamining" => DATAMINING,
            _ => return None,
        };
        Cdf::new(name, points).ok()
    }

    /// Names that [`Cdf::built_in`] knows, each with its source.
    pub const BUILT_IN: &'static [(&'static str, &'static str)] = &[
        ("websearch", "web search cluster: Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010"),
        ("datamining", "data mining cluster: Greenberg et al., VL2, SIGCOMM 2009"),
    ];

    pub fn name(&self) -> &str {
        &self.name
    }

    /// (bytes, cumulative probability) from probability 0 to 1.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The mean in bytes: the exact integral of the piecewise-linear law. Drawn sizes are rounded to whole bytes and are
    /// at least 1, which moves the mean by less than a byte.
    pub fn mean_bytes(&self) -> f64 {
        self.points.windows(2).map(|w| (w[0].0 + w[1].0) / 2.0 * (w[1].1 - w[0].1)).sum()
    }

    /// The size at probability `u`: the inverse of the law, rounded to whole bytes, at least 1. `u` is taken into
    /// \[0, 1\].
    pub fn size_at(&self, u: f64) -> u64 {
        let u = if u.is_nan() { 0.0 } else { u.clamp(0.0, 1.0) };
        // The first point above u; its predecessor is at most u, so the two differ.
        let above = self.points.partition_point(|&(_, p)| p <= u);
        let bytes = match (self.points.get(above.wrapping_sub(1)), self.points.get(above)) {
            (Some(&(x0, p0)), Some(&(x1, p1))) => x0 + (x1 - x0) * ((u - p0) / (p1 - p0)),
            (Some(&(x, _)), None) | (None, Some(&(x, _))) => x,
            (None, None) => 1.0,
        };
        (libm::round(bytes) as u64).max(1)
    }

    /// The same law with every size multiplied, as for files that count packets or traces made heavier.
    ///
    /// # Errors
    /// If `factor` is not positive or a size leaves the range.
    pub fn scaled(&self, factor: f64) -> Result<Cdf, CdfError> {
        let points: Vec<(f64, f64)> = self.points.iter().map(|&(bytes, p)| (bytes * factor, p)).collect();
        Cdf::new(&self.name, &points)
    }
}

impl fmt::Debug for Cdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cdf({:?}, {} points, mean {} B)", self.name, self.points.len(), self.mean_bytes())
    }
}

/// Files round their last probability.
const END_TOLERANCE: f64 = 1e-6;

/// Web search, DCTCP (SIGCOMM 2010) as commonly tabulated.
const WEBSEARCH: &[(f64, f64)] = &[
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Data mining, VL2 (SIGCOMM 2009) as commonly tabulated.
const DATAMINING: &[(f64, f64)] = &[
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sim::{Purpose, Stream};

    /// Means by hand: the sum over segments of midpoint times probability.
    #[test]
    fn built_in_means() {
        let mean = |name| Cdf::built_in(name).unwrap().mean_bytes();
        assert!((mean("websearch") - 1_711_250.0).abs() < 1e-6);
        assert!((mean("datamining") - 12_658_198.6).abs() < 1e-5);
        assert_eq!(Cdf::built_in("web search"), None);
        assert!(Cdf::BUILT_IN.iter().all(|(name, _)| Cdf::built_in(name).is_some()));
    }

    #[test]
    fn inverse_by_hand() {
        let cdf = Cdf::built_in("websearch").unwrap();
        for (u, bytes) in
            [(0.0, 1), (0.075, 5_000), (0.15, 10_000), (0.25, 25_000), (0.985, 20_000_000), (1.0, 30_000_000)]
        {
            assert_eq!(cdf.size_at(u), bytes, "{u}");
        }
        assert_eq!(cdf.size_at(f64::NAN), 1);
        assert_eq!(cdf.size_at(7.0), 30_000_000);
    }

    #[test]
    fn atoms_and_gaps() {
        // 100 B with probability 1/2, nothing in between, 200..300 B uniformly otherwise.
        let cdf = Cdf::new("x", &[(100.0, 0.0), (100.0, 0.5), (200.0, 0.5), (300.0, 1.0)]).unwrap();
        assert_eq!([0.0, 0.3, 0.499, 0.5, 0.75].map(|u| cdf.size_at(u)), [100, 100, 100, 200, 250]);
        assert_eq!(cdf.mean_bytes(), 175.0);
        let constant = Cdf::constant(1460).unwrap();
        assert_eq!((constant.size_at(0.0), constant.size_at(0.9), constant.mean_bytes()), (1460, 1460, 1460.0));
    }

    #[test]
    fn scaling_multiplies_sizes() {
        let cdf = Cdf::built_in("datamining").unwrap().scaled(10.0).unwrap();
        assert_eq!(cdf.size_at(0.5), 11_000);
        assert!(cdf.scaled(-1.0).is_err() && cdf.scaled(f64::NAN).is_err() && cdf.scaled(0.0).is_err());
    }

    #[test]
    fn bad_points_are_refused() {
        let refused = |points: &[(f64, f64)]| Cdf::new("x", points).unwrap_err();
        assert_eq!(refused(&[]), CdfError::Empty);
        assert_eq!(refused(&[(5.0, 0.5), (4.0, 1.0)]), CdfError::SizeFalls { point: 1, value: 4.0 });
        assert_eq!(refused(&[(5.0, 0.5), (6.0, 0.4)]), CdfError::ProbabilityFalls { point: 1, value: 0.4 });
        assert_eq!(refused(&[(5.0, 0.5), (6.0, 0.9)]), CdfError::EndsElsewhere { point: 1, value: 0.9 });
        assert_eq!(refused(&[(5.0, 1.5)]), CdfError::BadProbability { point: 0, value: 1.5 });
        assert_eq!(refused(&[(-5.0, 1.0)]), CdfError::BadSize { point: 0, value: -5.0 });
        assert_eq!(refused(&[(0.0, 1.0)]), CdfError::AllZero);
        assert!(matches!(refused(&[(f64::NAN, 1.0)]), CdfError::BadSize { .. }));
        assert!(matches!(refused(&[(1.0, f64::NAN)]), CdfError::BadProbability { .. }));
    }

    #[test]
    fn draws_have_the_mean() {
        let cdf = Cdf::built_in("websearch").unwrap();
        let mut stream = Stream::new(1, 0, Purpose::FlowSize);
        let n = 400_000;
        let sum: f64 = (0..n).map(|_| cdf.size_at(stream.uniform()) as f64).sum();
        // The law's standard deviation is about 4.7 MB, so five standard errors are 37 kB.
        assert!((sum / n as f64 - 1_711_250.0).abs() < 37_000.0, "{}", sum / n as f64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_points_are_judged_and_any_law_can_be_drawn(
            points in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY), 0..5), u in prop::num::f64::ANY,
        ) {
            if let Ok(cdf) = Cdf::new("x", &points) {
                prop_assert!(cdf.size_at(u) >= 1);
            }
        }

        #[test]
        fn the_inverse_is_monotone(
            mut sizes in prop::collection::vec(0u32..1000, 1..8), mut ps in prop::collection::vec(0u32..100, 7),
            a in 0.0..1.0f64, b in 0.0..1.0f64,
        ) {
            sizes.sort_unstable();
            ps.sort_unstable();
            let last = sizes.len() - 1;
            let points: Vec<(f64, f64)> = sizes.iter().enumerate()
                .map(|(i, &s)| (f64::from(s) + 1.0, if i == last { 1.0 } else { f64::from(ps[i]) / 100.0 })).collect();
            let cdf = Cdf::new("x", &points).unwrap();
            prop_assert!(cdf.size_at(a.min(b)) <= cdf.size_at(a.max(b)));
            prop_assert!(cdf.size_at(a) <= u64::from(sizes[last]) + 1);
        }
    }
}
