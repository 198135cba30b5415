//! `[congestion]`: the administrator's congestion control for guests.

use super::{at_most, within, Parsed};
use crate::word::{self, with_settings, Word};
use agent_api::config::{Prefix, MAX_NETWORK};
use config::{within_time, Invalid, OrOff, Wrong};
use edge::vcc::{self, Class, Config, Law, Rule};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use units::{Bytes, Time};

/// The data path has room for so many.
const MAX_RULES: usize = 32;

/// A window law; `None`: connections are left alone.
type LawWord = Word<Option<Law>>;

/// How all connections are treated that no rule is about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = with_ranges)]
pub(super) struct CongestionTable {
    /// Window law. `none`: only the clamp. `off`: the edge leaves these connections alone.
    law: LawWord,
    /// Priority with DCTCP: 1 cuts as DCTCP does, 0 by twice as much.
    beta: f64,
    /// Largest window.
    clamp: OrOff<Bytes>,
    /// Least window, at most the clamp; off: one segment, beside `[tenants]` two. Below a segment guests stall on their persist timer.
    floor: OrOff<Bytes>,
    /// Drop segments that a guest sends beyond its window. MPTCP shares one window among its subflows and loses some so: `false` for such
    /// guests.
    police: bool,
    /// Compute and report, but leave windows and ECN unchanged.
    observe: bool,
    /// Least time without an ACK that counts as a timeout; not in rules.
    #[schemars(extend("x-range" = ["1ms", "60s"]))]
    timeout: Time,
    /// On a timeout, repeat the last ACK so that the guest retransmits. Guests with SACK count only duplicates with
    /// SACK blocks, which the edge cannot know; they rely on their own probes and timers. Not in rules.
    duplicate_acks: bool,
    rule: Vec<RuleTable>,
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

/// Connections that are treated otherwise, in the keys that are given.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = with_ranges)]
struct RuleTable {
    /// The guest's network, that is, the tenant.
    #[schemars(range(min = 0, max = 16_777_214))]
    network: Option<u32>,
    /// Ranges of the guest's addresses, and of the other end's.
    local: Option<Parsed<Prefix>>,
    /// Ranges of the guest's addresses, and of the other end's.
    remote: Option<Parsed<Prefix>>,
    /// One of both ports is this port, or in a range such as `[5000, 5100]`.
    port: Option<u16>,
    /// One of both ports is this port, or in a range such as `[5000, 5100]`.
    ports: Option<[u16; 2]>,
    law: Option<LawWord>,
    beta: Option<f64>,
    clamp: Option<OrOff<Bytes>>,
    floor: Option<OrOff<Bytes>>,
    police: Option<bool>,
    observe: Option<bool>,
}

impl CongestionTable {
    pub(super) fn check(&self) -> Result<Config, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within_time("congestion.timeout", self.timeout, Time::from_ms(1), Time::from_secs(60)));
        wrong.note(at_most("congestion.rule", self.rule.len(), MAX_RULES));
        let class = wrong.note(self.class("congestion"));
        // A fault of the table is not told again of each rule.
        let sound = if class.is_some() { self.without_rules() } else { CongestionTable::default() };
        let mut config = Config::new(class.unwrap_or(Class::OFF)).rto_min(self.timeout);
        config = config.duplicate_acks(self.duplicate_acks);
        for (n, rule) in self.rule.iter().enumerate() {
            let at = format!("congestion.rule.{n}");
            let Some(rule) = wrong.note(rule.check(&at, &sound)) else { continue };
            if self.rule.len() > MAX_RULES {
                continue;
            }
            match config.clone().rule(&rule) {
                Ok(more) => config = more,
                Err(error) => {
                    let text = error.to_string();
                    let (problem, remedy) = text.split_once("; ").unwrap_or((&text, ""));
                    wrong.add(Invalid::new(at, format!("with it there are {problem}"), remedy));
                    break;
                }
            }
        }
        wrong.or(config)
    }

    fn without_rules(&self) -> CongestionTable {
        let &CongestionTable { law, beta, clamp, floor, police, observe, timeout, duplicate_acks, .. } = self;
        CongestionTable { law, beta, clamp, floor, police, observe, timeout, duplicate_acks, rule: Vec::new() }
    }

    fn class(&self, at: &str) -> Result<Class, Wrong> {
        let &CongestionTable { clamp, floor, police, observe, .. } = self;
        let limits = Class { clamp: clamp.0, floor: floor.0, police, observe, ..Class::OFF };
        word::class(at, self.law.0, self.beta, limits)
    }
}

impl RuleTable {
    fn check(&self, at: &str, base: &CongestionTable) -> Result<Rule, Wrong> {
        let mut wrong = Wrong::new();
        if let Some(network) = self.network {
            wrong.note(within(&format!("{at}.network"), network, 0, MAX_NETWORK));
        }
        let family = |prefix: &Option<Parsed<Prefix>>| prefix.as_ref().map(|prefix| prefix.0.addr().is_ipv4());
        if let (Some(local), Some(remote)) = (family(&self.local), family(&self.remote)) {
            if local != remote {
                let problem = "is of another family than `local`";
                wrong.add(Invalid::new(format!("{at}.remote"), problem, "give both as IPv4, or both as IPv6"));
            }
        }
        let whole = CongestionTable {
            law: self.law.unwrap_or(base.law),
            beta: self.beta.unwrap_or(base.beta),
            clamp: self.clamp.unwrap_or(base.clamp),
            floor: self.floor.unwrap_or(base.floor),
            police: self.police.unwrap_or(base.police),
            observe: self.observe.unwrap_or(base.observe),
            ..CongestionTable::default()
        };
        let ports = wrong.note(self.check_ports(at));
        let class = wrong.note(whole.class(at));
        let made = || {
            Some(Rule {
                local: self.local.as_ref().map_or(vcc::Prefix::ANY, |prefix| mirror(prefix.0)),
                remote: self.remote.as_ref().map_or(vcc::Prefix::ANY, |prefix| mirror(prefix.0)),
                ports: ports?,
                tenant: self.network.map_or(0, vcc::tenant),
                class: class?,
            })
        };
        let made = made();
        wrong.unless(made)
    }

    fn check_ports(&self, at: &str) -> Result<RangeInclusive<u16>, Invalid> {
        match (self.port, self.ports) {
            (None, None) => Ok(0..=u16::MAX),
            (Some(port), None) => Ok(port..=port),
            (None, Some([first, last])) if first <= last => Ok(first..=last),
            (None, Some([first, last])) => {
                let problem = format!("{first} comes after {last}");
                Err(Invalid::value(format!("{at}.ports"), problem, "give the smaller one first"))
            }
            (Some(_), Some(_)) => {
                Err(Invalid::value(format!("{at}.ports"), "`port` is there too", "remove one of them"))
            }
        }
    }
}

/// In the data path's form.
fn mirror(prefix: Prefix) -> vcc::Prefix {
    let before = if matches!(prefix.addr(), IpAddr::V4(_)) { 96 } else { 0 };
    vcc::Prefix { addr: wire::words(prefix.addr()), len: before + prefix.len() }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const UPLINK: &str = "[uplink]\ninterface = \"eth0\"\n";

    fn read(text: &str) -> Result<Option<Config>, String> {
        parse("a.toml", &format!("{UPLINK}{text}")).map(|config| config.congestion).map_err(|e| e.to_string())
    }

    #[test]
    fn the_table_alone_is_dctcp_for_all_and_without_it_there_is_none() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("[congestion]"), Ok(Some(Config::default())));
    }

    #[test]
    fn rules_change_the_keys_that_they_give() {
        let text = "[congestion]\nlaw = \"cubic\"\nclamp = \"1MB\"\ntimeout = \"20ms\"\n\
             [[congestion.rule]]\nnetwork = 100\nlocal = \"10.1.0.0/16\"\nports = [5000, 5100]\nclamp = \"off\"\nbeta = 0.5\n\
             [[congestion.rule]]\nremote = \"fd00::/8\"\nport = 443\nlaw = \"off\"\n";
        let class = Class { law: Law::Cubic, clamp: Some(Bytes(1_000_000)), ..Class::default() };
        let first = Rule {
            local: vcc::Prefix::v4([10, 1, 0, 0], 16),
            ports: 5000..=5100,
            tenant: 101,
            ..Rule::all(Class { clamp: None, beta: 512, ..class })
        };
        let second = Rule {
            remote: vcc::Prefix { addr: [0xfd00_0000, 0, 0, 0], len: 8 },
            ports: 443..=443,
            ..Rule::all(Class::OFF)
        };
        let wanted = Config::new(class).rto_min(Time::from_ms(20)).rule(&first).and_then(|c| c.rule(&second));
        assert_eq!(read(text), Ok(Some(wanted.unwrap())));
    }

    #[test]
    fn mistakes_name_line_key_and_remedy() {
        for (text, says) in [
            ("[congestion]\nbeta = 1.5", "beta"),
            ("[congestion]\nlaw = \"bbr\"", "unknown value `bbr`"),
            ("[congestion]\nclamp = \"2GiB\"", "\"1B\" to \"1GiB\""),
            ("[congestion]\nclamp = 1000", "unit"),
            ("[congestion]\ntimeout = \"1us\"", "\"1ms\" to \"60s\""),
            ("[congestion]\nfloor = \"10KB\"\nclamp = \"9KB\"", "lower `floor` or raise `clamp`"),
            ("[congestion]\nfloor = \"10KB\"\n[[congestion.rule]]\nclamp = \"9KB\"", "lower `floor` or raise `clamp`"),
            ("[congestion]\nk = \"30KB\"", "unknown"),
            ("[[congestion.rule]]\nport = 1\nports = [1, 2]", "remove one of them"),
            ("[[congestion.rule]]\nports = [2, 1]", "the smaller one first"),
            ("[[congestion.rule]]\nlocal = \"10.0.0.1/8\"", "10.0.0.0/8"),
            ("[[congestion.rule]]\nlocal = \"10.0.0.0/8\"\nremote = \"fd00::/8\"", "both as IPv4"),
            ("[[congestion.rule]]\nnetwork = 16777215", "give 0 to 16777214"),
            (&"[[congestion.rule]]\n".repeat(33), "at most 32"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(says) && error.starts_with("a.toml:") && error.lines().count() == 1,
                "{text}: {error}"
            );
        }
        let all =
            "[congestion]\nbeta = 1.5\ntimeout = \"1us\"\n[[congestion.rule]]\nports = [2, 1]\nclamp = \"2GiB\"\n";
        let said = read(all).unwrap_err();
        let lines: Vec<&str> = said.lines().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(lines, ["5", "4", "7", "8"], "{said}");
        let many: String = (1..=16).map(|n| format!("[[congestion.rule]]\nclamp = \"{n}KB\"\n")).collect();
        assert!(read(&many).unwrap_err().contains("classes"));
    }
}
