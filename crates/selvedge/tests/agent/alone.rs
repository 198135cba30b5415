//! Ports with limits only, beside networks of the host's making: a bridge, and routes.

use super::limits::{holds, limit};
use super::world::{eventually, ip, World};

/// Host 0 without an uplink of the edge's: guests 0 and 2, and what limits them.
pub(super) fn configure(world: &World, ports: &str) {
    let (pins, socket) = (world.pins(0), world.socket(0));
    let metrics = "metrics = \"127.0.0.1:9464\"";
    let head = format!("[agent]\npins = {pins:?}\nsocket = {socket:?}\n{metrics}\nmax_flows = 1024\n");
    std::fs::write(world.config(0), head + ports).unwrap();
}

fn reconfigure(world: &World, ports: &str) {
    configure(world, ports);
    let output = world.ctl(0, &["reload"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const LIMITS: &str = "[[port]]\ninterface = \"lxc0\"\negress_rate = \"100Mbps\"\ningress_rate = \"200Mbps\"\n\
                      [[port]]\npattern = \"lxc2*\"\ningress_rate = \"60Mbps\"\n";

pub(super) fn on_host(world: &World, command: &str) -> String {
    let output = world.exec(&world.host(0), command);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packets that a counter of nftables on host 0 has seen; `None` where there is no nft.
fn counted(world: &World, counter: &str) -> Option<u64> {
    let output = world.exec(&world.host(0), &format!("nft list counter {counter}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().skip_while(|word| *word != "packets").nth(1)?.parse().ok()
}

/// Counters of what the host's own rules see with a mark: of ours none, of others' all. `seen.rs` has what they see at all.
fn watch(world: &World) {
    if !world.exec(&world.host(0), "nft list tables").status.success() {
        println!("skipped, what nftables sees: nft cannot be run here");
        return;
    }
    for command in [
        "nft add table netdev t",
        "nft add counter netdev t given",
        "nft add chain netdev t from { type filter hook ingress device lxc9 priority 0 ; }",
        "nft add rule netdev t from meta mark 0x99 counter name given",
        "nft add table inet t",
        "nft add counter inet t marked",
        "nft add chain inet t in { type filter hook input priority 0 ; }",
        "nft add rule inet t in meta mark != 0 iifname != lxc9 counter name marked",
    ] {
        on_host(world, command);
    }
}

#[test]
fn limits_need_no_overlay() {
    let Some(mut world) = World::new("al") else { return };
    world.add_neighbour();
    let host = world.host(0);
    // Both ends in one namespace, so that a mark arrives: as if a program before ours had set it.
    ip(&format!("-n {host} link add lx type veth peer name lxc9"));
    for device in ["lx", "lxc9"] {
        ip(&format!("-n {host} link set {device} up"));
    }
    ip(&format!("-n {host} addr add 10.66.0.2/24 dev lx"));
    ip(&format!("-n {host} neigh add 10.66.0.7 lladdr 02:00:00:00:00:07 dev lx"));
    ip(&format!("-n {host} link add br0 type bridge"));
    ip(&format!("-n {host} addr add 10.7.0.1/16 dev br0"));
    ip(&format!("-n {host} link set br0 up"));
    for port in ["lxc0", "lxc2"] {
        ip(&format!("-n {host} link set {port} master br0"));
    }
    watch(&world);
    configure(&world, &format!("{LIMITS}[[port]]\ninterface = \"lxc9\"\negress_rate = \"10Mbps\"\n"));
    let config = world.config(0);
    let check = world.command(0, &[], &["agent", "check", "--config", config.to_str().unwrap()]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let agent = world.start(0, &[]);
    assert_eq!(world.ask(0, &["status"])["problems"].to_string(), "[]");
    for port in world.ask(0, &["ports"]).as_array().unwrap() {
        assert!(port["network"].is_null() && port["attached"] == true, "{port}");
        assert_eq!(port["mtu"], 1500, "its own: there is no overlay");
    }
    for interface in ["lxc0", "lxc9"] {
        assert_eq!(limit(&world, interface, "egress")["in_force"], true);
    }

    // Beside the bridge: to the neighbour, whose own limit is the smaller one, to the host, and from it.
    assert!(world.ping("10.7.1.3", 2) && world.ping("10.7.0.1", 2));
    world.transfer_between(0, 2, "10.7.1.3:9000", 5_000_000, |world| holds(world, "lxc2", "ingress", 60e6));
    let guest = world.guest(0);
    let egress = |world: &mut World| holds(world, "lxc0", "egress", 100e6);
    let ingress = |world: &mut World| holds(world, "lxc0", "ingress", 200e6);
    world.transfer_in("client", [&guest, &host], "10.7.0.1:9002", 5_000_000, egress);
    world.transfer_in("client", [&host, &guest], "10.7.1.2:9003", 5_000_000, ingress);

    // Others see no mark of ours, and what had one keeps it.
    if let Some(marked) = counted(&world, "inet t marked") {
        assert_eq!(marked, 0);
        let _unanswered = world.exec(&host, "ping -c 3 -i 0.1 -W 1 -m 153 -I lx 10.66.0.7");
        eventually("what had a mark has it", || counted(&world, "netdev t given") >= Some(3));
        let queued = limit(&world, "lxc9", "egress")["sent_bytes"].as_u64();
        assert!(queued >= Some(3 * 98), "{queued:?}: it went through the queue");
    }

    // Beside routes, as soon as the bridge has gone.
    ip(&format!("-n {host} link del br0"));
    for (guest, device) in [("10.7.1.2", "lxc0"), ("10.7.1.3", "lxc2")] {
        ip(&format!("-n {host} route add {guest}/32 dev {device}"));
        on_host(&world, &format!("sysctl -qw net.ipv4.conf.{device}.proxy_arp=1"));
    }
    on_host(&world, "sysctl -qw net.ipv4.ip_forward=1");
    eventually("guests meet over the host's routes", || world.ping("10.7.1.3", 1));
    world.transfer_between(0, 2, "10.7.1.3:9004", 5_000_000, |world| holds(world, "lxc2", "ingress", 60e6));

    // By departure times, too, where this kernel has an fq that keeps to them.
    if world.exec(&host, "tc qdisc add dev lo root fq").status.success() {
        reconfigure(&world, &format!("{LIMITS}[limits]\npacing = \"departure\"\n"));
        assert!(on_host(&world, "tc qdisc show dev svlimit0").contains("fq"));
        world.transfer_between(0, 2, "10.7.1.3:9006", 5_000_000, |world| holds(world, "lxc2", "ingress", 60e6));
        assert!(world.ping("10.7.1.3", 2), "nothing is limited twice, or lost on its way back to its port");
        reconfigure(&world, LIMITS);
    } else {
        println!("skipped, departure times: this kernel has no fq");
    }

    let bundle = world.config(0).with_extension("bundle");
    let arguments = ["doctor", "--bundle", bundle.to_str().unwrap(), "--socket", world.socket(0).to_str().unwrap()]
        .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert!(world.command(0, &[], &arguments).output().unwrap().status.success());
    let bundle: serde_json::Value = serde_json::from_slice(&std::fs::read(bundle).unwrap()).unwrap();
    assert!(
        bundle["agent"]["limits"].as_array().is_some_and(|limits| limits.len() >= 3),
        "{}",
        bundle["agent"]["limits"]
    );
    for device in ["svlimit0", "lxc2"] {
        let classes = &bundle["host"][format!("tc -s class show dev {device}")]["lines"];
        assert!(classes.to_string().contains("class htb"), "{device}: {classes}");
    }

    // Killed and found again; a limit less; and nothing is left.
    world.end(agent, "KILL");
    let agent = world.start(0, &[]);
    world.transfer_between(0, 2, "10.7.1.3:9005", 5_000_000, |world| {
        reconfigure(world, &LIMITS[..LIMITS.rfind("[[port]]").unwrap()]);
        holds(world, "lxc0", "egress", 100e6);
    });
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(!on_host(&world, "tc qdisc show").contains("htb") && !world.has_interface(0, "svlimit0"));
    assert!(world.ping("10.7.1.3", 1), "what the host's own network carries goes on");
}

/// Each pair has a queue and a lock of its own, and ports stay where they are.
#[test]
fn limits_are_spread_over_pairs_of_devices() {
    let Some(mut world) = World::new("ap") else { return };
    world.add_neighbour();
    let host = world.host(0);
    ip(&format!("-n {host} link add br0 type bridge"));
    ip(&format!("-n {host} link set br0 up"));
    for port in ["lxc0", "lxc2"] {
        ip(&format!("-n {host} link set {port} master br0"));
    }
    let limits = |devices: u32| {
        let ports = [("lxc0", 100), ("lxc2", 60)]
            .map(|(port, mbps)| format!("[[port]]\ninterface = \"{port}\"\negress_rate = \"{mbps}Mbps\"\n"));
        format!("{}[limits]\ndevices = {devices}\n", ports.concat())
    };
    let has = |world: &World, device: &str| {
        let classes = on_host(world, &format!("tc class show dev {device}"));
        ["100Mbit", "60Mbit"].map(|rate| classes.contains(rate))
    };
    let spread = |world: &World| has(world, "svlimit0") == [true, false] && has(world, "svlimit2") == [false, true];
    configure(&world, &limits(2));
    let agent = world.start(0, &[]);
    assert!(spread(&world), "{}", on_host(&world, "tc qdisc show"));
    world.transfer_between(0, 2, "10.7.1.3:9000", 5_000_000, |world| holds(world, "lxc0", "egress", 100e6));
    world.transfer_between(2, 0, "10.7.1.2:9001", 5_000_000, |world| holds(world, "lxc2", "egress", 60e6));
    world.end(agent, "KILL");
    let agent = world.start(0, &[]);
    assert!(spread(&world) && world.log(0).contains("maps: nothing to change"), "{}", world.log(0));
    world.transfer_between(2, 0, "10.7.1.2:9002", 5_000_000, |world| {
        reconfigure(world, &limits(1));
        assert!(has(world, "svlimit0") == [true, true] && !world.has_interface(0, "svlimit2"));
        holds(world, "lxc2", "egress", 60e6);
    });
    reconfigure(&world, &limits(2));
    assert_eq!(has(&world, "svlimit0"), [true, true], "nobody moves without need");
    assert!(world.end(agent, "TERM") && world.stop(0).status.success());
    assert!(!on_host(&world, "tc qdisc show").contains("htb") && !world.has_interface(0, "svlimit0"));
}
