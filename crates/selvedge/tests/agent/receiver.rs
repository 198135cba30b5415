//! The receiver's device and thread come and go with the configuration, and survive what is done to them.

use crate::world::{eventually, ip, World};
use std::fs;

/// Does host 0 have one that works?
fn receives(world: &World) -> bool {
    world.ask(0, &["status"])["receiver"]["interface"] == "svhold0" && world.has_interface(0, "svhold0")
}

#[test]
fn the_receiver_comes_and_goes() {
    let Some(mut world) = World::new("r") else { return };
    if fs::File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        eprintln!("skipped: /dev/net/tun does not open");
        return;
    }
    world.configure_both();
    // A port of any name is not the receiver's device.
    let any = "[[port]]\nnetwork = 7\npattern = \"sv*\"\nlearn = [\"10.9.0.0/16\"]\n\n[[port]]";
    let without = fs::read_to_string(world.config(0)).unwrap().replace("[[port]]", any);
    let configure = |world: &World, table: &str| {
        fs::write(world.config(0), format!("{without}\n{table}")).unwrap();
        assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    };
    fs::write(world.config(0), &without).unwrap();
    world.start_both();
    assert!(!receives(&world) && world.ask(0, &["status"])["receiver"].is_null());
    configure(&world, "[receive]\nreorder = true\n");
    assert!(receives(&world));
    let ports = world.ask(0, &["ports"]);
    assert!(ports.as_array().unwrap().iter().all(|port| port["interface"] != "svhold0"), "{ports}");
    configure(&world, "[receive]\nreorder = true\ntimeout = \"3ms\"\n");
    assert!(receives(&world));
    let text = world.ctl(0, &["status"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("svhold0: 0 segments of 0 flows"));

    ip(&format!("-n {} link del svhold0", world.host(0)));
    eventually("the device is made anew", || receives(&world));
    assert!(world.ask(0, &["status"])["problems"].as_array().unwrap().is_empty());

    configure(&world, "");
    assert!(!world.has_interface(0, "svhold0") && world.ask(0, &["status"])["receiver"].is_null());

    // Somebody else has the name.
    ip(&format!("-n {} link add svhold0 type veth peer name svother", world.host(0)));
    configure(&world, "[receive]\nreorder = true\n");
    let problems = world.ask(0, &["status"])["problems"].to_string();
    assert!(problems.contains("handed on as they come") && problems.contains("receive.reorder = false"), "{problems}");
    eventually("guests reach one another", || world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success());
    ip(&format!("-n {} link del svhold0", world.host(0)));
    eventually("the name is free", || receives(&world));

    assert!(world.stop(0).status.success());
    assert!(!world.has_interface(0, "svhold0"), "nothing is left");
}
