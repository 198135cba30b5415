//! `selvedge ctl`: asks a running agent. Needs nothing of the kernel edge, only its socket.

mod texts;

use agent_api::pod::Pod;
use agent_api::protocol::{
    Answer, Command, CounterValue, Limit, Outcome, Path as PeerPath, Port, Request, RequestedLimit, Tenants,
    MAX_ANSWER, MAX_FLOWS, SOCKET, VERSION,
};
use clap::{ArgGroup, Args, Subcommand};
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use units::{BitRate, Time};

#[derive(Debug, Args)]
pub struct Ctl {
    #[command(subcommand)]
    pub command: Question,
    /// Print the agent's answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Socket of the agent
    #[arg(long, global = true, value_name = "PATH", default_value = SOCKET)]
    pub socket: PathBuf,
    /// How long to wait for the agent's answer
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    pub timeout: Time,
}

fn timeout(text: &str) -> Result<Time, String> {
    match text.parse() {
        Ok(time) if (Time::from_ms(1)..=Time::from_secs(3600)).contains(&time) => Ok(time),
        Ok(time) => Err(format!("{} is out of range: write 1ms to 3600s", config::shown(time))),
        Err(_) => Err("it is no time with its unit: write \"3s\" or \"500ms\"".into()),
    }
}

#[derive(Debug, Subcommand)]
pub enum Question {
    /// The agent, its uplinks, and its problems
    Status,
    /// Guests' interfaces and their addresses
    Ports,
    /// Connections, those that carried most first
    Flows {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
        limit: u32,
        /// Show what congestion control makes of them
        #[arg(long)]
        cc: bool,
    },
    /// Peers, and the labels that traffic to them takes in turn; of one peer also its paths, hop by hop
    Paths {
        /// Name or address of a peer
        #[arg(value_name = "DEST")]
        peer: Option<String>,
    },
    /// What the kernel edge has counted since it was made
    Counters,
    /// Rate limits of ports: rate, queue, and what keeps it short
    Limits,
    /// Guests' shares of the uplink: rate, fair rate, marks
    Tenants,
    /// Limit an interface until it ends or `unlimit`, whatever the configuration says of its rates
    #[command(group = ArgGroup::new("rates").required(true).multiple(true).args(["egress", "ingress"]))]
    Limit {
        /// The host's end of a guest's interface
        #[arg(value_name = "INTERFACE")]
        interface: String,
        /// Of what the guest sends, such as 300Mbps
        #[arg(long, value_name = "RATE")]
        egress: Option<BitRate>,
        /// Of what the guest gets
        #[arg(long, value_name = "RATE")]
        ingress: Option<BitRate>,
    },
    /// Take back what `limit` has done; rates of the configuration hold again
    Unlimit {
        #[arg(value_name = "INTERFACE")]
        interface: String,
    },
    /// Read the configuration again; a bad one changes nothing
    Reload,
}

#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    #[error("no agent answers on {0}: {1}; start one with `selvedge agent run`, or name its socket with --socket")]
    NoAgent(PathBuf, io::Error),
    #[error("may not talk to the agent on {0}: only root may")]
    NotPermitted(PathBuf),
    #[error("the agent on {0} has ended before it answered; try again")]
    Gone(PathBuf),
    #[error("the agent on {0} {1}")]
    Broken(PathBuf, String),
    #[error("{0}")]
    Refused(String),
}

/// Remedy where the two do not understand one another.
const OWN: &str = "use the `selvedge` that the agent runs, or start the agent anew with this one";

/// To take the request, and to answer it: a reload may take a while.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the agent one thing. An agent that has not answered in full after `patience` is given up.
///
/// # Errors
/// [`CtlError::NoAgent`] if nobody listens; otherwise the error of the connection, or the agent's own.
pub fn ask(socket: &Path, command: Command, patience: Duration) -> Result<serde_json::Value, CtlError> {
    // In a thread of its own, because connecting can take time as well as each part of the answer. It ends with the program.
    let (to, from) = mpsc::channel();
    let path = socket.to_owned();
    let asked = std::thread::Builder::new().spawn(move || to.send(exchange(&path, command, patience)));
    asked.map_err(|e| CtlError::Broken(socket.into(), format!("cannot be asked: {e}")))?;
    from.recv_timeout(patience).unwrap_or_else(|_| Err(CtlError::Broken(socket.into(), given_up(patience))))
}

fn given_up(patience: Duration) -> String {
    let time = Time::from_ns(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
    format!("has not answered within {time}; --timeout waits longer")
}

fn exchange(socket: &Path, command: Command, patience: Duration) -> Result<serde_json::Value, CtlError> {
    let broken = |why: String| CtlError::Broken(socket.into(), why);
    let mut stream = UnixStream::connect(socket).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => CtlError::NotPermitted(socket.into()),
        _ => CtlError::NoAgent(socket.into(), e),
    })?;
    let silent = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => broken(given_up(patience)),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CtlError::Gone(socket.into()),
        _ => broken(format!("does not answer: {e}")),
    };
    stream.set_read_timeout(Some(patience)).map_err(silent)?;
    stream.set_write_timeout(Some(patience)).map_err(silent)?;
    let mut line = serde_json::to_vec(&Request { version: VERSION, command }).unwrap_or_default();
    line.push(b'\n');
    stream.write_all(&line).map_err(silent)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER as u64 + 1).read_to_end(&mut answer).map_err(silent)?;
    if answer.is_empty() {
        return Err(CtlError::Gone(socket.into()));
    }
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|e| broken(format!("answers what this program does not understand: {e}; {OWN}")))?;
    match answer.outcome {
        _ if answer.version != VERSION => {
            let spoken = answer.version;
            Err(broken(format!("speaks version {spoken} of the protocol, and this program {VERSION}; {OWN}")))
        }
        Outcome::Ok(value) => Ok(value),
        Outcome::Error(why) => Err(CtlError::Refused(why)),
    }
}

/// # Errors
/// As [`ask`].
pub fn run(ctl: &Ctl) -> Result<(), CtlError> {
    let command = match &ctl.command {
        Question::Status => Command::Status,
        Question::Ports => Command::Ports,
        Question::Flows { limit, .. } => Command::Flows { limit: *limit },
        Question::Paths { peer } => Command::Paths { peer: peer.clone() },
        Question::Counters => Command::Counters,
        Question::Limits => Command::Limits,
        Question::Tenants => Command::Tenants,
        Question::Limit { interface, egress, ingress } => Command::Limit(RequestedLimit {
            interface: interface.clone(),
            owner: owner(interface),
            egress_bps: egress.map(BitRate::as_bps),
            ingress_bps: ingress.map(BitRate::as_bps),
            enters: false,
            pod: Pod::default(),
        }),
        Question::Unlimit { interface } => Command::Unlimit { owner: owner(interface) },
        Question::Reload => Command::Reload,
    };
    let answer = ask(&ctl.socket, command, Duration::from_nanos(ctl.timeout.as_ns()))?;
    if ctl.json {
        crate::say::json(&answer);
        return Ok(());
    }
    let text = match &ctl.command {
        Question::Status => texts::status(&read(ctl, answer)?),
        Question::Ports => texts::ports(&read::<Vec<Port>>(ctl, answer)?),
        Question::Flows { cc: true, .. } => texts::congestion(&read(ctl, answer)?),
        Question::Flows { .. } => texts::flows(&read(ctl, answer)?),
        Question::Paths { peer } => texts::paths(&read::<Vec<PeerPath>>(ctl, answer)?, peer.is_some()),
        Question::Counters => texts::counters(&read::<Vec<CounterValue>>(ctl, answer)?),
        Question::Limits | Question::Limit { .. } => texts::limits(&read::<Vec<Limit>>(ctl, answer)?),
        Question::Tenants => texts::tenants(read::<Option<Tenants>>(ctl, answer)?.as_ref()),
        Question::Unlimit { interface } => match read::<bool>(ctl, answer)? {
            true => String::new(),
            false => format!("{interface} has no limit of `selvedge ctl limit`\n"),
        },
        Question::Reload => "reloaded\n".to_owned(),
    };
    say_on!("{text}");
    Ok(())
}

/// Of the limits of this command.
fn owner(interface: &str) -> String {
    format!("ctl/{interface}")
}

fn read<T: DeserializeOwned>(ctl: &Ctl, value: serde_json::Value) -> Result<T, CtlError> {
    let why = |e| CtlError::Broken(ctl.socket.clone(), format!("answers what this program does not understand: {e}"));
    serde_json::from_value(value).map_err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_there_is_one_line() {
        let error = ask(Path::new("/nowhere/ctl.sock"), Command::Status, PATIENCE).unwrap_err().to_string();
        assert!(error.starts_with("no agent answers on /nowhere/ctl.sock"), "{error}");
    }
}
