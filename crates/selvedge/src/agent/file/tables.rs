//! The tables of the file, as they are written. What they may hold is checked elsewhere.

use super::congestion::CongestionTable;
use super::controller::ControllerTable;
use super::limits::{LawWord, LimitsTable, PodAnnotations, TenantTable};
use super::parsed::Parsed;
use super::receive::ReceiveTable;
use crate::balance::{read_beside, BalanceKeys};
use agent_api::config::{Mac, Prefix};
use edge::balance::{Scheme, AGENTS};
use serde::de::Deserializer;
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use units::{BitRate, Bytes, Time};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) agent: AgentTable,
    pub(super) uplink: UplinkTable,
    #[serde(default)]
    pub(super) balance: BalanceTable,
    #[serde(default)]
    pub(super) receive: ReceiveTable,
    pub(super) congestion: Option<CongestionTable>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) tenant: Vec<TenantTable>,
    #[serde(default)]
    pub(super) port: Vec<PortTable>,
    #[serde(default)]
    pub(super) peer: Vec<PeerTable>,
    pub(super) controller: Option<ControllerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AgentTable {
    pub(super) pins: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) metrics: Option<Parsed<SocketAddr>>,
    pub(super) max_flows: u32,
    pub(super) max_flows_per_port: Option<u32>,
    pub(super) max_flows_per_network: Option<u32>,
    pub(super) flow_idle: Time,
    pub(super) place: PlaceWord,
    pub(super) unchecked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PlaceWord {
    First,
    #[default]
    Last,
}

/// Where an agent keeps its pins and its socket, unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/selvedge";
pub const SOCKET: &str = "/run/selvedge/ctl.sock";

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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UplinkTable {
    pub(super) interface: Option<String>,
    #[serde(default)]
    pub(super) interfaces: Vec<String>,
    pub(super) address: Option<Parsed<IpAddr>>,
    #[serde(default = "vxlan_port")]
    pub(super) udp_port: u16,
    #[serde(default = "yes")]
    pub(super) gro: bool,
}

fn vxlan_port() -> u16 {
    4789
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default)]
pub(super) struct BalanceTable {
    pub(super) keys: BalanceKeys,
    pub(super) rest: LabelsTable,
}

impl<'de> Deserialize<'de> for BalanceTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BalanceTable, D::Error> {
        read_beside(from, "policy").map(|(keys, rest)| BalanceTable { keys, rest })
    }
}

impl BalanceTable {
    /// The policy, and the word by which the file names it.
    pub(super) fn policy(&self) -> (&str, &'static Scheme) {
        self.keys.scheme(AGENTS)
    }
}

/// What there is of `[balance]` besides the policy and its parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LabelsTable {
    pub(super) udp: Option<Spread>,
    pub(super) labels: Option<Labels>,
}

/// Policy of what is not TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Spread {
    Flow,
    #[serde(alias = "flowcell")]
    Policy,
}

/// A number of labels, or the labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    Count(i64),
    List(Vec<i64>),
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortTable {
    pub(super) interface: Option<String>,
    pub(super) pattern: Option<String>,
    pub(super) network: u32,
    #[serde(default)]
    pub(super) addresses: Vec<Parsed<IpAddr>>,
    #[serde(default)]
    pub(super) learn: Vec<Parsed<Prefix>>,
    pub(super) learn_limit: Option<u32>,
    pub(super) mac: Option<Parsed<Mac>>,
    pub(super) mtu: Option<u32>,
    #[serde(default = "yes")]
    pub(super) strict: bool,
    #[serde(default = "yes")]
    pub(super) host: bool,
    pub(super) egress_rate: Option<BitRate>,
    pub(super) egress_ceiling: Option<BitRate>,
    pub(super) ingress_rate: Option<BitRate>,
    pub(super) tenant: Option<String>,
    pub(super) law: Option<LawWord>,
    pub(super) k1: Option<Bytes>,
    pub(super) k2: Option<Bytes>,
    #[serde(default)]
    pub(super) annotations: PodAnnotations,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    pub(super) name: String,
    pub(super) address: Parsed<IpAddr>,
    #[serde(default)]
    pub(super) plain_vxlan: bool,
    pub(super) labels: Option<Labels>,
    #[serde(default)]
    pub(super) guests: Vec<GuestTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GuestTable {
    pub(super) network: u32,
    pub(super) prefix: Parsed<Prefix>,
    pub(super) mac: Option<Parsed<Mac>>,
}
