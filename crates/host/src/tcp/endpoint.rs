//! One end of a connection: the handshake, and the two halves tied together.

use crate::tcp::ecn::{Ecn, Mark};
use crate::tcp::fastlane::Notification;
use crate::tcp::recovery::timestamp;
use crate::tcp::segment::{flags, origin, unwrap_seq, Segment};
use crate::tcp::transmit::Outgoing;
use crate::tcp::{Config, Receiver, Recovery, Sender};
use std::sync::Arc;
use units::Time;

/// Connection state. How far closing has come is told by `tx.fin_acked()` and `rx.finished()`; there is no TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for a SYN.
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// Reset by the peer. An endpoint never gives up by itself.
    Closed,
}

/// One end of a connection. See the [module](crate::tcp) for the order of calls.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub tx: Sender,
    pub rx: Receiver,
    config: Arc<Config>,
    state: State,
    ecn: Ecn,
    timestamps: bool,
    /// Both ends announced a window scale.
    scaling: bool,
    /// Peer's last timestamp, to echo.
    ts_recent: u32,
    /// Number space of this end: the SYN's.
    iss: u64,
    /// A SYN or SYN-ACK is to be sent.
    syn_due: bool,
    syns_sent: u32,
    syn_timer: Option<Time>,
    syn_sent_at: Time,
    peer_mss: u16,
}

impl Endpoint {
    /// A client: its SYN is ready in [`Endpoint::poll_transmit`]. `iss` is the initial sequence number.
    pub fn connect(config: Arc<Config>, iss: u32) -> Endpoint {
        let mut endpoint = Endpoint::closed(config, iss);
        endpoint.state = State::SynSent;
        endpoint.syn_due = true;
        endpoint
    }

    /// A server waiting for one SYN.
    pub fn listen(config: Arc<Config>, iss: u32) -> Endpoint {
        let mut endpoint = Endpoint::closed(config, iss);
        endpoint.state = State::Listen;
        endpoint
    }

    /// An end of a connection whose handshake is taken as done, with what both would have negotiated and announced.
    ///
    /// `requester` is true for the client, the end that asks for ECN. No RTT sample has been taken.
    pub fn established(config: Arc<Config>, peer: &Config, iss: u32, peer_iss: u32, requester: bool) -> Endpoint {
        let mut endpoint = Endpoint::closed(config, iss);
        let ours = endpoint.config.clone();
        endpoint.ecn.preset(&ours, peer, requester);
        let syn = Segment {
            mss: peer.mss,
            wscale: Some(peer.window_shift()),
            sack_permitted: peer.recovery != Recovery::NewReno,
            has_ts: peer.timestamps,
            ..Segment::default()
        };
        endpoint.take_options(&syn);
        endpoint.start_receiving(peer_iss);
        endpoint.tx.snd_wnd = (peer.rcvbuf >> peer.window_shift()).min(0xffff) << peer.window_shift();
        endpoint.open();
        endpoint
    }

    fn closed(config: Arc<Config>, iss: u32) -> Endpoint {
        let iss = origin(iss);
        Endpoint {
            tx: Sender::new(&config, iss + 1),
            rx: Receiver::new(&config, origin(0), config.mss),
            ecn: Ecn::new(&config),
            state: State::Closed,
            timestamps: config.timestamps,
            scaling: true,
            ts_recent: 0,
            iss,
            syn_due: false,
            syns_sent: 0,
            syn_timer: None,
            syn_sent_at: Time::ZERO,
            peer_mss: 0,
            config,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }
    pub fn state(&self) -> State {
        self.state
    }
    /// ECN was negotiated.
    /// SYNs, or as a server SYN-ACKs, that were sent.
    pub fn syns_sent(&self) -> u32 {
        self.syns_sent
    }

    pub fn ecn_enabled(&self) -> bool {
        self.ecn.enabled && self.state == State::Established
    }
    /// Everything written, and the FIN if there was one, has been acknowledged.
    pub fn is_drained(&self) -> bool {
        self.tx.una == self.tx.end()
    }
    /// Retransmission timeout in force, back-off included.
    pub fn rto(&self) -> Time {
        self.tx.rto(&self.config)
    }

    /// The application appends `bytes` to its stream; `u64::MAX` makes a stream without end. Ignored after
    /// [`Endpoint::close`].
    pub fn write(&mut self, bytes: u64) {
        if !self.tx.fin {
            self.tx.write_end = self.tx.write_end.saturating_add(bytes).min(u64::MAX >> 1);
        }
    }

    /// The application withdraws the bytes that it wrote and TCP has not sent. Ignored after [`Endpoint::close`].
    pub fn take_back_unsent(&mut self) {
        if !self.tx.fin {
            self.tx.write_end = self.tx.write_end.min(self.tx.nxt);
        }
    }

    /// The application takes up to `bytes` that arrived in order; returns how many. Not needed with `auto_read`.
    pub fn read(&mut self, bytes: u64) -> u64 {
        self.rx.read(&self.config, bytes)
    }

    /// Bytes of new data that would leave at once if they were written now; 0 while there is anything else to send.
    pub(crate) fn appetite(&mut self, now: Time) -> u64 {
        match self.state {
            State::Established => self.tx.appetite(&self.config, now),
            _ => 0,
        }
    }

    /// Sends a FIN after everything written.
    pub fn close(&mut self) {
        self.tx.fin = true;
    }

    /// The NIC has put `bytes` of this endpoint's payload on the wire. With [`Config::tsq_limit`] every data segment
    /// has to be reported so, or the sender stops; without it the call does nothing.
    pub fn on_nic_tx_done(&mut self, bytes: u64) {
        self.tx.nic_queued = self.tx.nic_queued.saturating_sub(bytes);
    }

    /// Takes a segment from the network, after GRO.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::Closed => {}
            _ if segment.has(flags::RST) => {
                if self.state != State::Listen {
                    self.state = State::Closed;
                    self.syn_due = false;
                }
            }
            State::Listen => self.on_syn(segment),
            State::SynSent => self.on_syn_ack(now, segment),
            State::SynReceived => {
                if segment.has(flags::SYN) {
                    self.syn_due = true;
                } else if segment.has(flags::ACK) && segment.ack == self.tx.start as u32 {
                    self.take_handshake_rtt(now);
                    self.tx.snd_wl1 = self.rx.nxt();
                    self.open();
                    self.tx.snd_wnd = u64::from(segment.window) << self.tx.wnd_shift;
                    self.on_established(now, segment);
                }
            }
            State::Established => self.on_established(now, segment),
        }
    }

    /// A switch has dropped a packet that this endpoint sent; without [`Config::fastlane`] the call does nothing. True: it was a SYN or a
    /// pure ACK, which goes out again.
    #[inline(never)]
    pub fn on_notification(&mut self, notification: &Notification) -> bool {
        let Some(options) = self.config.fastlane else { return false };
        let stale = notification.timeouts != options.count_of(self.tx.counters.timeouts);
        let (len, has) = (notification.len, |flag| notification.flags & flag != 0);
        let seq_len = u64::from(len) + u64::from(has(flags::FIN));
        match self.state {
            State::Established if notification.probe && !stale => self.tx.on_probe_dropped(),
            _ if stale => self.tx.counters.notifications_ignored += 1,
            State::SynSent | State::SynReceived if has(flags::SYN) && self.syns_sent > 0 && !self.syn_due => {
                self.tx.counters.notifications += 1;
                self.syn_due = true;
                // The dropped one neither spoils the RTT sample nor speaks of a loss that a timeout found.
                self.syns_sent -= 1;
                return true;
            }
            State::Established if seq_len > 0 => self.tx.on_dropped(&self.config, notification, seq_len),
            State::Established if !has(flags::SYN) && notification.ack == self.rx.last_acked() as u32 => {
                self.tx.counters.notifications += 1;
                self.rx.demand_ack();
                return true;
            }
            _ => self.tx.counters.notifications_ignored += 1,
        }
        false
    }

    /// A switch asks the sender of the packet with this sequence number to slow down; without [`Config::quench`] the call does nothing.
    pub fn on_quench(&mut self, seq: u32) {
        if self.config.quench && self.state == State::Established {
            self.tx.on_quench(seq);
        }
    }

    #[inline(never)]
    fn on_syn(&mut self, segment: &Segment) {
        if !segment.has(flags::SYN) || segment.has(flags::ACK) {
            return;
        }
        self.ecn.on_syn_in(&self.config, segment);
        self.take_options(segment);
        self.start_receiving(segment.seq);
        self.state = State::SynReceived;
        self.syn_due = true;
    }

    /// A bare SYN here would be a simultaneous open, which is not modelled.
    #[inline(never)]
    fn on_syn_ack(&mut self, now: Time, segment: &Segment) {
        let acceptable = segment.has(flags::SYN) && segment.has(flags::ACK) && segment.ack == self.tx.start as u32;
        if !acceptable || self.syns_sent == 0 {
            return;
        }
        self.ecn.on_syn_ack_in(segment);
        self.take_options(segment);
        self.start_receiving(segment.seq);
        self.take_handshake_rtt(now);
        self.tx.snd_wl1 = self.rx.nxt();
        self.tx.snd_wnd = u64::from(segment.window);
        self.open();
        self.rx.demand_ack();
    }

    fn take_handshake_rtt(&mut self, now: Time) {
        if self.syns_sent == 1 {
            let rtt = now.saturating_sub(self.syn_sent_at);
            self.tx.rtt.sample(rtt);
            self.tx.rtt_sample = Some(rtt);
        }
    }

    /// Takes the options of the peer's SYN: what either lacks is not used.
    fn take_options(&mut self, syn: &Segment) {
        let config = &self.config;
        self.peer_mss = syn.mss;
        self.timestamps = config.timestamps && syn.has_ts;
        self.ts_recent = syn.tsval;
        if !(syn.sack_permitted && config.recovery != Recovery::NewReno) {
            self.tx.recovery = Recovery::NewReno;
        }
        self.scaling = syn.wscale.is_some();
        self.tx.wnd_shift = syn.wscale.unwrap_or(0).min(14);
    }

    fn start_receiving(&mut self, peer_iss: u32) {
        let mss = self.config.payload_size(self.peer_mss, self.timestamps);
        self.rx = Receiver::new(&self.config, origin(peer_iss) + 1, mss);
        self.rx.sack_enabled = self.tx.recovery != Recovery::NewReno;
    }

    /// The handshake is complete.
    fn open(&mut self) {
        self.state = State::Established;
        self.syn_due = false;
        self.syn_timer = None;
        // RFC 6928, section 2: a SYN lost repeatedly speaks of congestion.
        let initial_cwnd = if self.syns_sent > 2 { 1 } else { self.config.initial_cwnd };
        self.rx.wnd_shift = if self.scaling { self.config.window_shift() } else { 0 };
        self.tx.open(self.config.payload_size(self.peer_mss, self.timestamps), initial_cwnd);
    }

    fn on_established(&mut self, now: Time, segment: &Segment) {
        if segment.probe {
            self.tx.on_probe_answer(&self.config, now);
            return;
        }
        if segment.has(flags::SYN) {
            // The peer has missed our last ACK.
            self.rx.demand_ack();
            return;
        }
        let seq = unwrap_seq(self.rx.nxt(), segment.seq);
        if self.timestamps && segment.has_ts && seq <= self.rx.last_acked() {
            self.ts_recent = segment.tsval;
        }
        if segment.has(flags::ACK) {
            self.tx.on_ack(&self.config, now, segment, seq, self.ecn.enabled, self.timestamps);
        }
        let fin = segment.has(flags::FIN);
        if segment.len == 0 && !fin {
            self.rx.on_empty(seq);
            return;
        }
        let mark = if segment.len > 0 { self.ecn.on_data_in(segment) } else { Mark::Unremarkable };
        if segment.len > 0 && segment.ecn == crate::tcp::codepoint::CE {
            self.rx.counters.ce_segments += 1;
            self.rx.counters.ce_packets += u64::from(segment.packets());
        }
        self.rx.on_data(&self.config, now, segment, seq, fin, mark);
    }

    /// The next segment to send, or `None` when nothing may be sent now. Carries at most `budget` bytes of payload
    /// (whole packets, unless the data ends); pure ACKs and the probes of timers need no budget.
    pub fn poll_transmit(&mut self, now: Time, budget: u64) -> Option<Segment> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.syn_due.then(|| self.build_syn(now)),
            State::Established => {
                if let Some((ack, ece)) = self.rx.take_early_ack() {
                    return Some(self.build_early_ack(now, ack, ece));
                }
                if let Some(out) = self.tx.poll(&self.config, now, budget) {
                    if out.probe {
                        return Some(self.build_probe(now, out.seq));
                    }
                    return Some(self.build(now, Some(out)));
                }
                self.rx.ack_demanded().then(|| self.build(now, None))
            }
        }
    }

    #[inline(never)]
    fn build_syn(&mut self, now: Time) -> Segment {
        let repeated = self.syns_sent > 0;
        let config = self.config.clone();
        let mut segment = Segment {
            seq: self.iss as u32,
            flags: flags::SYN,
            // Never scaled (RFC 7323, section 2.2).
            window: config.rcvbuf.min(0xffff) as u16,
            mss: config.mss,
            wscale: Some(config.window_shift()),
            sack_permitted: config.recovery != Recovery::NewReno,
            has_ts: self.timestamps,
            tsval: if self.timestamps { timestamp(now) } else { 0 },
            timeouts: config.fastlane.map_or(0, |options| options.count_of(self.tx.counters.timeouts)),
            is_retransmission: repeated,
            ..Segment::default()
        };
        if self.state == State::SynSent {
            self.ecn.on_syn_out(&config, repeated, &mut segment);
        } else {
            segment.flags |= flags::ACK;
            segment.ack = self.rx.nxt() as u32;
            segment.tsecr = self.ts_recent;
            segment.sack_permitted = self.rx.sack_enabled;
            segment.wscale = segment.wscale.filter(|_| self.scaling);
            self.ecn.on_syn_ack_out(&mut segment);
        }
        self.syn_due = false;
        self.syns_sent += 1;
        self.syn_sent_at = now;
        self.syn_timer = Some(now.saturating_add(self.rto()));
        segment
    }

    fn build(&mut self, now: Time, out: Option<Outgoing>) -> Segment {
        let ack = self.rx.acknowledge(&self.config, out.is_none());
        let mut segment = Segment {
            seq: self.tx.nxt as u32,
            ack: ack.ack,
            flags: flags::ACK,
            window: ack.window,
            segment_size: self.tx.mss() as u16,
            sack: ack.sack,
            n_sack: ack.n_sack,
            ..Segment::default()
        };
        if let Some(out) = out {
            segment.seq = out.seq as u32;
            segment.len = out.len;
            segment.flags |= if out.fin { flags::FIN } else { 0 } | if out.psh { flags::PSH } else { 0 };
            segment.is_retransmission = !out.new && out.len > 0;
        }
        let new_data = out.is_some_and(|out| out.new && out.len > 0);
        if std::mem::take(&mut self.tx.reduced) {
            self.ecn.reduced();
        }
        self.ecn.on_segment_out(new_data, None, &mut segment);
        self.stamp(now, &mut segment);
        segment
    }

    /// DCTCP's ACK for what came before a change of the CE state.
    #[inline(never)]
    fn build_early_ack(&mut self, now: Time, ack: u64, ece: bool) -> Segment {
        self.rx.counters.acks_sent += 1;
        let mut segment = Segment {
            seq: self.tx.nxt as u32,
            ack: ack as u32,
            flags: flags::ACK,
            window: self.rx.window_field(),
            segment_size: self.tx.mss() as u16,
            ..Segment::default()
        };
        self.ecn.on_segment_out(false, Some(ece), &mut segment);
        self.stamp(now, &mut segment);
        segment
    }

    /// For the peer's NIC: what its TCP has to hear of stays due.
    #[inline(never)]
    fn build_probe(&self, now: Time, seq: u64) -> Segment {
        let (ack, window) = (self.rx.last_acked() as u32, self.rx.window_field());
        let mut segment =
            Segment { seq: seq as u32, ack, flags: flags::ACK, window, probe: true, ..Segment::default() };
        self.stamp(now, &mut segment);
        segment
    }

    fn stamp(&self, now: Time, segment: &mut Segment) {
        if let Some(options) = self.config.fastlane {
            segment.timeouts = options.count_of(self.tx.counters.timeouts);
            if options.inflate {
                segment.held = u32::try_from(self.rx.out_of_order_bytes()).unwrap_or(u32::MAX);
            }
        }
        if self.timestamps {
            segment.has_ts = true;
            segment.tsval = timestamp(now);
            segment.tsecr = self.ts_recent;
        }
    }

    /// When [`Endpoint::handle_timeout`] is due; it may be called early, or late.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.state != State::Established {
            return self.syn_timer.filter(|_| self.state != State::Closed);
        }
        let sender = self.tx.timer.map(|timer| timer.at);
        let pacing = self.tx.pace_waiting.then_some(self.tx.pace_at);
        [sender, pacing, self.rx.ack_deadline()].into_iter().flatten().min()
    }

    /// Runs the timers that are due. [`Endpoint::poll_transmit`] then has the resulting segments.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.state {
            State::Established => {
                if self.tx.pace_waiting && self.tx.pace_at <= now {
                    self.tx.pace_waiting = false;
                }
                self.tx.on_timer(&self.config, now);
                self.rx.on_timer(now);
            }
            State::SynSent | State::SynReceived => {
                if self.syn_timer.is_some_and(|at| at <= now) {
                    self.tx.counters.timeouts += 1;
                    self.tx.rtt.back_off();
                    self.syn_timer = None;
                    self.syn_due = true;
                }
            }
            State::Listen | State::Closed => {}
        }
    }
}
