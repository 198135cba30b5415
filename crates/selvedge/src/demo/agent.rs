//! The agent that limits the demonstration's container.

use super::network::{Network, PORT};
use crate::ctl::{self, CtlError};
use crate::interrupt::{Companion, Scratch};
use agent_api::pod::Pod;
use agent_api::protocol::{Command as Order, Limit, RequestedLimit, Status};
use lab::HostNamespace;
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use units::BitRate;

/// How long the agent has until it answers: an emulated processor verifies programs for half a minute.
const PATIENCE: Duration = Duration::from_secs(120);
const BPFFS: &str = "/sys/fs/bpf";
const OWNER: &str = "ctl/demo";

/// `[limits]` of the agent's configuration.
pub(super) struct Law {
    pub(super) name: &'static str,
    pub(super) sparse_first: bool,
}

/// This binary as an agent, in the host's namespace. Killed when dropped: all that it changed goes with its namespaces.
pub(super) struct Agent {
    process: Companion,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    _scratch: Scratch,
}

impl Agent {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// The agent's own reason, or what the kernel refuses.
    pub(super) fn start(network: &Network, law: &Law) -> Result<Agent, String> {
        let scratch = Scratch::new("selvedge-demo").map_err(|e| format!("no directory for the agent's files: {e}"))?;
        let file = |name: &str| scratch.path().join(name);
        let (config, socket, log) = (file("agent.toml"), file("ctl.sock"), file("agent.log"));
        let started = configure(&config, &socket, law).and_then(|()| spawn(&network.host, &config, &log));
        let process = started.map_err(|e| format!("the agent cannot be started: {e}"))?;
        let mut agent = Agent { process, config, socket, log, _scratch: scratch };
        agent.wait()?;
        Ok(agent)
    }

    #[allow(clippy::disallowed_methods, reason = "waits for another process")]
    fn wait(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.process.ended() {
                let said = last_line(&fs::read_to_string(&self.log).unwrap_or_default());
                return Err(format!("the agent does not start: {}", said.unwrap_or_else(|| status.to_string())));
            }
            if ctl::ask(&self.socket, Order::Status, PATIENCE).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the agent has not answered within {} s", PATIENCE.as_secs()))
    }

    /// Limits the container anew, both ways, by this law.
    ///
    /// # Errors
    /// Why the law does not act here.
    pub(super) fn limit(&self, rate: BitRate, law: &Law) -> Result<(), String> {
        configure(&self.config, &self.socket, law).map_err(|e| format!("the agent's configuration: {e}"))?;
        self.ask(Order::Unlimit { owner: OWNER.into() })?;
        self.ask(Order::Reload)?;
        let bps = Some(rate.as_bps());
        let wanted = RequestedLimit {
            interface: PORT.into(),
            owner: OWNER.into(),
            egress_bps: bps,
            ingress_bps: bps,
            enters: false,
            pod: Pod::default(),
        };
        let limits: Vec<Limit> = serde_json::from_value(self.ask(Order::Limit(wanted))?).unwrap_or_default();
        if limits.len() == 2 && limits.iter().all(|limit| limit.in_force && limit.law == law.name) {
            return Ok(());
        }
        let status: Option<Status> = serde_json::from_value(self.ask(Order::Status)?).ok();
        let why = status.and_then(|status| status.problems.into_iter().next());
        Err(why.unwrap_or_else(|| format!("the agent does not put limits with law {:?} in force", law.name)))
    }

    fn ask(&self, order: Order) -> Result<serde_json::Value, String> {
        ctl::ask(&self.socket, order, PATIENCE).map_err(|e| match e {
            CtlError::Refused(why) => format!("the agent refuses: {why}"),
            other => other.to_string(),
        })
    }
}

/// What the configuration says of limits.
pub(super) fn limits(law: &Law) -> String {
    format!("[limits]\nlaw = {:?}\nsparse_first = {}\n", law.name, law.sparse_first)
}

fn configure(config: &Path, socket: &Path, law: &Law) -> io::Result<()> {
    let head = format!("[agent]\npins = \"{BPFFS}/selvedge-demo\"\nsocket = {socket:?}\nmax_flows = 1024\n\n");
    fs::write(config, head + limits(law).as_str())
}

fn spawn(host: &HostNamespace, config: &Path, log: &Path) -> io::Result<Companion> {
    let log = File::create(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    // Nobody writes there: it ends with this process, also when that is killed.
    command.args(["agent", "run", "--end-with-input", "--config"]).arg(config);
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    host.enter(|| {
        private_bpffs()?;
        Companion::spawn(&mut command)
    })
}

/// Gives the calling thread, and the programs that it starts, a BPF file system that ends with them.
fn private_bpffs() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), none)
        .map_err(|e| io::Error::other(format!("cannot mount a BPF file system at {BPFFS}: {e}")))
}

/// The last line of a log that says something, without the program's name.
fn last_line(log: &str) -> Option<String> {
    let line = log.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.strip_prefix("selvedge: ").unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_last_line_is_the_reason() {
        assert_eq!(last_line("a\nselvedge: needs HTB\n\n").as_deref(), Some("needs HTB"));
        assert_eq!(last_line(" \n"), None);
    }
}
