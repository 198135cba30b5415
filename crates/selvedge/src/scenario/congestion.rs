//! `[scheme.<name>.congestion]`: virtual congestion control in the edges.

use crate::word::{self, with_settings, Word};
use config::{closest, within, within_others, Invalid, OrOff, Wrong};
use edge::vcc::{self, Class, Config, Law, Prefix, Rule};
use host::experiment::{address, SERVER_PORT};
use host::workload::Workload;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use units::{Bytes, Time};

/// A window law; `None`: flows are left alone.
pub type LawWord = Word<Option<Law>>;

/// How all flows are treated that no rule is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = with_ranges)]
pub struct CongestionTable {
    /// Law of the window; `none`: only the clamp; `off`: the edge leaves these flows alone.
    pub law: LawWord,
    /// Priority with `dctcp`: 1 cuts as DCTCP does, 0 by twice as much.
    pub beta: f64,
    /// Largest window.
    pub clamp: OrOff<Bytes>,
    /// Least window, at most the clamp; off: one segment, beside `tenants` two. Below a segment guests wait for their persist
    /// timer, as real ones do.
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
#[schemars(transform = with_ranges)]
pub struct RuleTable {
    /// What these hosts send; all if absent.
    pub hosts: Option<Vec<u32>>,
    /// What is sent to these; to all if absent.
    pub to: Option<Vec<u32>>,
    /// Flows of this workload; of all if absent.
    pub workload: Option<String>,
    pub law: Option<LawWord>,
    pub beta: Option<f64>,
    pub clamp: Option<OrOff<Bytes>>,
    pub floor: Option<OrOff<Bytes>>,
    pub police: Option<bool>,
    pub observe: Option<bool>,
}

/// From the table of laws.
fn with_ranges(table: &mut Schema) {
    with_settings::<Option<Law>>(table, |setting| Some(setting.name));
}

impl Default for CongestionTable {
    fn default() -> CongestionTable {
        CongestionTable {
            law: Word(Some(Law::Dctcp)),
            beta: vcc::BETA.share(),
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
    pub(super) fn build(&self, at: &str, workloads: &[Workload], hosts: u32) -> Result<(Config, bool), Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within(&format!("{at}.timeout"), self.timeout, Time::from_us(100), Time::from_secs(60)));
        let class = wrong.note(self.class(at));
        // A fault of the table is not told again of each rule.
        let sound = CongestionTable::default();
        let base = if class.is_some() { self } else { &sound };
        let mut config = Config::new(class.unwrap_or(Class::OFF)).rto_min(self.timeout);
        config = config.duplicate_acks(self.duplicate_acks);
        let mut full = false;
        for (n, rule) in self.rule.iter().enumerate() {
            let at = format!("{at}.rule.{n}");
            let Some(rules) = wrong.note(rule.build(&at, base, workloads, hosts)) else { continue };
            if full {
                continue;
            }
            for rule in rules {
                match config.clone().rule(&rule) {
                    Ok(more) => config = more,
                    Err(error) => {
                        wrong.add(too_many(&at, error));
                        full = true;
                        break;
                    }
                }
            }
        }
        wrong.or((config, self.rule.iter().any(|rule| rule.workload.is_some())))
    }

    fn class(&self, at: &str) -> Result<Class, Wrong> {
        let &CongestionTable { clamp, floor, police, observe, .. } = self;
        let limits = Class { clamp: clamp.0, floor: floor.0, police, observe, ..Class::OFF };
        word::class(at, self.law.0, self.beta, limits)
    }
}

impl RuleTable {
    /// A rule a pair of hosts and a port.
    fn build(&self, at: &str, base: &CongestionTable, workloads: &[Workload], hosts: u32) -> Result<Vec<Rule>, Wrong> {
        let mut wrong = Wrong::new();
        let class = wrong.note(self.over(base).class(at));
        let ports = wrong.note(match &self.workload {
            Some(name) => rule_ports(at, name, workloads),
            None => Ok(vec![0..=u16::MAX]),
        });
        let locals = wrong.note(prefixes(&format!("{at}.hosts"), self.hosts.as_deref(), hosts));
        let remotes = wrong.note(prefixes(&format!("{at}.to"), self.to.as_deref(), hosts));
        let made = || {
            let (class, ports, locals, remotes) = (class?, ports?, locals?, remotes?);
            let ends = locals.iter().flat_map(|local| remotes.iter().map(move |remote| (*local, *remote)));
            let rule = |(local, remote), ports: &std::ops::RangeInclusive<u16>| Rule {
                local,
                remote,
                ports: ports.clone(),
                ..Rule::all(class)
            };
            Some(ends.flat_map(|ends| ports.iter().map(move |ports| rule(ends, ports))).collect())
        };
        let made = made();
        wrong.unless(made)
    }

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

fn prefixes(key: &str, listed: Option<&[u32]>, hosts: u32) -> Result<Vec<Prefix>, Wrong> {
    let Some(listed) = listed else { return Ok(vec![Prefix::ANY]) };
    let mut wrong = Wrong::new();
    if listed.is_empty() {
        wrong.add(Invalid::value(key, "names no host", "name some, or leave it out for all"));
    }
    for &host in listed {
        wrong.note(within_others(key, host, 0, hosts.saturating_sub(1)));
    }
    wrong.or(listed.iter().map(|&host| Prefix { addr: address(host), len: 128 }).collect())
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

    fn built(text: &str) -> Result<(Config, bool), Wrong> {
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
        let key = |text| built(text).unwrap_err().faults()[0].key.clone();
        assert_eq!(key("beta = 1.5"), "scheme.x.congestion.beta");
        assert_eq!(key("floor = \"10KB\"\nclamp = \"9KB\""), "scheme.x.congestion");
        assert_eq!(key("[[rule]]\nhosts = [4]"), "scheme.x.congestion.rule.0.hosts");
        assert_eq!(key("[[rule]]\nto = []"), "scheme.x.congestion.rule.0.to");
        assert_eq!(key("[[rule]]\n[[rule]]\nworkload = \"mouse\""), "scheme.x.congestion.rule.1.workload");
        let many = "[[rule]]\nhosts = [0, 1, 2, 3]\nto = [0, 1, 2, 3]\n".repeat(3);
        assert_eq!(key(&many), "scheme.x.congestion.rule.2");
    }
}
