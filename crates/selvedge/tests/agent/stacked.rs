//! Uplinks that lie on top of other devices, as hosts have them: a bridge, a bond, a VLAN.

use super::packets::datagrams;
use super::world::{eventually, ip, World, LEARNING, NAMED};
use std::path::Path;
use std::process::Command;

/// Host `i`'s address moves from u0 to a device of `kind` above it. False if the kernel has no such devices.
fn stack(world: &World, i: usize, kind: &str) -> bool {
    let host = world.host(i);
    let own = format!("192.168.99.{}/24", i + 1);
    let (add, join) = match kind {
        "vlan" => ("link add link u0 name up9 type vlan id 9", &[][..]),
        "bridge" => ("link add up9 type bridge", &["link set u0 master up9"][..]),
        _ => (
            "link add up9 type bond mode active-backup miimon 100",
            &["link set u0 down", "link set u0 master up9"][..],
        ),
    };
    let had_bonds = Path::new("/sys/class/net/bonding_masters").exists();
    let made = world.exec(&host, &format!("ip {add}"));
    if !had_bonds && Path::new("/sys/class/net/bonding_masters").exists() {
        // The module makes one outside all namespaces when the kernel loads it.
        let _ = Command::new("ip").args(["link", "del", "bond0"]).output();
    }
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(said.contains("Unknown device type") || said.contains("not supported"), "{add}: {said}");
        return false;
    }
    ip(&format!("-n {host} addr del {own} dev u0"));
    for command in join.iter().chain(&["link set u0 up", "link set up9 up"]) {
        ip(&format!("-n {host} {command}"));
    }
    ip(&format!("-n {host} addr add {own} dev up9"));
    let text = std::fs::read_to_string(world.config(i)).unwrap();
    std::fs::write(world.config(i), text.replace("interface = \"u0\"", "interface = \"up9\"")).unwrap();
    true
}

fn works_on(kind: &str, name: &str) {
    let Some(mut world) = World::new(name) else { return };
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    for i in 0..2 {
        if !stack(&world, i, kind) {
            return println!("skipped: this kernel has no devices of the kind {kind}");
        }
    }
    eventually("hosts reach each other", || world.exec(&world.host(0), "ping -c 1 -W 1 192.168.99.2").status.success());
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success()
            && world.exec(&world.guest(1), "ping -c 1 -W 1 fd07:1::2").status.success()
            && world.ping("10.7.2.2", 1)
    });
    // The kernel takes note of carriers once in a second.
    eventually("all is well", || world.ask(0, &["status"])["problems"] == serde_json::json!([]));
    for to in ["10.7.2.2:9000", "[fd07:2::2]:9000"] {
        let before = world.counter(0, "out_bytes");
        world.transfer(to, 4_000_000, |_| {});
        assert!(world.counter(0, "out_bytes") - before > 4_000_000, "{to} by the edge");
    }
    for [to_one, to_two] in [["10.7.1.2:9001", "10.7.2.2:9001"], ["[fd07:1::2]:9001", "[fd07:2::2]:9001"]] {
        datagrams(&world, &world.guest(1), to_one, &world.guest(0));
        datagrams(&world, &world.guest(0), to_two, &world.guest(1));
    }
    for i in 0..2 {
        assert_eq!(world.counter(i, "drop_error_segments"), 0, "host {i}");
    }
}

#[test]
fn a_bridge_is_an_uplink() {
    works_on("bridge", "sb");
}

#[test]
fn a_bond_is_an_uplink() {
    works_on("bond", "sd");
}

#[test]
fn a_vlan_is_an_uplink() {
    works_on("vlan", "sv");
}
