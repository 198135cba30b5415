//! Packets that are not as others: as large as the guest's interface allows, in tunnels of guests, or translated by them.

use super::world::{eventually, ip, Running, World, LEARNING, NAMED};
use std::time::Duration;

/// Both agents run, and guest 1 is learned.
fn network(name: &str, port: &str, prepare: impl FnOnce(&World)) -> Option<World> {
    let mut world = World::new(name)?;
    world.configure(0, port);
    world.configure(1, LEARNING);
    prepare(&world);
    world.start_both();
    eventually("guest 1 is learned", || {
        world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
    });
    Some(world)
}

/// What a ping with packets of `size` bytes, IP header included, that may not be fragmented says.
fn ping(world: &World, from: &str, to: &str, size: u32) -> String {
    let output = world.exec(from, &format!("ping -n -c 3 -i 0.2 -W 1 -M do -s {} {to}", size - 28));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn learned(said: &str, mtu: u32) -> bool {
    said.contains(&format!("mtu = {mtu}"))
        || said.contains(&format!("mtu={mtu}"))
        || said.contains(&format!("mtu: {mtu}"))
}

/// One connection from namespace `from` to `to`, which `at` serves as `here`.
fn connection(world: &World, from: &str, to: &str, at: &str, here: &str, bytes: u64) {
    let mut server = world.spawn(at, &format!("server {here} 0"));
    let sent = world.spawn(from, &format!("client {to} {bytes}")).wait().unwrap().success();
    if !sent {
        let _ = server.kill();
    }
    assert!(server.wait().unwrap().success() && sent, "{from} to {to}");
}

#[test]
fn packets_as_large_as_the_guests_interface_are_answered_on_every_path() {
    let neighbour = "[[port]]\nnetwork = 7\ninterface = \"lxc2\"\naddresses = [\"10.7.1.3\"]\nmtu = 1300";
    let Some(world) = network("mt", &format!("{NAMED}\n\n{neighbour}"), World::add_neighbour) else { return };
    let [guest, other, host] = [world.guest(0), world.guest(2), world.host(0)];
    ip(&format!("-n {host} addr add 10.9.0.1/32 dev lxc0"));
    ip(&format!("-n {host} route add 10.7.1.2/32 dev lxc0 src 10.9.0.1"));
    ip(&format!("-n {guest} route add 10.9.0.1/32 dev eth0 src 10.7.1.2"));
    connection(&world, &guest, "10.7.1.3:9000", &other, "10.7.1.3:9000", 3_000_000);
    connection(&world, &other, "10.7.1.2:9000", &guest, "10.7.1.2:9000", 3_000_000);
    connection(&world, &guest, "10.7.2.2:9000", &world.guest(1), "10.7.2.2:9000", 3_000_000);
    assert!(world.counter(0, "mss_clamped") >= 4, "SYNs between the guests, and to the peer");
    for (to, mtu) in [("10.7.2.2", 1450), ("10.7.1.3", 1300)] {
        let said = ping(&world, &guest, to, 1480);
        assert!(learned(&said, mtu), "{to}: {said}");
        let said = ping(&world, &guest, to, mtu);
        assert!(said.contains(" 0% packet loss"), "{to}: {said}");
    }
    // Between guest and host there is no tunnel.
    for (from, to) in [(&guest, "10.9.0.1"), (&host, "10.7.1.2")] {
        let said = ping(&world, from, to, 1500);
        assert!(said.contains(" 0% packet loss"), "{to}: {said}");
    }
    assert_eq!(world.mtu(&host, "lxc0"), 1500, "as the guest's own end");
}

#[test]
fn the_hosts_end_follows_the_guests_own() {
    for (own, hosts) in [(1450, 1500), (1500, 1450)] {
        let set = |world: &World| {
            ip(&format!("-n {} link set eth0 mtu {own}", world.guest(0)));
            ip(&format!("-n {} link set lxc0 mtu {hosts}", world.host(0)));
        };
        let Some(mut world) = World::new("mu") else { return };
        set(&world);
        world.configure_both();
        world.start(0, &[]);
        let [guest, host] = [world.guest(0), world.host(0)];
        ip(&format!("-n {host} addr add 10.9.0.1/32 dev lxc0"));
        ip(&format!("-n {host} route add 10.7.1.2/32 dev lxc0 src 10.9.0.1"));
        ip(&format!("-n {guest} route add 10.9.0.1/32 dev eth0 src 10.7.1.2"));
        eventually("the host's end follows", || world.mtu(&host, "lxc0") == own);
        for (from, to) in [(&guest, "10.9.0.1"), (&host, "10.7.1.2")] {
            let said = ping(&world, from, to, own);
            assert!(said.contains(" 0% packet loss"), "{to}: {said}");
        }
        // What is too large is refused or cut where it begins, and nothing vanishes between the ends.
        let said = ping(&world, &host, "10.7.1.2", own + 10);
        assert!(learned(&said, own), "{said}");
        let whole = world.exec(&host, &format!("ping -n -c 3 -i 0.2 -W 1 -M dont -s {} 10.7.1.2", own - 18));
        assert!(String::from_utf8_lossy(&whole.stdout).contains(" 0% packet loss"), "{whole:?}");
        assert!(world.stop(0).status.success());
        assert_eq!(world.mtu(&host, "lxc0"), hosts, "restored");
    }
}

#[test]
fn mtus_that_an_earlier_agent_lowered_are_restored() {
    let Some(mut world) = World::new("mo") else { return };
    world.configure_both();
    let agent = world.start(0, &[]);
    world.end(agent, "KILL");
    let state = world.socket(0).with_extension("sock.state");
    let text = std::fs::read_to_string(&state).unwrap();
    let lowered = text.replace("\"mtu\":null", "\"mtu\":{\"original\":1500,\"set\":1450}");
    assert_ne!(text, lowered);
    std::fs::write(&state, lowered).unwrap();
    ip(&format!("-n {} link set lxc0 mtu 1450", world.host(0)));
    world.start(0, &[]);
    assert_eq!(world.mtu(&world.host(0), "lxc0"), 1500);
}

/// Guests 0 and 1 make a VXLAN of their own between them, whose addresses begin with 172.16.0.
fn add_tunnels(world: &World, family: u32, mtu: &str) {
    for i in 0..2 {
        let guest = world.guest(i);
        let [own, other] =
            [i + 1, 2 - i].map(|n| if family == 4 { format!("10.7.{n}.2") } else { format!("fd07:{n}::2") });
        ip(&format!("-n {guest} link add vx0 type vxlan id 5 local {own} remote {other} dstport 4789 dev eth0"));
        ip(&format!("-n {guest} addr add 172.16.0.{}/24 dev vx0", i + 1));
        ip(&format!("-n {guest} link set vx0 {mtu} up"));
    }
}

/// What `peer_process` starts for this file: who sends datagrams of `len` bytes, 39 of them in one segment and one by itself in turn, until it
/// is ended; and who waits for 400, in order.
pub(super) fn peer(sink: bool, address: &str, len: u64) {
    use nix::sys::socket::{setsockopt, sockopt};
    let len = len as usize;
    if sink {
        let socket = std::net::UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(super::WAIT)).unwrap();
        let (mut seen, mut latest) = (std::collections::HashSet::new(), None);
        while seen.len() < 400 {
            let mut datagram = vec![0; len + 1];
            assert_eq!(socket.recv(&mut datagram).unwrap(), len, "each is one again");
            let number = u32::from_be_bytes(*datagram.first_chunk().unwrap());
            assert!(datagram[4..len].iter().all(|byte| *byte == number as u8), "a wrong byte in {number}");
            assert!(latest < Some(number), "{number} comes after {latest:?}");
            latest = latest.max(Some(number));
            seen.insert(number);
        }
        return;
    }
    super::processor::stay_on_one();
    let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = std::net::UdpSocket::bind(any).unwrap();
    setsockopt(&socket, sockopt::UdpGsoSegment, &(len as i32)).unwrap();
    // As long as others wait for it, and no longer.
    for first in (0u32..).step_by(40).take(super::WAIT.as_millis() as usize / 20) {
        let numbered = |number: u32| {
            let mut datagram = vec![number as u8; len];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            datagram
        };
        let segment: Vec<u8> = (first..first + 39).flat_map(numbered).collect();
        for data in [segment, numbered(first + 39)] {
            let _ = socket.send_to(&data, address); // nobody may listen yet
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Datagrams that the guest's kernel gives to its interface as one segment arrive one by one.
pub(super) fn datagrams(world: &World, from: &str, to: &str, at: &str) {
    let mut sink = Running(world.spawn(at, &format!("datagram-sink {to} 1200")));
    let _source = Running(world.spawn(from, &format!("datagram-source {to} 1200")));
    assert!(sink.0.wait().unwrap().success(), "{from} to {to}");
}

/// TCP and UDP through the guests' tunnel, both ways.
fn use_tunnels(world: &World) {
    let [one, two] = [world.guest(0), world.guest(1)];
    eventually("the tunnel is there", || world.exec(&one, "ping -c 1 -W 1 172.16.0.2").status.success());
    connection(world, &one, "172.16.0.2:9000", &two, "172.16.0.2:9000", 3_000_000);
    connection(world, &two, "172.16.0.1:9000", &one, "172.16.0.1:9000", 3_000_000);
    datagrams(world, &one, "172.16.0.2:9001", &two);
    datagrams(world, &two, "172.16.0.1:9001", &one);
    let flood = world.exec(&one, "ping -n -c 10 -i 0.2 -W 1 -s 1300 172.16.0.2");
    let said = String::from_utf8_lossy(&flood.stdout).into_owned();
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert_eq!(world.counter(0, "drop_error_segments") + world.counter(1, "drop_error_segments"), 0);
}

#[test]
fn guests_have_tunnels_of_their_own() {
    let Some(world) = network("tu", NAMED, |_| {}) else { return };
    add_tunnels(&world, 4, "mtu 1400");
    use_tunnels(&world);
    assert!(world.counter(0, "cut_segments") > 0, "its segments were whole");
    // What is cut passes the stages once, as what comes of it.
    let flows = world.ask(0, &["flows"]);
    let of_flows: u64 =
        flows["flows"].as_array().unwrap().iter().map(|flow| flow["out_segments"].as_u64().unwrap()).sum();
    let (sent, others) = (world.counter(0, "out_segments"), world.counter(0, "untracked_segments"));
    assert!(of_flows <= sent && of_flows + others >= sent, "{of_flows} and {others} of {sent} segments");
    // What does not fit is answered, and the guests' kernels learn it.
    for i in 0..2 {
        ip(&format!("-n {} link set vx0 mtu 1450", world.guest(i)));
    }
    use_tunnels(&world);
}

#[test]
fn guests_have_tunnels_of_their_own_over_ipv6() {
    let Some(world) = network("tv", NAMED, |_| {}) else { return };
    add_tunnels(&world, 6, "mtu 1380");
    use_tunnels(&world);
}

/// The fabric is one of IPv6.
fn over_ipv6(world: &World) {
    for i in 0..2 {
        ip(&format!("-n {} addr add fd99::{}/64 dev u0 nodad", world.host(i), i + 1));
        let text = std::fs::read_to_string(world.config(i)).unwrap();
        std::fs::write(world.config(i), text.replace("192.168.99.", "fd99::")).unwrap();
    }
}

#[test]
fn guests_have_tunnels_of_their_own_over_a_fabric_of_another_family() {
    for (name, family) in [("tw", 4), ("tx", 6)] {
        let Some(world) = network(name, NAMED, over_ipv6) else { return };
        add_tunnels(&world, family, "mtu 1360");
        use_tunnels(&world);
    }
    let Some(world) = network("ty", NAMED, |_| {}) else { return };
    add_tunnels(&world, 6, "mtu 1360");
    use_tunnels(&world);
}

/// Linux drops such a segment where the data path takes it out of the tunnel whole: its type still says that it is in one.
#[test]
fn datagrams_that_a_guest_sends_as_one_segment_arrive() {
    for (name, fabric) in [("tg", (|_| {}) as fn(&World)), ("th", over_ipv6)] {
        let Some(world) = network(name, NAMED, fabric) else { return };
        let [one, two] = [world.guest(0), world.guest(1)];
        let cut = || [0, 1].map(|i| world.counter(i, "cut_segments"));
        for [to_one, to_two] in [["10.7.1.2:9001", "10.7.2.2:9001"], ["[fd07:1::2]:9001", "[fd07:2::2]:9001"]] {
            let begun = cut();
            datagrams(&world, &two, to_one, &one); // whereby guest 1 is learned
            let between = cut();
            datagrams(&world, &one, to_two, &two);
            let ended = cut();
            let by = |n: usize, from: [u64; 2], to: [u64; 2]| to[n] - from[n];
            assert!(
                by(0, begun, between) > 0 && by(1, begun, between) == 0,
                "cut by who gets them: they were whole on the wire"
            );
            assert!(
                by(0, between, ended) == 0 && by(1, between, ended) > 0,
                "cut by who gets them: they were whole on the wire"
            );
        }
        for i in 0..2 {
            assert_eq!(world.counter(i, "drop_error_segments"), 0, "host {i}");
        }
    }
}

#[test]
fn a_guest_translates_addresses_between_peers() {
    if !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join("nft").exists())
        && !std::path::Path::new("/usr/sbin/nft").exists()
    {
        eprintln!("skipped: nft is not installed");
        return;
    }
    let Some(world) = network("tn", NAMED, |_| {}) else { return };
    let [router, guest] = [world.guest(0), world.guest(1)];
    let run = |command: &str| {
        let output = world.exec(&router, command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    for (family, via, to) in [("ip", "10.7.1.2", "10.7.2.2"), ("ip6", "[fd07:1::2]", "[fd07:2::2]")] {
        run(&format!("nft add table {family} t"));
        run(&format!("nft add chain {family} t pre {{ type nat hook prerouting priority -100 ; }}"));
        run(&format!("nft add chain {family} t post {{ type nat hook postrouting priority 100 ; }}"));
        for (protocol, port) in [("tcp", 9000), ("udp", 9001)] {
            run(&format!("nft add rule {family} t pre {protocol} dport {} dnat to {to}:{port}", port + 100));
        }
        run(&format!("nft add rule {family} t post masquerade"));
        connection(&world, &guest, &format!("{via}:9100"), &guest, &format!("{to}:9000"), 5_000_000);
        let mut sink = Running(world.spawn(&guest, &format!("datagram-sink {to}:9001 1200")));
        let _source = Running(world.spawn(&guest, &format!("datagram-source {via}:9101 1200")));
        assert!(sink.0.wait().unwrap().success(), "datagrams by {via} to {to}");
    }
    assert_eq!(world.counter(0, "drop_error_segments"), 0);
}
