//! Outstanding data and its state: the sender's retransmission queue as runs of bytes.
//!
//! Runs tile `[snd_una, snd_nxt)` in order. Bytes sent at the same instant with the same fate share a run; SACKed
//! neighbours merge. Linux keeps the same facts per packet buffer.

use std::collections::VecDeque;
use units::Time;

/// Fate of a run.
mod fate {
    pub(super) const SACKED: u8 = 1;
    pub(super) const LOST: u8 = 2;
    /// A retransmission is in the network.
    pub(super) const RETRANS: u8 = 4;
    /// Was retransmitted at some time: no RTT sample, no sign of reordering.
    pub(super) const EVER: u8 = 8;
}
use fate::{EVER, LOST, RETRANS, SACKED};

#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    /// Last transmission.
    sent: Time,
    len: u32,
    fate: u8,
}

impl Run {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// A transmission, ordered as RACK orders them (RFC 8985, section 6.2, step 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transmission {
    pub(crate) sent: Time,
    pub(crate) end: u64,
}

/// What one ACK taught.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    now: Time,
    /// A retransmission acknowledged faster than this was spurious: the original arrived.
    min_rtt: Time,
    /// Bytes newly acknowledged or SACKed.
    pub(crate) bytes: u64,
    /// Of those, SACKed.
    pub(crate) sacked: u64,
    /// Earliest and latest transmission among bytes newly acknowledged, sent once and not given up (those would count
    /// a timeout into the RTT).
    pub(crate) first_sent: Option<Time>,
    pub(crate) last_sent: Option<Time>,
    /// Earliest transmission among bytes newly SACKed, likewise.
    pub(crate) first_sacked_sent: Option<Time>,
    /// Retransmitted bytes were acknowledged: no RTT sample from the cumulative part (Karn).
    pub(crate) retransmitted: bool,
    /// Lowest byte sent once that was delivered after a higher one: reordering.
    pub(crate) reordered: Option<u64>,
    /// The most recent transmission known to be delivered.
    pub(crate) newest: Option<Transmission>,
}

impl Delivery {
    pub(crate) fn new(now: Time, min_rtt: Option<Time>) -> Delivery {
        Delivery {
            now,
            min_rtt: min_rtt.unwrap_or(Time::ZERO),
            bytes: 0,
            sacked: 0,
            first_sent: None,
            last_sent: None,
            first_sacked_sent: None,
            retransmitted: false,
            reordered: None,
            newest: None,
        }
    }

    fn add(&mut self, start: u64, end: u64, run: &Run, high_sacked: u64) {
        self.bytes += end - start;
        if run.fate & EVER == 0 {
            if start < high_sacked {
                self.reordered = Some(self.reordered.map_or(start, |low| low.min(start)));
            }
        } else if self.now.saturating_sub(run.sent) < self.min_rtt {
            return;
        }
        self.newest = self.newest.max(Some(Transmission { sent: run.sent, end }));
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    runs: VecDeque<Run>,
    sacked: u64,
    lost: u64,
    retrans: u64,
    /// Lost and not (again) retransmitted.
    pending: u64,
    high_sacked: u64,
    high_retrans: u64,
    /// Nothing pending lies below.
    pending_from: u64,
    /// Everything unSACKed below has been marked lost by SACK.
    marked_to: u64,
}

impl Scoreboard {
    pub(crate) fn sacked(&self) -> u64 {
        self.sacked
    }
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
    pub(crate) fn retrans(&self) -> u64 {
        self.retrans
    }
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }
    /// End of the highest SACKed byte; 0 before the first.
    pub(crate) fn high_sacked(&self) -> u64 {
        self.high_sacked
    }
    /// Everything in `[start, end)` was SACKed.
    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        let runs = self.runs.range(self.index_of(start)..).take_while(|run| run.start < end);
        start >= end || runs.fold(false, |held, run| (held || run.start <= start) && run.fate & SACKED != 0)
    }
    /// When the first outstanding byte was last sent.
    pub(crate) fn head_sent(&self) -> Option<Time> {
        self.runs.front().map(|run| run.sent)
    }
    /// The first outstanding byte was SACKed: the receiver has reneged (RFC 6675, section 5.1).
    pub(crate) fn head_sacked(&self) -> bool {
        self.runs.front().is_some_and(|run| run.fate & SACKED != 0)
    }

    /// Bytes sent for the first time; `start` is where the last push ended.
    pub(crate) fn push(&mut self, start: u64, len: u32, now: Time) {
        if let Some(last) = self.runs.back_mut() {
            debug_assert_eq!(last.end(), start);
            if last.sent == now && last.fate == 0 && last.len < 1 << 30 {
                last.len += len;
                return;
            }
        }
        self.runs.push_back(Run { start, sent: now, len, fate: 0 });
    }

    /// Cumulative acknowledgement up to `una`.
    pub(crate) fn ack(&mut self, una: u64, delivery: &mut Delivery) {
        while let Some(&run) = self.runs.front() {
            let end = run.end().min(una);
            if end <= run.start {
                break;
            }
            if run.fate & EVER != 0 {
                delivery.retransmitted = true;
            }
            if run.fate & SACKED == 0 {
                delivery.add(run.start, end, &run, self.high_sacked);
                if run.fate & (EVER | LOST) == 0 {
                    delivery.first_sent = Some(delivery.first_sent.map_or(run.sent, |t| t.min(run.sent)));
                    delivery.last_sent = delivery.last_sent.max(Some(run.sent));
                }
            }
            self.account(run.fate, 0, end - run.start);
            if end == run.end() {
                self.runs.pop_front();
            } else if let Some(front) = self.runs.front_mut() {
                front.start = end;
                front.len = (run.end() - end) as u32;
                break;
            }
        }
    }

    /// A SACK block. Bytes outside the outstanding ones are ignored.
    pub(crate) fn sack(&mut self, start: u64, end: u64, delivery: &mut Delivery) {
        let (Some(first), Some(last)) = (self.runs.front(), self.runs.back()) else { return };
        let (start, end) = (start.max(first.start), end.min(last.end()));
        if start >= end {
            return;
        }
        let high_before = self.high_sacked;
        let mut index = self.index_of(start);
        while index < self.runs.len() && self.runs[index].start < end {
            if self.runs[index].fate & SACKED == 0 {
                self.split(index, start);
                if self.runs[index].start < start {
                    index += 1;
                }
                self.split(index, end);
                let run = self.runs[index];
                let before = delivery.bytes;
                delivery.add(run.start, run.end(), &run, high_before);
                delivery.sacked += delivery.bytes - before;
                if run.fate & (EVER | LOST) == 0 {
                    delivery.first_sacked_sent = Some(delivery.first_sacked_sent.map_or(run.sent, |t| t.min(run.sent)));
                }
                self.set_fate(index, (run.fate & EVER) | SACKED);
                index = self.merge_around(index);
            }
            index += 1;
        }
        self.high_sacked = self.high_sacked.max(end);
    }

    /// Marks as lost what RFC 6675 (IsLost) calls so: at least `threshold` separate SACKed runs above it, or more
    /// than `threshold - 1` segments' worth of SACKed bytes. Returns the bytes newly marked.
    pub(crate) fn mark_lost_by_sack(&mut self, threshold: u32, mss: u64) -> u64 {
        if self.sacked == 0 {
            return 0;
        }
        let limit = u64::from(threshold.saturating_sub(1)) * mss;
        let (mut bytes, mut runs) = (0, 0);
        let mut index = self.index_of(self.high_sacked);
        while index > 0 {
            index -= 1;
            if self.runs[index].fate & SACKED != 0 {
                bytes += u64::from(self.runs[index].len);
                runs += 1;
                if bytes > limit || runs >= threshold {
                    break;
                }
            }
        }
        if bytes <= limit && runs < threshold {
            return 0;
        }
        let top = self.runs[index].start;
        let before = self.lost;
        while index > 0 && self.runs[index - 1].end() > self.marked_to {
            index -= 1;
            if self.runs[index].fate & (SACKED | LOST) == 0 {
                self.mark_lost(index);
            }
        }
        self.marked_to = self.marked_to.max(top);
        self.lost - before
    }

    /// Marks the first `len` bytes as lost, whether retransmitted before or not.
    pub(crate) fn mark_head_lost(&mut self, len: u64) -> u64 {
        let Some(head) = self.runs.front() else { return 0 };
        let (until, before) = (head.start + len, self.pending);
        self.split(0, until);
        if self.runs[0].fate & SACKED == 0 {
            self.mark_lost(0);
        }
        self.pending.saturating_sub(before)
    }

    /// Marks `[start, end)` as lost, whether retransmitted before or not. Bytes outside the outstanding ones are ignored.
    pub(crate) fn mark_range_lost(&mut self, start: u64, end: u64) {
        let (Some(first), Some(last)) = (self.runs.front(), self.runs.back()) else { return };
        let (start, end) = (start.max(first.start), end.min(last.end()));
        if start >= end {
            return;
        }
        let mut index = self.index_of(start);
        while index < self.runs.len() && self.runs[index].start < end {
            self.split(index, start);
            if self.runs[index].start < start {
                index += 1;
            }
            self.split(index, end);
            if self.runs[index].fate & SACKED == 0 {
                self.mark_lost(index);
            }
            index += 1;
        }
    }

    /// After a retransmission timeout everything not SACKed is lost; with `reneged` SACKs are forgotten first.
    pub(crate) fn mark_all_lost(&mut self, reneged: bool) {
        if reneged {
            self.high_sacked = 0;
        }
        for index in 0..self.runs.len() {
            let fate = self.runs[index].fate;
            if reneged || fate & SACKED == 0 {
                self.set_fate(index, (fate & EVER) | LOST);
            }
        }
        self.pending_from = 0;
        self.marked_to = self.runs.back().map_or(0, Run::end);
    }

    /// Takes back every loss mark (a reduction proved spurious).
    pub(crate) fn unmark_lost(&mut self) {
        for index in 0..self.runs.len() {
            let fate = self.runs[index].fate;
            self.set_fate(index, fate & !LOST);
        }
        self.marked_to = 0;
    }

    /// RACK's loss detection (RFC 8985, section 6.2, step 5): bytes are lost if sent `age` or longer ago and before
    /// the newest delivered transmission. Returns when the rest of those falls due.
    pub(crate) fn mark_lost_by_time(&mut self, newest: Transmission, age: Time, now: Time) -> Option<Time> {
        let mut due = None;
        for index in 0..self.runs.len() {
            let run = self.runs[index];
            let candidate = Transmission { sent: run.sent, end: run.end() };
            if newest <= candidate {
                // First transmissions only get younger from here on.
                if run.start >= self.high_retrans {
                    break;
                }
                continue;
            }
            if run.fate & SACKED != 0 || run.fate & (LOST | RETRANS) == LOST {
                continue;
            }
            let at = run.sent.saturating_add(age);
            if at <= now {
                self.mark_lost(index);
            } else {
                due = due.max(Some(at));
            }
        }
        due
    }

    /// The first bytes to retransmit: `(start, length)` of a run that is lost and not on its way.
    pub(crate) fn next_lost(&mut self) -> Option<(u64, u64)> {
        if self.pending == 0 {
            return None;
        }
        let from = self.index_of(self.pending_from);
        let run = self.runs.range(from..).find(|run| run.fate & (LOST | RETRANS) == LOST)?;
        self.pending_from = run.start;
        Some((run.start, u64::from(run.len)))
    }

    /// RFC 6675, NextSeg rule 3: the first bytes below the highest SACK that are neither SACKed nor retransmitted.
    pub(crate) fn next_unsacked(&self) -> Option<(u64, u64)> {
        if self.sacked == 0 {
            return None;
        }
        let from = self.index_of(self.high_retrans);
        let runs = self.runs.range(from..).take_while(|run| run.start < self.high_sacked);
        runs.into_iter().find(|run| run.fate == 0).map(|run| (run.start, u64::from(run.len)))
    }

    /// NextSeg rule 4: up to `len` bytes at the end, if they were sent once, by `sent_before`, and not SACKed.
    pub(crate) fn untouched_tail(&self, len: u64, sent_before: Time) -> Option<(u64, u64)> {
        let run = self.runs.back().filter(|run| run.fate == 0 && run.sent <= sent_before)?;
        let start = run.start.max(run.end().saturating_sub(len));
        Some((start, run.end() - start))
    }

    /// The last `len` bytes not SACKed: the tail loss probe.
    pub(crate) fn last_unsacked(&self, len: u64) -> Option<(u64, u64)> {
        let run = self.runs.iter().rev().find(|run| run.fate & SACKED == 0)?;
        let start = run.start.max(run.end().saturating_sub(len));
        Some((start, run.end() - start))
    }

    /// Bytes `[start, start + len)`, all of them outstanding, were sent again.
    pub(crate) fn retransmitted(&mut self, start: u64, len: u32, now: Time) {
        let (mut at, end) = (start, start + u64::from(len));
        while let Some(run) = self.runs.get(self.index_of(at)).filter(|_| at < end) {
            let until = run.end().min(end);
            self.retransmitted_in_run(at, until, now);
            at = until;
        }
    }

    fn retransmitted_in_run(&mut self, start: u64, end: u64, now: Time) {
        let mut index = self.index_of(start);
        self.split(index, start);
        if self.runs[index].start < start {
            index += 1;
        }
        self.split(index, end);
        self.set_fate(index, self.runs[index].fate | RETRANS | EVER);
        self.runs[index].sent = now;
        self.high_retrans = self.high_retrans.max(end);
        if index > 0 {
            let (left, right) = (self.runs[index - 1], self.runs[index]);
            if left.fate == right.fate && left.sent == right.sent {
                self.runs[index - 1].len += right.len;
                self.runs.remove(index);
            }
        }
    }

    fn mark_lost(&mut self, index: usize) {
        self.set_fate(index, (self.runs[index].fate & EVER) | LOST);
        self.pending_from = self.pending_from.min(self.runs[index].start);
    }

    /// Index of the first run that ends above `seq`.
    fn index_of(&self, seq: u64) -> usize {
        match self.runs.front() {
            Some(first) if seq < first.end() => 0,
            _ => self.runs.partition_point(|run| run.end() <= seq),
        }
    }

    /// Cuts run `index` at `at`, if that lies within.
    fn split(&mut self, index: usize, at: u64) {
        let run = self.runs[index];
        if run.start < at && at < run.end() {
            self.runs[index].len = (at - run.start) as u32;
            self.runs.insert(index + 1, Run { start: at, len: (run.end() - at) as u32, ..run });
        }
    }

    /// Joins run `index` with SACKed neighbours; returns where it is then.
    fn merge_around(&mut self, mut index: usize) -> usize {
        let sacked = |run: Option<&Run>| run.is_some_and(|run| run.fate & SACKED != 0 && run.len < 1 << 30);
        if sacked(self.runs.get(index + 1)) {
            if let Some(right) = self.runs.remove(index + 1) {
                self.runs[index].len += right.len;
                self.runs[index].fate |= right.fate;
            }
        }
        if index > 0 && sacked(self.runs.get(index - 1)) {
            if let Some(right) = self.runs.remove(index) {
                index -= 1;
                self.runs[index].len += right.len;
                self.runs[index].fate |= right.fate;
            }
        }
        index
    }

    fn set_fate(&mut self, index: usize, fate: u8) {
        let run = self.runs[index];
        self.account(run.fate, fate, u64::from(run.len));
        self.runs[index].fate = fate;
    }

    fn account(&mut self, from: u8, to: u8, len: u64) {
        let add = |count: &mut u64, was: bool, is: bool| match (was, is) {
            (false, true) => *count += len,
            (true, false) => *count -= len,
            _ => {}
        };
        add(&mut self.sacked, from & SACKED != 0, to & SACKED != 0);
        add(&mut self.lost, from & LOST != 0, to & LOST != 0);
        add(&mut self.retrans, from & RETRANS != 0, to & RETRANS != 0);
        add(&mut self.pending, from & (LOST | RETRANS) == LOST, to & (LOST | RETRANS) == LOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Time = Time::from_us(100);

    /// Ten segments of 1000 bytes from 0 on, one a microsecond.
    fn ten() -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..10 {
            board.push(n * 1000, 1000, Time::from_us(n));
        }
        board
    }

    fn sack(board: &mut Scoreboard, start: u64, end: u64) -> Delivery {
        let mut delivery = Delivery::new(T, None);
        board.sack(start, end, &mut delivery);
        delivery
    }

    fn ack(board: &mut Scoreboard, una: u64) -> Delivery {
        let mut delivery = Delivery::new(T, None);
        board.ack(una, &mut delivery);
        delivery
    }

    #[test]
    fn sacks_count_once_and_merge() {
        let mut board = ten();
        assert_eq!(sack(&mut board, 2500, 4500).bytes, 2000);
        assert_eq!(sack(&mut board, 2500, 4500).bytes, 0);
        assert_eq!(sack(&mut board, 2000, 5000).bytes, 1000);
        assert_eq!(sack(&mut board, 6000, 7000).sacked, 1000);
        assert_eq!((board.sacked(), board.high_sacked()), (4000, 7000));
        assert_eq!(board.runs.len(), 2 + 1 + 1 + 1 + 3);
        assert_eq!(sack(&mut board, 0, 1 << 40).bytes, 6000);
        assert_eq!(board.runs.len(), 1);
        assert_eq!(ack(&mut board, 10_000).bytes, 0, "all was SACKed before");
        assert_eq!((board.sacked(), board.runs.len()), (0, 0));
        assert_eq!(sack(&mut board, 0, 10_000).bytes, 0, "nothing is outstanding");
    }

    #[test]
    fn cumulative_acks_give_rtt_samples_by_karns_rule() {
        let mut board = ten();
        let delivery = ack(&mut board, 2500);
        assert_eq!(
            (delivery.bytes, delivery.first_sent, delivery.last_sent),
            (2500, Some(Time::ZERO), Some(Time::from_us(2)))
        );
        board.retransmitted(3000, 1000, T);
        let delivery = ack(&mut board, 5000);
        assert!(delivery.retransmitted);
        assert_eq!(board.retrans(), 0);
    }

    #[test]
    fn is_lost_by_the_threshold() {
        // RFC 6675, IsLost: more than (3 - 1) segments' worth SACKed above.
        let mut board = ten();
        sack(&mut board, 3000, 5000);
        assert_eq!(board.mark_lost_by_sack(3, 1000), 0, "two segments do not suffice");
        sack(&mut board, 5000, 5001);
        assert_eq!(board.mark_lost_by_sack(3, 1000), 3000);
        assert_eq!(board.mark_lost_by_sack(3, 1000), 0, "marked once");
        assert_eq!((board.lost(), board.pending()), (3000, 3000));
        sack(&mut board, 8000, 10_000);
        assert_eq!(board.mark_lost_by_sack(3, 1000), 0);
        assert_eq!(board.mark_lost_by_sack(2, 1000), 2999, "a lower threshold finds the hole above as well");
        // Three separate ranges count whatever their size.
        let mut board = ten();
        for start in [2000, 4000, 6000] {
            sack(&mut board, start, start + 10);
        }
        assert_eq!(board.mark_lost_by_sack(3, 1000), 2000);
    }

    #[test]
    fn retransmissions_leave_pending_and_return_on_timeout() {
        let mut board = ten();
        sack(&mut board, 4000, 8000);
        board.mark_lost_by_sack(3, 1000);
        assert_eq!(board.next_lost(), Some((0, 1000)));
        board.retransmitted(0, 500, T);
        assert_eq!(board.next_lost(), Some((500, 500)));
        board.retransmitted(500, 500, T);
        board.retransmitted(1000, 1000, T);
        assert_eq!((board.lost(), board.retrans(), board.pending()), (4000, 2000, 2000));
        assert_eq!(board.runs.len(), 1 + 2 + 1 + 2, "what was sent together again is one run");
        assert_eq!(board.next_unsacked(), None, "all below the highest SACK is lost");
        assert_eq!(board.last_unsacked(1000), Some((9000, 1000)));
        board.mark_all_lost(false);
        assert_eq!((board.lost(), board.retrans(), board.pending(), board.sacked()), (6000, 0, 6000, 4000));
        assert_eq!(board.next_lost(), Some((0, 2000)));
        board.mark_all_lost(true);
        assert_eq!((board.lost(), board.sacked()), (10_000, 0));
        board.unmark_lost();
        assert_eq!((board.lost(), board.pending()), (0, 0));
    }

    #[test]
    fn late_originals_show_as_reordering() {
        let mut board = ten();
        assert_eq!(sack(&mut board, 5000, 6000).reordered, None);
        assert_eq!(sack(&mut board, 2000, 3000).reordered, Some(2000));
        assert_eq!(ack(&mut board, 1000).reordered, Some(0));
        board.retransmitted(1000, 1000, T);
        assert_eq!(ack(&mut board, 2000).reordered, None, "may have been the retransmission");
    }

    #[test]
    fn time_marks_what_was_overtaken() {
        let mut board = ten();
        let delivery = sack(&mut board, 3000, 4000);
        let newest = delivery.newest.unwrap();
        assert_eq!(newest, Transmission { sent: Time::from_us(3), end: 4000 });
        // Sent at 0, 1 and 2 us: at age 100 us the first is lost at 100 us, the others fall due later.
        assert_eq!(board.mark_lost_by_time(newest, T, T), Some(Time::from_us(102)));
        assert_eq!(board.lost(), 1000);
        assert_eq!(board.mark_lost_by_time(newest, T, Time::from_us(102)), None);
        assert_eq!(board.lost(), 3000);
        // A retransmission is judged by its own time.
        board.retransmitted(0, 1000, Time::from_us(110));
        board.mark_lost_by_time(newest, T, Time::from_us(300));
        assert_eq!(board.pending(), 2000);
        let newest = Transmission { sent: Time::from_us(111), end: 11_000 };
        board.mark_lost_by_time(newest, T, Time::from_us(300));
        assert_eq!(board.pending(), 9000, "everything but what was SACKed");
    }
}
