//! `[scheme.<name>]`: the schemes that a scenario compares.

use super::congestion::CongestionTable;
use super::fastlane::FastLaneTable;
use super::hosts::{CongestionWord, HostTable};
use super::limiter::LimiterTable;
use super::overlay::OverlayWord;
use super::switch::{MultipathWord, SwitchTable};
use super::tenants::TenantsTable;
use crate::balance::{read_beside, schema_beside, BalanceKeys};
use config::{within, Invalid, OrOff, Wrong};
use edge::balance::{Scheme, ECMP, FLOWCELL, RANDOM_PATH};
use edge::{reorder, Balance};
use host::experiment::{Controller, EdgeConfig};
use host::mptcp;
use host::tcp::cc::Algorithm;
use host::workload::Workload;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use units::{BitRate, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiverWord {
    Stock,
    Presto,
}

/// Pairs that avoid a tree with a failed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PruneWord {
    Pair,
    All,
}

/// How the subflows of MPTCP share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CouplingWord {
    Olia,
    Lia,
    None,
}

/// `mptcp = { subflows = 8, coupling = "olia" }`: guests speak MPTCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MptcpTable {
    #[schemars(range(min = 1, max = 16))]
    pub subflows: u8,
    pub coupling: CouplingWord,
}

impl Default for MptcpTable {
    fn default() -> Self {
        MptcpTable { subflows: 8, coupling: CouplingWord::Olia }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FabricWord {
    Same,
    SingleSwitch,
}

/// How long the receiver waits for a gap between flowcells to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Fixed(Time),
    Adaptive,
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Wait::Fixed(time) => to.collect_str(time),
            Wait::Adaptive => to.serialize_str("adaptive"),
        }
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Wait;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"500us\", or \"adaptive\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Wait, E> {
                match text {
                    "adaptive" => Ok(Wait::Adaptive),
                    _ => text.parse().map(Wait::Fixed).map_err(|e| E::custom(format!("{e}, or \"adaptive\""))),
                }
            }
        }
        from.deserialize_str(Text)
    }
}

impl JsonSchema for Wait {
    fn schema_name() -> Cow<'static, str> {
        "Wait".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        config::schema::either(generator.subschema_for::<Time>(), "adaptive")
    }
}

/// One scheme. Keys left out take the values of the built-in scheme of that name, or else the documented defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeTable {
    pub balance: BalanceKeys,
    pub rest: RestTable,
}

impl<'de> Deserialize<'de> for SchemeTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SchemeTable, D::Error> {
        read_beside(from, BALANCE).map(|(balance, rest)| SchemeTable { balance, rest })
    }
}

impl JsonSchema for SchemeTable {
    fn schema_name() -> Cow<'static, str> {
        "SchemeTable".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema_beside::<RestTable>(generator, BALANCE, &ECMP)
    }
}

/// The key that names the balancer.
const BALANCE: &str = "balance";

/// What there is of a scheme besides its balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestTable {
    /// Shown in the report.
    pub note: String,
    /// `presto` undoes reordering between flowcells.
    pub receiver: ReceiverWord,
    /// Longest wait for a gap to fill, 1us to 1s, or `"adaptive"`.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    pub reorder_timeout: Wait,
    /// Alpha of the adaptive timeout, 1 to 64: it fires after alpha averages.
    #[schemars(range(min = 1, max = 64))]
    pub reorder_alpha: u32,
    /// Beta of the adaptive timeout, 1 to 64: it does not fire if a segment came within the last average / beta.
    #[schemars(range(min = 1, max = 64))]
    pub reorder_beta: u32,
    /// The adaptive timeout learns from gaps that fill after it, too.
    pub reorder_late: bool,
    /// Presto's Algorithm 2 exactly as printed.
    pub reorder_literal: bool,
    /// All hosts on one non-blocking switch, with the same links and the racks of the scenario's fabric.
    pub topology: FabricWord,
    /// `false`: this scheme has no `[[failure]]`.
    pub failures: bool,
    /// A time: schedules per pair of leaves, weighted by the capacity of each tree (docs/topo.md), and new ones this
    /// long after each failure or recovery; `"off"`: all trees in equal shares, also after failures.
    #[schemars(extend("x-range" = ["0s", "1000s"]))]
    pub controller: OrOff<Time>,
    /// A time: edges find their labels by probes, and check them once in it; labels are then source ports, which the switches hash.
    /// `"off"`: edges know the paths, and keep them after failures.
    #[schemars(extend("x-range" = ["1ms", "10s"], "default" = "off"))]
    #[serde(skip_serializing_if = "is_off")]
    pub discovery: OrOff<Time>,
    /// How edges speak to one another: `encapsulated`, in a tunnel, or `hidden`: they put the guests' five-tuple into a TCP option, and
    /// labels are source ports, which the switches hash (docs/clove.md).
    #[schemars(extend("default" = "encapsulated"))]
    #[serde(skip_serializing_if = "OverlayWord::is_encapsulated")]
    pub overlay: OverlayWord,
    /// Pairs that avoid a broken tree: `pair`, those whose path is broken, or `all`.
    pub prune: PruneWord,
    /// Choice among equal paths, as in `[switch]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<MultipathWord>,
    /// Keys of `[switch]` that differ.
    #[schemars(with = "Option<SwitchTable>")]
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub switch: toml::Table,
    /// Keys of `[host]` that differ, `host.tcp` included.
    #[schemars(with = "Option<HostTable>")]
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub host: toml::Table,
    /// `{ NAME = "illinois" }`: by workload, the `congestion` of its connections in this scheme.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub guests: BTreeMap<String, CongestionWord>,
    /// Guests speak MPTCP: `{ subflows = 8, coupling = "olia" }`, 1 to 16 subflows, `olia`, `lia` or `none` (each by
    /// the guests' own law).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<MptcpTable>,
    /// Virtual congestion control, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionTable>,
    /// Rate limiters of the guests, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<LimiterTable>,
    /// Fair shares of tenants' guests, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<TenantsTable>,
    /// Edges repair what switches tell of drops, see below; needs `switch.notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastlane: Option<FastLaneTable>,
}

impl Default for RestTable {
    fn default() -> Self {
        RestTable {
            note: String::new(),
            receiver: ReceiverWord::Stock,
            reorder_timeout: Wait::Fixed(Time::from_us(500)),
            reorder_alpha: 2,
            reorder_beta: 2,
            reorder_late: false,
            reorder_literal: false,
            topology: FabricWord::Same,
            failures: true,
            controller: OrOff(None),
            discovery: OrOff(None),
            overlay: OverlayWord::Encapsulated,
            prune: PruneWord::Pair,
            multipath: None,
            switch: toml::Table::new(),
            host: toml::Table::new(),
            guests: BTreeMap::new(),
            mptcp: None,
            congestion: None,
            limiter: None,
            tenants: None,
            fastlane: None,
        }
    }
}

/// Options that came later and are off stand in no configuration in effect: results are filed under it.
fn is_off(value: &OrOff<Time>) -> bool {
    value.0.is_none()
}

/// What is shared among guests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guests<'a> {
    /// That workloads name, in order.
    pub(super) tenants: &'a [String],
    /// Rate of the slowest uplink.
    pub(super) slowest: BitRate,
}

/// A scheme that needs no declaration.
pub struct BuiltIn {
    pub name: &'static str,
    /// It runs where a file names no scheme; the others only where they are named.
    pub unasked: bool,
    note: &'static str,
    balance: &'static Scheme,
    /// Sets what is not the default.
    set: fn(&mut RestTable),
}

/// In the order in which they run. The first is the plainest.
pub static BUILT_IN: [BuiltIn; 4] = [
    BuiltIn { name: "ecmp", unasked: true, note: "switches hash each flow to a path", balance: &ECMP, set: |_| {} },
    BuiltIn {
        name: "presto",
        unasked: true,
        note: "64 KiB flowcells in turn over disjoint trees, reordering undone at the receiver",
        balance: &FLOWCELL,
        set: |rest| rest.receiver = ReceiverWord::Presto,
    },
    BuiltIn {
        name: "optimal",
        unasked: true,
        note: "all hosts on one non-blocking switch",
        balance: &ECMP,
        set: |rest| rest.topology = FabricWord::SingleSwitch,
    },
    BuiltIn {
        name: "mptcp",
        unasked: false,
        note: "MPTCP with 8 subflows coupled by OLIA, each on a path drawn at random",
        balance: &RANDOM_PATH,
        set: |rest| rest.mptcp = Some(MptcpTable::default()),
    },
];

impl SchemeTable {
    /// The built-in scheme of that name, or else the defaults.
    pub fn base(name: &str) -> SchemeTable {
        let mut rest = RestTable::default();
        let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name);
        if let Some(built_in) = built_in {
            rest.note = built_in.note.into();
            (built_in.set)(&mut rest);
        }
        SchemeTable { balance: BalanceKeys::of(built_in.map_or(&ECMP, |built_in| built_in.balance)), rest }
    }

    /// As a file would have it, with all defaults.
    ///
    /// # Errors
    /// None for a value that was read from a file.
    pub fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut table = toml::Table::new();
        for (key, value) in toml::Table::try_from(&self.rest)? {
            let note = key == "note";
            table.insert(key, value);
            if note {
                let entries = self.balance.entries(BALANCE, &ECMP);
                table.extend(entries.into_iter().map(|(key, value)| (key, toml::Value::String(value))));
            }
        }
        Ok(table)
    }

    pub(super) fn edge(
        &self,
        name: &str,
        workloads: &[Workload],
        hosts: u32,
        of: Guests<'_>,
    ) -> Result<EdgeConfig, Wrong> {
        let mut wrong = Wrong::new();
        let balance = wrong.note(self.balance.check(&format!("scheme.{name}"), &ECMP));
        let edge = wrong.note(self.rest.edge(name, balance, workloads, hosts, of));
        wrong.unless(edge)
    }
}

impl RestTable {
    /// What guests speak; `guest` is the law of their TCP.
    pub(super) fn guests_mptcp(&self, name: &str, guest: Algorithm) -> Result<Option<mptcp::Config>, Invalid> {
        let Some(table) = &self.mptcp else { return Ok(None) };
        within(&format!("scheme.{name}.mptcp.subflows"), table.subflows, 1, 16)?;
        let congestion = match table.coupling {
            CouplingWord::Olia => Algorithm::Olia,
            CouplingWord::Lia => Algorithm::Lia,
            CouplingWord::None => guest,
        };
        Ok(Some(mptcp::Config { subflows: table.subflows, congestion }))
    }

    /// Gives workloads the laws that this scheme has for them.
    pub(super) fn set_guests(&self, name: &str, workloads: &mut [Workload]) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        for (guest, law) in &self.guests {
            let mut known = false;
            for workload in workloads.iter_mut().filter(|w| w.name == *guest) {
                workload.congestion = Some(law.0);
                known = true;
            }
            if !known {
                let names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
                let problem = format!("there is no workload `{guest}`");
                let remedy = format!("name one of {}", names.join(", "));
                wrong.add(Invalid::new(format!("scheme.{name}.guests.{guest}"), problem, remedy));
            }
        }
        wrong.or(())
    }

    /// `balance`: `None` if it is wrong.
    fn edge(
        &self,
        name: &str,
        balance: Option<Balance>,
        workloads: &[Workload],
        hosts: u32,
        of: Guests<'_>,
    ) -> Result<EdgeConfig, Wrong> {
        let mut wrong = Wrong::new();
        let at = format!("scheme.{name}");
        let congestion = self.congestion.as_ref();
        let congestion = congestion.map(|table| table.build(&format!("{at}.congestion"), workloads, hosts)).transpose();
        let (congestion, ports_by_workload) = match wrong.note(congestion).flatten() {
            Some((config, by_workload)) => (Some(config), by_workload),
            None => (None, false),
        };
        let limiter = self.limiter.as_ref().map(|table| table.build(&format!("{at}.limiter"), hosts));
        let limiter = wrong.note(limiter.transpose()).flatten();
        let tenants = self.tenants.as_ref();
        let tenants = tenants.map(|table| table.build(&format!("{at}.tenants"), of.tenants, of.slowest, hosts));
        let tenants = wrong.note(tenants.transpose()).flatten();
        let fastlane = self.fastlane.as_ref().map(|table| table.build(&format!("{at}.fastlane")));
        let fastlane = wrong.note(fastlane.transpose()).flatten();
        if let OrOff(Some(reaction)) = self.controller {
            if let Some(balance) = balance.filter(|balance| balance.keeps().is_some()) {
                let keeps = "keeps a state a path, and a controller's schedule repeats paths";
                let problem = format!("{} {keeps}", balance.scheme().name);
                let remedy = "remove it: the scheme weighs paths itself";
                wrong.add(Invalid::new(format!("{at}.controller"), problem, remedy));
            }
            wrong.note(within(&format!("{at}.controller"), reaction, Time::ZERO, Time::from_secs(1000)));
        }
        let discovery = wrong.note(self.discovery(&at, balance)).flatten();
        if let Wait::Fixed(wait) = self.reorder_timeout {
            wrong.note(within(&format!("{at}.reorder_timeout"), wait, Time::from_us(1), Time::from_secs(1)));
        }
        wrong.note(within(&format!("{at}.reorder_alpha"), self.reorder_alpha, 1, 64));
        wrong.note(within(&format!("{at}.reorder_beta"), self.reorder_beta, 1, 64));
        let timeout = match self.reorder_timeout {
            Wait::Fixed(time) => reorder::Timeout::Fixed(time),
            Wait::Adaptive => {
                let (alpha, beta) = (self.reorder_alpha, self.reorder_beta);
                reorder::Timeout::Adaptive {
                    start: Time::from_us(500),
                    min: Time::from_us(50),
                    max: Time::from_ms(10),
                    alpha,
                    beta,
                    late: self.reorder_late,
                }
            }
        };
        let made = balance.map(|balance| EdgeConfig {
            balance,
            reorder: match self.receiver {
                ReceiverWord::Stock => None,
                ReceiverWord::Presto => {
                    Some(reorder::Config { timeout, literal: self.reorder_literal, ..reorder::Config::default() })
                }
            },
            congestion,
            limiter,
            tenants,
            fastlane,
            controller: self.controller.0.map(|reacts_after| Controller {
                reacts_after,
                prune: match self.prune {
                    PruneWord::Pair => topology::Prune::Pair,
                    PruneWord::All => topology::Prune::All,
                },
            }),
            discovery,
            hidden: self.overlay == OverlayWord::Hidden,
            ports_by_workload,
        });
        match made {
            Some(made) => wrong.or(made),
            // What is wrong with the balancer is told elsewhere.
            None => wrong.or(EdgeConfig::default()),
        }
    }

    fn discovery(&self, at: &str, balance: Option<Balance>) -> Result<Option<discovery::Config>, Wrong> {
        let mut wrong = Wrong::new();
        let OrOff(Some(period)) = self.discovery else { return Ok(None) };
        let key = format!("{at}.discovery");
        wrong.note(within(&key, period, Time::from_ms(1), Time::from_secs(10)));
        if let Some(balance) = balance.filter(|balance| !balance.scheme().labels) {
            let problem = format!("{} takes no labels", balance.scheme().name);
            wrong.add(Invalid::new(&key, problem, "remove it, or choose another `balance`"));
        }
        if self.controller.0.is_some() {
            let problem = "a controller orders the labels already";
            wrong.add(Invalid::new(&key, problem, "remove it, or the controller"));
        }
        // As many answers as fit a fifth of a period; a destination without traffic for ten is forgotten.
        wrong.or(Some(discovery::Config {
            period,
            patience: period / 5,
            idle: period * 10,
            ..discovery::Config::default()
        }))
    }
}

/// `[scheme.*]` in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schemes(pub Vec<(String, toml::Table)>);

impl Serialize for Schemes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, scheme) in &self.0 {
            map.serialize_entry(name, scheme)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Schemes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Schemes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table [scheme.<name>] per scheme")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Schemes, A::Error> {
                let mut schemes = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    schemes.push(entry);
                }
                Ok(Schemes(schemes))
            }
        }
        from.deserialize_map(Map)
    }
}

impl JsonSchema for Schemes {
    fn schema_name() -> Cow<'static, str> {
        "Schemes".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<SchemeTable>() })
    }
}
