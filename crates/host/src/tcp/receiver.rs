//! The receiving half of a connection: reassembly, ACKs, the announced window.

use crate::tcp::ecn::Mark;
use crate::tcp::segment::Segment;
use crate::tcp::Config;
use units::Time;

/// Monotonic counters of the receiving half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Data segments received, as GRO delivered them.
    pub segments: u64,
    /// Of those, segments that started beyond the next expected byte.
    pub out_of_order: u64,
    /// Of those, segments that brought nothing new.
    pub duplicates: u64,
    /// Data segments that carried CE.
    pub ce_segments: u64,
    /// Wire packets of data that carried CE.
    pub ce_packets: u64,
    /// ACKs sent without data.
    pub acks_sent: u64,
    /// ACKs that waited until the delay ran out.
    pub delayed_acks: u64,
    /// Segments refused: outside the window, or one range too many.
    pub refused: u64,
}

/// Contents of the acknowledgement part of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckFields {
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) sack: [(u32, u32); 3],
    pub(crate) n_sack: u8,
}

/// The receiving half.
///
/// Acknowledges at once: more than one segment of unacknowledged data (so every second full one, and what GRO merged
/// of two or more); data out of order, a duplicate, or a filled hole (RFC 5681, section 4.2); a change of DCTCP's CE
/// state; a CWR; and the first [`Config::quickack`] times, from the start of the connection and again from data that it has
/// already. All else waits for the delay or for data to ride on.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub counters: ReceiverCounters,
    /// First byte of the stream.
    start: u64,
    nxt: u64,
    /// Up to here the application has read.
    read: u64,
    /// Right edge of the window announced.
    edge: u64,
    /// `nxt` of the last ACK sent.
    acked: u64,
    fin: Option<u64>,
    /// Ranges beyond a hole, in order, apart.
    ranges: Vec<(u64, u64)>,
    /// The ranges to report, most recent first (RFC 2018, section 4).
    recent: [(u64, u64); 3],
    n_recent: u8,
    dsack: Option<(u64, u64)>,
    pub(crate) sack_enabled: bool,
    pub(crate) wnd_shift: u8,
    quick: u8,
    full_segment: u32,
    ack_now: bool,
    ack_deadline: Option<Time>,
    /// An ACK owed for what came before a CE change: the byte it acknowledges, and its ECE.
    early_ack: Option<(u64, bool)>,
    /// The early ACK has cancelled that of the segment at hand.
    cancelled: bool,
}

impl Receiver {
    /// `start` is the first byte the peer will send.
    pub(crate) fn new(config: &Config, start: u64, full_segment: u16) -> Receiver {
        Receiver {
            counters: ReceiverCounters::default(),
            start,
            nxt: start,
            read: start,
            edge: start,
            acked: start,
            fin: None,
            ranges: Vec::new(),
            recent: [(0, 0); 3],
            n_recent: 0,
            dsack: None,
            sack_enabled: false,
            wnd_shift: 0,
            quick: config.quickack,
            full_segment: u32::from(full_segment),
            ack_now: false,
            ack_deadline: None,
            early_ack: None,
            cancelled: false,
        }
    }

    /// Stream bytes received in order, read by the application or not.
    pub fn delivered(&self) -> u64 {
        self.nxt - self.start - u64::from(self.finished())
    }
    /// Bytes held beyond a hole.
    pub fn out_of_order_bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
    /// Bytes in order that the application has not read.
    pub fn unread(&self) -> u64 {
        self.delivered() - (self.read - self.start)
    }
    /// The peer has closed, and everything before its FIN has arrived.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// What the last ACK sent acknowledged (RFC 7323, Last.ACK.sent).
    pub(crate) fn last_acked(&self) -> u64 {
        self.acked
    }
    /// Next sequence number expected.
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(crate) fn demand_ack(&mut self) {
        self.ack_now = true;
    }
    pub(crate) fn ack_demanded(&self) -> bool {
        self.ack_now
    }
    pub(crate) fn ack_deadline(&self) -> Option<Time> {
        self.ack_deadline
    }
    pub(crate) fn take_early_ack(&mut self) -> Option<(u64, bool)> {
        self.early_ack.take()
    }

    /// A segment without data or FIN: only one from before the window needs an answer (a zero-window probe).
    pub(crate) fn on_empty(&mut self, seq: u64) {
        if seq < self.acked {
            self.ack_now = true;
        }
    }

    /// Data or FIN of a segment whose sequence number unwraps to `seq`.
    pub(crate) fn on_data(&mut self, config: &Config, now: Time, segment: &Segment, seq: u64, fin: bool, mark: Mark) {
        self.take_mark(config, mark);
        self.counters.segments += 1;
        self.full_segment = self.full_segment.max(u32::from(segment.segment_size));
        let held = self.unread();
        // What was announced is accepted, even if rounding has since moved the edge.
        let edge = self.edge.max(self.nxt + config.rcvbuf.saturating_sub(held));
        let data_end = seq + u64::from(segment.len);
        let mut end = data_end + u64::from(fin);
        if end <= self.nxt {
            self.counters.duplicates += 1;
            self.report_duplicate(seq, end);
            self.quicken(config);
            return;
        }
        if seq > self.nxt && seq >= edge {
            self.counters.refused += 1;
            self.ack_now = true;
            self.quicken(config);
            return;
        }
        if data_end > edge {
            end = edge.max(self.nxt);
        } else if fin {
            self.fin = Some(data_end);
        }
        if seq > self.nxt {
            self.ack_now = true;
            self.counters.out_of_order += 1;
            self.hold(config, seq, end);
            return;
        }
        if seq < self.nxt {
            self.report_duplicate(seq, self.nxt);
        }
        let had_holes = !self.ranges.is_empty();
        self.nxt = end;
        if had_holes {
            self.absorb();
            self.ack_now = true;
        }
        if config.auto_read {
            self.read = self.start + self.delivered();
        }
        if self.cancelled && !self.ack_now && !fin {
            // What came before is acknowledged early, as if that were all.
            self.acked = self.early_ack.map_or(self.acked, |(before, _)| before);
            self.ack_deadline = None;
            return;
        }
        let unacked = self.nxt - self.acked;
        if unacked > u64::from(self.full_segment) || self.quick > 0 || config.delayed_ack == Time::ZERO || fin {
            self.ack_now = true;
        }
        if !self.ack_now && self.ack_deadline.is_none() {
            self.ack_deadline = Some(now.saturating_add(config.delayed_ack));
        }
    }

    fn take_mark(&mut self, config: &Config, mark: Mark) {
        self.cancelled = false;
        match mark {
            Mark::Unremarkable => {}
            Mark::Congested => self.quick = self.quick.max(2),
            Mark::Answered => self.ack_now = true,
            Mark::Changed { before } => {
                let early = self.nxt > self.acked && self.early_ack.is_none();
                if early {
                    self.early_ack = Some((self.nxt, before));
                }
                self.ack_now |= !config.dctcp_cancels_ack;
                self.cancelled = early && config.dctcp_cancels_ack;
            }
        }
    }

    /// The sender repeats what is here: it has waited for an ACK in vain, and may have a window of one segment now, for which
    /// a delayed ACK would be a timeout more. Linux acknowledges at once again (`tcp_data_queue`, `tcp_enter_quickack_mode`).
    #[inline(never)]
    fn quicken(&mut self, config: &Config) {
        self.quick = self.quick.max(config.quickack);
    }

    #[inline(never)]
    fn report_duplicate(&mut self, start: u64, end: u64) {
        self.ack_now = true;
        self.dsack = Some((start, end));
    }

    /// Stores a range beyond a hole and puts it first among those to report.
    #[inline(never)]
    fn hold(&mut self, config: &Config, start: u64, end: u64) {
        // Ranges that overlap or touch: [from, to).
        let from = self.ranges.partition_point(|range| range.1 < start);
        let to = from + self.ranges[from..].partition_point(|range| range.0 <= end);
        if from == to {
            if self.ranges.len() >= usize::from(config.max_ooo_ranges) {
                self.counters.refused += 1;
                return;
            }
            self.ranges.insert(from, (start, end));
            self.report((start, end));
            return;
        }
        let (first, last) = (self.ranges[from], self.ranges[to - 1]);
        if first.0 <= start && end <= first.1 {
            self.counters.duplicates += 1;
            self.report_duplicate(start, end);
        }
        let merged = (first.0.min(start), last.1.max(end));
        self.ranges[from] = merged;
        self.ranges.drain(from + 1..to);
        self.report(merged);
    }

    fn report(&mut self, newest: (u64, u64)) {
        let mut kept = [newest, (0, 0), (0, 0)];
        let mut count = 1;
        for &range in &self.recent[..usize::from(self.n_recent)] {
            if count < kept.len() && (range.1 < newest.0 || newest.1 < range.0) {
                kept[count] = range;
                count += 1;
            }
        }
        self.recent = kept;
        self.n_recent = count as u8;
    }

    /// Moves what is now in order out of the ranges.
    #[inline(never)]
    fn absorb(&mut self) {
        let in_order = self.ranges.partition_point(|range| range.0 <= self.nxt);
        for &(start, end) in &self.ranges[..in_order] {
            if start < self.nxt {
                // Part of the segment was here already.
                self.dsack.get_or_insert((start, end.min(self.nxt)));
            }
            self.nxt = self.nxt.max(end);
        }
        self.ranges.drain(..in_order);
        let nxt = self.nxt;
        let mut count = 0;
        for index in 0..usize::from(self.n_recent) {
            if self.recent[index].1 > nxt {
                self.recent[count] = self.recent[index];
                count += 1;
            }
        }
        self.n_recent = count as u8;
    }

    /// The application takes up to `bytes`; returns how many.
    pub(crate) fn read(&mut self, config: &Config, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread());
        self.read += taken;
        // Tell the peer once the window has at least doubled, and by enough to be worth it (`tcp_cleanup_rbuf`).
        let before = self.edge.saturating_sub(self.nxt);
        let after = self.next_edge(config).saturating_sub(self.nxt);
        if after > before && after >= 2 * before && 2 * before <= config.rcvbuf {
            self.ack_now = true;
        }
        taken
    }

    /// The right edge to announce: it never retreats, and advances by a segment or half the buffer at least
    /// (RFC 9293, section 3.8.6.2.2).
    fn next_edge(&self, config: &Config) -> u64 {
        let unit = 1 << self.wnd_shift;
        let free = config.rcvbuf.saturating_sub(self.unread());
        let field = (free / unit).min(0xffff);
        let edge = self.nxt + field * unit;
        let least = (config.rcvbuf / 2).min(u64::from(self.full_segment)).max(1);
        if edge >= self.edge + least {
            edge
        } else {
            self.edge
        }
    }

    /// Takes what an outgoing segment says; the ACK owed, if any, is thereby sent. `pure` for one without data.
    pub(crate) fn acknowledge(&mut self, config: &Config, pure: bool) -> AckFields {
        if pure {
            self.counters.acks_sent += 1;
            self.quick = self.quick.saturating_sub(1);
        } else if self.ack_now || self.ack_deadline.is_some() {
            // The conversation is interactive: ACKs find data to ride on (Linux's pingpong mode).
            self.quick = 0;
        }
        self.ack_now = false;
        self.ack_deadline = None;
        self.acked = self.nxt;
        self.edge = self.next_edge(config);
        let field = (self.edge.saturating_sub(self.nxt) >> self.wnd_shift).min(0xffff);
        let mut fields = AckFields { ack: self.nxt as u32, window: field as u16, sack: [(0, 0); 3], n_sack: 0 };
        let dsack = self.dsack.take();
        if self.sack_enabled {
            let recent = self.recent[..usize::from(self.n_recent)].iter().copied();
            for (slot, (start, end)) in fields.sack.iter_mut().zip(dsack.into_iter().chain(recent)) {
                *slot = (start as u32, end as u32);
                fields.n_sack += 1;
            }
        }
        fields
    }

    /// The window field as last announced.
    pub(crate) fn window_field(&self) -> u16 {
        (self.edge.saturating_sub(self.nxt) >> self.wnd_shift).min(0xffff) as u16
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.ack_deadline.is_some_and(|at| at <= now) {
            self.ack_deadline = None;
            if !self.ack_now {
                self.counters.delayed_acks += 1;
                self.ack_now = true;
            }
        }
    }
}
