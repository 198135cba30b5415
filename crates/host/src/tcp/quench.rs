//! The sender's answer to ICMP Source Quench, as Linux gave it while it had one: as to an ECN echo (Zats et al. 2013, section 2.2.1).

use crate::tcp::segment::unwrap_seq;
use crate::tcp::sender::{CaState, Sender};

impl Sender {
    /// A switch has asked for less, over the packet with this sequence number. The window shrinks at most once a round trip, and
    /// nothing is sent again.
    pub(crate) fn on_quench(&mut self, seq: u32) {
        let at = unwrap_seq(self.una, seq);
        if at < self.start || at >= self.nxt || self.outstanding() == 0 {
            return;
        }
        self.counters.quenches += 1;
        if self.state == CaState::Open {
            self.enter_cwr();
        }
    }
}
