//! A lab for one test, made and removed by the binary as a user would.

use kernel_lab::{KernelLab, NamedNamespace};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const SELVEDGE: &str = env!("CARGO_BIN_EXE_selvedge");
/// How long anything may take before a test fails. A bound, not a measure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Past the test harness, which keeps what a passing test prints.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are often out of an ordinary user's path.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = places.map(|dir| dir.join(program)).any(|file| file.is_file());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

pub(crate) fn selvedge(arguments: &[&str]) -> Output {
    Command::new(SELVEDGE).args(arguments).output().unwrap()
}

/// Standard output of a command that succeeds.
pub(crate) fn ok(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

/// A lab that goes with the test, also where the test fails.
pub(crate) struct Rig {
    pub(crate) lab: KernelLab,
}

impl Rig {
    /// A lab of the name's own, made with these options; `None`, with the reason printed, where that is not possible.
    pub(crate) fn up(tag: &str, options: &[&str]) -> Option<Rig> {
        let edge = options.contains(&"--edge");
        if edge {
            let obstacle = selvedge::kernel_edge::available().err().or_else(crate::bpffs::obstacle);
            if let Some(why) = obstacle {
                skip(&why);
                return None;
            }
        }
        let rig = Rig::unmade(tag);
        let made = rig.verb("up", options);
        let why = String::from_utf8_lossy(&made.stderr).into_owned();
        if !made.status.success() && (why.contains("cannot be made here") || why.contains("cannot run ip")) {
            skip(why.trim());
            return None;
        }
        if edge && !made.status.success() && (why.contains("not permitted") || why.contains("bpffs")) {
            skip(why.trim());
            return None;
        }
        ok(made);
        Some(rig)
    }

    /// Names carry the process, so that two runs of the tests do not meet, and a number, so that two tests do not.
    pub(crate) fn unmade(tag: &str) -> Rig {
        static RIGS: AtomicU32 = AtomicU32::new(0);
        let number = RIGS.fetch_add(1, Ordering::Relaxed);
        Rig { lab: KernelLab::new(&format!("t{}x{number}{tag}", std::process::id() % 1_000_000)).unwrap() }
    }

    /// `selvedge lab kernel <verb> --name <this> <options>`.
    pub(crate) fn verb(&self, verb: &str, options: &[&str]) -> Output {
        let mut arguments = vec!["lab", "kernel", verb, "--name", self.lab.name()];
        arguments.extend(options);
        selvedge(&arguments)
    }

    pub(crate) fn namespace(&self, node: &str) -> NamedNamespace {
        self.lab.namespace(node.parse().unwrap())
    }

    /// Starts a program in a node's network.
    pub(crate) fn spawn(&self, node: &str, program: &str, arguments: &[impl AsRef<OsStr>]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(self.namespace(node).run(|| command.spawn()).unwrap().unwrap()))
    }

    /// Runs a command, its words separated by spaces, to its good end.
    pub(crate) fn run(&self, node: &str, command: &str) -> String {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap();
        ok(self.spawn(node, program, &words.collect::<Vec<_>>()).output())
    }

    /// The agent's processes of a host: those in its namespace that run this binary.
    pub(crate) fn agent(&self, host: &str) -> i32 {
        let own = std::fs::canonicalize(SELVEDGE).unwrap();
        let runs = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == own);
        self.namespace(host).processes().into_iter().find(runs).expect("an agent runs")
    }

    /// Starts the agent again, as an init system would, and waits until it answers.
    pub(crate) fn start_agent(&self, host: u16) {
        let mut child = self.lab.start_agent(host, Path::new(SELVEDGE)).unwrap();
        self.lab.await_agent(host, &mut child).unwrap();
        // Waited for in the end, so that the process table stays clean.
        std::thread::spawn(move || child.wait());
    }

    /// `selvedge agent stop`: takes the edge out.
    pub(crate) fn stop_agent(&self, host: &str) {
        let config = self.lab.directory().join(host).join("agent.toml");
        let arguments = ["agent".as_ref(), "stop".as_ref(), "--config".as_ref(), config.as_os_str()];
        ok(self.spawn(host, SELVEDGE, &arguments).output());
    }

    /// Has a host's agent run with another configuration. Where a rate limit is new, the kernel verifies more programs.
    pub(crate) fn configure(&self, host: &str, text: &str) {
        let dir = self.lab.directory().join(host);
        std::fs::write(dir.join("agent.toml"), text).unwrap();
        let socket = dir.join("ctl.sock");
        ok(selvedge(&["ctl", "--socket", socket.to_str().unwrap(), "--timeout", "120s", "reload"]));
    }

    /// What a host's agent was started with.
    pub(crate) fn configuration(&self, host: &str) -> String {
        std::fs::read_to_string(self.lab.directory().join(host).join("agent.toml")).unwrap()
    }

    /// `selvedge ctl <what> --json` of a host's agent.
    pub(crate) fn ctl(&self, host: &str, what: &str) -> serde_json::Value {
        let socket = self.lab.directory().join(host).join("ctl.sock");
        let socket = socket.to_str().unwrap();
        serde_json::from_str(&ok(selvedge(&["ctl", "--socket", socket, what, "--json"]))).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let down = self.verb("down", &[]);
        if !std::thread::panicking() {
            ok(down);
        }
    }
}

/// A child that ends with its owner.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// Waits for its own end, and reads what it wrote.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal through kill(1), which every system has.
pub(crate) fn signal(name: &str, pid: impl ToString) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// Waits for something to become true.
#[allow(clippy::disallowed_methods, reason = "waits for the operating system")]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A counter of a guest's TCP, as netstat -s and snmp name them.
pub(crate) fn tcp(rig: &Rig, guest: &str, name: &str) -> u64 {
    let text = rig.run(guest, "cat /proc/self/net/netstat /proc/self/net/snmp");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let found = lines.chunks(2).find_map(|pair| {
        let (names, values) = (&pair[0], &pair[1]);
        let at = names.iter().position(|n| *n == name)?;
        (names[0] == "TcpExt:" || names[0] == "Tcp:").then(|| values[at].parse().unwrap())
    });
    found.expect("a counter of Linux")
}
