//! `selvedge controller` as an operator meets it, over the loopback.
#![cfg(feature = "kernel")]

#[path = "../authority/mod.rs"]
mod authority;
mod logs;
mod metrics;
#[path = "../promtool/mod.rs"]
mod promtool;

use authority::Authority;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FABRIC: &str = "[topology]\nkind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n";

fn selvedge(arguments: &[&str], config: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .arg("controller")
        .args(arguments)
        .arg("--config")
        .arg(config)
        .output()
        .unwrap()
}

struct Running(Child);

impl Running {
    /// Waits until it says that it is ready.
    fn start(config: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["controller", "run", "--config"]).arg(config).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("ready on"), "{first}");
        // What it says later is for nobody, and must not keep it from its work.
        drop(lines);
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of its own for each test.
fn on_port(config: &Path, port: u16) {
    let text = std::fs::read_to_string(config).unwrap().replace(":7443", &format!(":{port}"));
    std::fs::write(config, text).unwrap();
}

/// A port that is free, that no other test of this program gets, and that the kernel gives to no connection of its own
/// accord: of ports for connections it may give the same one away before the program under test takes it.
fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000; // up to 29,999; those for connections begin at 32,768
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let of_this_process = std::process::id().wrapping_mul(101);
    loop {
        let offset = of_this_process.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = (FIRST + offset) as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// `curl` with the certificate of `name`: status and body.
fn curl(authority: &Authority, name: &str, port: u16, path: &str) -> Option<(String, String)> {
    let (ca, certificate, key) = authority.files(name);
    let output = Command::new("curl")
        .args(["-sS", "-m", "10", "-w", "\n%{http_code}", "--cacert"])
        .arg(ca)
        .arg("--cert")
        .arg(certificate)
        .arg("--key")
        .arg(key)
        .arg(format!("https://127.0.0.1:{port}{path}"))
        .output()
        .map_err(|e| println!("skipped: curl: {e}"))
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, code) = text.rsplit_once('\n').unwrap();
    Some((code.to_owned(), body.to_owned()))
}

#[test]
fn operators_change_links_and_edges_get_their_own_schedules_only() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let port = free_port();
    on_port(&config, port);
    let _controller = Running::start(&config);
    let output = selvedge(&["status"], &config);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("revision ") && said.ends_with(", 2 trees\n0 of 0 edges that asked have it\n"), "{said}");
    let second = selvedge(&["run"], &config);
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another controller"));
    let wrong = selvedge(&["fail", "leaf1-spine9"], &config);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("no link \"leaf1-spine9\""));
    let failed = selvedge(&["fail", "leaf1-spine1"], &config);
    assert!(String::from_utf8_lossy(&failed.stdout).contains("failed: leaf1-spine1"), "{failed:?}");
    let Some((code, body)) = curl(&authority, "host1", port, "/v1/schedules/host1?after=1") else { return };
    assert_eq!(code, "200", "{body}");
    let schedules: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(schedules["schedules"], serde_json::json!([{ "ports": [50_002], "edges": ["host2", "host3"] }]));
    for (name, path, code) in [
        ("host1", "/v1/schedules/host2?after=1", "403"),
        ("host1", "/v1/status", "403"),
        ("host1", "/v1/schedules/host1", "400"),
        ("host1", "/v1/schedules/host1?after=-1", "400"),
        ("host1", "/", "404"),
        ("leaf1", "/v1/schedules/leaf1?after=1", "404"),
        ("operator", "/v1/status", "200"),
    ] {
        let (got, body) = curl(&authority, name, port, path).unwrap();
        assert_eq!(got, code, "{name} {path}: {body}");
    }
}

#[test]
fn agents_hear_of_all_that_may_have_changed() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let port = free_port();
    on_port(&config, port);
    let status =
        || -> serde_json::Value { serde_json::from_slice(&selvedge(&["status", "--json"], &config).stdout).unwrap() };
    let mut revisions = Vec::new();
    for (link, change) in [
        ("leaf1-spine1", &(|| ()) as &dyn Fn()),
        // The store is lost.
        ("leaf2-spine1", &|| std::fs::remove_file(authority.path("store.json")).unwrap()),
        // Another fabric, without spine 2.
        ("leaf2-spine1", &|| {
            let fabric = FABRIC.replace("spines = 2", "spines = 1");
            std::fs::write(authority.path("fabric.toml"), fabric).unwrap();
        }),
        // As it was: what failed is known again.
        ("leaf1-spine2", &|| std::fs::write(authority.path("fabric.toml"), FABRIC).unwrap()),
    ] {
        change();
        let _controller = Running::start(&config);
        revisions.push(status()["revision"].as_u64().unwrap());
        let _ = selvedge(&["fail", link], &config);
        revisions.push(status()["revision"].as_u64().unwrap());
    }
    assert!(revisions.windows(2).all(|pair| pair[0] <= pair[1]), "{revisions:?}");
    let begun: Vec<u64> = revisions.iter().step_by(2).copied().collect();
    let ended: Vec<u64> = revisions.iter().skip(1).step_by(2).copied().collect();
    assert!(
        ended.iter().zip(&begun[1..]).all(|(before, after)| before < after),
        "each start has a new one: {revisions:?}"
    );
    let _controller = Running::start(&config);
    assert_eq!(status()["failed"], serde_json::json!(["leaf1-spine2", "leaf2-spine1"]));
}

#[test]
fn strangers_and_noise_do_it_no_harm() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let port = free_port();
    on_port(&config, port);
    let _controller = Running::start(&config);
    let mut idle = Vec::new();
    for i in 0..900u32 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let noise: Vec<u8> = (0..200u32).map(|j| (j.wrapping_mul(i + 7) >> 3) as u8).collect();
        let _ = stream.write_all(if i % 3 == 0 { b"GET /v1/status HTTP/1.1\r\n\r\n" } else { &noise });
        if i % 2 == 0 {
            idle.push(stream);
        }
    }
    assert!(selvedge(&["status"], &config).status.success(), "it answers beside them");
    // A certificate of another authority.
    let other = Authority::new();
    let theirs = other.controller("127.0.0.1", FABRIC);
    on_port(&theirs, port);
    let output = selvedge(&["status"], &theirs);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    for stream in &mut idle {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut end = Vec::new();
        let _ = stream.read_to_end(&mut end); // an alert, or nothing
        assert!(!String::from_utf8_lossy(&end).contains("200 OK"));
    }
}

/// Of one member, for itself; `None`, with the reason printed, where it is not installed. In CI it is, if that can be: scripts/need
/// fails there otherwise.
fn etcd(directory: &Path) -> Option<(Running, u16)> {
    let (client, peer) = (free_port(), free_port());
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let child = Command::new("etcd")
        .arg("--data-dir")
        .arg(directory)
        .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
        .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
        .args(["--initial-cluster", &format!("default={}", url(peer)), "--log-level", "error"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match child {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: etcd is not installed");
            None
        }
        Err(e) => panic!("etcd: {e}"),
        Ok(child) => Some((Running(child), client)),
    }
}

/// Has the etcd there a leader?
fn is_well(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains("\"health\":\"true\""))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

#[test]
fn controllers_share_what_they_know_over_etcd() {
    let authority = Authority::new();
    let Some((mut etcd, port)) = etcd(&authority.path("etcd")) else { return };
    let config = authority.controller("127.0.0.1", FABRIC);
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("store = \"store.json\"", &format!("etcd = [\"http://127.0.0.1:{port}\"]"));
    let [first, second] = ["first.toml", "second.toml"].map(|name| {
        std::fs::write(authority.path(name), &text).unwrap();
        on_port(&authority.path(name), free_port());
        authority.path(name)
    });
    let page = free_port();
    std::fs::write(&second, format!("metrics = \"127.0.0.1:{page}\"\n{}", std::fs::read_to_string(&second).unwrap()))
        .unwrap();
    eventually("etcd is well", || is_well(port).unwrap_or(false));
    let (one, _two) = (Running::start(&first), Running::start(&second));
    let status = |config: &Path| -> serde_json::Value {
        let output = selvedge(&["status", "--json"], config);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // At once, from both.
    let changes = [(&first, "leaf1-spine1"), (&second, "leaf2-spine1"), (&second, "leaf2-spine2")];
    std::thread::scope(|scope| {
        for (config, link) in changes {
            scope.spawn(move || {
                let output = selvedge(&["fail", link], config);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            });
        }
    });
    for config in [&first, &second] {
        eventually("it has all of them", || status(config)["failed"].as_array().unwrap().len() == 3);
    }
    assert_eq!(status(&first)["revision"], status(&second)["revision"]);
    drop(one);
    assert!(selvedge(&["heal", "leaf1-spine1"], &second).status.success());
    let _one = Running::start(&first);
    assert_eq!(status(&first)["failed"], serde_json::json!(["leaf2-spine1", "leaf2-spine2"]));
    let store_up = || metrics::sample(&metrics::metrics(page), "store_up{store=\"etcd\"}");
    assert_eq!(store_up(), Some(1.0));
    // Without etcd nothing is forgotten, and nothing is promised.
    etcd.0.kill().unwrap();
    etcd.0.wait().unwrap();
    eventually("the second says so to Prometheus", || store_up() == Some(0.0));
    let output = selvedge(&["heal", "leaf2-spine1"], &second);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).lines().count() == 1, "{output:?}");
    assert_eq!(status(&second)["failed"], serde_json::json!(["leaf2-spine1", "leaf2-spine2"]));
}

#[test]
fn mistakes_name_file_key_and_remedy() {
    let authority = Authority::new();
    let config = authority.controller("127.0.0.1", FABRIC);
    let text = std::fs::read_to_string(&config).unwrap();
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(authority.path("damaged.pem"), damaged).unwrap();
    let asked = selvedge(&["status"], &config);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    let place = "controller.toml:2: url: https://127.0.0.1:7443: ";
    assert!(said.contains(place) && said.contains("; start the controller there"), "{said}");
    for (old, new, says) in [
        (
            "listen = \"127.0.0.1:7443\"",
            "listen = \"here\"",
            "controller.toml:1: listen: \"here\" is no address and port",
        ),
        ("url = \"https", "url = \"http", "controller.toml:2: url: \"http://127.0.0.1:7443\" is no https URL"),
        (
            "url = \"https://127.0.0.1:7443\"",
            "url = \"https://\"",
            "controller.toml:2: url: \"https://\" is no https URL",
        ),
        (
            "[\"operator\"]",
            "[\"operator\", \"a b\"]",
            "controller.toml:8: operators.1: no certificate can be for \"a b\"",
        ),
        ("operators = [\"operator\"]", "operators = []", "operators: names nobody"),
        (
            "operators = ",
            "metrics = \"0.0.0.0:9465\"\noperators = ",
            "metrics: 0.0.0.0:9465 can be reached from outside",
        ),
        ("operators = ", "metrics = \"here\"\noperators = ", "\"here\" is not an address and a port"),
        ("operators = ", "first_port = 80\noperators = ", "first_port: 80 does not do for 2 trees"),
        ("operators = ", "prune = \"none\"\noperators = ", "prune"),
        ("operators = ", "colour = 1\noperators = ", "colour"),
        ("fabric.toml", "nothing.toml", "nothing.toml cannot be read: "),
        ("\"fabric.toml\"", "\".\"", "controller.toml:3: topology: "),
        ("ca = \"ca.pem\"", "ca = \"store.json.lock\"", "controller.toml:5: ca: "),
        ("ca = \"ca.pem\"", "ca = \"damaged.pem\"", "damaged.pem: holds no certificate: BadEncoding; give"),
        ("controller.pem", "damaged.pem", "controller.toml:6: certificate: "),
        ("controller.pem", "nothing.pem", "nothing.pem: No such file"),
        ("controller.key", "damaged.pem", "controller.toml:7: key: "),
        ("controller.key", "ca.key", "controller.pem; give PEM files that belong together"),
        ("store.json", "no/where.json", "controller.toml:4: store: cannot open"),
        ("store.json", "damaged.pem", "is not a controller's record: "),
        ("\"store.json\"", "\".\"", "it is no regular file; give another path"),
        (
            "listen = \"127.0.0.1",
            "listen = \"198.51.100.1",
            "controller.toml:1: listen: cannot listen on 198.51.100.1:7443: ",
        ),
        ("store = \"store.json\"\n", "", "store: is missing"),
        ("store = ", "etcd = [\"http://127.0.0.1:1\"]\nstore = ", "etcd: `store` is there too"),
        (
            "store = \"store.json\"",
            "etcd = [\"127.0.0.1:2379\"]",
            "controller.toml:4: etcd.0: \"127.0.0.1:2379\" is no URL",
        ),
        ("store = \"store.json\"", "etcd = [\"http://127.0.0.1:1\"]", "controller.toml:4: etcd: http://127.0.0.1:1: "),
    ] {
        assert!(text.contains(old), "{old}");
        std::fs::write(&config, text.replacen(old, new, 1)).unwrap();
        std::fs::write(authority.path("store.json.lock"), "").unwrap();
        let output = selvedge(&["run"], &config);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says) && said.lines().count() == 1, "{new}: {said}");
    }
}
