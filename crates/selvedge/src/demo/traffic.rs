//! Downloads of a container, and one-byte requests beside them, on sockets of the namespaces that they belong to.

use super::network::{Network, SERVER};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

pub(super) const DOWNLOADS: usize = 8;
/// From one request to the next.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);
/// One value of the downloads' throughput.
pub(super) const STEP: Duration = Duration::from_millis(100);
/// A thread looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection, or the last answers, may take.
const GRACE: Duration = Duration::from_secs(3);
const CONGESTION: &str = "cubic";

/// The parts of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    /// Requests alone.
    pub(super) idle: Duration,
    /// Downloads fill the queue; nothing is counted.
    pub(super) warmup: Duration,
    pub(super) measured: Duration,
}

impl Phases {
    pub(super) fn whole(&self) -> Duration {
        self.idle + self.warmup + self.measured
    }
}

/// What a run saw. Times are seconds since the downloads began.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When each request was sent, in order.
    pub(super) sent: Vec<f64>,
    /// How long the answers took, ms; those of the last requests may be missing.
    pub(super) answered: Vec<f64>,
    /// Mb/s of payload that the container received, all downloads together, in each step since they began.
    pub(super) steps: Vec<f64>,
    /// The same over the measured part.
    pub(super) mbps: f64,
    /// Congestion control of the downloads.
    pub(super) congestion: String,
}

/// Sends the traffic of one run; `tell` hears how far it is.
///
/// # Errors
/// A connection that cannot be made, or that breaks.
pub(super) fn run(network: &Network, phases: Phases, tell: &mut dyn FnMut(Duration)) -> io::Result<Seen> {
    let (asking, answering) = connect(network)?;
    asking.set_nodelay(true)?;
    answering.set_nodelay(true)?;
    let downloads = (0..DOWNLOADS).map(|_| connect(network)).collect::<io::Result<Vec<_>>>()?;
    let mut congestion = String::new();
    for (_, server) in &downloads {
        // A kernel without it keeps its own; the report has the name.
        let _ = setsockopt(server, sockopt::TcpCongestion, &OsString::from(CONGESTION));
        congestion = getsockopt(server, sockopt::TcpCongestion)?.to_string_lossy().into_owned();
    }
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop, received) = (&stop, &received);
    thread::scope(|scope| {
        let _end = StopOnDrop(stop); // also on the way out by `?`: the scope waits for its threads
        let begun = now();
        let (requests, sent) = channel();
        let (writer, echo) = (asking.try_clone()?, answering.try_clone()?);
        let count = phases.whole().as_nanos().div_euclid(INTERVAL.as_nanos()) as usize;
        let mut threads = vec![
            start(scope, move || answer(echo, stop))?,
            start(scope, move || ask(writer, begun, count, &requests, stop))?,
        ];
        let reader = &asking;
        let answers = thread::Builder::new().spawn_scoped(scope, move || read_answers(reader, &sent, count, stop))?;
        pause(begun, phases.idle, tell);
        for (container, server) in &downloads {
            threads.push(start(scope, || send(server, stop))?);
            threads.push(start(scope, || receive(container, received, stop))?);
        }
        let (steps, mbps) = count_steps(begun, phases, received, tell);
        // The last answers are on their way, behind the queue.
        let over = now();
        while over.elapsed() < GRACE && !answers.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let times = answers.join().unwrap_or_else(|_| Err(ended()))?;
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(ended()))?;
        }
        let since = |sent: Instant| signed_seconds(sent, begun + phases.idle);
        Ok(Seen {
            sent: times.iter().map(|(sent, _)| since(*sent)).collect(),
            answered: times.iter().filter_map(|(_, took)| *took).map(|took| took.as_secs_f64() * 1e3).collect(),
            steps,
            mbps,
            congestion,
        })
    })
}

fn start<'s>(
    scope: &'s Scope<'s, '_>,
    what: impl FnOnce() -> io::Result<()> + Send + 's,
) -> io::Result<ScopedJoinHandle<'s, io::Result<()>>> {
    thread::Builder::new().spawn_scoped(scope, what)
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ended() -> io::Error {
    io::Error::other("a thread of the traffic ended early")
}

#[allow(clippy::disallowed_methods, reason = "real traffic is measured by the clock")]
fn now() -> Instant {
    Instant::now()
}

fn signed_seconds(at: Instant, zero: Instant) -> f64 {
    at.saturating_duration_since(zero).as_secs_f64() - zero.saturating_duration_since(at).as_secs_f64()
}

/// A connection of the container to the server: its two ends.
fn connect(network: &Network) -> io::Result<(TcpStream, TcpStream)> {
    let listener = network.server.enter(|| TcpListener::bind((SERVER, 0)))?;
    let address: SocketAddr = listener.local_addr()?;
    let container = network.container.enter(|| TcpStream::connect_timeout(&address, GRACE))?;
    listener.set_nonblocking(true)?;
    let begun = now();
    let (server, _) = loop {
        match listener.accept() {
            Err(e) if e.kind() == ErrorKind::WouldBlock && begun.elapsed() < GRACE => {
                thread::sleep(Duration::from_millis(1));
            }
            accepted => break accepted?,
        }
    };
    server.set_nonblocking(false)?;
    for stream in [&container, &server] {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
    }
    Ok((container, server))
}

/// Nothing happened for [`LOOK`].
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Repeats `step` until the run ends. `step` tells whether there is more.
fn repeat(stop: &AtomicBool, mut step: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        match step() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn send(mut server: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let block = vec![0; 64 << 10];
    repeat(stop, || server.write(&block).map(|n| n > 0))
}

fn receive(mut container: &TcpStream, received: &AtomicU64, stop: &AtomicBool) -> io::Result<()> {
    let mut block = vec![0; 256 << 10];
    repeat(stop, || {
        let n = container.read(&mut block)?;
        received.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n > 0)
    })
}

/// The server's part of the requests: a byte back for each.
fn answer(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let mut bytes = [0; 256];
    repeat(stop, || {
        let n = stream.read(&mut bytes)?;
        stream.write_all(&bytes[..n])?;
        Ok(n > 0)
    })
}

/// Sends a byte when its time has come, whether the ones before were answered or not.
fn ask(
    mut stream: TcpStream,
    begun: Instant,
    count: usize,
    requests: &Sender<Instant>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut n = 0u32;
    repeat(stop, || {
        thread::sleep((INTERVAL * n).saturating_sub(begun.elapsed()));
        let _ = requests.send(now()); // the one who listens ends last
        stream.write_all(&[0])?;
        n += 1;
        Ok((n as usize) < count)
    })
}

/// When each request was sent, and how long its answer took. Answers come in the order of the requests.
fn read_answers(
    mut stream: &TcpStream,
    sent: &Receiver<Instant>,
    count: usize,
    stop: &AtomicBool,
) -> io::Result<Vec<(Instant, Option<Duration>)>> {
    let mut times = Vec::with_capacity(count);
    let mut bytes = [0; 256];
    repeat(stop, || {
        let n = stream.read(&mut bytes)?;
        let arrived = now();
        times.extend(sent.try_iter().take(n).map(|sent| (sent, Some(arrived.saturating_duration_since(sent)))));
        Ok(n > 0 && times.len() < count)
    })?;
    times.extend(sent.try_iter().map(|sent| (sent, None)));
    Ok(times)
}

/// Sleeps until `until` after `begun`.
fn pause(begun: Instant, until: Duration, tell: &mut dyn FnMut(Duration)) {
    while begun.elapsed() < until {
        tell(begun.elapsed());
        thread::sleep(until.saturating_sub(begun.elapsed()).min(STEP));
    }
}

/// Throughput of each step since the downloads began, and over the measured part.
fn count_steps(
    begun: Instant,
    phases: Phases,
    received: &AtomicU64,
    tell: &mut dyn FnMut(Duration),
) -> (Vec<f64>, f64) {
    let look = || (now(), received.load(Ordering::Relaxed));
    let mbps = |from: (Instant, u64), to: (Instant, u64)| {
        let seconds = to.0.saturating_duration_since(from.0).as_secs_f64();
        to.1.saturating_sub(from.1) as f64 * 8e-6 / seconds.max(1e-6)
    };
    let mut before = look();
    let mut first = before;
    let (mut steps, mut at) = (Vec::new(), phases.idle);
    while at < phases.whole() {
        at += STEP;
        pause(begun, at, tell);
        let after = look();
        steps.push(mbps(before, after));
        before = after;
        if at <= phases.idle + phases.warmup {
            first = after;
        }
    }
    (steps, mbps(first, before))
}
