//! `selvedge agent`: the kernel edge of this host.

mod addresses;
pub mod file;

use crate::ctl::{self, CtlError};
use crate::kernel_edge;
use crate::logging::Logging;
use agent_api::protocol::Command;
use clap::{Args, Subcommand};
use config::ConfigError;
use nix::sys::signal::{kill, SigSet, Signal};
use nix::unistd::Pid;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Run the agent until SIGTERM, which leaves the edge in the kernel; SIGHUP reads the file again
    Run {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        logging: Logging,
        /// End, as by SIGTERM, when standard input does: with the program that holds its other end, however that ends
        #[arg(long)]
        end_with_input: bool,
    },
    /// Take the edge out of the kernel, whether its agent runs or not
    Stop(Stop),
    /// Check a configuration, and what it names on this host; changes nothing
    Check(Arguments),
}

#[derive(Debug, Args)]
pub struct Arguments {
    /// Configuration; docs/agent.md describes it
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
pub struct Stop {
    /// Configuration of the agent, for its pins and its socket [default: those of an agent that names none]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Then stay until SIGTERM: Kubernetes starts a container of a DaemonSet again when it ends
    #[arg(long)]
    pub stay: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Ctl(#[from] CtlError),
    #[error(transparent)]
    Run(#[from] kernel_edge::Error),
    #[error("{path}: {1}", path = .0.display())]
    Named(PathBuf, kernel_edge::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(nix::Error),
    #[error("cannot watch standard input: {0}")]
    Input(io::Error),
}

impl AgentError {
    /// Is the request at fault, rather than the machine?
    pub fn is_request(&self) -> bool {
        match self {
            AgentError::Config(_) => true,
            AgentError::Run(error) => error.is_request(),
            _ => false,
        }
    }
}

/// # Errors
/// One line why it was not done.
pub fn run(agent: &Agent) -> Result<(), AgentError> {
    match agent {
        Agent::Run { arguments, logging, end_with_input } => {
            logging.start();
            if *end_with_input {
                std::thread::Builder::new().spawn(wait_for_end_of_input).map_err(AgentError::Input)?;
            }
            serve(&arguments.config)
        }
        Agent::Stop(arguments) => stop_and_stay(arguments),
        Agent::Check(arguments) => check(&arguments.config),
    }
}

fn serve(path: &Path) -> Result<(), AgentError> {
    kernel_edge::run(&mut || file::load(path).map_err(|e| e.to_string())).map_err(|e| of_file(path, e))
}

/// What is wrong with a key is said with the file's name.
fn of_file(path: &Path, error: kernel_edge::Error) -> AgentError {
    if error.is_of_file() {
        AgentError::Named(path.to_owned(), error)
    } else {
        AgentError::Run(error)
    }
}

/// Before the agent listens to signals, this one ends it at once, as it then has changed nothing that must be undone.
fn wait_for_end_of_input() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // what cannot be read is over, too
    let _ = kill(Pid::this(), Signal::SIGTERM); // to oneself it does not fail
}

fn check(path: &Path) -> Result<(), AgentError> {
    let config = file::load_from_any(path)?;
    if !path.is_file() {
        crate::say::note(&format!("{} is no regular file: `selvedge agent run` takes none such", path.display()));
    }
    say!(
        "{}: {} port rules, {} peers, policy {}",
        path.display(),
        config.ports.len(),
        config.peers.len(),
        config.balance.scheme().name
    );
    for line in kernel_edge::resolve(&config).map_err(|e| of_file(path, e))? {
        say!("{line}");
    }
    Ok(())
}

fn stop_and_stay(arguments: &Stop) -> Result<(), AgentError> {
    // A signal that comes meanwhile waits: what is begun is brought to its end.
    let end = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    if arguments.stay {
        end.thread_block().map_err(AgentError::Signals)?;
    }
    stop(arguments.config.as_deref())?;
    if arguments.stay {
        end.wait().map_err(AgentError::Signals)?;
    }
    Ok(())
}

fn stop(path: Option<&Path>) -> Result<(), AgentError> {
    let (pins, socket) = match path {
        Some(path) => {
            let config = file::load(path)?;
            (config.pins, config.socket)
        }
        None => (file::PINS.into(), file::SOCKET.into()),
    };
    match ctl::ask(&socket, Command::Stop, ctl::PATIENCE) {
        Ok(_) => {
            say!("stopped: nothing of the edge of {} is left in the kernel", pins.display());
            tell_of_others(&pins);
            Ok(())
        }
        Err(CtlError::NoAgent(..)) => remove(&pins, &socket),
        // It ends meanwhile: somebody else stops it, too.
        Err(CtlError::Gone(_)) => {
            kernel_edge::stop(&pins, &socket)?;
            say!("stopped: nothing of the edge of {} is left in the kernel", pins.display());
            tell_of_others(&pins);
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

fn remove(pins: &Path, socket: &Path) -> Result<(), AgentError> {
    kernel_edge::stop(pins, socket)?;
    say!("no agent ran; nothing of the edge of {} is left in the kernel", pins.display());
    tell_of_others(pins);
    Ok(())
}

/// Whoever stops one may have meant another.
fn tell_of_others(pins: &Path) {
    for other in kernel_edge::other_edges(pins) {
        say!("still there: the edge of {}; `agent stop --config` with its file stops it", other.display());
    }
}
