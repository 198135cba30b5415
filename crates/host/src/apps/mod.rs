//! Applications: flows start, messages complete, connections open and close.

mod datagrams;
mod probes;
mod records;

use crate::clock::{Event, Owner};
use crate::connection::{Connection, ConnectionId, EndId, Message, CLIENT, PROBE, SERVER};
use crate::datagrams::DATAGRAM;
use crate::nic::Segment;
use crate::outcome::FlowRecord;
use crate::probes::Probes;
use crate::transport::Transport;
use crate::workload::{self, FlowSpec, Source, WorkloadError};
use rustc_hash::FxHashMap;
use sim::TimerId;
use topology::Routes;
use units::Time;

/// The workloads of a run, and the transport that carries them.
pub(crate) struct Apps<'a> {
    pub(crate) transport: Transport<'a>,
    /// Routes of the whole fabric, for ideal completion times.
    routes: Routes,
    sources: Vec<Source>,
    /// When each source's pending event fires.
    source_at: Vec<Option<Time>>,
    /// Persistent connections by (class, client, server, lane).
    persistent: FxHashMap<(u16, u32, u32, u32), u32>,
    pub(crate) flows: Vec<FlowRecord>,
    pub(crate) probes: Probes,
}

impl<'a> Apps<'a> {
    /// # Errors
    /// If a workload does not fit the topology.
    pub(crate) fn new(transport: Transport<'a>) -> Result<Apps<'a>, WorkloadError> {
        let experiment = transport.net.experiment;
        let sources = experiment
            .workloads
            .iter()
            .enumerate()
            .map(|(i, w)| Source::new(w, i as u16, &experiment.racks, experiment.seed, experiment.duration))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Apps {
            routes: experiment.topology.routes(&[]),
            source_at: vec![None; sources.len()],
            sources,
            persistent: FxHashMap::default(),
            flows: Vec::new(),
            probes: Probes::default(),
            transport,
        })
    }

    fn now(&self) -> Time {
        self.transport.net.now()
    }

    pub(crate) fn start(&mut self) {
        for index in 0..self.sources.len() {
            self.schedule_source(index);
        }
    }

    /// Per workload, when flows join and leave.
    pub(crate) fn steps(&self, until: Time) -> Vec<Vec<Time>> {
        self.sources.iter().map(|source| source.steps(until)).collect()
    }

    /// Per workload: do its flows arrive at random?
    pub(crate) fn draw_arrivals(&self) -> Vec<bool> {
        self.sources.iter().map(|source| source.draws_arrivals()).collect()
    }

    /// One NAPI poll of a host.
    pub(crate) fn poll(&mut self, host: u32, generation: u16) {
        if !self.transport.net.begin_poll(host, generation) {
            return;
        }
        while let Some(segment) = self.transport.net.next_segment(host) {
            self.deliver(host, &segment);
        }
        if self.transport.net.end_batch(host) {
            self.drain_edge(host);
        }
        self.transport.net.end_poll(host);
    }

    /// A timer's event fired.
    pub(crate) fn timer(&mut self, node: sim::NodeId, id: TimerId, generation: u16) {
        match self.transport.net.clock.expire(id, generation, node) {
            Some(Owner::End(end)) => self.transport.timeout(end),
            Some(Owner::Edge(host)) => {
                self.transport.net.edge_timeout(host);
                for dropped in self.transport.net.release_held(host) {
                    self.transport.nic_done(dropped);
                }
                self.drain_edge(host);
            }
            None => {}
        }
    }

    /// Hands up what a host's edge releases, then what it has made, and sets its timer.
    fn drain_edge(&mut self, host: u32) {
        while let Some(segment) = self.transport.net.next_released(host) {
            self.deliver(host, &segment);
        }
        for made in self.transport.net.made_for_guests(host) {
            if let Some(segment) = self.transport.for_guest(host, &made) {
                self.deliver(host, &segment);
            }
        }
        self.transport.net.edge_drained(host);
    }

    /// Delivers a segment to the guest's TCP and lets the applications at both ends react.
    fn deliver(&mut self, host: u32, segment: &Segment) {
        if segment.packet.is_notification() {
            self.transport.notified(segment);
            return;
        }
        if segment.packet.headers.proto == wire::proto::ICMP {
            self.transport.quenched(segment);
            return;
        }
        self.transport.net.note_received(host, segment);
        if segment.packet.flow >= PROBE {
            self.probe_arrived(host, segment);
        } else if segment.packet.flow >= DATAGRAM {
            self.datagram_arrived(segment);
        } else if let Some(end) = self.transport.receive(host, segment) {
            self.after_delivery(end);
        }
    }

    /// Makes sure that an event is pending for the source's next flow.
    pub(crate) fn schedule_source(&mut self, index: usize) {
        let Some(at) = self.sources[index].peek() else { return };
        if self.source_at[index].is_none_or(|pending| at < pending) {
            let at = at.max(self.now());
            self.source_at[index] = Some(at);
            self.transport.net.schedule_control(at, Event::Source { index: index as u32 });
        }
    }

    pub(crate) fn source_event(&mut self, index: usize) {
        let now = self.now();
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
            start: self.now(),
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
            handshake: None,
            request: self.transport.net.experiment.workloads[usize::from(spec.class)].request_of(&spec),
        });
        let workload = &self.transport.net.experiment.workloads[usize::from(spec.class)];
        if let Some(at) = workload.until.filter(|_| spec.size.is_none()) {
            self.transport.net.schedule_control(at.max(self.now()), Event::Stop { flow: record });
        }
        if let Some(kind) = workload.datagrams {
            self.start_datagrams(&spec, record, kind);
            return;
        }
        let id = self.connection_for(&spec);
        let connection = &mut self.transport.connections[id as usize];
        let begins = connection.written;
        // A flow without an end writes more than any run can carry.
        let bytes = spec.first_bytes().unwrap_or(1 << 50);
        connection.written += bytes;
        let ends = spec.size.map(|_| connection.written);
        connection.messages.push_back(Message { spec, record, begins, ends, arrived: 0, reply_ends: None });
        self.transport.write(id as usize, CLIENT, bytes);
        if let Some(at) = self.sources[usize::from(spec.class)].stops_at(&spec) {
            self.transport.net.schedule_control(at, Event::Stop { flow: record });
        }
    }

    /// The application of a flow without an end stops writing: what TCP has not sent yet is never sent.
    pub(crate) fn stop_flow(&mut self, flow: u32) {
        if self.stop_datagrams(flow) {
            return;
        }
        let is_it = |c: &Connection| c.live && c.messages.back().is_some_and(|m| m.record == flow && m.ends.is_none());
        let Some(index) = self.transport.connections.iter().position(is_it) else { return };
        let written = self.transport.take_back_unsent(index);
        let connection = &mut self.transport.connections[index];
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
        let [client, server] = spec.ends();
        let id = self.transport.open(spec.class, client, server, persistent);
        self.transport.connections[id as usize].answers = spec.request.is_some();
        self.transport.begin_group(id, spec.class);
        if persistent {
            self.persistent.insert(key, id);
        }
        id
    }

    /// After an end received something: completes messages, writes replies, closes finished connections.
    fn after_delivery(&mut self, id: EndId) {
        let first = self.transport.first_of(id.connection());
        if id.end() == SERVER {
            let delivered = self.transport.delivered(first, SERVER);
            let due = |m: &&mut Message| m.ends.is_some_and(|end| end <= delivered);
            let mut replies = 0;
            let connection = &mut self.transport.connections[first];
            for message in connection.messages.iter_mut().take_while(due) {
                if message.spec.is_replied() && message.reply_ends.is_none() {
                    let bytes = message.spec.reply_bytes();
                    connection.replies_written += bytes;
                    message.reply_ends = Some(connection.replies_written);
                    replies += bytes;
                }
            }
            if replies > 0 {
                self.transport.write(first, SERVER, replies);
            }
        }
        self.complete(first);
        self.transport.close_if_done(id.connection());
    }

    fn complete(&mut self, index: usize) {
        let (delivered, replied) = (self.transport.delivered(index, SERVER), self.transport.delivered(index, CLIENT));
        let is_complete = |m: &Message| match (m.spec.is_replied(), m.ends) {
            (_, None) => false,
            (false, Some(end)) => end <= delivered,
            (true, Some(_)) => m.reply_ends.is_some_and(|end| end <= replied),
        };
        while let Some(message) = self.transport.connections[index].messages.front() {
            if !is_complete(message) {
                return;
            }
            let Some(mut message) = self.transport.connections[index].messages.pop_front() else { return };
            let carried = if message.spec.request.is_some() { replied } else { delivered };
            self.settle_record(&mut message, carried, carried);
            self.settle_counters(index, &message);
            self.flows[message.record as usize].finish = Some(self.now());
            let counted = self.transport.count(index);
            let connection = &mut self.transport.connections[index];
            connection.counted = counted;
            connection.labels = 0;
            if connection.messages.is_empty() && !connection.persistent {
                self.transport.close_client(index);
            }
            let class = usize::from(message.spec.class);
            let now = self.now();
            self.sources[class].on_complete(now, &message.spec);
            self.schedule_source(class);
        }
    }

    /// Nothing of bounded size is unfinished and nothing more will start: the run may end before its drain time.
    pub(crate) fn nothing_left(&self) -> bool {
        self.sources.iter().all(|s| s.peek().is_none())
            && self.transport.connections.iter().all(|c| !c.live || c.messages.iter().all(|m| m.ends.is_none()))
    }
}
