//! All systems on one edge under real traffic, with agents that are killed: balancer, `[congestion]`, `[limits]`, `[tenants]` and `[fastlane]`.

use super::limits::holds;
use super::tenants::{guest, mark, narrow, FIFO};
use super::world::{eventually, Running, World, LEARNING, NAMED};
use std::process::Child;
use std::time::{Duration, Instant};

/// Of guest 0 of host 0; less than its part of what guests share.
const LIMIT: f64 = 8e6;
const SYSTEMS: &str = "\n[congestion]\nfloor = \"3KB\"\n\n[tenants]\nuplink_rate = \"30Mbps\"\n\n[fastlane]\n";
/// Connections: guest that sends, guest that receives, and where that listens.
const WAYS: [(usize, usize, &str); 3] = [(0, 1, "10.7.2.2:9000"), (2, 1, "10.7.2.2:9002"), (1, 0, "10.7.1.2:9001")];

fn world(name: &str, policy: &str) -> Option<World> {
    let mut world = World::new(name)?;
    world.add_neighbour();
    let first = format!("{NAMED}\negress_rate = \"8Mbps\"");
    let second = "[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\n";
    for (i, port) in [format!("{first}\n\n{second}"), LEARNING.to_owned()].iter().enumerate() {
        world.configure(i, port);
        let text = std::fs::read_to_string(world.config(i)).unwrap() + SYSTEMS;
        let text = text.replace("[balance]", &format!("[balance]\npolicy = {policy:?}"));
        std::fs::write(world.config(i), text).unwrap();
    }
    world.start_both();
    let status = world.ask(0, &["status"])["problems"].to_string();
    if status.contains("what this host drops is left to guests") {
        eprintln!("skipped: {status}");
        return None;
    }
    if !narrow(&world, FIFO) {
        eprintln!("skipped: tc cannot set htb with {FIFO} here");
        return None;
    }
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

/// A connection each way, until the file is there.
struct Traffic {
    servers: Vec<Running>,
    clients: Vec<Child>,
    until: std::path::PathBuf,
}

impl Traffic {
    fn begin(world: &World) -> Traffic {
        let until = world.dir.path().join("until");
        let servers = WAYS.map(|(_, at, to)| Running(world.spawn(&world.guest(at), &format!("server {to} 0"))));
        let client = |(from, _, to): (usize, usize, &str)| {
            world.command_in(&world.guest(from), &format!("client {to} 1000"), &until).spawn().unwrap()
        };
        Traffic { servers: servers.into(), clients: WAYS.map(client).into(), until }
    }

    /// Each byte has arrived, and as it was.
    fn end(self) {
        std::fs::write(&self.until, "").unwrap();
        for (mut client, mut server) in self.clients.into_iter().zip(self.servers) {
            let sent = client.wait().unwrap().success();
            assert!(sent && server.0.wait().unwrap().success(), "a connection broke");
        }
    }
}

/// Bytes that have arrived on a connection, as its receiver's kernel counts, whether agents run or not.
fn received(world: &World, (_, at, to): (usize, usize, &str)) -> u64 {
    let output = world.exec(&world.guest(at), &format!("ss -Htin state established src {to}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter_map(|word| word.strip_prefix("bytes_received:")?.parse::<u64>().ok()).sum()
}

fn all_go_on(world: &World) {
    for way in WAYS {
        let before = received(world, way);
        eventually(&format!("{way:?} goes on"), || received(world, way) > before + 500_000);
    }
}

/// Bits per second that guest 1 gets from guest 0.
#[allow(clippy::disallowed_methods, reason = "rates are of real time")]
fn rate_of_the_limited(world: &World) -> f64 {
    let (before, begun) = (received(world, WAYS[0]), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let after = received(world, WAYS[0]);
    (after - before) as f64 * 8.0 / begun.elapsed().as_secs_f64()
}

/// What an edge has in the kernel: pins, and interfaces with their queues and programs.
fn left(world: &World, i: usize) -> (Vec<String>, String) {
    let mut pins = Vec::new();
    let mut dirs = vec![world.pins(i)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => dirs.push(path),
                path => pins.push(path.display().to_string()),
            }
        }
    }
    pins.sort();
    let show = |command: &str| String::from_utf8_lossy(&world.exec(&world.host(i), command).stdout).into_owned();
    (pins, show("ls /sys/class/net") + show("tc qdisc show").as_str())
}

/// Marks of paths that count for a balancer of this host that heeds them.
fn marks_of_paths(world: &World) -> u64 {
    let paths = world.ask(0, &["paths"]);
    let known = paths.as_array().unwrap().iter().flat_map(|peer| peer["known"].as_array().unwrap());
    known.map(|path| path["marks"].as_u64().unwrap()).sum()
}

/// Every system acts on both hosts, and limit and shares hold.
fn all_act(world: &World, policy: &str) {
    // What host 1 sends meets no queue, but its guest's share.
    for (i, names) in [
        (0, ["fastlane_told_segments", "fastlane_resent", "drop_over_rate_segments", "windows_lowered", "flowcells"]),
        (1, ["fastlane_told_segments", "drop_over_rate_segments", "packs_sent", "marks_counted", "flowcells"]),
    ] {
        for name in names {
            let before = world.counter(i, name);
            eventually(&format!("host {i}: {name}"), || world.counter(i, name) > before);
        }
        assert_eq!(world.counter(i, "fastlane_failures"), 0, "host {i}");
    }
    if policy == "clove" {
        let before = marks_of_paths(world);
        eventually("paths are marked", || marks_of_paths(world) > before);
    }
    holds(world, "lxc0", "egress", LIMIT);
    for (i, interfaces) in [(0, ["lxc0", "lxc2"].as_slice()), (1, &["lxc0"])] {
        let tenants = world.ask(i, &["tenants"]);
        for interface in interfaces {
            let guest = guest(&tenants, interface);
            assert!(guest["active"] == true && guest["rate_bps"].as_u64() <= Some(30_000_000), "{tenants}");
        }
    }
    for i in [0, 1] {
        let flows = world.ask(i, &["flows"])["flows"].clone();
        let has_window = |flow: &&serde_json::Value| flow["congestion"]["window_bytes"].as_u64().is_some();
        assert!(flows.as_array().unwrap().iter().filter(has_window).count() >= WAYS.len(), "host {i}: {flows}");
    }
}

/// Both agents are killed in turn, and others come: connections live, what a limit allows is never exceeded, and each edge has what it had.
fn together(name: &str, policy: &str) {
    let Some(mut world) = world(name, policy) else { return };
    mark(&world);
    let begun = world.ask(0, &["status"]);
    let traffic = Traffic::begin(&world);
    all_go_on(&world);
    all_act(&world, policy);
    let before = [0, 1].map(|i| left(&world, i));
    for killed in [0, 1] {
        assert!(!world.end(killed, "KILL"));
        all_go_on(&world);
        let rate = rate_of_the_limited(&world);
        println!("{policy}, agent {killed} killed: {:.1} Mb/s through a limit of {:.0}", rate / 1e6, LIMIT / 1e6);
        assert!(rate < 1.05 * LIMIT, "{rate}");
        world.start(killed, &[]);
        all_go_on(&world);
        all_act(&world, policy);
        assert_eq!(left(&world, killed), before[killed], "as before the kill");
        let status = world.ask(killed, &["status"]);
        assert_eq!(status["problems"], begun["problems"], "{status}");
    }
    traffic.end();
    for i in [0, 1] {
        assert!(world.stop(i).status.success());
        let (pins, devices) = left(&world, i);
        assert!(pins.is_empty(), "{pins:?}");
        assert!(!["svagain", "svlimit", "svhold"].iter().any(|name| devices.contains(name)), "{devices}");
    }
}

#[test]
fn all_systems_beside_presto_live_through_killed_agents() {
    together("ua", "flowcell");
}

#[test]
fn all_systems_beside_clove_live_through_killed_agents() {
    together("ub", "clove");
}
