//! Coupled increase for the subflows of one MPTCP connection: LIA (RFC 6356) and OLIA (Khalili, Gast, Popovic, Le Boudec,
//! CoNEXT 2012; draft-khalili-mptcp-congestion-control).
//!
//! Both leave slow start and the halving on loss to TCP, and change congestion avoidance only. So all subflows together are
//! no more aggressive than one TCP on the best path. Windows count in segments, round trips in seconds; an increase is that
//! of one window for one segment acknowledged. A subflow that knows of no others grows as NewReno.

use super::{AckEvent, Congestion, Law, Window};

/// What the law of one subflow must know of another, or of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path {
    /// In segments, above 0.
    pub(crate) cwnd: f64,
    /// Smoothed, in seconds, above 0.
    pub(crate) rtt: f64,
    /// Bytes delivered between the last two losses or since the last one, whichever is more.
    pub(crate) between_losses: f64,
}

/// LIA: the increase that all subflows share, alpha / total window in the RFC's terms, capped at what TCP would add.
pub(crate) fn lia_increase(paths: &[Path], me: usize) -> f64 {
    let best = paths.iter().map(|p| p.cwnd / (p.rtt * p.rtt)).fold(0.0, f64::max);
    let rate: f64 = paths.iter().map(|p| p.cwnd / p.rtt).sum();
    (best / (rate * rate)).min(1.0 / paths[me].cwnd)
}

/// OLIA: the term of optimal balancing, and the one that shifts window from the largest paths to the best of the others.
pub(crate) fn olia_increase(paths: &[Path], me: usize) -> f64 {
    let rate: f64 = paths.iter().map(|p| p.cwnd / p.rtt).sum();
    let own = paths[me];
    own.cwnd / (own.rtt * own.rtt) / (rate * rate) + olia_alpha(paths, me) / own.cwnd
}

/// Positive on a best path whose window is not among the largest, negative on the largest as long as there is such a path.
fn olia_alpha(paths: &[Path], me: usize) -> f64 {
    let quality = |p: &Path| p.between_losses / (p.rtt * p.rtt);
    let most = |of: &dyn Fn(&Path) -> f64| paths.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (best, largest) = (most(&quality), most(&|p: &Path| p.cwnd));
    let is_largest = |p: &Path| p.cwnd >= largest;
    let is_collected = |p: &Path| quality(p) >= best && !is_largest(p);
    let collected = paths.iter().filter(|p| is_collected(p)).count();
    if collected == 0 {
        return 0.0;
    }
    let n = paths.len() as f64;
    if is_collected(&paths[me]) {
        1.0 / (n * collected as f64)
    } else if is_largest(&paths[me]) {
        -1.0 / (n * paths.iter().filter(|p| is_largest(p)).count() as f64)
    } else {
        0.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lia,
    Olia,
}

#[derive(Clone, Debug)]
pub(crate) struct Coupled {
    kind: Kind,
    /// Told before each ACK by the connection; `None`: alone.
    increase: Option<f64>,
    /// Window owed, in bytes; OLIA's may be negative.
    owed: f64,
    /// Bytes delivered since the last loss, and between the two before.
    since_loss: u64,
    before_loss: u64,
}

impl Coupled {
    pub(crate) fn new(kind: Kind) -> Coupled {
        Coupled { kind, increase: None, owed: 0.0, since_loss: 0, before_loss: 0 }
    }

    /// The connection's paths as they are now, this one being `me`.
    pub(crate) fn couple(&mut self, paths: &[Path], me: usize) {
        self.increase = Some(match self.kind {
            Kind::Lia => lia_increase(paths, me),
            Kind::Olia => olia_increase(paths, me),
        });
    }

    pub(crate) fn between_losses(&self) -> u64 {
        self.since_loss.max(self.before_loss)
    }
}

impl Law for Coupled {
    fn on_delivered(&mut self, ack: &AckEvent) {
        self.since_loss = self.since_loss.saturating_add(ack.delivered);
    }

    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        let rest = if window.in_slow_start() { window.slow_start(ack.delivered) } else { ack.delivered };
        if rest == 0 {
            return;
        }
        let increase = self.increase.unwrap_or(1.0 / window.segments());
        self.owed += rest as f64 * increase;
        let mss = window.mss as f64;
        let whole = (self.owed / mss).trunc();
        self.owed -= whole * mss;
        let change = (whole.abs() * mss) as u64;
        window.cwnd = if whole < 0.0 {
            window.cwnd.saturating_sub(change).max(window.mss)
        } else {
            window.cwnd.saturating_add(change)
        };
    }

    fn reduce(&mut self, why: Congestion, window: &Window) -> u64 {
        if why != Congestion::Echo {
            self.before_loss = std::mem::take(&mut self.since_loss);
        }
        self.owed = 0.0;
        window.cwnd / 2
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_ack;
    use super::*;
    use proptest::prelude::*;
    use units::Time;

    fn path(cwnd: f64, rtt_ms: f64, between_losses: f64) -> Path {
        Path { cwnd, rtt: rtt_ms / 1e3, between_losses }
    }

    #[test]
    fn one_path_is_newreno() {
        let alone = [path(20.0, 3.0, 5e5)];
        assert!((lia_increase(&alone, 0) - 0.05).abs() < 1e-12);
        assert!((olia_increase(&alone, 0) - 0.05).abs() < 1e-12);
    }

    #[test]
    fn lia_by_hand() {
        // Equal round trips: alpha is the largest window over the total, so each ACK adds largest / total^2.
        let paths = [path(30.0, 10.0, 0.0), path(10.0, 10.0, 0.0)];
        assert!((lia_increase(&paths, 0) - 30.0 / 1600.0).abs() < 1e-12);
        assert!((lia_increase(&paths, 1) - 30.0 / 1600.0).abs() < 1e-12);
        // A path of a tenth of the round trip.
        let paths = [path(10.0, 100.0, 0.0), path(10.0, 10.0, 0.0)];
        let shared = 10.0 / 1e-4 / (1100.0 * 1100.0);
        assert!((lia_increase(&paths, 1) - shared).abs() < 1e-12 && shared < 0.1);
        let paths = [path(1000.0, 100.0, 0.0), path(10.0, 1.0, 0.0)];
        assert!((lia_increase(&paths, 0) - 0.001).abs() < 1e-12, "1 / cwnd");
    }

    #[test]
    fn olia_moves_window_to_the_best_path() {
        // The second path has lost less but has the smaller window.
        let paths = [path(30.0, 10.0, 1e5), path(10.0, 10.0, 9e5)];
        assert_eq!([olia_alpha(&paths, 0), olia_alpha(&paths, 1)], [-0.5, 0.5]);
        let base = |w: f64| w / 1600.0;
        assert!((olia_increase(&paths, 1) - (base(10.0) + 0.05)).abs() < 1e-12);
        assert!((olia_increase(&paths, 0) - (base(30.0) - 0.5 / 30.0)).abs() < 1e-12);
        // The best path has the largest window already: nothing to move.
        let paths = [path(30.0, 10.0, 9e5), path(10.0, 10.0, 1e5)];
        assert_eq!([olia_alpha(&paths, 0), olia_alpha(&paths, 1)], [0.0, 0.0]);
        // A path that is neither.
        let paths = [path(30.0, 10.0, 1e5), path(10.0, 10.0, 9e5), path(20.0, 10.0, 2e5)];
        assert_eq!(olia_alpha(&paths, 2), 0.0);
    }

    #[test]
    fn a_window_may_shrink_under_olia_and_never_below_a_segment() {
        let mut law = Coupled::new(Kind::Olia);
        let mut window = Window::new(1000, 3);
        window.ssthresh = 1000;
        law.couple(&[path(3.0, 10.0, 1.0), path(2.9, 10.0, 1e9)], 0);
        for _ in 0..10_000 {
            law.grow(&test_ack(Time::ZERO, 1000, 0, 0, false), &mut window);
            assert!(window.cwnd >= 1000);
        }
        assert_eq!(window.cwnd, 1000);
    }

    #[test]
    fn what_lies_between_losses_is_remembered() {
        let mut law = Coupled::new(Kind::Olia);
        let window = Window::new(1000, 10);
        law.on_delivered(&test_ack(Time::ZERO, 5000, 0, 0, false));
        law.reduce(Congestion::Loss, &window);
        law.on_delivered(&test_ack(Time::ZERO, 3000, 0, 0, false));
        assert_eq!(law.between_losses(), 5000);
        law.on_delivered(&test_ack(Time::ZERO, 4000, 0, 0, false));
        assert_eq!(law.between_losses(), 7000);
        assert_eq!(law.reduce(Congestion::Timeout, &window), 5000, "half the window");
        assert_eq!(law.between_losses(), 7000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_subflow_outgrows_tcp_and_all_together_do_not_outgrow_the_best_path(
            paths in prop::collection::vec((1.0f64..1e4, 0.01f64..100.0, 0.0f64..1e9), 1..9)
        ) {
            let paths: Vec<Path> = paths.into_iter().map(|(w, rtt, l)| path(w, rtt, l)).collect();
            let mut moved = 0.0;
            for me in 0..paths.len() {
                let lia = lia_increase(&paths, me);
                prop_assert!(lia > 0.0 && lia <= 1.0 / paths[me].cwnd * (1.0 + 1e-9));
                // Per round trip and path: window x increase; the paper's terms add up to at most one segment.
                let olia = olia_increase(&paths, me);
                prop_assert!(olia.is_finite() && olia <= 2.0 / paths[me].cwnd);
                moved += olia_alpha(&paths, me);
            }
            prop_assert!(moved.abs() < 1e-9, "what one path is given, others lose");
        }
    }
}
