//! The hidden overlay between real TCP connections. Needs root (or a user namespace), /dev/net/tun, ip and ping.

#[allow(dead_code)] // here it only sends
#[path = "../../kernel/tests/packet/mod.rs"]
mod packet;
mod rig;

use edge::hidden::Counters;
use edge::Balance;
use host::experiment::{edge_address, EdgeConfig};
use lab::{address, mac, CapturedFrame, Lab, Setup, INTERFACE};
use packet::PacketSocket;
use rig::{lab, transfer};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use topology::{Clos, Topology};
use units::{BitRate, Bytes, Time};
use wire::checksum::Sum;
use wire::hidden::{self, Hidden};
use wire::{emit, parse, proto, tcp, Packet, TcpOptions};

const RATE: BitRate = BitRate::from_mbps(100);

fn clos() -> Topology {
    let delay = Time::from_us(300);
    Clos {
        leaves: 2,
        spines: 2,
        parallel_links: 1,
        hosts_per_leaf: 1,
        host_rate: RATE,
        host_delay: delay,
        fabric_rate: RATE,
        fabric_delay: delay,
    }
    .build()
    .unwrap()
}

fn setup(balance: Balance, reorder: bool) -> Setup {
    let edge = EdgeConfig {
        balance,
        hidden: true,
        reorder: reorder.then(edge::reorder::Config::default),
        ..EdgeConfig::default()
    };
    Setup { edge, ..rig::setup(clos()) }
}

fn counters(lab: &Lab) -> Vec<Counters> {
    lab.ask(|driver| driver.end_measurement()).unwrap().hosts.iter().map(|host| host.hidden).collect()
}

/// Packets on the last link to a host.
fn capture_to(lab: &Lab, host: u32) -> Receiver<CapturedFrame> {
    let (to, captured) = std::sync::mpsc::sync_channel(5000);
    let link = lab.topology().host_link(host);
    let port = 2 * link + u32::from(lab.topology().links[link as usize].a == host);
    lab.ask(move |driver| driver.capture(port, 2000, 4000, to)).unwrap();
    captured
}

/// Those of them with the option of the hidden overlay.
fn options(captured: &Receiver<CapturedFrame>) -> impl Iterator<Item = (CapturedFrame, Hidden)> + '_ {
    std::iter::from_fn(|| captured.recv_timeout(Duration::from_millis(500)).ok()).filter_map(|frame| {
        let option = hidden::option(&frame.bytes, &parse(&frame.bytes).ok()?)?;
        Some((frame, Hidden::read(&option)?))
    })
}

fn sent_to(lab: &Lab, spine: u32) -> u64 {
    let status = lab.ask(|driver| driver.status(Time::from_ms(2))).unwrap();
    status.links.iter().find(|link| link.port == format!("leaf1-spine{spine}")).unwrap().tx_bytes
}

#[test]
fn flowcells_take_both_spines_by_their_ports_and_every_byte_arrives() {
    let Some(lab) = lab(&setup(Balance::flowcell(Bytes(16_384)), true)) else { return };
    assert_eq!(transfer(&lab, 3_000_000), address(0), "the guest hears from the guest");
    let (one, two) = (sent_to(&lab, 1), sent_to(&lab, 2));
    assert!(one.min(two) * 3 > one.max(two), "{one} and {two}");
    let status = lab.ask(|driver| driver.status(Time::from_ms(2))).unwrap();
    let flow = status.flows.iter().max_by_key(|flow| flow.bytes).unwrap();
    assert!(flow.flow.contains(&address(1).to_string()), "people see guests' flows: {}", flow.flow);
    assert_eq!(status.hosts.iter().map(|host| host.counters.malformed).sum::<u64>(), 0);
    let [source, destination] = counters(&lab)[..] else { panic!("two hosts") };
    assert!(
        source.hidden_segments > 40 && destination.restored_packets > 3_000_000 / 1440,
        "{source:?} {destination:?}"
    );
    assert_eq!((source.lowered_mss, destination.lowered_mss), (1, 1), "SYN and answer");
    // Segments of the last kernel that a too large MSS would have made.
    assert_eq!(source.no_room_segments, 0, "{source:?}");
    let wrong = |c: Counters| c.malformed_packets + c.forged_packets + c.refused_segments;
    assert_eq!(wrong(source) + wrong(destination), 0);
}

/// Slow spines fill queues; switches mark, guests do not speak ECN, and feedback comes back in options.
#[test]
fn clove_has_paths_marked_between_edges() {
    let balance = "clove,flowlet_gap=2ms,clove_relay=1ms,clove_clear=5ms".parse().unwrap();
    let mut setup = setup(balance, false);
    setup.switches.aqm = Some(fabric::Aqm::Threshold { k: Bytes(15_000) });
    for spine in ["spine1", "spine2"] {
        let link = setup.topology.link_named(&format!("leaf1-{spine}")).unwrap();
        setup.topology.links[link as usize].rate = BitRate::from_mbps(20);
    }
    let Some(lab) = lab(&setup) else { return };
    let back = capture_to(&lab, 0);
    transfer(&lab, 3_000_000);
    let measured = lab.ask(|driver| driver.end_measurement()).unwrap();
    assert!(measured.ports.iter().map(|port| port.marked_packets).sum::<u64>() > 0, "nothing was marked");
    let told = options(&back).filter(|(_, hidden)| hidden.feedback == wire::feedback::CE).count();
    assert!(told > 0, "no mark came back");
    let netstat = lab.namespaces()[1].enter(|| Command::new("cat").arg("/proc/self/net/netstat").output()).unwrap();
    let text = String::from_utf8_lossy(&netstat.stdout).into_owned();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let ce = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "InCEPkts").unwrap().1;
    assert_eq!(ce, "0", "the guest sees none of it");
}

#[test]
fn what_crosses_the_fabric_is_of_edges() {
    let Some(lab) = lab(&setup("ecmp".parse().unwrap(), false)) else { return };
    let captured = capture_to(&lab, 1);
    transfer(&lab, 400_000);
    let mut seen = 0;
    for (frame, hidden) in options(&captured) {
        let packet = parse(&frame.bytes).unwrap();
        assert_eq!((packet.saddr[3], packet.daddr[3], packet.dport), (edge_address(0), edge_address(1), hidden::PORT));
        assert_eq!((hidden.saddr, hidden.daddr), (u32::from(address(0)), u32::from(address(1))));
        assert_eq!(Sum::default().bytes(&frame.bytes[14..34]).finish(), 0, "the header's sum");
        assert!(frame.len <= 1514, "{} bytes", frame.len);
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn other_traffic_passes_and_guests_speak_to_no_edge() {
    let Some(lab) = lab(&setup(Balance::flowcell(Bytes(16_384)), true)) else { return };
    let ping = lab.namespaces()[0].enter(|| Command::new("ping").args(["-c", "3", "-i", "0.02", "10.0.0.2"]).output());
    assert!(ping.unwrap().status.success(), "ICMP is not hidden");
    let to = lab.namespaces()[1].enter(|| UdpSocket::bind((address(1), 7))).unwrap();
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    lab.namespaces()[0].enter(|| UdpSocket::bind((address(0), 0))?.send_to(b"hello", (address(1), 7))).unwrap();
    let mut bytes = [0; 10];
    let (len, from) = to.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..len], from.ip()), (b"hello".as_slice(), IpAddr::V4(address(0))));

    // A guest that makes a packet of an edge, and one under another's address.
    let socket = lab.namespaces()[0].enter(|| PacketSocket::open(nix::net::if_::if_nametoindex(INTERFACE).unwrap()));
    let socket = socket.unwrap();
    let ipv4 = |address: u32| [0, 0, 0xffff, address];
    let (guest, other) = (u32::from(address(0)), u32::from(address(1)));
    let says = Hidden { saddr: other, daddr: other, sport: 1, dport: 5001, version: 1, ..Hidden::default() };
    let forged = |saddr: u32, daddr: u32, dport: u16| {
        let packet = Packet {
            saddr: ipv4(saddr),
            daddr: ipv4(daddr),
            sport: 0xc001,
            dport,
            payload: 100,
            proto: proto::TCP,
            family: 4,
            tcp_flags: tcp::ACK,
            ..Packet::default()
        };
        let mut frame = emit(&packet, &TcpOptions { hidden: Some(says.bytes()), ..TcpOptions::default() }).unwrap();
        frame[..6].copy_from_slice(&mac(1));
        frame
    };
    for frame in [
        forged(guest, edge_address(1), hidden::PORT),
        forged(edge_address(0), edge_address(1), hidden::PORT),
        forged(other, other, 5001),
        forged(0x0a00_0063, other, 5001),
    ] {
        socket.send(&frame, None).unwrap();
    }
    transfer(&lab, 300_000);
    let [source, destination] = counters(&lab)[..] else { panic!("two hosts") };
    assert_eq!(source.refused_segments, 4, "{source:?}");
    assert_eq!(destination.forged_packets + destination.malformed_packets, 0, "none got that far: {destination:?}");
    assert!(source.plain_segments >= 1, "UDP: {source:?}");
}
