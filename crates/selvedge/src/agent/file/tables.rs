//! The tables of the file, as they are written. What they may hold is checked elsewhere.

use super::annotations::PodAnnotations;
use super::congestion::CongestionTable;
use super::controller::ControllerTable;
use super::fastlane::FastLaneTable;
use super::limits::{LawWord, LimitsTable, TenantTable};
use super::paths::PathsTable;
use super::receive::ReceiveTable;
use super::tenants::TenantsTable;
use crate::balance::{read_beside, schema_beside, BalanceKeys};
use crate::parsed::Parsed;
use crate::word::with_settings;
use agent_api::config::{LawKind, Mac, Prefix, LEARN_LIMIT, MAX_LEARNED};
use agent_api::protocol::SOCKET;
use edge::balance::{Scheme, AGENTS};
use edge::MAX_LABELS;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use units::{BitRate, Bytes, Time};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) agent: AgentTable,
    /// Not needed where all ports have limits only.
    pub(super) uplink: Option<UplinkTable>,
    #[serde(default)]
    pub(super) balance: BalanceTable,
    #[serde(default)]
    pub(super) receive: ReceiveTable,
    #[serde(default)]
    pub(super) paths: PathsTable,
    pub(super) congestion: Option<CongestionTable>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) tenant: Vec<TenantTable>,
    pub(super) tenants: Option<TenantsTable>,
    pub(super) fastlane: Option<FastLaneTable>,
    #[serde(default)]
    pub(super) port: Vec<PortTable>,
    #[serde(default)]
    pub(super) peer: Vec<PeerTable>,
    pub(super) controller: Option<ControllerTable>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentTable {
    /// Directory of the maps and links that outlive the agent.
    pub(super) pins: PathBuf,
    /// Socket of `selvedge ctl`; mode 0600. The file `.state` beside it holds what `stop` must undo.
    pub(super) socket: PathBuf,
    /// Prometheus metrics at `/metrics`.
    pub(super) metrics: Option<Parsed<SocketAddr>>,
    /// Size of the flow table. Further connections are forwarded without state.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub(super) max_flows: u32,
    /// Most connections of one port, counted in the flow table, in the table of rate limits and in that of `[fastlane]` each.
    #[schemars(range(min = 1))]
    pub(super) max_flows_per_port: Option<u32>,
    /// Most connections of one network, counted in the flow table, in the table of rate limits and in that of `[fastlane]` each.
    #[schemars(range(min = 1))]
    pub(super) max_flows_per_network: Option<u32>,
    /// The edge forgets a connection after this time without a packet.
    #[schemars(extend("x-range" = ["1s", "1440min"]))]
    pub(super) flow_idle: Time,
    /// Position of the edge's programs on an interface that other programs use too.
    pub(super) place: PlaceWord,
    /// Run although the host lacks a setting of SECURITY.md; the log names it.
    pub(super) unchecked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum PlaceWord {
    First,
    #[default]
    Last,
}

/// Where an agent keeps its pins, unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/selvedge";

impl Default for AgentTable {
    fn default() -> AgentTable {
        AgentTable {
            pins: PINS.into(),
            socket: SOCKET.into(),
            metrics: None,
            max_flows: 65_536,
            max_flows_per_port: None,
            max_flows_per_network: None,
            flow_idle: Time::from_secs(300),
            place: PlaceWord::default(),
            unchecked: false,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UplinkTable {
    /// Interface towards the fabric. Or a list `uplink.interfaces`: each peer gets the one that the host's routes name, unless its link
    /// is down. Packets must have Ethernet headers there, as on a network card, a bridge, a bond or a VLAN: the agent refuses `tun`
    /// devices, WireGuard and IP tunnels.
    #[schemars(length(min = 1, max = 15))]
    pub(super) interface: Option<String>,
    #[schemars(length(max = 16))]
    #[serde(default)]
    pub(super) interfaces: Vec<String>,
    /// With `"plain"`, guests' packets cross the fabric as they are, without a tunnel (tenants.md).
    #[serde(default)]
    pub(super) mode: ModeWord,
    /// Outer source address.
    pub(super) address: Option<Parsed<IpAddr>>,
    /// UDP port of encapsulated packets, the same on all hosts.
    #[schemars(range(min = 1, max = 65_535))]
    #[serde(default = "vxlan_port")]
    pub(super) udp_port: u16,
    /// Add a VXLAN device, so that the kernel merges packets before the edge sees them. Packets that pass the device
    /// are dropped.
    #[serde(default = "yes")]
    pub(super) gro: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModeWord {
    #[default]
    Overlay,
    Plain,
}

/// UDP port of VXLAN, RFC 7348.
pub(super) const VXLAN: u16 = 4789;

fn vxlan_port() -> u16 {
    VXLAN
}

fn yes() -> bool {
    true
}

/// The key of `[balance]` that names the scheme.
const POLICY: &str = "policy";

#[derive(Debug, Default)]
pub(super) struct BalanceTable {
    pub(super) keys: BalanceKeys,
    pub(super) rest: LabelsTable,
}

impl<'de> Deserialize<'de> for BalanceTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BalanceTable, D::Error> {
        read_beside(from, POLICY).map(|(keys, rest)| BalanceTable { keys, rest })
    }
}

impl JsonSchema for BalanceTable {
    fn schema_name() -> Cow<'static, str> {
        "BalanceTable".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema_beside::<LabelsTable>(generator, POLICY, AGENTS)
    }
}

impl BalanceTable {
    /// The policy, and the word by which the file names it.
    pub(super) fn policy(&self) -> (&str, &'static Scheme) {
        self.keys.scheme(AGENTS)
    }
}

/// What there is of `[balance]` besides the policy and its parameters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LabelsTable {
    /// UDP: one path per flow, or as the policy says. No receiver restores the order of datagrams.
    #[schemars(extend("default" = "flow"))]
    pub(super) udp: Option<Spread>,
    /// Outer UDP source ports, which the fabric hashes to paths: a number of ports from 50000 on, or these ports in
    /// this order. A port that is listed twice has twice the weight.
    #[schemars(extend("default" = 8))]
    pub(super) labels: Option<Labels>,
}

/// Policy of what is not TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = formerly)]
pub(super) enum Spread {
    Flow,
    #[serde(alias = "flowcell")]
    Policy,
}

/// The former name of `policy`.
fn formerly(schema: &mut Schema) {
    config::schema::add_word(schema, "flowcell");
}

/// A number of labels, or the labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    Count(i64),
    List(Vec<i64>),
}

impl JsonSchema for Labels {
    fn schema_name() -> Cow<'static, str> {
        "Labels".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let label = json_schema!({ "type": "integer", "minimum": 1024, "maximum": u16::MAX });
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": MAX_LABELS },
            { "type": "array", "items": label, "minItems": 1, "maxItems": MAX_LABELS },
        ] })
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of labels such as 8, or a list of ports such as [50000, 50001]")
            }
            fn visit_i64<E>(self, n: i64) -> Result<Labels, E> {
                Ok(Labels::Count(n))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Labels, E> {
                Ok(Labels::Count(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Labels, A::Error> {
                let mut list = Vec::new();
                while let Some(label) = items.next_element()? {
                    list.push(label);
                }
                Ok(Labels::List(list))
            }
        }
        from.deserialize_any(Visitor)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = with_ranges, extend("dependencies" = {
    "addresses": ["network"], "learn": ["network"], "mac": ["network"], "mtu": ["network"]
}))]
pub(super) struct PortTable {
    /// A guest's interface on this host, or all that match (`*`: any characters, `?`: one). Names come before patterns,
    /// earlier patterns before later ones.
    #[schemars(length(min = 1, max = 15))]
    pub(super) interface: Option<String>,
    /// A guest's interface on this host, or all that match (`*`: any characters, `?`: one). Names come before patterns,
    /// earlier patterns before later ones.
    #[schemars(length(min = 1, max = 15))]
    pub(super) pattern: Option<String>,
    /// The guest's network (VNI). Networks are separate and may use the same addresses. Without it the guest has a network of
    /// the host's making, such as a bridge or a route, and the edge only limits its rates.
    #[schemars(range(min = 0, max = 16_777_214))]
    pub(super) network: Option<u32>,
    /// The guest's addresses; with `interface` only.
    #[serde(default)]
    pub(super) addresses: Vec<Parsed<IpAddr>>,
    /// Ranges within which the agent learns addresses from packets of the guest. Without it, the port has its
    /// `addresses` and no others. A guest is unreachable until it has sent a packet.
    #[serde(default)]
    pub(super) learn: Vec<Parsed<Prefix>>,
    /// Most learned addresses of the port at a time.
    #[schemars(range(min = 1, max = MAX_LEARNED), extend("default" = LEARN_LIMIT))]
    pub(super) learn_limit: Option<u32>,
    /// The guest's MAC address; with `interface` only. The agent finds it out for veth and netkit pairs and from learned packets.
    /// Prerequisite for a TAP device with `addresses`: without it the virtual machine drops its packets, and `ctl
    /// status` says so.
    pub(super) mac: Option<Parsed<Mac>>,
    /// Largest IP packet of the guest, to other hosts and from other guests of this host, bytes.
    #[schemars(range(min = 576, max = 65_535))]
    pub(super) mtu: Option<u32>,
    /// Forward only frames that are untagged, parse, and come from the guest's own addresses (wire.md). A guest that is
    /// still to be learned loses its first packet. Set it to false for a guest that sends VLAN tags, protocols besides
    /// IP and ARP, or under several MAC addresses (VRRP, a bridge).
    #[serde(default = "yes")]
    pub(super) strict: bool,
    /// Packets for no guest reach the host: its DHCP and DNS, metadata services, health checks of the node, services of
    /// Kubernetes, routes out. With false they are dropped.
    #[serde(default = "yes")]
    pub(super) host: bool,
    /// Of the guest's share of the uplink; with `[tenants]` only.
    #[schemars(range(min = 1, max = 65_535), extend("default" = 1))]
    pub(super) weight: Option<u16>,
    /// Guaranteed to the guest's sending, or to the tenant's guests together; also the limit, unless there is a
    /// ceiling.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    pub(super) egress_rate: Option<BitRate>,
    /// Limit with what others leave, which is shared in proportion to the rates.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    pub(super) egress_ceiling: Option<BitRate>,
    /// Limit of what the guest receives.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    pub(super) ingress_rate: Option<BitRate>,
    /// The tenant whose share includes the port's egress.
    pub(super) tenant: Option<String>,
    /// The law that keeps the queue short.
    pub(super) law: Option<LawWord>,
    /// Queue lengths at which the law acts; K of `dem` and `ecn` is `k1`.
    pub(super) k1: Option<Bytes>,
    /// Queue lengths at which the law acts; K of `dem` and `ecn` is `k1`.
    pub(super) k2: Option<Bytes>,
    /// Rates in Kubernetes' words: `{ "kubernetes.io/egress-bandwidth" = "10M" }`, `.../ingress-bandwidth`.
    #[serde(default)]
    pub(super) annotations: PodAnnotations,
}

impl PortTable {
    pub(super) fn has_rate(&self) -> bool {
        self.annotations.have_rate() || self.egress_rate.is_some() || self.ingress_rate.is_some()
    }
}

/// From the table of limiters' laws.
fn with_ranges(table: &mut Schema) {
    with_settings::<LawKind>(table, |setting| setting.of_port);
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    /// Name in messages.
    #[schemars(length(min = 1, max = 63))]
    pub(super) name: String,
    /// The other host's outer address.
    pub(super) address: Parsed<IpAddr>,
    /// The peer is no Selvedge host: send it VXLAN without our metadata.
    #[serde(default)]
    pub(super) plain_vxlan: bool,
    /// Labels towards this peer.
    pub(super) labels: Option<Labels>,
    /// The peer's guests: `{ network, prefix, mac }`. The longest prefix wins. Packets from this peer with other source
    /// addresses are dropped, so a guest that routes for others needs their ranges too. No IPv6 range may contain
    /// ::ffff:0:0/96, which stands for IPv4. `mac` for single addresses only.
    #[serde(default)]
    pub(super) guests: Vec<GuestTable>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GuestTable {
    #[schemars(range(min = 0, max = 16_777_214))]
    pub(super) network: u32,
    pub(super) prefix: Parsed<Prefix>,
    pub(super) mac: Option<Parsed<Mac>>,
}
