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

/// What the host says of itself; each ends after five seconds.
const PROGRAMS: [&str; 10] = [
    "uname -a",
    "ip -d -s link show",
    "ip address show",
    "ip route show table all",
    "tc -s qdisc show",
    "tc -s class show dev svlimit0",
    "tc -s class show dev lo",
    "bpftool net show",
    "bpftool prog show",
    "journalctl -u selvedge -n 500 --no-pager -o short-iso",
];

/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, diagnosis: &Diagnosis, config: Option<&Path>, socket: &Path) -> std::io::Result<()> {
    let host: Map<String, Value> = PROGRAMS.iter().map(|line| ((*line).to_owned(), said(line))).collect();
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
