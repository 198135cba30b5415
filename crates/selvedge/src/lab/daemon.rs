//! The process behind a lab: `lab up` starts it and hands it a specification, the control socket asks it.

use super::arguments::Tuning;
use super::control::{self, Answer, Request};
use super::dctcp::Dctcp;
use super::state::{create, directory, lock, started, HostRecord, Record};
use super::{down, topo, LabFailure};
use crate::scenario::{Choice, Plan, Seeds};
use crate::Failure;
use config::Document;
use lab::{address, smallest_rtt, Lab, LabError, Setup};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use units::{BitRate, Time};

/// What `lab up` asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Specification {
    pub(super) name: String,
    /// The scenario's place, for its relative paths and for errors, and its text; or one line.
    pub(super) source: Source,
    pub(super) set: Vec<String>,
    pub(super) scheme: Option<String>,
    pub(super) seed: u64,
    pub(super) tuning: Tuning,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Source {
    File { path: String, text: String },
    OneLine(String),
}

impl Specification {
    /// # Errors
    /// A scenario that makes no sense.
    pub(super) fn setup(&self) -> Result<(Setup, String, String), Failure> {
        let mut document: Document = match &self.source {
            Source::File { path, text } => topo::file(path, text)?,
            Source::OneLine(text) => topo::one_line(text)?,
        };
        for key in crate::repro::KEYS {
            document.take(key);
        }
        for assignment in &self.set {
            crate::input::set(&mut document, assignment)?;
        }
        // Without a choice, the file's schemes; of a fabric in one line, the first built-in one.
        let schemes = self.scheme.iter().cloned().collect();
        let plan = Plan::new(&document, &Choice { schemes, seeds: Some(Seeds(vec![self.seed])) })?;
        super::refuse(&document, &plan)?;
        let scheme = &plan.schemes[0];
        let mut setup = Setup::from(&scheme.experiment(self.seed));
        setup.frames = self.tuning.frames;
        setup.spin = self.tuning.spin;
        Ok((setup, plan.scenario.title.clone(), scheme.name.clone()))
    }
}

/// Starts the process behind a lab and waits until it is up.
///
/// # Errors
/// If a lab of that name is up, or the new process fails.
pub(super) fn start(specification: &Specification) -> Result<Record, Failure> {
    // What is wrong with the scenario is said here, where the user is.
    specification.setup()?;
    let name = &specification.name;
    let dir = directory(name)?;
    let _lock = lock()?;
    if dir.exists() {
        let alive = match Record::read(name) {
            Ok(record) => record.is_alive(),
            Err(_) => control::answering(name)?.is_some(),
        };
        if alive {
            return Err(LabFailure::Up(name.clone()).into());
        }
        down::remove(name)?;
    }
    create(&dir)?;
    let started = launch(specification, &dir);
    if started.is_err() {
        // It says why; its files are useless.
        let _ = fs::remove_dir_all(&dir);
    }
    Ok(started?)
}

fn launch(specification: &Specification, dir: &Path) -> Result<Record, LabFailure> {
    let io = LabFailure::io("the lab's process");
    let log = fs::File::create(dir.join("log")).map_err(&io)?;
    let program = std::env::current_exe().map_err(&io)?;
    let mut child = Command::new(program)
        .args(["lab", "daemon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        // An interrupt at the terminal is meant for others.
        .process_group(0)
        .spawn()
        .map_err(&io)?;
    if let Some(mut stdin) = child.stdin.take() {
        serde_json::to_writer(&mut stdin, specification).map_err(|e| io(e.into()))?;
        stdin.write_all(b"\n").map_err(&io)?;
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(&io)?;
    }
    match serde_json::from_str(&line) {
        Ok(Answer::Ok(value)) => serde_json::from_value(value).map_err(|e| io(e.into())),
        Ok(Answer::Error(message)) => Err(LabFailure::Refused(message)),
        Err(_) => {
            let said = fs::read_to_string(dir.join("log")).unwrap_or_default();
            let last = said.lines().next_back().unwrap_or("without a word");
            Err(LabFailure::Refused(format!("the lab's process ended: {last}")))
        }
    }
}

/// The process itself: reads its specification from standard input, says on standard output that it is up, and ends when it
/// is asked to.
///
/// # Errors
/// A specification that cannot be read: somebody started it by hand.
pub(super) fn main() -> Result<bool, Failure> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(LabFailure::io("the specification"))?;
    let specification: Specification = serde_json::from_str(&line)
        .map_err(|_| LabFailure::Refused("`lab daemon` is started by `lab up`".to_owned()))?;
    let up = bring_up(&specification);
    let answer = match &up {
        Ok((_, record, _)) => Answer::Ok(json!(record)),
        Err(failure) => Answer::Error(failure.to_string()),
    };
    crate::say::json(&json!(answer));
    let Ok((shared, record, listener)) = up else { return Ok(false) };
    serve(&Arc::new(shared), &record, &listener);
    Ok(true)
}

/// What every connection needs.
struct Shared {
    lab: Lab,
    /// As links are now, and the shortest round trip that follows from it.
    setup: Mutex<(Setup, Time)>,
    connections: AtomicUsize,
    /// The link that packets are being captured on.
    capturing: Mutex<Option<String>>,
    /// Registered with the kernel for as long as this lives.
    _dctcp: Dctcp,
}

fn bring_up(specification: &Specification) -> Result<(Shared, Record, UnixListener), Failure> {
    let (mut setup, title, scheme) = specification.setup()?;
    let dir = directory(&specification.name)?;
    let dctcp = Dctcp::register(setup.congestion.as_slice())?;
    let mut notes = Vec::new();
    if let Some(law) = &mut setup.congestion {
        let name = dctcp.name(law);
        if name != *law {
            notes.push(format!("{law} is {name} here, to programs that choose their congestion control themselves"));
            *law = name;
        }
    }
    let lab = Lab::start(&setup).map_err(LabFailure::from)?;
    notes.extend_from_slice(lab.notes());
    let pid = std::process::id();
    let begun = started(pid).unwrap_or(0);
    let hosts: Result<Vec<HostRecord>, std::io::Error> = lab
        .namespaces()
        .iter()
        .enumerate()
        .map(|(h, namespace)| {
            Ok(HostRecord {
                name: lab.topology().nodes[h].name.clone(),
                address: address(h as u32).to_string(),
                namespace: namespace.path(),
                inode: namespace.inode()?,
            })
        })
        .collect();
    let record = Record {
        name: specification.name.clone(),
        pid,
        started: begun,
        id: format!("{}-{pid}-{begun}", specification.name),
        title,
        scheme,
        hosts: hosts.map_err(LabFailure::io("namespaces"))?,
        notes,
    };
    let io = LabFailure::io("the control socket");
    let path = dir.join(control::CONTROL);
    let listener = UnixListener::bind(&path).map_err(&io)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(&io)?;
    record.write(&dir)?;
    let rtt = smallest_rtt(&setup);
    Ok((
        Shared {
            lab,
            setup: Mutex::new((setup, rtt)),
            connections: AtomicUsize::new(0),
            capturing: Mutex::new(None),
            _dctcp: dctcp,
        },
        record,
        listener,
    ))
}

/// Connections served at a time; a capture is one for as long as it lasts.
const MAX_CONNECTIONS: usize = 32;

fn serve(shared: &Arc<Shared>, record: &Record, listener: &UnixListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if shared.lab.has_ended() {
            crate::say::note("the lab's thread has ended");
            return;
        }
        if shared.connections.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            // The client sees the connection close.
            let _ = control::send(&stream, &Answer::Error("too many requests at once; try again".to_owned()));
            continue;
        }
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
        match control::receive(&stream) {
            Ok(Request::Down) => {
                // The namespaces are ours: every process in them, marked or not, belongs to this lab.
                lab::end_processes(None, &record.inodes());
                if let Ok(dir) = directory(&record.name) {
                    // What stays, `lab down` tells of.
                    let _ = fs::remove_dir_all(dir);
                }
                let _ = control::send(&stream, &Answer::Ok(Value::Null));
                return;
            }
            Ok(request) => {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                std::thread::spawn(move || {
                    // A client that is gone needs no answer.
                    let _ = answer(&shared, &request, &stream);
                    shared.connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Err(message) => {
                let _ = control::send(&stream, &Answer::Error(message));
            }
        }
    }
}

fn answer(shared: &Shared, request: &Request, stream: &UnixStream) -> std::io::Result<()> {
    if let Request::Capture { link, snap, packets } = request {
        return capture(shared, link, *snap, *packets, stream);
    }
    let answer = match carry_out(shared, request) {
        Ok(value) => Answer::Ok(value),
        Err(message) => Answer::Error(message),
    };
    control::send(stream, &answer)
}

fn carry_out(shared: &Shared, request: &Request) -> Result<Value, String> {
    let lab = &shared.lab;
    let ended = |e: LabError| e.to_string();
    match request {
        Request::Status => {
            let rtt = shared.setup.lock().map_or(Time::ZERO, |setup| setup.1);
            lab.ask(move |driver| driver.status(rtt)).map(|status| json!(status)).map_err(ended)
        }
        Request::Link { link, up } => {
            let (link, up) = (find(lab, link)?, *up);
            lab.ask(move |driver| driver.set_link(link, up)).map(|()| Value::Null).map_err(ended)
        }
        Request::Set { link, rate, delay } => {
            let (link, rate, delay) = (find(lab, link)?, *rate, *delay);
            let sensible = |r: BitRate| (1_000..=100_000_000_000_000).contains(&r.as_bps());
            if delay.is_some_and(|d| d > Time::from_secs(10)) || rate.is_some_and(|r| !sensible(r)) {
                return Err("give a delay up to 10s and a rate from 1Kbps to 100Tbps".to_owned());
            }
            let (rate, delay) = lab.set_wire(link, rate, delay).map_err(ended)?;
            if let Ok(mut setup) = shared.setup.lock() {
                let wire = &mut setup.0.topology.links[link as usize];
                (wire.rate, wire.delay) = (rate, delay);
                setup.1 = smallest_rtt(&setup.0);
            }
            Ok(json!({ "link": lab.topology().link_name(link), "rate": rate, "delay": delay }))
        }
        Request::Capture { .. } | Request::Down => Ok(Value::Null),
    }
}

fn find(lab: &Lab, name: &str) -> Result<u32, String> {
    let fabric = lab.topology();
    fabric.link_named(&long_name(name)).ok_or_else(|| {
        let links: Vec<String> = (0..fabric.links.len() as u32).map(|l| fabric.link_name(l)).collect();
        let near = config::closest(name, links.iter().map(String::as_str));
        match near.or(links.first().map(String::as_str)) {
            Some(near) => format!("there is no link {name:?}; did you mean {near:?}?"),
            None => format!("there is no link {name:?}"),
        }
    })
}

/// `h3-leaf1` is `host3-leaf1`.
fn long_name(link: &str) -> String {
    let long = |end: &str| match end.strip_prefix('h').filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        Some(number) if !number.is_empty() => format!("host{number}"),
        _ => end.to_owned(),
    };
    link.split('-').map(long).collect::<Vec<_>>().join("-")
}

fn capture(shared: &Shared, link: &str, snap: u32, packets: u64, stream: &UnixStream) -> std::io::Result<()> {
    let fabric = shared.lab.topology();
    let found = match find(&shared.lab, link) {
        Ok(found) => found,
        Err(message) => return control::send(stream, &Answer::Error(message)),
    };
    let from = &fabric.nodes[fabric.links[found as usize].a as usize].name;
    let backward = long_name(link).split('-').next() != Some(from);
    let port = 2 * found + u32::from(backward);
    let Some(_turn) = Turn::take(&shared.capturing, link) else {
        let other = shared.capturing.lock().ok().and_then(|other| other.clone()).unwrap_or_default();
        let message = format!("packets are being captured on {other} already; end that capture, or wait for it");
        return control::send(stream, &Answer::Error(message));
    };
    let (to, frames) = mpsc::sync_channel(8192);
    let started = shared.lab.ask(move |driver| {
        driver.capture(port, snap as usize, packets, to);
        driver.begun_real_ns()
    });
    let begun_ns = match started {
        Ok(begun_ns) => begun_ns,
        Err(error) => return control::send(stream, &Answer::Error(error.to_string())),
    };
    control::send(stream, &Answer::Ok(json!({ "begun_ns": begun_ns })))?;
    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
    // Until the last packet, or until the client goes away: `frames` is then dropped, which ends the capture.
    loop {
        match frames.recv_timeout(Duration::from_millis(200)) {
            Ok(frame) => control::send_frame(stream, &frame)?,
            // The client says nothing more: what can be read is its end.
            Err(RecvTimeoutError::Timeout) if matches!((&*stream).read(&mut [0]), Ok(0)) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// One capture at a time: the fabric has one tap.
struct Turn<'a>(&'a Mutex<Option<String>>);

impl Turn<'_> {
    /// Waits a moment for one that is just ending.
    fn take<'a>(of: &'a Mutex<Option<String>>, link: &str) -> Option<Turn<'a>> {
        for _ in 0..50 {
            let mut taken = of.lock().ok()?;
            if taken.is_none() {
                *taken = Some(link.to_owned());
                return Some(Turn(of));
            }
            drop(taken);
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Ok(mut taken) = self.0.lock() {
            *taken = None;
        }
    }
}
