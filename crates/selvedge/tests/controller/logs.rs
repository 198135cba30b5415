//! What a controller logs, as text and as JSON.

use crate::authority::Authority;
use crate::{free_port, on_port, selvedge};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The lines of a controller from its start until SIGTERM.
fn lines(config: &Path, arguments: &[&str], journal: bool) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["controller", "run", "--config"]).arg(config).args(arguments).stderr(Stdio::piped());
    match journal {
        true => command.env("JOURNAL_STREAM", "8:1"),
        false => command.env_remove("JOURNAL_STREAM"),
    };
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = reader.next().unwrap();
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let lines = std::iter::once(first).chain(reader).collect();
    assert!(child.wait().unwrap().success());
    lines
}

#[test]
fn logs_are_text_or_json() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", crate::FABRIC);
    let port = free_port();
    on_port(&config, port);
    let plain = lines(&config, &[], false);
    assert!(plain[0].starts_with(&format!("ready on 127.0.0.1:{port}: revision ")), "{plain:?}");
    assert_eq!(plain[1..], ["ending; agents keep the schedules that they have"]);
    let journal = lines(&config, &["--log", "text"], true);
    assert!(journal.len() == 2 && journal.iter().all(|line| line.starts_with("<6>")), "{journal:?}");
    let json = lines(&config, &["--log=json"], true);
    let json: Vec<Value> = json.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ready = &json[0];
    assert_eq!((json.len(), &ready["level"], &ready["target"]), (2, &"info".into(), &"controller::server".into()));
    assert_eq!(ready["address"], format!("127.0.0.1:{port}"));
    let said = format!("ready on 127.0.0.1:{port}: revision {}", ready["revision"]);
    assert_eq!(ready["message"], said.as_str());
    assert!(ready["timestamp"].as_str().unwrap().ends_with('Z'), "{ready}");
    assert_eq!(json[1]["message"], "ending; agents keep the schedules that they have");
}

/// With JSON asked for, why it does not run is an object, too.
#[test]
fn what_ends_a_daemon_is_in_its_log() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", crate::FABRIC);
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("operators = ", "\"colo\\u009br\" = 1\noperators = ")).unwrap();
    let output = selvedge(&["run", "--log", "json"], &config);
    let said = String::from_utf8(output.stderr).unwrap();
    let object: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!((output.status.code(), &object["level"]), (Some(2), &"error".into()));
    assert!(said.lines().count() == 1 && !said.contains('\u{9b}'), "{said:?}");
    assert!(object["message"].as_str().unwrap().contains("controller.toml:"), "{said}");
    for daemon in ["agent", "controller"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command.args([daemon, "run", "--config", "/nowhere", "--log=json"]).output().unwrap();
        let object: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert!(!output.status.success() && object["message"].as_str().unwrap().contains("/nowhere"), "{object}");
    }
    let unknown = selvedge(&["run", "--log", "xml"], &config);
    assert_eq!(unknown.status.code(), Some(2));
}
