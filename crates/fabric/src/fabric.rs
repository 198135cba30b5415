//! The fabric: takes packets from hosts, moves them hop by hop with its events, and delivers them to hosts. Its audit
//! accounts for every octet.

use crate::capture::Tap;
use crate::classes::Classes;
use crate::config::{Aqm, Buffer, Multipath, Parallel, RandomLoss, SwitchConfig};
use crate::conga::{conga_suits, Conga};
use crate::flowlets::Flowlets;
use crate::notify::NotifyStats;
use crate::packet::{Audit, Delivery, PacketId, Packets};
use crate::port::{ranks, Port, PortId, PortStats};
use crate::routing::{port_out_of, Routing};
use sim::{Purpose, Scheduler, Stream};
use std::sync::Arc;
use topology::{LinkId, NodeId, NodeKind, Topology};
use units::{BitRate, Time};

/// What the fabric schedules for itself; hand it back to [`Fabric::handle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet at the head of a port's wire arrives.
    Arrival { port: PortId },
    /// A link fails or recovers.
    Link { link: LinkId, up: bool },
    /// Switches have learnt of failures: forwarding tables change.
    Reroute,
    /// A port may send a notification that has waited although the port was idle.
    Release { port: PortId },
    /// CoDel has picked packets out at a port, which sources hear of or that are gone.
    Picked { port: PortId },
}

/// Links, queues and switches of one network.
#[derive(Debug)]
pub struct Fabric {
    pub packets: Packets,
    pub(crate) ports: Vec<Port>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) routing: Routing,
    pub(crate) topology: Arc<Topology>,
    failed: Vec<LinkId>,
    /// How long after a failure the tables change.
    reroute_after: Time,
    pub(crate) notifies: bool,
    /// What CoDel picks out has to be seen to.
    pub(crate) picks: bool,
    pub(crate) ranked: bool,
    /// Nothing but queues, marks and tables has to do with packets.
    plain: bool,
    /// No packet is marked or dropped that finds a shorter queue at a port with room for it.
    pub(crate) calm_below: u64,
    pub(crate) quenches: bool,
    pub(crate) quenches_sent: u64,
    pub(crate) buffer: Buffer,
    pub(crate) aqm: Option<Aqm>,
    pub(crate) multipath: Multipath,
    pub(crate) parallel: Parallel,
    /// Packets without a label are hashed wherever several next hops are equal.
    pub(crate) hashes: bool,
    /// By port: its place among the parallel links of its link.
    pub(crate) ranks: Vec<u16>,
    /// LetFlow's tables, by node; empty without it.
    pub(crate) flowlets: Vec<Flowlets>,
    pub(crate) conga: Option<Box<Conga>>,
    /// Draws among uplinks for flowlets, by node.
    pub(crate) flowlet_draws: Vec<Stream>,
    pub(crate) loss: RandomLoss,
    /// For losses, early marks and sprayed packets, by node.
    pub(crate) draws: Vec<Stream>,
    pub(crate) uplinks: Vec<PortId>,
    /// Ports that lead to other parts and have something to send.
    pub(crate) outgoing: Vec<PortId>,
    pub(crate) packet_hops: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) delivered_bytes: u64,
    /// Lost on a wire rather than at a port, and notifications.
    pub(crate) lost_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) unroutable_packets: u64,
    pub(crate) tap: Option<Tap>,
    /// Slots of lost packets, for a driver that keeps frames; `None`: nobody asks.
    lost_slots: Option<Vec<u32>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) is_host: bool,
    pub(crate) seed: u32,
    /// Octets held by all ports of a switch, as last known: never less than the truth.
    pub(crate) held: u64,
    ports: Box<[PortId]>,
}

impl Fabric {
    /// # Panics
    /// If a link's rate is zero, the switches have no queue or CONGA does not suit the topology; scenario checks exclude all.
    pub fn new(
        topology: &Topology,
        switches: &SwitchConfig,
        multipath: Multipath,
        loss: RandomLoss,
        reroute_after: Time,
        seed: u64,
    ) -> Fabric {
        assert!((1..=8).contains(&switches.priorities), "a port has 1 to 8 queues");
        let mut seeds = Stream::new(seed, 0, Purpose::EcmpSeed);
        let mut nodes: Vec<Node> = topology
            .nodes
            .iter()
            .map(|n| Node {
                is_host: matches!(n.kind, NodeKind::Host),
                seed: seeds.next_u64() as u32,
                held: 0,
                ports: Box::default(),
            })
            .collect();
        let mut of_node = vec![Vec::new(); nodes.len()];
        let mut ports = Vec::with_capacity(2 * topology.links.len());
        for link in &topology.links {
            for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                of_node[from as usize].push(ports.len() as PortId);
                let classes = Classes::new(switches, topology.is_host(from));
                ports.push(Port::new((from, to), topology.is_host(to), link.rate, link.delay, classes));
            }
        }
        nodes.iter_mut().zip(of_node).for_each(|(node, ports)| node.ports = ports.into());
        let uplinks =
            (0..topology.n_hosts() as NodeId).map(|h| port_out_of(topology, topology.neighbours(h)[0].0, h)).collect();
        let mut conga = None;
        if let Multipath::Conga { gap } = multipath {
            assert_eq!(conga_suits(topology), Ok(()));
            ports.iter_mut().filter(|p| !topology.is_host(p.from)).for_each(Port::estimate);
            conga = Some(Box::new(Conga::new(topology, ports.iter().map(|p| (p.from, p.to)), gap)));
        }
        let flowlets = match multipath {
            Multipath::LetFlow { gap } => nodes.iter().map(|_| Flowlets::new(gap)).collect(),
            _ => Vec::new(),
        };
        let draws = |purpose| (0..topology.nodes.len() as u64).map(|node| Stream::new(seed, node, purpose)).collect();
        let picks = switches.codel().is_some_and(|codel| codel.drop || switches.quench);
        let hashed = matches!(multipath, Multipath::Ecmp | Multipath::Wcmp);
        let mut fabric = Fabric {
            packets: Packets::default(),
            ranks: ranks(&ports),
            ports,
            nodes,
            routing: Routing::new(topology, multipath == Multipath::Wcmp),
            topology: Arc::new(topology.clone()),
            failed: Vec::new(),
            reroute_after,
            notifies: switches.notify.is_some(),
            picks,
            ranked: switches.ranked,
            plain: false,
            calm_below: match switches.aqm {
                None | Some(Aqm::Codel(_)) => u64::MAX,
                Some(Aqm::Threshold { k: most } | Aqm::Red { kmin: most, .. }) => most.get().saturating_add(1),
            },
            quenches: switches.quench,
            quenches_sent: 0,
            buffer: switches.buffer,
            aqm: switches.aqm,
            multipath,
            parallel: switches.parallel,
            hashes: hashed && switches.parallel == Parallel::Hash,
            flowlets,
            conga,
            flowlet_draws: draws(Purpose::Flowlets),
            loss,
            draws: draws(Purpose::Loss),
            uplinks,
            outgoing: Vec::new(),
            packet_hops: 0,
            sent_bytes: 0,
            delivered_bytes: 0,
            lost_bytes: 0,
            lost_packets: 0,
            unroutable_packets: 0,
            tap: None,
            lost_slots: None,
        };
        fabric.set_tap(None);
        fabric
    }

    /// The same fabric, in which nothing has happened.
    pub(crate) fn empty_copy(&self) -> Fabric {
        Fabric {
            packets: Packets::default(),
            ports: self.ports.clone(),
            nodes: self.nodes.clone(),
            routing: self.routing.clone(),
            topology: self.topology.clone(),
            failed: self.failed.clone(),
            ranks: self.ranks.clone(),
            flowlets: self.flowlets.clone(),
            conga: self.conga.clone(),
            flowlet_draws: self.flowlet_draws.clone(),
            draws: self.draws.clone(),
            uplinks: self.uplinks.clone(),
            outgoing: Vec::new(),
            tap: None,
            lost_slots: None,
            ..*self
        }
    }

    /// Gives a packet of [`Fabric::packets`] to the output port of its source host, which has no limit: the NIC's own queue is
    /// the host's business.
    pub fn send<E: Copy + From<Event>>(&mut self, id: PacketId, scheduler: &mut Scheduler<E>) {
        self.sent_bytes += u64::from(self.packets.hop(id).wire_len);
        let port = self.uplinks[self.packets.body(id).src as usize];
        if !self.enqueue(port, id, scheduler) {
            self.lose(id);
        }
    }

    /// When everything given to a host's output port so far will have left it.
    pub fn uplink_free_at(&mut self, host: u32, now: Time) -> Time {
        let port = self.uplinks[host as usize];
        self.advance(port, now.as_ps());
        let mut at = Time::from_ps(self.ports[port as usize].busy_until).max(now);
        at += self.ports[port as usize].backlog_tx(&self.packets);
        at
    }

    /// Brings a port, and what its switch is known to hold, up to `now`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, port: PortId, now: u64) {
        let port = &mut self.ports[port as usize];
        if port.is_due(now) {
            self.nodes[port.from as usize].held -= port.advance(now, &mut self.packets);
        }
    }

    /// Carries out an event; returns the packet if it reached its host. The receiver removes it from `packets`.
    #[inline(always)]
    pub fn handle<E: Copy + From<Event>>(&mut self, event: Event, scheduler: &mut Scheduler<E>) -> Option<Delivery> {
        match event {
            Event::Arrival { port } if self.plain => self.arrive::<true, E>(port, scheduler),
            Event::Arrival { port } => self.arrive_watched(port, scheduler),
            rarer => {
                self.handle_rarer(rarer, scheduler);
                None
            }
        }
    }

    #[inline(never)]
    fn handle_rarer<E: Copy + From<Event>>(&mut self, event: Event, scheduler: &mut Scheduler<E>) {
        match event {
            Event::Arrival { .. } => debug_assert!(false, "handled by the caller"),
            Event::Link { link, up } => {
                let now = scheduler.now();
                self.set_link(link, up, scheduler);
                let node = self.topology.links[link as usize].b;
                scheduler.schedule(now.saturating_add(self.reroute_after), node, Event::Reroute.into());
            }
            Event::Reroute => self.reroute(),
            Event::Release { port } => self.release(port, scheduler),
            Event::Picked { port } => self.see_to_picked(port, scheduler),
        }
    }

    /// Forgets a packet that will not arrive.
    #[cold]
    pub(crate) fn lose(&mut self, id: PacketId) {
        if let Some(slots) = self.lost_slots.as_mut().filter(|_| !self.packets.hop(id).is_notification()) {
            slots.push(self.packets.body(id).slot);
        }
        self.packets.remove(id);
    }

    /// Advances all ports of a switch, so that its buffer's content is exact.
    pub(crate) fn settle(&mut self, node: usize, now: u64) {
        for i in 0..self.nodes[node].ports.len() {
            self.advance(self.nodes[node].ports[i], now);
        }
    }

    /// A link fails or recovers. Switches learn of it with [`reroute`](Self::reroute), [`reroute_after`](Self::reroute_after) later.
    pub fn set_link<E: Copy + From<Event>>(&mut self, link: LinkId, up: bool, scheduler: &mut Scheduler<E>) {
        let now = scheduler.now();
        self.failed.retain(|&l| l != link);
        if !up {
            self.failed.push(link);
        }
        for port_id in [2 * link, 2 * link + 1] {
            if self.picks {
                self.see_to_picked(port_id, scheduler);
            }
            self.advance(port_id, now.as_ps());
            let port = &mut self.ports[port_id as usize];
            port.up = up;
            if !up {
                self.nodes[port.from as usize].held -= port.occupancy;
                port.clear(now.as_ps(), &mut self.packets, self.lost_slots.as_mut());
            }
        }
    }

    /// Forwarding tables become those of the links that are up.
    pub fn reroute(&mut self) {
        self.routing.update(&self.topology, &self.failed);
    }

    /// Takes over the tables and failures of a fabric of the same topology.
    pub fn reroute_as(&mut self, other: &Fabric) {
        self.routing = other.routing.clone();
    }

    /// How long after a link's change the tables follow.
    pub fn reroute_after(&self) -> Time {
        self.reroute_after
    }

    /// Gives a link another rate and delay, from the next packet that each end starts to send. Packets never overtake
    /// one another on a wire: behind a longer delay that has just ended, they arrive together.
    ///
    /// # Panics
    /// If there is no such link or the rate is zero.
    pub fn set_wire(&mut self, link: LinkId, rate: BitRate, delay: Time, now: Time) {
        assert!(rate.as_bps() > 0, "a link needs a rate");
        for port in [2 * link, 2 * link + 1] {
            self.advance(port, now.as_ps());
            self.ports[port as usize].set_wire(rate, delay, &self.packets);
        }
    }

    /// From now on, packets that have waited at a port are sent in nine tenths of their time. For ports before which something
    /// else paces to just below their rate: without it, a queue that somebody's lateness has made would hardly ever drain.
    pub fn let_catch_up(&mut self, port: PortId) {
        self.ports[port as usize].catch_up();
    }

    /// From now on, ports measure how busy they are: [`Packet::utilisation`](crate::Packet::utilisation) of packets that ask is zero
    /// without.
    pub fn measure_utilisation(&mut self) {
        self.ports.iter_mut().for_each(Port::measure);
    }

    /// A link's rate and delay now.
    pub fn wire(&self, link: LinkId) -> (BitRate, Time) {
        self.ports[2 * link as usize].rate_and_delay()
    }
    /// The links that are down now.
    pub fn failed(&self) -> &[LinkId] {
        &self.failed
    }

    /// From now on, remembers the [`slot`](crate::Packet::slot) of every packet that is lost, one entry per packet, for a driver that
    /// keeps frames; it empties the list with [`Fabric::take_lost_slots`].
    pub fn remember_lost_slots(&mut self) {
        self.lost_slots.get_or_insert_default();
    }
    pub fn take_lost_slots(&mut self) -> std::vec::Drain<'_, u32> {
        self.lost_slots.get_or_insert_default().drain(..)
    }

    /// Starts the measured part of the run: what [`PortStats`] calls measured counts from here.
    pub fn begin_measurement(&mut self, now: Time) {
        for id in 0..self.ports.len() {
            self.advance(id as PortId, now.as_ps());
            self.ports[id].begin_measurement(now.as_ps(), &self.packets);
        }
    }

    /// Starts every transmission that is due by `now`.
    pub fn advance_all(&mut self, now: Time) {
        (0..self.ports.len()).for_each(|port| self.advance(port as PortId, now.as_ps()));
    }

    pub fn n_ports(&self) -> usize {
        self.ports.len()
    }
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
    pub fn stats(&self, port: PortId) -> PortStats {
        self.ports[port as usize].stats()
    }
    /// What a port did with notifications.
    pub fn notify_stats(&self, port: PortId) -> NotifyStats {
        self.ports[port as usize].notify_stats()
    }
    /// Time that a port spent sending in the measured part, up to now.
    pub fn busy(&mut self, port: PortId, now: Time) -> Time {
        self.advance(port, now.as_ps());
        self.ports[port as usize].busy(now.as_ps())
    }
    /// What waited at a port or was being sent, over time, in the measured part up to now: byte-picoseconds.
    pub fn byte_time(&mut self, port: PortId, now: Time) -> u128 {
        self.advance(port, now.as_ps());
        self.ports[port as usize].byte_time(now.as_ps(), &self.packets)
    }
    /// Octets that wait at a port or are being sent.
    pub fn queue_bytes(&mut self, port: PortId, now: Time) -> u64 {
        self.advance(port, now.as_ps());
        self.ports[port as usize].occupancy
    }
    /// Packet traversals of one link so far.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }
    /// Source Quench messages that switches have made.
    pub fn sees_to_picked(&self) -> bool {
        self.picks
    }
    pub fn quenches_sent(&self) -> u64 {
        self.quenches_sent
    }
    /// Packets lost on wires by [`RandomLoss`], and those without a route.
    pub fn lost_packets(&self) -> (u64, u64) {
        (self.lost_packets, self.unroutable_packets)
    }
    /// Captures what crosses a link from now on.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        self.tap = tap;
        let lossless = self.loss.per_million == 0;
        self.plain = !self.picks && !self.ranked && lossless && self.conga.is_none() && self.tap.is_none();
    }
    pub fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }
    pub fn tap_mut(&mut self) -> Option<&mut Tap> {
        self.tap.as_mut()
    }

    /// Accounts for every octet by walking all lists: each sent octet is delivered, dropped or still inside.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit {
            sent_bytes: self.sent_bytes,
            delivered_bytes: self.delivered_bytes,
            dropped_bytes: self.lost_bytes,
            ..Audit::default()
        };
        for port in &self.ports {
            audit.dropped_bytes += port.lost.bytes;
            for id in port.held(&self.packets) {
                audit.inside_bytes += u64::from(self.packets.hop(id).wire_len);
                audit.inside_packets += 1;
            }
        }
        audit
    }
}
