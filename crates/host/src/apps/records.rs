//! The records of flows.

use super::Apps;
use crate::connection::{wire_len, Message, CLIENT, SERVER};
use crate::measure::ideal_fct;
use crate::outcome::Handshake;
use crate::tcp::State;
use crate::workload::{FlowSpec, REPLY_BYTES};
use units::{BitRate, Time};

impl Apps<'_> {
    /// Writes how much of a message the server has into its record: `delivered` in order, `arrived` in all. Only what arrives in
    /// the measured part counts there: bytes behind a hole that fills in it were carried before.
    pub(super) fn settle_record(&mut self, message: &mut Message, delivered: u64, arrived: u64) {
        let (begins, ends) = match (message.spec.request, message.spec.size) {
            // The one answer of its connection.
            (Some(_), size) => (0, size.unwrap_or_default()),
            (None, _) => (message.begins, message.ends.unwrap_or(u64::MAX)),
        };
        let within = |position: u64| position.min(ends).saturating_sub(begins);
        let arrived = within(arrived).max(message.arrived);
        let record = &mut self.flows[message.record as usize];
        if self.transport.net.measuring {
            record.delivered_measured += arrived - message.arrived;
        }
        record.delivered = within(delivered);
        message.arrived = arrived;
    }

    /// Writes what the ends have counted since the message before this one completed. Of several messages under way on
    /// one connection the first gets it all.
    pub(super) fn settle_counters(&mut self, index: usize, message: &Message) {
        let (now, before) = (self.transport.count(index), self.transport.connections[index].counted);
        let record = &mut self.flows[message.record as usize];
        record.retransmitted_segments = now.retransmitted_segments.wrapping_sub(before.retransmitted_segments);
        record.fast_retransmits = now.fast_retransmits.wrapping_sub(before.fast_retransmits);
        record.timeouts = now.timeouts.wrapping_sub(before.timeouts);
        record.out_of_order = now.out_of_order.wrapping_sub(before.out_of_order);
        record.segments_received = now.segments_received.wrapping_sub(before.segments_received);
        let connection = &self.transport.connections[index];
        record.paths_used = connection.labels.count_ones();
        if message.begins == 0 {
            let client = &connection.ends[CLIENT];
            let done = !matches!(client.state(), State::SynSent | State::SynReceived);
            // Connections that exist from the beginning shake no hands.
            let syns_sent = client.syns_sent();
            record.handshake = (syns_sent > 0).then_some(Handshake { syns_sent, done });
        }
    }

    /// Brings the records of unfinished flows up to date.
    pub(crate) fn mark_delivered(&mut self) {
        for index in 0..self.transport.connections.len() {
            if !self.transport.connections[index].live {
                continue;
            }
            let delivered = self.transport.delivered(index, SERVER);
            let arrived = self.transport.arrived(index);
            let answered = self.transport.delivered(index, CLIENT);
            let mut messages = std::mem::take(&mut self.transport.connections[index].messages);
            for message in &mut messages {
                let carried = if message.spec.request.is_some() { (answered, answered) } else { (delivered, arrived) };
                self.settle_record(message, carried.0, carried.1);
            }
            if let Some(first) = messages.front() {
                self.settle_counters(index, first);
            }
            self.transport.connections[index].messages = messages;
        }
    }

    /// The flow's completion time on an idle network, see [`ideal_fct`].
    pub(super) fn ideal(&self, spec: &FlowSpec, size: u64) -> Time {
        let path = self.path(spec.src, spec.dst);
        let payload = u64::from(self.transport.net.experiment.hosts.mss());
        let headers =
            u64::from(wire_len(1480)) - 1480 + if self.transport.net.experiment.hosts.tcp.timestamps { 32 } else { 20 };
        let there = ideal_fct(size, payload, headers, &path);
        if let Some(request) = spec.request {
            let back: Vec<_> = path.into_iter().rev().collect();
            return there.saturating_add(ideal_fct(request, payload, headers, &back));
        }
        if !spec.reply {
            return there;
        }
        let back: Vec<_> = path.into_iter().rev().collect();
        there.saturating_add(ideal_fct(REPLY_BYTES, payload, headers, &back))
    }

    /// Rates and delays of one shortest path.
    fn path(&self, src: u32, dst: u32) -> Vec<(BitRate, Time)> {
        let topology = &self.transport.net.experiment.topology;
        let links = self.routes.first_path(topology, src, dst).unwrap_or_default();
        links.iter().map(|&l| (topology.links[l as usize].rate, topology.links[l as usize].delay)).collect()
    }
}
