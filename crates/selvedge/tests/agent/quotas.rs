//! Guests that open connections as fast as they can, and what the others notice of them: nothing. Counts only, no times.

use super::world::{eventually, ip, World, LEARNING};
use std::path::PathBuf;
use std::process::Child;

/// The victim's, with everything that needs state, and the attacker's on the same host, limited too.
const PORTS: &str = "interface = \"lxc0\"\naddresses = [\"10.7.1.2\"]\negress_rate = \"200Mbps\"\nlaw = \"spring\"\n\n\
                     [[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\negress_rate = \"200Mbps\"\n\
                     law = \"spring\"\n\n[congestion]";

/// Attackers at work, until dropped.
struct Flood {
    until: PathBuf,
    children: Vec<Child>,
}

impl Flood {
    fn new(world: &World) -> Flood {
        let until = world.config(0).with_extension("flood");
        let _ = std::fs::remove_file(&until);
        Flood { until, children: Vec::new() }
    }

    /// `guest` opens five-tuples towards `to`.
    fn begin(&mut self, world: &World, guest: usize, to: &str) {
        let mut command = world.command_in(&world.guest(guest), &format!("five-tuples {to}:0 0"), &self.until);
        self.children.push(command.spawn().expect("the test runs itself"));
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.until, "");
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A second guest of host 1, number 3: 10.7.2.3 behind lxc3.
fn add_other_neighbour(world: &World) {
    let (h, g) = (world.host(1), world.guest(3));
    ip(&format!("netns add {g}"));
    ip(&format!("link add lxc3 netns {h} type veth peer name eth0 netns {g}"));
    ip(&format!("-n {g} addr add 10.7.2.3/16 dev eth0"));
    for (namespace, device) in [(&g, "lo"), (&g, "eth0"), (&h, "lxc3")] {
        ip(&format!("-n {namespace} link set {device} up"));
    }
}

/// Segments of guests of `host` without state because their port or network is full.
fn full(world: &World, host: usize) -> u64 {
    world.counter(host, "full_port_segments") + world.counter(host, "full_network_segments")
}

fn untracked(world: &World, interface: &str) -> u64 {
    let limits = world.ask(0, &["limits"]);
    let found = limits.as_array().unwrap().iter().find(|l| l["interface"] == interface && l["direction"] == "egress");
    found.unwrap_or_else(|| panic!("no limit of {interface}: {limits}"))["untracked_segments"].as_u64().unwrap()
}

#[test]
fn floods_of_connections_cost_others_no_state() {
    let Some(mut world) = World::new("z") else { return };
    world.add_neighbour();
    add_other_neighbour(&world);
    world.configure(0, PORTS);
    world.configure(1, &format!("{LEARNING}\n\n[congestion]"));
    world.start_both();
    for guest in [1, 3] {
        eventually("host 1's guests are learned", || {
            world.exec(&world.guest(guest), "ping -c 1 -W 1 10.7.1.2").status.success()
        });
    }
    let mut flood = Flood::new(&world);
    // Beside the victim, at somebody who answers nothing.
    flood.begin(&world, 2, "10.7.2.9");
    eventually("the attacker's port is full", || full(&world, 0) > 2000 && untracked(&world, "lxc2") > 2000);
    (9000..9003).for_each(|port| new_connection_has_state(&mut world, port));
    assert_eq!(untracked(&world, "lxc0"), 0, "SPRING saw every segment of the victim");
    assert_eq!(world.counter(0, "full_outside_segments"), 0);
    assert!(world.log(0).contains("port lxc2 holds as many flows as it may"), "{}", world.log(0));
    // From another host, at the victim itself.
    flood.begin(&world, 3, "10.7.1.2");
    eventually("what begins at the victim is held to its part", || world.counter(0, "full_outside_segments") > 2000);
    eventually("the other attacker's port is full", || full(&world, 1) > 2000);
    (9003..9006).for_each(|port| new_connection_has_state(&mut world, port));
}

/// A connection of guest 0 to guest 1 has cells, and a window that both edges know of.
fn new_connection_has_state(world: &mut World, port: u16) {
    let to = format!("10.7.2.2:{port}");
    world.transfer(&to, 2_000_000, |world| {
        eventually("a new connection has all that needs state", || {
            let flows = world.ask(0, &["flows", "--limit", "2000"]);
            let flow = flows["flows"].as_array().unwrap().iter().find(|flow| flow["destination"] == to.as_str());
            let Some(flow) = flow.filter(|flow| flow["out_bytes"].as_u64() > Some(1_000_000)) else { return false };
            assert!(flow["cell"].as_u64() > Some(10), "{flow}");
            let congestion = &flow["congestion"];
            congestion["peer_reports"] == true && congestion["window_bytes"].is_number()
        });
    });
}
