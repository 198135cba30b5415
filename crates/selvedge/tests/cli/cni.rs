//! `selvedge cni install` and `uninstall`.

use super::{selvedge, stderr, stdout, Scratch};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIST: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}, {"type": "bandwidth", "capabilities": {"bandwidth": true}}]}"#;
const INSTALL: [&str; 6] = ["cni", "install", "--bin-dir", ".", "--conf-dir", "."];
const UNINSTALL: [&str; 6] = ["cni", "uninstall", "--bin-dir", ".", "--conf-dir", "."];

fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [command, more].concat()
}

fn plugins(scratch: &Scratch, list: &str) -> Vec<Value> {
    let text = fs::read_to_string(scratch.path().join(list)).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["plugins"].as_array().unwrap().clone()
}

#[test]
fn the_plugin_goes_where_runtimes_look_and_comes_back_from_there() {
    let scratch = Scratch::new("cni");
    let dir = scratch.path();
    let first = scratch.file("10-pods.conflist", LIST);
    scratch.file("20-other.conflist", &LIST.replace("pods", "other"));
    scratch.file("05-notes.txt", "no list");
    fs::set_permissions(&first, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = selvedge(dir, &INSTALL);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).lines().count() == 1 && stderr(&refused).contains("10-pods.conflist"), "{refused:?}");
    assert!(stderr(&refused).contains("--replace-bandwidth"), "{refused:?}");
    assert_eq!(fs::read_to_string(&first).unwrap(), LIST);

    let replacing = with(&INSTALL, &["--replace-bandwidth", "--socket", "/a/b"]);
    for _ in 0..2 {
        let done = selvedge(dir, &replacing);
        assert!(done.status.success() && stdout(&done).contains("network pods"), "{done:?}");
    }
    let there = plugins(&scratch, "10-pods.conflist");
    let ours = json!({
        "type": "selvedge", "capabilities": { "bandwidth": true }, "socket": "/a/b",
        "replaces": [{ "type": "bandwidth", "capabilities": { "bandwidth": true } }],
    });
    assert_eq!(there, [json!({ "type": "bridge" }), ours]);
    assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(plugins(&scratch, "20-other.conflist").len(), 2, "runtimes take the first");
    assert_eq!(plugins(&scratch, "20-other.conflist")[1]["type"], "bandwidth");
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_selvedge")).unwrap();
    assert_eq!(fs::canonicalize(dir.join("selvedge")).unwrap(), program, "a link to the program that was run");

    let rates = selvedge(dir, &with(&INSTALL, &["--egress", "300Mbps", "--ingress", "1Gbps"]));
    assert!(rates.status.success(), "{rates:?}");
    let ours = &plugins(&scratch, "10-pods.conflist")[1];
    assert_eq!((&ours["egressRate"], &ours["ingressRate"]), (&json!(300_000_000), &json!(1_000_000_000)));

    let done = selvedge(dir, &UNINSTALL);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(plugins(&scratch, "10-pods.conflist")[1]["type"], "bandwidth");
    assert_eq!(scratch.names(), ["05-notes.txt", "10-pods.conflist", "20-other.conflist"]);
    let nowhere = ["cni", "uninstall", "--bin-dir", ".", "--conf-dir", "nowhere"];
    for words in [&UNINSTALL, &nowhere] {
        let again = selvedge(dir, words);
        assert!(again.status.success() && stdout(&again).is_empty(), "{again:?}");
    }
}

#[test]
fn what_cannot_be_installed_is_one_line_and_leaves_nothing() {
    let scratch = Scratch::new("cni-wrong");
    let dir = scratch.path();
    let refused = |arguments: &[&str], reason: &str| {
        let output = selvedge(dir, arguments);
        let said = stderr(&output);
        assert!(
            !output.status.success() && said.lines().count() == 1 && said.contains(reason),
            "{arguments:?}: {said}"
        );
    };
    refused(&INSTALL, "set up the network first");
    refused(&["cni", "install", "--bin-dir", "nowhere", "--conf-dir", "."], "there is no directory nowhere");
    refused(&["cni", "install", "--bin-dir", ".", "--conf-dir", "nowhere"], "cannot read nowhere");
    scratch.file("10-single.conf", r#"{"cniVersion": "1.0.0", "name": "pods", "type": "bridge"}"#);
    scratch.file("20-list.conflist", LIST);
    refused(&INSTALL, "10-single.conf comes first");
    refused(&with(&INSTALL, &["--list", "10-single.conf"]), "10-single.conf: it is no list");
    let of_list = ["--list", "20-list.conflist", "--replace-bandwidth"];
    refused(&with(&with(&INSTALL, &of_list), &["--program", "nothing"]), "cannot read nothing");
    for (rate, said) in [("fast", "is not a bit rate"), ("1bps", "give 1Kbps to 1Tbps"), ("0bps", "give 1Kbps")] {
        let refused = selvedge(dir, &with(&with(&INSTALL, &of_list), &["--egress", rate]));
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(said), "{rate}: {refused:?}");
    }
    assert_eq!(scratch.names(), ["10-single.conf", "20-list.conflist"], "nothing is left");
    assert_eq!(fs::read_to_string(dir.join("20-list.conflist")).unwrap(), LIST);
    let done = selvedge(dir, &with(&INSTALL, &["--list", "20-list.conflist", "--replace-bandwidth"]));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(scratch.names(), ["10-single.conf", "20-list.conflist", "selvedge"]);
    scratch.file("05-broken.conflist", r#"{"selvedge""#);
    let output = selvedge(dir, &UNINSTALL);
    assert!(!output.status.success() && stderr(&output).contains("05-broken.conflist: left alone"), "{output:?}");
    assert!(scratch.names().contains(&"selvedge".to_owned()), "a list may still name it");
    scratch.file("05-broken.conflist", "{");
    let output = selvedge(dir, &UNINSTALL);
    assert!(output.status.success() && stderr(&output).contains("05-broken.conflist: left alone"), "{output:?}");
    assert_eq!(plugins(&scratch, "20-list.conflist")[1]["type"], "bandwidth");
}

/// Of a list that cannot be written, here because no name beside it is short enough: nothing new stays.
#[test]
fn a_list_that_cannot_be_written_leaves_no_plugin() {
    let scratch = Scratch::new("cni-full");
    let list = format!("{}.conflist", "a".repeat(244));
    scratch.file(&list, LIST);
    let refused = selvedge(scratch.path(), &with(&INSTALL, &["--replace-bandwidth"]));
    let said = stderr(&refused);
    assert!(refused.status.code() == Some(1) && said.lines().count() == 1, "{said}");
    assert!(said.contains(&list) && said.contains("; name directories"), "{said}");
    assert_eq!(scratch.names(), [list]);
}

/// Anybody may lock a directory that anybody can read.
#[test]
fn nobody_waits_for_ever() {
    let scratch = Scratch::new("cni-locked");
    scratch.file("10-pods.conflist", LIST);
    let directory = fs::File::open(scratch.path()).unwrap();
    directory.lock().unwrap();
    let refused = selvedge(scratch.path(), &with(&INSTALL, &["--replace-bandwidth"]));
    assert!(!refused.status.success() && stderr(&refused).contains("is locked"), "{refused:?}");
    assert_eq!(scratch.names(), ["10-pods.conflist"]);
}

#[test]
fn who_changes_a_list_at_the_same_time_waits() {
    let scratch = Scratch::new("cni-many");
    scratch.file("10-pods.conflist", LIST);
    std::fs::create_dir(scratch.path().join("00-dir.conflist")).unwrap();
    let long = format!("/{}", "a".repeat(200));
    let turns: [Vec<&str>; 3] = [
        with(&INSTALL, &["--replace-bandwidth", "--socket", &long]),
        with(&INSTALL, &["--replace-bandwidth", "--socket", "/b"]),
        UNINSTALL.to_vec(),
    ];
    std::thread::scope(|scope| {
        for n in 0..24 {
            let (scratch, turn) = (&scratch, &turns[n % 3]);
            scope.spawn(move || {
                let output = selvedge(scratch.path(), turn);
                assert!(output.status.success(), "{turn:?}: {output:?}");
            });
        }
    });
    let types: Vec<Value> =
        plugins(&scratch, "10-pods.conflist").into_iter().map(|mut one| one["type"].take()).collect();
    assert!(types == ["bridge", "selvedge"] || types == ["bridge", "bandwidth"], "{types:?}");
    assert!(scratch.names().iter().all(|name| !name.contains("new")), "{:?}", scratch.names());
}

/// Ends with the test, also with one that fails.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_watch_adds_the_plugin_whenever_the_network_writes_its_list_anew() {
    let scratch = Scratch::new("cni-watch");
    let (dir, program) = (scratch.path(), scratch.file("program", "first"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.current_dir(dir).args(INSTALL).args(["--replace-bandwidth", "--watch", "--program", "program"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watching = Watching(command.spawn().unwrap());
    let eventually = |what: &str, holds: &dyn Fn() -> bool| {
        let held = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            holds()
        });
        assert!(held, "{what}");
    };
    let copy = || fs::read_to_string(dir.join("selvedge")).unwrap_or_default();
    let listed = || {
        let text = fs::read_to_string(dir.join("10-pods.conflist")).unwrap_or_default();
        text.contains("\"selvedge\"")
    };
    eventually("the program is copied before there is a network", &|| copy() == "first");
    for _ in 0..2 {
        // As networks do it: the whole file at once.
        fs::write(dir.join("new"), LIST).unwrap();
        fs::rename(dir.join("new"), dir.join("10-pods.conflist")).unwrap();
        eventually("the plugin is on the list", &listed);
    }
    fs::write(&program, "second").unwrap();
    eventually("the new program is copied", &|| copy() == "second");
    fs::remove_file(dir.join("selvedge")).unwrap();
    eventually("what was removed comes back", &|| copy() == "second");
    let ended = Command::new("kill").args(["-s", "TERM", &watching.0.id().to_string()]).status().unwrap();
    assert!(ended.success() && watching.0.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut watching.0.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.lines().count() == 2 && said.contains("waiting: ") && said.contains("network pods"), "{said}");
}
