//! The event loop: the fabric's events at their time, frames as they come.

use super::clock::Clock;
use super::host::Host;
use super::measurement::{Measure, Planned};
use super::poller::Poller;
use super::rest::Rest;
use super::status::{Capture, Flows};
use crate::lateness::Lateness;
use fabric::Fabric;
use host::experiment::HostConfig;
use port::priority::{prefer_this_thread, Rank};
use port::{FrameId, Pool};
use sim::{NodeId, Scheduler, TimerId, Timers};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use units::Time;

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
    pub(super) resized: Vec<u8>,
}

/// The token of the descriptor that announces jobs; hosts have their numbers.
const WAKE: u64 = u64::MAX;
/// Frames read from one host before the others have their turn.
const READ_BATCH: usize = 16;
/// What may wait at a host's uplink before the host's own queue has to hold it, in octets.
const UPLINK_LIMIT: u64 = 256 << 10;
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
