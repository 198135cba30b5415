//! Vegas (Brakmo and Peterson 1995): the window follows the number of packets that the connection keeps in queues. The
//! estimate of this number is the RTT's excess over the smallest RTT ever seen.
//!
//! The window is corrected once a round trip, by one segment. Parameters and the estimate are those of Linux (`tcp_vegas`),
//! which differs from the paper in two points. Slow start doubles the window every round trip, not every second one. The
//! estimate is cwnd (rtt - base) / base, where the paper has cwnd (rtt - base) / rtt.

use super::newreno::NewReno;
use super::{AckEvent, Congestion, Law, Window};
use units::Time;

/// Segments in queues: below ALPHA the window grows, above BETA it shrinks; above GAMMA slow start ends.
const ALPHA: f64 = 2.0;
const BETA: f64 = 4.0;
const GAMMA: f64 = 1.0;
/// With fewer samples a round says nothing, as one delayed ACK may be all there is: the window grows as Reno's.
const MIN_SAMPLES: u32 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    /// Smallest RTT of the connection; stands for the path without queues.
    base_rtt: Time,
    /// Smallest RTT of this round, and how many were taken.
    round_rtt: Time,
    samples: u32,
    /// The round ends when more than this is acknowledged; `None` before the first and after a reduction.
    round_end: Option<u64>,
}

impl Vegas {
    pub(crate) fn new() -> Vegas {
        Vegas { base_rtt: Time::MAX, round_rtt: Time::MAX, samples: 0, round_end: None }
    }

    fn begin_round(&mut self, end: Option<u64>) {
        self.round_end = end;
        self.round_rtt = Time::MAX;
        self.samples = 0;
    }

    fn adjust(&mut self, ack: &AckEvent, window: &mut Window) {
        let (base, rtt) = (self.base_rtt.as_ps().max(1) as f64, self.round_rtt.as_ps() as f64);
        let cwnd = window.cwnd as f64 / window.mss as f64;
        let queued = cwnd * (rtt - base) / base;
        if window.in_slow_start() {
            if queued <= GAMMA {
                window.slow_start(ack.delivered);
                return;
            }
            // Slow start ends where the path without queues would be full, and a segment above.
            let full = (window.cwnd as f64 * base / rtt) as u64 + window.mss;
            window.cwnd = window.cwnd.min(full);
            window.ssthresh = window.cwnd;
        } else if queued > BETA {
            window.cwnd = window.cwnd.saturating_sub(window.mss);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < ALPHA {
            window.cwnd += window.mss;
        }
        window.cwnd = window.cwnd.max(2 * window.mss);
        window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
    }
}

impl Law for Vegas {
    fn on_delivered(&mut self, ack: &AckEvent) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = self.base_rtt.min(rtt);
            self.round_rtt = self.round_rtt.min(rtt);
            self.samples += 1;
        }
    }

    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        match self.round_end {
            Some(end) if ack.una > end => {
                if self.samples < MIN_SAMPLES {
                    NewReno.grow(ack, window);
                } else {
                    self.adjust(ack, window);
                }
                self.begin_round(Some(ack.nxt));
            }
            Some(_) => {
                window.slow_start(ack.delivered);
            }
            None => {
                self.begin_round(Some(ack.nxt));
                window.slow_start(ack.delivered);
            }
        }
    }

    /// As Reno; measuring begins anew afterwards.
    fn reduce(&mut self, _why: Congestion, window: &Window) -> u64 {
        self.begin_round(None);
        window.cwnd / 2
    }

    fn on_restart(&mut self, _idle: Time) {
        self.begin_round(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::test_ack;

    const MSS: u64 = 1000;

    /// One round: four ACKs with samples of `rtt_us`; the last ends the round.
    fn round(vegas: &mut Vegas, window: &mut Window, una: &mut u64, rtt_us: u64) {
        let before = *una;
        for n in 1..=4 {
            *una = before + n * MSS;
            let ack = AckEvent { rtt: Some(Time::from_us(rtt_us)), ..test_ack(Time::ZERO, MSS, *una, *una, false) };
            vegas.on_delivered(&ack);
            if n < 4 {
                vegas.round_end = vegas.round_end.or(Some(before)).map(|_| before + 3 * MSS);
            }
            vegas.grow(&ack, window);
        }
    }

    fn avoiding(segments: u64, base_us: u64) -> (Vegas, Window) {
        let mut window = Window::new(MSS, segments as u32);
        window.ssthresh = window.cwnd;
        (Vegas { base_rtt: Time::from_us(base_us), ..Vegas::new() }, window)
    }

    #[test]
    fn the_window_by_hand() {
        // 20 segments, base 100 us. 109 us: 1.8 queued, grow; 110: 2.0, 120: 4.0, keep; 121: 4.2, shrink.
        for (rtt, segments) in [(100, 21), (109, 21), (110, 20), (115, 20), (120, 20), (121, 19), (500, 19)] {
            let (mut vegas, mut window) = avoiding(20, 100);
            round(&mut vegas, &mut window, &mut 0, rtt);
            assert_eq!(window.cwnd, segments * MSS, "{rtt} us");
        }
    }

    #[test]
    fn slow_start_ends_on_one_queued_segment() {
        let mut vegas = Vegas { base_rtt: Time::from_us(100), ..Vegas::new() };
        let mut window = Window::new(MSS, 20);
        let mut una = 0;
        round(&mut vegas, &mut window, &mut una, 104);
        assert_eq!((window.cwnd, window.in_slow_start()), (24 * MSS, true), "0.96 queued: four more acknowledged");
        // 27 segments at the end of the round, 125 us: 27 * 100 / 125 = 21.6, and one above.
        round(&mut vegas, &mut window, &mut una, 125);
        assert_eq!((window.cwnd, window.in_slow_start()), (22_600, false));
    }

    #[test]
    fn few_samples_grow_like_reno_and_a_loss_halves() {
        let (mut vegas, mut window) = avoiding(10, 100);
        vegas.round_end = Some(0);
        let ack = AckEvent { rtt: Some(Time::from_us(900)), ..test_ack(Time::ZERO, 10 * MSS, 10 * MSS, 20_000, false) };
        vegas.on_delivered(&ack);
        vegas.grow(&ack, &mut window);
        assert_eq!(window.cwnd, 11 * MSS);
        assert_eq!(vegas.reduce(Congestion::Loss, &window), 5500);
        assert_eq!(vegas.round_end, None);
    }

    #[test]
    fn the_window_never_falls_below_two_segments() {
        let (mut vegas, mut window) = avoiding(3, 10);
        let mut una = 0;
        for _ in 0..5 {
            round(&mut vegas, &mut window, &mut una, 1000);
        }
        assert_eq!(window.cwnd, 2 * MSS);
    }
}
