//! What the host's own rules see of a limited guest's packets: each exactly once, on its way to the host, to another guest, or to an
//! address that the host translates, as portmap does. What the guest's own rules see leave it is the measure, so that a retransmission
//! counts on both sides.

use super::alone::{configure, on_host};
use super::limits::{holds, limit, number};
use super::world::{eventually, ip, World};
use std::collections::BTreeMap;

const LIMITS: &str = "[[port]]\npattern = \"lxc*\"\negress_rate = \"100Mbps\"\ningress_rate = \"60Mbps\"\n";
const PORT: u16 = 9009;

struct Family {
    /// As nftables names it.
    name: &'static str,
    /// The host's own address, guest 0's and guest 2's.
    host: &'static str,
    guest: &'static str,
    neighbour: &'static str,
    /// Bits of an address.
    len: u8,
    ping: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "ip",
        host: "10.66.0.2",
        guest: "10.7.1.2",
        neighbour: "10.7.1.3",
        len: 32,
        ping: "icmp type echo-request",
    },
    Family {
        name: "ip6",
        host: "fd66::2",
        guest: "fd07:1::2",
        neighbour: "fd07:1::3",
        len: 128,
        ping: "icmpv6 type echo-request",
    },
];

impl Family {
    fn at(&self, address: &str) -> String {
        if self.len == 32 {
            format!("{address}:{PORT}")
        } else {
            format!("[{address}]:{PORT}")
        }
    }
}
/// In which a namespace counts, with nftables' family for it.
const HOOKS: [(&str, &str); 5] =
    [("ingress", "netdev"), ("prerouting", "inet"), ("input", "inet"), ("forward", "inet"), ("output", "inet")];

fn nft(world: &World, namespace: &str, command: &str) {
    let output = world.exec(namespace, &format!("nft {command}"));
    assert!(output.status.success(), "nft {command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Counters in these hooks: pings, the first packets of connections to [`PORT`], what conntrack takes for new, and segments that it
/// takes for none of a connection.
fn count(world: &World, namespace: &str, hooks: &[&str]) {
    for (hook, family) in HOOKS.iter().filter(|(hook, _)| hooks.contains(hook)) {
        nft(world, namespace, &format!("add table {family} {hook}"));
        let device = if *family == "netdev" { "device lxc0 " } else { "" };
        nft(
            world,
            namespace,
            &format!("add chain {family} {hook} seen {{ type filter hook {hook} {device}priority 0 ; }}"),
        );
        let begin = format!("tcp dport {PORT} tcp flags & (syn | ack) == syn");
        let new = FAMILIES.map(|of| ("new", format!("{} ct state new", of.ping)));
        let invalid = ("invalid", "meta l4proto tcp ct state invalid".to_owned());
        let of_conntrack = new.into_iter().chain([invalid]).filter(|_| *family == "inet");
        let pings = FAMILIES.map(|of| ("pings", of.ping.to_owned()));
        let mut named = std::collections::BTreeSet::new();
        for (name, rule) in pings.into_iter().chain([("begun", begin)]).chain(of_conntrack) {
            if named.insert(name) {
                nft(world, namespace, &format!("add counter {family} {hook} {name}"));
            }
            nft(world, namespace, &format!("add rule {family} {hook} seen {rule} counter name {name}"));
        }
    }
}

/// Packets by hook and counter.
fn counted(world: &World, namespace: &str) -> BTreeMap<String, u64> {
    let output = world.exec(namespace, "nft -j list counters");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counters = told["nftables"].as_array().unwrap().iter().filter_map(|one| one.get("counter"));
    let named =
        |one: &serde_json::Value| format!("{} {}", one["table"].as_str().unwrap(), one["name"].as_str().unwrap());
    counters.map(|one| (named(one), one["packets"].as_u64().unwrap())).collect()
}

/// What a counter has counted meanwhile.
struct Counts<'a> {
    world: &'a World,
    before: BTreeMap<(usize, String), u64>,
}

/// Who counts: guest 0, host 0, and guest 2.
const GUEST: usize = 0;
const ON_HOST: usize = 1;
const OTHER: usize = 2;

impl Counts<'_> {
    fn all(world: &World) -> BTreeMap<(usize, String), u64> {
        let places = [world.guest(0), world.host(0), world.guest(2)];
        let each = places
            .iter()
            .enumerate()
            .flat_map(|(at, place)| counted(world, place).into_iter().map(move |(k, v)| ((at, k), v)));
        each.collect()
    }

    fn begin(world: &World) -> Counts<'_> {
        Counts { world, before: Counts::all(world) }
    }

    fn since(&self, at: usize, counters: &[&str]) -> Vec<u64> {
        let now = Counts::all(self.world);
        let one = |name: &&str| now[&(at, (*name).to_owned())] - self.before[&(at, (*name).to_owned())];
        counters.iter().map(one).collect()
    }
}

#[test]
fn rules_of_the_host_see_each_packet_of_a_limited_guest_once() {
    let Some(mut world) = World::new("se") else { return };
    world.add_neighbour();
    let (host, guest, other) = (world.host(0), world.guest(0), world.guest(2));
    if !world.exec(&host, "nft list tables").status.success() {
        println!("skipped: nft cannot be run here");
        return;
    }
    for (at, device, own) in [(&guest, "lxc0", "fe80::1"), (&other, "lxc2", "fe80::1")] {
        ip(&format!("-n {host} addr add {own}/64 dev {device} nodad"));
        ip(&format!("-n {at} addr add fe80::2/64 dev eth0 nodad"));
        on_host(&world, &format!("sysctl -qw net.ipv4.conf.{device}.proxy_arp=1"));
    }
    ip(&format!("-n {other} addr add fd07:1::3/128 dev eth0 nodad"));
    for Family { host: own, guest: one, neighbour: two, len, .. } in FAMILIES {
        ip(&format!("-n {host} addr add {own}/{len} dev lo"));
        for (to, device) in [(one, "lxc0"), (two, "lxc2")] {
            ip(&format!("-n {host} route add {to}/{len} dev {device}"));
        }
        let via = if len == 128 { "via fe80::1 " } else { "" };
        ip(&format!("-n {guest} route add {own}/{len} {via}dev eth0"));
        ip(&format!("-n {guest} route add {two}/{len} {via}dev eth0"));
        ip(&format!("-n {other} route add {one}/{len} {via}dev eth0"));
    }
    on_host(&world, "sysctl -qw net.ipv4.ip_forward=1");
    on_host(&world, "sysctl -qw net.ipv6.conf.all.forwarding=1");
    configure(&world, LIMITS);
    let agent = world.start(0, &[]);
    eventually("guests meet over the host's routes", || {
        FAMILIES.iter().all(|of| world.ping(of.neighbour, 1) && world.ping(of.host, 1))
    });
    count(&world, &guest, &["output"]);
    count(&world, &host, &["ingress", "prerouting", "input", "forward"]);
    count(&world, &other, &["input"]);
    for family in FAMILIES {
        sees_each_packet_once(&world, &family);
    }
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}

fn sees_each_packet_once(world: &World, family: &Family) {
    let Family { name, host: own, neighbour, ping, .. } = family;
    let (host, guest, other) = (world.host(0), world.guest(0), world.guest(2));
    // As portmap: what comes for the host goes to a guest.
    nft(world, &host, &format!("add table {name} translate"));
    nft(world, &host, &format!("add chain {name} translate in {{ type nat hook prerouting priority -100 ; }}"));
    nft(
        world,
        &host,
        &format!("add rule {name} translate in {name} daddr {own} tcp dport {PORT} dnat to {}", family.at(neighbour)),
    );

    let pings = ["ingress pings", "prerouting pings", "input pings", "forward pings"];
    let new = ["prerouting new", "input new", "forward new"];
    let counts = Counts::begin(world);
    assert!(world.ping(own, 5));
    assert_eq!(counts.since(GUEST, &["output pings"]), [5]);
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(ON_HOST, &new)), (vec![5, 5, 5, 0], vec![1, 1, 0]));

    let counts = Counts::begin(world);
    assert!(world.ping(neighbour, 5));
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(ON_HOST, &new)), (vec![5, 5, 0, 5], vec![1, 0, 1]));
    assert_eq!(counts.since(OTHER, &["input pings"]), [5]);

    // Connections that are begun before somebody listens count, too, and all hooks see them.
    let counts = Counts::begin(world);
    let lowered = || number(&limit(world, "lxc2", "ingress"), "windows_lowered");
    let before = lowered();
    let until = world.dir.path().join(format!("until-{name}"));
    let mut server = world.spawn(&other, &format!("server {} 0", family.at(neighbour)));
    let mut client = world.command_in(&guest, &format!("client {} 5000000", family.at(own)), &until).spawn().unwrap();
    holds(world, "lxc2", "ingress", 60e6);
    std::fs::write(&until, "").unwrap();
    let sent = client.wait().unwrap().success();
    if !sent {
        let _ = server.kill();
    }
    assert!(server.wait().unwrap().success() && sent, "the connection broke");
    let begun = counts.since(GUEST, &["output begun"])[0];
    assert!(begun > 0);
    let seen = counts.since(ON_HOST, &["ingress begun", "prerouting begun", "input begun", "forward begun"]);
    assert_eq!((seen, counts.since(OTHER, &["input begun"])), (vec![begun, begun, 0, begun], vec![begun]));
    // Conntrack follows windows, and judges a segment by those that it saw: it saw the lowered ones.
    assert!(lowered() - before > 10.0, "the law did nothing");
    let invalid = ["prerouting invalid", "input invalid", "forward invalid"];
    assert_eq!(counts.since(ON_HOST, &invalid), [0, 0, 0], "segments that conntrack takes for none of a connection");

    // What a rule drops has been seen by all before it, and by nobody behind it.
    nft(world, &host, "add chain inet forward refused { type filter hook forward priority 10 ; }");
    nft(world, &host, &format!("add rule inet forward refused {ping} drop"));
    let counts = Counts::begin(world);
    assert!(!world.ping(neighbour, 3), "the host's rule drops it");
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(OTHER, &["input pings"])), (vec![3, 3, 0, 3], vec![0]));
    nft(world, &host, "delete chain inet forward refused");
    assert!(world.ping(neighbour, 1));
    nft(world, &host, &format!("delete table {name} translate"));
}
