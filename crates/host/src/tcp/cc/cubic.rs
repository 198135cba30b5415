//! CUBIC (RFC 9438), with HyStart as Linux runs it.

use super::{AckEvent, Congestion, Law, Window};
use units::Time;

/// Scaling constant, segments per cubic second (section 4.1).
const C: f64 = 0.4;
/// Multiplicative decrease (section 4.6).
const BETA: f64 = 0.7;
/// Growth of the Reno-friendly estimate in segments per window, 3 (1 - beta) / (1 + beta) (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The curve of one congestion avoidance epoch; window sizes in segments.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Seconds from the start until the plateau.
    k: f64,
    w_est: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    w_max: f64,
    /// Window before the last reduction, which ends the slower growth of `w_est`.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// Growth in bytes below one.
    fraction: f64,
    /// `w_max` and epoch before the last reduction.
    undo: (f64, Option<Epoch>),
    hystart: Option<HyStart>,
}

impl Cubic {
    /// `hystart`: whether it counts whole milliseconds, if there is any.
    pub(crate) fn new(hystart: Option<bool>, start: u64) -> Cubic {
        Cubic {
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            fraction: 0.0,
            undo: (0.0, None),
            hystart: hystart.map(|ticks| HyStart::new(start, ticks)),
        }
    }

    fn w_cubic(&self, t: f64, k: f64) -> f64 {
        let d = t - k;
        C * d * d * d + self.w_max
    }

    fn avoid(&mut self, ack: &AckEvent, acked: u64, window: &mut Window) {
        let mss = window.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                // Without a reduction before it (slow start ended by HyStart) the curve starts at its plateau.
                let k = if cwnd < self.w_max { libm::cbrt((self.w_max - cwnd) / C) } else { 0.0 };
                self.w_max = self.w_max.max(cwnd);
                Epoch { start: ack.now, k, w_est: cwnd }
            }
        };
        let t = ack.now.saturating_sub(epoch.start).as_secs_f64();
        let rtt = ack.srtt.unwrap_or(Time::ZERO).as_secs_f64();
        let segments = acked as f64 / mss;
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segments / cwnd;
        let growth = if self.w_cubic(t, epoch.k) < epoch.w_est {
            (epoch.w_est - cwnd).max(0.0)
        } else {
            let target = self.w_cubic(t + rtt, epoch.k).clamp(cwnd, 1.5 * cwnd);
            (target - cwnd) / cwnd * segments
        };
        self.epoch = Some(epoch);
        self.fraction += growth * mss;
        window.cwnd += self.fraction as u64;
        self.fraction -= self.fraction as u64 as f64;
    }
}

impl Law for Cubic {
    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        let mut acked = ack.delivered;
        if window.in_slow_start() {
            if self.hystart.as_mut().is_some_and(|hystart| hystart.leave_slow_start(ack, window)) {
                window.ssthresh = window.cwnd;
            }
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            self.avoid(ack, acked, window);
        }
    }

    /// Section 4.6, with fast convergence (section 4.7).
    fn reduce(&mut self, _why: Congestion, window: &Window) -> u64 {
        let cwnd = window.cwnd as f64 / window.mss as f64;
        self.undo = (self.w_max, self.epoch);
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.fraction = 0.0;
        (window.cwnd as f64 * BETA) as u64
    }

    fn undo(&mut self) {
        (self.w_max, self.epoch) = self.undo;
    }

    /// The curve does not climb while nothing is sent (section 4.2).
    fn on_restart(&mut self, idle: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.saturating_add(idle);
        }
    }
}

/// Slow start is left early when a round's ACK train is as long as half the path's delay, or when delay has risen.
#[derive(Clone, Debug)]
struct HyStart {
    round_end: u64,
    round_start: Time,
    last_ack: Time,
    /// Smallest RTT of this round's first samples, and how many were taken.
    round_rtt: Time,
    samples: u8,
    delay_min: Time,
    /// Before Linux 5.6 the clock of trains had whole milliseconds.
    ticks: bool,
}

impl HyStart {
    /// Below this window (segments) slow start is never left.
    const LOW_WINDOW: u64 = 16;
    /// ACKs further apart are no train.
    const ACK_GAP: Time = Time::from_ms(2);
    const MIN_SAMPLES: u8 = 8;

    fn new(start: u64, ticks: bool) -> HyStart {
        HyStart {
            round_end: start,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            round_rtt: Time::MAX,
            samples: 0,
            delay_min: Time::MAX,
            ticks,
        }
    }

    /// Is the round's train, up to now, as long as half the path's delay?
    fn train_is_long(&self, ack: &AckEvent) -> bool {
        if self.ticks {
            let ms = |at: Time| at.as_ns() / 1_000_000;
            return ms(ack.now) - ms(self.round_start) > ms(self.delay_min / 2);
        }
        // Linux allows for the bursts of TSO: four 64 KB segments at the pacing rate, at most 1 ms.
        let burst = Time::from_secs_f64(4.0 * 65_536.0 / ack.pacing_rate.max(1) as f64).min(Time::from_ms(1));
        ack.now.saturating_sub(self.round_start) > self.delay_min.saturating_add(burst) / 2
    }

    fn leave_slow_start(&mut self, ack: &AckEvent, window: &Window) -> bool {
        if ack.una > self.round_end {
            self.round_end = ack.nxt;
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_rtt = Time::MAX;
            self.samples = 0;
        }
        let Some(rtt) = ack.rtt else { return false };
        self.delay_min = self.delay_min.min(rtt);
        if window.cwnd < Self::LOW_WINDOW * window.mss {
            return false;
        }
        if ack.now.saturating_sub(self.last_ack) <= Self::ACK_GAP {
            self.last_ack = ack.now;
            if self.train_is_long(ack) {
                return true;
            }
        }
        if self.samples < Self::MIN_SAMPLES {
            self.samples += 1;
            self.round_rtt = self.round_rtt.min(rtt);
            return false;
        }
        let rise = (self.delay_min / 8).clamp(Time::from_ms(4), Time::from_ms(16));
        self.round_rtt > self.delay_min.saturating_add(rise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::test_ack;

    const MSS: u64 = 1000;

    fn reduced(from_segments: u64) -> (Cubic, Window) {
        let mut cubic = Cubic::new(None, 0);
        let mut window = Window::new(MSS, 10);
        window.cwnd = from_segments * MSS;
        window.ssthresh = cubic.reduce(Congestion::Loss, &window);
        window.cwnd = window.ssthresh;
        (cubic, window)
    }

    /// Acknowledges a window every `rtt` until `until`; returns the window in segments.
    fn run(cubic: &mut Cubic, window: &mut Window, rtt: Time, until: Time) -> f64 {
        let mut now = Time::ZERO;
        let mut una = 0;
        while now <= until {
            let mut left = window.cwnd;
            while left > 0 {
                let acked = left.min(MSS);
                una += acked;
                cubic.grow(&AckEvent { srtt: Some(rtt), ..test_ack(now, acked, una, una, false) }, window);
                left -= acked;
            }
            now += rtt;
        }
        window.cwnd as f64 / MSS as f64
    }

    #[test]
    fn the_curve_passes_its_points() {
        // From 1000 segments: W_max = 1000, cwnd = 700, K = cbrt(300 / 0.4) = 9.0856 s.
        let (cubic, window) = reduced(1000);
        assert_eq!(window.cwnd, 700 * MSS);
        let k = libm::cbrt(300.0 / C);
        assert!((k - 9.0856).abs() < 1e-3);
        assert!((cubic.w_cubic(0.0, k) - 700.0).abs() < 1e-9);
        assert!((cubic.w_cubic(k, k) - 1000.0).abs() < 1e-9);
        assert!((cubic.w_cubic(k + 5.0, k) - 1050.0).abs() < 1e-9, "0.4 * 125 above the plateau");
    }

    #[test]
    fn a_long_fat_path_follows_the_curve() {
        let (mut cubic, mut window) = reduced(1000);
        let at = |seconds, cubic: &mut Cubic, window: &mut Window| {
            run(cubic, window, Time::from_ms(100), Time::from_secs(seconds))
        };
        let (mut c2, mut w2) = (cubic.clone(), window.clone());
        // W(4) = 0.4 * (4 - 9.0856)^3 + 1000 = 947.4; W(9) = 1000; both within a few segments of the trajectory.
        assert!((at(4, &mut cubic, &mut window) - 947.4).abs() < 6.0);
        assert!((at(9, &mut c2, &mut w2) - 1000.0).abs() < 3.0);
    }

    #[test]
    fn a_short_path_grows_as_reno_does() {
        // 20 segments, 100 us: the cubic curve needs seconds, so W_est rules: 14 segments plus 0.529 a round trip.
        let (mut cubic, mut window) = reduced(20);
        let w = run(&mut cubic, &mut window, Time::from_us(100), Time::from_us(1000));
        assert!((w - (14.0 + 11.0 * ALPHA)).abs() < 0.5, "{w}");
    }

    #[test]
    fn fast_convergence_and_undo() {
        let (mut cubic, mut window) = reduced(1000);
        window.cwnd = 800 * MSS;
        cubic.reduce(Congestion::Loss, &window);
        assert!((cubic.w_max - 680.0).abs() < 1e-9, "800 * 1.7 / 2: released before the old maximum");
        cubic.undo();
        assert!((cubic.w_max - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn hystart_leaves_slow_start_on_a_long_train() {
        let mut cubic = Cubic::new(Some(false), 0);
        let mut window = Window::new(MSS, 32);
        let ack = |us: u64, una| AckEvent {
            rtt: Some(Time::from_us(1000)),
            ..test_ack(Time::from_us(us), MSS, una, 100 * MSS, false)
        };
        cubic.grow(&ack(1000, MSS), &mut window);
        for n in 1..5 {
            cubic.grow(&ack(1000 + 100 * n, (n + 1) * MSS), &mut window);
        }
        assert!(window.in_slow_start());
        cubic.grow(&ack(1501, 6 * MSS), &mut window);
        assert!(!window.in_slow_start(), "the train reached half the delay");
    }

    /// Round trips of 100 us, a round each. The clock in whole milliseconds sees no train until it ticks within a round.
    #[test]
    fn hystart_of_whole_milliseconds_leaves_slow_start_at_a_tick() {
        let leaves_at = |ticks: bool, first_us: u64| {
            let mut cubic = Cubic::new(Some(ticks), 0);
            let mut window = Window::new(MSS, 32);
            let mut us = first_us;
            for round in 0..100u64 {
                for n in 1..=10 {
                    let (una, nxt) = ((10 * round + n) * MSS, 10 * (round + 1) * MSS);
                    let rtt = Some(Time::from_us(100));
                    let ack = AckEvent { rtt, ..test_ack(Time::from_us(us), MSS, una, nxt, false) };
                    cubic.grow(&ack, &mut window);
                    if !window.in_slow_start() {
                        return us;
                    }
                    us += 9;
                }
            }
            u64::MAX
        };
        assert_eq!(leaves_at(true, 10_340) / 1000, 11, "at the first tick of the clock");
        assert_eq!(leaves_at(false, 10_340), 10_394, "as soon as the train is half a round trip long");
    }
}
