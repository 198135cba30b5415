//! The guests' transport: connections over the [`Network`], some of them subflows of MPTCP.

mod group;
mod send;
mod subflows;

use crate::clock::Owner;
use crate::connection::{flow_hash, Connection, ConnectionId, Counted, EndId, Place, CLIENT, SERVER};
use crate::datagrams::{Sender, DATAGRAM};
use crate::disorder::Disorders;
use crate::experiment::{guest_address, Experiment, SERVER_PORT};
use crate::mptcp::Stream;
use crate::network::Network;
use crate::nic::Segment;
use crate::tcp::fastlane::Notification;
use crate::tcp::{self, Endpoint};
use edge::Transmit;
use fabric::Packet;
use group::Group;
use rustc_hash::FxHashMap;
use sim::Purpose;
use std::collections::VecDeque;
use std::sync::Arc;
use units::Time;

pub(crate) struct Transport<'a> {
    pub(crate) net: Network<'a>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) datagrams: Vec<Sender>,
    free_connections: Vec<u32>,
    /// By the words of the client's flow key, where edges make packets for guests.
    by_key: FxHashMap<Key, ConnectionId>,
    /// MPTCP connections.
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Per workload.
    tcp: Vec<Arc<tcp::Config>>,
    /// Initial sequence numbers, by client.
    random: Vec<sim::Stream>,
    pub(crate) notes: Notes,
}

/// Last words of the addresses of client and server, their ports.
type Key = (u32, u32, u16, u16);

/// What a run keeps of segments and senders.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// When, flow record, round trip.
    pub(crate) rtt_samples: Vec<(Time, u32, Time)>,
    pub(crate) disorder: Disorders,
    /// Payload of each data segment handed to TCP, bytes.
    pub(crate) segment_sizes: Vec<u32>,
    /// SYNs and pure ACKs that guests sent again at once, told of their drop.
    pub(crate) controls_again: u64,
}

impl<'a> Transport<'a> {
    pub(crate) fn new(net: Network<'a>) -> Transport<'a> {
        let experiment = net.experiment;
        let random = |host| sim::Stream::new(experiment.seed, u64::from(host), Purpose::Transport);
        Transport {
            connections: Vec::new(),
            datagrams: Vec::new(),
            free_connections: Vec::new(),
            by_key: FxHashMap::default(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            tcp: configurations(experiment),
            random: experiment.topology.hosts().map(random).collect(),
            notes: Notes::default(),
            net,
        }
    }

    /// Opens a connection of a workload; nothing is sent yet.
    pub(crate) fn open(&mut self, workload: u16, client: u32, server: u32, persistent: bool) -> ConnectionId {
        let class = usize::from(workload);
        let experiment = self.net.experiment;
        let tcp = self.tcp[class].clone();
        let h = &mut self.net.hosts[client as usize];
        h.ports_used = if h.ports_used >= 60_000 { 10_000 } else { h.ports_used + 1 };
        let sport = h.ports_used;
        let dport = SERVER_PORT + if experiment.edge.ports_by_workload { workload } else { 0 };
        let guest = experiment.workloads[class].guest;
        let isn = self.random[client as usize].next_u64();
        let ends = [Endpoint::connect(tcp.clone(), isn as u32), Endpoint::listen(tcp, (isn >> 32) as u32)];
        let hash = |src, dst, ports: (u16, u16)| {
            let (saddr, daddr, proto) = (guest_address(src, guest), guest_address(dst, guest), wire::proto::TCP);
            flow_hash(&wire::Packet { saddr, daddr, sport: ports.0, dport: ports.1, proto, ..wire::Packet::default() })
        };
        let connection = Connection {
            hosts: [client, server],
            guest,
            sport,
            dport,
            ends,
            timers: [0, 0],
            hashes: [hash(client, server, (sport, dport)), hash(server, client, (dport, sport))],
            messages: VecDeque::new(),
            written: 0,
            replies_written: 0,
            priority: experiment.workloads[class].priority,
            answers: false,
            persistent,
            labels: 0,
            counted: Counted::default(),
            live: true,
            group: None,
        };
        let key = key(&connection);
        let id = self.place(connection);
        if self.net.edge_has_timers {
            self.by_key.insert(key, id);
        }
        id
    }

    fn place(&mut self, connection: Connection) -> ConnectionId {
        if let Some(id) = self.free_connections.pop() {
            let timers = self.connections[id as usize].timers;
            self.connections[id as usize] = Connection { timers, ..connection };
            return id;
        }
        let id = self.connections.len() as ConnectionId;
        let timers = [CLIENT, SERVER].map(|end| self.net.clock.add_timer(Owner::End(EndId::new(id, end))));
        self.connections.push(Connection { timers, ..connection });
        id
    }

    /// Answers the client's FIN, and frees the connection when both directions are closed and acknowledged.
    pub(crate) fn close_if_done(&mut self, index: usize) {
        let connection = &self.connections[index];
        if connection.live && connection.ends[SERVER].rx.finished() {
            self.close(index);
        }
    }

    #[inline(never)]
    fn close(&mut self, index: usize) {
        self.connections[index].ends[SERVER].close();
        self.after_tcp(EndId::new(index as u32, SERVER));
        let connection = &mut self.connections[index];
        let [client, server] = &connection.ends;
        if client.is_drained() && server.is_drained() && client.rx.finished() {
            connection.live = false;
            self.notes.disorder.forget(EndId::new(index as u32, SERVER));
            let connection = &self.connections[index];
            let (timers, hosts) = (connection.timers, connection.hosts);
            self.by_key.remove(&key(connection));
            for end in [CLIENT, SERVER] {
                self.net.clock.set_timer(timers[end], None, hosts[end]);
            }
            self.leave_group(index);
            self.free_connections.push(index as u32);
        }
    }

    /// Hands a segment to the guest's TCP. Returns the end that it reached.
    pub(crate) fn receive(&mut self, host: u32, segment: &Segment) -> Option<EndId> {
        let id = EndId(segment.packet.flow);
        let now = self.net.now();
        let connection = self.connections.get(id.connection())?;
        if !connection.owns(id, &segment.packet) {
            return None;
        }
        let has_siblings = connection.group.is_some();
        if has_siblings {
            self.couple(id);
        }
        let end = &mut self.connections[id.connection()].ends[id.end()];
        let disorder_before = end.rx.counters.out_of_order;
        end.on_segment(now, &crate::connection::received(segment));
        let out_of_order = (end.rx.counters.out_of_order - disorder_before) as u32;
        self.net.charge_segment(host, out_of_order);
        self.note_segment(id, segment);
        if has_siblings {
            self.after_subflow(id);
        }
        self.after_tcp(id);
        Some(id)
    }

    /// Tells a guest's TCP of the drop of a packet that it sent.
    #[inline(never)]
    pub(crate) fn notified(&mut self, segment: &Segment) {
        let packet = &segment.packet;
        if packet.flow >= DATAGRAM {
            return;
        }
        // The notification bears the name of whom the dropped packet was for.
        let id = EndId(packet.flow).peer();
        let Some(connection) = self.connections.get_mut(id.connection()).filter(|c| c.has_sent(id, packet)) else {
            return;
        };
        let h = &packet.headers;
        let again = connection.ends[id.end()].on_notification(&Notification {
            seq: h.seq,
            ack: h.ack,
            len: h.payload,
            flags: h.tcp_flags,
            timeouts: packet.options.timeouts,
            probe: packet.probe != fabric::Probe::None,
        });
        self.notes.controls_again += u64::from(again);
        self.after_tcp(id);
    }

    /// Tells a guest's TCP that a switch asks it to slow down.
    #[inline(never)]
    pub(crate) fn quenched(&mut self, segment: &Segment) {
        let packet = &segment.packet;
        if packet.flow >= DATAGRAM {
            return;
        }
        let id = EndId(packet.flow).peer();
        if let Some(connection) = self.connections.get_mut(id.connection()).filter(|c| c.has_sent(id, packet)) {
            connection.ends[id.end()].on_quench(packet.headers.seq);
            self.after_tcp(id);
        }
    }

    fn note_segment(&mut self, id: EndId, segment: &Segment) {
        let record = &self.net.experiment.record;
        let h = &segment.packet.headers;
        if record.flowcells && self.net.measuring && id.end() == SERVER && h.payload > 0 {
            self.notes.segment_sizes.push(h.payload);
            self.notes.disorder.note(id, h.cell);
        }
        if record.rtt_samples && self.net.measuring && id.end() == CLIENT {
            let connection = &mut self.connections[id.connection()];
            if let Some(sample) = connection.ends[CLIENT].tx.take_rtt_sample() {
                let first = self.first_of(id.connection());
                let flow = self.connections[first].messages.front().map_or(u32::MAX, |m| m.record);
                self.notes.rtt_samples.push((self.net.now(), flow, sample));
            }
        }
    }

    /// A packet that a host's edge made for one of its guests, as that guest's TCP gets it; `None` if nobody waits for it.
    pub(crate) fn for_guest(&self, host: u32, made: &Transmit) -> Option<Segment> {
        let p = &made.packet;
        let (from, to) = (p.saddr[3], p.daddr[3]);
        let find = |key: Key, end| Some(EndId::new(*self.by_key.get(&key)?, end));
        let owner =
            find((to, from, p.dport, p.sport), CLIENT).or_else(|| find((from, to, p.sport, p.dport), SERVER))?;
        let packet = Packet { src: host, dst: host, flow: owner.0, headers: made.packet, ..Packet::default() };
        Some(Segment::new(packet))
    }
}

fn key(connection: &Connection) -> Key {
    let word = |end: usize| guest_address(connection.hosts[end], connection.guest)[3];
    (word(CLIENT), word(SERVER), connection.sport, connection.dport)
}

/// What the endpoints of each workload are configured with.
fn configurations(experiment: &Experiment) -> Vec<Arc<tcp::Config>> {
    let mut config = experiment.hosts.tcp.clone();
    config.mss = experiment.hosts.mtu.saturating_sub(40);
    config.tso = experiment.hosts.tso;
    let own = |w: &crate::workload::Workload| {
        let congestion = w.congestion.unwrap_or(config.congestion);
        let mut own = tcp::Config { congestion, obey_window: !w.ignore_window, ..config.clone() };
        if let Some(cap) = w.rate_cap {
            own.pacing = true;
            own.max_pacing_rate = (cap.as_bps() / 8).max(1);
        }
        if let Some(mptcp) = experiment.hosts.mptcp.filter(|_| !own.pacing) {
            own.congestion = mptcp.congestion;
        }
        Arc::new(own)
    };
    experiment.workloads.iter().map(own).collect()
}
