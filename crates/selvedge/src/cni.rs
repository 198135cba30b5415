//! A chained plugin of the Container Network Interface (CNI specification 1.1.0): has the agent limit a container's rates.
//!
//! A runtime calls the program without arguments, with CNI_COMMAND in its environment and a network's configuration on
//! standard input. The answer, an error too, is one JSON object on standard output. Containers keep the network that earlier
//! plugins of the chain have made, and the result passes through unchanged.

mod call;
mod ends;
pub mod install;
mod list;
mod segment;

use crate::ctl::{ask, CtlError};
use agent_api::protocol::{Command, Limit, RequestedLimit};
use call::{Attachment, Call, Verb};
use serde_json::{json, Value};
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Versions of the specification; the last is the one that answers carry where a configuration names none.
const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
/// A longer configuration is a mistake.
const MAX_BYTES: u64 = 4 << 20;
/// For the agent to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Numbers of the specification, section "Error", and from 100 on our own.
const INCOMPATIBLE: u32 = 1;
const WRONG_ENVIRONMENT: u32 = 4;
const FAILED_IO: u32 = 5;
const NOT_DECODED: u32 = 6;
const INVALID: u32 = 7;
const TRY_LATER: u32 = 11;
const NOT_AVAILABLE: u32 = 50;
const REFUSED: u32 = 100;

/// What the runtime is told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CniError {
    code: u32,
    msg: String,
}

impl CniError {
    fn new(code: u32, msg: impl Into<String>) -> CniError {
        CniError { code, msg: msg.into() }
    }
}

/// Does a runtime call, rather than a person?
pub fn is_called() -> bool {
    std::env::var_os("CNI_COMMAND").is_some() && std::env::args_os().len() == 1
}

/// Does what the environment and standard input ask for.
pub fn run() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut input);
    let read = read.map(drop).map_err(|e| CniError::new(FAILED_IO, format!("cannot read standard input: {e}")));
    let (version, done) = match read {
        Ok(()) => answer(&variable, &input),
        Err(error) => (None, Err(error)),
    };
    match done {
        Ok(Value::Null) => ExitCode::SUCCESS,
        Ok(result) => {
            crate::say::json(&result);
            ExitCode::SUCCESS
        }
        Err(CniError { code, msg }) => {
            let version = version.unwrap_or_else(|| VERSIONS[VERSIONS.len() - 1].to_owned());
            crate::say::json(&json!({ "cniVersion": version, "code": code, "msg": msg }));
            ExitCode::FAILURE
        }
    }
}

/// The configuration's version, and the result; null: nothing is printed.
fn answer(variable: &dyn Fn(&str) -> Option<String>, input: &[u8]) -> (Option<String>, Result<Value, CniError>) {
    if variable("CNI_COMMAND").as_deref() == Some("VERSION") {
        let version =
            serde_json::from_slice::<Value>(input).ok().and_then(|v| Some(v["cniVersion"].as_str()?.to_owned()));
        let version = version.unwrap_or_else(|| VERSIONS[VERSIONS.len() - 1].to_owned());
        return (None, Ok(json!({ "cniVersion": version, "supportedVersions": VERSIONS })));
    }
    match Call::read(variable, input) {
        Ok(call) => (Some(call.version.clone()), carry_out(&call)),
        Err((version, error)) => (version, Err(error)),
    }
}

fn carry_out(call: &Call) -> Result<Value, CniError> {
    match &call.verb {
        Verb::Add(attachment) => add(call, attachment),
        Verb::Del(attachment) => del(call, &attachment.owner),
        Verb::Check(attachment) => check(call, attachment),
        Verb::Status => available(&call.socket),
        Verb::Gc { valid } => collect(call, valid),
    }
}

/// Limits the host's end of the container's interface, and hands the result on.
#[allow(clippy::disallowed_methods, reason = "waits for the agent")]
fn add(call: &Call, attachment: &Attachment) -> Result<Value, CniError> {
    let Some(previous) = &call.previous else {
        let msg = "there is no prevResult: list this plugin behind the one that makes the interface";
        return Err(CniError::new(INVALID, msg));
    };
    if !previous.is_object() {
        let msg = "prevResult is no object: pass on what the plugin before this one has printed";
        return Err(CniError::new(NOT_DECODED, msg));
    }
    if call.rates.is_none() {
        // Perhaps the limit of a container that had one.
        let ended = del(call, &attachment.owner);
        return ended.map(|_| previous.clone());
    }
    let interface = ends::host_end(previous, attachment)?;
    if let Some((ms, bps)) = call.segment_ms.zip(call.rates.egress_bps) {
        let bytes = segment::bytes(bps, ms);
        ends::inside(attachment, |index| segment::shorten(index, bytes)).map_err(|e| {
            let msg = format!(
                "cannot shorten the segments of {}: {e}; leave out maxSegmentMs to do without",
                attachment.ifname
            );
            CniError::new(FAILED_IO, msg)
        })?;
    }
    let until = Instant::now() + call.wait;
    let (mut straight, mut put) = (call.straight, false);
    loop {
        let wanted = RequestedLimit { enters: straight, ..wanted(call, attachment, interface.clone()) };
        match ask(&call.socket, Command::Limit(wanted), PATIENCE) {
            Ok(limits) => match guard(&decode::<Vec<Limit>>(limits)?, attachment, straight, put) {
                Ok(Guarded::Known) => return Ok(previous.clone()),
                Ok(Guarded::New) => put = true, // the agent is to know
                Err(e) => {
                    let unlimited = "what its network puts straight into it is not limited";
                    crate::say::note(&format!("{} of the container: {unlimited}: {e}", attachment.ifname));
                    straight = false;
                }
            },
            // It is being upgraded, or begins with the host.
            Err(CtlError::NoAgent(..) | CtlError::Broken(..)) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(error) => return Err(told(&error)),
        }
    }
}

/// What is on the container's own end, if it is to be there.
enum Guarded {
    Known,
    New,
}

/// Has all that gets to the container go back to the host's end, where its limits are, if the agent says with what.
///
/// # Errors
/// Why not; before Linux 6.6 it cannot be done. Nor if it has been `put` there and the agent does not see it: then it is taken away again.
fn guard(limits: &[Limit], attachment: &Attachment, straight: bool, put: bool) -> io::Result<Guarded> {
    match limits.iter().find_map(|limit| limit.inside.as_ref()) {
        Some(inside) if !inside.there && put => {
            let _ = std::fs::remove_file(&inside.link); // its program goes with it
            Err(io::Error::other(format!(
                "the agent does not see {}: both need the same BPF file system",
                inside.link.display()
            )))
        }
        Some(inside) if !inside.there => {
            ends::inside(attachment, |index| port::pinned::link_first(&inside.program, index, &inside.link))?;
            Ok(Guarded::New)
        }
        None if straight => {
            Err(io::Error::other("the agent has no program for it; it needs laws, and a port without a network"))
        }
        _ => Ok(Guarded::Known),
    }
}

fn wanted(call: &Call, attachment: &Attachment, interface: String) -> RequestedLimit {
    let rates = call.rates;
    RequestedLimit {
        interface,
        owner: attachment.owner.clone(),
        egress_bps: rates.egress_bps,
        ingress_bps: rates.ingress_bps,
        enters: call.straight,
        pod: attachment.pod.clone(),
    }
}

/// Without an agent, or with one that dies meanwhile, nothing is to be done: a limit ends with its interface, as the next agent finds
/// out.
fn del(call: &Call, owner: &str) -> Result<Value, CniError> {
    match ask(&call.socket, Command::Unlimit { owner: owner.to_owned() }, PATIENCE) {
        Ok(_) | Err(CtlError::NoAgent(..)) => Ok(Value::Null),
        Err(error @ CtlError::Broken(..)) => {
            crate::say::note(&error.to_string());
            Ok(Value::Null)
        }
        Err(error) => Err(told(&error)),
    }
}

/// Is the limit that ADD asked for still in force?
fn check(call: &Call, attachment: &Attachment) -> Result<Value, CniError> {
    let gone = |what: &str| CniError::new(REFUSED, format!("{}: {what}", attachment.ifname));
    if call.rates.is_none() {
        return Ok(Value::Null);
    }
    let requested: Vec<RequestedLimit> = decode(ask_agent(&call.socket, Command::Requested)?)?;
    let Some(mine) = requested.into_iter().find(|limit| limit.owner == attachment.owner) else {
        return Err(gone("the agent knows of no limit for it; delete and add the container's network"));
    };
    // The pod may be missing: an earlier version of this plugin did not tell it.
    if (mine.egress_bps, mine.ingress_bps) != (call.rates.egress_bps, call.rates.ingress_bps) {
        return Err(gone("its limit is another than the configuration's"));
    }
    let limits: Vec<Limit> = decode(ask_agent(&call.socket, Command::Limits)?)?;
    let mut inside =
        limits.iter().filter(|limit| limit.interface == mine.interface).filter_map(|limit| limit.inside.as_ref());
    if inside.any(|inside| !inside.there) {
        return Err(gone("what its network puts straight into it is not limited; `selvedge ctl status` says so"));
    }
    for (direction, rate) in [("egress", mine.egress_bps), ("ingress", mine.ingress_bps)] {
        let there = |limit: &Limit| limit.interface == mine.interface && limit.direction == direction && limit.in_force;
        if rate.is_some() && !limits.iter().any(there) {
            return Err(gone(&format!("its {direction} limit is not in force; `selvedge ctl status` says why")));
        }
    }
    Ok(Value::Null)
}

fn available(socket: &Path) -> Result<Value, CniError> {
    let down = |error: CtlError| CniError::new(NOT_AVAILABLE, in_words_of_cni(&error));
    ask(socket, Command::Status, PATIENCE).map(|_| Value::Null).map_err(down)
}

/// Ends the limits of this network's containers that are not among the valid ones.
fn collect(call: &Call, valid: &[String]) -> Result<Value, CniError> {
    let requested: Vec<RequestedLimit> = decode(ask_agent(&call.socket, Command::Requested)?)?;
    let mine = |limit: &&RequestedLimit| limit.owner.starts_with(&call::owner(&call.network, "", "")[..]);
    for limit in requested.iter().filter(mine).filter(|limit| !valid.contains(&limit.owner)) {
        ask_agent(&call.socket, Command::Unlimit { owner: limit.owner.clone() })?;
    }
    Ok(Value::Null)
}

fn ask_agent(socket: &Path, command: Command) -> Result<Value, CniError> {
    ask(socket, command, PATIENCE).map_err(|error| told(&error))
}

fn told(error: &CtlError) -> CniError {
    let code = match error {
        CtlError::NoAgent(..) | CtlError::Gone(_) | CtlError::Broken(..) => TRY_LATER,
        CtlError::NotPermitted(_) => FAILED_IO,
        CtlError::Refused(_) => REFUSED,
    };
    CniError::new(code, in_words_of_cni(error))
}

/// A runtime has no command line to correct.
fn in_words_of_cni(error: &CtlError) -> String {
    match error {
        CtlError::NoAgent(socket, why) => format!(
            "no agent answers on {}: {why}; start it, or name its socket with \"socket\" in the network's configuration",
            socket.display()
        ),
        other => other.to_string(),
    }
}

fn decode<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CniError> {
    let not_understood = |e| CniError::new(NOT_DECODED, format!("the agent's answer is not understood: {e}"));
    serde_json::from_value(value).map_err(not_understood)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn called(verb: &str, input: &str) -> Result<Value, CniError> {
        let variable = |name: &str| match name {
            "CNI_COMMAND" => Some(verb.to_owned()),
            "CNI_CONTAINERID" => Some("c1".to_owned()),
            "CNI_IFNAME" => Some("eth0".to_owned()),
            "CNI_NETNS" => Some("/nowhere".to_owned()),
            _ => None,
        };
        answer(&variable, input.as_bytes()).1
    }

    const NETWORK: &str = r#""cniVersion": "1.1.0", "name": "net", "type": "selvedge", "socket": "/nowhere/ctl.sock""#;
    const PREVIOUS: &str = r#""prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "veth1"}]}"#;
    const RATES: &str = r#""runtimeConfig": {"bandwidth": {"egressRate": 1000000}}"#;

    #[test]
    fn without_rates_the_result_passes_and_no_agent_is_needed() {
        let result = called("ADD", &format!("{{{NETWORK}, {PREVIOUS}}}")).unwrap();
        assert_eq!(result["interfaces"][0]["name"], "veth1");
        assert_eq!(called("CHECK", &format!("{{{NETWORK}, {PREVIOUS}}}")), Ok(Value::Null));
    }

    #[test]
    fn without_an_agent_nothing_is_promised_and_deletion_is_done() {
        assert_eq!(called("DEL", &format!("{{{NETWORK}, {RATES}}}")), Ok(Value::Null));
        assert_eq!(called("CHECK", &format!("{{{NETWORK}, {PREVIOUS}, {RATES}}}")).unwrap_err().code, TRY_LATER);
        for valid in ["[]", "null", r#"[{"containerID": "c2", "ifname": "eth0"}]"#] {
            let input = format!(r#"{{{NETWORK}, "cni.dev/valid-attachments": {valid}}}"#);
            assert_eq!(called("GC", &input).unwrap_err().code, TRY_LATER, "{valid}");
        }
        let status = called("STATUS", &format!("{{{NETWORK}}}")).unwrap_err();
        assert!(status.code == NOT_AVAILABLE && status.msg.contains("\"socket\" in the network's"), "{status:?}");
    }

    #[test]
    fn mistakes_have_the_numbers_of_the_specification() {
        let rates = format!("{{{NETWORK}, {RATES}}}");
        assert_eq!(called("ADD", &rates).unwrap_err().code, INVALID, "no prevResult");
        let no_namespace = called("ADD", &format!("{{{NETWORK}, {PREVIOUS}, {RATES}}}")).unwrap_err();
        assert!(no_namespace.code == FAILED_IO && no_namespace.msg.contains("/nowhere"), "{no_namespace:?}");
        assert_eq!(called("ADD", "{").unwrap_err().code, NOT_DECODED);
        for no_object in ["[]", "7", "\"eth0\""] {
            let passed_on = called("ADD", &format!("{{{NETWORK}, \"prevResult\": {no_object}}}")).unwrap_err();
            assert!(passed_on.code == NOT_DECODED && passed_on.msg.contains("prevResult"), "{passed_on:?}");
        }
        assert_eq!(called("GC", &format!("{{{NETWORK}}}")).unwrap_err().code, INVALID, "which containers are left?");
        assert_eq!(called("ADD", r#"{"cniVersion": "0.2.0", "name": "net"}"#).unwrap_err().code, INCOMPATIBLE);
        assert_eq!(called("PUT", &rates).unwrap_err().code, WRONG_ENVIRONMENT);
        let version = called("VERSION", r#"{"cniVersion": "0.4.0"}"#).unwrap();
        assert_eq!(
            (&version["cniVersion"], version["supportedVersions"].as_array().unwrap().len()),
            (&json!("0.4.0"), 5)
        );
    }

    proptest! {
        #[test]
        fn any_input_is_answered(verb in "ADD|DEL|CHECK|STATUS|GC|VERSION|", input in r#"[\[\]{}:,"a-z0-9. -]{0,60}|\PC{0,40}"#) {
            let _ = called(&verb, &input);
            let _ = called(&verb, &format!("{{{NETWORK}, \"prevResult\": {input}}}"));
            let _ = called(&verb, &format!("{{{NETWORK}, \"runtimeConfig\": {input}}}"));
        }
    }
}
