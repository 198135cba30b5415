//! Hosts with two uplinks, into a fabric of two routers that are linked with each other; and uplinks that are refused.

use super::peers::gauge;
use super::world::{eventually, ip, World, LEARNING, NAMED};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Router `r` (0 or 1) of the fabric. The world has four namespaces for guests, and these tests need two.
fn router(world: &World, r: usize) -> String {
    world.guest(2 + r)
}

/// Host `i` has 192.168.200.<i+1> and fd20::<i+1> on `lo`, u0 to router 0 and u1 to router 1. It prefers u0. Each router reaches a host
/// directly, and if that link is down by the other router.
fn two_fabrics(world: &World) {
    for r in 0..2 {
        let router = router(world, r);
        ip(&format!("netns add {router}"));
        ip(&format!("-n {router} link set lo up"));
        for set in ["ipv4.ip_forward=1", "ipv6.conf.all.forwarding=1", "ipv6.conf.all.keep_addr_on_down=1"] {
            assert!(world.exec(&router, &format!("sysctl -qw net.{set}")).status.success());
        }
    }
    ip(&format!("-n {} link del u0", world.host(0)));
    let [first, second] = [router(world, 0), router(world, 1)];
    ip(&format!("link add x netns {first} type veth peer name x netns {second}"));
    for r in 0..2 {
        let (router, n, other) = (router(world, r), r + 1, 2 - r);
        ip(&format!("-n {router} addr add 10.99.0.{n}/24 dev x"));
        ip(&format!("-n {router} addr add fd99::{n}/64 dev x nodad"));
        ip(&format!("-n {router} link set x up"));
        for i in 0..2 {
            let (host, k) = (world.host(i), i + 1);
            // The kernel announces carriers of veth pairs late if both ends have one number.
            let ends = [101 + r, 201 + i];
            ip(&format!(
                "link add u{r} index {} netns {host} type veth peer name h{i} index {} netns {router}",
                ends[0], ends[1]
            ));
            for (namespace, device, end) in [(&host, format!("u{r}"), 2), (&router, format!("h{i}"), 1)] {
                ip(&format!("-n {namespace} addr add 10.9{r}.{i}.{end}/24 dev {device}"));
                ip(&format!("-n {namespace} addr add fd9{r}:{i}::{end}/64 dev {device} nodad"));
                ip(&format!("-n {namespace} link set {device} up"));
            }
            ip(&format!("-n {router} route add 192.168.200.{k}/32 via 10.9{r}.{i}.2 metric 10"));
            ip(&format!("-n {router} route add fd20::{k}/128 via fd9{r}:{i}::2 metric 10"));
            ip(&format!("-n {router} route add 192.168.200.{k}/32 via 10.99.0.{other} metric 20"));
            ip(&format!("-n {router} route add fd20::{k}/128 via fd99::{other} metric 20"));
        }
    }
    for i in 0..2 {
        let (host, n, other) = (world.host(i), i + 1, 2 - i);
        ip(&format!("-n {host} addr add 192.168.200.{n}/32 dev lo"));
        ip(&format!("-n {host} addr add fd20::{n}/128 dev lo nodad"));
        for r in 0..2 {
            let metric = 10 + 10 * r;
            ip(&format!("-n {host} route add 192.168.200.{other}/32 via 10.9{r}.{i}.1 dev u{r} metric {metric}"));
            ip(&format!("-n {host} route add fd20::{other}/128 via fd9{r}:{i}::1 dev u{r} metric {metric}"));
        }
    }
}

/// Both hosts' configurations name both uplinks, and addresses that both lead to.
fn configure(world: &World, v6: bool) {
    world.configure(0, NAMED);
    world.configure(1, LEARNING);
    let address = |n: usize| if v6 { format!("fd20::{n}") } else { format!("192.168.200.{n}") };
    for i in 0..2 {
        let (n, other) = (i + 1, 2 - i);
        let text = fs::read_to_string(world.config(i)).unwrap();
        let both = format!("interfaces = [\"u0\", \"u1\"]\naddress = \"{}\"", address(n));
        let text = text.replace("interface = \"u0\"", &both);
        fs::write(world.config(i), text.replace(&format!("192.168.99.{other}"), &address(other))).unwrap();
    }
}

/// By which uplink host 0 sends to host 1.
fn uplink(world: &World) -> String {
    world.ask(0, &["paths"])[0]["uplink"].as_str().unwrap().to_owned()
}

/// Time of the day, seconds.
#[allow(clippy::disallowed_methods, reason = "compares with an agent's log")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() % 86_400.0
}

/// When the agent of host 0 logged that, as [`now`].
fn logged(world: &World, what: &str) -> Option<f64> {
    let log = world.log(0);
    let line: serde_json::Value = serde_json::from_str(log.lines().rfind(|line| line.contains(what))?).unwrap();
    let stamp = line["timestamp"].as_str().unwrap().trim_end_matches('Z').to_owned();
    let parts = stamp.split_once('T').unwrap().1.split(':').map(|part| part.parse::<f64>().unwrap());
    Some(parts.fold(0.0, |sum, part| sum * 60.0 + part))
}

fn a_failed_uplink_is_left(name: &str, v6: bool) {
    let Some(mut world) = World::new(name) else { return };
    two_fabrics(&world);
    configure(&world, v6);
    let config = world.config(0);
    let check = || {
        let output = world.command(0, &[], &["agent", "check", "--config", config.to_str().unwrap()]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(check().contains("net.ipv6.conf.u0.ignore_routes_with_linkdown=1"), v6, "{}", check());
    for device in ["u0", "u1"] {
        let set = format!("sysctl -qw net.ipv6.conf.{device}.ignore_routes_with_linkdown=1");
        assert!(!v6 || world.exec(&world.host(0), &set).status.success());
    }
    assert!(!check().contains("linkdown"), "{}", check());
    for i in 0..2 {
        world.start_with(i, &[], &["--log", "json"]);
    }
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    assert_eq!(uplink(&world), "u0", "as the routes say");
    let router = router(&world, 0);
    world.transfer("10.7.2.2:9000", 4_000_000, |world| {
        // The link fails at its other end: the host's own end stays up, and so do its routes.
        let mut down = Command::new("ip");
        let mut down = down.args(["-n", &router, "-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300)); // it waits for the command
        let begun = now();
        down.stdin.take().unwrap().write_all(b"link set h0 down\n").unwrap();
        assert!(down.wait().unwrap().success());
        let took = now() - begun;
        eventually("the uplink is left", || uplink(world) == "u1");
        if let Some(at) = logged(world, "uplink u0: it has failed") {
            let ms = |seconds: f64| seconds * 1e3;
            println!("left {:.1} ms after the link was set down, which took {:.1} ms", ms(at - begun), ms(took));
        }
        eventually("traffic goes on", || world.ping("10.7.2.2", 1));
        let routed = world.exec(&world.host(0), "ip -o route get 192.168.200.2").stdout;
        assert!(String::from_utf8_lossy(&routed).contains("dev u0"), "the host's own IPv4 routes still lead there");
        eventually("it is said", || {
            world.ask(0, &["status"])["problems"].to_string().contains("uplink u0: it is down")
        });
        assert_eq!(gauge(world, "selvedge_uplinks_down"), Some(1.0));
        ip(&format!("-n {router} link set h0 up"));
        for (family, to) in [("", "10.90.0.2"), ("-6", "fd90:0::2")] {
            let k = if family.is_empty() { "192.168.200.1/32" } else { "fd20::1/128" };
            let back = format!("ip {family} route replace {k} via {to} dev h0 metric 10");
            eventually("the router's route is back", || world.exec(&router, &back).status.success());
        }
        eventually("the uplink is taken again", || uplink(world) == "u0");
        assert_eq!(world.ask(0, &["status"])["problems"], serde_json::json!([]));
        assert_eq!(gauge(world, "selvedge_uplinks_down"), Some(0.0));
        eventually("traffic goes on there", || world.ping("10.7.2.2", 1));
        // One that is removed is left, too, and missed.
        ip(&format!("-n {} link del u0", world.host(0)));
        eventually("the uplink is left again", || uplink(world) == "u1");
        eventually("traffic goes on without it", || world.ping("10.7.2.2", 1));
        eventually("it is missed", || world.ask(0, &["status"])["problems"].to_string().contains("no such interface"));
        assert_eq!(gauge(world, "selvedge_uplinks_down"), Some(1.0), "one that is missing, too");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(uplink(world), "u1", "also after everything was looked at");
    });
}

#[test]
fn an_uplink_that_fails_is_left() {
    a_failed_uplink_is_left("ul", false);
}

#[test]
fn an_uplink_that_fails_is_left_over_ipv6() {
    a_failed_uplink_is_left("us", true);
}

#[test]
fn doctor_says_what_uplinks_do_with_packets() {
    let Some(world) = World::new("ud") else { return };
    world.configure_both();
    let host = world.host(0);
    let told = || {
        let config = world.config(0);
        let output =
            world.command(0, &[], &["doctor", "--json", "--config", config.to_str().unwrap()]).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let of = |name: &str| {
            let found = told["probes"].as_array().unwrap().iter().find(|probe| probe["name"] == name).unwrap();
            assert!(found["reason"].as_str().unwrap().starts_with("u0"), "{found}");
            (found["status"].as_str().unwrap().to_owned(), found["remedy"].as_str().unwrap().to_owned())
        };
        ["rx-flow-hash", "tx-segmentation", "gro"].map(of)
    };
    let [hash, cutting, merging] = told();
    assert_eq!(hash, ("unknown".to_owned(), String::new()), "a veth pair does not say");
    assert_eq!((cutting.0.as_str(), merging.0.as_str()), ("yes", "unknown"));
    if !world.exec(&host, "ethtool -K u0 tx-udp_tnl-segmentation off gro on").status.success() {
        return println!("skipped: there is no ethtool");
    }
    let [_, cutting, merging] = told();
    let remedy = "ethtool -K u0 tx-udp_tnl-segmentation on, if the device can".to_owned();
    assert_eq!((cutting, merging.0.as_str()), (("no".to_owned(), remedy), "yes"));
}

#[test]
fn uplinks_without_ethernet_are_refused() {
    let Some(world) = World::new("ue") else { return };
    world.configure_both();
    let host = world.host(0);
    if !world.exec(&host, "ip tuntap add dev tun0 mode tun").status.success() {
        return println!("skipped: no tun device can be made");
    }
    ip(&format!("-n {host} addr add 192.168.98.1/24 dev tun0"));
    ip(&format!("-n {host} link set tun0 up"));
    let good = fs::read_to_string(world.config(0)).unwrap();
    let config = world.config(0);
    for (uplinks, key) in [("interface = \"tun0\"", "interface"), ("interfaces = [\"u0\", \"tun0\"]", "interfaces")] {
        fs::write(&config, good.replace("interface = \"u0\"", uplinks)).unwrap();
        for verb in ["check", "run"] {
            let output =
                world.command(0, &[], &["agent", verb, "--config", config.to_str().unwrap()]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{verb}: {text}");
            let said = format!("{}: uplink.{key}: packets of tun0 have no Ethernet header", config.display());
            assert!(text.contains(&said) && text.contains("name the Ethernet interface below it"), "{verb}: {text}");
            assert_eq!(text.lines().count(), 1, "{verb}: {text}");
        }
    }
    assert!(!world.pins(0).exists(), "nothing was changed");
}
