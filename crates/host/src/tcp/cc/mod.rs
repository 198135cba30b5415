//! Congestion control laws behind one enum, so that a call costs a branch. A new law is a file here that implements
//! [`Law`], and a line in [`Algorithm`] and [`Cc`].

mod coupled;
mod cubic;
mod dctcp;
mod highspeed;
mod illinois;
mod newreno;
mod vegas;

use crate::tcp::Config;
use coupled::Coupled;
pub(crate) use coupled::Path;
use cubic::Cubic;
use dctcp::Dctcp;
use highspeed::HighSpeed;
use illinois::Illinois;
use newreno::NewReno;
use units::Time;
use vegas::Vegas;

/// The law an endpoint sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
    /// Brakmo and Peterson 1995, as Linux has it.
    Vegas,
    /// Liu, Basar and Srikant 2008.
    Illinois,
    /// RFC 3649.
    HighSpeed,
    /// Cardwell et al. 2016, of real kernels only: there is no model of it, and [`run`](crate::run) refuses it.
    Bbr,
    /// RFC 6356, for subflows of MPTCP; alone it is NewReno.
    Lia,
    /// Khalili et al. 2012, for subflows of MPTCP; alone it is NewReno.
    Olia,
}

impl Algorithm {
    /// The law needs ECN: it requests ECN under any configuration, and marks every packet ECT.
    pub fn needs_ecn(self) -> bool {
        self == Algorithm::Dctcp
    }

    /// An [`Endpoint`](crate::tcp::Endpoint) can send by it; one that cannot sends as [`Algorithm::NewReno`].
    pub fn is_modelled(self) -> bool {
        self != Algorithm::Bbr
    }
}

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

#[derive(Clone, Debug)]
pub(crate) enum Cc {
    NewReno(NewReno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Vegas(Vegas),
    Illinois(Illinois),
    HighSpeed(HighSpeed),
    Coupled(Coupled),
}

macro_rules! dispatch {
    ($cc:expr, $law:ident => $call:expr) => {
        match $cc {
            Cc::NewReno($law) => $call,
            Cc::Cubic($law) => $call,
            Cc::Dctcp($law) => $call,
            Cc::Vegas($law) => $call,
            Cc::Illinois($law) => $call,
            Cc::HighSpeed($law) => $call,
            Cc::Coupled($law) => $call,
        }
    };
}

impl Cc {
    /// `start` is the first sequence number of the stream.
    pub(crate) fn new(config: &Config, start: u64) -> Cc {
        match config.congestion {
            Algorithm::NewReno | Algorithm::Bbr => Cc::NewReno(NewReno),
            Algorithm::Cubic => Cc::Cubic(Cubic::new(config.hystart, start)),
            Algorithm::Dctcp => Cc::Dctcp(Dctcp::new(start)),
            Algorithm::Vegas => Cc::Vegas(Vegas::new()),
            Algorithm::Illinois => Cc::Illinois(Illinois::new(start)),
            Algorithm::HighSpeed => Cc::HighSpeed(HighSpeed),
            Algorithm::Lia => Cc::Coupled(Coupled::new(coupled::Kind::Lia)),
            Algorithm::Olia => Cc::Coupled(Coupled::new(coupled::Kind::Olia)),
        }
    }

    /// DCTCP's estimate of the marked fraction, 0 to 1.
    pub(crate) fn alpha(&self) -> Option<f64> {
        match self {
            Cc::Dctcp(law) => Some(law.alpha()),
            _ => None,
        }
    }

    /// Tells a coupled law of all subflows of its connection, this one being `me`; others do not care.
    pub(crate) fn couple(&mut self, paths: &[Path], me: usize) {
        if let Cc::Coupled(law) = self {
            law.couple(paths, me);
        }
    }

    /// Bytes that a coupled law saw delivered between losses; 0 of others.
    pub(crate) fn between_losses(&self) -> u64 {
        match self {
            Cc::Coupled(law) => law.between_losses(),
            _ => 0,
        }
    }

    pub(crate) fn on_delivered(&mut self, ack: &AckEvent) {
        dispatch!(self, law => law.on_delivered(ack));
    }
    pub(crate) fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        dispatch!(self, law => law.grow(ack, window));
    }
    pub(crate) fn reduce(&mut self, why: Congestion, window: &Window) -> u64 {
        dispatch!(self, law => law.reduce(why, window)).max(2 * window.mss)
    }
    pub(crate) fn undo(&mut self) {
        dispatch!(self, law => law.undo());
    }
    pub(crate) fn on_restart(&mut self, idle: Time) {
        dispatch!(self, law => law.on_restart(idle));
    }
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
