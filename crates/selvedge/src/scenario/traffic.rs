//! `[[workload]]`.

use super::hosts::CongestionWord;
use config::{check, closest, within, Invalid, Key, Role, Wrong};
use host::measure::RESERVED;
use host::workload::{Cdf, Connection, Datagrams, FlowList, Pairs, Pattern, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use units::{BitRate, Bytes, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PatternWord {
    Stride,
    RandomBijection,
    Random,
    Shuffle,
    Incast,
    AllToAll,
    Mice,
    Poisson,
    FanOut,
    Long,
    Sequence,
    Staircase,
    List,
}

impl PatternWord {
    /// Flows start by the clock, however many are unfinished.
    pub fn is_open_loop(self) -> bool {
        matches!(self, PatternWord::Poisson | PatternWord::FanOut | PatternWord::Mice | PatternWord::List)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToWord {
    Stride,
    Bijection,
    Random,
    AnyOther,
    OtherRack,
    Fixed,
    Next,
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionWord {
    Fresh,
    Persistent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportWord {
    Tcp,
    Udp,
}

/// `[[workload]]`: which keys count depends on `pattern`; see docs/scenarios.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    /// Begins the names of its metrics; letters, digits, `_`, `-`.
    pub name: String,
    /// `stride`, `random-bijection`, `random`, `shuffle`, `incast`, `all-to-all`, `mice`, `poisson`, `fan-out`,
    /// `long`, `sequence`, `staircase`, `list`.
    pub pattern: PatternWord,
    /// Who sends to whom: `stride`, `bijection`, `random` (drawn once), `any-other`, `other-rack` (drawn per flow),
    /// `fixed`, `next`, `one`.
    pub to: Option<ToWord>,
    /// Host i sends to host i + k; to each of hosts i + 1 to i + k.
    pub k: Option<u32>,
    /// Only this many hosts, the first, send, in a ring of their own.
    pub among: Option<u32>,
    /// `[[0, 4], [1, 5]]`.
    pub pairs: Option<Vec<(u32, u32)>>,
    /// Size of each flow.
    #[schemars(extend("x-range" = ["1B", "1048576GiB"]))]
    pub size: Option<Bytes>,
    /// Bytes of all answers to one request, each equally likely; multiples of `size`.
    pub totals: Option<Vec<Bytes>>,
    /// A request of this size comes before each answer, on the same connection, and the answer's time counts from it.
    #[schemars(extend("x-range" = ["1B", "1MB"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Bytes>,
    /// Period of messages; time between joins.
    pub every: Option<Time>,
    /// Flows that each host sends.
    #[schemars(extend("default" = 1))]
    pub flows_per_host: Option<u32>,
    /// Transfers at a time per host.
    #[schemars(extend("default" = 2))]
    pub concurrent: Option<u32>,
    /// Applications per sending host, 1 to 10000.
    #[schemars(range(min = 1, max = 10_000), extend("default" = 1))]
    pub applications: Option<u32>,
    /// From a message's completion to the next.
    #[schemars(extend("default" = "0s"))]
    pub pause: Option<Time>,
    /// Number of senders: hosts that follow the receiver; the first of all others.
    pub senders: Option<u32>,
    /// Number of the receiving host.
    #[schemars(extend("default" = 0))]
    pub receiver: Option<u32>,
    /// `websearch`, `datamining`, or a file relative to the scenario.
    pub cdf: Option<String>,
    /// Share of `capacity` offered by each host, or with `fan-out` to each host, such as 0.6.
    pub load: Option<f64>,
    /// Capacity per host to which `load` refers.
    pub capacity: Option<BitRate>,
    /// Flow list, relative to the scenario.
    pub path: Option<String>,
    /// Earliest start of a flow.
    #[schemars(extend("default" = "0s"))]
    pub start: Option<Time>,
    /// No flow starts at or after this time.
    pub stop: Option<Time>,
    /// `fresh`, or `persistent`: one connection per pair, kept with its window.
    #[schemars(extend("default" = "fresh"))]
    pub connection: Option<ConnectionWord>,
    /// Persistent connections per pair (in a sequence per application), 1 to 1000, which messages take in turn.
    #[schemars(range(min = 1, max = 1_000), extend("default" = 1))]
    pub connections: Option<u32>,
    /// A flow is complete when its sender has an application-level reply.
    pub reply: Option<bool>,
    /// Flows that would start together start at random times within this span.
    #[schemars(extend("default" = "0s"))]
    pub stagger: Option<Time>,
    /// Workloads of one number share their random pairs.
    #[schemars(extend("default" = 0))]
    pub pairing: Option<u32>,
    /// Strict priority at switches, 0 to 7, 0 first; without effect unless `switch.priorities` is above 1.
    #[schemars(range(min = 0, max = 7), extend("default" = 0))]
    pub priority: Option<u8>,
    /// Law of its connections, at both ends.
    pub congestion: Option<CongestionWord>,
    /// Its senders ignore the receiver's window.
    #[schemars(extend("default" = false))]
    pub ignore_window: Option<bool>,
    /// Largest rate of each connection (payload), with segments spaced; such connections are TCP even if guests speak
    /// MPTCP.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    pub rate_cap: Option<BitRate>,
    /// Whose guests they are: each name is one more guest, with an address of its own, on each host.
    pub tenant: Option<String>,
    /// `tcp`, or `udp`: datagrams at a constant rate, whatever becomes of them.
    #[schemars(extend("default" = "tcp"))]
    pub transport: Option<TransportWord>,
    /// With `udp`: payload of each flow.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    pub rate: Option<BitRate>,
    /// Flows without a size end then.
    pub until: Option<Time>,
}

impl WorkloadTable {
    /// Fills in the defaults; `rate` is the access links', if the scenario names it: the default capacity of a load.
    pub(super) fn complete(&mut self, n: usize, rate: Option<BitRate>) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        use PatternWord::*;
        use Role::*;
        let at = format!("workload.{n}");
        let pattern = self.pattern;
        let addressed = matches!(pattern, Mice | Poisson | Long | Sequence | Staircase);
        if addressed {
            self.to.get_or_insert(match pattern {
                Long | Staircase => ToWord::Fixed,
                Sequence => ToWord::AnyOther,
                _ => ToWord::OtherRack,
            });
        }
        let needed = |is: bool| if is { Needed } else { Meaningless };
        let optional = |is: bool| if is { Optional } else { Meaningless };
        let is = |patterns: &[PatternWord]| patterns.contains(&pattern);
        let size = if is(&[Shuffle, Incast, AllToAll, Mice, FanOut]) {
            Needed
        } else if pattern == Sequence {
            // Beside `cdf` it is refused below.
            if self.cdf.is_none() {
                Needed
            } else {
                Optional
            }
        } else {
            optional(is(&[Stride, RandomBijection, Random, Long]))
        };
        let every = if is(&[Mice, Staircase]) { Needed } else { optional(pattern == Incast) };
        let word = serde_json::to_string(&pattern).unwrap_or_default();
        let mut choice = format!("pattern = {word}");
        if let Some(to) = self.to.filter(|_| addressed) {
            choice += &format!(" and to = {}", serde_json::to_string(&to).unwrap_or_default());
        }
        if pattern == Sequence && self.size.is_some() && self.cdf.is_some() {
            wrong.add(Invalid::value(format!("{at}.cdf"), "is given beside `size`", "keep one of them"));
        }
        let loaded = is(&[Poisson, FanOut]);
        let stagger = is(&[Stride, RandomBijection, Random, Long, Shuffle, Sequence, Incast]);
        let (next, one) = (self.to == Some(ToWord::Next), self.to == Some(ToWord::One));
        let pairing =
            is(&[RandomBijection, Random]) || matches!(self.to, Some(ToWord::Bijection | ToWord::Random)) && addressed;
        wrong.note(check(
            &at,
            &choice,
            &[
                Key { name: "to", given: self.to.is_some(), role: optional(addressed) },
                Key {
                    name: "k",
                    given: self.k.is_some(),
                    role: needed(pattern == Stride || self.to == Some(ToWord::Stride) || next),
                },
                Key { name: "among", given: self.among.is_some(), role: optional(next) },
                Key { name: "pairs", given: self.pairs.is_some(), role: needed(self.to == Some(ToWord::Fixed)) },
                Key { name: "size", given: self.size.is_some(), role: size },
                Key { name: "totals", given: self.totals.is_some(), role: needed(pattern == FanOut) },
                Key { name: "request", given: self.request.is_some(), role: optional(pattern == FanOut) },
                Key { name: "every", given: self.every.is_some(), role: every },
                Key { name: "flows_per_host", given: self.flows_per_host.is_some(), role: optional(pattern == Random) },
                Key { name: "concurrent", given: self.concurrent.is_some(), role: optional(pattern == Shuffle) },
                Key { name: "applications", given: self.applications.is_some(), role: optional(pattern == Sequence) },
                Key { name: "pause", given: self.pause.is_some(), role: optional(pattern == Sequence) },
                Key { name: "senders", given: self.senders.is_some(), role: needed(pattern == Incast || one) },
                Key { name: "receiver", given: self.receiver.is_some(), role: optional(pattern == Incast || one) },
                Key {
                    name: "cdf",
                    given: self.cdf.is_some(),
                    role: if pattern == Sequence { Optional } else { needed(pattern == Poisson) },
                },
                Key { name: "load", given: self.load.is_some(), role: needed(loaded) },
                Key {
                    name: "capacity",
                    given: self.capacity.is_some(),
                    role: if rate.is_none() { needed(loaded) } else { optional(loaded) },
                },
                Key { name: "path", given: self.path.is_some(), role: needed(pattern == List) },
                Key { name: "start", given: self.start.is_some(), role: Optional },
                Key { name: "stop", given: self.stop.is_some(), role: Optional },
                Key { name: "connection", given: self.connection.is_some(), role: optional(pattern != List) },
                Key { name: "connections", given: self.connections.is_some(), role: optional(pattern != List) },
                Key { name: "reply", given: self.reply.is_some(), role: optional(pattern != List) },
                Key { name: "stagger", given: self.stagger.is_some(), role: optional(stagger) },
                Key { name: "pairing", given: self.pairing.is_some(), role: optional(pairing) },
                Key { name: "priority", given: self.priority.is_some(), role: Optional },
                Key { name: "congestion", given: self.congestion.is_some(), role: Optional },
                Key { name: "ignore_window", given: self.ignore_window.is_some(), role: Optional },
                Key { name: "rate_cap", given: self.rate_cap.is_some(), role: Optional },
                Key { name: "tenant", given: self.tenant.is_some(), role: Optional },
                Key { name: "transport", given: self.transport.is_some(), role: optional(pattern == Long) },
                Key {
                    name: "until",
                    given: self.until.is_some(),
                    role: optional(is(&[Stride, RandomBijection, Random, Long]) && self.size.is_none()),
                },
            ],
        ));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || !self.name.chars().all(legal) || self.name.starts_with(|c: char| c.is_ascii_digit())
        {
            let problem = format!("{:?} cannot name metrics", self.name);
            let remedy = "use letters, digits, `_` and `-`, a letter first";
            wrong.add(Invalid::value(format!("{at}.name"), problem, remedy));
        }
        if RESERVED.contains(&self.name.as_str()) {
            let problem = format!("{:?} begins the names of other metrics", self.name);
            wrong.add(Invalid::value(format!("{at}.name"), problem, "choose another name"));
        }
        wrong.note(self.check_datagrams(&at));
        if let Some(size) = self.size {
            wrong.note(within(&format!("{at}.size"), size, Bytes(1), Bytes(1 << 50)));
        }
        if let Some(request) = self.request {
            wrong.note(within(&format!("{at}.request"), request, Bytes(1), Bytes(1_000_000)));
            if self.connection == Some(ConnectionWord::Persistent) || self.reply == Some(true) {
                let remedy = "remove it, or `connection` and `reply`";
                wrong.add(Invalid::new(format!("{at}.request"), "needs fresh connections without a reply", remedy));
            }
        }
        for (key, value) in [("every", self.every), ("stop", self.stop)] {
            if value == Some(Time::ZERO) {
                wrong.add(Invalid::value(format!("{at}.{key}"), "is zero", "give a time above 0s"));
            }
        }
        if let (Some(start), Some(stop)) = (self.start, self.stop) {
            if start >= stop {
                let problem = format!("{stop} is not after start {start}");
                wrong.add(Invalid::new(format!("{at}.stop"), problem, "give a later time"));
            }
        }
        if let Some(until) = self.until.filter(|&until| until <= self.start.unwrap_or_default()) {
            let problem = format!("{until} is not after start {}", self.start.unwrap_or_default());
            wrong.add(Invalid::new(format!("{at}.until"), problem, "give a later time"));
        }
        self.start.get_or_insert(Time::ZERO);
        if pattern == Random {
            self.flows_per_host.get_or_insert(1);
        }
        if pattern == Shuffle {
            self.concurrent.get_or_insert(2);
        }
        if pattern == Incast || one {
            self.receiver.get_or_insert(0);
        }
        if pattern == Sequence {
            let applications = *self.applications.get_or_insert(1);
            wrong.note(within(&format!("{at}.applications"), applications, 1, 10_000));
            self.pause.get_or_insert(Time::ZERO);
        }
        if loaded {
            self.capacity = self.capacity.or(rate);
            if let Some(load) = self.load.filter(|load| !(load.is_finite() && *load > 0.0)) {
                let problem = format!("load {load} is not above 0 and finite");
                wrong.add(Invalid::value(format!("{at}.load"), problem, "0.6 stands for 60% of the capacity"));
            }
        }
        let udp = self.transport == Some(TransportWord::Udp);
        if pattern != List && !udp {
            let connection = *self.connection.get_or_insert(ConnectionWord::Fresh);
            if connection == ConnectionWord::Fresh && self.connections.is_some_and(|n| n > 1) {
                let problem = "has no meaning with connection = \"fresh\"";
                let remedy = "remove it, or write connection = \"persistent\"";
                wrong.add(Invalid::new(format!("{at}.connections"), problem, remedy));
            }
            wrong.note(within(&format!("{at}.connections"), *self.connections.get_or_insert(1), 1, 1_000));
            self.reply.get_or_insert(pattern == Mice);
        }
        if stagger {
            self.stagger.get_or_insert(Time::ZERO);
        }
        if pairing {
            self.pairing.get_or_insert(0);
        }
        if !udp {
            self.ignore_window.get_or_insert(false);
        }
        if let Some(cap) = self.rate_cap {
            wrong.note(within(&format!("{at}.rate_cap"), cap, BitRate::from_bps(1_000), BitRate::from_gbps(1_000)));
        }
        wrong.note(within(&format!("{at}.priority"), *self.priority.get_or_insert(0), 0, 7));
        wrong.or(())
    }

    fn check_datagrams(&self, at: &str) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        let udp = self.transport == Some(TransportWord::Udp);
        let choice = if udp { "transport = \"udp\"" } else { "transport = \"tcp\"" };
        let only_tcp = |name, given| Key { name, given, role: if udp { Role::Meaningless } else { Role::Optional } };
        wrong.note(check(
            at,
            choice,
            &[
                Key {
                    name: "rate",
                    given: self.rate.is_some(),
                    role: if udp { Role::Needed } else { Role::Meaningless },
                },
                only_tcp("size", self.size.is_some()),
                only_tcp("connection", self.connection.is_some()),
                only_tcp("connections", self.connections.is_some()),
                only_tcp("reply", self.reply.is_some()),
                only_tcp("congestion", self.congestion.is_some()),
                only_tcp("ignore_window", self.ignore_window.is_some()),
                only_tcp("rate_cap", self.rate_cap.is_some()),
            ],
        ));
        if let Some(rate) = self.rate {
            wrong.note(within(&format!("{at}.rate"), rate, BitRate::from_bps(1_000), BitRate::from_gbps(1_000)));
        }
        wrong.or(())
    }

    /// Call [`WorkloadTable::complete`] first. Files are `beside` the scenario; there are `hosts`, and the run lasts until `end`.
    pub(super) fn build(&self, n: usize, beside: &Path, hosts: u32, end: Time) -> Result<Workload, Invalid> {
        let size = self.size.unwrap_or_default();
        let k = self.k.unwrap_or_default();
        let pairs = || match self.to {
            Some(ToWord::Stride) => Pairs::Stride(k),
            Some(ToWord::Bijection) => Pairs::Bijection,
            Some(ToWord::Random) => Pairs::Random,
            Some(ToWord::AnyOther) => Pairs::AnyOther,
            Some(ToWord::OtherRack) | None => Pairs::OtherRack,
            Some(ToWord::Fixed) => Pairs::Fixed(self.pairs.clone().unwrap_or_default()),
            Some(ToWord::Next) => Pairs::Next { count: k, among: self.among },
            Some(ToWord::One) => {
                Pairs::Into { senders: self.senders.unwrap_or_default(), receiver: self.receiver.unwrap_or_default() }
            }
        };
        let pattern = match self.pattern {
            PatternWord::Stride => Pattern::Stride { k, size: self.size },
            PatternWord::RandomBijection => Pattern::RandomBijection { size: self.size },
            PatternWord::Random => {
                Pattern::Random { flows_per_host: self.flows_per_host.unwrap_or(1), size: self.size }
            }
            PatternWord::Shuffle => Pattern::Shuffle { size, concurrent: self.concurrent.unwrap_or(2) },
            PatternWord::Incast => Pattern::Incast {
                senders: self.senders.unwrap_or_default(),
                receiver: self.receiver.unwrap_or_default(),
                size,
                every: self.every,
            },
            PatternWord::AllToAll => Pattern::AllToAll { size },
            PatternWord::Mice => Pattern::Mice { size, every: self.every.unwrap_or_default(), to: pairs() },
            PatternWord::Poisson => Pattern::Poisson {
                cdf: self.cdf(n, beside)?,
                load: self.load.unwrap_or_default(),
                capacity: self.capacity.unwrap_or_default(),
                pairs: pairs(),
            },
            PatternWord::FanOut => Pattern::FanOut {
                size,
                totals: self.totals.clone().unwrap_or_default(),
                load: self.load.unwrap_or_default(),
                capacity: self.capacity.unwrap_or_default(),
            },
            PatternWord::Long => Pattern::Long { pairs: pairs(), size: self.size },
            PatternWord::Sequence => Pattern::Sequence {
                size: match self.size {
                    Some(size) => Cdf::constant(size.get()).map_err(|e| {
                        Invalid::new(format!("workload.{n}.size"), e.to_string(), "choose a smaller size")
                    })?,
                    None => self.cdf(n, beside)?,
                },
                applications: self.applications.unwrap_or(1),
                pause: self.pause.unwrap_or_default(),
                to: pairs(),
            },
            PatternWord::Staircase => Pattern::Staircase { pairs: pairs(), every: self.every.unwrap_or_default() },
            PatternWord::List => Pattern::List(self.list(n, beside, hosts, end)?),
        };
        let mut workload = Workload::new(self.name.clone(), pattern);
        workload.start = self.start.unwrap_or_default();
        workload.stop = self.stop;
        workload.request = self.request;
        workload.reply = self.reply.unwrap_or(workload.reply);
        workload.stagger = self.stagger.unwrap_or_default();
        workload.pairing = self.pairing.unwrap_or_default();
        workload.priority = self.priority.unwrap_or_default();
        workload.ignore_window = self.ignore_window.unwrap_or_default();
        workload.rate_cap = self.rate_cap;
        workload.until = self.until;
        workload.datagrams = self.rate.map(|rate| Datagrams { rate });
        workload.congestion = self.congestion.map(|word| word.0);
        workload.connection = match self.connection {
            Some(ConnectionWord::Persistent) => Connection::Persistent,
            _ => Connection::Fresh,
        };
        workload.connections = self.connections.unwrap_or(1);
        Ok(workload)
    }

    fn cdf(&self, n: usize, beside: &Path) -> Result<Cdf, Invalid> {
        let name = self.cdf.as_deref().unwrap_or_default();
        if let Some(cdf) = Cdf::built_in(name) {
            return Ok(cdf);
        }
        let key = format!("workload.{n}.cdf");
        let path = beside.join(name);
        let known: Vec<&str> = Cdf::BUILT_IN.iter().map(|(name, _)| *name).collect();
        let text = files::read_text(&path, crate::input::CDF).map_err(|e| {
            let remedy = match closest(name, known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"? (or a readable file)"),
                None => format!("write one of {} or the path of a file", known.join(", ")),
            };
            let problem = format!("{name:?} is no built-in distribution and cannot be read as a file: {e}");
            Invalid::new(key.clone(), problem, remedy)
        })?;
        Cdf::parse(&path.display().to_string(), &text)
            .map_err(|e| Invalid::new(key, e.to_string(), "correct that file"))
    }

    fn list(&self, n: usize, beside: &Path, hosts: u32, end: Time) -> Result<Vec<host::workload::FlowSpec>, Invalid> {
        let key = format!("workload.{n}.path");
        let path = beside.join(self.path.as_deref().unwrap_or_default());
        let shown = path.display().to_string();
        let text = files::read_text(&path, crate::input::FLOWS)
            .map_err(|e| Invalid::new(key.clone(), format!("cannot read {shown}: {e}"), "give a readable flow list"))?;
        let wrong = |e: host::workload::ImportError| Invalid::new(key.clone(), e.to_string(), "correct that file");
        let list = FlowList::parse(&shown, &text).map_err(wrong)?;
        let end = self.stop.map_or(end, |stop| stop.min(end));
        list.check(&shown, hosts, self.start.unwrap_or_default(), end).map_err(wrong)?;
        Ok(list.flows)
    }
}
