//! Ports with limits only, beside programs of others on the same interface, and tenants of such ports.

use super::alone::configure;
use super::limits::{holds, limit};
use super::tcx::{Does, Other, Seen};
use super::unusual::opened_in;
use super::world::{eventually, ip, World};
use std::time::{Duration, Instant};

const PORT: &str = "[[port]]\ninterface = \"lxc0\"\negress_rate = \"100Mbps\"\n";
/// Packets that a guest sends, one after the other's answer.
const PINGS: u64 = 20;

fn sees(world: &World, other: &Other) -> Seen {
    let before = other.seen();
    let ping = format!("ping -q -i 0.05 -c {PINGS} -W 5 10.7.0.1");
    let output = world.exec(&world.guest(0), &ping);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let after = other.seen();
    Seen {
        packets: after.packets - before.packets,
        marked: after.marked - before.marked,
        with_priority: after.with_priority - before.with_priority,
    }
}

/// docs/agent.md: who is behind the limit's program sees each packet once, out of the queue; who is in front sees it twice. What the
/// latter sets is there when the packet comes out of the queue.
#[test]
fn programs_of_others_see_what_a_limit_lets_pass() {
    let Some(mut world) = World::new("bs") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    let attach = |does, in_front| opened_in(&host, || Other::attach("lxc0", does, in_front));
    let earlier = match attach(Does::Counts, false) {
        Ok(earlier) => earlier,
        Err(e) => return println!("skipped, programs on tcx: {e} (Linux 6.6)"),
    };
    for place in ["first", "last"] {
        configure(&world, PORT);
        let text = std::fs::read_to_string(world.config(0)).unwrap();
        let placed = text.replace("[agent]\n", &format!("[agent]\nplace = {place:?}\n"));
        std::fs::write(world.config(0), placed).unwrap();
        let agent = world.start(0, &[]);
        let queued = |world: &World| limit(world, "lxc0", "egress")["sent_bytes"].as_u64().unwrap();
        let before = queued(&world);
        assert_eq!(sees(&world, &earlier), Seen { packets: PINGS, ..Seen::default() }, "{place}: there before ours");
        assert!(queued(&world) - before >= PINGS * 98, "they went through the queue");

        // Who comes later can have any place.
        let behind = attach(Does::Counts, false).unwrap();
        assert_eq!(sees(&world, &behind), Seen { packets: PINGS, ..Seen::default() }, "{place}: behind");
        let front = attach(Does::Sets, true).unwrap();
        let before = behind.seen();
        assert_eq!(sees(&world, &front).packets, 2 * PINGS, "{place}: in front");
        let after = behind.seen();
        assert_eq!(after.packets - before.packets, PINGS, "{place}");
        assert_eq!(after.marked - before.marked, PINGS, "{place}: the mark is kept");
        assert_eq!(after.with_priority - before.with_priority, PINGS, "{place}: and the priority");
        drop((front, behind));
        assert!(world.end(agent, "TERM") && world.stop(0).status.success());
        assert_eq!(sees(&world, &earlier).packets, PINGS, "without an agent");
    }
}

/// Cilium has such a program there where it routes each endpoint: what a guest gets comes to it by the port's egress.
#[test]
fn a_limit_of_what_a_guest_gets_acts_beside_a_program_that_ends_the_chain() {
    let Some(mut world) = World::new("be") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    let other = match opened_in(&host, || Other::attach("lxc0", Does::Ends, false)) {
        Ok(other) => other,
        Err(e) => return println!("skipped, programs on tcx: {e} (Linux 6.6)"),
    };
    for place in ["last", "first"] {
        configure(&world, "[[port]]\ninterface = \"lxc0\"\ningress_rate = \"100Mbps\"\n");
        let text = std::fs::read_to_string(world.config(0)).unwrap();
        std::fs::write(world.config(0), text.replace("[agent]\n", &format!("[agent]\nplace = {place:?}\n"))).unwrap();
        let agent = world.start(0, &[]);
        let looked_at = || {
            let counts = limit(&world, "lxc0", "ingress")["delays"]["counts"].clone();
            counts.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>()
        };
        let (before, seen) = (looked_at(), other.seen().packets);
        let ping = format!("ping -q -i 0.05 -c {PINGS} -W 5 10.7.1.2");
        let output = world.exec(&host, &ping);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(looked_at() - before >= PINGS, "{place}: the limit's program never saw them");
        assert!(other.seen().packets - seen >= PINGS, "{place}: nor is anything kept from the other");
        assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    }
}

/// Without a network, too, tenants and the total bound what their ports send together.
#[test]
#[allow(clippy::disallowed_methods, reason = "rates are of real time")]
fn tenants_and_totals_need_no_overlay() {
    let Some(mut world) = World::new("bt") else { return };
    world.add_neighbour();
    let host = world.host(0);
    ip(&format!("-n {host} link add br0 type bridge"));
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev br0"));
    ip(&format!("-n {host} link set br0 up"));
    for port in ["lxc0", "lxc2"] {
        ip(&format!("-n {host} link set {port} master br0"));
    }
    let port = |name: &str, rate: u32, tenant: &str| {
        format!("[[port]]\ninterface = \"{name}\"\negress_rate = \"{rate}Mbps\"\negress_ceiling = \"500Mbps\"\nlaw = \"off\"\n{tenant}")
    };
    let blue = "tenant = \"blue\"\n";
    let tenant = "[[tenant]]\nname = \"blue\"\negress_rate = \"40Mbps\"\n";
    configure(&world, &[port("lxc0", 30, blue).as_str(), &port("lxc2", 10, blue), tenant].concat());
    let _agent = world.start(0, &[]);
    assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
    let until = world.socket(0).with_extension("flood");
    let floods = [0, 2].map(|guest| world.command_in(&world.guest(guest), "flood 10.7.0.1:9 1400", &until).spawn());
    let sent =
        |world: &World| ["lxc0", "lxc2"].map(|port| limit(world, port, "egress")["sent_bytes"].as_f64().unwrap());
    let bounded = |world: &World, mbps: f64, ratio: std::ops::Range<f64>| {
        eventually("all of it is used", || {
            let (asked, before, told) = (Instant::now(), sent(world), Instant::now());
            std::thread::sleep(Duration::from_millis(700));
            let (least, after, most) = (told.elapsed(), sent(world), asked.elapsed());
            let [large, small] = [after[0] - before[0], after[1] - before[1]];
            // On a machine that the floods keep busy, asking takes its time.
            let (used, [must, may]) =
                ((large + small) * 8.0, [least, most].map(|time| mbps * 1e6 * time.as_secs_f64()));
            assert!(used <= may * 1.02 + 2.0 * 8.0 * 200_000.0, "{before:?} to {after:?} in {most:?} at {mbps} Mb/s");
            used >= must * 0.95 && ratio.contains(&(large / small))
        });
    };
    bounded(&world, 40.0, 2.5..3.5);
    // All ports together, whoever's they are.
    let total = "[limits]\ntotal = \"80Mbps\"\n";
    configure(&world, &[port("lxc0", 30, "").as_str(), &port("lxc2", 30, ""), total].concat());
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    bounded(&world, 80.0, 0.7..1.4);
    std::fs::write(&until, "").unwrap();
    for flood in floods {
        assert!(flood.unwrap().wait().unwrap().success());
    }
    configure(&world, &PORT.replace("100Mbps", "50Mbps"));
    assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
    let guest = world.guest(0);
    world.transfer_in("client", [&guest, &host], "10.7.0.1:9002", 5_000_000, |world| {
        holds(world, "lxc0", "egress", 50e6)
    });
}

/// Classes of a port go below others as it becomes a tenant's, and as what goes first is told apart. The kernel moves no class.
#[test]
fn a_reload_that_moves_a_ports_classes_lets_nothing_past_them() {
    let Some(mut world) = World::new("bv") else { return };
    let host = world.host(0);
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev lxc0"));
    let port = |more: &str| format!("[[port]]\ninterface = \"lxc0\"\negress_rate = \"20Mbps\"\nlaw = \"off\"\n{more}");
    let tenants = port("tenant = \"blue\"\n[[tenant]]\nname = \"blue\"\negress_rate = \"40Mbps\"\n");
    let together = port("[limits]\nsparse_first = false\n");
    configure(&world, &tenants);
    let _agent = world.start(0, &[]);
    let until = world.socket(0).with_extension("flood");
    let flood = world.command_in(&world.guest(0), "flood 10.7.0.1:9 1400", &until).spawn();
    let past = || {
        let shown = world.exec(&host, "tc -s qdisc show dev svlimit0");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let count = shown.split_once("direct_packets_stat ").and_then(|(_, rest)| rest.split_whitespace().next());
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    let sent = || limit(&world, "lxc0", "egress")["sent_bytes"].as_u64().unwrap();
    eventually("there is a flood", || sent() > 1_000_000);
    let before = past();
    for _ in 0..8 {
        for config in [&port(""), &together, &tenants] {
            configure(&world, config);
            assert!(world.ctl(0, &["reload"]).status.success(), "{}", world.log(0));
            assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
            eventually("it comes to the new class", || sent() > 100_000);
        }
    }
    // Besides what the device's own IPv6 has to say.
    assert!(past() - before < 10, "{} packets of the flood went past all classes", past() - before);
    std::fs::write(&until, "").unwrap();
    assert!(flood.unwrap().wait().unwrap().success());
}
