//! NewReno's window (RFC 5681). The recovery of RFC 6582 is part of the sender.

use super::{AckEvent, Congestion, Law, Window};

#[derive(Clone, Debug)]
pub(crate) struct NewReno;

impl Law for NewReno {
    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        let rest = if window.in_slow_start() { window.slow_start(ack.delivered) } else { ack.delivered };
        if rest > 0 {
            window.additive_increase(rest);
        }
    }

    /// Half the window. RFC 5681 says half the flight; Linux takes the window, which only grows when it is used.
    fn reduce(&mut self, _why: Congestion, window: &Window) -> u64 {
        window.cwnd / 2
    }
}
