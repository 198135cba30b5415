//! One direction of an MPTCP connection: the bytes that each subflow carries, and reassembly at the receiver.

use std::collections::VecDeque;

/// A stretch of data given to a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// Where it begins in the subflow's stream.
    at: u64,
    /// Where it begins in the data.
    data: u64,
    len: u64,
    /// Up to here another subflow was given the same data later.
    repeated: u64,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.data + self.len
    }

    /// What of it the receiver lacks, as far as the sender knows, and no other subflow was given.
    fn missing(&self, acked: u64) -> Option<(u64, u64)> {
        let begin = self.data.max(acked).max(self.repeated);
        (begin < self.end()).then(|| (begin, self.end()))
    }
}

#[derive(Clone, Debug, Default)]
struct Subflow {
    /// Not yet acknowledged, in the order of the subflow's stream, without gaps.
    chunks: VecDeque<Chunk>,
    /// Bytes given.
    given: u64,
    /// Of them, those that the receiver has in order.
    arrived: u64,
    /// What the receiver's ACKs for the first so many bytes of this subflow say of the data.
    data_acks: VecDeque<(u64, u64)>,
}

/// One direction of an MPTCP connection, sender and receiver.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    subflows: Vec<Subflow>,
    /// Receive buffer of the connection, which all subflows share.
    buffer: u64,
    written: u64,
    /// Bytes given to a subflow at least once.
    next: u64,
    /// Acknowledged at the level of data, as the sender knows.
    acked: u64,
    /// In order at the receiver.
    delivered: u64,
    /// At the receiver beyond a gap: in order, apart.
    ahead: Vec<(u64, u64)>,
    /// Data to give to another subflow than the one named.
    again: VecDeque<(usize, u64, u64)>,
}

impl Stream {
    pub(crate) fn new(buffer: u64) -> Stream {
        Stream {
            subflows: Vec::new(),
            buffer,
            written: 0,
            next: 0,
            acked: 0,
            delivered: 0,
            ahead: Vec::new(),
            again: VecDeque::new(),
        }
    }

    pub(crate) fn add_subflow(&mut self) {
        self.subflows.push(Subflow::default());
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Takes back what no subflow was given; returns the end of what stays.
    pub(crate) fn take_back_unsent(&mut self) -> u64 {
        self.written = self.written.min(self.next);
        self.written
    }

    /// In order at the receiver.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes at the receiver beyond a gap.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead.iter().map(|(start, end)| end - start).sum()
    }

    /// There is something that `subflow` could carry.
    pub(crate) fn has_for(&self, subflow: usize) -> bool {
        self.fresh() > 0 || self.again.iter().any(|&(from, ..)| from != subflow) || self.holding_up(subflow).is_some()
    }

    /// Bytes never sent that the receiver's buffer has room for.
    fn fresh(&self) -> u64 {
        self.written.min(self.acked.saturating_add(self.buffer)).saturating_sub(self.next)
    }

    /// Gives up to `most` bytes to a subflow and returns how many, to be written to its TCP: first what another one failed to
    /// deliver, then new data, and where the receiver's buffer forbids that, what another one holds the buffer up with.
    pub(crate) fn give(&mut self, subflow: usize, most: u64) -> u64 {
        while let Some(n) = self.again.iter().position(|&(from, ..)| from != subflow) {
            let (from, begin, end) = self.again[n];
            let begin = begin.max(self.acked);
            if begin >= end {
                self.again.remove(n);
                continue;
            }
            let len = most.min(end - begin);
            self.again[n] = (from, begin + len, end);
            return self.append(subflow, begin, len);
        }
        let fresh = self.fresh().min(most);
        if fresh > 0 {
            self.next += fresh;
            return self.append(subflow, self.next - fresh, fresh);
        }
        let Some((holder, n)) = self.holding_up(subflow) else { return 0 };
        let chunk = &mut self.subflows[holder].chunks[n];
        let Some((begin, end)) = chunk.missing(self.acked) else { return 0 };
        let len = (end - begin).min(most);
        chunk.repeated = begin + len;
        self.append(subflow, begin, len)
    }

    fn append(&mut self, subflow: usize, data: u64, len: u64) -> u64 {
        let to = &mut self.subflows[subflow];
        to.chunks.push_back(Chunk { at: to.given, data, len, repeated: 0 });
        to.given += len;
        len
    }

    /// The chunk, of another subflow, that keeps the full window from moving, if it was not repeated yet.
    fn holding_up(&self, subflow: usize) -> Option<(usize, usize)> {
        let full = self.next < self.written && self.next >= self.acked.saturating_add(self.buffer);
        if !full {
            return None;
        }
        let holds = |c: &Chunk| c.data <= self.acked && self.acked < c.end();
        let others = self.subflows.iter().enumerate().filter(|(other, _)| *other != subflow);
        let mut found = others.filter_map(|(other, s)| s.chunks.iter().position(holds).map(|n| (other, n)));
        found.find(|&(other, n)| self.subflows[other].chunks[n].missing(self.acked).is_some())
    }

    /// The receiving TCP of a subflow has so many bytes of its stream in order.
    pub(crate) fn on_arrived(&mut self, subflow: usize, bytes: u64) {
        let s = &self.subflows[subflow];
        if bytes <= s.arrived {
            return;
        }
        let arrived = s.arrived;
        let first = s.chunks.partition_point(|c| c.at + c.len <= arrived);
        let ranges: Vec<(u64, u64)> = s
            .chunks
            .range(first..)
            .take_while(|c| c.at < bytes)
            .map(|c| {
                let (from, to) = (arrived.max(c.at) - c.at, bytes.min(c.at + c.len) - c.at);
                (c.data + from, c.data + to)
            })
            .collect();
        for (begin, end) in ranges {
            self.receive(begin, end);
        }
        let delivered = self.delivered;
        let s = &mut self.subflows[subflow];
        s.arrived = bytes;
        s.data_acks.push_back((bytes, delivered));
    }

    fn receive(&mut self, begin: u64, end: u64) {
        let from = self.ahead.partition_point(|range| range.1 < begin);
        let to = from + self.ahead[from..].partition_point(|range| range.0 <= end);
        let merged = match self.ahead.get(from..to) {
            Some([first, .., last]) => (first.0.min(begin), last.1.max(end)),
            Some([only]) => (only.0.min(begin), only.1.max(end)),
            _ => (begin, end),
        };
        self.ahead.splice(from..to, [merged]);
        if let Some(&(first, end)) = self.ahead.first() {
            if first <= self.delivered {
                self.delivered = self.delivered.max(end);
                self.ahead.remove(0);
            }
        }
    }

    /// The sending TCP of a subflow has had so many bytes of its stream acknowledged.
    pub(crate) fn on_acked(&mut self, subflow: usize, bytes: u64) {
        let s = &mut self.subflows[subflow];
        while s.chunks.front().is_some_and(|c| c.at + c.len <= bytes) {
            s.chunks.pop_front();
        }
        while let Some(&(at, data)) = s.data_acks.front() {
            if at > bytes {
                break;
            }
            self.acked = self.acked.max(data);
            s.data_acks.pop_front();
        }
    }

    /// A subflow timed out: the others may send its undelivered data, too.
    pub(crate) fn on_timeout(&mut self, subflow: usize) {
        let acked = self.acked;
        for chunk in &mut self.subflows[subflow].chunks {
            if let Some((begin, end)) = chunk.missing(acked) {
                chunk.repeated = end;
                self.again.push_back((subflow, begin, end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(subflows: usize, buffer: u64) -> Stream {
        let mut stream = Stream::new(buffer);
        (0..subflows).for_each(|_| stream.add_subflow());
        stream
    }

    #[test]
    fn data_is_put_in_order_across_subflows() {
        let mut s = stream(2, 1000);
        s.write(300);
        assert_eq!((s.give(0, 100), s.give(1, 100), s.give(0, 200), s.give(0, 1)), (100, 100, 100, 0));
        s.on_arrived(1, 100);
        assert_eq!(s.delivered(), 0);
        s.on_arrived(0, 50);
        assert_eq!(s.delivered(), 50);
        s.on_arrived(0, 200);
        assert_eq!(s.delivered(), 300);
        // Each ACK reports the state at its time.
        s.on_acked(1, 100);
        assert_eq!(s.acked, 0);
        s.on_acked(0, 200);
        assert_eq!(s.acked, 300);
    }

    #[test]
    fn the_buffer_is_shared_and_what_holds_it_up_is_repeated_once() {
        let mut s = stream(2, 200);
        s.write(1000);
        assert_eq!((s.give(0, 100), s.give(1, 500)), (100, 100));
        assert!(!s.has_for(0), "what fills the buffer is its own");
        s.on_arrived(1, 100);
        s.on_acked(1, 100);
        assert!(s.has_for(1));
        assert_eq!((s.give(1, 60), s.give(1, 60), s.give(1, 60)), (60, 40, 0));
        s.on_arrived(1, 200);
        assert_eq!(s.delivered(), 200);
        s.on_acked(1, 200);
        assert_eq!(s.give(1, 1000), 200, "the window has moved");
    }

    #[test]
    fn a_timeout_hands_the_data_to_others() {
        let mut s = stream(2, 1000);
        s.write(100);
        s.give(0, 100);
        s.on_timeout(0);
        s.on_timeout(0);
        assert_eq!((s.has_for(0), s.has_for(1)), (false, true));
        assert_eq!((s.give(0, 100), s.give(1, 70), s.give(1, 70), s.give(1, 70)), (0, 70, 30, 0));
        s.on_arrived(1, 100);
        assert_eq!(s.delivered(), 100);
        s.on_arrived(0, 100);
        assert_eq!((s.delivered(), s.ahead.len()), (100, 0), "the copy changes nothing");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64),
        Give(usize, u64),
        Arrive(usize, u64),
        Ack(usize, u64),
        Timeout(usize),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..400).prop_map(Step::Write),
            (0usize..4, 1u64..300).prop_map(|(s, n)| Step::Give(s, n)),
            (0usize..4, 1u64..300).prop_map(|(s, n)| Step::Arrive(s, n)),
            (0usize..4, 1u64..300).prop_map(|(s, n)| Step::Ack(s, n)),
            (0usize..4).prop_map(Step::Timeout),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever subflows do, data arrives once, in order and completely, and never exceeds the buffer.
        #[test]
        fn any_interleaving_delivers_everything(steps in prop::collection::vec(any_step(), 0..200), buffer in 1u64..2000) {
            let mut s = stream(4, buffer);
            let mut acked = [0u64; 4];
            for step in steps {
                let before = s.delivered();
                match step {
                    Step::Write(n) => s.write(n),
                    Step::Give(to, most) => prop_assert!(s.give(to, most) <= most),
                    Step::Arrive(n, more) => s.on_arrived(n, s.subflows[n].given.min(s.subflows[n].arrived + more)),
                    Step::Ack(n, more) => {
                        acked[n] = s.subflows[n].arrived.min(acked[n] + more);
                        s.on_acked(n, acked[n]);
                    }
                    Step::Timeout(n) => s.on_timeout(n),
                }
                prop_assert!(s.delivered() >= before && s.delivered() <= s.next && s.acked <= s.delivered());
                prop_assert!(s.next <= s.acked + buffer && s.next <= s.written);
            }
            // Then the network gets well, except that subflow 0 never delivers again.
            s.on_timeout(0);
            for _ in 0..10_000 {
                for n in 1..4 {
                    while s.give(n, 100) > 0 {}
                    s.on_arrived(n, s.subflows[n].given);
                    s.on_acked(n, s.subflows[n].arrived);
                }
                if s.delivered() == s.written {
                    break;
                }
            }
            prop_assert_eq!(s.delivered(), s.written);
        }
    }
}
