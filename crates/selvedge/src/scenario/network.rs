//! `[topology]` and `[[failure]]`.

use config::{check, ConfigError, Document, Faults, Invalid, Key, Role, Wrong};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::{Clos, Dumbbell, FatTree, ParkingLot, SingleSwitch};
use units::{BitRate, Time};

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
