//! Guests behind netkit pairs, which some container networks make instead of veth pairs (Linux 6.7).

use super::limits::{holds, limit, number};
use super::unusual::opened_in;
use super::world::{eventually, ip, World, LEARNING, NAMED};
use nix::libc;
use rtnetlink::packet_route::link::NetkitMode;
use rtnetlink::{LinkHandle, LinkNetkit};

/// False: this kernel has none.
fn pair(namespace: &str, mode: NetkitMode) -> bool {
    opened_in(namespace, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection().unwrap();
            tokio::spawn(connection);
            let message = LinkNetkit::new("lxc0", "eth0", mode).build();
            match LinkHandle::new(handle).add(message).execute().await {
                Ok(()) => true,
                Err(rtnetlink::Error::NetlinkError(e)) if e.raw_code() == -libc::EOPNOTSUPP => false,
                Err(e) => panic!("{e}"),
            }
        })
    })
}

/// The world with guest 0 behind a netkit pair, and both agents.
fn world(name: &str, mode: NetkitMode) -> Option<World> {
    let mut world = World::new(name)?;
    let (host, guest) = (world.host(0), world.guest(0));
    ip(&format!("-n {host} link del lxc0"));
    if !pair(&host, mode) {
        eprintln!("skipped: this kernel has no netkit (Linux 6.7)");
        return None;
    }
    for command in [
        format!("-n {host} link set eth0 netns {guest}"),
        format!("-n {guest} addr add 10.7.1.2/16 dev eth0"),
        format!("-n {guest} addr add fd07:1::2/16 dev eth0 nodad"),
        format!("-n {guest} link set eth0 up mtu 1450"),
        format!("-n {host} link set lxc0 up"),
    ] {
        ip(&command);
    }
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    world.start_both();
    Some(world)
}

#[test]
fn a_guest_behind_a_netkit_pair_has_network_and_limits() {
    let Some(mut world) = world("nk", NetkitMode::L2) else { return };
    eventually("both guests know the other", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success()
            && world.exec(&world.guest(1), "ping -c 1 -W 1 fd07:1::2").status.success()
            && world.ping("10.7.2.2", 1)
    });
    let status = world.ask(0, &["status"]);
    assert_eq!(status["problems"].as_array().unwrap().len(), 0, "{status}");
    for to in ["10.7.2.2:9000", "[fd07:2::2]:9001"] {
        world.exchange(to, 5_000_000);
    }
    assert_eq!(world.counter(0, "drop_error_segments"), 0);
    world.configure(0, &format!("{NAMED}\negress_rate = \"50Mbps\"\ningress_rate = \"50Mbps\""));
    assert!(world.ctl(0, &["reload"]).status.success());
    for (from, to, address, direction) in [(0, 1, "10.7.2.2:9002", "egress"), (1, 0, "10.7.1.2:9003", "ingress")] {
        world.transfer_between(from, to, address, 20_000_000, |world| {
            eventually("it sends", || number(&limit(world, "lxc0", direction), "sent_bytes") > 1_000_000.0);
            holds(world, "lxc0", direction, 50e6);
        });
    }
}

#[test]
fn a_pair_without_ethernet_addresses_is_refused() {
    let Some(world) = world("nl", NetkitMode::L3) else { return };
    let problem = "port lxc0: its pair has no Ethernet addresses";
    assert!(world.ask(0, &["status"])["problems"].to_string().contains(problem), "{}", world.ask(0, &["status"]));
    ip(&format!("-n {} addr add 10.7.0.9/16 dev lxc0", world.host(0)));
    let before = world.counter(0, "drop_foreign_segments");
    assert!(!world.ping("10.7.2.2", 1) && !world.ping("10.7.0.9", 1), "nothing of it reaches anybody");
    assert!(world.counter(0, "drop_foreign_segments") > before);
}
