//! The host of the packet scripts in the kernel: the loaded edge with the ports, peers and routes of `conformance`.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::fabric::{self, in_namespace, Fabric};
use conformance::{Case, Config, Guest, Outcome, Verdict, EDGE_MAC, GUEST, LABELS, NEIGHBOUR, PEERS, PORT, VNI};
use edge::Direction;
use kernel::state::{
    self, address, Counter, Counters, FlowSlot, FlowSlotKey, Peer, Port, Route, Tenants, Tunnel, CONFIG_ANY_PEER,
    CONFIG_CONGESTION, PORT_ISOLATED, PORT_STRICT, ROUTE_LOCAL, ROUTE_PEER,
};
use kernel::{KernelEdge, Options, Role, Segment};
use std::net::IpAddr;
use std::path::PathBuf;
use units::Time;
use wire::FlowKey;

pub(crate) struct World {
    pub(crate) fabric: Fabric,
    edge: Option<KernelEdge>,
    /// Interfaces of the guest whose frames are run, and towards the fabric.
    pub(crate) port: u32,
    pub(crate) uplink: u32,
    /// Last, for the edge removes its pins itself.
    _pins: Pins,
}

/// A directory of pins that goes with its owner, also where the programs cannot be loaded.
struct Pins(PathBuf);

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn local_address(family: u8) -> IpAddr {
    if family == 4 { "192.168.99.1" } else { "fd99::1" }.parse().unwrap()
}

pub(crate) fn kernel_config(config: &Config) -> state::Config {
    state::Config {
        balance: config.balance.conf(config.tcp_only),
        seed: config.seed,
        udp_port: PORT,
        flags: if config.any_peer { CONFIG_ANY_PEER } else { 0 }
            | if config.congestion.is_some() { CONFIG_CONGESTION } else { 0 },
        mac: if config.answers { EDGE_MAC } else { [0; 6] },
        ..state::Config::default()
    }
}

impl World {
    /// `None`, with the reason printed, where it cannot be.
    pub(crate) fn new(name: &str, config: &Config) -> Option<World> {
        World::open(name, config, false)
    }

    /// The same with a clock that stands where [`World::set_time`] puts it, at first at zero.
    pub(crate) fn with_clock(name: &str, config: &Config) -> Option<World> {
        World::open(name, config, true)
    }

    fn open(name: &str, config: &Config, test_clock: bool) -> Option<World> {
        if let Some(why) = fabric::unavailable() {
            eprintln!("skipped: {why}");
            return None;
        }
        let fabric = Fabric::new(name);
        let host = fabric.host(0);
        let pins = Pins(PathBuf::from(format!("/sys/fs/bpf/{host}w")));
        std::fs::create_dir(&pins.0).unwrap();
        let (edge, port, uplink) = in_namespace(&host, || {
            let edge = KernelEdge::open(&Options {
                pins: pins.0.clone(),
                max_flows: config.max_flows as u32,
                test_clock,
                ..Options::default()
            })
            .unwrap();
            let index = |name| kernel::ifindex(name).unwrap();
            (edge, index("g"), index("u0"))
        });
        if let Some(congestion) = config.congestion {
            edge.set_congestion(&congestion.config()).unwrap();
        }
        edge.set_config(&kernel_config(config)).unwrap();
        let beside = 1; // the loopback device stands for the neighbour's port
        let flags = [(config.strict, PORT_STRICT), (config.isolated, PORT_ISOLATED)];
        let flags = flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
        let own = Port { vni: VNI, flags, mtu: config.mtu, ..Port::default() };
        let own = match config.share {
            Some(share) => {
                let conf = share.config().conf();
                edge.set_tenants(&Tenants { conf, backlog: 0, numbers: 1, pad: 0 }).unwrap();
                own.with_share(1, 1)
            }
            None => own,
        };
        edge.set_port(port, &own).unwrap();
        edge.set_port(beside, &Port { vni: VNI, mac: NEIGHBOUR.mac, mtu: config.neighbour_mtu, ..Port::default() })
            .unwrap();
        let route = |guest: &Guest, route: Route| {
            for words in [guest.v4, guest.v6] {
                edge.set_route(VNI, address(words), 128, &route).unwrap();
            }
        };
        route(&GUEST, Route { kind: ROUTE_LOCAL, target: port, ..Route::default() });
        route(&NEIGHBOUR, Route { kind: ROUTE_LOCAL, target: beside, ..Route::default() });
        // A network whose route leads to a port of another: nothing may get through.
        let wrong = Route { kind: ROUTE_LOCAL, target: port, ..Route::default() };
        edge.set_route(8, address(GUEST.v4), 128, &wrong).unwrap();
        for (id, peer) in (1..).zip(&PEERS) {
            let tunnel = Tunnel::new(local_address(peer.family), address(peer.address), PORT, peer.version).unwrap();
            edge.set_peer(id, &Peer::new(tunnel, uplink).with_labels(&LABELS)).unwrap();
            route(&peer.guest, Route { kind: ROUTE_PEER, target: id, mac: peer.guest.mac, ..Route::default() });
        }
        if config.balance.keeps().is_some() {
            let schedule = Peer::default().with_labels(&LABELS).schedule;
            edge.keep_paths(&(1..).zip(&PEERS).map(|(id, _)| (id, schedule)).collect()).unwrap();
        }
        Some(World { fabric, edge: Some(edge), port, uplink, _pins: pins })
    }

    pub(crate) fn edge(&self) -> &KernelEdge {
        self.edge.as_ref().expect("only drop takes it")
    }

    /// Verdict and frame, by BPF_PROG_TEST_RUN. Call it in the namespace of host 0.
    pub(crate) fn run(&self, direction: Direction, frame: &[u8]) -> (u32, Vec<u8>) {
        let (role, ifindex) = match direction {
            Direction::Egress => (Role::Guest, self.port),
            Direction::Ingress => (Role::Uplink, self.uplink),
        };
        self.edge().test_run_segment(role, frame, Segment { ifindex, ..Segment::default() }).unwrap()
    }

    /// Real traffic goes through the edge from now on.
    pub(crate) fn attach(&self) {
        in_namespace(&self.fabric.host(0), || {
            self.edge().attach(self.port, Role::Guest).unwrap();
            self.edge().attach(self.uplink, Role::Uplink).unwrap();
        });
    }

    pub(crate) fn flow(&self, key: FlowKey) -> Option<FlowSlot> {
        self.edge().flow(&FlowSlotKey { key, vni: VNI }).unwrap()
    }

    /// Whole microseconds.
    pub(crate) fn set_time(&self, now: Time) {
        let test_now_us = (now.as_ns() / 1000) as u32;
        let config = self.edge().config().unwrap();
        if config.test_now_us != test_now_us {
            self.edge().set_config(&state::Config { test_now_us, ..config }).unwrap();
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.edge().counters().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(edge) = self.edge.take() {
            let _ = edge.destroy();
        }
    }
}

/// Does BPF_PROG_TEST_RUN take it? It wants an Ethernet header, and the first header of IPv4 or IPv6 whole.
pub(crate) fn runnable(frame: &[u8]) -> bool {
    let shortest = match frame.get(12..14) {
        Some([0x08, 0x00]) => 14 + 20,
        Some([0x86, 0xdd]) => 14 + 40,
        _ => 14,
    };
    frame.len() >= shortest
}

/// What differs between the kernel's outcome and the native one, if anything.
pub(crate) fn difference(native: &Outcome, action: u32, frame: &[u8]) -> Option<String> {
    if native.verdict == Verdict::Oversize && action == Verdict::Answer.action() {
        return not_an_answer(frame);
    }
    if action != native.verdict.action() {
        return Some(format!("kernel: action {action}; frames: {:?} {:?}", native.verdict, native.why));
    }
    let dropped = native.frame.is_empty();
    (!dropped && frame != native.frame).then(|| format!("kernel: {}\n    frames: {}", hex(frame), hex(&native.frame)))
}

/// To an oversize packet: ICMP that quotes 128 bytes of it.
fn not_an_answer(frame: &[u8]) -> Option<String> {
    let right = match frame.get(14).map(|byte| byte >> 4) {
        Some(4) => frame.len() == 14 + 28 + 128 && frame[23] == 1 && frame[34..36] == [3, 4],
        Some(6) => frame.len() == 14 + 48 + 128 && frame[20] == 58 && frame[54..56] == [2, 0],
        _ => false,
    };
    (!right).then(|| format!("kernel: no answer to an oversize packet: {}", hex(frame)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first counter on which the two disagree. `flows`: whether flows are to be counted alike.
pub(crate) fn counters_differ(
    native: &std::collections::BTreeMap<&'static str, u64>,
    kernel: &Counters,
    flows: bool,
) -> Option<String> {
    let only_flows = [Counter::FlowsBegun, Counter::Flowcells, Counter::InLate, Counter::FlowTableFull];
    // How often oversize packets are answered is a matter of time.
    let counted = Counter::ALL.iter().filter(|counter| **counter != Counter::OversizeAnswered);
    let mut counted = counted.copied().filter(|counter| flows || !only_flows.contains(counter));
    counted.find_map(|counter| {
        let (ours, theirs) = (native.get(counter.name()).copied().unwrap_or(0), kernel.get(counter));
        (ours != theirs).then(|| format!("{}: kernel {theirs}, frames {ours}", counter.name()))
    })
}

pub(crate) fn place(name: &str, case: &Case) -> String {
    format!("{name}:{}: {} ({} bytes)", case.line, case.text, case.frame.len())
}
