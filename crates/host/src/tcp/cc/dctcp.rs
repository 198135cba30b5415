//! DCTCP's window (RFC 8257, section 3.3).

use super::newreno::NewReno;
use super::{AckEvent, Congestion, Law, Window};

/// Weight of a new observation window, g (section 4.2).
const GAIN: f64 = 1.0 / 16.0;

#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    alpha: f64,
    /// Bytes delivered, and delivered by ACKs with ECE, in this observation window.
    delivered: u64,
    marked: u64,
    /// The window ends when this is acknowledged.
    window_end: u64,
}

impl Dctcp {
    pub(crate) fn new(start: u64) -> Dctcp {
        Dctcp { alpha: 1.0, delivered: 0, marked: 0, window_end: start }
    }

    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }
}

impl Law for Dctcp {
    /// Steps 1 to 8. SACKed bytes count when they are SACKed, as in Linux.
    fn on_delivered(&mut self, ack: &AckEvent) {
        self.delivered += ack.delivered;
        if ack.ece {
            self.marked += ack.delivered;
        }
        if ack.una <= self.window_end {
            return;
        }
        self.window_end = ack.nxt;
        if self.delivered > 0 {
            let fraction = self.marked as f64 / self.delivered as f64;
            self.alpha = ((1.0 - GAIN) * self.alpha + GAIN * fraction).min(1.0);
        }
        self.delivered = 0;
        self.marked = 0;
    }

    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        NewReno.grow(ack, window);
    }

    /// Step 9 for an echo; loss is met as any TCP meets it (section 3.4).
    fn reduce(&mut self, why: Congestion, window: &Window) -> u64 {
        match why {
            Congestion::Echo => (window.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64,
            Congestion::Loss | Congestion::Timeout => window.cwnd / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::test_ack;
    use units::Time;

    fn ack(delivered: u64, una: u64, nxt: u64, ece: bool) -> AckEvent {
        test_ack(Time::ZERO, delivered, una, nxt, ece)
    }

    #[test]
    fn alpha_by_hand() {
        let mut dctcp = Dctcp::new(0);
        assert_eq!(dctcp.alpha(), 1.0);
        // The first ACK ends the empty first window: all of it unmarked, alpha = 15/16.
        dctcp.on_delivered(&ack(1000, 1000, 10_000, false));
        assert_eq!(dctcp.alpha(), 0.9375);
        // The window up to 10,000: 4,000 of 10,000 bytes marked (it ends above, not at, 10,000).
        dctcp.on_delivered(&ack(4000, 5000, 12_000, true));
        dctcp.on_delivered(&ack(5000, 10_000, 15_000, false));
        assert_eq!(dctcp.alpha(), 0.9375, "one update a window");
        dctcp.on_delivered(&ack(1000, 11_000, 20_000, false));
        assert!((dctcp.alpha() - (0.9375 * 15.0 / 16.0 + 0.4 / 16.0)).abs() < 1e-12);
        let mut una = 20_000;
        for _ in 0..200 {
            una += 1000;
            dctcp.on_delivered(&ack(1000, una, una, false));
        }
        assert!(dctcp.alpha() < 1e-3);
    }

    #[test]
    fn an_echo_takes_half_of_alpha_and_a_loss_half() {
        let mut dctcp = Dctcp::new(0);
        let mut window = Window::new(1000, 100);
        window.ssthresh = 50_000;
        assert_eq!(dctcp.reduce(Congestion::Echo, &window), 50_000, "alpha 1");
        dctcp.alpha = 0.25;
        assert_eq!(dctcp.reduce(Congestion::Echo, &window), 87_500);
        assert_eq!(dctcp.reduce(Congestion::Loss, &window), 50_000);
        assert_eq!(dctcp.reduce(Congestion::Timeout, &window), 50_000);
    }
}
