//! Learned addresses: nobody takes another's, and nobody keeps what it does not use.

use crate::world::{eventually, World};
use std::time::Duration;

const LEARNING: &str = "pattern = \"lxc*\"\nlearn = [\"10.7.1.0/24\", \"fd07:1::/64\"]";

/// Host 0 learns who is behind lxc0, the owner of 10.7.1.2, and lxc2, the neighbour 10.7.1.3.
fn world(name: &str) -> Option<World> {
    world_with(name, "")
}

/// `tables`: more of host 0's configuration.
fn world_with(name: &str, tables: &str) -> Option<World> {
    let mut world = World::new(name)?;
    world.add_neighbour();
    world.configure(0, &format!("{LEARNING}\n{tables}"));
    world.configure(1, "interface = \"lxc0\"\naddresses = [\"10.7.2.2\", \"fd07:2::2\"]");
    world.start_with(0, &[], &["--log", "json"]);
    world.start(1, &[]);
    Some(world)
}

fn held(world: &World, interface: &str) -> Vec<String> {
    let ports = world.ask(0, &["ports"]);
    let port = ports.as_array().unwrap().iter().find(|port| port["interface"] == interface).expect("a port");
    port["addresses"].as_array().unwrap().iter().map(|addr| addr.as_str().unwrap().to_owned()).collect()
}

/// The neighbour says to be at 10.7.1.2 and at the 63 addresses that follow, `times` over.
fn claim(world: &World, times: u32) {
    let thief = world.guest(2);
    assert!(world.spawn(&thief, &format!("claim 10.7.1.2 {times}")).wait().unwrap().success());
}

#[test]
fn the_owner_of_an_address_keeps_it_and_its_packets() {
    let Some(mut world) = world("ta") else { return };
    assert!(world.ping("10.7.2.2", 3), "the first is what it is learned from");
    eventually("the owner is learned", || held(&world, "lxc0").contains(&"10.7.1.2".to_owned()));
    // Longer than a holder is believed without being asked.
    world.transfer("10.7.2.2:9000", 1_000_000, |world| {
        for _ in 0..12 {
            claim(world, 20);
            assert!(world.ping("10.7.2.2", 3));
        }
    });
    assert!(held(&world, "lxc0").contains(&"10.7.1.2".to_owned()));
    let stolen = held(&world, "lxc2");
    assert!(stolen.len() <= 16 && !stolen.contains(&"10.7.1.2".to_owned()), "{stolen:?}");
    // In both families: a holder answers neighbour solicitations, too.
    eventually("the owner's other address is learned", || {
        world.exec(&world.guest(0), "ping -c 1 -W 1 fd07:2::2").status.success()
    });
}

#[test]
fn an_address_that_nobody_is_at_comes_back_to_its_owner() {
    let Some(world) = world("tb") else { return };
    comes_back(&world);
}

/// Its timers wake the agent every 20 ms, which must not put off what is to be asked.
#[test]
fn an_address_comes_back_to_its_owner_beside_congestion_control() {
    let Some(world) = world_with("td", "[congestion]") else { return };
    comes_back(&world);
}

fn comes_back(world: &World) {
    claim(world, 3);
    eventually("the thief has it", || held(world, "lxc2").contains(&"10.7.1.2".to_owned()));
    // Who was just heard of is believed for a while.
    eventually("the owner has its address", || world.ping("10.7.2.2", 1));
    assert!(held(world, "lxc0").contains(&"10.7.1.2".to_owned()));
    assert!(!held(world, "lxc2").contains(&"10.7.1.2".to_owned()));
    let log = world.log(0);
    let mut lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let forgotten = lines.find(|line| line["message"] == "port lxc2: 10.7.1.2 does not answer: forgotten");
    let forgotten = forgotten.unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&forgotten["level"], &forgotten["port"]), (&"info".into(), &"lxc2".into()));
    assert_eq!((&forgotten["address"], &forgotten["target"]), (&"10.7.1.2".into(), &"agent::run::events".into()));
}

#[test]
fn a_holder_that_is_asked_answers_in_both_families() {
    let Some(world) = world("tc") else { return };
    eventually("both are learned", || world.ping("10.7.2.2", 1) && world.ping("fd07:2::2", 1));
    std::thread::sleep(Duration::from_secs(10)); // so long it is believed
    let before = held(&world, "lxc0");
    assert_eq!(before.len(), 2, "{before:?}");
    let thief = world.guest(2);
    for addr in ["10.7.1.2", "fd07:1::2"] {
        let mask = if addr.contains(':') { "16 nodad" } else { "16" };
        world.exec(&thief, &format!("ip addr add {addr}/{mask} dev eth0"));
        for _ in 0..8 {
            let to = if addr.contains(':') { "fd07:2::2" } else { "10.7.2.2" };
            let stolen = world.exec(&thief, &format!("ping -c 1 -W 1 -I {addr} {to}")).status.success();
            assert!(!stolen && world.ping(to, 1), "{addr}");
        }
    }
    assert_eq!(held(&world, "lxc0"), before);
}
