//! A guest that wants to be heard in another network, or as somebody else, against the loaded programs of two hosts: what it
//! sends goes through the guest program of host A; what leaves in the tunnel, and what A's stack would forward, through the uplink
//! program of host B. `SELVEDGE_FRAMES` says how many frames; `make fuzz` runs ten million.
#![cfg(feature = "libbpf")]

mod fabric;

use fabric::{in_namespace, Fabric};
use fuzz_drivers::{Addresses, Tenant};
use kernel::state::{
    address, words, Config, Counter, Peer, Port, Route, Tenants, Tunnel, CONFIG_CONGESTION, EVENT_AGAIN, EVENT_DROPPED,
    PORT_ISOLATED, PORT_OWN_MAC, PORT_STRICT, ROUTE_LOCAL, ROUTE_PEER, VERSION_1, VERSION_2, VERSION_PLAIN,
};
use kernel::{emit, KernelEdge, Options, Role, Segment};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;
use units::{BitRate, Bytes, Time};
use wire::encap::{self, Encap};
use wire::{proto, Packet, TcpOptions};

const UDP_PORT: u16 = 4789;
const REDIRECT: u32 = 7;
const SHOT: u32 = 2;
/// So many frames meet one configuration, and one flow table, which they do not fill.
const ROUND: usize = 50_000;
/// Of the first port whose number is nobody's.
const PORTS: u32 = 1000;
/// So often the agent reads what the programs tell it.
const READ: usize = 500;
const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// A guest: network, the last number of its addresses, host (0: A, 1: B, 2: C, which is not there), MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Guest {
    network: u32,
    n: u8,
    host: usize,
}

const fn guest(network: u32, n: u8, host: usize) -> Guest {
    Guest { network, n, host }
}

/// The first is the attacker. Some addresses are in both networks, with others behind them.
const GUESTS: [Guest; 9] = [
    guest(7, 1, 0),
    guest(7, 9, 0),
    guest(9, 11, 0),
    guest(9, 2, 0),
    guest(7, 2, 1),
    guest(9, 12, 1),
    guest(9, 1, 1),
    guest(7, 3, 2),
    guest(9, 13, 2),
];

impl Guest {
    fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 7, 0, self.n)
    }

    fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, self.n.into())
    }

    fn mac(self) -> [u8; 6] {
        [2, 0, 0, self.network as u8, self.host as u8, self.n]
    }

    fn has(self, addr: IpAddr) -> bool {
        addr == IpAddr::V4(self.v4()) || addr == IpAddr::V6(self.v6())
    }
}

fn host4(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 99, i as u8 + 1)
}

fn host6(i: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, i as u16 + 1)
}

fn outer(i: usize, six: bool) -> IpAddr {
    if six {
        host6(i).into()
    } else {
        host4(i).into()
    }
}

/// How a round's hosts are configured.
#[derive(Clone, Copy, Debug)]
struct Shape {
    strict: bool,
    isolated: bool,
    congestion: bool,
    /// The underlay between the hosts.
    six: bool,
    /// The highest that hosts speak to one another.
    version: u8,
    /// Guests share the uplink: marks are counted, told and heard.
    shares: bool,
}

impl Shape {
    fn of(round: usize) -> Shape {
        let bit = |n: usize| round >> n & 1 == 1;
        let version = [VERSION_2, VERSION_1, VERSION_2, VERSION_PLAIN][(round + round / 4) % 4];
        let (isolated, shares) = (round % 7 == 6, round % 5 < 2);
        Shape { strict: !bit(0), six: bit(1), congestion: bit(2), version, isolated, shares }
    }
}

/// Opens and removes an edge with its pins.
struct Host {
    edge: Option<KernelEdge>,
    pins: PathBuf,
    port: u32,
    uplink: u32,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.edge.take().map(KernelEdge::destroy);
        let _ = std::fs::remove_dir_all(&self.pins);
    }
}

impl Host {
    /// Host `me`, in the namespace that the thread is in. Only the attacker's port need exist.
    fn new(fabric: &Fabric, me: usize, shape: Shape) -> Host {
        let pins = PathBuf::from(format!("/sys/fs/bpf/{}x{me}", fabric.host(0)));
        std::fs::create_dir(&pins).unwrap();
        let (port, uplink) = (kernel::ifindex("g").unwrap(), kernel::ifindex("u0").unwrap());
        let mut host = Host { edge: None, pins: pins.clone(), port, uplink };
        let edge = KernelEdge::open(&Options { pins, max_flows: 1 << 17, ..Options::default() }).unwrap();
        let flags = if shape.congestion { CONFIG_CONGESTION } else { 0 };
        if shape.congestion {
            edge.set_congestion(&edge::vcc::Config::new(edge::vcc::Class::default())).unwrap();
        }
        let mac = [2, 0x5e, 0, 0, 0, 1];
        let config = Config {
            balance: edge::Balance::flowcell(units::Bytes::kib(64)).conf(false),
            udp_port: UDP_PORT,
            flags,
            mac,
            epoch: 1,
            ..Config::default()
        };
        edge.set_config(&config).unwrap();
        for other in (0..3).filter(|other| *other != me) {
            let tunnel = Tunnel::new(outer(me, shape.six), outer(other, shape.six), UDP_PORT, shape.version).unwrap();
            edge.set_peer(other as u32 + 1, &Peer::new(tunnel, uplink).with_labels(&LABELS)).unwrap();
        }
        if shape.shares {
            let mut conf = edge::hygenicc::Config::new(BitRate::from_mbps(100_000), Time::from_us(100));
            (conf.depth, conf.patience) = (Bytes(1 << 30), Time::from_ms(1));
            edge.set_tenants(&Tenants { conf: conf.conf(), backlog: 0, numbers: 1, pad: 0 }).unwrap();
        }
        for (i, guest) in GUESTS.iter().enumerate() {
            let route = if guest.host == me {
                let attacker = [(shape.strict, PORT_STRICT | PORT_OWN_MAC), (shape.isolated, PORT_ISOLATED)];
                let attacker = attacker.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
                // The numbers of ports that nothing is sent to in a test run need be nobody's.
                let (at, flags) = if i == 0 { (port, attacker) } else { (PORTS + i as u32, 0) };
                let port = Port { vni: guest.network, mac: guest.mac(), flags, ..Port::default() };
                edge.set_port(at, &if shape.shares { port.with_share(1, 1) } else { port }).unwrap();
                Route { kind: ROUTE_LOCAL, target: at, ..Route::default() }
            } else {
                Route { kind: ROUTE_PEER, target: guest.host as u32 + 1, mac: guest.mac(), ..Route::default() }
            };
            edge.set_route(guest.network, guest.v4().into(), 32, &route).unwrap();
            edge.set_route(guest.network, guest.v6().into(), 128, &route).unwrap();
        }
        host.edge = Some(edge);
        host
    }

    /// The guest of B's has said something: from now on A knows that B speaks version 2.
    fn hear_version_2(&self, shape: Shape) {
        let [to, from] = [GUESTS[0], GUESTS[4]];
        let packet = |saddr: IpAddr, daddr: IpAddr, payload: usize| {
            let family = if saddr.is_ipv4() { 4 } else { 6 };
            let (saddr, daddr, payload) = (words(saddr), words(daddr), payload as u32);
            let packet = Packet { saddr, daddr, family, proto: proto::UDP, payload, ..Packet::default() };
            wire::emit(&packet, &TcpOptions::default()).unwrap()
        };
        let encap = Encap { speaks2: 1, ..Encap::new(to.network, VERSION_1) };
        let inner = packet(from.v4().into(), to.v4().into(), 9);
        let datagram = emit::encapsulate(&inner, &encap, LABELS[0], UDP_PORT).unwrap();
        let mut frame = packet(outer(1, shape.six), outer(0, shape.six), datagram.len() - 8);
        let at = frame.len() - datagram.len();
        frame[at..].copy_from_slice(&datagram);
        assert_eq!(self.run(Role::Uplink, &frame).unwrap().0, REDIRECT, "{shape:?}");
    }

    fn edge(&self) -> &KernelEdge {
        self.edge.as_ref().expect("only drop takes it")
    }

    /// None where the kernel refuses such a frame before the program sees it.
    fn run(&self, role: Role, frame: &[u8]) -> Option<(u32, Vec<u8>)> {
        let ifindex = if role == Role::Guest { self.port } else { self.uplink };
        let least = match frame.get(12..14)? {
            [0x08, 0x00] => 34,
            [0x86, 0xdd] => 54,
            _ => 14,
        };
        if frame.len() < least || frame.len() > 3000 {
            return None;
        }
        Some(self.edge().test_run_segment(role, frame, Segment { ifindex, ..Segment::default() }).unwrap())
    }
}

/// Source of the IP packet in a frame.
fn source(frame: &[u8]) -> Option<IpAddr> {
    match frame.get(12..14)? {
        [0x08, 0x00] => Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(26..30)?).ok()?).into()),
        [0x86, 0xdd] => Some(Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(22..38)?).ok()?).into()),
        _ => None,
    }
}

/// The source in the form of the data path: both that an IPv6 header can hold are one.
fn same(addr: IpAddr) -> IpAddr {
    address(words(addr))
}

/// What an IPv6 packet says by neighbour discovery to its receiver: type, and the address that it is about. Extension headers are
/// followed to the end. Not in fragments, where receivers ignore it (RFC 6980).
fn discovery(frame: &[u8]) -> Option<(u8, Ipv6Addr)> {
    if frame.get(12..14)? != [0x86, 0xdd] {
        return None;
    }
    let (mut next, mut at) = (*frame.get(20)?, 54);
    while matches!(next, 0 | 43 | 60) {
        (next, at) = (*frame.get(at)?, at + 8 * (usize::from(*frame.get(at + 1)?) + 1));
    }
    let target = <[u8; 16]>::try_from(frame.get(at + 8..at + 24)?).ok()?;
    (next == 58).then(|| Some((*frame.get(at)?, Ipv6Addr::from(target))))?
}

/// What a host may make of a frame that it forwards: without its tags, and without what is behind the end of the packet.
fn forwarded(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut bare = frame.to_vec();
    while matches!(bare.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8])) && bare.len() >= 18 {
        bare.drain(12..16);
    }
    let length = |at: usize| bare.get(at..at + 2).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let end = match bare.get(12..14) {
        Some([0x08, 0x00]) => 14 + length(16),
        Some([0x86, 0xdd]) => 54 + length(18),
        _ => bare.len(),
    };
    let trimmed = bare[..end.min(bare.len())].to_vec();
    vec![bare, trimmed]
}

#[derive(Default, Debug)]
struct Seen {
    sent: usize,
    passed: usize,
    tunnelled: usize,
    local: usize,
    dropped: usize,
    delivered: usize,
    from_hosts: usize,
    /// Left in version 2.
    version_2: usize,
    /// Of what hosts said of dropped packets.
    told: usize,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        self.sent += more.sent;
        self.passed += more.passed;
        self.tunnelled += more.tunnelled;
        self.local += more.local;
        self.dropped += more.dropped;
        self.delivered += more.delivered;
        self.from_hosts += more.from_hosts;
        self.version_2 += more.version_2;
        self.told += more.told;
    }
}

struct Round<'a> {
    shape: Shape,
    a: &'a Host,
    b: &'a Host,
    seen: Seen,
}

impl Round<'_> {
    /// B got it from the fabric. Returns what B's guest gets. `forger`: nobody may get it.
    fn arrive(&mut self, frame: &[u8], forger: bool) -> Option<Vec<u8>> {
        let (verdict, out) = self.b.run(Role::Uplink, frame)?;
        if verdict != REDIRECT {
            return None;
        }
        self.seen.delivered += 1;
        let shape = self.shape;
        assert!(!forger, "{shape:?}: B took what A forwarded: {frame:02x?}");
        let tunnel = encap::read_outer(frame, UDP_PORT).expect("B took what is no tunnel packet");
        let from = (0..3).find(|i| same(outer(*i, shape.six)) == address(tunnel.saddr));
        let said = source(&out).map(same).unwrap_or_else(|| panic!("no source: {out:02x?}"));
        let sender = GUESTS
            .iter()
            .find(|guest| Some(guest.host) == from && guest.network == tunnel.encap.vni && guest.has(said));
        assert!(sender.is_some(), "{shape:?}: B took from host {from:?} what {said} says: {frame:02x?}");
        let to = GUESTS.iter().find(|guest| out.starts_with(&guest.mac())).unwrap_or_else(|| panic!("{out:02x?}"));
        assert_eq!((to.network, to.host), (tunnel.encap.vni, 1), "{shape:?}: {frame:02x?}");
        Some(out)
    }

    /// What B's agent is told of dropped packets: by a peer of version 2, between its guest and one of B's in one network.
    fn read_events(&mut self) {
        let shape = self.shape;
        for event in self.b.edge().poll_events(Duration::ZERO).unwrap() {
            let packet = event.packet;
            let (here, there) = match event.kind {
                EVENT_DROPPED => (packet.saddr, packet.daddr),
                EVENT_AGAIN => (packet.daddr, packet.saddr),
                _ => continue,
            };
            self.seen.told += 1;
            assert_eq!(shape.version, VERSION_2, "{shape:?}: {event:?}");
            let peer = (event.value as u16 - 1).into();
            let [here, there] = [here, there].map(|addr| same(address(addr)));
            assert_eq!(address(event.addr), same(outer(peer, shape.six)), "{shape:?}: {event:?}");
            let to = GUESTS[(event.ifindex - PORTS) as usize];
            assert!(to.host == 1 && to.has(here), "{shape:?}: {event:?}");
            let speaks = |guest: &Guest| (guest.network, guest.host) == (to.network, peer) && guest.has(there);
            assert!(GUESTS.iter().any(speaks), "{shape:?}: host {peer} speaks for {there}: {event:?}");
        }
    }

    /// Another guest gets it from the attacker, or is about to.
    fn check_heard(&self, heard: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        if !shape.strict {
            return;
        }
        let said = source(heard).map(same);
        assert!(said.is_some_and(|said| attacker.has(said)), "{shape:?}: {said:?} left a strict port: {heard:02x?}");
        assert_eq!(heard[6..12], attacker.mac(), "{shape:?}: under another MAC address: {heard:02x?}");
        match discovery(heard) {
            Some((136, target)) => assert!(attacker.has(target.into()), "{shape:?}: advertises {target}: {heard:02x?}"),
            Some((134 | 137, _)) => panic!("{shape:?}: a router's message: {heard:02x?}"),
            _ => {}
        }
    }

    /// The attacker sends it. True if A's stack gets it.
    fn send(&mut self, tenant: &mut Tenant, frame: &[u8]) -> bool {
        let Some((verdict, out)) = self.a.run(Role::Guest, frame) else { return false };
        self.seen.sent += 1;
        let (shape, attacker) = (self.shape, GUESTS[0]);
        match verdict {
            SHOT => self.seen.dropped += 1,
            REDIRECT if out[..12] == [0; 12] => {
                self.seen.tunnelled += 1;
                let tunnel = encap::read_outer(&out, UDP_PORT).unwrap_or_else(|| panic!("{out:02x?}"));
                assert_eq!(tunnel.encap.vni, attacker.network, "{shape:?}: {frame:02x?}");
                assert_eq!(address(tunnel.saddr), same(outer(0, shape.six)));
                assert!(tunnel.encap.version <= shape.version, "{shape:?}: {out:02x?}");
                self.seen.version_2 += usize::from(tunnel.encap.version == VERSION_2);
                self.check_heard(&out[tunnel.add_len.into()..]);
                if let Some(heard) = self.arrive(&out, false) {
                    self.check_heard(&heard);
                }
                // The same from C: what B believes it must be C's guest's.
                let mut other = out.clone();
                let (at, len) = if shape.six { (22, 16) } else { (26, 4) };
                let addr = if shape.six { host6(2).octets().to_vec() } else { host4(2).octets().to_vec() };
                other[at..at + len].copy_from_slice(&addr);
                if tenant.below(4) == 0 {
                    self.arrive(&other, false);
                }
            }
            REDIRECT => {
                self.seen.local += 1;
                // Back to the guest itself, an answer; or to another of its network.
                let to = GUESTS.iter().find(|guest| guest.host == 0 && out.starts_with(&guest.mac()));
                let answered = out[..6] == frame[6..12];
                let fits = answered || to.is_some_and(|to| to.network == attacker.network);
                assert!(fits, "{shape:?}: {frame:02x?} became {out:02x?}");
                if !answered {
                    self.check_heard(&out);
                }
            }
            _ => {
                self.seen.passed += 1;
                assert!(!shape.isolated, "{shape:?}: {frame:02x?}");
                if shape.strict {
                    self.check_passed(frame);
                }
                for frame in forwarded(frame) {
                    self.arrive(&frame, true);
                }
                return true;
            }
        }
        false
    }

    /// From a strict port to the host: as the guest itself, without tags.
    fn check_passed(&self, frame: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        assert_eq!(frame[6..12], attacker.mac(), "{shape:?}: another MAC address: {frame:02x?}");
        let said = match frame[12..14] {
            [0x08, 0x06] => Ipv4Addr::new(frame[28], frame[29], frame[30], frame[31]).into(),
            _ => source(frame).unwrap_or_else(|| panic!("{shape:?}: neither IP nor ARP: {frame:02x?}")),
        };
        let said = same(said);
        let nobody = said.is_unspecified() || matches!(said, IpAddr::V6(v6) if v6.is_unicast_link_local());
        assert!(nobody || attacker.has(said), "{shape:?}: {said} speaks to the host: {frame:02x?}");
    }
}

fn addresses() -> Addresses {
    let mut macs: Vec<[u8; 6]> = GUESTS.iter().map(|guest| guest.mac()).collect();
    macs.extend([[0xff; 6], [2, 0x5e, 0, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]]);
    Addresses {
        own_mac: GUESTS[0].mac(),
        macs,
        own4: GUESTS[0].v4(),
        own6: GUESTS[0].v6(),
        guests4: GUESTS.iter().map(|guest| guest.v4()).collect(),
        guests6: GUESTS.iter().map(|guest| guest.v6()).collect(),
        hosts4: (0..4).map(host4).collect(),
        hosts6: (0..4).map(host6).collect(),
        networks: vec![7, 9, 9, 8, 0xff_ffff],
        port: UDP_PORT,
    }
}

#[test]
fn no_frame_crosses_to_another_network_or_speaks_for_another() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let frames: usize = std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(4 * ROUND);
    let fabric = Fabric::new("cx");
    let mut tenant = Tenant::new(13, addresses());
    let (mut total, mut consumed) = (Seen::default(), 0);
    in_namespace(&fabric.host(0), || {
        for round in 0..frames.div_ceil(ROUND) {
            let shape = Shape::of(round);
            let [a, b] = [0, 1].map(|me| Host::new(&fabric, me, shape));
            if shape.version == VERSION_2 {
                a.hear_version_2(shape);
            }
            let mut round = Round { shape, a: &a, b: &b, seen: Seen::default() };
            for i in 0..ROUND {
                if i % READ == 0 {
                    round.read_events();
                }
                if i % 8 == 7 || i % 16 == 3 {
                    let frame = if i % 8 == 7 { tenant.tunnelled() } else { tenant.told() };
                    round.seen.from_hosts += 1;
                    round.arrive(&frame, false);
                    continue;
                }
                let built = tenant.send();
                // Every part must pass, or nobody can put them together.
                let passed = built.frames.iter().filter(|frame| round.send(&mut tenant, frame)).count();
                if let Some(whole) = built.whole.filter(|_| passed == built.frames.len()) {
                    round.arrive(&whole, true);
                }
            }
            round.read_events();
            let Seen { passed, tunnelled, local, delivered, version_2, .. } = round.seen;
            // Where everything was dropped, nothing was tried.
            assert!(tunnelled > 400 && local > 100 && delivered > 200, "{shape:?}: {:?}", round.seen);
            assert!(passed > 300 || shape.isolated, "{shape:?}: {:?}", round.seen);
            for (counter, least) in [(Counter::DropForged, 100), (Counter::DropLengths, 20)] {
                assert!(b.edge().counters().unwrap().get(counter) > least, "{shape:?}: {counter:?}");
            }
            assert_eq!(version_2 > 100, shape.version == VERSION_2, "{shape:?}: {:?}", round.seen);
            consumed += b.edge().counters().unwrap().get(Counter::MarksConsumed);
            total += round.seen;
        }
    });
    assert!(total.told > 0 && consumed > 0, "{total:?}: {consumed} counts of marks");
    println!("{total:?}, {consumed} counts of marks consumed");
}
