//! What a reload changes while packets pass.
#![cfg(feature = "kernel")]

use super::world::{eventually, World, NAMED};
use kernel::{KernelEdge, Options};
use std::time::Duration;

/// Rows that the reload moves, too: between the port's and its routes' there is then time for many packets.
const ROWS: usize = 10_000;

/// Guest 2 stays in network 7; guest 0, and what a peer has, are in `network`.
fn configure(world: &World, network: u32, limit: &str) {
    let guests: Vec<String> = (0..ROWS)
        .map(|i| {
            format!("{{ network = {network}, prefix = \"10.{}.{}.{}\" }}", 100 + i / 65_536, i / 256 % 256, i % 256)
        })
        .collect();
    world.configure(
        0,
        &format!(
            "interface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\n\n[[port]]\nnetwork = {network}\n{NAMED}\n{limit}\n\n\
             [[peer]]\nname = \"many\"\naddress = \"192.168.99.77\"\nguests = [{}]",
            guests.join(", ")
        ),
    );
}

/// IPv4 packets that reached the stack of the namespace of process `pid`.
fn delivered(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "InDelivers").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_port_that_moves_to_another_network_gets_nothing_from_its_old_one() {
    move_between_networks("m", "");
}

/// A queue with a second's datagrams in it.
#[test]
fn what_waits_in_a_limit_does_not_follow_its_port_to_another_network() {
    move_between_networks("ml", "ingress_rate = \"2Mbps\"");
}

fn move_between_networks(name: &str, limit: &str) {
    let Some(mut world) = World::new(name) else { return };
    world.add_neighbour();
    configure(&world, 7, limit);
    world.start(0, &[]);
    // Guest 2 goes on whatever it is answered.
    let mac = world.exec(&world.guest(0), "cat /sys/class/net/eth0/address").stdout;
    let mac = String::from_utf8(mac).unwrap();
    let neighbour = format!("ip neigh replace 10.7.1.2 lladdr {} dev eth0 nud permanent", mac.trim());
    assert!(world.exec(&world.guest(2), &neighbour).status.success());
    let index = world.exec(&world.host(0), "cat /sys/class/net/lxc0/ifindex").stdout;
    let port: u32 = String::from_utf8(index).unwrap().trim().parse().unwrap();
    let mut sink = world.spawn(&world.guest(0), "udp-sink 10.7.1.2:9 0");
    let mut flood = world.spawn(&world.guest(2), "udp-flood 10.7.1.2:9 0");
    let edge = KernelEdge::open(&Options { pins: world.pins(0), max_flows: 1024, ..Options::default() }).unwrap();
    let mut crossed = 0;
    for _ in 0..3 {
        let before = delivered(sink.id());
        eventually("the neighbour's packets arrive", || delivered(sink.id()) > before + 300);
        configure(&world, 8, limit);
        crossed += std::thread::scope(|scope| {
            let reload = scope.spawn(|| world.ctl(0, &["reload"]).status.success());
            let mut moved = false;
            while !moved && !reload.is_finished() {
                moved = edge.port(port).unwrap().is_some_and(|port| port.vni == 8);
            }
            std::thread::sleep(Duration::from_millis(2)); // what was looked up before is under way still
            let at = delivered(sink.id());
            assert!(reload.join().unwrap(), "the reload");
            // Queues are emptied right after the row is another.
            let at = if limit.is_empty() { at } else { delivered(sink.id()) };
            std::thread::sleep(Duration::from_millis(if limit.is_empty() { 20 } else { 200 }));
            delivered(sink.id()) - at
        });
        configure(&world, 7, limit);
        assert!(world.ctl(0, &["reload"]).status.success());
    }
    for child in [&mut sink, &mut flood] {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!(crossed, 0, "packets of network 7 that guest 0 got while it was in network 8");
}

#[test]
fn datagrams_of_a_flow_keep_one_path_unless_told_otherwise() {
    let Some(mut world) = World::new("u") else { return };
    world.configure(0, NAMED);
    world.start(0, &[]);
    let mut flood = world.spawn(&world.guest(0), "udp-flood 10.7.2.2:9 0");
    let mac = "ip neigh replace 10.7.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent";
    assert!(world.exec(&world.guest(0), mac).status.success());
    // More than ten flowcells of them.
    let sent = |world: &World, until: u64| eventually("datagrams", || world.counter(0, "out_bytes") > until);
    sent(&world, 700_000);
    let cells = || world.counter(0, "flowcells");
    assert_eq!(cells(), 0, "nobody restores the order of datagrams");
    let config = std::fs::read_to_string(world.config(0)).unwrap();
    std::fs::write(world.config(0), config.replace("[balance]", "[balance]\nudp = \"flowcell\"")).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    sent(&world, world.counter(0, "out_bytes") + 700_000);
    assert!(cells() >= 5, "{} flowcells", cells());
    let _ = flood.kill();
    let _ = flood.wait();
}
