//! The sender's side of FastLane (Zats et al. 2013, section 3.2).
//!
//! Switches tell of every packet that they drop. So the sender knows exactly what to send again and needs no duplicate ACKs.
//!
//! What was dropped waits in a table, lowest sequence number first. While the table has entries no new data leaves, and the
//! number of retransmissions in the network is limited. The limit is half the window that was, less the more often one of
//! them was dropped. When all have arrived, the window is half of what it was.

use crate::tcp::dropped::Table;
use crate::tcp::segment::{unwrap_seq, Segment};
use crate::tcp::sender::{CaState, Sender};
use crate::tcp::transmit::Outgoing;
use crate::tcp::Config;
use units::Time;

pub use crate::tcp::dropped::Slowdown;
pub use crate::tcp::options::FastLane as Options;

/// A notification as it reaches the sender of the dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The dropped packet's sequence number, modulo 2^32.
    pub seq: u32,
    /// Its cumulative acknowledgement.
    pub ack: u32,
    /// Its payload in bytes.
    pub len: u32,
    /// Its [`crate::tcp::flags`].
    pub flags: u8,
    /// Its timeout count option: see [`Options::count_of`].
    pub timeouts: u8,
    /// It was a probe of [`crate::tcp::pfabric`].
    pub probe: bool,
}

impl Options {
    /// The timeout count option of a sender that had so many timeouts. 0 means that there is none.
    pub(crate) fn count_of(self, timeouts: u32) -> u8 {
        if self.count {
            (timeouts % 255) as u8 + 1
        } else {
            0
        }
    }
}

impl Sender {
    /// A switch has dropped a packet of data, or a FIN, that this sender sent. What is acknowledged is no matter; what is
    /// not outstanding was never sent.
    #[inline(never)]
    pub(crate) fn on_dropped(&mut self, config: &Config, notification: &Notification, seq_len: u64) {
        let Some(options) = config.fastlane else { return };
        let start = unwrap_seq(self.una, notification.seq);
        let end = start + seq_len;
        if end <= self.una || end > self.nxt || start < self.start {
            self.counters.notifications_ignored += 1;
            return;
        }
        self.counters.notifications += 1;
        let start = start.max(self.una);
        self.board.mark_range_lost(start, end);
        // After a timeout everything is being sent again in order.
        if self.state != CaState::Loss {
            self.dropped.dropped(start, end, self.window.cwnd, self.window.mss, options.slowdown);
            if config.pfabric.is_some_and(|pfabric| pfabric.probe_drops) {
                self.probe_before_resending();
            }
        }
    }

    /// What FastLane makes of an acknowledgement that has been processed otherwise. `advanced`: it moved `una`.
    pub(crate) fn after_ack(&mut self, config: &Config, segment: &Segment, advanced: bool) {
        let Some(options) = config.fastlane else { return };
        if config.pfabric.is_some() {
            return self.after_pfabric_ack();
        }
        if self.dropped.acked(self.una) {
            self.window.cwnd = (self.dropped.cwnd / 2).max(self.window.mss);
            self.window.ssthresh = self.window.cwnd.max(2 * self.window.mss);
            self.window.forget_credit();
        }
        if options.inflate {
            let held = u64::from(segment.held);
            self.inflation = if advanced { held } else { self.inflation.max(held) };
        }
        // Bytes that the receiver holds are not in the network: the window admits as many more.
        self.reno_sacked = self.inflation.min(self.outstanding().saturating_sub(self.board.lost()));
    }

    /// A timeout: everything is sent again, and notifications of what was sent before mean nothing.
    pub(crate) fn forget_drops(&mut self) {
        self.dropped = Table::default();
        self.inflation = 0;
    }

    /// The next retransmission that FastLane has due.
    #[inline(never)]
    pub(crate) fn send_dropped(&mut self, config: &Config, now: Time) -> Option<Outgoing> {
        let (start, end) = match config.pfabric {
            Some(_) => self.dropped.next_within(self.una)?,
            None => self.dropped.next(self.una)?,
        };
        self.dropped.sent(end);
        let head = start == self.una;
        let out = self.retransmit(config, now, start, end - start);
        if head {
            // The first outstanding byte is on its way anew: its timeout counts from here.
            self.arm(config, now);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_count_is_never_the_absent_option() {
        assert_eq!([0, 1, 254, 255].map(|timeouts| Options::default().count_of(timeouts)), [1, 2, 255, 1]);
        assert_eq!(Options { count: false, ..Options::default() }.count_of(1), 0);
    }
}
