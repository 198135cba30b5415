//! `uplink.mode = "plain"` on real traffic: two hosts whose guests' packets cross the fabric as they are.

use super::tenants::{beside_a_flood, guest, has_its_share, mark, pour, FIFO};
use super::world::{eventually, World, LEARNING, NAMED};

/// Both hosts, with `more` at the end of their configurations.
fn world(name: &str, more: &str) -> Option<World> {
    let mut world = World::new(name)?;
    for (i, port) in [NAMED, LEARNING].iter().enumerate() {
        world.configure(i, port);
        let text = std::fs::read_to_string(world.config(i)).unwrap() + more;
        std::fs::write(world.config(i), text).unwrap();
    }
    world.make_plain();
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success()
            && world.exec(&world.guest(1), "ping -c 1 -W 1 fd07:1::2").status.success()
    });
    Some(world)
}

#[test]
fn guests_reach_one_another_without_a_tunnel() {
    let Some(mut world) = world("pa", "") else { return };
    assert!(world.ping("10.7.2.2", 3) && world.ping("fd07:2::2", 3));
    // All of the uplink's MTU is theirs, and nothing is put in front.
    let whole = |size: u32| format!("ping -c 1 -W 1 -M do -s {size} 10.7.2.2");
    assert!(world.exec(&world.guest(0), &whole(1472)).status.success());
    assert_eq!(world.ask(0, &["status"])["guest_mtu"], 1500);
    for made in ["svgro4789", "svcut0", "svcut1"] {
        assert!(!world.has_interface(0, made), "{made}");
    }
    for to in ["10.7.2.2:9000", "[fd07:2::2]:9001"] {
        world.transfer(to, 20_000_000, |_| {});
        world.exchange(&to.replace("900", "910"), 5_000_000);
    }
    for i in 0..2 {
        assert!(world.counter(i, "out_segments") > 100 && world.counter(i, "in_segments") > 100);
        assert_eq!([world.counter(i, "drop_error_segments"), world.counter(i, "feedback_sent")], [0, 0]);
    }
    // Another address than the guest's own does not leave.
    world.exec(&world.guest(0), "ip addr add 10.7.1.77/32 dev eth0");
    assert!(!world.exec(&world.guest(0), "ping -c 1 -W 1 -I 10.7.1.77 10.7.2.2").status.success());
    assert!(world.counter(0, "drop_spoofed_segments") > 0);
    // The mode is the programs' own.
    let text = std::fs::read_to_string(world.config(0)).unwrap().replace("mode = \"plain\"\n", "");
    std::fs::write(world.config(0), text).unwrap();
    let refused = world.ctl(0, &["reload"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("uplink.mode cannot change"), "{}", world.log(0));
    assert!(world.ping("10.7.2.2", 1));
}

#[test]
fn congestion_control_reports_in_options() {
    let Some(mut world) = world("pb", "\n[congestion]\n") else { return };
    mark(&world);
    for to in ["10.7.2.2:9000", "[fd07:2::2]:9001"] {
        let before = world.counter(0, "reports_received");
        world.transfer(to, 10_000_000, |world| {
            eventually("reports come", || world.counter(0, "reports_received") > before + 5);
        });
    }
    assert!(world.counter(0, "windows_lowered") > 0 && world.counter(1, "packs_sent") > 5);
}

/// One-way datagrams: nothing flows back that could carry a bit.
#[test]
fn marks_of_datagrams_come_back_in_packets_of_their_own() {
    let Some(world) = world("pc", "\n[tenants]\nuplink_rate = \"100Mbps\"\nrtt = \"200us\"\n") else { return };
    mark(&world);
    let flood = pour(&world, 0, 9000, 90);
    eventually("marks are heard", || guest(&world.ask(0, &["tenants"]), "lxc0")["marks"].as_u64() > Some(1000));
    drop(flood);
    let [heard, consumed] = ["marks_heard", "marks_consumed"].map(|name| world.counter(0, name));
    let [counted, asked] = ["marks_counted", "marks_asked"].map(|name| world.counter(1, name));
    println!("counted {counted}, packets asked for {asked}, consumed {consumed}, heard {heard}");
    // Each packet that was asked for and came told what waited; what was asked for last may still be under way.
    assert!(heard <= counted && heard * 2 > counted && consumed > 0 && consumed <= asked, "{heard} of {counted}");
}

#[test]
fn tcp_beside_a_flood_has_its_share_without_a_tunnel_too() {
    for (name, law) in [("py", "aiad"), ("pz", "alpha")] {
        let keys = format!("uplink_rate = \"100Mbps\"\nrtt = \"200us\"\nlaw = {law:?}");
        if let Some(found) = beside_a_flood(name, &keys, FIFO, true, has_its_share) {
            assert!(has_its_share(found), "{law}: {found:?}");
        }
    }
}
