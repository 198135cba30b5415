//! The sender's one timer, as in Linux: retransmission, tail loss probe, reordering or zero-window probe.

use crate::tcp::cc::Congestion;
use crate::tcp::sender::{CaState, Probe, Sender, Timer, TimerKind, Undo};
use crate::tcp::{Config, Recovery};
use units::Time;

impl Sender {
    pub(crate) fn rto(&self, config: &Config) -> Time {
        if config.pfabric.is_some() {
            return config.rto_min;
        }
        self.rtt.rto(config.rto_initial, config.rto_min, config.rto_max)
    }

    /// Sets the timer anew for the outstanding data (RFC 6298, rules 5.1 to 5.3; RFC 8985, section 7.2).
    pub(crate) fn arm(&mut self, config: &Config, now: Time) {
        self.timer = if self.outstanding() == 0 {
            self.window_blocked().then(|| self.persist_timer(config, now))
        } else {
            let rto_at = now.saturating_add(self.rto(config));
            match self.tail_probe_timeout(config) {
                Some(pto) => {
                    let expiry = self.board.head_sent().unwrap_or(now).saturating_add(self.rto(config));
                    Some(Timer { kind: TimerKind::TailProbe, at: now.saturating_add(pto).min(expiry.max(now)) })
                }
                None => Some(Timer { kind: TimerKind::Retransmit, at: rto_at }),
            }
        };
    }

    /// Arms the timer for a segment just sent.
    pub(crate) fn arm_after_send(&mut self, config: &Config, now: Time, head: bool) {
        let kind = self.timer.map(|timer| timer.kind);
        if head || matches!(kind, None | Some(TimerKind::Persist | TimerKind::TailProbe)) {
            self.arm(config, now);
        }
    }

    /// Data waits, nothing is outstanding, and the peer's window does not admit a segment.
    pub(crate) fn window_blocked(&self) -> bool {
        let waiting = self.unsent();
        self.outstanding() == 0 && waiting > 0 && self.snd_wnd < waiting.min(self.window.mss)
    }

    #[inline(never)]
    pub(crate) fn arm_persist(&mut self, config: &Config, now: Time) {
        if self.timer.is_none() && self.window_blocked() {
            self.timer = Some(self.persist_timer(config, now));
        }
    }

    /// RFC 9293, section 3.8.6.1: as the retransmission timeout, and backing off like it.
    fn persist_timer(&self, config: &Config, now: Time) -> Timer {
        let interval = self.rto(config).max(config.persist_min).min(config.rto_max);
        Timer { kind: TimerKind::Persist, at: now.saturating_add(interval) }
    }

    /// 2 SRTT, and the peer's ACK delay where a single segment may be waiting for it; `None` where no probe is due.
    fn tail_probe_timeout(&self, config: &Config) -> Option<Time> {
        let eligible = self.recovery == Recovery::Rack
            && config.tail_loss_probe
            && matches!(self.state, CaState::Open | CaState::Cwr)
            && self.tail_probe.is_none()
            && self.board.sacked() == 0;
        let srtt = self.srtt().filter(|_| eligible)?;
        let delay = if self.outstanding() <= self.window.mss { config.delayed_ack } else { Time::ZERO };
        Some((srtt * 2).saturating_add(delay))
    }

    pub(crate) fn on_timer(&mut self, config: &Config, now: Time) {
        let Some(timer) = self.timer.filter(|timer| timer.at <= now) else { return };
        match timer.kind {
            TimerKind::Retransmit => self.on_retransmission_timeout(config, now),
            TimerKind::TailProbe => {
                self.probe = Some(Probe::Tail);
                self.timer = Some(Timer { kind: TimerKind::Retransmit, at: now.saturating_add(self.rto(config)) });
            }
            TimerKind::Reorder => {
                self.timer = Some(Timer { kind: TimerKind::Retransmit, at: now.saturating_add(self.rto(config)) });
                self.on_reorder_timeout(config, now);
            }
            TimerKind::Persist => {
                self.probe = Some(Probe::Window);
                self.rtt.back_off();
                self.timer = Some(self.persist_timer(config, now));
            }
        }
    }

    fn on_retransmission_timeout(&mut self, config: &Config, now: Time) {
        self.counters.timeouts += 1;
        if let Some(options) = config.pfabric {
            self.probes.timeout(options.probe_after, self.consecutive_timeouts + 1);
            if self.probes.only && self.consecutive_timeouts >= options.probe_after {
                self.timer = Some(Timer { kind: TimerKind::Retransmit, at: now.saturating_add(self.rto(config)) });
                return;
            }
        }
        if matches!(self.state, CaState::Open | CaState::Cwr)
            && self.board.sacked() >= u64::from(config.reordering) * self.window.mss
        {
            // The threshold that reordering has raised kept fast retransmit from happening: Linux lowers it again.
            self.reordering = self.reordering.min(config.reordering.max(1));
        }
        // RFC 5681, equation 4: once for a segment, however often it times out.
        if self.state != CaState::Loss || self.consecutive_timeouts == 0 {
            let fresh = matches!(self.state, CaState::Open | CaState::Cwr);
            let prior = (self.window.cwnd, self.window.ssthresh);
            self.window.ssthresh = self.cc.reduce(Congestion::Timeout, &self.window);
            let undo = Undo {
                marker: self.una,
                cwnd: prior.0,
                ssthresh: prior.1,
                retransmitted: 0,
                first_retransmission: None,
                span: 0,
            };
            self.undo = fresh.then_some(undo);
        }
        self.consecutive_timeouts += 1;
        self.reduced = true;
        self.state = CaState::Loss;
        self.high_seq = self.nxt;
        self.reno_recover = self.nxt;
        self.reno_sacked = 0;
        self.tail_probe = None;
        self.probe = None;
        self.forget_drops();
        self.board.mark_all_lost(self.board.head_sacked());
        self.window.cwnd = self.window.mss;
        self.window.forget_credit();
        self.rtt.back_off();
        self.timer = Some(Timer { kind: TimerKind::Retransmit, at: now.saturating_add(self.rto(config)) });
    }
}
