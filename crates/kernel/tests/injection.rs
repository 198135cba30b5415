//! A guest of one network that wants to be heard in another: frames that a host which forwards takes for a peer's. Over real
//! interfaces; root only, says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;
mod packet;

use fabric::{guest_port, in_namespace, ip, Fabric};
use kernel::state::{
    words, Config, Counter, Peer, Port, Route, Tunnel, PORT_STRICT, ROUTE_LOCAL, ROUTE_PEER, VERSION_1, VERSION_2,
};
use packet::PacketSocket;
use std::net::IpAddr;
use wire::encap::Encap;
use wire::{proto, Packet, TcpOptions};

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];
/// The network of the victim, which is on host 1 too.
const OTHER: u32 = 9;
const VERSIONS: [u8; 2] = [VERSION_1, VERSION_2];
/// What every frame of the attacker's has in its payload.
const MAGIC: [u8; 8] = *b"injected";

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The victim is 10.9.0.1 of network 9 on host 1. Host 2, which is not there, is a peer with 10.9.0.3; it also has an outer
/// IPv6 address, as which it has 10.9.0.6. Hosts forward, and check no source.
/// Hosts speak `version` to one another, and so does the attacker.
fn fabric(name: &str, strict: bool, version: u8) -> Option<(Fabric, PacketSocket)> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    let mut fabric = Fabric::new(name);
    let config = Config { balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false), ..Config::default() };
    for i in 0..2 {
        fabric.add_edge(i, &config, &LABELS, version, false, 1024);
    }
    let (h0, h1, g1) = (fabric.host(0), fabric.host(1), fabric.guest(1));
    for set in [
        "net.ipv4.ip_forward=1",
        "net.ipv4.conf.all.rp_filter=0",
        "net.ipv4.conf.g.rp_filter=0",
        "net.ipv6.conf.all.forwarding=1",
    ] {
        fabric.exec_ok(&h0, &format!("sysctl -qw {set}"));
    }
    ip(&format!("link add v netns {h1} type veth peer name eth1 netns {g1}"));
    ip(&format!("-n {h1} link set v up"));
    ip(&format!("-n {g1} link set eth1 up"));
    let (victim, port) = (&fabric.edges[1].edge, in_namespace(&h1, || kernel::ifindex("v").unwrap()));
    victim.set_port(port, &Port { vni: OTHER, ..Port::default() }).unwrap();
    let local = Route { kind: ROUTE_LOCAL, target: port, ..Route::default() };
    victim.set_route(OTHER, addr("10.9.0.1"), 32, &local).unwrap();
    for (id, own, remote, guest) in
        [(2, "192.168.99.2", "192.168.99.3", "10.9.0.3"), (3, "fd99::2", "fd99::3", "10.9.0.6")]
    {
        let tunnel = Tunnel::new(addr(own), addr(remote), 4789, version).unwrap();
        victim.set_peer(id, &Peer::new(tunnel, fabric.edges[1].uplink).with_labels(&LABELS)).unwrap();
        let route = Route { kind: ROUTE_PEER, target: id, ..Route::default() };
        victim.set_route(OTHER, addr(guest), 32, &route).unwrap();
    }
    let flags = guest_port(0).flags | if strict { PORT_STRICT } else { 0 };
    fabric.edges[0].edge.set_port(fabric.edges[0].port, &Port { flags, ..guest_port(0) }).unwrap();
    let there = in_namespace(&g1, || PacketSocket::open(kernel::ifindex("eth1").unwrap()).unwrap());
    Some((fabric, there))
}

/// A datagram with the mark, from a guest to the victim.
fn inner(from: &str) -> Vec<u8> {
    let packet = Packet {
        saddr: words(addr(from)),
        daddr: words(addr("10.9.0.1")),
        family: 4,
        proto: proto::UDP,
        sport: 9,
        dport: 9,
        payload: MAGIC.len() as u32,
        ..Packet::default()
    };
    let mut frame = wire::emit(&packet, &TcpOptions::default()).unwrap();
    let at = frame.len() - MAGIC.len();
    frame[at..].copy_from_slice(&MAGIC);
    frame
}

/// As the host that forwards gets it: `from` and `to` are outer addresses.
fn outer(fabric: &Fabric, version: u8, from: &str, to: &str, inner: &[u8]) -> Vec<u8> {
    let datagram = kernel::emit::encapsulate(inner, &Encap::new(OTHER, version), 50_001, 4789).unwrap();
    let mac = |namespace: &str, device: &str| -> Vec<u8> {
        let said = fabric.exec(namespace, &["ip", "-o", "link", "show", "dev", device]).stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mac =
            said.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).expect("an address").to_owned();
        mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let mut frame = [mac(&fabric.host(0), "g"), mac(&fabric.guest(0), "eth0")].concat();
    match (addr(from), addr(to)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((datagram.len() as u16 + 20).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, proto::UDP, 0, 0]);
            frame.extend(from.octets().into_iter().chain(to.octets()));
            let sum = wire::checksum::Sum::default().bytes(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((datagram.len() as u16).to_be_bytes());
            frame.extend([proto::UDP, 64]);
            frame.extend(from.octets().into_iter().chain(to.octets()));
        }
        _ => unreachable!("one family"),
    }
    frame.extend(datagram);
    frame
}

fn tagged(frame: &[u8], tag: [u8; 4]) -> Vec<u8> {
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// The same with the IPv4 identification and fragment fields set, and lengths and checksum right.
fn fragment(frame: &[u8], offset: usize, len: Option<usize>) -> Vec<u8> {
    let payload = &frame[34..];
    let part = &payload[offset..len.map_or(payload.len(), |len| offset + len)];
    let mut out = [&frame[..34], part].concat();
    out[16..18].copy_from_slice(&(part.len() as u16 + 20).to_be_bytes());
    out[18..20].copy_from_slice(&[0x12, 0x34]);
    let field = (offset / 8) as u16 | if len.is_some() { 0x2000 } else { 0 };
    out[20..22].copy_from_slice(&field.to_be_bytes());
    out[24..26].fill(0);
    let sum = wire::checksum::Sum::default().bytes(&out[14..34]).finish();
    out[24..26].copy_from_slice(&sum.to_be_bytes());
    out
}

/// Ways to forge a tunnel packet, each by its name.
fn attacks(fabric: &Fabric, version: u8) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let v4 = outer(fabric, version, "192.168.99.3", "192.168.99.2", &inner("10.9.0.3"));
    let v6 = outer(fabric, version, "fd99::3", "fd99::2", &inner("10.9.0.6"));
    let own = outer(fabric, version, "10.7.0.1", "192.168.99.2", &inner("10.9.0.3"));
    let (priority, service) = ([0x81, 0, 0xe0, 0], [0x88, 0xa8, 0, 0]);
    let longer = |frame: &[u8], at: usize| {
        let mut frame = frame.to_vec();
        let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + 1;
        frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
        frame
    };
    let twice = outer(fabric, version, "192.168.99.3", "192.168.99.2", &tagged(&inner("10.9.0.3"), priority));
    vec![
        ("a peer's outer address", vec![v4.clone()]),
        ("a peer's outer IPv6 address", vec![v6.clone()]),
        ("the guest's own address", vec![own]),
        ("a priority tag", vec![tagged(&v4, priority)]),
        ("a priority tag of the other kind", vec![tagged(&v4, service)]),
        ("two priority tags", vec![tagged(&tagged(&v4, priority), priority)]),
        ("five priority tags", vec![(0..5).fold(v4.clone(), |frame, _| tagged(&frame, priority))]),
        ("a priority tag over IPv6", vec![tagged(&v6, priority)]),
        ("a UDP length too large", vec![longer(&v4, 38)]),
        ("a UDP length too large over IPv6", vec![longer(&v6, 58)]),
        ("a priority tag and a UDP length too large", vec![tagged(&longer(&v4, 38), priority)]),
        ("fragments", vec![fragment(&v4, 0, Some(40)), fragment(&v4, 40, None)]),
        ("a tag within the tunnel", vec![twice]),
    ]
}

/// Did the mark come? Waits until nothing does.
fn came(there: &PacketSocket) -> bool {
    std::iter::from_fn(|| there.receive()).filter(|(frame, _)| frame.ends_with(&MAGIC)).count() > 0
}

/// Which of them came to the victim.
fn arrived(fabric: &Fabric, version: u8, there: &PacketSocket) -> Vec<&'static str> {
    let guest = fabric.guest(0);
    let here = in_namespace(&guest, || PacketSocket::open(kernel::ifindex("eth0").unwrap()).unwrap());
    let mut arrived = Vec::new();
    for (name, frames) in attacks(fabric, version) {
        for _ in 0..3 {
            frames.iter().for_each(|frame| here.send(frame, None).unwrap());
        }
        if came(there) {
            arrived.push(name);
        }
    }
    arrived
}

/// As a peer would send it, so that the test is seen to see what arrives.
fn from_the_peer(fabric: &Fabric, version: u8, there: &PacketSocket, source: &str) -> bool {
    let mut frame = outer(fabric, version, "192.168.99.3", "192.168.99.2", &inner(source));
    frame[..6].fill(0xff);
    let here = in_namespace(&fabric.host(0), || PacketSocket::open(kernel::ifindex("u0").unwrap()).unwrap());
    here.send(&frame, None).unwrap();
    came(there)
}

#[test]
fn no_guest_of_a_strict_port_is_heard_in_another_network() {
    for version in VERSIONS {
        let Some((fabric, there)) = fabric("is", true, version) else { return };
        assert!(from_the_peer(&fabric, version, &there, "10.9.0.3"));
        assert_eq!(arrived(&fabric, version, &there), [""; 0], "version {version}");
    }
}

#[test]
fn no_guest_of_a_port_that_is_not_strict_is_heard_in_another_network() {
    for version in VERSIONS {
        let Some((fabric, there)) = fabric("in", false, version) else { return };
        assert!(from_the_peer(&fabric, version, &there, "10.9.0.3"));
        assert_eq!(arrived(&fabric, version, &there), [""; 0], "version {version}");
    }
}

#[test]
fn peers_speak_for_their_own_guests_only() {
    for version in VERSIONS {
        let Some((fabric, there)) = fabric("ip", true, version) else { return };
        assert!(from_the_peer(&fabric, version, &there, "10.9.0.3"));
        for source in ["10.9.0.6", "10.9.0.1", "10.9.0.99", "0.0.0.0"] {
            assert!(!from_the_peer(&fabric, version, &there, source), "{source}");
        }
        let counters = fabric.edges[1].edge.counters().unwrap();
        assert_eq!((counters.get(Counter::DropForged), counters.get(Counter::DropError)), (4, 0));
        let events = fabric.edges[1].edge.poll_events(std::time::Duration::from_millis(20)).unwrap();
        let found: Vec<_> = events.iter().filter(|event| event.kind == kernel::state::EVENT_FORGED).collect();
        assert!((1..=4).contains(&found.len()), "told, and not of each in a second");
        assert_eq!(kernel::state::address(found[0].packet.saddr), addr("10.9.0.6"));
        assert_eq!((kernel::state::address(found[0].addr), found[0].value), (addr("192.168.99.3"), OTHER));
    }
}
