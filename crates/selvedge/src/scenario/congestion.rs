//! `[scheme.<name>.congestion]`: virtual congestion control in the edges.

use crate::word::Word;
use config::{closest, Invalid};
use config::{within, OrOff};
use edge::vcc::{self, Class, Config, Law, Prefix, Rule};
use host::experiment::{address, SERVER_PORT};
use host::workload::Workload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Bytes, Time};

/// A window law; `None`: flows are left alone.
pub type LawWord = Word<Option<Law>>;

/// How all flows are treated that no rule is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CongestionTable {
    /// Law of the window; `none`: only the clamp; `off`: the edge leaves these flows alone.
    pub law: LawWord,
    /// Priority with `dctcp`: 1 cuts as DCTCP does, 0 by twice as much.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta: f64,
    /// Largest window.
    #[schemars(extend("x-range" = ["1B", "1GiB"]))]
    pub clamp: OrOff<Bytes>,
    /// Least window, at most the clamp; off: one segment. Below a segment guests wait for their persist timer, as real
    /// ones do.
    #[schemars(extend("x-range" = ["1B", "1GiB"]))]
    pub floor: OrOff<Bytes>,
    /// Drop segments that a guest sends beyond its window.
    pub police: bool,
    /// Compute and report, but leave windows and ECN unchanged.
    pub observe: bool,
    /// The least time without progress that counts as a timeout.
    #[schemars(extend("x-range" = ["100us", "60s"]))]
    pub timeout: Time,
    /// A timeout makes the guest retransmit.
    pub duplicate_acks: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<RuleTable>,
}

/// Flows that are treated otherwise, in the keys that are given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleTable {
    /// What these hosts send; all if absent.
    pub hosts: Option<Vec<u32>>,
    /// What is sent to these; to all if absent.
    pub to: Option<Vec<u32>>,
    /// Flows of this workload; of all if absent.
    pub workload: Option<String>,
    pub law: Option<LawWord>,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub beta: Option<f64>,
    #[schemars(extend("x-range" = ["1B", "1GiB"]))]
    pub clamp: Option<OrOff<Bytes>>,
    #[schemars(extend("x-range" = ["1B", "1GiB"]))]
    pub floor: Option<OrOff<Bytes>>,
    pub police: Option<bool>,
    pub observe: Option<bool>,
}

impl Default for CongestionTable {
    fn default() -> CongestionTable {
        CongestionTable {
            law: Word(Some(Law::Dctcp)),
            beta: 1.0,
            clamp: OrOff(None),
            floor: OrOff(None),
            police: true,
            observe: false,
            timeout: Time::from_ms(10),
            duplicate_acks: true,
            rule: Vec::new(),
        }
    }
}

impl CongestionTable {
    /// What each edge is to do, and whether servers need a port per workload. `at` is the table's path.
    pub(super) fn build(&self, at: &str, workloads: &[Workload], hosts: u32) -> Result<(Config, bool), Invalid> {
        within(&format!("{at}.timeout"), self.timeout, Time::from_us(100), Time::from_secs(60))?;
        let mut config = Config::new(self.class(at)?).rto_min(self.timeout).duplicate_acks(self.duplicate_acks);
        for (n, rule) in self.rule.iter().enumerate() {
            let at = format!("{at}.rule.{n}");
            let class = rule.over(self).class(&at)?;
            let ports = match &rule.workload {
                Some(name) => rule_ports(&at, name, workloads)?,
                None => vec![0..=u16::MAX],
            };
            for local in prefixes(&format!("{at}.hosts"), rule.hosts.as_deref(), hosts)? {
                for remote in prefixes(&format!("{at}.to"), rule.to.as_deref(), hosts)? {
                    for ports in ports.iter().cloned() {
                        let rule = Rule { local, remote, ports, ..Rule::all(class) };
                        config = config.rule(&rule).map_err(|error| too_many(&at, error))?;
                    }
                }
            }
        }
        Ok((config, self.rule.iter().any(|rule| rule.workload.is_some())))
    }

    fn class(&self, at: &str) -> Result<Class, Invalid> {
        within(&format!("{at}.beta"), self.beta, 0.0, 1.0)?;
        for (key, value) in [("clamp", self.clamp), ("floor", self.floor)] {
            if let Some(size) = value.0 {
                within(&format!("{at}.{key}"), size, Bytes(1), Bytes(1 << 30))?;
            }
        }
        if let Some((floor, clamp)) = self.floor.0.zip(self.clamp.0).filter(|(floor, clamp)| floor > clamp) {
            let problem = format!("the floor of {floor} exceeds the clamp of {clamp}");
            return Err(Invalid::new(at, problem, "lower `floor` or raise `clamp`"));
        }
        let Word(Some(law)) = self.law else { return Ok(Class::OFF) };
        Ok(Class {
            law,
            beta: (self.beta * f64::from(vcc::ONE)).round() as u16,
            clamp: self.clamp.0,
            floor: self.floor.0,
            police: self.police,
            observe: self.observe,
        })
    }
}

impl RuleTable {
    /// The table with this rule's keys in place of its own.
    fn over(&self, base: &CongestionTable) -> CongestionTable {
        CongestionTable {
            law: self.law.unwrap_or(base.law),
            beta: self.beta.unwrap_or(base.beta),
            clamp: self.clamp.unwrap_or(base.clamp),
            floor: self.floor.unwrap_or(base.floor),
            police: self.police.unwrap_or(base.police),
            observe: self.observe.unwrap_or(base.observe),
            ..CongestionTable::default()
        }
    }
}

/// The server ports of the workloads of that name.
fn rule_ports(at: &str, name: &str, workloads: &[Workload]) -> Result<Vec<std::ops::RangeInclusive<u16>>, Invalid> {
    let ports: Vec<_> = workloads
        .iter()
        .enumerate()
        .filter(|(_, workload)| workload.name == name)
        .map(|(n, _)| SERVER_PORT + n as u16..=SERVER_PORT + n as u16)
        .collect();
    if !ports.is_empty() {
        return Ok(ports);
    }
    let names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
    let remedy = match closest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? (known: {})", names.join(", ")),
        None => format!("name one of {}", names.join(", ")),
    };
    Err(Invalid::new(format!("{at}.workload"), format!("there is no workload `{name}`"), remedy))
}

fn prefixes(key: &str, listed: Option<&[u32]>, hosts: u32) -> Result<Vec<Prefix>, Invalid> {
    let Some(listed) = listed else { return Ok(vec![Prefix::ANY]) };
    if listed.is_empty() {
        return Err(Invalid::new(key, "names no host", "name some, or leave it out for all"));
    }
    let prefix = |&host: &u32| {
        within(key, host, 0, hosts.saturating_sub(1))?;
        Ok(Prefix { addr: address(host), len: 128 })
    };
    listed.iter().map(prefix).collect()
}

fn too_many(at: &str, error: vcc::TooMany) -> Invalid {
    let text = error.to_string();
    let (problem, remedy) = text.split_once("; ").unwrap_or((&text, ""));
    let problem = format!("with it there are {problem}, each pair of hosts counted");
    Invalid::new(at, problem, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::workload::{Pairs, Pattern};

    fn workloads() -> Vec<Workload> {
        ["bulk", "mice"]
            .map(|name| Workload::new(name, Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1)]), size: None }))
            .into()
    }

    fn built(text: &str) -> Result<(Config, bool), Invalid> {
        let table: CongestionTable = toml::from_str(text).unwrap();
        table.build("scheme.x.congestion", &workloads(), 4)
    }

    #[test]
    fn the_empty_table_is_dctcp_for_all() {
        assert_eq!(built(""), Ok((Config::default(), false)));
    }

    #[test]
    fn off_leaves_flows_alone() {
        assert_eq!(built("law = \"off\"\nclamp = \"1MB\"").unwrap().0, Config::new(Class::OFF));
        assert_eq!(built("law = \"reno\"").unwrap(), built("law = \"newreno\"").unwrap());
    }

    #[test]
    fn rules_change_the_keys_that_they_give() {
        let text = "law = \"cubic\"\nclamp = \"100KB\"\n[[rule]]\nworkload = \"mice\"\nhosts = [2]\nbeta = 0.5\nclamp = \"off\"";
        let class = Class { law: Law::Cubic, clamp: Some(Bytes(100_000)), ..Class::default() };
        let rule = Rule {
            local: Prefix { addr: address(2), len: 128 },
            ports: SERVER_PORT + 1..=SERVER_PORT + 1,
            ..Rule::all(Class { beta: 512, clamp: None, ..class })
        };
        assert_eq!(built(text), Ok((Config::new(class).rule(&rule).unwrap(), true)));
    }

    #[test]
    fn mistakes_name_their_key() {
        let key = |text| built(text).unwrap_err().key;
        assert_eq!(key("beta = 1.5"), "scheme.x.congestion.beta");
        assert_eq!(key("floor = \"10KB\"\nclamp = \"9KB\""), "scheme.x.congestion");
        assert_eq!(key("[[rule]]\nhosts = [4]"), "scheme.x.congestion.rule.0.hosts");
        assert_eq!(key("[[rule]]\nto = []"), "scheme.x.congestion.rule.0.to");
        assert_eq!(key("[[rule]]\n[[rule]]\nworkload = \"mouse\""), "scheme.x.congestion.rule.1.workload");
        let many = "[[rule]]\nhosts = [0, 1, 2, 3]\nto = [0, 1, 2, 3]\n".repeat(3);
        assert_eq!(key(&many), "scheme.x.congestion.rule.2");
    }
}
