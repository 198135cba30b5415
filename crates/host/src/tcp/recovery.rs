//! The sender's processing of an ACK: delivery, RTT, ECN, loss, the window.
//!
//! The order of steps and the states are those of Linux (`tcp_ack`, `tcp_fastretrans_alert`). Left out: F-RTO
//! (RFC 5682); a spurious timeout is found by timestamps or DSACK.

use crate::tcp::cc::{AckEvent, Congestion};
use crate::tcp::scoreboard::Delivery;
use crate::tcp::segment::{flags, unwrap_seq, Segment};
use crate::tcp::sender::{CaState, Prr, Sender, Undo};
use crate::tcp::sender::{Timer, TimerKind};
use crate::tcp::{Config, Recovery};
use units::Time;

/// The clock of RFC 7323 timestamps: microseconds modulo 2^32.
pub(crate) fn timestamp(now: Time) -> u32 {
    (now.as_ps() / 1_000_000) as u32
}

impl Sender {
    /// Takes the acknowledgement of a segment whose own (unwrapped) sequence number is `seq`. `ecn` says whether ECE
    /// means anything, `timestamps` whether the echo does.
    pub(crate) fn on_ack(
        &mut self,
        config: &Config,
        now: Time,
        segment: &Segment,
        seq: u64,
        ecn: bool,
        timestamps: bool,
    ) {
        let ack = unwrap_seq(self.una, segment.ack);
        if ack > self.nxt || ack < self.start {
            return;
        }
        let advanced = ack > self.una;
        let stale = ack < self.una;
        let window_changed = !stale && self.update_window(segment, seq, advanced);
        let ece = ecn && segment.has(flags::ECE);
        self.counters.ece_acks += u32::from(ece);

        let mut delivery = Delivery::new(now, self.rtt.min());
        let sacks = segment.n_sack > 0 && self.recovery != Recovery::NewReno;
        let dsack = if sacks { self.take_sacks(segment, ack, &mut delivery) } else { None };
        let duplicate = ack == self.una && self.outstanding() > 0 && segment.seq_len() == 0 && !window_changed;
        self.counters.dup_acks += u32::from(duplicate);
        if advanced {
            let acked = ack - self.una;
            self.board.ack(ack, &mut delivery);
            self.una = ack;
            self.consecutive_timeouts = 0;
            if self.recovery == Recovery::NewReno {
                self.take_reno_ack(acked, &mut delivery);
            }
        } else if duplicate && self.recovery == Recovery::NewReno && config.fastlane.is_none() {
            let room = self.outstanding().saturating_sub(self.board.lost() + self.reno_sacked);
            let left = self.window.mss.min(room);
            self.reno_sacked += left;
            delivery.bytes += left;
        }

        let rtt = self.take_rtt(now, segment, &delivery, advanced && timestamps);
        if self.recovery == Recovery::Rack {
            self.rack.update(now, &delivery);
        }
        if let Some(low) = delivery.reordered {
            self.raise_reordering(config, self.board.high_sacked().saturating_sub(low));
        }
        let event = AckEvent {
            now,
            delivered: delivery.bytes,
            una: self.una,
            nxt: self.nxt,
            ece,
            rtt,
            srtt: self.rtt.srtt(),
            pacing_rate: self.pacing_rate,
        };
        self.cc.on_delivered(&event);

        let prior_state = self.state;
        if self.undo.is_some() {
            self.try_undo(config, segment, timestamps, advanced);
        }
        if self.tail_probe.is_some() {
            self.take_tail_probe_ack(ack, advanced, dsack, delivery.sacked > 0);
        }
        self.leave_finished_states();
        let marked_before = self.board.pending();
        let reorder_due = self.detect_loss(config, now, &delivery, advanced);
        if ece && self.state == CaState::Open && self.outstanding() + delivery.bytes > 0 {
            self.enter_cwr();
        }
        if matches!(self.state, CaState::Cwr | CaState::Recovery) {
            let newly_lost = self.board.pending() > marked_before;
            self.shrink(config, delivery.bytes, advanced && !newly_lost);
        } else if advanced && self.is_cwnd_limited() && self.dropped.is_empty() {
            self.cc.grow(&event, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(config.cwnd_clamp.max(self.window.mss));
        }
        if let (Some(undo), CaState::Recovery | CaState::Loss) = (&mut self.undo, self.state) {
            undo.span = undo.span.max(self.board.high_sacked().saturating_sub(self.una));
        }

        self.after_ack(config, segment, advanced);
        self.update_pacing_rate();
        let entered = self.state != prior_state && self.state == CaState::Recovery;
        if advanced || entered || matches!(self.timer, Some(Timer { kind: TimerKind::Persist, .. })) {
            self.arm(config, now);
        }
        if let Some(at) = reorder_due {
            self.timer = Some(Timer { kind: TimerKind::Reorder, at });
        }
    }

    /// RFC 9293, section 3.10.7.4, with Linux's condition. Returns true if the window changed.
    fn update_window(&mut self, segment: &Segment, seq: u64, advanced: bool) -> bool {
        let window = u64::from(segment.window) << if segment.has(flags::SYN) { 0 } else { self.wnd_shift };
        if advanced || seq > self.snd_wl1 || (seq == self.snd_wl1 && window > self.snd_wnd) {
            let changed = window != self.snd_wnd;
            self.snd_wl1 = seq;
            self.snd_wnd = window;
            if changed && window >= self.window.mss && self.outstanding() == 0 {
                // The peer has opened its window: probing is over, and its back-off with it.
                self.rtt.reset_backoff();
            }
            return changed;
        }
        false
    }

    /// Processes SACK blocks; returns the DSACK, if the first block is one (RFC 2883, section 4).
    #[inline(never)]
    fn take_sacks(&mut self, segment: &Segment, ack: u64, delivery: &mut Delivery) -> Option<(u64, u64)> {
        let mut dsack = None;
        let block = |&(left, right): &(u32, u32)| (unwrap_seq(ack, left), unwrap_seq(ack, right));
        for (index, (left, right)) in segment.sacks().iter().map(block).enumerate() {
            if left >= right || right > self.nxt {
                continue;
            }
            let within_second =
                || segment.sacks().get(1).map(block).is_some_and(|(start, end)| start <= left && right <= end);
            if index == 0 && (right <= ack || within_second()) {
                dsack = Some((left, right));
                self.take_dsack(left, right);
            } else if right > self.una {
                self.board.sack(left, right, delivery);
            }
        }
        dsack
    }

    fn take_dsack(&mut self, left: u64, right: u64) {
        self.counters.spurious += 1;
        self.rack.on_dsack(self.una, self.nxt);
        if let Some(undo) = &mut self.undo {
            if right > undo.marker {
                undo.retransmitted = undo.retransmitted.saturating_sub(right - left);
            }
        }
    }

    /// Without SACK: one segment of a cumulative ACK fills the hole, the rest are those that duplicate ACKs told of.
    #[inline(never)]
    fn take_reno_ack(&mut self, acked: u64, delivery: &mut Delivery) {
        if matches!(self.state, CaState::Open | CaState::Cwr) {
            // The duplicates were reordering.
            self.reno_sacked = 0;
            return;
        }
        let known = self.reno_sacked.min(acked.saturating_sub(self.window.mss));
        delivery.bytes = delivery.bytes.saturating_sub(known).max(self.window.mss.min(acked));
        self.reno_sacked = (self.reno_sacked - known).min(self.outstanding().saturating_sub(self.board.lost()));
    }

    /// Takes an RTT sample where Karn's rule allows; returns the RTT of the latest segment for the law.
    fn take_rtt(&mut self, now: Time, segment: &Segment, delivery: &Delivery, echo: bool) -> Option<Time> {
        let since = |sent: Time| now.saturating_sub(sent);
        let cumulative = delivery.first_sent.filter(|_| !delivery.retransmitted).map(since);
        let echoed = || {
            let age = timestamp(now).wrapping_sub(segment.tsecr);
            (echo && segment.has_ts && segment.tsecr != 0 && age < 1 << 31).then(|| Time::from_us(u64::from(age)))
        };
        let sample = cumulative.or_else(|| delivery.first_sacked_sent.map(since)).or_else(echoed)?;
        self.rtt.sample(sample);
        self.rtt_sample = Some(sample);
        match delivery.last_sent.filter(|_| !delivery.retransmitted) {
            Some(sent) => Some(since(sent)),
            None => Some(sample),
        }
    }

    /// A segment was overtaken by `distance` bytes: later ones may be as well, without being lost.
    #[inline(never)]
    fn raise_reordering(&mut self, config: &Config, distance: u64) {
        if config.adaptive_reordering && self.recovery == Recovery::Sack {
            let segments = distance.div_ceil(self.window.mss).min(u64::from(config.max_reordering)) as u32;
            self.reordering = self.reordering.max(segments);
        }
    }

    /// Takes the reduction back if every retransmission since was superfluous (DSACK, RFC 3708), or if the first ACK
    /// after the retransmission echoes a timestamp from before it (Eifel, RFC 3522).
    #[inline(never)]
    fn try_undo(&mut self, config: &Config, segment: &Segment, timestamps: bool, advanced: bool) {
        let Some(undo) = self.undo.filter(|_| config.undo) else { return };
        let Some(first) = undo.first_retransmission else { return };
        let eifel = timestamps
            && segment.has_ts
            && advanced
            && self.una > undo.marker
            && (segment.tsecr.wrapping_sub(first) as i32) < 0;
        if undo.retransmitted > 0 && !eifel {
            // Linux judges at the end of the reduction, and until the next one begins.
            return;
        }
        self.raise_reordering(config, undo.span.saturating_add(self.window.mss));
        self.undo = None;
        self.counters.undos += 1;
        self.window.cwnd = self.window.cwnd.max(undo.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
        self.cc.undo();
        if matches!(self.state, CaState::Recovery | CaState::Loss) {
            self.board.unmark_lost();
            self.rtt.reset_backoff();
            self.state = CaState::Open;
        }
    }

    /// RFC 8985, section 7.4: if the probe repaired a loss, the window must pay for it.
    #[inline(never)]
    fn take_tail_probe_ack(&mut self, ack: u64, advanced: bool, dsack: Option<(u64, u64)>, sacked: bool) {
        let Some(probe) = self.tail_probe.filter(|probe| ack >= probe.end) else { return };
        if !probe.is_retransmission || dsack.is_some_and(|(_, right)| right == probe.end) {
            self.tail_probe = None;
        } else if ack > probe.end {
            self.tail_probe = None;
            if self.state == CaState::Open {
                self.begin_reduction(Congestion::Loss);
                self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
            }
        } else if !advanced && !sacked {
            // The duplicate ACK that the superfluous one of original and probe causes.
            self.tail_probe = None;
        }
    }

    fn leave_finished_states(&mut self) {
        // An ECN reduction lasts until the data that carried CWR is acknowledged: up to there ECE is the old one.
        let over = if self.state == CaState::Cwr { self.una > self.high_seq } else { self.una >= self.high_seq };
        if over && self.state != CaState::Open {
            self.leave_state();
        }
    }

    #[inline(never)]
    fn leave_state(&mut self) {
        match self.state {
            CaState::Open => {}
            CaState::Cwr => self.window.cwnd = self.window.ssthresh.max(self.window.mss),
            CaState::Recovery => {
                self.window.cwnd = self.window.ssthresh.max(self.window.mss);
                self.reno_sacked = 0;
                self.rack.on_recovery_end();
            }
            CaState::Loss => self.rack.on_recovery_end(),
        }
        self.window.forget_credit();
        self.state = CaState::Open;
    }

    /// Marks losses and enters recovery; returns when RACK wants to look again.
    fn detect_loss(&mut self, config: &Config, now: Time, delivery: &Delivery, advanced: bool) -> Option<Time> {
        if self.outstanding() == 0 {
            return None;
        }
        let before = self.board.pending();
        let mut due = None;
        match self.recovery {
            Recovery::NewReno => self.detect_loss_by_duplicates(config, advanced),
            Recovery::Sack => {
                if delivery.sacked > 0 || (advanced && self.board.sacked() > 0) {
                    self.board.mark_lost_by_sack(self.reordering, self.window.mss);
                }
            }
            Recovery::Rack => due = self.detect_loss_by_time(config, now),
            Recovery::Timer => {}
        }
        self.reno_sacked = self.reno_sacked.min(self.outstanding().saturating_sub(self.board.lost()));
        if self.board.pending() > before && matches!(self.state, CaState::Open | CaState::Cwr) {
            self.enter_recovery(config);
        }
        due
    }

    #[inline(never)]
    fn detect_loss_by_duplicates(&mut self, config: &Config, advanced: bool) {
        match self.state {
            CaState::Recovery if advanced => {
                // A partial ACK: the next hole starts at its end (RFC 6582, section 3.2, step 3).
                self.board.mark_head_lost(self.window.mss);
            }
            CaState::Open | CaState::Cwr
                if config.fastlane.is_none()
                    && self.una >= self.reno_recover
                    && self.reno_sacked >= u64::from(self.reordering) * self.window.mss =>
            {
                self.board.mark_head_lost(self.window.mss);
            }
            _ => {}
        }
    }

    #[inline(never)]
    fn detect_loss_by_time(&mut self, config: &Config, now: Time) -> Option<Time> {
        if self.board.sacked() == 0 && self.board.retrans() == 0 {
            // All acknowledged bytes were sent before all outstanding ones.
            return None;
        }
        let eager = matches!(self.state, CaState::Recovery | CaState::Loss)
            || self.board.sacked() >= u64::from(config.reordering) * self.window.mss;
        let (newest, age) = self.rack.threshold(eager, self.rtt.min(), self.rtt.srtt())?;
        self.board.mark_lost_by_time(newest, age, now)
    }

    /// RACK's reordering timer: the overtaken segment has not arrived.
    pub(crate) fn on_reorder_timeout(&mut self, config: &Config, now: Time) {
        let before = self.board.pending();
        let due = self.detect_loss_by_time(config, now);
        if self.board.pending() > before {
            if matches!(self.state, CaState::Open | CaState::Cwr) {
                self.enter_recovery(config);
            }
            if self.state == CaState::Recovery {
                self.shrink(config, 0, false);
            }
        }
        if let Some(at) = due {
            self.timer = Some(Timer { kind: TimerKind::Reorder, at });
        }
    }

    #[inline(never)]
    fn enter_recovery(&mut self, config: &Config) {
        self.counters.fast_retransmits += 1;
        if self.state == CaState::Cwr {
            // The window is already being reduced for this round trip.
            self.undo = None;
        } else {
            self.undo = Some(Undo {
                marker: self.una,
                cwnd: self.window.cwnd,
                ssthresh: self.window.ssthresh,
                retransmitted: self.board.retrans(),
                first_retransmission: None,
                span: 0,
            });
            self.begin_reduction(Congestion::Loss);
        }
        if !config.prr {
            self.window.cwnd = self.window.ssthresh;
        }
        self.state = CaState::Recovery;
        self.high_seq = self.nxt;
        self.reno_recover = self.nxt;
        self.rescued = false;
        self.tail_probe = None;
        self.probe = None;
    }

    #[inline(never)]
    pub(crate) fn enter_cwr(&mut self) {
        self.counters.ecn_reductions += 1;
        self.undo = None;
        self.begin_reduction(Congestion::Echo);
        self.state = CaState::Cwr;
        self.high_seq = self.nxt;
    }

    #[inline(never)]
    fn begin_reduction(&mut self, why: Congestion) {
        self.prr = Prr { prior_cwnd: self.window.cwnd.max(1), delivered: 0, out: 0 };
        self.window.ssthresh = self.cc.reduce(why, &self.window);
        self.window.forget_credit();
        self.reduced = true;
    }

    /// The window while it is being reduced: proportional rate reduction with the slow start bound that Linux
    /// chooses (RFC 6937, section 3; `progress` adds a segment), or the threshold at once.
    #[inline(never)]
    fn shrink(&mut self, config: &Config, delivered: u64, progress: bool) {
        let (mss, ssthresh) = (self.window.mss, self.window.ssthresh);
        if !config.prr {
            self.window.cwnd = ssthresh.max(mss);
            return;
        }
        let pipe = self.in_flight();
        self.prr.delivered += delivered;
        let prr = self.prr;
        let mut allowance = if pipe > ssthresh {
            let share = (u128::from(prr.delivered) * u128::from(ssthresh)).div_ceil(u128::from(prr.prior_cwnd));
            (share as u64).saturating_sub(prr.out)
        } else {
            let limit = prr.delivered.saturating_sub(prr.out).max(delivered) + if progress { mss } else { 0 };
            limit.min(ssthresh - pipe)
        };
        if prr.out == 0 {
            // The fast retransmit itself; Linux lets one segment out on an echo, too.
            allowance = allowance.max(mss);
        }
        self.window.cwnd = (pipe + allowance).max(mss);
    }

    /// Growth only where the window was the limit (RFC 7661 in spirit; Linux's `tcp_is_cwnd_limited`).
    fn is_cwnd_limited(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < 2 * self.max_out
        } else {
            self.cwnd_limited
        }
    }
}
