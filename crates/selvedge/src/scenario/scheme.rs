//! `[scheme.<name>]`: what is compared.

use super::congestion::CongestionTable;
use super::error::Invalid;
use super::hosts::CongestionWord;
use super::keys::within;
use super::limiter::LimiterTable;
use super::network::MultipathWord;
use edge::{reorder, Balance};
use host::experiment::EdgeConfig;
use host::workload::Workload;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use units::{Bytes, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceWord {
    Ecmp,
    RandomPath,
    Flowcell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiverWord {
    Stock,
    Presto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// One scheme. Keys left out take the values of the built-in scheme of that name, or else the documented defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchemeTable {
    pub note: String,
    pub balance: BalanceWord,
    pub threshold: Bytes,
    pub receiver: ReceiverWord,
    pub reorder_timeout: Wait,
    pub reorder_literal: bool,
    pub topology: FabricWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<MultipathWord>,
    /// Laid over `[switch]` for this scheme.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub switch: toml::Table,
    /// Laid over `[host]` for this scheme.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub host: toml::Table,
    /// By workload: the law of its connections in place of the workload's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub guests: BTreeMap<String, CongestionWord>,
    /// Virtual congestion control in the edges; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionTable>,
    /// Rate limiters of the guests; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<LimiterTable>,
}

impl Default for SchemeTable {
    fn default() -> Self {
        SchemeTable {
            note: String::new(),
            balance: BalanceWord::Ecmp,
            threshold: Bytes::kib(64),
            receiver: ReceiverWord::Stock,
            reorder_timeout: Wait::Fixed(Time::from_us(500)),
            reorder_literal: false,
            topology: FabricWord::Same,
            multipath: None,
            switch: toml::Table::new(),
            host: toml::Table::new(),
            guests: BTreeMap::new(),
            congestion: None,
            limiter: None,
        }
    }
}

/// Names of the schemes that need no declaration, in the order in which they run by default.
pub const BUILT_IN: [&str; 3] = ["ecmp", "presto", "optimal"];

impl SchemeTable {
    pub fn built_in(name: &str) -> Option<SchemeTable> {
        let default = SchemeTable::default();
        match name {
            "ecmp" => Some(SchemeTable { note: "switches hash each flow to a path".into(), ..default }),
            "presto" => Some(SchemeTable {
                note: "64 KiB flowcells in turn over disjoint trees, reordering undone at the receiver".into(),
                balance: BalanceWord::Flowcell,
                receiver: ReceiverWord::Presto,
                ..default
            }),
            "optimal" => Some(SchemeTable {
                note: "all hosts on one non-blocking switch".into(),
                topology: FabricWord::SingleSwitch,
                ..default
            }),
            _ => None,
        }
    }

    /// Gives workloads the laws that this scheme has for them.
    pub(super) fn set_guests(&self, name: &str, workloads: &mut [Workload]) -> Result<(), Invalid> {
        for (guest, law) in &self.guests {
            let mut known = false;
            for workload in workloads.iter_mut().filter(|w| w.name == *guest) {
                workload.congestion = Some(law.algorithm());
                known = true;
            }
            if !known {
                let names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
                let problem = format!("there is no workload `{guest}`");
                let remedy = format!("name one of {}", names.join(", "));
                return Err(Invalid::new(format!("scheme.{name}.guests.{guest}"), problem, remedy));
            }
        }
        Ok(())
    }

    pub(super) fn edge(&self, name: &str, workloads: &[Workload], hosts: u32) -> Result<EdgeConfig, Invalid> {
        let at = format!("scheme.{name}");
        let (congestion, ports_by_workload) = match &self.congestion {
            Some(table) => {
                let (config, by_workload) = table.build(&format!("{at}.congestion"), workloads, hosts)?;
                (Some(config), by_workload)
            }
            None => (None, false),
        };
        let limiter = match &self.limiter {
            Some(table) => Some(table.build(&format!("{at}.limiter"), hosts)?),
            None => None,
        };
        within(&format!("{at}.threshold"), self.threshold, Bytes(1), Bytes(1 << 30))?;
        if let Wait::Fixed(wait) = self.reorder_timeout {
            within(&format!("{at}.reorder_timeout"), wait, Time::from_us(1), Time::from_secs(1))?;
        }
        let timeout = match self.reorder_timeout {
            Wait::Fixed(time) => reorder::Timeout::Fixed(time),
            Wait::Adaptive => reorder::Timeout::ADAPTIVE,
        };
        Ok(EdgeConfig {
            balance: match self.balance {
                BalanceWord::Ecmp => Balance::Ecmp,
                // A flowcell that never ends.
                BalanceWord::RandomPath => Balance::Flowcell { threshold: Bytes(u64::MAX) },
                BalanceWord::Flowcell => Balance::Flowcell { threshold: self.threshold },
            },
            reorder: match self.receiver {
                ReceiverWord::Stock => None,
                ReceiverWord::Presto => {
                    Some(reorder::Config { timeout, literal: self.reorder_literal, ..reorder::Config::default() })
                }
            },
            congestion,
            limiter,
            ports_by_workload,
        })
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
