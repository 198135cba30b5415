//! Limits beside a network that puts packets straight into guests (`bpf_redirect_peer`), past the host's ends of their interfaces, as Cilium
//! does with host routing by BPF.

use super::alone::configure;
use super::cni::{network, Runtime};
use super::congestion::of_kernel;
use super::limits::{holds, limit};
use super::tcx::{Does, Other};
use super::unusual::opened_in;
use super::world::{eventually, ip, World};
use serde_json::{json, Value};

/// What guest 2 sends goes into guest 0, and back.
fn connect(world: &World) -> std::io::Result<[Other; 2]> {
    let host = world.host(0);
    opened_in(&host, || {
        let [first, second] = ["lxc0", "lxc2"].map(|name| nix::net::if_::if_nametoindex(name).unwrap());
        Ok([
            Other::attach("lxc0", Does::Straight(second), false)?,
            Other::attach("lxc2", Does::Straight(first), false)?,
        ])
    })
}

fn sent(world: &World, direction: &str) -> u64 {
    limit(world, "lxc0", direction)["sent_bytes"].as_u64().unwrap()
}

#[test]
fn limits_hold_for_what_a_network_puts_straight_into_a_guest() {
    let Some(mut world) = World::new("st") else { return };
    world.add_neighbour();
    let network_of_both = match connect(&world) {
        Ok(both) => both,
        Err(e) => return println!("skipped, programs on tcx: {e} (Linux 6.6)"),
    };
    configure(&world, "");
    let mut agent = world.start(0, &[]);
    let rates = json!({ "egressRate": 50_000_000, "ingressRate": 80_000_000 });
    let mut network = network(&world, "lxc0", rates);
    network["straight"] = true.into();
    let call =
        |world: &World, verb: &str| Runtime { world, container: "c1", guest: 0 }.selvedge(verb, &network).map(drop);
    let guests = [world.guest(2), world.guest(0)];
    let into = [guests[0].as_str(), &guests[1]];
    let out_of = [into[1], into[0]];

    // Without the plugin's program nothing of it passes the port. By hand nobody puts one there.
    assert!(world.ctl(0, &["limit", "lxc0", "--ingress", "80Mbps"]).status.success());
    assert_eq!(limit(&world, "lxc0", "ingress")["inside"], Value::Null);
    world.transfer_in("client", into, "10.7.1.2:9001", 2_000_000, |_| {});
    assert!(sent(&world, "ingress") < 100_000, "this is no such network");
    // Linux counts what comes so since 6.7, and in later releases of older ones.
    let past = limit(&world, "lxc0", "ingress")["past_bytes"].as_u64().unwrap();
    assert!(past == 0 || past > 2_000_000, "{past}");
    let told = world.ask(0, &["status"])["problems"].to_string();
    assert_eq!(told.contains("got to its guest past its limits"), past > 0, "{told}");
    assert!(world.ctl(0, &["unlimit", "lxc0"]).status.success());

    // Where it cannot be put there, the limit is that of any network.
    let blind = Runtime { world: &world, container: "c1", guest: 0 }.blind("ADD", &network);
    assert!(blind.contains("not limited: "), "{blind}");
    let fallen_back = limit(&world, "lxc0", "ingress");
    assert!(fallen_back["in_force"] == true && fallen_back["inside"] == Value::Null, "{fallen_back}");
    assert_eq!(fallen_back["device"], "lxc0");

    assert_eq!(call(&world, "ADD"), Ok(()));
    let inside = limit(&world, "lxc0", "ingress")["inside"].clone();
    assert_eq!(inside["there"], true, "{inside}");
    let mut port = 9001;
    let mut bounded = |world: &mut World| {
        port += 2;
        for (direction, way, guest, address, bps) in
            [("ingress", into, 0, "10.7.1.2", 80e6), ("egress", out_of, 2, "10.7.1.3", 50e6)]
        {
            let counts = |world: &World| (sent(world, direction), of_kernel(world, guest, "InOctets"));
            let (to, before) = (format!("{address}:{port}"), counts(world));
            world.transfer_in("client", way, &to, 10_000_000, |world| holds(world, "lxc0", direction, bps));
            let after = counts(world);
            let (passed, got) = (after.0 - before.0, after.1 - before.1);
            assert!(
                got > 10_000_000 && (got..got + got / 10).contains(&passed),
                "{direction}: each packet once: {passed} bytes, {got} got there"
            );
        }
        // The law acts, too: SPRING keeps the queue short.
        assert!(limit(world, "lxc0", "egress")["windows_lowered"].as_u64() > Some(100));
    };
    bounded(&mut world);
    // Whatever the sender writes into what crosses into other namespaces: the number of a class, which becomes tc_index. Not all kernels can.
    for forge in
        ["qdisc add dev eth0 clsact", "filter add dev eth0 egress protocol all prio 1 u32 match u32 0 0 flowid 1:c000"]
    {
        world.exec(into[0], &format!("tc {forge}"));
    }
    bounded(&mut world);

    // So they do for what comes by the port, and goes through once, whatever others' programs there do to it.
    let _thief = opened_in(&world.host(0), || Other::attach("lxc0", Does::Forgets, false)).unwrap();
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.8.0.1/24 dev lxc0"));
    ip(&format!("-n {} addr add 10.8.0.2/24 dev eth0", guests[1]));
    let before = sent(&world, "ingress");
    ip(&format!("-n {host} neigh replace 10.8.0.2 lladdr {} dev lxc0", mac_of(&world, into[1])));
    world.exec(&host, "ping -q -i 0.02 -s 1000 -c 20 -W 1 10.8.0.2");
    let passed = sent(&world, "ingress") - before;
    assert!((20 * 1000..30 * 1000).contains(&passed), "{passed} bytes of 20 packets");

    // Whatever the packets are.
    ip(&format!("-n {} addr add fd07:1::3/16 dev eth0 nodad", guests[0]));
    world.transfer_in("client", into, "[fd07:1::2]:9801", 10_000_000, |world| holds(world, "lxc0", "ingress", 80e6));

    // Nobody needs an agent for it; another one finds it, and an upgrade leaves it in place.
    world.end(agent, "KILL");
    agent = world.start(0, &[]);
    assert_eq!(limit(&world, "lxc0", "ingress")["inside"]["there"], true);
    assert!(world.ctl(0, &["reload"]).status.success());
    bounded(&mut world);
    assert_eq!(call(&world, "CHECK"), Ok(()));
    assert_eq!(call(&world, "ADD"), Ok(()), "again");
    bounded(&mut world);

    // Somebody takes it off: the limit is that of any network, and says so.
    std::fs::remove_file(inside["link"].as_str().unwrap()).unwrap();
    assert!(world.ctl(0, &["reload"]).status.success());
    let left = limit(&world, "lxc0", "ingress");
    assert!(left["in_force"] == true && left["device"] == "lxc0" && left["inside"]["there"] == false, "{left}");
    let told = world.ask(0, &["status"])["problems"].to_string();
    assert!(told.contains("nothing on the guest's own end"), "{told}");
    assert!(call(&world, "CHECK").is_err());
    assert_eq!(call(&world, "ADD"), Ok(()));
    bounded(&mut world);
    assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");

    let links = || {
        let all = std::fs::read_dir(world.pins(0).join("links")).unwrap();
        all.filter(|link| link.as_ref().unwrap().file_name().to_string_lossy().contains("limitinside")).count()
    };
    assert_eq!(links(), 1);
    assert_eq!(call(&world, "DEL"), Ok(()));
    assert_eq!(links(), 0);
    world.transfer_in("client", into, "10.7.1.2:9999", 2_000_000, |_| {});
    // One that ends with its container.
    assert_eq!(call(&world, "ADD"), Ok(()));
    ip(&format!("-n {host} link del lxc0"));
    drop(network_of_both);
    eventually("the limit has ended", || world.ask(0, &["limits"]).as_array().unwrap().is_empty());
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(!world.pins(0).exists(), "nor of the agent");
}

fn mac_of(world: &World, guest: &str) -> String {
    String::from_utf8_lossy(&world.exec(guest, "cat /sys/class/net/eth0/address").stdout).trim().to_owned()
}
