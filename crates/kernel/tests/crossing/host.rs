//! A host's edge, whose programs run by BPF_PROG_TEST_RUN.

use super::fabric::Fabric;
use super::guests::{outer, GUESTS};
use super::shape::{Limit, Shape};
use super::{REDIRECT, UDP_PORT};
use edge::limiter::{Law, Spring};
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_BOTH, LIMITER_IN, LIMITER_OUT};
use kernel::state::{
    words, Config, Counter, Peer, Port, Route, Tenants, Tunnel, CONFIG_CONGESTION, PORT_CUTTER, PORT_ISOLATED,
    PORT_LEARN, PORT_LIMITED, PORT_LIMITER, PORT_OWN_MAC, PORT_STRICT, ROUTE_LOCAL, ROUTE_PEER, VERSION_1,
};
use kernel::{emit, KernelEdge, Options, Role, Segment, TestRun};
use std::net::IpAddr;
use std::path::PathBuf;
use units::{BitRate, Bytes, Time};
use wire::encap::Encap;
use wire::{proto, Packet, TcpOptions};

/// Of the limiter's HTB: the port's class, and that of what goes first.
pub(super) const CLASSES: [u32; 2] = [0x5e1f_0001, 0x5e1f_0002];

/// Of the first port whose number is nobody's.
pub(super) const PORTS: u32 = 1000;

pub(super) const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// Opens and removes an edge with its pins.
pub(super) struct Host {
    pub(super) edge: Option<KernelEdge>,
    pub(super) pins: PathBuf,
    pub(super) port: u32,
    pub(super) uplink: u32,
    /// Where what is limited waits, and comes out; and where what was cut comes out.
    pub(super) queue: u32,
    pub(super) cutter: u32,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.edge.take().map(KernelEdge::destroy);
        let _ = std::fs::remove_dir_all(&self.pins);
    }
}

impl Host {
    /// Host `me`, in the namespace that the thread is in. Only the attacker's port need exist.
    pub(super) fn new(fabric: &Fabric, me: usize, shape: Shape) -> Host {
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
    pub(super) fn hear_version_2(&self, shape: Shape) {
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
    pub(super) fn limit(&self, edge: &mut KernelEdge, limit: Limit) {
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

    pub(super) fn limiter(&self, direction: u32) -> Limiter {
        self.edge().limiter(&LimiterKey { ifindex: self.port, direction }).unwrap().unwrap()
    }

    /// Segments that have met the queue of what the attacker sends.
    pub(super) fn waits(&self) -> u64 {
        let key = LimiterKey { ifindex: self.port, direction: LIMITER_OUT };
        self.edge().limiter_counts(&key).unwrap().delays.count()
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.edge().counters().unwrap().get(counter)
    }

    pub(super) fn edge(&self) -> &KernelEdge {
        self.edge.as_ref().expect("only drop takes it")
    }

    pub(super) fn run(&self, role: Role, frame: &[u8]) -> Option<(u32, Vec<u8>)> {
        let ifindex = if role == Role::Guest { self.port } else { self.uplink };
        let run = self.run_at(role, frame, Segment { ifindex, ..Segment::default() })?;
        Some((run.verdict, run.frame))
    }

    /// None where the kernel refuses such a frame before the program sees it.
    pub(super) fn run_at(&self, role: Role, frame: &[u8], segment: Segment) -> Option<TestRun> {
        runnable(frame).then(|| self.edge().test_run_timed(role, frame, segment).unwrap())
    }

    pub(super) fn run_limit(&self, role: Role, frame: &[u8], segment: Segment, stamp: u64) -> (TestRun, u64) {
        self.edge().test_run_limit(role, frame, segment, stamp).unwrap()
    }
}

pub(super) fn runnable(frame: &[u8]) -> bool {
    let least = match frame.get(12..14) {
        Some([0x08, 0x00]) => 34,
        Some([0x86, 0xdd]) => 54,
        _ => 14,
    };
    (least..=3000).contains(&frame.len())
}
