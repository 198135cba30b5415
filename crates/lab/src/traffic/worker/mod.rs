//! One host: all its sockets, from one thread.

mod datagrams;
mod tally;
mod transfer;

use super::clock::Clock;
use super::guest_address;
use super::link::{Link, Message, Registry};
use super::prepared::Prepared;
use super::schedule::Start;
use super::socket::{self, Info, CHUNK};
use crate::lateness::Lateness;
use datagrams::Datagrams;
use host::experiment::Experiment;
use host::workload::Connection;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timer::TimerSetTimeFlags;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags};
use port::priority::{prefer_this_thread, Rank};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tally::Tally;
use units::Time;

const TIMER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const DATAGRAMS: u64 = u64::MAX - 2;
/// The listener of law i is `LISTENER + i`; what is below is a connection: generation and slot.
const LISTENER: u64 = 1 << 62;
/// Chunks that one socket writes or reads before others get their turn.
const TURN: usize = 4;

/// When what is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) warmup: Time,
    /// End of the measured part, and of the whole run.
    pub(super) duration: Time,
    pub(super) end: Time,
    /// Interval of the series; zero for none.
    pub(super) sample_every: Time,
    pub(super) rtt_samples: bool,
    /// Before everything else on the machine but the fabric.
    pub(super) preferred: bool,
}

/// What all hosts share.
pub(super) struct Shared {
    pub(super) registry: Registry,
    /// Flows of datagrams, by their senders' addresses.
    pub(super) senders: Mutex<HashMap<SocketAddr, u32>>,
    /// Flows of bounded size that are complete or have failed.
    pub(super) settled: AtomicU64,
    /// Everybody is to stop.
    pub(super) over: AtomicBool,
}

/// What a host has seen of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Note {
    Started {
        flow: u32,
        at: Time,
        lag: Time,
    },
    /// How a connection of its own began, or did not.
    Connected {
        flow: u32,
        syns_sent: u32,
        done: bool,
    },
    Finished {
        flow: u32,
        at: Time,
    },
    Sent {
        flow: u32,
        info: Info,
    },
    Received {
        flow: u32,
        bytes: u64,
        measured: u64,
        info: Info,
    },
    Series {
        flow: u32,
        bytes: Vec<u64>,
    },
    Rtt {
        flow: u32,
        at: Time,
        rtt: Time,
    },
    Failed {
        flow: u32,
        why: String,
    },
}

struct Client {
    /// Flows that wait for their replies, and bytes of the next reply.
    replies: VecDeque<(u32, bool)>,
    reply_bytes: u64,
    to_write: u64,
    link: Arc<Link>,
    written: u64,
    /// The flow that counters go to: the last that was begun.
    flow: u32,
    /// Ends after its one flow, which has a reply.
    fresh: bool,
    connected: bool,
    reply: bool,
    shut: bool,
}

struct Server {
    link: Arc<Link>,
    to_write: u64,
    tally: Tally,
}

enum Role {
    Client(Client),
    Server(Server),
}

struct Socket {
    stream: TcpStream,
    role: Role,
    /// What was counted when a message last completed.
    counted: Info,
    wants_out: bool,
    generation: u32,
}

pub(super) struct Worker<'a> {
    pub(super) experiment: &'a Experiment,
    /// Of the host whose worker it is.
    pub(super) address: IpAddr,
    pub(super) sockets: &'a Prepared,
    /// Per workload: the law's name and which listener of a host speaks it.
    pub(super) laws: &'a [(String, usize)],
    /// Per host and law: where to connect to.
    pub(super) addresses: &'a [Vec<SocketAddr>],
    /// Per host, if there are any.
    pub(super) datagram_addresses: &'a [Option<SocketAddr>],
    pub(super) shared: &'a Shared,
    pub(super) clock: Clock,
    pub(super) times: Times,
    pub(super) schedule: VecDeque<Start>,
    pub(super) orders: Receiver<Start>,
    pub(super) completed: Sender<(Time, u32)>,
}

struct State<'a, 'b> {
    w: &'b mut Worker<'a>,
    epoll: Epoll,
    sockets: Vec<Option<Socket>>,
    free: Vec<usize>,
    generation: u32,
    datagrams: Datagrams,
    /// By workload, receiver and lane.
    persistent: HashMap<(u16, u32, u32), usize>,
    /// Flows that are to stop: when, and on which connection.
    stops: Vec<(Time, usize, u32)>,
    scratch: Vec<u8>,
    notes: Vec<Note>,
    /// How late timers were.
    lateness: Lateness,
    next_sample: Time,
    samples: usize,
    passed_warmup: bool,
    passed_duration: bool,
}

impl Worker<'_> {
    /// Until the end of the run, or until told that it is over.
    pub(super) fn run(mut self) -> io::Result<(Vec<Note>, Lateness)> {
        if self.times.preferred {
            prefer_this_thread(Rank::Program);
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        epoll.add(&self.sockets.wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        for (listener, token) in self.sockets.listeners.iter().zip(LISTENER..) {
            epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        }
        if let Some(socket) = &self.sockets.datagrams {
            epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, DATAGRAMS))?;
        }
        let next_sample = self.times.warmup;
        let mut state = State {
            w: &mut self,
            epoll,
            sockets: Vec::new(),
            free: Vec::new(),
            generation: 0,
            datagrams: Datagrams::default(),
            persistent: HashMap::new(),
            stops: Vec::new(),
            scratch: vec![0; CHUNK],
            notes: Vec::new(),
            lateness: Lateness::default(),
            next_sample,
            samples: 0,
            passed_warmup: false,
            passed_duration: false,
        };
        state.serve(&timer)?;
        state.finish();
        Ok((state.notes, state.lateness))
    }
}

impl State<'_, '_> {
    fn serve(&mut self, timer: &TimerFd) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut armed = None;
        loop {
            self.on_time();
            let now = self.w.clock.now();
            if now >= self.w.times.end || self.w.shared.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let next = self.next_deadline();
            if armed != Some(next) {
                let left = self.w.clock.until(next).max(Time::from_ns(1));
                let spec = TimeSpec::from(Duration::from_nanos(left.as_ns()));
                timer.set(Expiration::OneShot(spec), TimerSetTimeFlags::empty())?;
                armed = Some(next);
            }
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..ready] {
                match event.data() {
                    TIMER => {
                        let _ = timer.wait();
                        if let Some(due) = armed.take() {
                            self.lateness.note(self.w.clock.now().saturating_sub(due), 1);
                        }
                    }
                    WAKE => {
                        let _ = self.w.sockets.wake.read();
                    }
                    DATAGRAMS => self.receive_datagrams(),
                    token if token >= LISTENER => self.accept((token - LISTENER) as usize),
                    token => self.on_socket(token as u32 as usize, (token >> 32) as u32, event.events()),
                }
            }
        }
    }

    fn next_deadline(&self) -> Time {
        let times = &self.w.times;
        let now = self.w.clock.now();
        let marks = [times.warmup, times.duration, times.end].into_iter().filter(|&at| at > now);
        let start = self.w.schedule.front().map(|start| start.spec.start);
        let sample =
            (times.sample_every > Time::ZERO && self.next_sample <= times.duration).then_some(self.next_sample);
        let stop = self.stops.iter().map(|&(at, ..)| at).min();
        marks.chain(start).chain(sample).chain(stop).chain(self.datagrams.next_due()).min().unwrap_or(times.end)
    }

    /// What is due by the clock: snapshots first, so that what starts now is not in them.
    fn on_time(&mut self) {
        let times = self.w.times;
        let now = self.w.clock.now();
        if now >= times.warmup && !std::mem::replace(&mut self.passed_warmup, true) {
            self.each_tally(Tally::begin_measurement);
        }
        if times.sample_every > Time::ZERO && now >= self.next_sample && self.next_sample <= times.duration {
            self.sample(now);
            self.next_sample = self.next_sample.saturating_add(times.sample_every);
        }
        if now >= times.duration && !std::mem::replace(&mut self.passed_duration, true) {
            self.each_tally(Tally::end_measurement);
        }
        let (due, later): (Vec<_>, Vec<_>) = self.stops.drain(..).partition(|&(at, ..)| at <= now);
        self.stops = later;
        for (_, slot, generation) in due {
            self.stop(slot, generation);
        }
        while let Ok(start) = self.w.orders.try_recv() {
            self.start(start);
        }
        while self.w.schedule.front().is_some_and(|start| self.w.clock.until(start.spec.start) == Time::ZERO) {
            let Some(start) = self.w.schedule.pop_front() else { break };
            self.start(start);
        }
        self.datagrams.send_due(self.w.clock.now());
    }

    fn each_tally(&mut self, f: impl Fn(&mut Tally)) {
        for socket in self.sockets.iter_mut().flatten() {
            if let Role::Server(server) = &mut socket.role {
                f(&mut server.tally);
            }
        }
        self.datagrams.tallies().for_each(f);
    }

    fn sample(&mut self, now: Time) {
        let samples = self.samples;
        self.each_tally(|tally| tally.sample(samples));
        for socket in self.sockets.iter().flatten().filter(|_| self.w.times.rtt_samples) {
            let Role::Client(client) = &socket.role else { continue };
            let rtt = Time::from_us(socket::info(&socket.stream).rtt_us.into());
            if rtt > Time::ZERO {
                self.notes.push(Note::Rtt { flow: client.flow, at: now, rtt });
            }
        }
        self.samples += 1;
    }

    fn start(&mut self, start: Start) {
        let Start { flow, spec, tell, stops, lane } = start;
        let now = self.w.clock.now();
        self.notes.push(Note::Started { flow, at: now, lag: now.saturating_sub(spec.start) });
        if let Some(kind) = self.w.experiment.workloads[usize::from(spec.class)].datagrams {
            return self.start_datagrams(&start, kind);
        }
        let fresh = spec.connection == Connection::Fresh;
        let key = (spec.class, spec.dst, lane);
        let slot = match self.persistent.get(&key) {
            Some(&slot) if !fresh => Ok(slot),
            _ => self.connect(&start),
        };
        let slot = match slot {
            Ok(slot) => slot,
            Err(error) => return self.fail(flow, spec.size.is_some(), &error),
        };
        if !fresh {
            self.persistent.insert(key, slot);
        }
        let Some(Socket { role: Role::Client(client), stream, generation, .. }) = &mut self.sockets[slot] else {
            return;
        };
        if let Some(at) = stops {
            self.stops.push((at, slot, *generation));
            // What the kernel has taken it will send.
            socket::keep_little_unsent(stream);
        }
        let size = spec.size.unwrap_or(u64::MAX / 2);
        let begins = client.written;
        let ends = spec.size.map_or(u64::MAX, |size| begins + size);
        client.written = begins.saturating_add(size);
        client.to_write = client.to_write.saturating_add(size);
        client.flow = flow;
        if spec.reply && spec.size.is_some() {
            client.replies.push_back((flow, tell));
        }
        let (bounded, reply) = (spec.size.is_some(), spec.reply);
        client.link.messages().push_back(Message { flow, begins, ends, bounded, reply, tell });
        self.push(slot);
    }

    /// The sender of a flow without an end writes no more.
    fn stop(&mut self, slot: usize, generation: u32) {
        let Some(Some(socket)) = self.sockets.get_mut(slot) else { return };
        let Role::Client(client) = &mut socket.role else { return };
        if socket.generation != generation {
            return;
        }
        client.written -= client.to_write;
        client.to_write = 0;
        if let Some(last) = client.link.messages().back_mut() {
            last.ends = client.written;
        }
        self.push(slot);
    }

    fn connect(&mut self, start: &Start) -> io::Result<usize> {
        let spec = &start.spec;
        let (law, index) = &self.w.laws[usize::from(spec.class)];
        let (from, to) = self.ends(start, self.w.addresses[spec.dst as usize][*index]);
        let link = Arc::new(Link::default());
        let stream = {
            let mut registry = self.w.shared.registry.lock();
            let stream = socket::connecting(Some(from).filter(|&from| from != self.w.address), to, law)?;
            registry.insert(stream.local_addr()?, link.clone());
            stream
        };
        let client = Client {
            replies: VecDeque::new(),
            reply_bytes: 0,
            to_write: 0,
            link,
            written: 0,
            flow: start.flow,
            fresh: spec.connection == Connection::Fresh,
            connected: false,
            reply: spec.reply && spec.size.is_some(),
            shut: false,
        };
        self.add(stream, Role::Client(client))
    }

    /// The guest that sends, and where the one that receives is reached.
    fn ends(&self, start: &Start, mut to: SocketAddr) -> (IpAddr, SocketAddr) {
        let guest = self.w.experiment.workloads[usize::from(start.spec.class)].guest;
        to.set_ip(guest_address(to.ip(), guest));
        (guest_address(self.w.address, guest), to)
    }

    fn add(&mut self, stream: TcpStream, role: Role) -> io::Result<usize> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(None);
            self.sockets.len() - 1
        });
        // Below `LISTENER`.
        self.generation = (self.generation + 1) & 0x3fff_ffff;
        let generation = self.generation;
        let token = u64::from(generation) << 32 | slot as u64;
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, token);
        if let Err(error) = self.epoll.add(&stream, event) {
            self.free.push(slot);
            return Err(error.into());
        }
        self.sockets[slot] = Some(Socket { stream, role, counted: Info::default(), wants_out: false, generation });
        Ok(slot)
    }

    fn accept(&mut self, listener: usize) {
        while let Ok((stream, from)) = self.w.sockets.listeners[listener].accept() {
            // Nobody of ours: not answered.
            let Some(link) = self.w.shared.registry.lock().remove(&from) else { continue };
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let tally = Tally::new(self.passed_warmup, self.passed_duration);
            let server = Server { link, to_write: 0, tally };
            if ready.is_ok() {
                let _ = self.add(stream, Role::Server(server));
            }
        }
    }
}
