//! Starts the hosts' threads, drives sources that depend on completions, and puts together what the hosts have noted.

use super::clock::Clock;
use super::counters::TcpCounters;
use super::link::Registry;
use super::prepared::{enter, prepare, Listening, Needs};
use super::schedule::{Schedule, Start};
use super::worker::{Note, Shared, Times, Worker};
use super::{probe, Error, HostHandle, Progress, Report};
use crate::lateness::Lateness;
use host::experiment::{Experiment, SERVER_PORT};
use host::measure::ideal_fct;
use host::outcome::{FlowRecord, Handshake, HostRecord, Outcome};
use host::workload::FlowSpec;
use host::REPLY_BYTES;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;
use units::Time;

/// How long after all is ready the run begins, so that every thread is waiting by then; and more for each host.
const AHEAD: Time = Time::from_ms(100);
const AHEAD_PER_HOST: Time = Time::from_ms(5);
/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

/// On a thread of its own, which the namespace changes.
fn on_thread<T: Send>(what: impl FnOnce() -> io::Result<T> + Send) -> Option<io::Result<T>> {
    thread::scope(|scope| scope.spawn(what).join().ok())
}

/// What a host's threads yield.
type Served = (Vec<Note>, Lateness, TcpCounters);
type Probed = (Vec<(Time, Time)>, u64);

pub(super) fn conduct(
    experiment: &Experiment,
    laws: &[String],
    hosts: &[HostHandle],
    mut schedule: Schedule,
    preferred: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let (listening, laws) = listening(experiment, laws);
    if listening.is_empty() {
        return Ok(Report::default());
    }
    let workloads = &experiment.workloads;
    let needs = Needs {
        listening,
        datagrams: workloads.iter().any(|workload| workload.datagrams.is_some()),
        probes: experiment.record.probe_every > Time::ZERO,
        guests: workloads.iter().any(|workload| workload.guest > 0),
    };
    let mut prepared = Vec::new();
    for (host, handle) in hosts.iter().enumerate() {
        let sockets = on_thread(|| prepare(handle, &needs)).ok_or(Error::Panicked(host))?;
        prepared.push(sockets.map_err(|error| Error::Host { host, what: "enter its namespace and listen", error })?);
    }
    let reached = |host: usize, local: io::Result<SocketAddr>| {
        let local = local.map_err(|error| Error::Host { host, what: "find its port", error })?;
        Ok::<_, Error>(SocketAddr::new(hosts[host].address, local.port()))
    };
    let local = |host: usize, listener: &TcpListener| reached(host, listener.local_addr());
    let mut addresses: Vec<Vec<SocketAddr>> = Vec::new();
    let (mut datagram_addresses, mut probe_addresses) = (Vec::new(), Vec::new());
    for (host, sockets) in prepared.iter().enumerate() {
        addresses.push(sockets.listeners.iter().map(|l| local(host, l)).collect::<Result<_, _>>()?);
        datagram_addresses.push(sockets.datagrams.as_ref().map(|s| reached(host, s.local_addr())).transpose()?);
        probe_addresses.push(sockets.probes.as_ref().map(|l| local(host, l)).transpose()?);
        for listener in sockets.listeners.iter().chain(&sockets.probes) {
            listener.set_nonblocking(true).map_err(|error| Error::Host {
                host,
                what: "make a socket non-blocking",
                error,
            })?;
        }
    }

    let shared = Shared {
        registry: Registry::default(),
        senders: Mutex::default(),
        settled: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let probes_over = AtomicBool::new(false);
    let times = Times {
        warmup: experiment.warmup,
        duration: experiment.duration,
        end: experiment.duration.saturating_add(experiment.drain),
        sample_every: experiment.record.sample_every,
        rtt_samples: experiment.record.rtt_samples,
        preferred,
    };
    let partners = partners(&schedule.flows, hosts.len());
    let clock = Clock::begin_in(AHEAD.saturating_add(AHEAD_PER_HOST * hosts.len() as u64));
    let (completed, completions) = channel();

    thread::scope(|scope| {
        let mut orders: Vec<Sender<Start>> = Vec::new();
        let mut workers: Vec<ScopedJoinHandle<'_, io::Result<Served>>> = Vec::new();
        for (host, handle) in hosts.iter().enumerate() {
            let (order, orders_in) = channel();
            orders.push(order);
            let worker = Worker {
                experiment,
                address: handle.address,
                sockets: &prepared[host],
                laws: &laws,
                addresses: &addresses,
                datagram_addresses: &datagram_addresses,
                shared: &shared,
                clock,
                times,
                schedule: std::mem::take(&mut schedule.hosts[host]),
                orders: orders_in,
                completed: completed.clone(),
            };
            workers.push(scope.spawn(move || {
                enter(handle)?;
                let before = TcpCounters::read();
                let (notes, lateness) = worker.run()?;
                Ok((notes, lateness, TcpCounters::read().since(before)))
            }));
        }
        let mut pingers: Vec<ScopedJoinHandle<'_, io::Result<Probed>>> = Vec::new();
        let mut echoers: Vec<ScopedJoinHandle<'_, io::Result<()>>> = Vec::new();
        for (host, handle) in hosts.iter().enumerate() {
            let (Some(listener), Some(to)) = (&prepared[host].probes, probe_addresses[partners[host]]) else {
                continue;
            };
            let (every, law, over) = (experiment.record.probe_every, &needs.listening[0].0, &probes_over);
            echoers.push(scope.spawn(move || probe::echo(listener, preferred, over)));
            pingers.push(scope.spawn(move || {
                enter(handle)?;
                probe::ping(to, law, clock, every, times.duration, preferred, over)
            }));
        }

        let mut ended_at = Time::ZERO;
        let mut told = Time::ZERO;
        loop {
            for start in schedule.due(clock.now()) {
                let host = start.spec.src as usize;
                let _ = orders[host].send(start);
                let _ = prepared[host].wake.write(1);
            }
            let next = schedule.next_due().map_or(TELL, |at| TELL.min(Duration::from_nanos(clock.until(at).as_ns())));
            match completions.recv_timeout(next.max(Duration::from_micros(50))) {
                Ok((at, flow)) => schedule.complete(at, flow),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let now = clock.now();
            let (finished, flows) = (shared.settled.load(Ordering::Relaxed), schedule.bounded());
            if now >= told.saturating_add(Time::from_ms(100)) {
                told = now;
                progress(Progress { now, end: times.end, finished, flows });
            }
            let done = now >= times.duration && finished >= flows && schedule.next_due().is_none();
            if done || now >= times.end || workers.iter().any(ScopedJoinHandle::is_finished) {
                ended_at = ended_at.max(now);
                shared.over.store(true, Ordering::Relaxed);
                for sockets in &prepared {
                    let _ = sockets.wake.write(1);
                }
                break;
            }
        }
        probes_over.store(true, Ordering::Relaxed);

        let mut assembly = Assembly::new(experiment, &schedule.flows, ended_at);
        for (host, worker) in workers.into_iter().enumerate() {
            let (notes, lateness, counters) = worker
                .join()
                .map_err(|_| Error::Panicked(host))?
                .map_err(|error| Error::Host { host, what: "serve its sockets", error })?;
            assembly.host(notes, &lateness, counters);
        }
        for (host, pinger) in pingers.into_iter().enumerate() {
            let (probes, lost) = pinger.join().map_err(|_| Error::Panicked(host))?.map_err(|error| Error::Host {
                host,
                what: "send RTT probes",
                error,
            })?;
            assembly.probes(host, probes, lost);
        }
        for (host, echoer) in echoers.into_iter().enumerate() {
            let echoed = echoer.join().map_err(|_| Error::Panicked(host))?;
            echoed.map_err(|error| Error::Host { host, what: "answer RTT probes", error })?;
        }
        Ok(assembly.report())
    })
}

/// Law and port of each listener of a host, and per workload the law and which listener its flows go to. Ports are the
/// simulator's, as rules at edges may name them; but a port has one law, so further laws take any free port.
fn listening(experiment: &Experiment, laws: &[String]) -> (Listening, Vec<(String, usize)>) {
    let mut listening = Listening::new();
    let mut by_workload = Vec::new();
    for (law, class) in laws.iter().zip(0u16..) {
        let known = listening.iter().position(|(known, _)| known == law);
        let index = match known.filter(|_| !experiment.edge.ports_by_workload) {
            Some(index) => index,
            None => {
                let port = match class {
                    _ if experiment.edge.ports_by_workload => SERVER_PORT.saturating_add(class),
                    0 => SERVER_PORT,
                    _ => 0,
                };
                listening.push((law.clone(), port));
                listening.len() - 1
            }
        };
        by_workload.push((law.clone(), index));
    }
    (listening, by_workload)
}

/// Whom each host probes: the receiver of its first flow without an end, or the host half-way round.
fn partners(flows: &[FlowSpec], hosts: usize) -> Vec<usize> {
    let mut partners: Vec<usize> = (0..hosts).map(|host| (host + hosts / 2) % hosts).collect();
    for spec in flows.iter().rev().filter(|spec| spec.size.is_none()) {
        partners[spec.src as usize] = spec.dst as usize;
    }
    partners
}

/// Notes of all hosts on their way into an [`Outcome`].
struct Assembly {
    /// By number of flow, which is not yet the order of start.
    flows: Vec<FlowRecord>,
    series: BTreeMap<u32, Vec<u64>>,
    lags: Vec<(Time, Time)>,
    report: Report,
}

impl Assembly {
    fn new(experiment: &Experiment, specs: &[FlowSpec], ended_at: Time) -> Assembly {
        let routes = experiment.topology.routes(&[]);
        let ideal = |spec: &FlowSpec| {
            let links = routes.first_path(&experiment.topology, spec.src, spec.dst)?;
            let path: Vec<_> = links
                .iter()
                .map(|&link| &experiment.topology.links[link as usize])
                .map(|link| (link.rate, link.delay))
                .collect();
            let payload = u64::from(experiment.hosts.mss());
            // Ethernet, IPv4 and TCP.
            let headers = 38 + 20 + if experiment.hosts.tcp.timestamps { 32 } else { 20 };
            let there = ideal_fct(spec.size?, payload, headers, &path);
            if !spec.reply {
                return Some(there);
            }
            let back: Vec<_> = path.into_iter().rev().collect();
            Some(there.saturating_add(ideal_fct(REPLY_BYTES, payload, headers, &back)))
        };
        let flows = specs.iter().zip(0..).map(|(spec, id)| FlowRecord {
            id,
            class: spec.class,
            src: spec.src,
            dst: spec.dst,
            size: spec.size,
            start: spec.start,
            finish: None,
            delivered: 0,
            delivered_measured: 0,
            ideal: ideal(spec),
            retransmitted_segments: 0,
            fast_retransmits: 0,
            timeouts: 0,
            out_of_order: 0,
            segments_received: 0,
            paths_used: 0,
            handshake: None,
            request: experiment.workloads[usize::from(spec.class)].request_of(spec),
        });
        let measured_until = experiment.duration.min(ended_at);
        let outcome = Outcome { ended_at, measured_until, ..Outcome::default() };
        let report = Report { outcome, ..Report::default() };
        Assembly { flows: flows.collect(), series: BTreeMap::new(), lags: Vec::new(), report }
    }

    fn host(&mut self, notes: Vec<Note>, lateness: &Lateness, counters: TcpCounters) {
        self.report.lateness.add(lateness);
        for note in notes {
            match note {
                Note::Started { flow, at, lag } => {
                    self.flows[flow as usize].start = at;
                    self.lags.push((at, lag));
                }
                Note::Connected { flow, syns_sent, done } => {
                    self.flows[flow as usize].handshake = Some(Handshake { syns_sent, done });
                }
                Note::Finished { flow, at } => self.flows[flow as usize].finish = Some(at),
                Note::Sent { flow, info } => {
                    let record = &mut self.flows[flow as usize];
                    record.retransmitted_segments += info.retransmitted;
                    record.timeouts += info.timeouts;
                }
                Note::Received { flow, bytes, measured, info } => {
                    let record = &mut self.flows[flow as usize];
                    record.delivered = bytes;
                    record.delivered_measured = measured;
                    record.out_of_order += info.out_of_order;
                    record.segments_received += info.segments_in;
                }
                Note::Series { flow, bytes } => {
                    self.series.insert(flow, bytes);
                }
                Note::Rtt { flow, at, rtt } => self.report.outcome.rtt_samples.push((at, flow, rtt)),
                Note::Failed { why, .. } => {
                    self.report.failed += 1;
                    self.report.first_failure.get_or_insert(why);
                }
            }
        }
        self.report.outcome.hosts.push(HostRecord {
            rx_packets: counters.segments_in,
            rx_bytes: counters.bytes_in,
            ..HostRecord::default()
        });
        self.report.counters.push(counters);
    }

    fn probes(&mut self, host: usize, probes: Vec<(Time, Time)>, lost: u64) {
        let outcome = &mut self.report.outcome;
        outcome.probes.extend(probes.into_iter().map(|(at, rtt)| (at, host as u32, rtt)));
        outcome.probes_lost += lost;
    }

    /// Numbers flows in order of start.
    fn report(mut self) -> Report {
        let mut order: Vec<u32> = (0..self.flows.len() as u32).collect();
        order.sort_by_key(|&flow| (self.flows[flow as usize].start, flow));
        let mut number = vec![0; self.flows.len()];
        for (&flow, id) in order.iter().zip(0..) {
            number[flow as usize] = id;
            self.flows[flow as usize].id = id;
        }
        self.flows.sort_by_key(|record| record.id);
        let outcome = &mut self.report.outcome;
        outcome.flows = self.flows;
        outcome.goodput_series = self.series.into_iter().map(|(flow, bytes)| (number[flow as usize], bytes)).collect();
        outcome.goodput_series.sort_by_key(|&(flow, _)| flow);
        for (_, flow, _) in &mut outcome.rtt_samples {
            *flow = number[*flow as usize];
        }
        outcome.rtt_samples.sort_by_key(|&(at, flow, _)| (at, flow));
        outcome.probes.sort_by_key(|&(at, host, _)| (at, host));
        self.lags.sort_unstable();
        self.report.start_lag = self.lags.into_iter().map(|(_, lag)| lag).collect();
        self.report
    }
}
