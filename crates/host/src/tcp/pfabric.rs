//! The sender's side of pFabric (Alizadeh et al., SIGCOMM 2013, section 4.3), with the changes of FastLane's report (Zats et al. 2013,
//! sections 3.4.2 and 4.2.2).
//!
//! Flows start with a window of the path's bandwidth-delay product. SACK tells what has arrived; only the timer, fixed and short,
//! finds what is lost. Then the window starts again from one segment. After several timeouts in a row nothing leaves but probes
//! without data, until one is answered. Switches do the rest: packets carry ranks.
//!
//! With FastLane, what switches have dropped waits in the table. A probe goes first, and when it is answered, one retransmission may be
//! in the network, and one more for each that arrives.

use crate::tcp::probes::Asked;
use crate::tcp::sender::Sender;
use crate::tcp::transmit::Outgoing;
use crate::tcp::Config;
use units::Time;

pub use crate::tcp::options::{PFabric as Options, Rank};

impl Sender {
    /// What goes before all data: `None` lets data leave, `Some(None)` nothing.
    pub(crate) fn probe_first(&mut self) -> Option<Option<Outgoing>> {
        if !self.probes.only && self.dropped.is_empty() {
            return None;
        }
        match self.probes.asked {
            Asked::Due => {
                self.probes.asked = Asked::Sent;
                self.counters.probes += 1;
                let seq = self.una;
                Some(Some(Outgoing { seq, len: 0, fin: false, psh: false, new: false, probe: true }))
            }
            Asked::Sent => Some(None),
            Asked::No | Asked::Answered => None,
        }
    }

    /// The peer's NIC has answered a probe.
    #[inline(never)]
    pub(crate) fn on_probe_answer(&mut self, config: &Config, now: Time) {
        if self.probes.asked != Asked::Sent {
            return;
        }
        self.probes.asked = Asked::Answered;
        if std::mem::take(&mut self.probes.only) {
            self.probes.asked = Asked::No;
            self.consecutive_timeouts = 0;
            self.arm(config, now);
        }
    }

    /// A switch has dropped a probe.
    pub(crate) fn on_probe_dropped(&mut self) {
        if self.probes.asked == Asked::Sent {
            self.probes.asked = Asked::Due;
        }
    }

    /// A notification has come into the table: retransmissions begin anew, behind a probe.
    pub(crate) fn probe_before_resending(&mut self) {
        self.dropped.max_sim = 1;
        if self.probes.asked != Asked::Sent {
            self.probes.asked = Asked::Due;
        }
    }

    /// An acknowledgement: what of the table has arrived? The window after the last of it goes on from where retransmissions were.
    pub(crate) fn after_pfabric_ack(&mut self) {
        if self.dropped.is_empty() {
            return;
        }
        let (una, board) = (self.una, &self.board);
        let arrived = self.dropped.delivered(|start, end| end <= una || board.holds(start.max(una), end));
        self.dropped.max_sim += arrived;
        if self.dropped.is_empty() {
            let mss = self.window.mss;
            self.window.ssthresh = (self.dropped.cwnd / 2).max(2 * mss);
            self.window.cwnd = (self.dropped.max_sim * mss).min(self.window.ssthresh);
            self.window.forget_credit();
            self.probes.asked = Asked::No;
        }
    }
}
