//! A guest that wants to be heard in another network, or as somebody else, against the loaded programs of two hosts: what it
//! sends goes through the programs of host A; what leaves, in the tunnel or without one, and what A's stack would forward, through the
//! uplink program of host B. `SELVEDGE_FRAMES` says how many frames; `make fuzz` runs ten million.
//!
//! A limited port's frames pass its queue as the kernel would carry them: with the mark, the segment size and the frame that the program
//! before has left. BPF_PROG_TEST_RUN, which runs each program, cannot do the rest:
//!
//! - It neither sets nor shows `tc_index`. So nothing comes out of a queue by a number (`SV_RETURN`): on a device of the host's own, and of a port
//!   without a network. What such a port gets back, by its time stamp, is tried. `hash` keeps a priority there; it is not shown either.
//! - Each frame has an Ethernet header. Ports without one (`SV_LIMITER_BARE`) are not tried.
//! - A segment has no `gso_type`, and no frame is in a tunnel of the kernel's (`skb->encapsulation`). The kernel makes no room in front of such a
//!   segment, so all segments to peers go to the cutter, before the stages or behind them, and are dropped where there is none. What the kernel
//!   would make of a segment is not cut here: it comes out of the cutter whole.
//! - No frame is larger than a page: none is too long for the tunnel.
//! - `vlan_present` is never set: tags stand in the frame.
//! - The device to which a program redirects is not shown. The mark tells what goes into a queue, to the cutter, or to the port again.
//! - The program inside a guest (`selvedge_limit_inside`) does nothing but stamp. What it turns back is tried with that stamp.
#![cfg(feature = "libbpf")]

mod fabric;
mod frames;

use edge::limiter::{Law, Spring};
use fabric::{in_namespace, Fabric};
use frames::{destination, differ_by_laws_only, discovery, ecn_of, forwarded, has_bit, protocol, same, source};
use fuzz_drivers::{Addresses, Tenant};
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_BOTH, LIMITER_IN, LIMITER_OUT};
use kernel::state::{
    address, words, Config, Counter, Peer, Port, Route, Tenants, Tunnel, CONFIG_CONGESTION, EVENT_AGAIN, EVENT_DROPPED,
    EVENT_GUEST, PORT_CUTTER, PORT_ISOLATED, PORT_LEARN, PORT_LIMITED, PORT_LIMITER, PORT_OWN_MAC, PORT_STRICT,
    ROUTE_LOCAL, ROUTE_PEER, VERSION_1, VERSION_2, VERSION_PLAIN,
};
use kernel::{emit, KernelEdge, Options, Role, Segment, TestRun};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;
use units::{BitRate, Bytes, Time};
use wire::encap::{self, Encap};
use wire::{proto, Packet, TcpOptions};

const UDP_PORT: u16 = 4789;
const REDIRECT: u32 = 7;
const SHOT: u32 = 2;
/// On to the next program, or the host.
const NEXT: u32 = u32::MAX;
/// So many frames at most meet one configuration, and one flow table, which they do not fill.
const ROUND: usize = 50_000;
/// And so many at least.
const SHORT: usize = 20_000;
/// Configurations, at least.
const ROUNDS: usize = 12;
/// HyGenICC's packets of nothing but feedback.
const FEEDBACK: u8 = 253;
/// Of the limiter's HTB: the port's class, and that of what goes first.
const CLASSES: [u32; 2] = [0x5e1f_0001, 0x5e1f_0002];
/// `SV_RETURNED` of `datapath/kernel/state.h`: out of the queue of a port without a network.
const RETURNED: u64 = 0x5356_5245_5400_0000;
/// `SV_TURNED`: the guest's own end has sent it back. `SV_THROUGH`: it is to let it pass.
const TURNED: u64 = RETURNED + 2;
const THROUGH: u64 = RETURNED + 3;
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

/// How the attacker's port is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    None,
    /// By a class of HTB, which the program finds, and where some goes first.
    Class,
    /// The same without laws (`limits_plain.bpf.c`).
    Lawless,
    /// By departure times, for a qdisc on the limiter's device.
    Times,
    /// By departure times that nothing waits for.
    Stamps,
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
    limit: Limit,
    /// Segments that cannot be encapsulated whole are cut.
    cutter: bool,
    /// The agent is told of the attacker's addresses.
    learn: bool,
    /// The uplink has no tunnel: network 7 is the one without a number.
    plain: bool,
}

impl Shape {
    fn of(round: usize) -> Shape {
        let bit = |n: usize| round >> n & 1 == 1;
        let version = [VERSION_2, VERSION_1, VERSION_2, VERSION_PLAIN][(round + round / 4) % 4];
        let (isolated, shares) = (round % 7 == 6, round % 5 < 2);
        let limit = [Limit::None, Limit::Class, Limit::Times, Limit::None, Limit::Stamps, Limit::Lawless][round % 6];
        let (cutter, learn, plain) = (round % 4 < 2, matches!(round % 5, 2 | 4), matches!(round % 11, 1 | 4 | 10));
        Shape {
            strict: !bit(0),
            six: bit(1),
            congestion: bit(2),
            version,
            isolated,
            shares,
            limit,
            cutter,
            learn,
            plain,
        }
    }

    fn network(self, guest: Guest) -> u32 {
        if self.plain && guest.network == GUESTS[0].network {
            0
        } else {
            guest.network
        }
    }
}

/// Opens and removes an edge with its pins.
struct Host {
    edge: Option<KernelEdge>,
    pins: PathBuf,
    port: u32,
    uplink: u32,
    /// Where what is limited waits, and comes out; and where what was cut comes out.
    queue: u32,
    cutter: u32,
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
        let [port, uplink, queue, cutter] = ["g", "u0", "queue", "cutter"].map(|name| kernel::ifindex(name).unwrap());
        let mut host = Host { edge: None, pins: pins.clone(), port, uplink, queue, cutter };
        let (plain, test_lawless) = (shape.plain, shape.limit == Limit::Lawless);
        let options = Options { pins, max_flows: 1 << 17, plain, test_lawless, ..Options::default() };
        let mut edge = KernelEdge::open(&options).unwrap();
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
            cutter: if shape.cutter { cutter } else { 0 },
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
                let attacker = [
                    (shape.strict, PORT_STRICT | PORT_OWN_MAC),
                    (shape.isolated, PORT_ISOLATED),
                    (shape.learn, PORT_LEARN),
                    (shape.limit != Limit::None, PORT_LIMITED),
                ];
                let attacker = attacker.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
                // The numbers of ports that nothing is sent to in a test run need be nobody's.
                let (at, flags) = if i == 0 { (port, attacker) } else { (PORTS + i as u32, 0) };
                let port = Port { vni: shape.network(*guest), mac: guest.mac(), flags, ..Port::default() };
                edge.set_port(at, &if shape.shares { port.with_share(1, 1) } else { port }).unwrap();
                Route { kind: ROUTE_LOCAL, target: at, ..Route::default() }
            } else {
                Route { kind: ROUTE_PEER, target: guest.host as u32 + 1, mac: guest.mac(), ..Route::default() }
            };
            edge.set_route(shape.network(*guest), guest.v4().into(), 32, &route).unwrap();
            edge.set_route(shape.network(*guest), guest.v6().into(), 128, &route).unwrap();
        }
        for (at, flags) in [(queue, PORT_LIMITER), (cutter, PORT_LIMITER | PORT_CUTTER)] {
            edge.set_port(at, &Port { flags, ..Port::default() }).unwrap();
        }
        if me == 0 && shape.limit != Limit::None {
            host.limit(&mut edge, shape.limit);
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

    /// Both directions of the attacker's port.
    fn limit(&self, edge: &mut KernelEdge, limit: Limit) {
        edge.open_limits(1024).unwrap();
        assert_eq!(edge.has_laws(), limit != Limit::Lawless);
        let times = matches!(limit, Limit::Times | Limit::Stamps);
        let spring = Spring { k1: Bytes(1), k2: Bytes(2), alpha: 512, beta: 512, hold_edge: true };
        let law = if times { Law::Spring(spring) } else { Law::Ecn { k: Bytes(1) } };
        for (direction, device) in [(LIMITER_OUT, self.queue), (LIMITER_IN, self.port)] {
            let limiter = Limiter {
                device: if limit == Limit::Stamps { 0 } else { device },
                class: CLASSES[0],
                law: law.to_bytes(),
                flags: LIMITER_BOTH,
                idle_ns: 1_000_000_000,
                rate: if times { 100_000_000 } else { 0 },
                horizon_ns: 10_000_000_000,
                share: 1_000_000,
                first: if times { 0 } else { CLASSES[1] },
                ..Limiter::default()
            };
            let key = LimiterKey { ifindex: self.port, direction };
            edge.set_limiter(&key, &limiter).unwrap();
            if limit != Limit::Lawless {
                edge.note_flows(&key).unwrap();
            }
        }
    }

    fn limiter(&self, direction: u32) -> Limiter {
        self.edge().limiter(&LimiterKey { ifindex: self.port, direction }).unwrap().unwrap()
    }

    /// Segments that have met the queue of what the attacker sends.
    fn waits(&self) -> u64 {
        let key = LimiterKey { ifindex: self.port, direction: LIMITER_OUT };
        self.edge().limiter_counts(&key).unwrap().delays.count()
    }

    fn count(&self, counter: Counter) -> u64 {
        self.edge().counters().unwrap().get(counter)
    }

    fn edge(&self) -> &KernelEdge {
        self.edge.as_ref().expect("only drop takes it")
    }

    fn run(&self, role: Role, frame: &[u8]) -> Option<(u32, Vec<u8>)> {
        let ifindex = if role == Role::Guest { self.port } else { self.uplink };
        let run = self.run_at(role, frame, Segment { ifindex, ..Segment::default() })?;
        Some((run.verdict, run.frame))
    }

    /// None where the kernel refuses such a frame before the program sees it.
    fn run_at(&self, role: Role, frame: &[u8], segment: Segment) -> Option<TestRun> {
        runnable(frame).then(|| self.edge().test_run_timed(role, frame, segment).unwrap())
    }

    fn run_limit(&self, role: Role, frame: &[u8], segment: Segment, stamp: u64) -> (TestRun, u64) {
        self.edge().test_run_limit(role, frame, segment, stamp).unwrap()
    }
}

fn runnable(frame: &[u8]) -> bool {
    let least = match frame.get(12..14) {
        Some([0x08, 0x00]) => 34,
        Some([0x86, 0xdd]) => 54,
        _ => 14,
    };
    (least..=3000).contains(&frame.len())
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
    /// Left without a tunnel.
    bare: usize,
    /// Reached guests without a tunnel.
    shown: usize,
    /// Went into the queue of their port.
    queued: usize,
    /// Came from there to the host.
    returned: usize,
    /// Went to the limited guest, from its own end or the host.
    turned: usize,
    /// Went to the cutter.
    cut: usize,
    /// Addresses that the agent was told of.
    learnt: usize,
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
        self.bare += more.bare;
        self.shown += more.shown;
        self.queued += more.queued;
        self.returned += more.returned;
        self.turned += more.turned;
        self.cut += more.cut;
        self.learnt += more.learnt;
    }
}

struct Round<'a> {
    shape: Shape,
    a: &'a Host,
    b: &'a Host,
    seen: Seen,
    /// Packets that A's guest has sent with the reserved bit.
    bits: u64,
    /// Addresses under which A's guest has spoken, and from which MAC address.
    said: BTreeSet<([u32; 4], [u8; 6])>,
}

impl Round<'_> {
    /// B got from the fabric what A's stack has forwarded, for the attacker.
    fn arrive_forwarded(&mut self, frame: &[u8]) {
        if !self.shape.plain {
            self.arrive(frame, true);
            return;
        }
        let Some(heard) = self.told_b(frame) else { return };
        let (shape, said) = (self.shape, source(&heard).map(same));
        // A guest of a port that is not strict may speak as anybody, and so also by way of the host. What a host has forwarded is no neighbour
        // discovery: its hop limit is not 255 (RFC 4861).
        assert!(!shape.strict || said.is_some_and(|said| GUESTS[0].has(said)), "{shape:?}: as {said:?}: {frame:02x?}");
    }

    /// Without a tunnel: B got from the fabric what the attacker sent. It is no feedback, unless A has put that there.
    fn told_b(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let counted = |host: &Host| {
            let counters = host.edge().counters().unwrap();
            [Counter::MarksConsumed, Counter::Feedback].map(|counter| counters.get(counter))
        };
        let before = counted(self.b);
        let heard = self.arrive_bare(1, frame);
        assert_eq!(before, counted(self.b), "{:?}: feedback of the attacker's: {frame:02x?}", self.shape);
        heard
    }

    /// Without a tunnel: host A or B, 0 or 1, got it from the fabric. Returns what its guest gets.
    fn arrive_bare(&mut self, host: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let (at, shape) = ([self.a, self.b][host], self.shape);
        let (verdict, out) = at.run(Role::Uplink, frame)?;
        if verdict != REDIRECT {
            assert!(verdict == SHOT || out == frame, "{shape:?}: {frame:02x?} became {out:02x?} for the host");
            return None;
        }
        self.seen.shown += 1;
        let [said, to] = [source(&out), destination(&out)].map(|addr| addr.map(same).unwrap());
        let one = |guest: &&Guest| guest.network == GUESTS[0].network;
        let from = GUESTS.iter().filter(one).find(|guest| guest.host != host && guest.has(said));
        assert!(from.is_some(), "{shape:?}: host {host} took from {said}: {frame:02x?}");
        let to = GUESTS.iter().filter(one).find(|guest| guest.host == host && guest.has(to));
        assert!(to.is_some_and(|to| out.starts_with(&to.mac())), "{shape:?}: {frame:02x?} became {out:02x?}");
        assert!(!has_bit(&out), "{shape:?}: a guest sees the bit: {out:02x?}");
        assert_ne!(protocol(&out), Some(FEEDBACK), "{shape:?}: a guest sees feedback: {out:02x?}");
        assert!(!shape.shares || ecn_of(&out) != wire::ecn::CE, "{shape:?}: a guest sees a mark: {frame:02x?}");
        Some(out)
    }

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

    /// What A's agent is told of its guest's addresses: only what that has claimed.
    fn read_learnt(&mut self) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        for event in self.a.edge().poll_events(Duration::ZERO).unwrap() {
            if event.kind != EVENT_GUEST {
                continue;
            }
            self.seen.learnt += 1;
            assert!(shape.learn, "{shape:?}: {event:?}");
            assert_eq!((event.ifindex, event.value), (self.a.port, shape.network(attacker)), "{shape:?}: {event:?}");
            assert!(self.said.contains(&(event.addr, event.mac)), "{shape:?}: it never said so: {event:?}");
            assert!(!shape.strict || event.mac == attacker.mac(), "{shape:?}: {event:?}");
        }
        let counters = self.a.edge().counters().unwrap();
        let (sent, counted) = (counters.get(Counter::FeedbackSent), counters.get(Counter::MarksCounted));
        if shape.plain {
            assert!(self.bits == sent && sent <= counted, "{shape:?}: {} bits, {sent} of {counted}", self.bits);
        }
    }

    /// What B's agent is told of dropped packets: by a peer of version 2, between its guest and one of B's in one network.
    fn read_events(&mut self) {
        self.read_learnt();
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

    /// What the attacker's port does with a frame: queue, guest program, cutter, and once more the port, for what is the host's.
    fn enter(&mut self, tenant: &mut Tenant, frame: &[u8]) -> Option<TestRun> {
        if !runnable(frame) {
            return None;
        }
        let (a, shape) = (self.a, self.shape);
        let gso_size = if tenant.below(6) == 0 { 1 + tenant.below(200) as u16 } else { 0 };
        let gso_segs = if gso_size == 0 { 0 } else { frame.len() as u32 / u32::from(gso_size) + 1 };
        let mut segment = Segment { ifindex: a.port, gso_size, gso_segs, mark: 0 };
        let mut frame = frame.to_vec();
        if shape.limit != Limit::None {
            let queued = self.queue(tenant, &frame, segment)?;
            if queued.verdict == REDIRECT {
                segment = Segment { ifindex: a.queue, mark: queued.mark, ..segment };
            }
            frame = queued.frame;
        }
        let was_queued = segment.ifindex == a.queue;
        let cuts = shape.cutter;
        let before = if cuts { a.count(Counter::Cut) } else { 0 };
        let mut run = a.run_at(Role::Guest, &frame, segment)?;
        if cuts && a.count(Counter::Cut) != before {
            self.seen.cut += 1;
            assert_eq!((run.verdict, run.mark), (REDIRECT, a.port), "{shape:?}: {frame:02x?}");
            // Room for headers cannot be made behind the stages of virtual congestion control, which have written.
            let untouched = run.frame == frame || shape.congestion && run.frame[..14] == frame[..14];
            assert!(untouched, "{shape:?}: {frame:02x?} became {:02x?} before the cutter", run.frame);
            assert_eq!([source, destination].map(|of| of(&run.frame)), [source, destination].map(|of| of(&frame)));
            frame = run.frame;
            // The kernel would cut it, or drop what it does not know. It comes out whole here.
            run = a.run_at(Role::Guest, &frame, Segment { ifindex: a.cutter, mark: run.mark, ..Segment::default() })?;
            assert_eq!(a.count(Counter::Cut), before + 1, "{shape:?}: cut twice: {frame:02x?}");
        } else if !was_queued {
            assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        if run.verdict != REDIRECT || run.mark == 0 {
            assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        // To the host: it enters the port as the guest's own did, and does not wait again.
        self.seen.returned += 1;
        assert_eq!((run.mark, &run.frame), (a.port, &frame), "{shape:?}: {frame:02x?}");
        let segment = Segment { ifindex: a.port, mark: run.mark, ..Segment::default() };
        if shape.limit != Limit::None {
            self.passes(&frame, segment, tenant.below(2) as u64 * 7);
            run = a.run_at(Role::Guest, &frame, segment)?;
            assert_eq!((run.verdict, run.mark, &run.frame), (NEXT, 0, &frame), "{shape:?}: {frame:02x?}");
        }
        Some(run)
    }

    /// The attacker's frame meets its limit, once. None: it is dropped.
    fn queue(&mut self, tenant: &mut Tenant, frame: &[u8], segment: Segment) -> Option<TestRun> {
        let (a, shape) = (self.a, self.shape);
        let paced = matches!(shape.limit, Limit::Times | Limit::Stamps);
        let stamp = [0, 0, 7, u64::MAX / 2][tenant.below(4)];
        let before = a.limiter(LIMITER_OUT);
        let (run, departs) = a.run_limit(Role::LimitGuest, frame, segment, stamp);
        let after = a.limiter(LIMITER_OUT);
        self.seen.queued += 1;
        if run.verdict == SHOT {
            self.seen.dropped += 1;
            assert_eq!(after.dropped, before.dropped + 1, "{shape:?}: {frame:02x?}");
            return None;
        }
        assert!(differ_by_laws_only(frame, &run.frame), "{shape:?}: {frame:02x?} became {:02x?}", run.frame);
        let (sent, len) = (after.sent - before.sent, frame.len() as u64);
        if paced {
            assert!(sent == len || segment.gso_size != 0 && sent >= len, "{shape:?}: {sent} of {frame:02x?}");
            let is_ip = matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd]);
            assert!(!is_ip || departs != stamp && departs <= after.next_ns, "{shape:?}: departs at {departs}");
        }
        if shape.limit == Limit::Stamps {
            assert_eq!((run.verdict, run.mark), (NEXT, 0), "{shape:?}: {frame:02x?}");
            return Some(run);
        }
        assert_eq!((run.verdict, run.mark), (REDIRECT, a.port), "{shape:?}: {frame:02x?} passed no queue");
        let classes = if paced { &[0][..] } else { &CLASSES[..] };
        let class = if paced && run.priority == CLASSES[0] { 0 } else { run.priority };
        assert!(classes.contains(&class), "{shape:?}: class {:x}: {frame:02x?}", run.priority);
        // Of a port without a network, it comes back with a time stamp. Out of the queue without mark and number nothing goes on.
        if tenant.below(16) == 0 {
            self.passes(&run.frame, Segment { mark: 0, ..segment }, RETURNED + tenant.below(2) as u64);
            let nobody = Segment { ifindex: a.queue, mark: 0, ..segment };
            let dropped = a.run_at(Role::Guest, &run.frame, nobody)?;
            assert_eq!(dropped.verdict, SHOT, "{shape:?}: {frame:02x?}");
        }
        Some(run)
    }

    /// At the port, what has met its limit goes on as it is.
    fn passes(&self, frame: &[u8], segment: Segment, stamp: u64) {
        let (a, shape) = (self.a, self.shape);
        let (before, waits) = (a.limiter(LIMITER_OUT), a.waits());
        let (run, left) = a.run_limit(Role::LimitGuest, frame, segment, stamp);
        let is = (run.verdict, run.mark, &run.frame[..], left);
        let stamp = if stamp >= RETURNED { 0 } else { stamp };
        assert_eq!(is, (NEXT, segment.mark, frame, stamp), "{shape:?}: it met its limit twice");
        assert_eq!((a.limiter(LIMITER_OUT), a.waits()), (before, waits), "{shape:?}: it counts twice: {frame:02x?}");
    }

    /// The attacker gets it: through its limit, too.
    fn get(&mut self, tenant: &mut Tenant, frame: &[u8]) {
        let (a, shape) = (self.a, self.shape);
        if matches!(shape.limit, Limit::None | Limit::Lawless) || !runnable(frame) {
            return;
        }
        let turns = tenant.below(2) == 0;
        let (role, stamp) = if turns { (Role::LimitGuest, TURNED) } else { (Role::LimitPort, 0) };
        let segment = Segment { ifindex: a.port, ..Segment::default() };
        let (waits, before) = (a.waits(), [LIMITER_OUT, LIMITER_IN].map(|direction| a.limiter(direction)));
        let (run, stamp) = a.run_limit(role, frame, segment, stamp);
        let after = [LIMITER_OUT, LIMITER_IN].map(|direction| a.limiter(direction));
        assert!(differ_by_laws_only(frame, &run.frame), "{shape:?}: {frame:02x?} became {:02x?}", run.frame);
        self.seen.turned += 1;
        let [out, incoming] = [0, 1].map(|i| after[i].sent - before[i].sent);
        assert_eq!((out, a.waits()), (0, waits), "{shape:?}: it met the other limit: {frame:02x?}");
        let paced = before[1].rate != 0;
        assert_eq!(incoming, if paced { frame.len() as u64 } else { 0 }, "{shape:?}: {frame:02x?}");
        assert_eq!(run.mark, 0, "{shape:?}: {frame:02x?}");
        if turns {
            assert_eq!((run.verdict, stamp), (REDIRECT, THROUGH), "{shape:?}: {frame:02x?}");
        } else {
            assert_eq!(run.verdict, NEXT, "{shape:?}: {frame:02x?}");
        }
    }

    /// The attacker sends it. True if A's stack gets it.
    fn send(&mut self, tenant: &mut Tenant, frame: &[u8]) -> bool {
        self.note_claims(frame);
        let Some(run) = self.enter(tenant, frame) else { return false };
        self.seen.sent += 1;
        let shape = self.shape;
        match run.verdict {
            SHOT => self.seen.dropped += 1,
            REDIRECT if shape.plain => self.leave_bare(tenant, frame, &run.frame),
            REDIRECT if run.frame[..12] == [0; 12] => self.leave_in_tunnel(tenant, frame, &run.frame),
            REDIRECT => self.stay(tenant, frame, &run.frame),
            _ => {
                self.seen.passed += 1;
                assert!(!shape.isolated, "{shape:?}: {frame:02x?}");
                if shape.strict {
                    self.check_passed(frame);
                }
                for frame in forwarded(frame) {
                    self.arrive_forwarded(&frame);
                }
                return true;
            }
        }
        false
    }

    /// All addresses at which the frame claims its sender to be, wherever they stand.
    fn note_claims(&mut self, frame: &[u8]) {
        if !self.shape.learn || frame.len() < 14 {
            return;
        }
        let mac: [u8; 6] = frame[6..12].try_into().unwrap();
        let arp = (frame[12..14] == [0x08, 0x06]).then(|| frame.get(28..32)).flatten();
        let arp = arp.map(|a| IpAddr::V4(Ipv4Addr::new(a[0], a[1], a[2], a[3])));
        let advertised = discovery(frame).map(|(_, target)| target.into());
        self.said.extend([source(frame), arp, advertised].into_iter().flatten().map(|addr| (words(addr), mac)));
    }

    fn leave_in_tunnel(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        self.seen.tunnelled += 1;
        let tunnel = encap::read_outer(out, UDP_PORT).unwrap_or_else(|| panic!("{out:02x?}"));
        assert_eq!(tunnel.encap.vni, attacker.network, "{shape:?}: {frame:02x?}");
        assert_eq!(address(tunnel.saddr), same(outer(0, shape.six)));
        assert!(tunnel.encap.version <= shape.version, "{shape:?}: {out:02x?}");
        self.seen.version_2 += usize::from(tunnel.encap.version == VERSION_2);
        self.check_heard(&out[tunnel.add_len.into()..]);
        if let Some(heard) = self.arrive(out, false) {
            self.check_heard(&heard);
        }
        // The same from C: what B believes it must be C's guest's.
        let mut other = out.to_vec();
        let (at, len) = if shape.six { (22, 16) } else { (26, 4) };
        let addr = if shape.six { host6(2).octets().to_vec() } else { host4(2).octets().to_vec() };
        other[at..at + len].copy_from_slice(&addr);
        if tenant.below(4) == 0 {
            self.arrive(&other, false);
        }
    }

    /// Without a tunnel, to a peer's guest, or it stays here.
    fn leave_bare(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        let asks = frame[12..14] == [0x08, 0x06] || matches!(discovery(frame), Some((135, _)));
        let answered = asks && out[..6] == frame[6..12] && out != frame;
        let to = destination(out).map(same);
        let away =
            |guest: &Guest| guest.network == attacker.network && guest.host != 0 && to.is_some_and(|to| guest.has(to));
        if answered || !GUESTS.iter().any(away) {
            self.stay(tenant, frame, out);
            return;
        }
        self.seen.bare += 1;
        assert_eq!(out.len(), frame.len(), "{shape:?}: {frame:02x?} became {out:02x?}");
        assert_ne!(protocol(out), Some(FEEDBACK), "{shape:?}: feedback of the guest's: {out:02x?}");
        assert!(shape.shares || !has_bit(out), "{shape:?}: {frame:02x?} became {out:02x?}");
        self.bits += u64::from(has_bit(out));
        self.check_heard(out);
        let heard = if has_bit(out) { self.arrive_bare(1, out) } else { self.told_b(out) };
        if let Some(heard) = heard {
            self.check_heard(&heard);
        }
    }

    /// Back to the guest itself, an answer; or to another of its network.
    fn stay(&mut self, tenant: &mut Tenant, frame: &[u8], out: &[u8]) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        self.seen.local += 1;
        let to = GUESTS.iter().find(|guest| guest.host == 0 && out.starts_with(&guest.mac()));
        let answered = out[..6] == frame[6..12];
        let fits = answered || to.is_some_and(|to| to.network == attacker.network);
        assert!(fits, "{shape:?}: {frame:02x?} became {out:02x?}");
        if answered {
            self.get(tenant, out);
        } else {
            self.check_heard(out);
        }
    }

    /// What hosts send that are peers, or impostors: to B, and without a tunnel to A, too.
    fn arrive_from_hosts(&mut self, tenant: &mut Tenant, i: usize) {
        self.seen.from_hosts += 1;
        if !self.shape.plain {
            let frame = if i % 8 == 7 { tenant.tunnelled() } else { tenant.told() };
            self.arrive(&frame, false);
            return;
        }
        let (frame, host) = (tenant.bare(), tenant.below(2));
        let shown = self.arrive_bare(host, &frame);
        if let Some(shown) = shown.filter(|shown| host == 0 && shown.starts_with(&GUESTS[0].mac())) {
            self.get(tenant, &shown);
        }
    }

    /// Where everything was dropped, nothing was tried. `each`: frames of the round.
    fn check_tried(&self, each: usize) {
        let (shape, seen) = (self.shape, &self.seen);
        let least = |n: usize, parts: usize, what: &str| assert!(n > each / parts, "{shape:?}: {what}: {seen:?}");
        least(seen.local, 500, "local");
        assert!(seen.passed > each / 166 || shape.isolated, "{shape:?}: {seen:?}");
        if shape.plain {
            least(seen.bare, 125, "left");
            least(seen.shown, 125, "shown");
            assert_eq!(self.bits > 0, shape.shares, "{shape:?}: {seen:?}");
        } else {
            least(seen.tunnelled, 125, "tunnelled");
            least(seen.delivered, 250, "delivered");
            for (counter, parts) in [(Counter::DropForged, 500), (Counter::DropLengths, 2500)] {
                least(self.b.count(counter) as usize, parts, counter.name());
            }
            assert_eq!(seen.version_2 > each / 500, shape.version == VERSION_2, "{shape:?}: {seen:?}");
            assert_eq!(seen.cut > 0, shape.cutter, "{shape:?}: {seen:?}");
        }
        assert_eq!(seen.queued > each / 2, shape.limit != Limit::None, "{shape:?}: {seen:?}");
        if !matches!(shape.limit, Limit::None | Limit::Stamps) && !shape.isolated {
            least(seen.returned, 166, "returned");
        }
        if !matches!(shape.limit, Limit::None | Limit::Lawless) {
            assert!(seen.turned > 0, "{shape:?}: {seen:?}");
            assert_eq!(self.a.waits(), seen.queued as u64, "{shape:?}: each waits once: {seen:?}");
        }
        assert_eq!(seen.learnt > 0, shape.learn, "{shape:?}: {seen:?}");
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
    let frames = std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS * SHORT);
    let each = (frames / ROUNDS).clamp(SHORT, ROUND);
    let fabric = Fabric::new("cx");
    for command in [
        "ip link add queue type veth peer name cutter",
        "ip link set cutter up",
        "ip link set queue up",
        "tc qdisc add dev queue root handle 5e1f: htb default 1",
        "tc class add dev queue parent 5e1f: classid 5e1f:1 htb rate 1gbit",
        "tc class add dev queue parent 5e1f: classid 5e1f:2 htb rate 1gbit",
    ] {
        fabric.exec_ok(&fabric.host(0), command);
    }
    let mut tenant = Tenant::new(13, addresses());
    let mut bare =
        Tenant::new(17, Addresses { hosts4: addresses().guests4, hosts6: addresses().guests6, ..addresses() });
    let (mut total, mut consumed) = (Seen::default(), 0);
    in_namespace(&fabric.host(0), || {
        for number in 0..frames.div_ceil(each) {
            let shape = Shape::of(number);
            let [a, b] = [0, 1].map(|me| Host::new(&fabric, me, shape));
            if shape.version == VERSION_2 && !shape.plain {
                a.hear_version_2(shape);
            }
            let tenant = if shape.plain { &mut bare } else { &mut tenant };
            let mut round = Round { shape, a: &a, b: &b, seen: Seen::default(), bits: 0, said: BTreeSet::new() };
            for i in 0..each {
                if i % READ == 0 {
                    round.read_events();
                }
                if i % 8 == 7 || i % 16 == 3 {
                    round.arrive_from_hosts(tenant, i);
                    continue;
                }
                let built = tenant.send();
                // Every part must pass, or nobody can put them together.
                let passed = built.frames.iter().filter(|frame| round.send(tenant, frame)).count();
                if let Some(whole) = built.whole.filter(|_| passed == built.frames.len()) {
                    round.arrive_forwarded(&whole);
                }
            }
            round.read_events();
            round.check_tried(each);
            consumed += b.count(Counter::MarksConsumed);
            println!("{shape:?}: {:?}", round.seen);
            total += round.seen;
        }
    });
    assert!(total.told > 0 && consumed > 0, "{total:?}: {consumed} counts of marks");
    println!("{total:?}, {consumed} counts of marks consumed");
}
