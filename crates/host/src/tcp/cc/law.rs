//! What every law is told, and what it may change.

use units::Time;

/// Why the window shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// ECN echo.
    Echo,
    /// Loss found by duplicate ACKs, SACK, RACK or a tail loss probe.
    Loss,
    /// Retransmission timeout.
    Timeout,
}

/// What a law may know about an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckEvent {
    pub(crate) now: Time,
    /// Bytes newly acknowledged or SACKed.
    pub(crate) delivered: u64,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) ece: bool,
    /// RTT of the most recent segment acknowledged.
    pub(crate) rtt: Option<Time>,
    pub(crate) srtt: Option<Time>,
    /// Bytes per second.
    pub(crate) pacing_rate: u64,
}

/// Congestion window and threshold in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) mss: u64,
    /// Bytes acknowledged in congestion avoidance and not yet turned into window.
    credit: u64,
}

impl Window {
    pub(crate) fn new(mss: u64, initial_segments: u32) -> Window {
        Window { cwnd: mss * u64::from(initial_segments.max(1)), ssthresh: u64::MAX, mss, credit: 0 }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by the bytes acknowledged, up to the threshold (RFC 3465 without the limit L, as Linux); returns what is
    /// left for congestion avoidance.
    pub(crate) fn slow_start(&mut self, acked: u64) -> u64 {
        let growth = acked.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd += growth;
        acked - growth
    }

    /// One segment for each window acknowledged (RFC 5681, section 3.1, by byte counting).
    pub(crate) fn additive_increase(&mut self, acked: u64) {
        self.credit += acked;
        while self.credit >= self.cwnd {
            self.credit -= self.cwnd;
            self.cwnd += self.mss;
        }
    }

    /// As [`Window::additive_increase`], but `segments` of them, which need not be whole.
    pub(crate) fn increase(&mut self, acked: u64, segments: f64) {
        self.additive_increase((acked as f64 * segments) as u64);
    }

    /// The window in segments.
    pub(crate) fn segments(&self) -> f64 {
        self.cwnd as f64 / self.mss.max(1) as f64
    }

    pub(crate) fn forget_credit(&mut self) {
        self.credit = 0;
    }
}

/// A congestion control law.
pub(crate) trait Law {
    /// Every ACK, before anything is made of it.
    fn on_delivered(&mut self, _ack: &AckEvent) {}
    /// An ACK that may grow the window: it moved `snd_una`, no reduction is under way, the window was used.
    fn grow(&mut self, ack: &AckEvent, window: &mut Window);
    /// Congestion: returns the new slow start threshold.
    fn reduce(&mut self, why: Congestion, window: &Window) -> u64;
    /// The last reduction was spurious; the window has been restored.
    fn undo(&mut self) {}
    /// Data flows again after the connection was idle for `idle`.
    fn on_restart(&mut self, _idle: Time) {}
}

#[cfg(test)]
pub(crate) fn test_ack(now: Time, delivered: u64, una: u64, nxt: u64, ece: bool) -> AckEvent {
    AckEvent { now, delivered, una, nxt, ece, rtt: None, srtt: None, pacing_rate: 1 << 40 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_stops_at_the_threshold_and_hands_on_the_rest() {
        let mut window = Window::new(1000, 10);
        window.ssthresh = 12_500;
        assert_eq!(window.slow_start(2_000), 0);
        assert_eq!(window.slow_start(2_000), 1_500);
        assert_eq!((window.cwnd, window.in_slow_start()), (12_500, false));
    }

    #[test]
    fn one_segment_a_window() {
        let mut window = Window::new(1000, 10);
        for _ in 0..9 {
            window.additive_increase(1000);
        }
        assert_eq!(window.cwnd, 10_000);
        window.additive_increase(1000);
        assert_eq!(window.cwnd, 11_000);
        window.additive_increase(11_000 + 12_000);
        assert_eq!(window.cwnd, 13_000);
    }
}
