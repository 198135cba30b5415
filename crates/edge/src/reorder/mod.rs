//! Presto's receive offload (He et al., SIGCOMM 2015, section 3.2 and Algorithm 2): merges packets into segments,
//! holds a segment that arrived ahead of an earlier flowcell, and releases each flow in order.
//!
//! What the paper leaves open is decided as follows. Packets merge only with equal flowcell, ECN codepoint, flags and
//! acknowledgement, up to 64 KB. SYN, FIN, RST, URG and pure ACKs go up at once after whatever of their flow is in
//! order: through the release queue if anything is in it, else by `Forward`. Comparisons are serial-number arithmetic.
//! A deadline releases what a quiet flow holds. Held bytes and slots are bounded: on excess the flow's segments are
//! pushed in order.

mod config;
mod flow;
mod slots;
#[cfg(test)]
mod tests;

pub use config::{Config, Timeout};

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

/// The reordering of all flows of one edge; flows are named by their number in the flow table.
#[derive(Debug)]
pub(crate) struct Engine {
    flows: Vec<Flow>,
    sink: Sink,
    /// Flows that may have segments, in order of arrival.
    active: Vec<u32>,
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
}

impl Engine {
    pub(crate) fn new(config: Config) -> Engine {
        let sink = Sink { config, counters: Counters::default(), pool: Pool::new(), released: VecDeque::new() };
        Engine { flows: Vec::new(), sink, active: Vec::new(), deadline: None }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.sink.counters
    }

    /// Does the flow have segments that are not released yet?
    pub(crate) fn is_holding(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| !flow.is_empty())
    }

    /// The flow's number now means another connection.
    pub(crate) fn restart(&mut self, flow: u32) {
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.restart(&mut self.sink);
        }
    }

    /// Takes an incoming packet of the flow: [`Verdict::Hold`] or [`Verdict::Forward`].
    pub(crate) fn process(&mut self, now: Time, flow: u32, slot: Slot, packet: &Packet) -> Verdict {
        while self.flows.len() <= flow as usize {
            self.flows.push(Flow::new());
        }
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
        state.merge(now, slot, packet, &mut self.sink);
        if !state.active {
            state.active = true;
            self.active.push(flow);
        }
        Verdict::Hold
    }

    /// The poll ended: every flow that got something, or is due, is flushed.
    pub(crate) fn end_batch(&mut self, now: Time) {
        self.flush_where(now, |flow| flow.needs_flush(now));
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.flush_where(now, |flow| flow.is_due(now));
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// The next slot that is due, and whether it joins the one before.
    pub(crate) fn poll_release(&mut self) -> Option<(Slot, bool)> {
        self.sink.released.pop_front()
    }

    fn flush_where(&mut self, now: Time, wants: impl Fn(&Flow) -> bool) {
        if self.active.is_empty() {
            self.deadline = None;
            return;
        }
        let mut deadline: Option<Time> = None;
        let mut active = std::mem::take(&mut self.active);
        active.retain(|id| {
            let flow = &mut self.flows[*id as usize];
            if wants(flow) {
                flow.flush(now, &mut self.sink);
            }
            deadline = [deadline, flow.deadline()].into_iter().flatten().min();
            flow.active = !flow.is_empty();
            flow.active
        });
        self.active = active;
        self.deadline = deadline;
    }

    /// Flushes one flow amid a poll.
    fn flush(&mut self, now: Time, flow: u32) {
        let flow = &mut self.flows[flow as usize];
        if flow.is_empty() {
            return;
        }
        flow.flush(now, &mut self.sink);
        self.deadline = [self.deadline, flow.deadline()].into_iter().flatten().min();
    }

    /// A packet that must not wait, after what is in order of its flow.
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
