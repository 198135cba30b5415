//! A fabric with a link that carries less than the hosts' uplinks, and says so.

use super::world::{eventually, ip, World, LEARNING, NAMED};
use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::checksum::Sum;

/// Of the link between the two routers, bytes.
const NARROW: u16 = 1400;

/// Router `r` (0 or 1), which is host `r`'s next hop.
fn router(world: &World, r: usize) -> String {
    world.guest(2 + r)
}

/// Host `i` has 10.90.<i>.2 and fd90:<i>::2 on u0, and router `i` beyond it. The link between the routers is narrow.
fn narrow_fabric(world: &World) {
    ip(&format!("-n {} link del u0", world.host(0)));
    for r in 0..2 {
        let router = router(world, r);
        ip(&format!("netns add {router}"));
        for set in ["ipv4.ip_forward=1", "ipv6.conf.all.forwarding=1"] {
            assert!(world.exec(&router, &format!("sysctl -qw net.{set}")).status.success());
        }
    }
    let [first, second] = [router(world, 0), router(world, 1)];
    ip(&format!("link add x netns {first} mtu {NARROW} type veth peer name x netns {second} mtu {NARROW}"));
    for i in 0..2 {
        let (host, router, n, other) = (world.host(i), router(world, i), i + 1, 2 - i);
        ip(&format!("link add u0 netns {host} type veth peer name in netns {router}"));
        for (namespace, device, end) in [(&host, "u0", 2), (&router, "in", 1)] {
            ip(&format!("-n {namespace} addr add 10.90.{i}.{end}/24 dev {device}"));
            ip(&format!("-n {namespace} addr add fd90:{i}::{end}/64 dev {device} nodad"));
            ip(&format!("-n {namespace} link set {device} up"));
        }
        ip(&format!("-n {router} addr add 10.99.0.{n}/24 dev x"));
        ip(&format!("-n {router} addr add fd99::{n}/64 dev x nodad"));
        ip(&format!("-n {router} link set x up"));
        ip(&format!("-n {host} route add default via 10.90.{i}.1"));
        ip(&format!("-n {host} route add default via fd90:{i}::1"));
        ip(&format!("-n {router} route add 10.90.{}.0/24 via 10.99.0.{other}", 1 - i));
        ip(&format!("-n {router} route add fd90:{}::/64 via fd99::{other}", 1 - i));
    }
}

fn configure(world: &World, v6: bool) {
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    for i in 0..2 {
        let other = 1 - i;
        let address = if v6 { format!("fd90:{other}::2") } else { format!("10.90.{other}.2") };
        let text = fs::read_to_string(world.config(i)).unwrap();
        fs::write(world.config(i), text.replace(&format!("192.168.99.{}", other + 1), &address)).unwrap();
    }
}

/// To the other host, as `ctl paths` says; 0: none is known.
fn path_mtu(world: &World, i: usize) -> u64 {
    world.ask(i, &["paths"])[0]["mtu"].as_u64().unwrap_or_default()
}

/// What a process in the first router's namespace sends to host 0: that its packet to host 1 with this source port did not fit.
pub(super) fn forge(to: &str, port: u64) {
    let octets = |address: &str| address.parse::<Ipv4Addr>().unwrap().octets();
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 0x05, 0x0a]; // 1290 bytes pass
    icmp.extend([0x45, 0, 0x05, 0x78, 0, 0, 0x40, 0, 63, 17, 0, 0]);
    icmp.extend([octets(to), octets("10.90.1.2")].concat());
    icmp.extend((port as u16).to_be_bytes());
    icmp.extend([0x12, 0xb5, 0x05, 0x64, 0, 0]);
    let check = Sum::default().bytes(&icmp).finish();
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    let mut packet = vec![0x45, 0, 0, 20 + icmp.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0];
    packet.extend([octets("10.99.0.2"), octets(to)].concat());
    packet.extend(icmp);
    kernel::emit::Uplink::open_plain().unwrap().send_plain(&packet).unwrap();
}

/// `inner`: what is left of the narrow link for guests' packets.
fn guests_hear_of_a_narrow_link(name: &str, v6: bool, inner: u64) -> Option<World> {
    let mut world = World::new(name)?;
    narrow_fabric(&world);
    configure(&world, v6);
    let [agent, _] = world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    assert_eq!(path_mtu(&world, 0), 0, "nothing was too large so far");
    world.transfer("10.7.2.2:9000", 4_000_000, |_| {});
    assert_eq!(path_mtu(&world, 0), inner);
    assert!(world.log(0).contains(&format!("packets of {NARROW} bytes pass: guests' may have {inner} bytes")));
    let ping = world.exec(&world.guest(0), &format!("ping -M do -c 1 -W 1 -s {} 10.7.2.2", inner + 1 - 28));
    let said = [ping.stdout, ping.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(!ping.status.success() && said.contains(&inner.to_string()), "{said}");
    let ping = world.exec(&world.guest(0), &format!("ping -M do -c 3 -i 0.1 -W 1 -s {} 10.7.2.2", inner - 28));
    assert!(ping.status.success(), "what fits passes: {}", String::from_utf8_lossy(&ping.stdout));
    // Another agent goes on with it.
    world.end(agent, "KILL");
    world.start(0, &[]);
    assert_eq!(path_mtu(&world, 0), inner);
    Some(world)
}

#[test]
fn guests_hear_of_a_link_that_carries_less() {
    let Some(world) = guests_hear_of_a_narrow_link("pm", false, u64::from(NARROW) - 50) else { return };
    // Of a packet that nobody sent, nobody is told; and nobody goes below the floor.
    let router = router(&world, 0);
    let forge = |port: u16| {
        let done = world.spawn(&router, &format!("forge 10.90.0.2 {port}")).wait().unwrap();
        assert!(done.success());
    };
    std::thread::sleep(Duration::from_secs(3)); // changes are that far apart
    forge(12_345);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(path_mtu(&world, 0), u64::from(NARROW) - 50, "another label");
    eventually("the message is heard", || {
        assert!(world.ping("10.7.2.2", 1), "it was sent something lately");
        forge(50_001);
        path_mtu(&world, 0) == 1280
    });
}

#[test]
fn guests_hear_of_a_link_that_carries_less_over_ipv6() {
    drop(guests_hear_of_a_narrow_link("pn", true, u64::from(NARROW) - 70));
}
