//! `selvedge doctor --bundle FILE`: all that somebody elsewhere needs to find a fault, in one file of JSON for its owner only.

use super::Diagnosis;
use crate::ctl::ask;
use agent_api::protocol::{Command, MAX_FLOWS};
use serde_json::{json, Map, Value};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// For the agent to answer one question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of what a program prints, the beginning; bytes.
const MOST: usize = 1 << 20;
/// Connections, those that carried most: addresses of guests are in them.
const FLOWS: u32 = 100;

const QDISCS: &str = "tc -s qdisc show";
/// Devices with an HTB whose classes are told: those of the agent's pairs, and of ports with limits.
const QUEUES: usize = 64;

/// What the host says of itself; each ends after five seconds.
const PROGRAMS: [&str; 8] = [
    "uname -a",
    "ip -d -s link show",
    "ip address show",
    "ip route show table all",
    QDISCS,
    "bpftool net show",
    "bpftool prog show",
    "journalctl -u selvedge -n 500 --no-pager -o short-iso",
];

/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, diagnosis: &Diagnosis, config: Option<&Path>, socket: &Path) -> std::io::Result<()> {
    let mut host: Map<String, Value> = PROGRAMS.iter().map(|line| ((*line).to_owned(), said(line))).collect();
    for device in with_classes(&host[QDISCS]).into_iter().take(QUEUES) {
        let line = format!("tc -s class show dev {device}");
        let classes = said(&line);
        host.insert(line, classes);
    }
    let config = config.map(|path| match crate::input::read(path, MOST as u64, "name a file with --config") {
        Ok(text) => json!({ "file": path, "text": text }),
        Err(error) => json!({ "file": path, "error": error.to_string() }),
    });
    let bundle = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "doctor": diagnosis,
        "configuration": config,
        "agent": agent(socket),
        "host": host,
    });
    files::put(file, format!("{bundle:#}\n").as_bytes(), 0o600)
}

/// The agent's answers to all that only asks.
fn agent(socket: &Path) -> Value {
    const _: () = assert!(FLOWS <= MAX_FLOWS);
    let questions = [
        ("status", Command::Status),
        ("ports", Command::Ports),
        ("paths", Command::Paths { peer: None }),
        ("limits", Command::Limits),
        ("requested", Command::Requested),
        ("counters", Command::Counters),
        ("flows", Command::Flows { limit: FLOWS }),
    ];
    let mut answers = Map::new();
    for (name, question) in questions {
        let answer = ask(socket, question, PATIENCE);
        let silent = answer.is_err();
        answers.insert(name.to_owned(), answer.unwrap_or_else(|error| json!({ "error": error.to_string() })));
        if silent && name == "status" {
            break; // one line is enough of nobody
        }
    }
    Value::Object(answers)
}

/// Devices that have an HTB, in the order in which `tc` shows them.
fn with_classes(qdiscs: &Value) -> Vec<String> {
    let lines = qdiscs["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let device = |line: &str| {
        let mut words = line.strip_prefix("qdisc htb ")?.split_whitespace().skip_while(|word| *word != "dev");
        words.nth(1).map(str::to_owned)
    };
    lines.filter_map(device).collect()
}

fn said(line: &str) -> Value {
    let mut command = std::process::Command::new("timeout");
    command.arg("5").args(line.split_whitespace()).stdin(Stdio::null());
    match command.output() {
        Ok(output) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            if let Some((end, _)) = text.char_indices().find(|(at, _)| *at >= MOST) {
                text.truncate(end);
            }
            json!({ "status": output.status.code(), "lines": text.lines().collect::<Vec<_>>() })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_told_of_what_has_an_htb() {
        let lines = [
            "qdisc noqueue 0: dev lo root refcnt 2 ",
            " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) ",
            "qdisc htb 5e1f: dev svlimit0 root refcnt 2 r2q 10 default 0 direct_packets_stat 3 direct_qlen 1000",
            "qdisc htb 5e1f: dev veth1 root refcnt 3 r2q 10",
            "qdisc htb",
        ];
        assert_eq!(with_classes(&json!({ "lines": lines })), ["svlimit0", "veth1"]);
        assert_eq!(with_classes(&json!({ "error": "no tc" })), [""; 0]);
    }
}
