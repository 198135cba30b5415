//! What guests get from the edge besides the way to their peers: neighbours, MSS, "too big", and the check of who they are.
//! Real traffic in network namespaces; root only, says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;

use fabric::peer::{sustained, transfer};
use fabric::{encapsulated, guest_mac, guest_port, in_namespace, Fabric, VNI};
use kernel::state::{
    address, words, Config, Counter, Event, Peer, Port, Route, CONFIG_ANY_PEER, EVENT_GUEST, EVENT_MAC, EVENT_TUNNEL,
    EVENT_UNKNOWN_PEER, EVENT_UNKNOWN_VERSION, PORT_LEARN, PORT_OWN_MAC, PORT_STRICT, ROUTE_LOCAL, ROUTE_PEER,
    VERSION_1,
};
use kernel::{Attachment, Role};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use wire::encap::Encap;
use wire::{proto, tcp, Packet, TcpOptions};

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];
const EDGE_MAC: [u8; 6] = [2, 0x5e, 0, 0, 0, 1];
const PASS: u32 = u32::MAX;
const DROP: u32 = 2;
const REDIRECT: u32 = 7;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

fn config() -> Config {
    Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), mac: EDGE_MAC, ..Config::default() }
}

/// Two hosts with edges; `None`, with the reason printed, where the tests cannot run.
fn fabric(name: &str) -> Option<Fabric> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    let mut fabric = Fabric::new(name);
    fabric.add_edges(&config(), &LABELS);
    Some(fabric)
}

fn count(fabric: &Fabric, i: usize, counter: Counter) -> u64 {
    fabric.edges[i].edge.counters().unwrap().get(counter)
}

fn set_port(fabric: &Fabric, i: usize, port: Port) {
    fabric.edges[i].edge.set_port(fabric.edges[i].port, &port).unwrap();
}

/// Runs a frame through host 0's program for its guest.
fn from_guest(fabric: &Fabric, frame: &[u8]) -> (u32, Vec<u8>) {
    let host = &fabric.edges[0];
    in_namespace(&fabric.host(0), || host.edge.test_run(Role::Guest, host.port, frame).unwrap())
}

fn events(fabric: &Fabric, i: usize, kind: u32) -> Vec<Event> {
    let mut events = fabric.edges[i].edge.poll_events(Duration::from_millis(20)).unwrap();
    events.retain(|event| event.kind == kind);
    events
}

fn output(fabric: &Fabric, namespace: &str, command: &str) -> String {
    let output = fabric.exec(namespace, &command.split_whitespace().collect::<Vec<_>>());
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn hex(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[test]
fn guests_that_ask_are_answered_for_their_peers() {
    let Some(fabric) = fabric("na") else { return };
    fabric.forget_neighbours();
    transfer(&fabric, "tcp", "10.7.0.2:9000", 1_000_000);
    transfer(&fabric, "tcp", "[fd07::2]:9001", 1_000_000);
    for i in 0..2 {
        assert!(count(&fabric, i, Counter::Answered) >= 2, "ARP and neighbour discovery");
        assert_eq!(count(&fabric, i, Counter::DropError), 0);
    }
    let known = output(&fabric, &fabric.guest(0), "ip neigh show dev eth0");
    assert_eq!(known.matches(&format!("lladdr {}", hex(EDGE_MAC))).count(), 2, "{known}");
}

#[test]
fn a_known_mac_address_is_the_answer() {
    let Some(fabric) = fabric("nb") else { return };
    let mac = guest_mac(1);
    let route = Route { kind: ROUTE_PEER, target: 1, mac, ..Route::default() };
    fabric.edges[0].edge.set_route(VNI, "10.7.0.2".parse().unwrap(), 32, &route).unwrap();
    fabric.forget_neighbours();
    transfer(&fabric, "udp", "10.7.0.2:9000", 3);
    let known = output(&fabric, &fabric.guest(0), "ip neigh show 10.7.0.2 dev eth0");
    assert!(known.contains(&hex(mac)), "{known}");
}

fn arp(asker: [u8; 4], asked: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], guest_mac(0)].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(guest_mac(0));
    frame.extend(asker);
    frame.extend([0; 6]);
    frame.extend(asked);
    frame
}

#[test]
fn only_questions_about_others_are_answered() {
    let Some(fabric) = fabric("nc") else { return };
    let host = &fabric.edges[0];
    let mac = [2, 0, 0, 0, 0, 0x33];
    host.edge.set_port(host.uplink, &Port { vni: VNI, mac, ..Port::default() }).unwrap();
    let neighbour = Route { kind: ROUTE_LOCAL, target: host.uplink, ..Route::default() };
    host.edge.set_route(VNI, "10.7.0.3".parse().unwrap(), 32, &neighbour).unwrap();
    let me = [10, 7, 0, 1];
    for (asker, asked, answer) in [
        (me, [10, 7, 0, 2], Some(EDGE_MAC)),
        (me, [10, 7, 0, 3], Some(mac)),
        (me, me, None),
        (me, [10, 8, 0, 1], None),
        ([0; 4], [10, 7, 0, 2], None),
        ([0; 4], me, None),
        ([10, 7, 0, 9], me, None),
    ] {
        let request = arp(asker, asked);
        let (verdict, frame) = from_guest(&fabric, &request);
        match answer {
            None => assert_eq!((verdict, frame), (PASS, request), "{asker:?} asks for {asked:?}"),
            Some(mac) => {
                assert_eq!(verdict, REDIRECT, "{asker:?} asks for {asked:?}");
                assert_eq!((&frame[6..12], &frame[20..22]), (mac.as_slice(), [0, 2].as_slice()));
            }
        }
    }
    // Padded to the least that Ethernet carries: the answer is cut to what ARP needs.
    let mut padded = arp(me, [10, 7, 0, 2]);
    padded.resize(60, 0);
    assert_eq!(from_guest(&fabric, &padded).1.len(), 42);
    host.edge.set_config(&Config { mac: [0; 6], ..config() }).unwrap();
    assert_eq!(from_guest(&fabric, &arp(me, [10, 7, 0, 2])).0, PASS, "there is nothing to answer with");
}

#[test]
fn addresses_can_be_taken_while_the_edge_answers() {
    let Some(fabric) = fabric("nd") else { return };
    let guest = fabric.guest(0);
    fabric.exec_ok(&guest, "sysctl -qw net.ipv6.conf.eth0.accept_dad=1");
    // Of a peer's guest: whoever answered for that would forbid it.
    fabric.exec_ok(&guest, "ip addr add fd07::2/64 dev eth0");
    std::thread::sleep(Duration::from_millis(1500));
    let addresses = output(&fabric, &guest, "ip -6 addr show dev eth0");
    assert!(!addresses.contains("dadfailed"), "{addresses}");
}

#[test]
fn the_mss_of_both_directions_is_lowered_where_a_port_says_so() {
    for (name, offload) in [("ma", true), ("mb", false)] {
        let Some(fabric) = fabric(name) else { return };
        if !offload {
            for i in 0..2 {
                fabric.exec_ok(&fabric.guest(i), "ethtool -K eth0 tx off tso off gso off");
            }
        }
        // Otherwise nobody verifies what the program did to checksums that offload left unfinished.
        for i in 0..2 {
            fabric.exec_ok(&fabric.host(i), "ethtool -K u0 tx off");
        }
        set_port(&fabric, 1, Port { mtu: 1300, ..guest_port(1) });
        for (address, mss) in [("10.7.0.2:9000", 1300 - 40 - 12), ("[fd07::2]:9001", 1300 - 60 - 12)] {
            let mut server = fabric.spawn(&fabric.guest(1), &format!("tcp-server {address} 2000000"));
            let mut client = fabric.command(&fabric.guest(0), &format!("tcp-client {address} 2000000"));
            let client = client.env("SELVEDGE_TEST_MSS", mss.to_string()).status().unwrap();
            if !client.success() {
                let _ = server.kill();
            }
            assert!(server.wait().unwrap().success() && client.success(), "{address}");
        }
        assert!(count(&fabric, 1, Counter::MssClamped) >= 4, "SYN and its answer, twice");
        assert_eq!(count(&fabric, 0, Counter::MssClamped), 0);
        for i in 0..2 {
            let errors = output(&fabric, &fabric.guest(i), "nstat -asz TcpInCsumErrors");
            assert!(errors.contains("TcpInCsumErrors                 0 "), "{errors}");
        }
    }
}

#[test]
fn a_syn_with_a_lowered_mss_is_as_if_its_sender_had_said_so() {
    let Some(fabric) = fabric("mc") else { return };
    set_port(&fabric, 0, Port { mtu: 1300, ..guest_port(0) });
    for (from, to, limit) in [("10.7.0.1", "10.7.0.2", 1260), ("fd07::1", "fd07::2", 1240)] {
        for mss in [0, 536, limit - 1, limit, limit + 1, 1460, 65_535] {
            let (saddr, daddr): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let syn = |mss| Packet {
                saddr: words(saddr),
                daddr: words(daddr),
                family: if saddr.is_ipv4() { 4 } else { 6 },
                proto: proto::TCP,
                tcp_flags: tcp::SYN,
                mss,
                ..Packet::default()
            };
            let options = TcpOptions { timestamps: Some((1, 2)), sack_permitted: true, ..TcpOptions::default() };
            let (verdict, out) = from_guest(&fabric, &wire::emit(&syn(mss), &options).unwrap());
            assert_eq!(verdict, REDIRECT);
            assert_eq!(out[50..], wire::emit(&syn(mss.min(limit)), &options).unwrap(), "{from}, MSS {mss}");
        }
    }
    assert_eq!(count(&fabric, 0, Counter::MssClamped), 6);
}

#[test]
fn packets_that_are_too_big_are_answered_and_guests_heed_it() {
    let Some(fabric) = fabric("ta") else { return };
    let guest = fabric.guest(0);
    set_port(&fabric, 0, Port { mtu: 1300, ..guest_port(0) });
    for (ping, route, size) in [
        ("ping -n -c 1 -W 1 -M do -s 1392", "ip route get 10.7.0.2", "10.7.0.2"),
        ("ping -6 -n -c 1 -W 1 -M do -s 1372", "ip -6 route get fd07::2", "fd07::2"),
    ] {
        let said = output(&fabric, &guest, &format!("{ping} {size}"));
        assert!(said.contains("mtu = 1300") || said.contains("mtu: 1300") || said.contains("mtu=1300"), "{said}");
        let route = output(&fabric, &guest, route);
        assert!(route.contains("mtu 1300"), "{route}");
        fabric.exec_ok(&guest, &format!("{} {size}", ping.replace("1392", "1272").replace("1372", "1252")));
    }
    assert!(count(&fabric, 0, Counter::OversizeAnswered) >= 2);
    // Without DF too: the guest fragments by itself from then on.
    fabric.exec_ok(&guest, "ip link set eth0 mtu 65535");
    fabric.exec_ok(&fabric.host(0), "ip link set g mtu 65535");
    fabric.exec_ok(&guest, "ip route flush cache");
    for attempt in
        ["ping -n -c 3 -i 0.2 -W 1 -M do -s 65000 10.7.0.2", "ping -n -c 3 -i 0.2 -W 1 -M dont -s 4000 10.7.0.2"]
    {
        let said = output(&fabric, &guest, attempt);
        assert!(said.contains("mtu = 1300") || said.contains(" 0% packet loss") || said.contains("mtu=1300"), "{said}");
    }
    fabric.exec_ok(&guest, "ping -n -c 1 -W 1 -M dont -s 4000 10.7.0.2");
    assert_eq!(count(&fabric, 0, Counter::DropError), 0);
}

#[test]
fn tcp_goes_on_when_its_packets_become_too_big() {
    let Some(mut fabric) = fabric("tb") else { return };
    for address in ["10.7.0.2:9000", "[fd07::2]:9001"] {
        set_port(&fabric, 0, guest_port(0));
        sustained(&mut fabric, address, |fabric| {
            let before = count(fabric, 0, Counter::OversizeAnswered);
            set_port(fabric, 0, Port { mtu: 1300, ..guest_port(0) });
            let answered = (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                count(fabric, 0, Counter::OversizeAnswered) > before
            });
            assert!(answered, "{address}: segments were not GSO or not too big");
        });
    }
    let dropped = count(&fabric, 0, Counter::DropOversize);
    assert!(dropped >= count(&fabric, 0, Counter::OversizeAnswered), "each answer is for one that was dropped");
}

fn udp(saddr: &str, daddr: &str) -> Vec<u8> {
    udp_to(saddr, daddr, 9)
}

fn udp_to(saddr: &str, daddr: &str, dport: u16) -> Vec<u8> {
    let (saddr, daddr): (IpAddr, IpAddr) = (saddr.parse().unwrap(), daddr.parse().unwrap());
    let family = if saddr.is_ipv4() { 4 } else { 6 };
    let packet = Packet {
        saddr: words(saddr),
        daddr: words(daddr),
        family,
        proto: proto::UDP,
        sport: 9,
        dport,
        payload: 10,
        ..Packet::default()
    };
    wire::emit(&packet, &TcpOptions::default()).unwrap()
}

#[test]
fn a_strict_port_speaks_under_its_own_addresses_only() {
    let Some(fabric) = fabric("sa") else { return };
    set_port(&fabric, 0, Port { flags: guest_port(0).flags | PORT_STRICT, ..guest_port(0) });
    for (from, to, verdict) in [
        ("10.7.0.1", "10.7.0.2", REDIRECT),
        ("fd07::1", "fd07::2", REDIRECT),
        ("10.7.0.9", "10.7.0.2", DROP),
        ("10.7.0.2", "10.7.0.1", DROP),
        ("10.7.0.9", "10.8.0.1", DROP),
        ("fd07::9", "fd07::2", DROP),
        ("0.0.0.0", "255.255.255.255", PASS),
        ("::", "ff02::1", PASS),
        ("fe80::1", "ff02::1", PASS),
        ("fe80::1", "fd07::2", PASS),
        ("0.0.0.0", "10.7.0.2", PASS),
    ] {
        assert_eq!(from_guest(&fabric, &udp(from, to)).0, verdict, "{from} to {to}");
    }
    assert_eq!(from_guest(&fabric, &arp([10, 7, 0, 9], [10, 7, 0, 2])).0, DROP);
    assert_eq!(count(&fabric, 0, Counter::DropSpoofed), 5);
    fabric.forget_neighbours();
    transfer(&fabric, "tcp", "10.7.0.2:9000", 1_000_000);
    transfer(&fabric, "tcp", "[fd07::2]:9000", 1_000_000);
}

#[test]
fn a_strict_port_speaks_under_its_own_mac_address_only() {
    let Some(fabric) = fabric("sm") else { return };
    set_port(&fabric, 0, Port { flags: guest_port(0).flags | PORT_STRICT | PORT_OWN_MAC, ..guest_port(0) });
    let from_mac = |frame: &[u8], mac: [u8; 6]| [&frame[..6], &mac, &frame[12..]].concat();
    let (own, other) = (guest_mac(0), guest_mac(1));
    for (frame, verdict) in [
        (udp("10.7.0.1", "10.7.0.2"), REDIRECT),
        (udp("fe80::1", "ff02::1"), PASS),
        (arp([10, 7, 0, 1], [10, 7, 0, 2]), REDIRECT),
        (arp([10, 7, 0, 1], [10, 8, 0, 1]), PASS),
    ] {
        assert_eq!(from_guest(&fabric, &from_mac(&frame, other)).0, DROP);
        assert_eq!(from_guest(&fabric, &from_mac(&frame, own)).0, verdict);
    }
    // What a flow keeps is not a way around it.
    let conf = Config { epoch: 1, ..config() };
    fabric.edges[0].edge.set_config(&conf).unwrap();
    let frame = udp("10.7.0.1", "10.7.0.2");
    for (mac, verdict) in [(own, REDIRECT), (own, REDIRECT), (other, DROP), (own, REDIRECT)] {
        assert_eq!(from_guest(&fabric, &from_mac(&frame, mac)).0, verdict, "with a kept flow, from {mac:02x?}");
    }
    let mut lie = arp([10, 7, 0, 1], [10, 8, 0, 1]);
    lie[22..28].copy_from_slice(&other);
    assert_eq!(from_guest(&fabric, &lie).0, DROP, "the sender within ARP");
    told_once_a_second(&events(&fabric, 0, EVENT_MAC));
}

fn told_once_a_second(told: &[Event]) {
    assert!(!told.is_empty());
    assert!(told.windows(2).all(|two| two[1].time - two[0].time >= 1_000_000_000), "{} times", told.len());
}

/// Another guest on host 0, whose port is the uplink's interface.
fn add_neighbour(fabric: &Fabric, addr: &str, port: Port) -> u32 {
    let host = &fabric.edges[0];
    host.edge.set_port(host.uplink, &port).unwrap();
    let route = Route { kind: ROUTE_LOCAL, target: host.uplink, ..Route::default() };
    host.edge.set_route(VNI, addr.parse().unwrap(), 32, &route).unwrap();
    host.uplink
}

#[test]
fn no_guest_hides_the_news_of_another() {
    let Some(fabric) = fabric("sn") else { return };
    let port = Port { flags: guest_port(0).flags | PORT_STRICT | PORT_OWN_MAC, ..guest_port(0) };
    set_port(&fabric, 0, port);
    let other = add_neighbour(&fabric, "10.7.0.3", port);
    let host = &fabric.edges[0];
    let lie = |from: &str| [&[2; 6], guest_mac(1).as_slice(), &udp(from, "10.7.0.2")[12..]].concat();
    in_namespace(&fabric.host(0), || {
        for _ in 0..100 {
            assert_eq!(host.edge.test_run(Role::Guest, host.port, &lie("10.7.0.1")).unwrap().0, DROP);
        }
        assert_eq!(host.edge.test_run(Role::Guest, other, &lie("10.7.0.3")).unwrap().0, DROP);
    });
    let told: BTreeSet<u32> = events(&fabric, 0, EVENT_MAC).iter().map(|event| event.ifindex).collect();
    assert_eq!(told, BTreeSet::from([host.port, other]));
}

#[test]
fn a_route_that_leads_to_another_network_delivers_nothing() {
    let Some(fabric) = fabric("so") else { return };
    let other = add_neighbour(&fabric, "10.7.0.3", guest_port(1));
    let local = || count(&fabric, 0, Counter::LocalSegments);
    let frame = udp("10.7.0.1", "10.7.0.3");
    assert_eq!(from_guest(&fabric, &frame).0, REDIRECT);
    assert_eq!(local(), 1);
    // The port is another network's now; the old one's route to it is still there, as in the middle of a reload.
    fabric.edges[0].edge.set_port(other, &Port { vni: VNI + 1, ..guest_port(1) }).unwrap();
    assert_eq!(from_guest(&fabric, &frame), (PASS, frame.clone()));
    let of_other = encapsulated(&udp("10.7.0.2", "10.7.0.3"), VNI);
    let host = &fabric.edges[0];
    let verdict =
        || in_namespace(&fabric.host(0), || host.edge.test_run(Role::Uplink, host.uplink, &of_other).unwrap().0);
    assert_eq!((verdict(), count(&fabric, 0, Counter::InNoGuest)), (PASS, 1));
    assert_eq!((local(), count(&fabric, 0, Counter::InSegments)), (1, 0));
    fabric.edges[0].edge.set_port(other, &guest_port(1)).unwrap();
    assert_eq!((from_guest(&fabric, &frame).0, verdict()), (REDIRECT, REDIRECT));
}

#[test]
fn what_would_enter_the_overlay_by_the_host_is_dropped_and_told_of() {
    let Some(fabric) = fabric("sp") else { return };
    let tunnel = udp_to("10.7.0.1", "10.8.0.1", config().udp_port);
    for _ in 0..3 {
        assert_eq!(from_guest(&fabric, &tunnel).0, DROP);
    }
    assert_eq!(from_guest(&fabric, &udp("10.7.0.1", "10.8.0.1")).0, PASS);
    assert_eq!(count(&fabric, 0, Counter::DropTunnel), 3);
    let told = events(&fabric, 0, EVENT_TUNNEL);
    told_once_a_second(&told);
    assert_eq!((told[0].ifindex, address(told[0].addr)), (fabric.edges[0].port, "10.8.0.1".parse().unwrap()));
}

/// A neighbour advertisement to guest 1 behind destination options of that many bytes each.
fn advertisement(target: &str, options: &[usize]) -> Vec<u8> {
    let octets = |address: &str| address.parse::<Ipv6Addr>().unwrap().octets();
    let mut behind = [[136, 0, 0, 0, 0x20, 0, 0, 0].as_slice(), &octets(target), &[2, 1], &guest_mac(0)].concat();
    let mut next = 58;
    for len in options {
        let mut header = vec![next, (len / 8 - 1) as u8];
        header.resize(*len, 0);
        behind.splice(0..0, header);
        next = 60;
    }
    let mut frame = [guest_mac(1), guest_mac(0)].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((behind.len() as u16).to_be_bytes());
    frame.extend([next, 255]);
    frame.extend([octets("fd07::1"), octets("fd07::2")].concat());
    frame.extend(behind);
    frame
}

#[test]
fn a_strict_port_advertises_its_own_addresses_only() {
    let Some(fabric) = fabric("sn") else { return };
    set_port(&fabric, 0, Port { flags: guest_port(0).flags | PORT_STRICT | PORT_OWN_MAC, ..guest_port(0) });
    for (target, options, verdict) in [
        ("fd07::1", vec![], REDIRECT),
        ("fd07::1", vec![8; 4], REDIRECT),
        ("fd07::2", vec![], DROP),
        ("fd07::2", vec![8; 4], DROP),
        ("fd07::2", vec![8; 5], DROP),
        ("fd07::2", vec![256], DROP),
        ("fe80::1", vec![], PASS), // the host's router may have it, another guest's may not
        ("fe80::1", vec![8; 4], PASS),
        ("fe80::1", vec![8; 5], DROP),
    ] {
        assert_eq!(from_guest(&fabric, &advertisement(target, &options)).0, verdict, "{target} behind {options:?}");
    }
    assert_eq!(count(&fabric, 0, Counter::OutSegments), 2);
}

/// What a flow found in routes and ports serves it until they change, and not a packet longer.
#[test]
fn flows_under_way_follow_routes_and_ports_that_change() {
    let Some(fabric) = fabric("ep") else { return };
    let edge = &fabric.edges[0].edge;
    let frame = udp("10.7.0.1", "10.7.0.2");
    let inner_mac = |frame: &[u8]| frame[50..56].to_vec();
    let to = "10.7.0.2".parse().unwrap();
    for mac in [[2, 0, 0, 0, 0, 8], [2, 0, 0, 0, 0, 9]] {
        edge.set_route(VNI, to, 32, &Route { kind: ROUTE_PEER, target: 1, mac, ..Route::default() }).unwrap();
        for _ in 0..2 {
            let (verdict, sent) = from_guest(&fabric, &frame);
            assert_eq!((verdict, inner_mac(&sent)), (REDIRECT, mac.to_vec()));
        }
    }
    edge.remove_route(VNI, to, 32).unwrap();
    assert_eq!(from_guest(&fabric, &frame).0, PASS, "no way any more");
    edge.set_route(VNI, to, 32, &Route { kind: ROUTE_PEER, target: 1, ..Route::default() }).unwrap();
    assert_eq!(from_guest(&fabric, &frame).0, REDIRECT);
    // Now its address is another port's, and its own is strict.
    set_port(&fabric, 0, Port { flags: guest_port(0).flags | PORT_STRICT, ..guest_port(0) });
    let elsewhere = Route { kind: ROUTE_LOCAL, target: fabric.edges[0].port + 1000, ..Route::default() };
    edge.set_route(VNI, "10.7.0.1".parse().unwrap(), 32, &elsewhere).unwrap();
    assert_eq!(from_guest(&fabric, &frame).0, DROP);
}

#[test]
fn a_port_that_learns_tells_the_agent_who_is_there() {
    let Some(fabric) = fabric("le") else { return };
    let flags = guest_port(0).flags | PORT_LEARN | PORT_STRICT;
    set_port(&fabric, 0, Port { flags, ..guest_port(0) });
    let guest = fabric.guest(0);
    fabric.exec_ok(&guest, "ip addr add 10.7.0.77/32 dev eth0");
    fabric.exec(&guest, &["ping", "-n", "-c", "1", "-W", "1", "-I", "10.7.0.77", "10.7.0.2"]);
    let found = events(&fabric, 0, EVENT_GUEST);
    let event = found.iter().find(|e| address(e.addr) == "10.7.0.77".parse::<IpAddr>().unwrap()).expect("an event");
    assert_eq!((event.value, event.mac, event.ifindex), (VNI, guest_mac(0), fabric.edges[0].port));
    // A guest that invents addresses does not flood the agent.
    for i in 1..=200 {
        from_guest(&fabric, &udp(&format!("10.7.9.{i}"), "10.7.0.2"));
    }
    let found = events(&fabric, 0, EVENT_GUEST).len();
    assert!((1..=100).contains(&found), "{found} events of 200 segments");
    // The agent believes it.
    let local = Route { kind: ROUTE_LOCAL, target: fabric.edges[0].port, ..Route::default() };
    fabric.edges[0].edge.set_route(VNI, "10.7.0.77".parse().unwrap(), 32, &local).unwrap();
    let back = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
    fabric.edges[1].edge.set_route(VNI, "10.7.0.77".parse().unwrap(), 32, &back).unwrap();
    fabric.exec_ok(&fabric.guest(1), "ip neigh add 10.7.0.77 lladdr 02:00:0a:07:00:01 dev eth0 nud permanent");
    fabric.exec_ok(&guest, "ping -n -c 1 -W 2 -I 10.7.0.77 10.7.0.2");
}

#[test]
fn tagged_frames_pass_untouched() {
    let Some(fabric) = fabric("vl") else { return };
    let tagged = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    for frame in [udp("10.7.0.1", "10.7.0.2"), arp([10, 7, 0, 1], [10, 7, 0, 2])] {
        let frame = tagged(&frame);
        assert_eq!(from_guest(&fabric, &frame), (PASS, frame), "the tag in the bytes");
    }
    // A frame that came in over an interface has its tag beside the bytes.
    let before = [Counter::Passed, Counter::OutSegments, Counter::Answered].map(|c| count(&fabric, 0, c));
    in_namespace(&fabric.guest(0), || {
        let socket = kernel::emit::Interface::open(kernel::ifindex("eth0").unwrap()).unwrap();
        for _ in 0..20 {
            socket.send(&tagged(&udp("10.7.0.1", "10.7.0.2"))).unwrap();
            socket.send(&tagged(&arp([10, 7, 0, 1], [10, 7, 0, 2]))).unwrap();
        }
    });
    for _ in 0..500 {
        if count(&fabric, 0, Counter::Passed) >= before[0] + 40 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = [Counter::Passed, Counter::OutSegments, Counter::Answered].map(|c| count(&fabric, 0, c));
    assert!(after[0] >= before[0] + 40, "{before:?} {after:?}");
    assert_eq!(after[1..], before[1..]);
}

/// A segment of peer `from` (an outer address) for guest 1, with this metadata.
fn send_encapsulated(fabric: &Fabric, from: &str, encap: &Encap, n: usize) {
    let mut inner = udp("10.7.0.1", "10.7.0.2");
    inner[12..14].copy_from_slice(&[8, 0]);
    let datagram = kernel::emit::encapsulate(&inner, encap, 50_001, 4789).unwrap();
    let mut frame = vec![0xff; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((datagram.len() as u16 + 20).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, proto::UDP, 0, 0]);
    for address in [from, "192.168.99.2"] {
        frame.extend(address.parse::<std::net::Ipv4Addr>().unwrap().octets());
    }
    let sum = wire::checksum::Sum::default().bytes(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(datagram);
    in_namespace(&fabric.host(0), || {
        let socket = kernel::emit::Interface::open(kernel::ifindex("u0").unwrap()).unwrap();
        for _ in 0..n {
            socket.send(&frame).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn feedback_counts_from_peers_only_and_strangers_are_dropped_and_reported() {
    let Some(fabric) = fabric("fb") else { return };
    let mut forged = Encap::new(VNI, VERSION_1);
    (forged.feedback, forged.path, forged.value) = (2, 3, 200);
    send_encapsulated(&fabric, "192.168.99.1", &forged, 3);
    assert_eq!((count(&fabric, 1, Counter::Feedback), count(&fabric, 1, Counter::InSegments)), (3, 3));
    send_encapsulated(&fabric, "192.168.99.77", &forged, 5);
    assert_eq!(count(&fabric, 1, Counter::Feedback), 3);
    assert_eq!((count(&fabric, 1, Counter::FeedbackIgnored), count(&fabric, 1, Counter::UnknownPeer)), (5, 5));
    assert_eq!(count(&fabric, 1, Counter::InSegments), 3, "dropped");
    let found = events(&fabric, 1, EVENT_UNKNOWN_PEER);
    assert_eq!(found.len(), 1, "at most one a second");
    assert_eq!(address(found[0].addr), "192.168.99.77".parse::<IpAddr>().unwrap());
    let lenient = Config { flags: CONFIG_ANY_PEER, ..config() };
    fabric.edges[1].edge.set_config(&lenient).unwrap();
    forged.has_cell = 1;
    forged.cell = 77;
    send_encapsulated(&fabric, "192.168.99.77", &forged, 1);
    assert_eq!(count(&fabric, 1, Counter::InSegments), 4, "delivered");
    assert_eq!((count(&fabric, 1, Counter::Feedback), count(&fabric, 1, Counter::FeedbackIgnored)), (3, 6));
    let flows = fabric.edges[1].edge.flows().unwrap();
    assert!(flows.iter().all(|(_, slot)| slot.flow.has_in_cell == 0), "without its metadata: {flows:?}");
}

#[test]
fn what_an_unknown_version_sends_is_delivered_without_its_metadata_and_reported() {
    let Some(fabric) = fabric("uv") else { return };
    let mut later = Encap::new(VNI, 9);
    (later.feedback, later.has_cell, later.cell) = (1, 1, 200);
    send_encapsulated(&fabric, "192.168.99.1", &later, 4);
    assert_eq!((count(&fabric, 1, Counter::UnknownVersion), count(&fabric, 1, Counter::InSegments)), (4, 4));
    assert_eq!(count(&fabric, 1, Counter::Feedback), 0);
    let found = events(&fabric, 1, EVENT_UNKNOWN_VERSION);
    assert_eq!(found.iter().map(|event| event.value).collect::<Vec<_>>(), [9]);
    let flows = fabric.edges[1].edge.flows().unwrap();
    assert!(flows.iter().all(|(_, slot)| slot.flow.has_in_cell == 0), "{flows:?}");
}

#[test]
fn what_the_edge_emits_reaches_guests_and_peers() {
    let Some(fabric) = fabric("em") else { return };
    let receive = |namespace: &str, address: &'static str| {
        in_namespace(namespace, || {
            let socket = std::net::UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            socket
        })
    };
    let to = |host: u8| Packet {
        saddr: wire::v4([10, 7, 0, 3 - host]),
        daddr: wire::v4([10, 7, 0, host]),
        family: 4,
        proto: proto::UDP,
        sport: 7,
        dport: 9000,
        payload: 12,
        ..Packet::default()
    };
    let (here, there) = (receive(&fabric.guest(0), "10.7.0.1:9000"), receive(&fabric.guest(1), "10.7.0.2:9000"));
    in_namespace(&fabric.host(0), || {
        let guest = kernel::emit::Interface::open(fabric.edges[0].port).unwrap();
        guest.send(&kernel::emit::frame(&to(1), EDGE_MAC, guest_mac(0)).unwrap()).unwrap();
        let peers: Vec<(u32, Peer)> = fabric.edges[0].edge.peers().unwrap();
        let packet = Packet { label: 50_003, ..to(2) };
        let frame = kernel::emit::frame(&packet, guest_mac(0), guest_mac(1)).unwrap();
        kernel::emit::Uplink::open().unwrap().send(&peers[0].1, VNI, &packet, &frame).unwrap();
    });
    let mut buffer = [1; 64];
    for (socket, from) in [(here, "10.7.0.2:7"), (there, "10.7.0.1:7")] {
        let (len, sender) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((len, sender), (12, from.parse().unwrap()));
        assert_eq!(buffer[..12], [0; 12]);
    }
    assert_eq!(count(&fabric, 1, Counter::InSegments), 1, "through the peer's edge");
}

#[test]
fn clsact_carries_traffic_through_replacement_and_leaves_no_filter() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("cl");
    fabric.attachment = Some(Attachment::Clsact);
    fabric.add_edges(&config(), &LABELS);
    let filters = |fabric: &Fabric| output(fabric, &fabric.host(0), "tc filter show dev g ingress");
    assert!(filters(&fabric).contains("selvedge_guest"), "{}", filters(&fabric));
    sustained(&mut fabric, "10.7.0.2:9000", |fabric| {
        for round in 0..3 {
            std::thread::sleep(Duration::from_millis(50));
            for i in 0..2 {
                let host = fabric.host(i);
                let old = fabric.edges.remove(i);
                let new = in_namespace(&host, || old.reopen());
                assert_eq!(new.edge.attachments().len(), 2, "round {round}");
                fabric.edges.insert(i, new);
            }
        }
    });
    assert_eq!(filters(&fabric).matches("handle 0x5e1f").count(), 1, "replaced, not added: {}", filters(&fabric));
    let host = &fabric.edges[0];
    let by_tcx = in_namespace(&fabric.host(0), || host.edge.attach_with(host.port, Role::Guest, Attachment::Tcx));
    if matches!(&by_tcx, Err(kernel::Error::Io(_, _, e)) if e.raw_os_error() == Some(nix::libc::EINVAL)) {
        eprintln!("skipped: this kernel has no tcx (Linux 6.6), so nothing changes from filters to it");
        return;
    }
    by_tcx.unwrap();
    // From one way to the other and back, under traffic.
    sustained(&mut fabric, "10.7.0.2:9001", |fabric| {
        for attachment in [Attachment::Clsact, Attachment::Tcx] {
            std::thread::sleep(Duration::from_millis(50));
            let host = &fabric.edges[0];
            in_namespace(&fabric.host(0), || host.edge.attach_with(host.port, Role::Guest, attachment).unwrap());
        }
    });
    assert!(!filters(&fabric).contains("selvedge"), "{}", filters(&fabric));
    let (port, uplink) = (fabric.edges[0].port, fabric.edges[0].uplink);
    assert_eq!(fabric.edges[0].edge.attachments(), [(uplink, Role::Uplink), (port, Role::Guest)]);
    in_namespace(&fabric.host(0), || {
        fabric.edges[0].edge.detach(port, Role::Guest).unwrap();
        fabric.edges[0].edge.detach(uplink, Role::Uplink).unwrap();
        fabric.edges[0].edge.detach(uplink, Role::Uplink).expect("detaching twice is fine");
    });
    let rest = output(&fabric, &fabric.host(0), "tc filter show dev u0 ingress");
    assert!(rest.is_empty() && fabric.edges[0].edge.attachments().is_empty(), "{rest}");
}

/// TCP frames as their sender's checksum left them, through both programs with test rewriting on: as `wire` does natively.
#[test]
fn rewritten_frames_are_those_that_the_native_code_makes() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("wa");
    fabric.options.test_rewrite = kernel::REWRITE_WINDOW | kernel::REWRITE_ECN;
    fabric.add_edge(0, &config(), &LABELS, VERSION_1, false, 1024);
    for (from, to) in [("10.7.0.1", "10.7.0.2"), ("fd07::1", "fd07::2")] {
        for window in [0, 1, 0x1234, 0xfffe] {
            let (saddr, daddr): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let packet = Packet {
                saddr: words(saddr),
                daddr: words(daddr),
                family: if saddr.is_ipv4() { 4 } else { 6 },
                proto: proto::TCP,
                tcp_flags: tcp::ACK,
                window,
                payload: 333,
                ..Packet::default()
            };
            let expected = Packet { window: window | 1, ecn: wire::ecn::ECT0, ..packet };
            let frame = wire::emit(&packet, &TcpOptions::default()).unwrap();
            let (verdict, out) = from_guest(&fabric, &frame);
            assert_eq!(verdict, REDIRECT);
            let outer = wire::encap::read_outer(&out, 4789).unwrap();
            assert_eq!(outer.ecn, wire::ecn::ECT0, "the outer header follows");
            let expected = wire::emit(&expected, &TcpOptions::default()).unwrap();
            assert_eq!(out[usize::from(outer.add_len)..], expected, "{from}, window {window:#x}");
        }
    }
}

#[test]
fn rewriting_keeps_the_checksums_of_real_segments_right() {
    for (name, offload) in [("wb", true), ("wc", false)] {
        if let Some(why) = fabric::unavailable() {
            eprintln!("skipped: {why}");
            return;
        }
        let mut fabric = Fabric::new(name);
        fabric.options.test_rewrite = kernel::REWRITE_WINDOW | kernel::REWRITE_ECN;
        fabric.add_edges(&config(), &LABELS);
        for i in 0..2 {
            // The uplink completes checksums, so that the guests verify them.
            fabric.exec_ok(&fabric.host(i), "ethtool -K u0 tx off");
            if !offload {
                fabric.exec_ok(&fabric.guest(i), "ethtool -K eth0 tx off tso off gso off");
            }
        }
        transfer(&fabric, "tcp", "10.7.0.2:9000", 20_000_000);
        transfer(&fabric, "tcp", "[fd07::2]:9001", 20_000_000);
        transfer(&fabric, "udp", "10.7.0.2:9002", 20);
        let seen = output(
            &fabric,
            &fabric.guest(1),
            "nstat -asz IpExtInECT0Pkts Ip6InECT0Pkts TcpInCsumErrors UdpInCsumErrors",
        );
        let value = |name: &str| -> u64 {
            let line = seen.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {seen}"));
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        assert_eq!((value("TcpInCsumErrors"), value("UdpInCsumErrors")), (0, 0));
        assert!(value("IpExtInECT0Pkts") > 300 && value("Ip6InECT0Pkts") > 300, "rewritten: {seen}");
        for (_, slot) in fabric.edges[1].edge.flows().unwrap() {
            assert!(slot.out_segments > 0);
        }
    }
}
