//! Path discovery of real agents over routers of the kernel: what is found, what becomes of it after a failure, and what forged
//! answers can do.

use crate::rig::{skip, until, Rig};
use crate::stream::Transfer;
use nix::sys::socket::{recv, sendto, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Two leaves, two spines, two links between each pair; one host a leaf.
pub(crate) const FABRIC: &[&str] = &["--edge", "--hosts", "1"];
/// One link between each pair: over IPv6 Linux answers from where the answer leaves, not from where the probe came.
const SPINES: &[&str] = &["--edge", "--hosts", "1", "--spines", "4", "--links", "1"];
/// Patience for a machine with other work.
const PATHS: &str = "\n[paths]\ndiscovery = true\npatience = \"500ms\"\n";
const TO: &str = "172.20.2.1:7000";
/// The guests' connection carries at least so much.
const BYTES: u64 = 20_000_000;

/// A lab whose agents discover paths; `six`: between IPv6 addresses.
fn discovering(tag: &str, options: &[&str], six: bool) -> Option<Rig> {
    if !Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists() {
        skip("before Linux 6.11 all namespaces hash with one seed: some paths do not exist");
        return None;
    }
    let rig = Rig::up(tag, options)?;
    for host in ["host1", "host2"] {
        let mut text = rig.configuration(host);
        if six {
            text = text.replace("10.1.1.2", "fd5e:1:1:1::2").replace("10.2.2.2", "fd5e:1:2:2::2");
        }
        text = text.replacen("[agent]\n", "[agent]\nmetrics = \"127.0.0.1:9464\"\n", 1);
        rig.configure(host, &text.replacen("\n[[port]]", &format!("{PATHS}\n[[port]]"), 1));
        rig.run(host, "ip link set lo up");
    }
    Some(rig)
}

/// What host 1 knows of the way to host 2.
pub(crate) fn way(rig: &Rig) -> Json {
    rig.ctl("host1", "paths")[0].clone()
}

/// Paths by their ports: addresses of the hops.
fn hops(way: &Json) -> BTreeMap<u16, Vec<IpAddr>> {
    let found = way["discovery"]["paths"].as_array().into_iter().flatten();
    let entry = |path: &Json| {
        let hops = path["hops"].as_array().unwrap().iter().map(|hop| hop.as_str().unwrap().parse().unwrap());
        (path["port"].as_u64().unwrap() as u16, hops.collect())
    };
    found.map(entry).collect()
}

fn labels(way: &Json) -> BTreeSet<u16> {
    way["labels"].as_array().unwrap().iter().map(|label| label.as_u64().unwrap() as u16).collect()
}

/// Interfaces of all routers, by their addresses, as `spine1:l2-1`.
fn interfaces(rig: &Rig) -> BTreeMap<IpAddr, String> {
    let mut found = BTreeMap::new();
    let nodes = ["leaf1", "leaf2", "spine1", "spine2", "spine3", "spine4"];
    for node in nodes.into_iter().filter(|node| rig.namespace(node).exists()) {
        let links: Json = serde_json::from_str(&rig.run(node, "ip -j address show")).unwrap();
        for link in links.as_array().unwrap() {
            for address in link["addr_info"].as_array().unwrap() {
                let name = format!("{node}:{}", link["ifname"].as_str().unwrap());
                found.insert(address["local"].as_str().unwrap().parse().unwrap(), name);
            }
        }
    }
    found
}

fn named(known: &BTreeMap<IpAddr, String>, way: &Json) -> BTreeMap<u16, Vec<String>> {
    let name = |hop: IpAddr| known.get(&hop).cloned().unwrap_or_else(|| hop.to_string());
    hops(way).into_iter().map(|(port, hops)| (port, hops.into_iter().map(name).collect())).collect()
}

/// Paths by their ports: hops as `spine1:l2-1`.
pub(crate) fn hops_by_name(rig: &Rig, way: &Json) -> BTreeMap<u16, Vec<String>> {
    named(&interfaces(rig), way)
}

/// Waits until the paths are as they should, and the schedule is theirs.
pub(crate) fn wait_for(
    rig: &Rig,
    what: &str,
    right: impl Fn(&BTreeMap<u16, Vec<String>>) -> bool,
) -> BTreeMap<u16, Vec<String>> {
    let known = interfaces(rig);
    let mut found = BTreeMap::new();
    until(what, || {
        let way = way(rig);
        found = named(&known, &way);
        labels(&way) == found.keys().copied().collect() && right(&found)
    });
    found
}

/// The names at one place of all paths.
fn at(paths: &BTreeMap<u16, Vec<String>>, hop: usize) -> BTreeSet<&str> {
    paths.values().filter_map(|hops| hops.get(hop)).map(String::as_str).collect()
}

/// Each of both links of both spines, towards leaf 1 and, of leaf 2, towards the spines.
const UP: [&str; 4] = ["spine1:l1-1", "spine1:l1-2", "spine2:l1-1", "spine2:l1-2"];
const DOWN: [&str; 4] = ["leaf2:s1-1", "leaf2:s1-2", "leaf2:s2-1", "leaf2:s2-2"];

pub(crate) fn has_all(paths: &BTreeMap<u16, Vec<String>>) -> bool {
    at(paths, 1) == BTreeSet::from(UP) && at(paths, 2) == BTreeSet::from(DOWN)
}

/// Bytes that arrived at an interface, named as above.
pub(crate) fn arrived(rig: &Rig, interface: &str) -> u64 {
    let (node, name) = interface.split_once(':').unwrap();
    let table = rig.run(node, "cat /proc/self/net/dev");
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn one_round_finds_all_disjoint_paths_and_data_takes_them() {
    let Some(rig) = discovering("p", FABRIC, false) else { return };
    let before = way(&rig);
    assert_eq!((before["labels_from"].as_str(), &before["discovery"]), (Some("default"), &Json::Null), "no traffic");
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    let paths = wait_for(&rig, "all paths", has_all);
    assert!(paths.values().all(|hops| hops.len() == 3 && hops[0] == "leaf1:h1"), "{paths:?}");
    let log = std::fs::read_to_string(rig.lab.directory().join("host1/agent.log")).unwrap();
    let first = log.lines().find(|line| line.contains("paths to peer host2: ")).unwrap().to_owned();
    let number = first.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).nth(1).unwrap().parse();
    // Of the eight paths one round may miss one at most: any seven cross all links.
    assert!(number.is_ok_and(|n: u32| n >= 7), "not found in one round: {first}");
    transfer.advance(BYTES);
    transfer.finish();
    // With one label alone, a connection's segments are where the probes were.
    let text = rig.configuration("host1");
    for (port, hops) in paths.iter().take(2) {
        let one = text.replacen("[balance]\n", "[balance]\nudp = \"policy\"\n", 1);
        let line = one.lines().find(|line| line.starts_with("labels = ")).unwrap().to_owned();
        rig.configure("host1", &one.replacen(&line, &format!("labels = [{port}]"), 1));
        let watched: Vec<&str> = UP.into_iter().chain(DOWN).collect();
        let begin: Vec<u64> = watched.iter().map(|interface| arrived(&rig, interface)).collect();
        let bytes = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES).finish();
        for (interface, begin) in watched.iter().zip(begin) {
            let got = arrived(&rig, interface) - begin;
            let is_on_path = hops.iter().any(|hop| hop == interface);
            assert_eq!(got > bytes * 9 / 10, is_on_path, "{got} of {bytes} bytes at {interface}; {port}: {hops:?}");
        }
    }
}

#[test]
fn a_path_that_swallows_everything_is_avoided_while_a_connection_lives_on() {
    let Some(rig) = discovering("q", FABRIC, false) else { return };
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    wait_for(&rig, "all paths", has_all);
    // Spine 2 goes on sending into links whose other end is down; nobody tells leaf 1.
    for link in ["s2-1", "s2-2"] {
        rig.run("leaf2", &format!("ip link set {link} down"));
    }
    let left = wait_for(&rig, "only spine 1", |paths| at(paths, 1).iter().all(|hop| hop.starts_with("spine1:")));
    assert_eq!(at(&left, 1), BTreeSet::from(["spine1:l1-1", "spine1:l1-2"]));
    assert_eq!(at(&left, 2), BTreeSet::from(["leaf2:s1-1", "leaf2:s1-2"]));
    transfer.advance(5 * BYTES);
    assert!(transfer.is_going_on());
    for link in ["s2-1", "s2-2"] {
        rig.run("leaf2", &format!("ip link set {link} up"));
    }
    wait_for(&rig, "all paths again", has_all);
    transfer.advance(BYTES);
    transfer.finish();
}

/// By rounds of probes, whatever time these take on this machine: `bench/paths/run` has the seconds.
#[test]
fn a_link_that_fails_is_left_within_two_rounds_after_the_one_at_hand() {
    let Some(rig) = discovering("u", FABRIC, false) else { return };
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    let rounds = || way(&rig)["discovery"]["rounds"].as_u64().unwrap();
    for link in ["s2-1", "s1-2"] {
        wait_for(&rig, "all paths", has_all);
        let before = rounds();
        // Its spine goes on sending into it.
        rig.run("leaf2", &format!("ip link set {link} down"));
        let dead = format!("leaf2:{link}");
        let known = interfaces(&rig);
        let mut took = 0;
        until("no path over the link", || {
            let way = way(&rig);
            took = way["discovery"]["rounds"].as_u64().unwrap() - before;
            let paths = named(&known, &way);
            !paths.is_empty()
                && !at(&paths, 2).contains(dead.as_str())
                && labels(&way) == paths.keys().copied().collect()
        });
        // The one in which it failed had begun.
        assert!(took <= 3, "{link}: left after {took} rounds");
        transfer.advance(BYTES);
        assert!(transfer.is_going_on());
        rig.run("leaf2", &format!("ip link set {link} up"));
    }
    transfer.finish();
}

#[test]
fn paths_are_found_over_ipv6() {
    let Some(rig) = discovering("r", SPINES, true) else { return };
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    let spines: BTreeSet<&str> = ["spine1:l1-1", "spine2:l1-1", "spine3:l1-1", "spine4:l1-1"].into();
    let paths = wait_for(&rig, "a path over each spine", |paths| at(paths, 1) == spines);
    assert!(paths.values().all(|hops| hops.len() == 3 && hops[0] == "leaf1:h1" && hops[2].starts_with("leaf2:")));
    assert!(way(&rig)["address"].as_str().unwrap().contains(':'));
    assert!(transfer.finish() >= BYTES);
}

/// A metric of host 1's agent.
fn metric(rig: &Rig, name: &str) -> u64 {
    let text = rig.namespace("host1").run(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9464")?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    let text = text.unwrap().unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().to_owned();
    value.parse().unwrap()
}

#[test]
fn forged_answers_name_no_hop_and_guests_see_no_probe() {
    let Some(rig) = discovering("s", FABRIC, false) else { return };
    let raw = |family, protocol| {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        move || socket(family, SockType::Raw, flags, protocol).unwrap()
    };
    let guest = rig.namespace("guest2.1").run(raw(AddressFamily::Packet, SockProtocol::EthAll)).unwrap();
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    let before = wait_for(&rig, "all paths", has_all);
    let forger = rig.namespace("leaf1").run(raw(AddressFamily::Inet, SockProtocol::Raw)).unwrap();
    let (hop, own, other) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 1, 1, 2), Ipv4Addr::new(10, 2, 2, 2));
    let ignored = metric(&rig, "selvedge_probe_answers_ignored_total");
    let (mut number, mut frames, mut buffer) = (0, 0, vec![0u8; 1 << 16]);
    let mut look = || {
        while let Ok(len) = recv(guest.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            frames += 1;
            assert_ne!(&buffer[12..14.min(len)], &[0x88, 0xb5], "a probe at the guest");
        }
        frames
    };
    // With the right port and TTL, but a guessed number: one in 512 is right, if it comes before the router's own answer.
    until("the agent has read hundreds", || {
        number = (number + 1) % 1024;
        for port in before.keys() {
            let message = time_exceeded(hop, own, other, *port, number << 6 | 2);
            let to = SockaddrIn::from(SocketAddrV4::new(own, 0));
            let _ = sendto(forger.as_raw_fd(), &message, &to, MsgFlags::empty());
            // perhaps there is no room now
        }
        look();
        metric(&rig, "selvedge_probe_answers_ignored_total") >= ignored + 400
    });
    let after = wait_for(&rig, "the same paths", has_all);
    assert!(after.values().flatten().all(|name| name != "192.0.2.1"), "{after:?}");
    transfer.advance(BYTES);
    transfer.finish();
    assert!(look() > 10 && metric(&rig, "selvedge_probes_sent_total") > 0);
}

/// A whole packet of ICMP that says the TTL of such a probe ran out at `hop`.
fn time_exceeded(hop: Ipv4Addr, own: Ipv4Addr, other: Ipv4Addr, port: u16, id: u16) -> Vec<u8> {
    let header = |protocol: u8, len: u16, id: u16, from: Ipv4Addr, to: Ipv4Addr| {
        let mut bytes = vec![0x45, 0];
        bytes.extend(len.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend([0x40, 0, 64, protocol, 0, 0]);
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        bytes
    };
    let mut icmp = vec![11, 0, 0, 0, 0, 0, 0, 0];
    icmp.extend(header(17, 58, id, own, other));
    for half in [port, 4789, 38, 0] {
        icmp.extend(half.to_be_bytes());
    }
    let sum: u32 = icmp.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    icmp[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    [header(1, 20 + icmp.len() as u16, 1, hop, own), icmp].concat()
}
