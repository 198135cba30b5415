//! RACK's state (RFC 8985): the newest delivered transmission and the reordering window.

use crate::tcp::scoreboard::{Delivery, Transmission};
use units::Time;

/// After how many recoveries without DSACK the reordering window returns to its smallest (section 6.2, step 4).
const PERSIST_RECOVERIES: u8 = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    newest: Option<Transmission>,
    rtt: Time,
    reordering_seen: bool,
    /// Window in quarters of the minimum RTT; 0 stands for 1.
    multiplier: u8,
    persist: u8,
    /// A DSACK round lasts until this is acknowledged.
    dsack_round: Option<u64>,
}

impl Rack {
    /// Steps 2 and 3: takes note of what an ACK delivered.
    pub(crate) fn update(&mut self, now: Time, delivery: &Delivery) {
        if let Some(newest) = delivery.newest {
            if self.newest.is_none_or(|known| known < newest) {
                self.newest = Some(newest);
                self.rtt = now.saturating_sub(newest.sent);
            }
        }
        self.reordering_seen |= delivery.reordered.is_some();
    }

    /// Step 4: a DSACK widens the window by a quarter of the minimum RTT, once a round trip.
    pub(crate) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|end| una < end) {
            return;
        }
        self.dsack_round = Some(nxt);
        self.multiplier = self.multiplier.max(1).saturating_add(1);
        self.persist = PERSIST_RECOVERIES;
    }

    /// A recovery ended; after enough of them the window is small again.
    pub(crate) fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// How long a packet may be overtaken before it is lost. Zero where nothing was ever reordered and the evidence
    /// is strong: in recovery, or with as many segments SACKed as the duplicate threshold (`eager`).
    fn reordering_window(&self, eager: bool, min_rtt: Option<Time>, srtt: Option<Time>) -> Time {
        if !self.reordering_seen && eager {
            return Time::ZERO;
        }
        let (min_rtt, srtt) = (min_rtt.unwrap_or(Time::ZERO), srtt.unwrap_or(Time::ZERO));
        (min_rtt / 4 * u64::from(self.multiplier.max(1))).min(srtt)
    }

    /// The newest delivered transmission, and the age from which earlier transmissions are lost.
    pub(crate) fn threshold(
        &self,
        eager: bool,
        min_rtt: Option<Time>,
        srtt: Option<Time>,
    ) -> Option<(Transmission, Time)> {
        let newest = self.newest?;
        Some((newest, self.rtt.saturating_add(self.reordering_window(eager, min_rtt, srtt))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_widens_on_dsack_once_a_round_and_returns() {
        let (min, srtt) = (Some(Time::from_us(100)), Some(Time::from_us(1000)));
        let mut rack = Rack { reordering_seen: true, ..Rack::default() };
        let window = |rack: &Rack| rack.reordering_window(true, min, srtt);
        assert_eq!(window(&rack), Time::from_us(25));
        rack.on_dsack(0, 1000);
        rack.on_dsack(500, 2000);
        assert_eq!(window(&rack), Time::from_us(50), "two DSACKs of one round trip count once");
        rack.on_dsack(1000, 2000);
        assert_eq!(window(&rack), Time::from_us(75));
        for _ in 0..15 {
            rack.on_recovery_end();
        }
        assert_eq!(window(&rack), Time::from_us(75));
        rack.on_recovery_end();
        assert_eq!(window(&rack), Time::from_us(25));
        for una in 0..100 {
            rack.on_dsack(10_000 * una, 10_000 * (una + 1));
        }
        assert_eq!(window(&rack), Time::from_us(1000), "never above the smoothed RTT");
    }

    #[test]
    fn without_reordering_strong_evidence_needs_no_wait() {
        let rack = Rack::default();
        let (min, srtt) = (Some(Time::from_us(100)), Some(Time::from_us(100)));
        assert_eq!(rack.reordering_window(true, min, srtt), Time::ZERO);
        assert_eq!(rack.reordering_window(false, min, srtt), Time::from_us(25));
    }
}
