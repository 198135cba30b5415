//! What the host's own rules see of a limited guest's packets: each exactly once, on its way to the host, to another guest, or to an
//! address that the host translates, as portmap does. What the guest's own rules see leave it is the measure, so that a retransmission
//! counts on both sides.

use super::alone::{configure, on_host};
use super::limits::{holds, limit, number};
use super::world::{eventually, ip, World};
use std::collections::BTreeMap;

const LIMITS: &str = "[[port]]\npattern = \"lxc*\"\negress_rate = \"100Mbps\"\ningress_rate = \"60Mbps\"\n";
const PORT: u16 = 9009;
/// The host's own address.
const HOST: &str = "10.66.0.2";
const NEIGHBOUR: &str = "10.7.1.3";
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
        let of_conntrack =
            [("new", "icmp type echo-request ct state new"), ("invalid", "meta l4proto tcp ct state invalid")];
        let of_conntrack = of_conntrack.into_iter().filter(|_| *family == "inet");
        let rules = [("pings", "icmp type echo-request"), ("begun", begin.as_str())].into_iter().chain(of_conntrack);
        for (name, rule) in rules {
            nft(world, namespace, &format!("add counter {family} {hook} {name}"));
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
    ip(&format!("-n {host} addr add {HOST}/32 dev lo"));
    ip(&format!("-n {guest} route add {HOST}/32 dev eth0"));
    for (guest, device) in [("10.7.1.2", "lxc0"), (NEIGHBOUR, "lxc2")] {
        ip(&format!("-n {host} route add {guest}/32 dev {device}"));
        on_host(&world, &format!("sysctl -qw net.ipv4.conf.{device}.proxy_arp=1"));
    }
    on_host(&world, "sysctl -qw net.ipv4.ip_forward=1");
    configure(&world, LIMITS);
    let agent = world.start(0, &[]);
    eventually("guests meet over the host's routes", || world.ping(NEIGHBOUR, 1) && world.ping(HOST, 1));
    count(&world, &guest, &["output"]);
    count(&world, &host, &["ingress", "prerouting", "input", "forward"]);
    count(&world, &other, &["input"]);
    // As portmap: what comes for the host goes to a guest.
    nft(&world, &host, "add table ip translate");
    nft(&world, &host, "add chain ip translate in { type nat hook prerouting priority -100 ; }");
    nft(
        &world,
        &host,
        &format!("add rule ip translate in ip daddr {HOST} tcp dport {PORT} dnat to {NEIGHBOUR}:{PORT}"),
    );

    let pings = ["ingress pings", "prerouting pings", "input pings", "forward pings"];
    let new = ["prerouting new", "input new", "forward new"];
    let counts = Counts::begin(&world);
    assert!(world.ping(HOST, 5));
    assert_eq!(counts.since(GUEST, &["output pings"]), [5]);
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(ON_HOST, &new)), (vec![5, 5, 5, 0], vec![1, 1, 0]));

    let counts = Counts::begin(&world);
    assert!(world.ping(NEIGHBOUR, 5));
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(ON_HOST, &new)), (vec![5, 5, 0, 5], vec![1, 0, 1]));
    assert_eq!(counts.since(OTHER, &["input pings"]), [5]);

    // Connections that are begun before somebody listens count, too, and all hooks see them.
    let counts = Counts::begin(&world);
    let until = world.dir.path().join("until");
    let mut server = world.spawn(&other, &format!("server {NEIGHBOUR}:{PORT} 0"));
    let mut client = world.command_in(&guest, &format!("client {HOST}:{PORT} 5000000"), &until).spawn().unwrap();
    holds(&world, "lxc2", "ingress", 60e6);
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
    assert!(number(&limit(&world, "lxc2", "ingress"), "windows_lowered") > 10.0, "the law did nothing");
    let invalid = ["prerouting invalid", "input invalid", "forward invalid"];
    assert_eq!(counts.since(ON_HOST, &invalid), [0, 0, 0], "segments that conntrack takes for none of a connection");

    // What a rule drops has been seen by all before it, and by nobody behind it.
    nft(&world, &host, "add chain inet forward refused { type filter hook forward priority 10 ; }");
    nft(&world, &host, "add rule inet forward refused icmp type echo-request drop");
    let counts = Counts::begin(&world);
    assert!(!world.ping(NEIGHBOUR, 3), "the host's rule drops it");
    assert_eq!((counts.since(ON_HOST, &pings), counts.since(OTHER, &["input pings"])), (vec![3, 3, 0, 3], vec![0]));
    nft(&world, &host, "delete chain inet forward refused");
    assert!(world.ping(NEIGHBOUR, 1));
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
}
