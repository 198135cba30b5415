//! Applications: flows start, messages complete, connections open and close.

use crate::connection::{
    flow_hash, wire_len, Connection, ConnectionId, Counted, EndId, Message, CLIENT, REPLY_BYTES, SERVER,
};
use crate::experiment::{address, SERVER_PORT};
use crate::measure::ideal_fct;
use crate::outcome::FlowRecord;
use crate::tcp::Endpoint;
use crate::workload::{self, FlowSpec};
use crate::world::{Event, Owner, World};
use fabric::Packet;
use std::collections::VecDeque;
use units::{BitRate, Time};

impl World<'_> {
    /// Makes sure that an event is pending for the source's next flow.
    pub(crate) fn schedule_source(&mut self, index: usize) {
        let Some(at) = self.sources[index].peek() else { return };
        if self.source_at[index].is_none_or(|pending| at < pending) {
            let at = at.max(self.scheduler.now());
            self.source_at[index] = Some(at);
            let control = self.control_node();
            self.scheduler.schedule(at, control, Event::Source { index: index as u32 });
        }
    }

    pub(crate) fn source_event(&mut self, index: usize) {
        let now = self.scheduler.now();
        if self.source_at[index] != Some(now) {
            // An earlier start has come between and has set the time anew.
            return;
        }
        self.source_at[index] = None;
        while self.sources[index].peek().is_some_and(|at| at <= now) {
            let Some(spec) = self.sources[index].next() else { break };
            self.start_flow(spec);
        }
        self.schedule_source(index);
    }

    fn start_flow(&mut self, spec: FlowSpec) {
        let record = self.flows.len() as u32;
        self.flows.push(FlowRecord {
            id: record,
            class: spec.class,
            src: spec.src,
            dst: spec.dst,
            size: spec.size,
            start: self.scheduler.now(),
            finish: None,
            delivered: 0,
            delivered_measured: 0,
            ideal: spec.size.map(|size| self.ideal(&spec, size)),
            retransmitted_segments: 0,
            fast_retransmits: 0,
            timeouts: 0,
            out_of_order: 0,
            segments_received: 0,
            paths_used: 0,
        });
        let id = self.connection_for(&spec);
        let connection = &mut self.connections[id as usize];
        let begins = connection.written;
        // A flow without an end writes more than any run can carry.
        connection.written += spec.size.unwrap_or(1 << 50);
        let ends = spec.size.map(|_| connection.written);
        connection.messages.push_back(Message { spec, record, begins, ends, reply_ends: None });
        self.write(id as usize, CLIENT, spec.size.unwrap_or(1 << 50));
        if let Some(at) = self.sources[usize::from(spec.class)].stops_at(&spec) {
            let control = self.control_node();
            self.scheduler.schedule(at, control, Event::Stop { flow: record });
        }
    }

    /// The application of a flow without an end stops writing: what TCP has not sent yet is never sent.
    pub(crate) fn stop_flow(&mut self, flow: u32) {
        let is_it = |c: &Connection| c.live && c.messages.back().is_some_and(|m| m.record == flow && m.ends.is_none());
        let Some(index) = self.connections.iter().position(is_it) else { return };
        let written = self.take_back_unsent(index);
        let connection = &mut self.connections[index];
        connection.written = written;
        if let Some(message) = connection.messages.back_mut() {
            message.ends = Some(connection.written);
        }
        self.complete(index);
    }

    fn connection_for(&mut self, spec: &FlowSpec) -> ConnectionId {
        let key = (spec.class, spec.src, spec.dst, self.sources[usize::from(spec.class)].lane(spec));
        let persistent = spec.connection == workload::Connection::Persistent;
        if persistent {
            if let Some(&id) = self.persistent.get(&key) {
                return id;
            }
        }
        let id = self.open(spec.class, spec.src, spec.dst, persistent);
        self.begin_group(id, spec.class);
        if persistent {
            self.persistent.insert(key, id);
        }
        id
    }

    pub(crate) fn open(&mut self, workload: u16, client: u32, server: u32, persistent: bool) -> ConnectionId {
        let class = usize::from(workload);
        let priority = self.experiment.workloads[class].priority;
        let tcp = self.tcp[class].clone();
        let h = &mut self.hosts[client as usize];
        h.ports_used = if h.ports_used >= 60_000 { 10_000 } else { h.ports_used + 1 };
        let sport = h.ports_used;
        let dport = SERVER_PORT + if self.experiment.edge.ports_by_workload { workload } else { 0 };
        let isn = self.transport_random.next_u64();
        let ends = [Endpoint::connect(tcp.clone(), isn as u32), Endpoint::listen(tcp, (isn >> 32) as u32)];
        let hash = |src, dst, ports: (u16, u16)| {
            let (saddr, daddr, proto) = (address(src), address(dst), wire::proto::TCP);
            flow_hash(&wire::Packet { saddr, daddr, sport: ports.0, dport: ports.1, proto, ..wire::Packet::default() })
        };
        let connection = Connection {
            hosts: [client, server],
            sport,
            dport,
            ends,
            timers: [0, 0],
            hashes: [hash(client, server, (sport, dport)), hash(server, client, (dport, sport))],
            messages: VecDeque::new(),
            written: 0,
            replies_written: 0,
            priority,
            persistent,
            labels: 0,
            counted: Counted::default(),
            live: true,
            group: None,
        };
        if let Some(id) = self.free_connections.pop() {
            let timers = self.connections[id as usize].timers;
            self.connections[id as usize] = Connection { timers, ..connection };
            return id;
        }
        let id = self.connections.len() as ConnectionId;
        let timers = [CLIENT, SERVER].map(|end| {
            self.owners.push(Owner::End(EndId::new(id, end)));
            self.timers.add()
        });
        self.connections.push(Connection { timers, ..connection });
        id
    }

    /// After an end received something: completes messages, writes replies, closes finished connections.
    pub(crate) fn after_delivery(&mut self, id: EndId) {
        let first = self.first_of(id.connection());
        if id.end() == SERVER {
            let delivered = self.delivered(first, SERVER);
            let due = |m: &&mut Message| m.ends.is_some_and(|end| end <= delivered);
            let mut replies = 0;
            let connection = &mut self.connections[first];
            for message in connection.messages.iter_mut().take_while(due) {
                if message.spec.reply && message.reply_ends.is_none() {
                    connection.replies_written += REPLY_BYTES;
                    message.reply_ends = Some(connection.replies_written);
                    replies += REPLY_BYTES;
                }
            }
            if replies > 0 {
                self.write(first, SERVER, replies);
            }
        }
        self.complete(first);
        self.close_if_done(id.connection());
    }

    fn complete(&mut self, index: usize) {
        let (delivered, replied) = (self.delivered(index, SERVER), self.delivered(index, CLIENT));
        let is_complete = |m: &Message| match (m.spec.reply, m.ends) {
            (_, None) => false,
            (false, Some(end)) => end <= delivered,
            (true, Some(_)) => m.reply_ends.is_some_and(|end| end <= replied),
        };
        while let Some(message) = self.connections[index].messages.front() {
            if !is_complete(message) {
                return;
            }
            let Some(message) = self.connections[index].messages.pop_front() else { return };
            self.settle_record(&message, delivered);
            self.settle_counters(index, &message);
            self.flows[message.record as usize].finish = Some(self.scheduler.now());
            let counted = self.count(index);
            let connection = &mut self.connections[index];
            connection.counted = counted;
            connection.labels = 0;
            if connection.messages.is_empty() && !connection.persistent {
                self.close_client(index);
            }
            let class = usize::from(message.spec.class);
            self.sources[class].on_complete(self.scheduler.now(), &message.spec);
            self.schedule_source(class);
        }
    }

    /// Answers the client's FIN, and frees the connection when both directions are closed and acknowledged.
    fn close_if_done(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.live || !connection.ends[SERVER].rx.finished() {
            return;
        }
        connection.ends[SERVER].close();
        self.after_tcp(EndId::new(index as u32, SERVER));
        let connection = &mut self.connections[index];
        let [client, server] = &connection.ends;
        if client.is_drained() && server.is_drained() && client.rx.finished() {
            connection.live = false;
            self.sampling.forget(EndId::new(index as u32, SERVER));
            let connection = &self.connections[index];
            let (timers, hosts) = (connection.timers, connection.hosts);
            for end in [CLIENT, SERVER] {
                self.set_timer(timers[end], None, hosts[end]);
            }
            self.leave_group(index);
            self.free_connections.push(index as u32);
        }
    }

    /// Writes how much of a message the server has into its record.
    fn settle_record(&mut self, message: &Message, delivered: u64) {
        let end = message.ends.unwrap_or(u64::MAX);
        let record = &mut self.flows[message.record as usize];
        let bytes = delivered.min(end).saturating_sub(message.begins);
        if self.measuring {
            record.delivered_measured += bytes - record.delivered;
        }
        record.delivered = bytes;
    }

    /// Writes what the ends have counted since the message before this one completed. Of several messages under way on
    /// one connection the first gets it all.
    fn settle_counters(&mut self, index: usize, message: &Message) {
        let (now, before) = (self.count(index), self.connections[index].counted);
        let record = &mut self.flows[message.record as usize];
        record.retransmitted_segments = now.retransmitted_segments.wrapping_sub(before.retransmitted_segments);
        record.fast_retransmits = now.fast_retransmits.wrapping_sub(before.fast_retransmits);
        record.timeouts = now.timeouts.wrapping_sub(before.timeouts);
        record.out_of_order = now.out_of_order.wrapping_sub(before.out_of_order);
        record.segments_received = now.segments_received.wrapping_sub(before.segments_received);
        record.paths_used = self.connections[index].labels.count_ones();
    }

    /// Brings the records of unfinished flows up to date.
    pub(crate) fn mark_delivered(&mut self) {
        for index in 0..self.connections.len() {
            if !self.connections[index].live {
                continue;
            }
            let delivered = self.delivered(index, SERVER);
            let messages = std::mem::take(&mut self.connections[index].messages);
            for message in &messages {
                self.settle_record(message, delivered);
            }
            if let Some(first) = messages.front() {
                self.settle_counters(index, first);
            }
            self.connections[index].messages = messages;
        }
    }

    pub(crate) fn note_label(&mut self, packet: &Packet) {
        if packet.flow < crate::sampling::PROBE && packet.headers.payload > 0 {
            let id = EndId(packet.flow).peer();
            if id.end() == CLIENT {
                let first = self.first_of(id.connection());
                self.connections[first].labels |= 1 << packet.label.min(63);
            }
        }
    }

    /// The flow's completion time on an idle network, see [`ideal_fct`].
    fn ideal(&self, spec: &FlowSpec, size: u64) -> Time {
        let path = self.path(spec.src, spec.dst);
        let payload = u64::from(self.experiment.hosts.mss());
        let headers = u64::from(wire_len(1480)) - 1480 + if self.experiment.hosts.tcp.timestamps { 32 } else { 20 };
        let there = ideal_fct(size, payload, headers, &path);
        if !spec.reply {
            return there;
        }
        let back: Vec<_> = path.into_iter().rev().collect();
        there.saturating_add(ideal_fct(REPLY_BYTES, payload, headers, &back))
    }

    /// Rates and delays of one shortest path.
    fn path(&self, src: u32, dst: u32) -> Vec<(BitRate, Time)> {
        let topology = &self.experiment.topology;
        let links = self.routes.first_path(topology, src, dst).unwrap_or_default();
        links.iter().map(|&l| (topology.links[l as usize].rate, topology.links[l as usize].delay)).collect()
    }

    /// Nothing of bounded size is unfinished and nothing more will start: the run may end before its drain time.
    pub(crate) fn nothing_left(&self) -> bool {
        self.sources.iter().all(|s| s.peek().is_none())
            && self.connections.iter().all(|c| !c.live || c.messages.iter().all(|m| m.ends.is_none()))
    }
}
