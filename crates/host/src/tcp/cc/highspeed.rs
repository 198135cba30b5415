//! HighSpeed TCP (RFC 3649): large windows grow faster and shrink less than Reno's.
//!
//! A large window grows by more than one segment a round trip and shrinks by less than half. So a loss rate of 1e-7 is enough
//! for 83,000 segments.
//!
//! Limited slow start (RFC 3742), which the RFC recommends beside it, is left out, as in Linux.

use super::{AckEvent, Congestion, Law, Window};

/// Up to this many segments the law is Reno's (section 5, Low_Window).
const LOW_WINDOW: f64 = 38.0;
/// The other point through which the response function goes (High_Window), and the decrease there (High_Decrease).
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// Share of the window that a reduction takes, b(w): on a line from one half to [`HIGH_DECREASE`] in log w, and
/// no less beyond [`HIGH_WINDOW`], where the RFC says nothing.
fn decrease(w: f64) -> f64 {
    if w <= LOW_WINDOW {
        return 0.5;
    }
    let share = libm::log(w / LOW_WINDOW) / libm::log(HIGH_WINDOW / LOW_WINDOW);
    (0.5 - (0.5 - HIGH_DECREASE) * share).max(HIGH_DECREASE)
}

/// Segments of growth in a round trip, a(w): what makes w the mean window at the loss rate p(w) = 0.078 / w^1.2 of the
/// response function (section 5; appendix B writes 1 / 12.8).
fn increase(w: f64) -> f64 {
    if w <= LOW_WINDOW {
        return 1.0;
    }
    let b = decrease(w);
    (libm::pow(w, 0.8) * 2.0 * b / ((2.0 - b) * 12.8)).max(1.0)
}

#[derive(Clone, Debug)]
pub(crate) struct HighSpeed;

impl Law for HighSpeed {
    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        let rest = if window.in_slow_start() { window.slow_start(ack.delivered) } else { ack.delivered };
        if rest > 0 {
            window.increase(rest, increase(window.segments()));
        }
    }

    fn reduce(&mut self, _why: Congestion, window: &Window) -> u64 {
        (window.cwnd as f64 * (1.0 - decrease(window.segments()))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::test_ack;
    use proptest::prelude::*;
    use units::Time;

    /// Rows of the table in appendix B: window, a(w), b(w).
    const TABLE: [(f64, f64, f64); 15] = [
        (38.0, 1.0, 0.50),
        (118.0, 2.0, 0.44),
        (221.0, 3.0, 0.41),
        (347.0, 4.0, 0.38),
        (495.0, 5.0, 0.37),
        (663.0, 6.0, 0.35),
        (851.0, 7.0, 0.34),
        (1058.0, 8.0, 0.33),
        (1284.0, 9.0, 0.32),
        (1529.0, 10.0, 0.31),
        (1793.0, 11.0, 0.30),
        (3039.0, 15.0, 0.27),
        (10_661.0, 30.0, 0.21),
        (30_975.0, 50.0, 0.15),
        (84_035.0, 71.0, 0.10),
    ];

    #[test]
    fn the_table_of_the_rfc() {
        for (w, a, b) in TABLE {
            assert!((increase(w) - a).abs() < 0.02 * a, "a({w}) = {}", increase(w));
            assert!((decrease(w) - b).abs() < 0.0051, "b({w}) = {}", decrease(w));
        }
    }

    #[test]
    fn small_windows_are_renos() {
        let mut window = Window::new(1000, 20);
        window.ssthresh = 20_000;
        HighSpeed.grow(&test_ack(Time::ZERO, 20_000, 0, 0, false), &mut window);
        assert_eq!(window.cwnd, 21_000);
        assert_eq!(HighSpeed.reduce(Congestion::Loss, &window), 10_500);
    }

    #[test]
    fn a_large_window_by_hand() {
        // 1058 segments: a = 8.02, b = 0.327. 8.02 * 1058 = 8489 acknowledged segments pay for 1058 + 1059 + ... + 1064.
        let mut window = Window::new(1000, 1058);
        window.ssthresh = window.cwnd;
        HighSpeed.grow(&test_ack(Time::ZERO, 1_058_000, 0, 0, false), &mut window);
        assert_eq!(window.cwnd, 1_065_000);
        window.cwnd = 1_058_000;
        let kept = HighSpeed.reduce(Congestion::Loss, &window) as f64 / 1_058_000.0;
        assert!((kept - 0.673).abs() < 0.001, "{kept}");
    }

    proptest! {
        #[test]
        fn both_are_bounded_and_monotone(w in 1.0..1e7f64, more in 1.0..2.0f64) {
            prop_assert!((HIGH_DECREASE..=0.5).contains(&decrease(w)));
            prop_assert!(increase(w) >= 1.0 && increase(w) <= w.max(1.0));
            prop_assert!(decrease(w * more) <= decrease(w));
            prop_assert!(increase(w * more) >= increase(w) * 0.999);
        }
    }
}
