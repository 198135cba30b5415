//! The event loop: the fabric's events at their time, frames as they come.

use super::clock::Clock;
use super::frame::{self, Ignored};
use super::host::Host;
use super::measure::{Measure, Planned};
use super::merge::Segment;
use super::poller::Poller;
use super::rest::Rest;
use super::status::{Capture, Flows};
use crate::lateness::Lateness;
use edge::{Direction, Slot, Verdict};
use fabric::{Fabric, Packet};
use host::experiment::HostConfig;
use port::priority::{prefer_this_thread, Rank};
use port::{FrameId, Pool, VnetHeader};
use sim::{NodeId, Scheduler, TimerId, Timers};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use units::Time;
use wire::feedback::Feedback;
use wire::hidden;

/// Something for the driver to do between two events.
pub(crate) type Job = Box<dyn FnOnce(&mut Driver) + Send>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Arrival {
        port: u32,
    },
    Link {
        link: u32,
        up: bool,
    },
    Reroute,
    /// A host's receive poll.
    Poll {
        generation: u16,
    },
    /// An edge's timer.
    Timer {
        id: TimerId,
        generation: u16,
    },
    /// A port may send a notification that has waited.
    Release {
        port: u32,
    },
    /// CoDel has picked packets out at a port.
    Picked {
        port: u32,
    },
    /// A host's uplink has room again.
    Resume,
    /// A host's limiter may let something go.
    Limiter,
    Sample {
        generation: u32,
    },
    /// The planned measurement begins or ends.
    Measure {
        begin: bool,
    },
}

impl From<fabric::Event> for Event {
    fn from(event: fabric::Event) -> Event {
        match event {
            fabric::Event::Arrival { port } => Event::Arrival { port },
            fabric::Event::Link { link, up } => Event::Link { link, up },
            fabric::Event::Reroute => Event::Reroute,
            fabric::Event::Release { port } => Event::Release { port },
            fabric::Event::Picked { port } => Event::Picked { port },
        }
    }
}

/// The fabric, its hosts and the clock. One thread owns it; others ask it through [`Lab::ask`](super::Lab::ask).
pub struct Driver {
    pub(super) clock: Clock,
    pub(super) scheduler: Scheduler<Event>,
    pub(super) timers: Timers,
    pub(super) fabric: Fabric,
    pub(super) hosts: Vec<Host>,
    pub(super) config: HostConfig,
    pub(super) pool: Pool,
    pub(super) lateness: Lateness,
    pub(super) measure: Measure,
    pub(super) planned: Planned,
    pub(super) flows: Flows,
    pub(super) capture: Option<Capture>,
    /// Frames that found no buffer: times that reading stopped for that reason.
    pub(super) pool_exhausted: u64,
    poller: Poller,
    jobs: Receiver<Job>,
    wake: UnixStream,
    /// How long before an event the loop stops sleeping.
    spin: Time,
    pub(super) stopping: bool,
    // Reused buffers.
    frames: Vec<FrameId>,
    resized: Vec<u8>,
}

/// The token of the descriptor that announces jobs; hosts have their numbers.
const WAKE: u64 = u64::MAX;
/// Frames read from one host before the others have their turn.
const READ_BATCH: usize = 16;
/// What may wait at a host's uplink before the host's own queue has to hold it, in octets.
const UPLINK_LIMIT: u64 = 256 << 10;
/// Packets that one segment may make: more than any kernel's own, and a bound on what a hostile one can cause.
const MAX_PACKETS: u32 = 2048;
/// Packets in the model at once.
const MAX_LIVE: usize = 1 << 20;
/// Longest sleep.
const NAP: Time = Time::from_ms(100);

pub(super) struct Parts {
    pub(super) clock: Clock,
    pub(super) fabric: Fabric,
    pub(super) hosts: Vec<Host>,
    pub(super) config: HostConfig,
    pub(super) pool: Pool,
    pub(super) jobs: Receiver<Job>,
    pub(super) wake: UnixStream,
    pub(super) spin: Time,
}

impl Driver {
    pub(super) fn new(parts: Parts) -> std::io::Result<Driver> {
        let Parts { clock, mut fabric, hosts, config, pool, jobs, wake, spin } = parts;
        let poller = Poller::new(hosts.len() + 1)?;
        for (h, host) in hosts.iter().enumerate() {
            poller.add(host.port.fd(), h as u64)?;
        }
        wake.set_nonblocking(true)?;
        poller.add(wake.as_fd(), WAKE)?;
        fabric.remember_lost_slots();
        let mut timers = Timers::default();
        hosts.iter().for_each(|_| {
            timers.add();
        });
        let ports = fabric.n_ports();
        Ok(Driver {
            clock,
            scheduler: Scheduler::new(),
            timers,
            fabric,
            hosts,
            config,
            pool,
            lateness: Lateness::default(),
            measure: Measure::new(ports),
            planned: Planned::default(),
            flows: Flows::default(),
            capture: None,
            pool_exhausted: 0,
            poller,
            jobs,
            wake,
            spin,
            stopping: false,
            frames: Vec::new(),
            resized: Vec::new(),
        })
    }

    /// Until a job asks to stop.
    pub(super) fn run(mut self) -> std::io::Result<()> {
        prefer_this_thread(Rank::Fabric);
        let mut tokens = Vec::new();
        let mut polled = self.clock.now();
        let mut rest = Rest::default();
        rest.slept(polled);
        while !self.stopping {
            let now = self.catch_up();
            let until = self.scheduler.next_at().map_or(NAP, |at| at.saturating_sub(now));
            let wait = until.saturating_sub(self.spin).min(NAP);
            if let Some(nap) = rest.due(now) {
                std::thread::sleep(std::time::Duration::from_nanos(nap.as_ns()));
                rest.slept(self.clock.now());
            }
            self.poller.wait(wait, &mut tokens)?;
            if wait > Time::ZERO {
                rest.waited(now, self.clock.now());
            }
            if tokens.is_empty() {
                polled = self.clock.now();
                continue;
            }
            // Whatever came did so after the last look, or, if the loop slept, just now.
            let since = if wait == Time::ZERO { polled } else { self.clock.now() };
            let now = self.catch_up();
            polled = now;
            self.scheduler.advance(now);
            for token in tokens.drain(..) {
                match token {
                    WAKE => self.do_jobs(),
                    host => self.read(host as u32, since),
                }
            }
        }
        Ok(())
    }

    /// Fires what is due, and returns a moment before which nothing is left to fire.
    fn catch_up(&mut self) -> Time {
        let mut now = self.clock.now();
        // More may have come due meanwhile; under overload input has to have its turn, too.
        for _ in 0..3 {
            let mut fired = 0;
            while let Some(event) = self.scheduler.pop_until(now) {
                self.handle(event.at, event.node, event.event);
                fired += 1;
            }
            if fired <= 4 {
                break;
            }
            let next = self.clock.now();
            if self.scheduler.next_at().is_none_or(|at| at > next) {
                return next;
            }
            now = next;
        }
        while let Some(event) = self.scheduler.pop_until(now) {
            self.handle(event.at, event.node, event.event);
        }
        now
    }

    fn handle(&mut self, at: Time, node: NodeId, event: Event) {
        match event {
            Event::Arrival { port } => self.fabric_event(fabric::Event::Arrival { port }),
            Event::Link { link, up } => self.fabric_event(fabric::Event::Link { link, up }),
            Event::Reroute => self.fabric_event(fabric::Event::Reroute),
            Event::Release { port } => self.fabric_event(fabric::Event::Release { port }),
            Event::Picked { port } => self.fabric_event(fabric::Event::Picked { port }),
            Event::Poll { generation } => self.poll(at, node, generation),
            Event::Timer { id, generation } => self.timer(node, id, generation),
            Event::Resume => self.resume(node),
            Event::Limiter => self.limiter_event(at, node),
            Event::Sample { generation } => self.sample(generation),
            Event::Measure { begin } => self.measure_planned(begin),
        }
    }

    #[inline]
    pub(super) fn fabric_event(&mut self, event: fabric::Event) {
        if let Some(delivery) = self.fabric.handle(event, &mut self.scheduler) {
            self.arrived(delivery.host, delivery.packet);
        }
        if self.capture.is_some() {
            self.capture_packets();
        }
        for slot in self.fabric.take_lost_slots() {
            self.pool.release(slot);
        }
    }

    fn do_jobs(&mut self) {
        let mut drained = [0; 64];
        // The bytes only say that there is something to do.
        while matches!((&self.wake).read(&mut drained), Ok(n) if n == drained.len()) {}
        while let Ok(job) = self.jobs.try_recv() {
            job(self);
        }
    }

    // From a host's kernel into the fabric.

    fn read(&mut self, host: u32, since: Time) {
        let now = self.scheduler.now();
        let index = host as usize;
        if self.hosts[index].waiting {
            return;
        }
        let mut frames = std::mem::take(&mut self.frames);
        // An interface that is down gives an error; it may come up again.
        let _ = self.hosts[index].port.receive(&mut self.pool, &mut frames, READ_BATCH);
        if frames.len() < READ_BATCH && self.pool.available() == 0 {
            self.pool_exhausted += 1;
        }
        self.lateness.note(self.clock.now().saturating_sub(since), frames.len() as u64);
        for id in frames.drain(..) {
            self.transmit(now, host, id);
        }
        self.frames = frames;
        self.set_edge_timer(host);
        let queued = self.fabric.queue_bytes(uplink(host), now);
        if queued > UPLINK_LIMIT {
            let (rate, _) = self.fabric.wire(host);
            self.scheduler.schedule(now + rate.tx_time(queued - UPLINK_LIMIT / 2), host, Event::Resume);
            self.hosts[index].waiting = true;
            self.listen(host, false);
        }
    }

    fn listen(&mut self, host: u32, on: bool) {
        // The descriptor is open and registered, so this cannot fail.
        let _ = self.poller.set(self.hosts[host as usize].port.fd(), u64::from(host), on);
    }

    fn resume(&mut self, host: u32) {
        self.hosts[host as usize].waiting = false;
        self.listen(host, true);
    }

    /// One frame through the edge, cut, onto the uplink.
    fn transmit(&mut self, now: Time, host: u32, id: FrameId) {
        let header = self.pool.header(id);
        let n_hosts = self.hosts.len() as u32;
        let mut segment = match frame::read(self.pool.frame(id), &header, host, n_hosts, id) {
            Ok(segment) if segment.headers.packet_count() <= MAX_PACKETS => segment,
            refused => {
                let h = &mut self.hosts[host as usize];
                match refused {
                    Err(Ignored::NotIp | Ignored::NoHost) => h.counters.ignored += 1,
                    Err(Ignored::Malformed) | Ok(_) => h.counters.malformed += 1,
                }
                self.pool.release(id);
                return;
            }
        };
        if frame::is_opaque(&segment.headers) {
            self.arrival(now, host, &mut segment);
            self.send(now, host, id, &segment);
            return;
        }
        let before = segment;
        let verdict = self.egress(now, host, id, &mut segment);
        self.keep(host, &before);
        match verdict {
            Verdict::Forward => self.depart(now, host, id, segment),
            Verdict::Hold => drop(self.hosts[host as usize].held.insert(id, segment)),
            Verdict::Consume | Verdict::Drop(_) => self.pool.release(id),
        }
    }

    /// The edge's part.
    pub(super) fn egress(&mut self, now: Time, host: u32, id: FrameId, segment: &mut Packet) -> Verdict {
        let standing = self.arrival(now, host, segment);
        let edge = &mut self.hosts[host as usize].edge;
        segment.headers.wire = edge.wire();
        let verdict = match segment.again {
            true => edge.process_resent(now, Slot(id), &mut segment.headers, standing),
            false => edge.process_limited(now, Direction::Egress, Slot(id), &mut segment.headers, standing),
        };
        // What the edge adds goes first.
        self.edge_transmit(host);
        segment.label = segment.headers.label;
        segment.int = self.hosts[host as usize].edge.asks_for_utilisation();
        verdict
    }

    /// A segment leaves its edge, with the feedback of this moment.
    pub(super) fn depart(&mut self, now: Time, host: u32, id: FrameId, mut segment: Packet) {
        if segment.headers.dirty & !wire::dirty::LABEL != 0 {
            let header = self.pool.header(id);
            match frame::rewrite(&mut segment.headers, self.pool.frame_mut(id), &header, &mut self.resized) {
                Ok(true) => {
                    self.pool.replace(id, &self.resized);
                    segment.wire_len = frame::wire_len(self.resized.len() as u32);
                }
                Ok(false) => {}
                Err(_) => self.hosts[host as usize].counters.malformed += 1,
            }
        }
        segment.headers.dirty = 0;
        let mss = segment.headers.mss;
        let departure = self.hosts[host as usize].edge.depart(now, &mut segment.headers);
        segment.feedback = departure.feedback;
        let hides = self.hosts[host as usize].edge.config().hidden.is_some();
        if hides && !self.hide(id, &mut segment, departure.option, mss) {
            self.hosts[host as usize].counters.malformed += 1;
            self.pool.release(id);
            return;
        }
        self.send(now, host, id, &segment);
    }

    /// Does to a segment's frame what the hidden overlay has done to its headers; `mss` is what its SYN said. False: they do not fit each
    /// other.
    fn hide(&mut self, id: FrameId, segment: &mut Packet, option: Option<hidden::Bytes>, mss: u16) -> bool {
        let undone = self.pool.header(id).needs_csum();
        if segment.headers.mss != mss {
            hidden::clamp(self.pool.frame_mut(id), &segment.headers, segment.headers.mss, undone);
        }
        segment.label = segment.headers.label;
        segment.int &= option.is_some();
        if let Some(option) = option {
            self.resized.clear();
            self.resized.extend_from_slice(self.pool.frame(id));
            let entered = hidden::enter(&mut self.resized, &segment.headers, &option, undone);
            if entered.is_err() || !self.pool.replace(id, &self.resized) {
                return false;
            }
            segment.options.hidden = Some(option);
            segment.wire_len = frame::wire_len(self.resized.len() as u32);
        }
        segment.hash = fabric::flow_hash(&segment.headers);
        true
    }

    /// Lets go what the host's edge has held and may leave now.
    pub(super) fn release_held(&mut self, host: u32) {
        let now = self.scheduler.now();
        while let Some(Slot(id)) = self.hosts[host as usize].edge.poll_departure(now) {
            if let Some(segment) = self.hosts[host as usize].held.remove(&id) {
                self.depart(now, host, id, segment);
            }
        }
    }

    /// Sends what a host's edge made: to the fabric, or to the host itself.
    pub(super) fn edge_transmit(&mut self, host: u32) {
        let now = self.scheduler.now();
        while let Some(extra) = self.hosts[host as usize].edge.poll_transmit(now) {
            let peer = host::experiment::host_of;
            let (from, to) = match extra.dir {
                Direction::Egress => (host, peer(&extra.packet.daddr)),
                Direction::Ingress => (peer(&extra.packet.saddr), host),
            };
            if from.max(to) as usize >= self.hosts.len() {
                continue;
            }
            if extra.packet.proto == edge::hygenicc::PROTO {
                self.send_feedback(now, host, to, extra.packet);
                continue;
            }
            let Some(bytes) = frame::made(&extra.packet, from, to) else { continue };
            let Some(id) = self.pool.insert(VnetHeader::default(), &bytes) else {
                self.pool_exhausted += 1;
                continue;
            };
            match frame::read(self.pool.frame(id), &VnetHeader::default(), from, self.hosts.len() as u32, id) {
                Ok(mut packet) if extra.dir == Direction::Egress => {
                    packet.label = extra.packet.label;
                    packet.headers.label = extra.packet.label;
                    // A report of version 2 stands beside the packet, in a shim.
                    let (to, from) = (&mut packet.headers, &extra.packet);
                    (to.wire, to.pack, to.tcp_reserved) = (from.wire, from.pack, from.tcp_reserved);
                    (to.pack_total, to.pack_ce, to.outer_ecn) = (from.pack_total, from.pack_ce, from.outer_ecn);
                    edge::ecn::departs(&mut packet.headers);
                    self.send(now, host, id, &packet);
                }
                Ok(packet) => self.deliver(host, &Segment::new(packet)),
                Err(_) => self.pool.release(id),
            }
        }
    }

    /// A packet to another edge, which no guest gets: its frame is empty.
    fn send_feedback(&mut self, now: Time, host: u32, to: u32, mut made: wire::Packet) {
        let Some(id) = self.pool.insert(VnetHeader::default(), &[0; frame::LEAST]) else {
            self.pool_exhausted += 1;
            return;
        };
        edge::ecn::departs(&mut made);
        let feedback = Feedback { kind: made.feedback, path: made.feedback_path, value: made.feedback_value };
        let (wire_len, hash) = (frame::wire_len(frame::LEAST as u32), fabric::flow_hash(&made));
        let packet =
            Packet { src: host, dst: to, slot: id, wire_len, hash, headers: made, feedback, ..Packet::default() };
        self.send(now, host, id, &packet);
    }

    /// Cuts a segment and puts it onto its host's uplink.
    pub(super) fn launch(&mut self, now: Time, host: u32, id: FrameId, segment: &Packet) {
        let packets = segment.headers.packet_count();
        if self.fabric.packets.live() + packets as usize > MAX_LIVE {
            self.pool_exhausted += 1;
            self.pool.release(id);
            return;
        }
        let h = &mut self.hosts[host as usize];
        h.counters.tx_segments += 1;
        h.counters.tx_packets += u64::from(packets);
        h.counters.tx_bytes += u64::from(segment.headers.payload);
        self.flows.note(now, segment);
        self.pool.share(id, packets - 1);
        for i in 0..packets {
            let packet = self.fabric.packets.add(frame::cut(segment, i));
            self.fabric.send(packet, &mut self.scheduler);
        }
        // A host whose own link is down.
        for slot in self.fabric.take_lost_slots() {
            self.pool.release(slot);
        }
    }

    fn capture_packets(&mut self) {
        let Some(tap) = self.fabric.tap_mut() else { return };
        let mut open = true;
        for captured in tap.packets.drain(..) {
            if let Some(capture) = &mut self.capture {
                open &= capture.keep(captured.at, &captured.packet, &self.pool);
            }
        }
        if !open {
            self.fabric.set_tap(None);
            self.capture = None;
        }
    }
}

/// The port of a host's link that sends away from it.
pub(super) fn uplink(host: u32) -> u32 {
    2 * host
}

/// The headers of a frame made of parts.
pub(super) fn head(packet: &Packet, merged: bool, pool: &Pool) -> Option<frame::Head> {
    let original = pool.header(packet.slot);
    let size = original.gso_size;
    let cut = merged || packet.flow > 0 || (original.gso_type != 0 && size > 0);
    let index = if size > 0 { packet.flow / u32::from(size) } else { 0 };
    frame::head(pool.frame(packet.slot), &original, &packet.headers, index as u16, cut)
}
