//! Presto's receive offload (He et al., SIGCOMM 2015, section 3.2 and Algorithm 2).
//!
//! It merges packets into segments, holds a segment that arrived ahead of an earlier flowcell, and releases each flow in
//! order.
//!
//! What the paper leaves open is decided as follows. Packets merge only with equal flowcell, ECN codepoint, flags and
//! acknowledgement, up to 64 KB. SYN, FIN, RST, URG and pure ACKs go up at once after the flow's segments that are in order.
//! They go through the release queue if it is not empty, else by `Forward`. Comparisons are serial-number arithmetic. A
//! deadline releases the segments of a quiet flow. Held bytes and slots are bounded: on excess the flow's segments are
//! pushed in order.
//!
//! Of segments that are released at once, one in front may have a later TCP timestamp than one behind it. Then the first was
//! sent again, and the guest would drop the other behind it (PAWS, RFC 7323 section 5). Such segments leave in the order of
//! their timestamps.

mod config;
#[cfg(test)]
mod cost;
mod flow;
mod slots;
#[cfg(test)]
mod tests;

pub use config::{Config, Timeout};

use crate::deadlines::Deadlines;
use crate::{Slot, Verdict};
use flow::Flow;
use slots::Pool;
use std::collections::VecDeque;
use units::Time;
use wire::{proto, tcp, Packet};

/// What the engine has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets merged or held, each once.
    pub packets: u64,
    /// Segments handed up, after merging.
    pub segments_pushed: u64,
    /// Segments that waited behind a gap.
    pub segments_held: u64,
    /// Held segments released because the gap did fill.
    pub gaps_filled: u64,
    /// Held segments released because it did not in time.
    pub timeouts: u64,
    /// Times that a bound was reached and a flow's segments were pushed.
    pub overflows: u64,
}

/// The reordering of all flows of one edge. Flows have small numbers, such as their place in a flow table. The cost of a poll
/// is that of its packets and of due flows, however many flows hold segments.
///
/// After [`process`](Engine::process), [`end_batch`](Engine::end_batch) and [`handle_timeout`](Engine::handle_timeout),
/// drain [`poll_release`](Engine::poll_release).
#[derive(Debug)]
pub struct Engine {
    flows: Vec<Flow>,
    sink: Sink,
    /// Flows that got segments since the last poll ended, each once.
    touched: Vec<u32>,
    /// Of flows that hold something, in ps.
    deadlines: Deadlines,
    /// Turns given to flows.
    turns: u64,
    /// The flows of one flush, kept for its memory.
    batch: Vec<u32>,
    /// Not later than the earliest deadline of any flow.
    deadline: Option<Time>,
}

/// What the flows share.
#[derive(Debug)]
struct Sink {
    config: Config,
    counters: Counters,
    pool: Pool,
    /// Slot, and whether it joins the previous one.
    released: VecDeque<(Slot, bool)>,
    /// Flushes of all flows so far.
    round: u64,
}

impl Engine {
    pub fn new(config: Config) -> Engine {
        let sink =
            Sink { config, counters: Counters::default(), pool: Pool::new(), released: VecDeque::new(), round: 1 };
        Engine {
            flows: Vec::new(),
            sink,
            touched: Vec::new(),
            deadlines: Deadlines::default(),
            turns: 0,
            batch: Vec::new(),
            deadline: None,
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.sink.counters
    }

    /// Does the flow have segments that are not released yet?
    pub fn is_holding(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| !flow.is_empty())
    }

    /// Payload of segments that are not released yet.
    pub fn held_bytes(&self, flow: u32) -> u64 {
        self.flows.get(flow as usize).map_or(0, Flow::held_bytes)
    }

    /// The flow's number now means another connection. What it holds is released in order.
    pub fn restart(&mut self, flow: u32) {
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.restart(&mut self.sink);
        }
    }

    /// The flow has been followed elsewhere, up to sequence number `exp` and flowcell `cell`, and goes on here. What it
    /// holds is released in order; the average of its gaps stays.
    pub fn resume(&mut self, flow: u32, exp: u32, cell: u32) {
        self.make(flow);
        self.flows[flow as usize].resume(exp, cell, &mut self.sink);
    }

    fn make(&mut self, flow: u32) {
        while self.flows.len() <= flow as usize {
            self.flows.push(Flow::new());
        }
    }

    /// Takes an incoming packet of the flow: [`Verdict::Hold`] or [`Verdict::Forward`]. `stamp`: its TCP timestamp, if it has one.
    pub fn process(&mut self, now: Time, flow: u32, slot: Slot, packet: &Packet, stamp: Option<u32>) -> Verdict {
        self.make(flow);
        if packet.proto != proto::TCP {
            return Verdict::Forward;
        }
        let urgent = packet.has_flags(tcp::SYN | tcp::FIN | tcp::RST | tcp::URG);
        if urgent || packet.payload == 0 || packet.has_cell == 0 || packet.truncated != 0 {
            return self.pass(now, flow, slot, packet);
        }
        if !self.make_room(now, flow, packet) {
            return self.pass(now, flow, slot, packet);
        }
        self.sink.counters.packets += 1;
        let state = &mut self.flows[flow as usize];
        if state.wants_turn(self.sink.round) {
            state.turn = self.turns;
            self.turns += 1;
        }
        state.merge(now, slot, packet, stamp, &mut self.sink);
        if !std::mem::replace(&mut state.listed, true) {
            self.touched.push(flow);
        }
        Verdict::Hold
    }

    /// The poll ended: every flow that got something, or is due, is flushed.
    pub fn end_batch(&mut self, now: Time) {
        self.end_part(now, now);
    }

    /// A part of a poll ended, and more packets wait: everything that came until `complete` has been processed. Segments that
    /// become due later are not released yet, because the rest may fill their gaps.
    pub fn end_part(&mut self, now: Time, complete: Time) {
        for id in self.touched.drain(..) {
            let flow = &mut self.flows[id as usize];
            flow.listed = false;
            if flow.is_touched() {
                self.batch.push(id);
            }
        }
        self.flush_batch(now, complete, Flow::is_touched);
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.flush_batch(now, now, |_| false);
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// The next slot that is due, and whether it joins the one before.
    pub fn poll_release(&mut self) -> Option<(Slot, bool)> {
        self.sink.released.pop_front()
    }

    /// Flushes the flows of `batch` and those that are due, unless `listed` says that they are in it, in the order in which
    /// they began to have segments.
    fn flush_batch(&mut self, now: Time, complete: Time, listed: impl Fn(&Flow) -> bool) {
        while let Some(id) = self.deadlines.pop(complete.as_ps()) {
            let flow = &self.flows[id as usize];
            if listed(flow) {
                continue;
            }
            match flow.deadline() {
                Some(due) if due <= complete => self.batch.push(id),
                Some(due) => self.deadlines.arm(id, due.as_ps()),
                None => {}
            }
        }
        let flows = &mut self.flows;
        self.batch.sort_unstable_by_key(|id| flows[*id as usize].turn);
        for id in self.batch.drain(..) {
            let flow = &mut flows[id as usize];
            flow.flush(now, complete, &mut self.sink);
            if let Some(due) = flow.deadline() {
                self.deadlines.arm(id, due.as_ps());
            }
        }
        let due_of = |id: u32| flows[id as usize].deadline().map(Time::as_ps);
        self.deadline = self.deadlines.earliest(due_of).map(Time::from_ps);
        self.sink.round += 1;
    }

    /// Flushes one flow amid a poll.
    fn flush(&mut self, now: Time, id: u32) {
        let flow = &mut self.flows[id as usize];
        if flow.is_empty() {
            return;
        }
        flow.flush(now, now, &mut self.sink);
        if let Some(due) = flow.deadline() {
            self.deadlines.arm(id, due.as_ps());
            self.deadline = Some(self.deadline.map_or(due, |earliest| earliest.min(due)));
        }
    }

    /// A packet that must not wait, after the flow's segments that are in order.
    fn pass(&mut self, now: Time, flow: u32, slot: Slot, packet: &Packet) -> Verdict {
        self.flush(now, flow);
        if packet.has_cell != 0 && packet.truncated == 0 {
            let flow = &mut self.flows[flow as usize];
            if packet.has_flags(tcp::SYN) {
                flow.syn(packet, &mut self.sink);
            } else if packet.payload > 0 || packet.has_flags(tcp::FIN) {
                flow.note_passed(packet);
            }
        }
        if self.sink.released.is_empty() {
            return Verdict::Forward;
        }
        self.sink.released.push_back((slot, false));
        Verdict::Hold
    }

    /// Pushes segments of the flow until the packet fits. False if it cannot.
    fn make_room(&mut self, now: Time, flow: u32, packet: &Packet) -> bool {
        let fits = |engine: &Engine| {
            let Sink { pool, config, .. } = &engine.sink;
            pool.len() < config.total_slots && engine.flows[flow as usize].has_room(config, packet)
        };
        if fits(self) {
            return true;
        }
        self.flush(now, flow);
        if fits(self) {
            return true;
        }
        self.sink.counters.overflows += 1;
        self.flows[flow as usize].push_all(&mut self.sink);
        fits(self)
    }
}
