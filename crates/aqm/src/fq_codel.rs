//! fq_codel (RFC 8290): a queue for each flow, by hash; those that begin are served before the others, each by turns of a quantum;
//! CoDel acts on each. A segment of a NIC that splits counts as one packet, with all of its bytes, as in Linux.

use crate::codel::{Codel, Law, Queue, Taken};
use std::collections::VecDeque;
use units::{Bytes, Time};

/// fq_codel's parameters (RFC 8290, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodel {
    /// Bytes that a queue may send in its turn.
    pub quantum: Bytes,
    /// Packets in all queues.
    pub limit: u32,
    /// Queues.
    pub flows: u32,
    /// Of each queue.
    pub codel: Codel,
    /// Packets that can be marked are marked instead of dropped, except where there is no room.
    pub ecn: bool,
}

/// An Ethernet frame of 1,500 octets, without FCS.
const FRAME: Bytes = Bytes(1514);

impl Default for FqCodel {
    /// As in the RFC and in Linux.
    fn default() -> FqCodel {
        let codel = Codel { mtu: Some(FRAME), ..Codel::default() };
        FqCodel { quantum: FRAME, limit: 10_240, flows: 1024, codel, ecn: true }
    }
}

/// Packets that go at once where there is no room: half of the longest queue's, at most these.
const BATCH: usize = 64;

/// One packet. `T` is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    pub item: T,
    pub bytes: u64,
    /// It may be marked; after [`Queues::dequeue`]: it has been picked out to be marked.
    pub mark: bool,
}

#[derive(Debug)]
struct Flow<T> {
    packets: VecDeque<(Packet<T>, Time)>,
    bytes: u64,
    /// Bytes that it may still send in its turn.
    credit: i64,
    law: Law,
    /// It is in one of the lists.
    listed: bool,
}

impl<T> Flow<T> {
    fn idle() -> Flow<T> {
        Flow { packets: VecDeque::new(), bytes: 0, credit: 0, law: Law::default(), listed: false }
    }

    fn pop(&mut self) -> Option<(Packet<T>, Time)> {
        let (packet, since) = self.packets.pop_front()?;
        self.bytes -= packet.bytes;
        Some((packet, since))
    }
}

/// All queues.
#[derive(Debug)]
pub struct Queues<T> {
    config: FqCodel,
    flows: Vec<Flow<T>>,
    /// Queues that began to send, in their order, and those that have had a turn.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
    bytes: u64,
    dropped: VecDeque<T>,
}

/// What CoDel sees of one queue.
struct Served<'a, T> {
    flow: &'a mut Flow<T>,
    ecn: bool,
    dropped: &'a mut VecDeque<T>,
}

impl<T> Queue for Served<'_, T> {
    /// With it, whether it was picked out and kept.
    type Item = (Packet<T>, bool);

    fn take(&mut self) -> Option<Taken<(Packet<T>, bool)>> {
        let (packet, since) = self.flow.pop()?;
        Some(Taken { since, bytes: packet.bytes, left: self.flow.bytes, item: (packet, false) })
    }

    fn pick(&mut self, (packet, _): (Packet<T>, bool)) -> Option<(Packet<T>, bool)> {
        if self.ecn && packet.mark {
            return Some((packet, true));
        }
        self.dropped.push_back(packet.item);
        None
    }
}

impl<T> Queues<T> {
    pub fn new(config: FqCodel) -> Queues<T> {
        let flows = (0..config.flows.max(1)).map(|_| Flow::idle()).collect();
        let (new, old, dropped) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Queues { config, flows, new, old, packets: 0, bytes: 0, dropped }
    }

    /// Bytes in all queues.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// A packet that was dropped: when one came that had no room, or when its turn came.
    pub fn poll_dropped(&mut self) -> Option<T> {
        self.dropped.pop_front()
    }

    /// A packet of the flow of that hash. Without room, half of the longest queue's are dropped from its head.
    pub fn enqueue(&mut self, now: Time, hash: u32, packet: Packet<T>) {
        let index = ((u64::from(hash) * self.flows.len() as u64) >> 32) as usize;
        let flow = &mut self.flows[index];
        self.packets += 1;
        self.bytes += packet.bytes;
        flow.bytes += packet.bytes;
        flow.packets.push_back((packet, now));
        if !flow.listed {
            flow.listed = true;
            flow.credit = quantum(&self.config);
            self.new.push_back(index);
        }
        if self.packets > self.config.limit as usize {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let longest = (0..self.flows.len()).max_by_key(|&index| (self.flows[index].bytes, std::cmp::Reverse(index)));
        let Some(flow) = longest.map(|index| &mut self.flows[index]) else { return };
        for _ in 0..flow.packets.len().div_ceil(2).min(BATCH) {
            let Some((packet, _)) = flow.pop() else { return };
            self.packets -= 1;
            self.bytes -= packet.bytes;
            self.dropped.push_back(packet.item);
        }
    }

    /// The packet to send now; [`mark`](Packet::mark) says whether it is to be marked.
    pub fn dequeue(&mut self, now: Time) -> Option<Packet<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if flow.credit <= 0 {
                flow.credit += quantum(&self.config);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = (flow.packets.len(), flow.bytes);
            let mut law = flow.law;
            let mut served = Served { flow, ecn: self.config.ecn, dropped: &mut self.dropped };
            let popped = law.pop(&self.config.codel, now, &mut served);
            flow.law = law;
            self.packets -= packets - flow.packets.len();
            self.bytes -= bytes - flow.bytes;
            if let Some((packet, mark)) = popped {
                flow.credit -= i64::try_from(packet.bytes).unwrap_or(i64::MAX >> 2);
                return Some(Packet { mark, ..packet });
            }
            // A queue that began waits for a turn of the others before it is new again, or packets one by one would always be first.
            list.pop_front();
            if is_new {
                self.old.push_back(index);
            } else {
                flow.listed = false;
            }
        }
    }
}

fn quantum(config: &FqCodel) -> i64 {
    i64::try_from(config.quantum.get()).unwrap_or(i64::MAX >> 2).max(1)
}

#[cfg(test)]
mod tests;
