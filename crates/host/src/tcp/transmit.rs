//! The sender's choice of the next segment and its size: recovery before new data, sizes as in Linux.

use crate::tcp::sender::{CaState, Probe, Sender, TailProbe};
use crate::tcp::{recovery, Config, Recovery};
use units::Time;

/// Linux shifts the pacing rate by this to size a segment: about a millisecond's worth (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// TSO segments have at least this many packets where TSO is on (`tcp_min_tso_segs`).
const MIN_TSO_SEGMENTS: u64 = 2;
/// What Linux counts for a segment besides its payload, about: `struct sk_buff` and the buffer of its headers.
const SKB_OVERHEAD: u64 = 960;
/// Nothing is put off that long after the last segment (`tcp_tso_should_defer`): slow paths would see bursts.
const DEFER_WITHIN: Time = Time::from_ms(1);

/// A segment to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) seq: u64,
    /// Payload in bytes.
    pub(crate) len: u32,
    pub(crate) fin: bool,
    pub(crate) psh: bool,
    /// Sent for the first time.
    pub(crate) new: bool,
    /// Only the peer's NIC heeds it.
    pub(crate) probe: bool,
}

impl Sender {
    /// The next segment that window, pacing, NIC and `budget` admit.
    pub(crate) fn poll(&mut self, config: &Config, now: Time, budget: u64) -> Option<Outgoing> {
        if let Some(first) = self.probe_first() {
            return first;
        }
        if let Some(probe) = self.probe.take() {
            let sent = match probe {
                Probe::Tail => self.send_tail_probe(config, now),
                Probe::Window => self.send_window_probe(config, now),
            };
            if sent.is_some() {
                return sent;
            }
        }
        if self.outstanding() == 0 && self.end() == self.nxt {
            return None;
        }
        self.pace_waiting = false;
        if self.nic_full(config) {
            return None;
        }
        if config.pacing && now < self.pace_at {
            self.pace_waiting = true;
            return None;
        }
        if !self.dropped.is_empty() {
            return self.send_dropped(config, now);
        }
        if self.board.pending() > 0 {
            return self.send_lost(config, now, budget);
        }
        let sent = self.send_new(config, now, budget);
        if sent.is_some() {
            return sent;
        }
        self.send_without_proof(config, now, budget)
    }

    #[inline(never)]
    fn send_lost(&mut self, config: &Config, now: Time, budget: u64) -> Option<Outgoing> {
        let (start, len) = self.board.next_lost()?;
        let len = self.admit(len.min(self.size_goal(config)), self.cwnd_room().min(budget))?;
        self.retransmit(config, now, start, len)
    }

    /// RFC 6675, NextSeg rules 3 and 4: in recovery, when there is no new data to keep the ACKs coming. Rule 4 here
    /// leaves alone what was retransmitted already or sent within the last RTT: literally applied it repeats a segment
    /// for every loss near the end of a flow.
    fn send_without_proof(&mut self, config: &Config, now: Time, budget: u64) -> Option<Outgoing> {
        let wait = self.state != CaState::Recovery || self.recovery != Recovery::Sack || self.new_data_admitted() > 0;
        let room = self.cwnd_room().min(budget);
        if wait || room < self.window.mss {
            return None;
        }
        if let Some((start, len)) = self.board.next_unsacked() {
            return self.retransmit(config, now, start, len.min(self.window.mss));
        }
        if self.rescued {
            return None;
        }
        let sent_before = now.saturating_sub(self.srtt().unwrap_or(Time::ZERO));
        let (start, len) = self.board.untouched_tail(self.window.mss, sent_before)?;
        self.rescued = true;
        self.retransmit(config, now, start, len)
    }

    #[inline(never)]
    pub(crate) fn retransmit(&mut self, config: &Config, now: Time, start: u64, len: u64) -> Option<Outgoing> {
        let head = start == self.una;
        self.board.retransmitted(start, len as u32, now);
        self.prr.out += len;
        if let Some(undo) = &mut self.undo {
            undo.retransmitted += len;
            undo.first_retransmission.get_or_insert(recovery::timestamp(now));
        }
        let fin = start + len > self.write_end;
        let payload = len - u64::from(fin);
        self.counters.retransmitted_bytes += payload;
        self.counters.retransmitted_packets += payload.div_ceil(self.window.mss).max(1);
        self.sent(config, now, payload);
        self.arm_after_send(config, now, head && self.state != CaState::Open);
        Some(Outgoing { seq: start, len: payload as u32, fin, psh: fin, new: false, probe: false })
    }

    fn send_new(&mut self, config: &Config, now: Time, budget: u64) -> Option<Outgoing> {
        let mss = self.window.mss;
        let waiting = self.unsent();
        if waiting == 0 {
            return if self.end() > self.nxt { self.send_fin(config, now) } else { None };
        }
        let peer_room = self.new_data_admitted();
        if peer_room == 0 {
            self.arm_persist(config, now);
            return None;
        }
        if budget < mss.min(waiting) {
            return None;
        }
        self.restart_after_idle(config, now);
        let Some(cwnd_room) = Some(self.cwnd_room()).filter(|&room| room >= mss.min(waiting)) else {
            self.note_usage(true);
            return None;
        };
        let limit = peer_room.min(cwnd_room);
        let size = self.size_goal(config);
        if self.defers(config, now, limit, waiting, size) {
            self.note_usage(cwnd_room < peer_room);
            return None;
        }
        // The congestion window counts packets, the peer's counts bytes: as in Linux (`tcp_mss_split_point`) the latter is
        // filled to the last one, unless Nagle's algorithm minds.
        let mut len = self.admit(waiting.min(size), cwnd_room.min(budget))?.min(peer_room);
        let partial = len % mss;
        if partial > 0 && config.nagle && !self.fin && self.small_outstanding() {
            len -= partial;
            if len == 0 {
                return None;
            }
        }
        let fin = self.fin && len == waiting;
        let seq = self.nxt;
        self.board.push(seq, len as u32 + u32::from(fin), now);
        self.nxt += len + u64::from(fin);
        if len % mss > 0 {
            self.small_end = self.nxt;
        }
        self.prr.out += len;
        self.sent(config, now, len);
        self.note_usage(false);
        self.arm_after_send(config, now, false);
        Some(Outgoing { seq, len: len as u32, fin, psh: len == waiting, new: true, probe: false })
    }

    #[inline(never)]
    fn send_fin(&mut self, config: &Config, now: Time) -> Option<Outgoing> {
        let seq = self.nxt;
        self.board.push(seq, 1, now);
        self.nxt += 1;
        self.arm_after_send(config, now, false);
        Some(Outgoing { seq, len: 0, fin: true, psh: false, new: true, probe: false })
    }

    /// RFC 8985, section 7.3: new data if the peer's window admits it, else the last segment again.
    #[inline(never)]
    fn send_tail_probe(&mut self, config: &Config, now: Time) -> Option<Outgoing> {
        if self.outstanding() == 0 || self.tail_probe.is_some() {
            return None;
        }
        self.counters.tail_loss_probes += 1;
        let mss = self.window.mss;
        let admitted = self.new_data_admitted();
        let sent = if admitted > 0 {
            let len = self.unsent().min(mss).min(admitted);
            let fin = self.fin && len == self.unsent();
            let seq = self.nxt;
            self.board.push(seq, len as u32 + u32::from(fin), now);
            self.nxt += len + u64::from(fin);
            self.sent(config, now, len);
            Some(Outgoing { seq, len: len as u32, fin, psh: self.unsent() == 0, new: true, probe: false })
        } else {
            let (start, len) = self.board.last_unsacked(mss)?;
            self.retransmit(config, now, start, len)
        };
        let is_retransmission = sent.is_some_and(|sent| !sent.new);
        self.tail_probe = Some(TailProbe { end: self.nxt, is_retransmission });
        self.arm(config, now);
        sent
    }

    /// What the window admits if it admits anything, else an old sequence number, which the peer must answer.
    #[inline(never)]
    fn send_window_probe(&mut self, config: &Config, now: Time) -> Option<Outgoing> {
        if !self.window_blocked() {
            return None;
        }
        self.counters.window_probes += 1;
        let len = self.snd_wnd.min(self.unsent());
        if len == 0 {
            return Some(Outgoing { seq: self.una - 1, len: 0, fin: false, psh: false, new: false, probe: false });
        }
        let seq = self.nxt;
        self.board.push(seq, len as u32, now);
        self.nxt += len;
        self.small_end = self.nxt;
        self.sent(config, now, len);
        self.arm(config, now);
        Some(Outgoing { seq, len: len as u32, fin: false, psh: true, new: true, probe: false })
    }

    /// Bookkeeping of any data sent.
    fn sent(&mut self, config: &Config, now: Time, len: u64) {
        self.counters.data_packets += len.div_ceil(self.window.mss).max(1);
        self.counters.data_bytes += len;
        self.last_send = now;
        if config.tsq_limit.is_some() {
            self.nic_queued += len;
        }
        if config.pacing {
            let gap = Time::from_secs_f64(len as f64 / self.pacing_rate.max(1) as f64);
            self.pace_at = self.pace_at.max(now).saturating_add(gap);
        }
    }

    /// How much of `want` goes out where `room` bytes do: whole packets, or all of it.
    fn admit(&self, want: u64, room: u64) -> Option<u64> {
        let len = if want <= room { want } else { room - room % self.window.mss };
        (len > 0).then_some(len)
    }

    /// Bytes the congestion window admits; always a segment when nothing is in the network.
    fn cwnd_room(&self) -> u64 {
        match self.in_flight() {
            0 => self.window.cwnd.max(self.window.mss),
            pipe => self.window.cwnd.saturating_sub(pipe),
        }
    }

    /// New bytes the peer's window admits; 0 unless a full packet or the rest fits (sender-side silly window
    /// avoidance as in Linux: less has to wait for the persist timer).
    fn new_data_admitted(&self) -> u64 {
        let window = if self.obey_window { self.snd_wnd } else { u64::MAX >> 2 };
        let room = (self.una + window).saturating_sub(self.nxt);
        let waiting = self.unsent();
        if waiting == 0 || room < waiting.min(self.window.mss) {
            0
        } else {
            room
        }
    }

    /// `tcp_tso_should_defer`: a better segment is worth an ACK's wait, unless a third of the window is free already.
    /// Only while data is outstanding, whose ACK or timer brings the sender back, and only if something was sent lately.
    fn defers(&self, config: &Config, now: Time, limit: u64, waiting: u64, size: u64) -> bool {
        config.tso
            && config.tso_defer
            && matches!(self.state, CaState::Open | CaState::Cwr)
            && self.in_flight() > 0
            && limit < size
            && limit < waiting
            && limit < self.snd_wnd.min(self.window.cwnd) / 3
            && now.saturating_sub(self.last_send) <= DEFER_WITHIN
            && (!config.tso_defer_near || self.ack_is_near(now))
    }

    /// Is the ACK of the oldest packet expected within half a round trip, and a millisecond?
    fn ack_is_near(&self, now: Time) -> bool {
        let (Some(sent), Some(srtt)) = (self.board.head_sent(), self.srtt()) else { return false };
        sent.saturating_add(srtt).saturating_sub(now) <= (srtt / 2).min(DEFER_WITHIN)
    }

    /// See [`crate::tcp::Endpoint::appetite`]. A subflow is written to only when it can send, so whether its congestion window is
    /// the limit shows here.
    pub(crate) fn appetite(&mut self, config: &Config, now: Time) -> u64 {
        let busy = self.unsent() > 0 || self.fin || self.board.pending() > 0;
        if busy || self.nic_full(config) || (config.pacing && now < self.pace_at) {
            return 0;
        }
        let (mss, size) = (self.window.mss, self.size_goal(config));
        let peer_room = (self.una + self.snd_wnd).saturating_sub(self.nxt);
        let cwnd_room = self.cwnd_room();
        let limit = peer_room.min(cwnd_room);
        if cwnd_room < mss || self.defers(config, now, limit, u64::MAX, size) {
            self.note_usage(cwnd_room < peer_room);
            return 0;
        }
        let whole = limit.min(size);
        whole - whole % mss
    }

    fn small_outstanding(&self) -> bool {
        self.una < self.small_end && self.small_end <= self.nxt
    }

    /// Autosized segment (`tcp_tso_autosize`), a multiple of the MSS.
    fn size_goal(&self, config: &Config) -> u64 {
        let mss = self.window.mss;
        if !config.tso {
            return mss;
        }
        let largest = (u64::from(config.tso_max) / mss).max(1);
        if !config.tso_autosize {
            return largest * mss;
        }
        let near = match self.min_rtt() {
            Some(rtt) if config.tso_rtt_log > 0 => {
                let shift = (rtt.as_ns() / 1000).checked_shr(config.tso_rtt_log.into()).unwrap_or(0);
                u64::from(config.tso_max).checked_shr(shift.min(64) as u32).unwrap_or(0)
            }
            _ => 0,
        };
        let goal = (((self.pacing_rate >> PACING_SHIFT) + near) / mss).max(MIN_TSO_SEGMENTS);
        goal.min(largest) * mss
    }

    /// TCP small queues: two segments or a millisecond's worth in qdisc and NIC, and the limit at most. (Linux counts
    /// buffer overhead and admits one segment more; with small segments the two about cancel.)
    fn nic_full(&self, config: &Config) -> bool {
        let Some(most) = config.tsq_limit.filter(|_| self.nic_queued > 0) else { return false };
        let size = self.size_goal(config);
        let paced = self.pacing_rate >> PACING_SHIFT;
        let limit = |two: u64| if config.tsq_floor { most.max(paced) } else { two.max(paced).min(most) };
        if !config.tsq_truesize {
            return self.nic_queued + size > limit(2 * size);
        }
        let truesize = |bytes: u64| bytes + bytes * SKB_OVERHEAD / size.max(1);
        truesize(self.nic_queued) >= limit(truesize(2 * size))
    }

    /// After an idle RTO the old window says nothing about the path (RFC 5681, section 4.1): it halves for every RTO
    /// of idleness down to the initial window, and the threshold remembers three quarters of it (RFC 2861, Linux).
    fn restart_after_idle(&mut self, config: &Config, now: Time) {
        if self.outstanding() > 0 || self.nxt == self.start {
            return;
        }
        let idle = now.saturating_sub(self.last_send);
        let rto = self.rto(config);
        if config.slow_start_after_idle && idle > rto {
            let window = &mut self.window;
            let restart = window.cwnd.min(u64::from(config.initial_cwnd.max(1)) * window.mss);
            let halvings = ((idle.as_ps() - 1) / rto.as_ps().max(1)).min(63);
            window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
            window.cwnd = (window.cwnd >> halvings).max(restart);
            window.forget_credit();
        }
        self.cc.on_restart(idle);
    }

    /// Notes whether the congestion window is the limit, per round trip (`tcp_cwnd_validate`).
    fn note_usage(&mut self, limited: bool) {
        let out = self.outstanding();
        if self.una >= self.usage_end || limited || (!self.cwnd_limited && out > self.max_out) {
            self.cwnd_limited = limited;
            self.max_out = out;
            self.usage_end = self.nxt;
        }
    }

    /// Twice the window per RTT in slow start, 1.2 times afterwards, as Linux since 3.12.
    pub(crate) fn update_pacing_rate(&mut self) {
        let Some(srtt) = self.srtt().filter(|&srtt| srtt > Time::ZERO) else { return };
        let factor = if self.window.cwnd < self.window.ssthresh / 2 { 2.0 } else { 1.2 };
        let bytes = self.window.cwnd.max(self.outstanding()) as f64 * factor;
        self.pacing_rate = ((bytes / srtt.as_secs_f64()) as u64).min(self.max_pacing_rate);
    }
}
