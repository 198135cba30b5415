//! The window that the edge computes, compared with the guest's own.

use crate::outcome::Outcome;
use units::Time;

/// Over the samples of all flows at which the edge has a window.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Windows {
    /// |edge - guest| / guest.
    pub errors: Vec<f64>,
    /// The same of moving averages over 100 ms, where the samples reach so far.
    pub smooth_errors: Vec<f64>,
    /// Per flow: Pearson's coefficient.
    pub correlations: Vec<f64>,
    /// Samples at which the edge's window is the smaller.
    pub limiting: u64,
    /// Per flow: the guest's least window by its largest.
    pub swings: Vec<f64>,
    /// Of the edge, kilobytes.
    pub edge_kb: Vec<f64>,
}

const SMOOTHING: Time = Time::from_ms(100);

pub(super) fn windows(outcomes: &[&Outcome]) -> Windows {
    let mut all = Windows::default();
    for outcome in outcomes {
        let span = (SMOOTHING.as_ps() / outcome.sample_every.as_ps().max(1)) as usize;
        for (_, series) in &outcome.window_series {
            let known: Vec<(f64, f64)> = series
                .iter()
                .filter(|(edge, _)| *edge != u32::MAX)
                .map(|&(e, g)| (f64::from(e), f64::from(g)))
                .collect();
            if known.is_empty() {
                continue;
            }
            let error = |&(edge, guest): &(f64, f64)| (edge - guest).abs() / guest.max(1.0);
            all.errors.extend(known.iter().map(error));
            all.limiting += known.iter().filter(|(edge, guest)| edge < guest).count() as u64;
            all.edge_kb.extend(known.iter().map(|(edge, _)| edge / 1e3));
            all.correlations.extend(pearson(&known));
            let of = |pick: fn(f64, f64) -> f64, from| known.iter().map(|k| k.1).fold(from, pick);
            all.swings.push(of(f64::min, f64::INFINITY) / of(f64::max, 1.0));
            if span > 0 && known.len() >= span {
                let sum = |part: &[(f64, f64)]| part.iter().fold((0.0, 0.0), |s, k| (s.0 + k.0, s.1 + k.1));
                let mut total = sum(&known[..span]);
                all.smooth_errors.push(error(&total));
                for (gone, new) in known.iter().zip(&known[span..]) {
                    total = (total.0 + new.0 - gone.0, total.1 + new.1 - gone.1);
                    all.smooth_errors.push(error(&total));
                }
            }
        }
    }
    all
}

/// `None` if either does not vary.
fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        xx += (x - mx).powi(2);
        yy += (y - my).powi(2);
        xy += (x - mx) * (y - my);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let outcome = Outcome {
            sample_every: Time::from_ms(50),
            window_series: vec![(0, vec![(u32::MAX, 7), (90, 100), (110, 200), (300, 200)]), (1, vec![(u32::MAX, 1)])],
            ..Outcome::default()
        };
        let w = windows(&[&outcome]);
        assert_eq!(w.errors, [0.1, 0.45, 0.5]);
        // Pairs of samples: 200 to 300, 410 to 400.
        assert!((w.smooth_errors[0] - 1.0 / 3.0).abs() < 1e-12 && (w.smooth_errors[1] - 0.025).abs() < 1e-12);
        assert_eq!((w.limiting, w.swings, w.smooth_errors.len()), (2, vec![0.5], 2));
        assert_eq!(pearson(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), Some(1.0));
        assert_eq!(pearson(&[(1.0, 2.0), (1.0, 4.0)]), None);
    }
}
