//! [`Experiment`]: all inputs of a run.

use crate::mptcp;
use crate::tcp;
use crate::workload::{HostMap, Workload};
use edge::hidden::Peers;
use edge::{limiter, shape};
use fabric::{Multipath, RandomLoss, SwitchConfig};
use std::sync::Arc;
use topology::{LinkId, Topology};
use units::{BitRate, Bytes, Time};

/// One scheme on one fabric under one workload with one seed.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub topology: Topology,
    pub switches: SwitchConfig,
    pub multipath: Multipath,
    pub loss: RandomLoss,
    pub failures: Vec<Failure>,
    /// How long after a failure or a recovery the switches' tables change.
    pub reroute_after: Time,
    pub hosts: HostConfig,
    pub edge: EdgeConfig,
    /// Racks as the workloads understand them: a non-blocking switch keeps those of the fabric that it is compared with.
    pub racks: HostMap,
    pub workloads: Vec<Workload>,
    /// No flow starts after this, and nothing that happens later counts in rates; the run ends after the drain.
    pub duration: Time,
    /// Extra time after `duration` in which started flows of bounded size may finish.
    pub drain: Time,
    /// Rates, queues and RTTs are measured from here until `duration`.
    pub warmup: Time,
    pub seed: u64,
    pub record: Record,
}

/// A link that fails or recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub at: Time,
    pub link: LinkId,
    pub up: bool,
}

/// The modelled host: NIC, CPU and guest TCP.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// IP packet size on the wire, headers included; the Ethernet overhead of 38 octets (preamble, header, FCS, gap) comes on
    /// top.
    pub mtu: u16,
    pub tso: bool,
    pub gro: Gro,
    /// Interrupt coalescing: the first packet's poll waits this long.
    pub rx_coalesce: Time,
    /// The poll also starts once this many packets wait.
    pub rx_coalesce_frames: u32,
    /// Packets handled in one poll (the NAPI budget).
    pub rx_budget: u32,
    /// Receive ring in packets; more are dropped (only a slow CPU fills it).
    pub rx_ring: u32,
    pub cpu: Option<CpuModel>,
    /// Handles received packets before anything else does.
    pub server: Option<ServerModel>,
    pub tcp: tcp::Config,
    /// Guests speak MPTCP; `None`: TCP.
    pub mptcp: Option<mptcp::Config>,
    /// Hosts without an edge, such as remote users: their packets, and packets to them, have no labels.
    pub plain: Vec<u32>,
}

/// A host that handles several received packets at a time, in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerModel {
    /// Packets at a time, at least 1.
    pub parallel: u32,
    /// Time that each takes.
    pub service: Time,
    /// Notifications of dropped packets are handled like others; otherwise they take no time.
    pub notifications: bool,
}

/// What the receive path merges before TCP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gro {
    Off,
    /// Linux: one segment per flow and poll, evicted on mismatch.
    Stock,
}

/// Time that one core spends, in nanoseconds; see docs/model.md for the calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuModel {
    pub tx_per_packet_ns: f64,
    pub tx_per_segment_ns: f64,
    pub tx_per_byte_ns: f64,
    pub rx_per_packet_ns: f64,
    pub rx_per_segment_ns: f64,
    pub rx_per_byte_ns: f64,
    /// Extra for a segment that reaches TCP out of order: queueing it and the duplicate ACK it causes.
    pub rx_out_of_order_ns: f64,
}

/// The software edge of every host.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeConfig {
    pub balance: edge::Balance,
    pub reorder: Option<edge::reorder::Config>,
    /// AC/DC's congestion control of guests.
    pub congestion: Option<edge::vcc::Config>,
    /// HyGenICC's fair shares among guests.
    pub tenants: Option<Tenants>,
    /// What switches tell of drops has packets sent again, for guests that know nothing of it.
    pub fastlane: Option<edge::fastlane::Config>,
    /// What the guests of some hosts are held to, between edge and NIC.
    pub limiter: Option<Limiter>,
    /// Gives edges their schedules; `None`: all trees in equal shares, also after failures.
    pub controller: Option<Controller>,
    /// Edges find their labels by probes, and switches hash them; `None`: labels name spanning trees, and edges know them. Not with a
    /// controller.
    pub discovery: Option<discovery::Config>,
    /// The hidden overlay: edges put the guests' five-tuple into a TCP option in place of a tunnel's header. Labels are source ports then,
    /// which switches hash. Not with congestion control, tenants, FastLane or a controller.
    pub hidden: bool,
    /// Servers of workload n listen on [`SERVER_PORT`] + n instead of [`SERVER_PORT`], so that rules of congestion control
    /// can tell workloads apart. Changes what switches hash.
    pub ports_by_workload: bool,
}

impl Default for EdgeConfig {
    /// An edge that does nothing.
    fn default() -> EdgeConfig {
        EdgeConfig {
            balance: edge::Balance::ecmp(),
            reorder: None,
            congestion: None,
            tenants: None,
            fastlane: None,
            limiter: None,
            controller: None,
            discovery: None,
            hidden: false,
            ports_by_workload: false,
        }
    }
}

/// Fair shares of each host's uplink among its guests.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// Of all edges; uplink and guests are each host's own.
    pub config: edge::hygenicc::Config,
    /// Of the guests of each host, by [`Workload::guest`].
    pub weights: Vec<u16>,
}

impl Tenants {
    /// For the edge of `host`, which has an uplink of that rate.
    pub fn of(&self, host: u32, uplink: BitRate) -> edge::hygenicc::Config {
        let guest = |(n, &weight): (usize, &u16)| (guest_address(host, n as u8), weight);
        let guests = self.weights.iter().take(MAX_GUESTS).enumerate().map(guest).collect();
        edge::hygenicc::Config { uplink, guests, ..self.config.clone() }
    }
}

/// Guests of one host.
pub const MAX_GUESTS: usize = 255;

/// Under whose address hosts send RTT probes where guests have shares: nobody's, or the probes would take some of it.
const PROBER: u8 = MAX_GUESTS as u8;

/// A rate limiter (HTB) on each of some hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Limiter {
    /// The hosts that have it; `None`: all.
    pub hosts: Option<Vec<u32>>,
    /// Rate of all classes of a host together, from which they borrow; `None`: nothing is lent.
    pub total: Option<BitRate>,
    /// The first that matches counts; what matches none is not limited.
    pub classes: Vec<LimiterClass>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LimiterClass {
    /// What is sent to these; `None`: to anybody.
    pub to: Option<Vec<u32>>,
    pub class: shape::Class,
    /// What keeps its queue short.
    pub law: limiter::Law,
}

impl Limiter {
    /// The hierarchy of one host.
    pub fn shaper(&self) -> shape::Config {
        shape::Config { total: self.total, classes: self.classes.iter().map(|c| c.class).collect() }
    }

    /// What Linux counts of a segment: its packets as Ethernet frames, without preamble, FCS and gap.
    pub fn bytes(headers: &wire::Packet) -> u64 {
        const ETHERNET_HEADER: u64 = 14;
        let packet = ETHERNET_HEADER + u64::from(headers.ip_header_len) + u64::from(headers.l4_header_len);
        u64::from(headers.packet_count()) * packet + u64::from(headers.payload)
    }

    pub fn has(&self, host: u32) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
    }

    /// The class of segments from a host with the limiter to another.
    pub fn class_of(&self, to: u32) -> Option<usize> {
        self.classes.iter().position(|class| class.to.as_ref().is_none_or(|hosts| hosts.contains(&to)))
    }
}

/// Computes weighted schedules per pair of leaves at the start, and anew after each failure and recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// From a link's change to the moment at which all edges have their new schedules.
    pub reacts_after: Time,
    pub prune: topology::Prune,
}

/// The port that modelled servers listen on.
pub const SERVER_PORT: u16 = 5001;

/// The address of a modelled host: 10.0.0.1 onwards.
pub fn address(host: u32) -> [u32; 4] {
    wire::v4((0x0a00_0001 + host).to_be_bytes())
}

/// The address of one of its guests; guest 0 has the host's own. Hosts beyond 65,534 have no other guests.
pub fn guest_address(host: u32, guest: u8) -> [u32; 4] {
    let [a, b, c, d] = address(host);
    [a, b, c, d + (u32::from(guest) << 16)]
}

/// 198.18.0.1: edges of the hidden overlay, from addresses for benchmarks (RFC 2544).
const FIRST_EDGE: u32 = 0xc612_0001;

/// The address of a host's edge where that is no guest's: in the hidden overlay.
pub fn edge_address(host: u32) -> u32 {
    FIRST_EDGE + host
}

/// The host of a guest with that address. What is no guest's may give a host that there is not, or any.
pub fn host_of(guest: &[u32; 4]) -> u32 {
    guest[3].wrapping_sub(address(0)[3]) & 0xffff
}

impl Experiment {
    /// Numbers of the guests that hosts have, besides the host's own address those that workloads name.
    pub fn guests(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=PROBER)
            .filter(|&guest| guest == 0 || guest == self.prober() || self.workloads.iter().any(|w| w.guest == guest))
    }

    /// The guests behind the edges of the hidden overlay, if there is one.
    pub(crate) fn hidden_peers(&self) -> Option<Arc<Peers>> {
        if !self.edge.hidden {
            return None;
        }
        let hosts = self.topology.hosts().filter(|host| !self.hosts.plain.contains(host));
        let guests = |host| self.guests().map(move |guest| (guest_address(host, guest)[3], edge_address(host)));
        Some(Arc::new(Peers::new(hosts.flat_map(guests))))
    }

    /// The number under which hosts send RTT probes.
    pub(crate) fn prober(&self) -> u8 {
        if self.edge.tenants.is_some() {
            PROBER
        } else {
            0
        }
    }
}

/// What to keep beyond flow records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Interval of the goodput and queue series; zero records none.
    pub sample_every: Time,
    /// One RTT probe (a 64-byte request and its echo beside the bulk traffic) per host and interval; zero sends none.
    pub probe_every: Time,
    /// Keep every RTT sample that senders take.
    pub rtt_samples: bool,
    /// Count out-of-order segments per flowcell (Presto Fig. 5).
    pub flowcells: bool,
    /// Keep the weights of paths at each sampling instant, under schemes that have any.
    pub weights: bool,
    /// Capture the packets that cross this port (2 x link, plus 1 for the direction from `b` to `a`), at most so many.
    pub capture: Option<(fabric::PortId, u32)>,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            mtu: 1500,
            tso: true,
            gro: Gro::Stock,
            rx_coalesce: Time::from_us(20),
            rx_coalesce_frames: 32,
            rx_budget: 64,
            rx_ring: 4096,
            cpu: None,
            server: None,
            tcp: tcp::Config::default(),
            mptcp: None,
            plain: Vec::new(),
        }
    }
}

impl HostConfig {
    /// TCP payload of a full packet: the MTU less 20 octets of IPv4, 20 of TCP and, with timestamps, 12 of options.
    pub fn mss(&self) -> u16 {
        self.mtu.saturating_sub(if self.tcp.timestamps { 52 } else { 40 })
    }
}

/// The bytes that a connection's packets occupy on the wire beyond their IP packet.
pub const ETHERNET_OVERHEAD: Bytes = Bytes(38);
