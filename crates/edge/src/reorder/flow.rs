//! Algorithm 2 of Presto for one flow: merges, holds and releases its segments.

use super::slots::Chain;
use super::{Config, Sink, Timeout};
use crate::Slot;
use units::Time;
use wire::{tcp, Packet};

/// Payload of one merged segment, bytes: 64 KB, what Linux can carry up the stack.
const MAX_SEGMENT: u32 = 65_536;

/// Serial-number difference (RFC 1982): positive when `a` is newer.
pub(super) fn diff(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

fn after(a: u32, b: u32) -> bool {
    diff(a, b) > 0
}

/// The later of both.
fn latest(a: u32, b: u32) -> u32 {
    if after(a, b) {
        a
    } else {
        b
    }
}

/// Contiguous payload of one flowcell, and the slots it came in.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u32,
    end: u32,
    cell: u32,
    ack: u32,
    bytes: u32,
    /// Without PSH.
    flags: u8,
    ecn: u8,
    /// Ended with PSH or carries CWR: nothing may be appended.
    closed: bool,
    /// Its packets have TCP timestamps: the first and the latest one.
    stamped: bool,
    first_stamp: u32,
    last_stamp: u32,
    slots: Chain,
    /// The first flush that held it.
    held_since: Option<Time>,
    last_merge: Time,
}

/// Presto's state of one flow in the incoming direction.
#[derive(Debug)]
pub(super) struct Flow {
    /// Ascending when a flush left them, then in order of arrival; the paper's list head is the end.
    segments: Vec<Segment>,
    /// Next sequence number expected, `expSeq`.
    exp: u32,
    /// Newest flowcell that was pushed in order, `lastFlowcell`.
    last: u32,
    /// Sequence number of the SYN that `exp` comes from.
    syn: Option<u32>,
    /// `exp` and `last` mean something.
    started: bool,
    /// Segments arrived since the last flush.
    touched: bool,
    /// In the engine's list of touched flows.
    pub(super) listed: bool,
    /// Flows are flushed in the order of their turns; kept until a flush of all flows finds it without segments.
    pub(super) turn: u64,
    /// The engine's round in which segments left last.
    round: u64,
    held_bytes: u64,
    /// Average duration of gaps between flowcells that filled; `None` before the first sample.
    average: Option<Time>,
    /// The latest gap that timed out; its bytes may still come.
    missed: Option<Missed>,
    /// When a held segment is next due.
    deadline: Option<Time>,
}

/// Of segments in order: has one an older timestamp than one in front of it? Only what was sent again has a later one than what follows. A
/// guest that gets both in this order drops the older one (PAWS, RFC 7323 section 5).
fn is_overtaken(segments: &[Segment]) -> bool {
    let Some(first) = segments.first().filter(|s| s.stamped) else { return false };
    let mut newest = first.last_stamp;
    segments[1..].iter().filter(|s| s.stamped).any(|s| {
        let overtaken = after(newest, s.first_stamp);
        newest = latest(newest, s.last_stamp);
        overtaken
    })
}

/// As they were sent; those that left at one time stay in order.
fn sort_by_stamp(segments: &mut [Segment]) {
    let Some(base) = segments.first().map(|s| s.first_stamp) else { return };
    segments.sort_by_key(|s| if s.stamped { diff(s.first_stamp, base) } else { 0 });
}

/// A gap that timed out.
#[derive(Clone, Copy, Debug)]
struct Missed {
    start: u32,
    end: u32,
    /// Of the segment behind it: what is sent again is in no earlier one.
    cell: u32,
    /// When that was first held.
    since: Time,
}

impl Sink {
    fn push(&mut self, segment: &Segment) {
        self.counters.segments_pushed += 1;
        let mut joins_previous = false;
        self.pool.drain(segment.slots, |slot| {
            self.released.push_back((slot, joins_previous));
            joins_previous = true;
        });
    }
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow {
            segments: Vec::new(),
            exp: 0,
            last: 0,
            syn: None,
            started: false,
            touched: false,
            listed: false,
            turn: 0,
            round: 0,
            held_bytes: 0,
            average: None,
            missed: None,
            deadline: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// Is a segment that comes now the first since a flush of all flows found none?
    pub(super) fn wants_turn(&self, round: u64) -> bool {
        self.segments.is_empty() && self.round != round
    }

    /// When it is flushed at the latest.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// May `packet` be added without exceeding the bounds of the flow?
    pub(super) fn has_room(&self, config: &Config, packet: &Packet) -> bool {
        self.held_bytes + u64::from(packet.payload) <= config.flow_bytes.get()
            && self.segments.len() < Config::MAX_SEGMENTS
    }

    /// Begins a connection at a SYN; its retransmission changes nothing.
    pub(super) fn syn(&mut self, packet: &Packet, sink: &mut Sink) {
        if self.syn == Some(packet.seq) {
            return;
        }
        self.restart(sink);
        self.syn = Some(packet.seq);
        self.start(packet.cell, packet.end_seq());
    }

    /// Forgets the connection; held segments leave in order.
    pub(super) fn restart(&mut self, sink: &mut Sink) {
        self.push_all(sink);
        self.syn = None;
        self.started = false;
        self.average = None;
        self.missed = None;
    }

    /// Goes on where somebody else has followed the connection to.
    pub(super) fn resume(&mut self, exp: u32, cell: u32, sink: &mut Sink) {
        self.push_all(sink);
        self.syn = None;
        self.missed = None;
        self.start(cell, exp);
    }

    fn start(&mut self, cell: u32, exp: u32) {
        self.started = true;
        self.last = cell;
        self.exp = exp;
    }

    /// Adds a data packet to the list: to the first segment from the head that it continues, or as a new head.
    pub(super) fn merge(&mut self, now: Time, slot: Slot, packet: &Packet, stamp: Option<u32>, sink: &mut Sink) {
        if !self.started {
            self.start(packet.cell, packet.seq);
        }
        self.touched = true;
        self.held_bytes += u64::from(packet.payload);
        let flags = packet.tcp_flags & !tcp::PSH;
        let closes = packet.has_flags(tcp::PSH | tcp::CWR);
        if let Some(segment) = self.continued_by(packet).and_then(|n| self.segments.get_mut(n)) {
            segment.end = packet.end_seq();
            segment.bytes += packet.payload;
            segment.closed = closes;
            segment.last_merge = now;
            if let Some(stamp) = stamp.filter(|_| segment.stamped) {
                segment.last_stamp = latest(segment.last_stamp, stamp);
            }
            sink.pool.append(&mut segment.slots, slot);
            return;
        }
        self.segments.push(Segment {
            start: packet.seq,
            end: packet.end_seq(),
            cell: packet.cell,
            ack: packet.ack,
            bytes: packet.payload,
            flags,
            ecn: packet.ecn,
            closed: closes,
            stamped: stamp.is_some(),
            first_stamp: stamp.unwrap_or_default(),
            last_stamp: stamp.unwrap_or_default(),
            slots: sink.pool.chain(slot),
            held_since: None,
            last_merge: now,
        });
    }

    /// The first segment from the head that `packet` continues.
    fn continued_by(&self, packet: &Packet) -> Option<usize> {
        let flags = packet.tcp_flags & !tcp::PSH;
        self.segments.iter().rposition(|s| {
            s.end == packet.seq
                && s.cell == packet.cell
                && !s.closed
                && s.flags == flags
                && s.ecn == packet.ecn
                && s.ack == packet.ack
                && s.bytes.saturating_add(packet.payload) <= MAX_SEGMENT
        })
    }

    /// A segment that goes up at once without having been in the list, such as one with FIN.
    pub(super) fn note_passed(&mut self, packet: &Packet) {
        let (start, end) = (packet.seq, packet.end_seq());
        if !self.started {
            self.start(packet.cell, start);
        }
        let newer = diff(packet.cell, self.last);
        // Beyond a gap before its flowcell it says nothing about the segments that are missing.
        if newer == 0 || diff(start, self.exp) <= 0 {
            if newer > 0 {
                self.last = packet.cell;
            }
            self.advance(end);
        }
    }

    fn advance(&mut self, end: u32) {
        if after(end, self.exp) {
            self.exp = end;
        }
    }

    /// Algorithm 2's flush: pushes what is in order or will not get more so, holds the rest. What was due by `complete` has
    /// timed out.
    pub(super) fn flush(&mut self, now: Time, complete: Time, sink: &mut Sink) {
        self.touched = false;
        self.round = sink.round;
        self.sort();
        // Segments before one that timed out must not be held longer than it.
        let timeout = sink.config.timeout;
        let forced = self.segments.iter().rposition(|s| self.due(s, timeout).is_some_and(|due| due <= complete));
        let mut timed_out = false;
        let mut segments = std::mem::take(&mut self.segments);
        let (mut at, overtaken, mut leaving) = (0, is_overtaken(&segments), Vec::new());
        segments.retain_mut(|s| {
            let force = forced.is_some_and(|forced| at <= forced);
            at += 1;
            let push = self.decide(s, force, &mut timed_out, now, sink);
            if push {
                self.held_bytes -= u64::from(s.bytes);
                match overtaken {
                    true => leaving.push(*s),
                    false => sink.push(s),
                }
            } else if s.held_since.is_none() {
                s.held_since = Some(now);
                sink.counters.segments_held += 1;
            }
            !push
        });
        self.segments = segments;
        sort_by_stamp(&mut leaving);
        for s in &leaving {
            sink.push(s);
        }
        self.deadline = self.segments.iter().filter_map(|s| self.due(s, timeout)).min();
    }

    /// The cases of Algorithm 2. True: push.
    fn decide(&mut self, s: &Segment, force: bool, timed_out: &mut bool, now: Time, sink: &mut Sink) -> bool {
        let literal = sink.config.literal;
        let newer = diff(s.cell, self.last);
        let gap = diff(s.start, self.exp);
        let covers_exp = gap <= 0 && after(s.end, self.exp);
        if newer == 0 {
            // Case 1. A gap within a flowcell, which took one path, is loss: the guest must hear of it.
            self.advance(s.end);
            return true;
        }
        if newer < 0 {
            // Case 3, stale.
            self.fills_late(s, now, sink);
            if covers_exp && !literal {
                self.exp = s.end;
            }
            return true;
        }
        if gap == 0 {
            // Case 2(a), the next flowcell in order.
            if let (Some(since), false) = (s.held_since, *timed_out) {
                self.sample(now.saturating_sub(since), sink);
            }
            self.exp = s.end;
        } else if gap < 0 {
            // Case 2(b), a retransmission.
            if covers_exp && !literal {
                self.exp = s.end;
            }
        } else if force {
            // Case 2(c).
            *timed_out = true;
            sink.counters.timeouts += 1;
            if let Some(since) = s.held_since {
                self.missed = Some(Missed { start: self.exp, end: s.start, cell: s.cell, since });
            }
            self.exp = s.end;
        } else {
            // Case 2(d).
            return false;
        }
        self.last = s.cell;
        true
    }

    /// Pushes everything, in order but for what was sent again, and expects what follows it.
    pub(super) fn push_all(&mut self, sink: &mut Sink) {
        if !self.segments.is_empty() {
            self.round = sink.round;
        }
        self.sort();
        let mut segments = std::mem::take(&mut self.segments);
        for s in &segments {
            self.advance(s.end);
            self.last = latest(s.cell, self.last);
        }
        if is_overtaken(&segments) {
            sort_by_stamp(&mut segments);
        }
        for s in segments.drain(..) {
            sink.push(&s);
        }
        self.segments = segments;
        self.held_bytes = 0;
        self.touched = false;
        self.deadline = None;
    }

    /// By distance from the expected sequence number; duplicates stay in order of arrival.
    fn sort(&mut self) {
        let exp = self.exp;
        if !self.segments.is_sorted_by_key(|s| diff(s.start, exp)) {
            self.segments.sort_by_key(|s| diff(s.start, exp));
        }
    }

    /// When a held segment stops waiting.
    fn due(&self, s: &Segment, timeout: Timeout) -> Option<Time> {
        let since = s.held_since?;
        Some(match timeout {
            Timeout::Fixed(wait) => since.saturating_add(wait),
            Timeout::Adaptive { start, min, max, alpha, beta, .. } => {
                let average = self.average.unwrap_or(start).min(max).max(min).as_ps();
                let waited = since.saturating_add(Time::from_ps(average.saturating_mul(u64::from(alpha))));
                let quiet = Time::from_ps(average / u64::from(beta.max(1)));
                waited.max(s.last_merge.saturating_add(quiet))
            }
        })
    }

    /// The last bytes of a gap that timed out, in a flowcell before that of the segment behind it: they were on the way all the time.
    fn fills_late(&mut self, s: &Segment, now: Time, sink: &mut Sink) {
        let late = matches!(sink.config.timeout, Timeout::Adaptive { late: true, .. });
        let fills = |gap: &Missed| !after(gap.start, s.start) && s.end == gap.end && diff(s.cell, gap.cell) < 0;
        if let Some(gap) = self.missed.take_if(|gap| late && fills(gap)) {
            self.learn(now.saturating_sub(gap.since), sink);
        }
    }

    /// A gap filled after `held`.
    fn sample(&mut self, held: Time, sink: &mut Sink) {
        sink.counters.gaps_filled += 1;
        self.learn(held, sink);
    }

    /// Gain 1/8.
    fn learn(&mut self, held: Time, sink: &Sink) {
        if let Timeout::Adaptive { start, min, max, .. } = sink.config.timeout {
            let old = self.average.unwrap_or(start).as_ps();
            let new = old - old / 8 + held.as_ps() / 8;
            self.average = Some(Time::from_ps(new).min(max).max(min));
        }
    }
}

#[cfg(test)]
impl Flow {
    /// `lastFlowcell` and `expSeq`.
    pub(super) fn position(&self) -> (u32, u32) {
        (self.last, self.exp)
    }

    pub(super) fn average(&self) -> Option<Time> {
        self.average
    }

    /// Segments that merging `packet` looks at.
    pub(super) fn visits(&self, packet: &Packet) -> usize {
        self.segments.len() - self.continued_by(packet).unwrap_or(0)
    }

    /// Segments that a flush now would move by sorting.
    pub(super) fn misplaced(&self) -> usize {
        let mut sorted: Vec<u32> = self.segments.iter().map(|s| s.start).collect();
        sorted.sort_by_key(|&start| diff(start, self.exp));
        self.segments.iter().zip(sorted).filter(|(s, start)| s.start != *start).count()
    }
}
