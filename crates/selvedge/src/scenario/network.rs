//! `[topology]`, `[switch]` and `[[failure]]`.

use super::queues::CodelTable;
use config::{check, within, ConfigError, Document, Faults, Invalid, Key, OrOff, Role, Wrong};
use fabric::{Aqm, Buffer, Multipath, Notify, Pace, Parallel, SwitchConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::{Clos, Dumbbell, FatTree, ParkingLot, SingleSwitch};
use units::{BitRate, Bytes, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Clos,
    FatTree,
    SingleSwitch,
    Dumbbell,
    ParkingLot,
    File,
}

/// `[topology]`: which keys count depends on `kind`; see docs/scenarios.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyTable {
    /// `clos` (two tiers), `fat-tree` (three), `single-switch`, `dumbbell`, `parking-lot`, `file`.
    pub kind: Kind,
    /// Leaf switches `leaf1` ...
    #[schemars(extend("default" = 4))]
    pub leaves: Option<u32>,
    /// Spine switches `spine1` ...
    #[schemars(extend("default" = 4))]
    pub spines: Option<u32>,
    /// Links between each leaf and each spine; the second is `leaf1-spine1#2`.
    #[schemars(extend("default" = 1))]
    pub parallel: Option<u32>,
    /// Hosts `host0` ...
    #[schemars(extend("default" = 4))]
    pub hosts_per_leaf: Option<u32>,
    /// Ports per switch, even; k^3/4 hosts.
    pub k: Option<u32>,
    /// Hosts at each edge switch.
    pub hosts_per_edge: Option<u32>,
    /// Rate of an edge switch's hosts over that of its links up; gives `hosts_per_edge`.
    #[schemars(range(max = 1000.0), extend("exclusiveMinimum" = 0.0))]
    pub oversubscription: Option<f64>,
    /// Number of hosts.
    pub hosts: Option<u32>,
    /// Hosts on either side.
    pub pairs: Option<u32>,
    /// Bottlenecks in a row; host 0 to host 1 crosses all.
    pub hops: Option<u32>,
    /// Rate of hosts' links.
    #[schemars(extend("default" = "10Gbps"))]
    pub rate: Option<BitRate>,
    /// One-way delay of hosts' links.
    #[schemars(extend("default" = "1us"))]
    pub delay: Option<Time>,
    /// Rate of links between switches.
    pub fabric_rate: Option<BitRate>,
    /// One-way delay of links between switches.
    pub fabric_delay: Option<Time>,
    /// Topology file in the HPCC form: `nodes switches links`, the switches' numbers, then `src dst rate delay error`
    /// per line; relative to the scenario.
    pub path: Option<String>,
}

/// The key of a topology file.
pub(super) const PATH: &str = "topology.path";

/// The fabric of a file that needs to hold nothing but a `[topology]`.
///
/// # Errors
/// All that is wrong with that table, or that there is none.
pub fn fabric(document: &Document) -> Result<topology::Topology, ConfigError> {
    let Some(section) = document.table().get("topology").and_then(toml::Value::as_table) else {
        let invalid =
            Invalid::new("topology", "is missing", "add [topology] with a kind; docs/scenarios.md has its keys");
        return Err(document.error(&invalid));
    };
    let mut faults = Faults::of(document);
    let table = faults.read_table::<TopologyTable>(section, "topology");
    let sound = table.and_then(|mut table| faults.note(table.complete()).map(|()| table));
    let sound = sound.filter(|_| faults.is_empty());
    let built = sound.and_then(|table| faults.note(table.build(&document.directory_of(PATH))));
    faults.unless(built)
}

impl TopologyTable {
    fn choice(&self) -> String {
        let kind = serde_json::to_string(&self.kind).unwrap_or_default();
        format!("kind = {kind}")
    }

    /// Fills in the defaults.
    ///
    /// # Errors
    /// Keys that contradict one another.
    pub(super) fn complete(&mut self) -> Result<(), Wrong> {
        use Kind::*;
        use Role::*;
        let kind = self.kind;
        let role = |kinds: &[Kind]| if kinds.contains(&kind) { Optional } else { Meaningless };
        let needed = |only: Kind| if kind == only { Needed } else { Meaningless };
        let wired = if kind == File { Meaningless } else { Optional };
        let fabric = role(&[Clos, FatTree, Dumbbell, ParkingLot]);
        let mut wrong = Wrong::new();
        wrong.note(check(
            "topology",
            &self.choice(),
            &[
                Key { name: "leaves", given: self.leaves.is_some(), role: role(&[Clos]) },
                Key { name: "spines", given: self.spines.is_some(), role: role(&[Clos]) },
                Key { name: "parallel", given: self.parallel.is_some(), role: role(&[Clos]) },
                Key { name: "hosts_per_leaf", given: self.hosts_per_leaf.is_some(), role: role(&[Clos]) },
                Key { name: "k", given: self.k.is_some(), role: needed(FatTree) },
                Key { name: "hosts_per_edge", given: self.hosts_per_edge.is_some(), role: role(&[FatTree]) },
                Key { name: "oversubscription", given: self.oversubscription.is_some(), role: role(&[FatTree]) },
                Key { name: "hosts", given: self.hosts.is_some(), role: needed(SingleSwitch) },
                Key { name: "pairs", given: self.pairs.is_some(), role: needed(Dumbbell) },
                Key { name: "hops", given: self.hops.is_some(), role: needed(ParkingLot) },
                Key { name: "rate", given: self.rate.is_some(), role: wired },
                Key { name: "delay", given: self.delay.is_some(), role: wired },
                Key { name: "fabric_rate", given: self.fabric_rate.is_some(), role: fabric },
                Key { name: "fabric_delay", given: self.fabric_delay.is_some(), role: fabric },
                Key { name: "path", given: self.path.is_some(), role: needed(File) },
            ],
        ));
        if wired == Optional {
            self.rate.get_or_insert(BitRate::from_gbps(10));
            self.delay.get_or_insert(Time::from_us(1));
        }
        if fabric == Optional {
            self.fabric_rate = self.fabric_rate.or(self.rate);
            self.fabric_delay = self.fabric_delay.or(self.delay);
        }
        if kind == Clos {
            self.leaves.get_or_insert(4);
            self.spines.get_or_insert(4);
            self.parallel.get_or_insert(1);
            self.hosts_per_leaf.get_or_insert(4);
        }
        wrong.note(self.oversubscribe());
        wrong.or(())
    }

    /// Hosts of each edge switch for an `oversubscription`, which then is no longer given: what is in effect names the hosts.
    fn oversubscribe(&mut self) -> Result<(), Invalid> {
        let Some(ratio) = self.oversubscription else { return Ok(()) };
        let key = "topology.oversubscription";
        if self.hosts_per_edge.is_some() {
            return Err(Invalid::new(key, "is given beside `hosts_per_edge`", "keep one of them"));
        }
        if !(ratio > 0.0 && ratio <= 1000.0) {
            return Err(Invalid::new(key, format!("{ratio} is out of range"), "give a number above 0, to 1000"));
        }
        let [host, up] = [self.rate, self.fabric_rate].map(|rate| rate.unwrap_or_default().as_bps() as f64);
        let balanced = f64::from(self.k.unwrap_or_default() / 2) * up / host.max(1.0);
        let hosts = ratio * balanced;
        let whole = hosts.round().max(1.0);
        if balanced == 0.0 {
            return Ok(()); // the builder refuses that `k`
        }
        if (hosts - whole).abs() > 1e-6 * whole {
            let problem = format!("{ratio} would take {hosts:.3} hosts at each edge switch");
            let near = ((whole / balanced) * 1e6).round() / 1e6;
            return Err(Invalid::new(key, problem, format!("give hosts_per_edge = {whole}, which is {near}:1")));
        }
        // A fabric of so many hosts is refused by its builder.
        self.hosts_per_edge = Some(whole.min(f64::from(u32::MAX)) as u32);
        self.oversubscription = None;
        Ok(())
    }

    /// A small fabric, for checks of a scenario whose own is wrong.
    pub(super) fn stand_in() -> Option<topology::Topology> {
        let mut table: TopologyTable = toml::from_str("kind = \"clos\"").ok()?;
        table.complete().ok()?;
        table.build(std::path::Path::new("")).ok()
    }

    /// The fabric. Call [`TopologyTable::complete`] first; `beside` resolves the path of a topology file.
    pub(super) fn build(&self, beside: &std::path::Path) -> Result<topology::Topology, Invalid> {
        let host_rate = self.rate.unwrap_or_default();
        let host_delay = self.delay.unwrap_or_default();
        let rate = self.fabric_rate.unwrap_or_default();
        let delay = self.fabric_delay.unwrap_or_default();
        let built = match self.kind {
            Kind::Clos => Clos {
                leaves: self.leaves.unwrap_or_default(),
                spines: self.spines.unwrap_or_default(),
                parallel_links: self.parallel.unwrap_or_default(),
                hosts_per_leaf: self.hosts_per_leaf.unwrap_or_default(),
                host_rate,
                host_delay,
                fabric_rate: rate,
                fabric_delay: delay,
            }
            .build(),
            Kind::FatTree => {
                let k = self.k.unwrap_or_default();
                let hosts_per_edge = self.hosts_per_edge.unwrap_or(k / 2);
                FatTree { k, hosts_per_edge, host_rate, host_delay, fabric_rate: rate, fabric_delay: delay }.build()
            }
            Kind::SingleSwitch => SingleSwitch { hosts: self.hosts.unwrap_or_default(), host_rate, host_delay }.build(),
            Kind::Dumbbell => Dumbbell {
                pairs: self.pairs.unwrap_or_default(),
                host_rate,
                host_delay,
                bottleneck_rate: rate,
                bottleneck_delay: delay,
            }
            .build(),
            Kind::ParkingLot => ParkingLot {
                hops: self.hops.unwrap_or_default(),
                host_rate,
                host_delay,
                hop_rate: rate,
                hop_delay: delay,
            }
            .build(),
            Kind::File => return self.import(beside),
        };
        built.map_err(|e| {
            let (problem, remedy) = halves(&e.to_string().replace("parallel_links", "parallel"));
            let key = match e {
                topology::TopologyError::TooLarge { .. } => self.largest(),
                _ => None,
            };
            let key = key.unwrap_or(problem.split([' ', ',']).next().unwrap_or_default()).to_owned();
            let key = match key.as_str() {
                "host_rate" => "topology.rate".to_owned(),
                "host_delay" => "topology.delay".to_owned(),
                "bottleneck_rate" | "hop_rate" => "topology.fabric_rate".to_owned(),
                "bottleneck_delay" | "hop_delay" => "topology.fabric_delay".to_owned(),
                other => format!("topology.{other}"),
            };
            Invalid::new(key, problem, remedy)
        })
    }

    /// The key that has the most to do with a fabric's size.
    fn largest(&self) -> Option<&'static str> {
        let sizes = [
            ("leaves", self.leaves),
            ("spines", self.spines),
            ("parallel", self.parallel),
            ("hosts_per_leaf", self.hosts_per_leaf),
            ("k", self.k),
            ("hosts_per_edge", self.hosts_per_edge),
            ("hosts", self.hosts),
            ("pairs", self.pairs),
            ("hops", self.hops),
        ];
        sizes.into_iter().rev().max_by_key(|(_, size)| *size).map(|(key, _)| key)
    }

    fn import(&self, beside: &std::path::Path) -> Result<topology::Topology, Invalid> {
        let path = beside.join(self.path.as_deref().unwrap_or_default());
        let shown = path.display();
        let text = files::read_text(&path, crate::input::TOPOLOGY).map_err(|e| {
            Invalid::new("topology.path", format!("cannot read {shown}: {e}"), "give a readable topology file")
        })?;
        topology::import(&text).map_err(|e| {
            let (problem, remedy) = halves(&e.problem.to_string());
            Invalid::new("topology.path", format!("{shown}:{}: {problem}", e.line), remedy)
        })
    }

    /// All hosts on one switch, with the access links of `base`, which must be alike.
    pub(super) fn non_blocking(base: &topology::Topology) -> Result<topology::Topology, Invalid> {
        let access = |host| base.links[base.host_link(host) as usize];
        let (host_rate, host_delay) = (access(0).rate, access(0).delay);
        if let Some(other) = base.hosts().find(|&h| (access(h).rate, access(h).delay) != (host_rate, host_delay)) {
            let problem = format!("hosts 0 and {other} have different access links");
            return Err(Invalid::new("topology", problem, "leave out the scheme on a single switch"));
        }
        SingleSwitch { hosts: base.n_hosts() as u32, host_rate, host_delay }
            .build()
            .map_err(|e| Invalid::new("topology", e.to_string(), "choose a smaller fabric"))
    }
}

/// Splits "what is wrong: what to do" at its last colon that is not within parentheses.
fn halves(text: &str) -> (String, String) {
    let count = |text: &str, of: char| text.matches(of).count();
    let mut colons = text.rmatch_indices(": ").map(|(at, _)| text.split_at(at));
    match colons.find(|(_, rest)| count(rest, ')') <= count(rest, '(')) {
        Some((problem, remedy)) => (problem.to_owned(), remedy.trim_start_matches(": ").to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MultipathWord {
    Ecmp,
    Wcmp,
    EcmpFlowcell,
    Spray,
    #[serde(rename = "letflow")]
    LetFlow,
    Conga,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParallelWord {
    Hash,
    InOrder,
}

/// `[switch]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchTable {
    /// Buffer of a whole switch if shared, else of each port.
    #[schemars(extend("x-range" = ["1538B", "1024GiB"]))]
    pub buffer: Bytes,
    /// Ports share the buffer by dynamic threshold.
    pub shared: bool,
    /// A port may hold alpha times the free buffer.
    #[schemars(range(max = 1024.0), extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Strict-priority queues per port.
    #[schemars(range(min = 1, max = 8))]
    pub priorities: u8,
    /// Choice among equal paths for packets without a label: hash of the 5-tuple, the same with each next hop weighted
    /// by the capacity behind it, hash of 5-tuple and flowcell, random per packet, random per flowlet, or CONGA.
    pub multipath: MultipathWord,
    /// With `letflow` and `conga`: a flow's pause that ends a flowlet.
    #[schemars(extend("x-range" = ["1us", "4s"]))]
    pub flowlet_gap: Time,
    /// Which of several links to one switch a spine takes: by `multipath`, or the k-th for what came over the k-th; without
    /// that one, one of those left.
    pub parallel: ParallelWord,
    /// Packets lost at random on every link.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub loss_per_million: u32,
    /// Time from a failure to the change of the switches' tables.
    #[schemars(extend("x-range" = ["0s", "1000s"]))]
    pub reroute_after: Time,
    /// Marking at the instantaneous queue: DCTCP's threshold, or RED.
    pub ecn: Option<EcnTable>,
    /// Switches tell the source of each TCP packet that they drop (FastLane), see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyTable>,
    /// CoDel (RFC 8289) instead of `ecn`: queue management by how long packets wait, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<CodelTable>,
    /// Sources of TCP packets that CoDel picks out get an ICMP Source Quench.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quench: bool,
    /// Packets wait in order of ranks that guests give them, and put out those that rank behind them where there is no room; needs
    /// `host.tcp.pfabric`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pfabric: bool,
}

/// `notify = {}` or `notify = {share_per_million = 10_000, buffer = "3.2KB"}`: what notifications may cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotifyTable {
    /// Share of each link's rate that notifications get while data waits; 1000000 caps nothing.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub share_per_million: u32,
    /// One notification in this time instead, whatever the link's rate.
    #[schemars(extend("x-range" = ["1ns", "1s"]))]
    pub every: OrOff<Time>,
    /// Notifications that wait at a port; more are dropped.
    #[schemars(extend("x-range" = ["64B", "1MB"]))]
    pub buffer: OrOff<Bytes>,
    /// Notifications leave at once where no data waits.
    pub work_conserving: bool,
}

impl Default for NotifyTable {
    fn default() -> Self {
        NotifyTable {
            share_per_million: 10_000,
            every: OrOff(None),
            buffer: OrOff(Some(Bytes(3_200))),
            work_conserving: true,
        }
    }
}

impl NotifyTable {
    fn build(&self) -> Result<Notify, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("switch.notify.share_per_million", self.share_per_million, 1, 1_000_000));
        if let Some(every) = self.every.0 {
            wrong.note(within("switch.notify.every", every, Time::from_ns(1), Time::from_secs(1)));
        }
        if let Some(buffer) = self.buffer.0 {
            wrong.note(within("switch.notify.buffer", buffer, Bytes(64), Bytes(1_000_000)));
        }
        let pace = match (self.every.0, self.share_per_million) {
            (Some(every), _) => Pace::Every(every),
            (None, 1_000_000) => Pace::Unlimited,
            (None, per_million) => Pace::Share { per_million },
        };
        wrong.or(Notify { pace, buffer: self.buffer.0, work_conserving: self.work_conserving })
    }
}

/// `ecn = {k = ...}` or `ecn = {kmin = ..., kmax = ..., pmax = ...}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnTable {
    pub k: Option<Bytes>,
    pub kmin: Option<Bytes>,
    pub kmax: Option<Bytes>,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pmax: Option<f64>,
}

impl Default for SwitchTable {
    fn default() -> Self {
        SwitchTable {
            buffer: Bytes(9_000_000),
            shared: true,
            alpha: 1.0,
            priorities: 1,
            multipath: MultipathWord::Ecmp,
            flowlet_gap: Time::from_us(500),
            parallel: ParallelWord::Hash,
            loss_per_million: 0,
            reroute_after: Time::from_ms(10),
            ecn: None,
            notify: None,
            codel: None,
            quench: false,
            pfabric: false,
        }
    }
}

impl SwitchTable {
    pub(super) fn build(&self) -> Result<SwitchConfig, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("switch.buffer", self.buffer, Bytes(1538), Bytes(1 << 40)));
        wrong.note(within("switch.priorities", self.priorities, 1, 8));
        wrong.note(within("switch.loss_per_million", self.loss_per_million, 0, 1_000_000));
        wrong.note(within("switch.flowlet_gap", self.flowlet_gap, Time::from_us(1), Time::from_secs(4)));
        wrong.note(within("switch.reroute_after", self.reroute_after, Time::ZERO, Time::from_secs(1000)));
        if !(self.alpha > 0.0 && self.alpha <= 1024.0) {
            let problem = format!("{} is out of range", self.alpha);
            wrong.add(Invalid::value("switch.alpha", problem, "give a number above 0, up to 1024, such as 1.0"));
        }
        let buffer = match self.shared {
            true => Buffer::Shared { total: self.buffer, alpha: self.alpha },
            false => Buffer::PerPort(self.buffer),
        };
        let codel = wrong.note(self.codel.as_ref().map(CodelTable::build).transpose()).flatten();
        let ecn = wrong.note(self.ecn.as_ref().map(EcnTable::build).transpose()).flatten();
        if self.ecn.is_some() && self.codel.is_some() {
            wrong.add(Invalid::value("switch.codel", "is given beside `ecn`", "keep one of them"));
        }
        if self.quench && self.codel.is_none() {
            let problem = "nothing says when sources are quenched";
            wrong.add(Invalid::new("switch.quench", problem, "add `codel = {}` to [switch], or remove it"));
        }
        let aqm = ecn.or(codel.map(Aqm::Codel));
        let notify = wrong.note(self.notify.as_ref().map(NotifyTable::build).transpose()).flatten();
        let (ranked, quench) = (self.pfabric, self.quench);
        let parallel = match self.parallel {
            ParallelWord::Hash => Parallel::Hash,
            ParallelWord::InOrder => Parallel::InOrder,
        };
        wrong.or(SwitchConfig { buffer, aqm, priorities: self.priorities, parallel, notify, ranked, quench })
    }

    pub(super) fn multipath(&self) -> Multipath {
        match self.multipath {
            MultipathWord::Ecmp => Multipath::Ecmp,
            MultipathWord::Wcmp => Multipath::Wcmp,
            MultipathWord::EcmpFlowcell => Multipath::EcmpFlowcell,
            MultipathWord::Spray => Multipath::Spray,
            MultipathWord::LetFlow => Multipath::LetFlow { gap: self.flowlet_gap },
            MultipathWord::Conga => Multipath::Conga { gap: self.flowlet_gap },
        }
    }
}

impl EcnTable {
    fn build(&self) -> Result<Aqm, Wrong> {
        let mut wrong = Wrong::new();
        let remedy = "write {k = \"65KB\"} or {kmin = \"50KB\", kmax = \"100KB\", pmax = 0.1}";
        match (self.k, self.kmin, self.kmax, self.pmax) {
            (Some(k), None, None, None) => Ok(Aqm::Threshold { k }),
            (None, Some(kmin), Some(kmax), Some(pmax)) => {
                if kmin > kmax {
                    let problem = format!("kmin {kmin} is above kmax {kmax}");
                    wrong.add(Invalid::value("switch.ecn.kmin", problem, "exchange them"));
                }
                wrong.note(within("switch.ecn.pmax", pmax, 0.0, 1.0));
                wrong.or(Aqm::Red { kmin, kmax, pmax })
            }
            _ => Err(Invalid::new("switch.ecn", "needs either k or all of kmin, kmax and pmax", remedy).into()),
        }
    }
}

/// `[[failure]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureTable {
    /// Time of the change.
    pub at: Time,
    /// Between switches, such as `"leaf1-spine2"`; `#2` after it is the second of parallel links.
    pub link: String,
    /// `true`: the link recovers.
    #[serde(default)]
    pub up: bool,
}

impl FailureTable {
    pub(super) fn build(&self, n: usize, fabric: &topology::Topology) -> Result<topology::LinkId, Invalid> {
        fabric.link_named(&self.link).ok_or_else(|| {
            let links: Vec<String> = fabric.fabric_links().map(|l| fabric.link_name(l)).collect();
            let near = config::closest(&self.link, links.iter().map(String::as_str));
            let remedy = match near.or(links.first().map(String::as_str)) {
                Some(link) => format!("did you mean \"{link}\"? (links join two nodes by `-`, lower tier first)"),
                None => "this fabric has no link between switches; remove the failure".to_owned(),
            };
            Invalid::new(format!("failure.{n}.link"), format!("there is no link {:?}", self.link), remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn a_colon_within_parentheses_parts_nothing() {
        let of = |text: &str| {
            let (problem, remedy) = halves(text);
            format!("{problem} | {remedy}")
        };
        assert_eq!(of("t:3: rate 0bps: give more"), "t:3: rate 0bps | give more");
        assert_eq!(
            of("t:3: \"1\" is no rate: write \"1Gbps\" (units: bps, Kbps)"),
            "t:3: \"1\" is no rate | write \"1Gbps\" (units: bps, Kbps)"
        );
        assert_eq!(of("nothing"), "nothing | ");
    }
}
