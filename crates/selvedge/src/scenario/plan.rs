use super::error::{closest, ConfigError, Invalid};
use super::scheme::{FabricWord, SchemeTable, Schemes, BUILT_IN, NAMED};
use super::{Document, HostTable, Room, Scenario, Seeds, SwitchTable};
use fabric::RandomLoss;
use host::experiment::{Experiment, Failure, Record};
use host::workload::{HostMap, Problem, Source};
use std::path::Path;
use units::Time;

/// What the command line chooses among what the file offers.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub schemes: Vec<String>,
    pub seeds: Option<Seeds>,
}

/// A scenario that has been found to make sense: each scheme can be run with each seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// As it will run: every default filled in, only the chosen schemes and seeds.
    pub scenario: Scenario,
    pub schemes: Vec<SchemePlan>,
}

/// One scheme, ready to run.
#[derive(Clone, Debug)]
pub struct SchemePlan {
    pub name: String,
    pub note: String,
    /// With seed 0; see [`SchemePlan::experiment`].
    template: Experiment,
    /// Why only a lab can run it, if so.
    unmodelled: Option<ConfigError>,
}

impl SchemePlan {
    pub fn experiment(&self, seed: u64) -> Experiment {
        Experiment { seed, ..self.template.clone() }
    }
    pub fn template(&self) -> &Experiment {
        &self.template
    }

    /// Can the simulator run it, too?
    ///
    /// # Errors
    /// The key that asks for what only real hosts have.
    pub fn modelled(&self) -> Result<(), ConfigError> {
        self.unmodelled.clone().map_or(Ok(()), Err)
    }

    /// The first key in use that only the simulator knows, with what to do about it where guests are real.
    pub(crate) fn only_simulated(&self) -> Option<(String, &'static str)> {
        let e = &self.template;
        let scheme = |key: &str| format!("scheme.{}.{key}", self.name);
        if e.hosts.mptcp.is_some() {
            return Some((scheme("mptcp"), "choose another scheme: a lab's guests speak the TCP of this kernel"));
        }
        if e.edge.controller.is_some() {
            return Some((scheme("controller"), "leave it out: a lab's edges keep all trees"));
        }
        if !e.hosts.plain.is_empty() {
            return Some(("host.plain".to_owned(), "leave it out: every host of a lab has an edge"));
        }
        let capped = e.workloads.iter().find(|w| w.rate_cap.is_some())?;
        Some((format!("workload.{}.rate_cap", capped.name), "leave it out: a lab's traffic is not paced"))
    }

    /// Captures the first packets that leave the first node of `name` on that link: `"leaf1-spine2"` is what leaf1 sends,
    /// `"spine2-leaf1"` the other direction. False if this scheme's fabric has no such link.
    pub fn capture(&mut self, name: &str, packets: u32) -> bool {
        let fabric = &self.template.topology;
        let Some(link) = fabric.link_named(name) else { return false };
        let backward = name.split('-').next() != Some(&fabric.nodes[fabric.links[link as usize].a as usize].name);
        self.template.record.capture = Some((2 * link + u32::from(backward), packets));
        true
    }
}

impl Plan {
    /// Reads and checks everything, so that a run that starts does not end for want of a sensible value.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(document: &Document, choice: &Choice) -> Result<Plan, ConfigError> {
        Plan::within(document, choice, Room::default())
    }

    /// The same, for runs that have so much room in memory.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn within(document: &Document, choice: &Choice, room: Room) -> Result<Plan, ConfigError> {
        let mut scenario: Scenario = document.read()?;
        scenario.complete().map_err(|e| document.error(&e))?;
        if let Some(seeds) = &choice.seeds {
            scenario.seeds = seeds.clone();
        }
        let beside = Path::new(document.name()).parent().unwrap_or(Path::new("")).to_owned();
        let base = scenario.topology.build(&beside).map_err(|e| document.error(&e))?;
        sampling_fits(&scenario, base.links.len()).map_err(|e| document.error(&e))?;
        let names = chosen(&scenario, choice).map_err(|e| {
            let mut error = document.error(&e);
            if !choice.schemes.is_empty() {
                error.place = "--scheme".to_owned();
            }
            error
        })?;
        let mut schemes = Vec::new();
        let mut tables = Vec::new();
        for name in &names {
            let table = read_scheme(document, &scenario, name)?;
            schemes.push(plan(document, &scenario, &base, &beside, name, &table, (names.len(), room))?);
            let effective = toml::Table::try_from(&table)
                .map_err(|e| document.error(&Invalid::new(format!("scheme.{name}"), e.to_string(), "")))?;
            tables.push((name.clone(), effective));
        }
        scenario.schemes = names;
        scenario.scheme = Schemes(tables);
        Ok(Plan { scenario, schemes })
    }

    /// Can the simulator run all of it?
    ///
    /// # Errors
    /// As [`SchemePlan::modelled`].
    pub fn modelled(&self) -> Result<(), ConfigError> {
        self.schemes.iter().try_for_each(SchemePlan::modelled)
    }

    /// The part that the simulator can run, too.
    pub fn without_unmodelled(&self) -> Plan {
        let mut plan = self.clone();
        plan.schemes.retain(|s| s.modelled().is_ok());
        plan.scenario.schemes.retain(|name| plan.schemes.iter().any(|s| s.name == *name));
        plan.scenario.scheme.0.retain(|(name, _)| plan.schemes.iter().any(|s| s.name == *name));
        plan
    }

    /// The configuration that is in effect, as a scenario file that gives the same plan.
    pub fn effective(&self) -> String {
        // Serialising a value that was read cannot fail; an empty text would be seen at once.
        toml::to_string(&self.scenario).unwrap_or_default()
    }
}

/// Series are kept in memory, eight bytes per port and sample: refuse what would need gigabytes.
fn sampling_fits(scenario: &Scenario, links: usize) -> Result<(), Invalid> {
    const MOST: u128 = 200_000_000;
    let every = u128::from(scenario.record.sample_every.as_ps());
    if every == 0 {
        return Ok(());
    }
    let samples = u128::from((scenario.duration - scenario.warmup).as_ps()) / every * 2 * links as u128;
    if samples <= MOST {
        return Ok(());
    }
    let least = Time::from_ps((every * samples.div_ceil(MOST)).min(u128::from(u64::MAX)) as u64);
    let problem = format!("{} over {links} links makes {samples} samples", scenario.record.sample_every);
    Err(Invalid::new("record.sample_every", problem, format!("give about {least} or more, or \"0s\" for no series")))
}

fn chosen(scenario: &Scenario, choice: &Choice) -> Result<Vec<String>, Invalid> {
    let declared = scenario.scheme.0.iter().map(|(name, _)| name.as_str());
    let mut known: Vec<&str> = declared.collect();
    known.extend(BUILT_IN.iter().chain(&NAMED).filter(|b| !scenario.scheme.0.iter().any(|(name, _)| name == *b)));
    let names = if !choice.schemes.is_empty() {
        choice.schemes.clone()
    } else if !scenario.schemes.is_empty() {
        scenario.schemes.clone()
    } else if !scenario.scheme.0.is_empty() {
        scenario.scheme.0.iter().map(|(name, _)| name.clone()).collect()
    } else {
        BUILT_IN.iter().map(|b| (*b).to_owned()).collect()
    };
    for (n, name) in names.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let remedy = match closest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? (known: {})", known.join(", ")),
                None => format!("known: {}; declare others as [scheme.{name}]", known.join(", ")),
            };
            return Err(Invalid::new("schemes", format!("unknown scheme `{name}`"), remedy));
        }
        if names[..n].contains(name) {
            return Err(Invalid::new("schemes", format!("scheme `{name}` is named twice"), "name it once"));
        }
    }
    Ok(names)
}

/// The file's table over the built-in scheme of that name, or over the defaults.
fn read_scheme(document: &Document, scenario: &Scenario, name: &str) -> Result<SchemeTable, ConfigError> {
    let at = format!("scheme.{name}");
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit()) {
        let remedy = "use letters, digits, `_` and `-`, a letter first";
        return Err(document.error(&Invalid::new(at, format!("{name:?} cannot name a scheme"), remedy)));
    }
    let base = SchemeTable::built_in(name).unwrap_or_default();
    let mut table = toml::Table::try_from(base)
        .map_err(|e| document.error(&Invalid::new(at.clone(), e.to_string(), "report this as a bug")))?;
    if let Some((_, given)) = scenario.scheme.0.iter().find(|(declared, _)| declared == name) {
        table.extend(given.clone());
    }
    document.read_table(&table, &at)
}

fn plan(
    document: &Document,
    scenario: &Scenario,
    base: &topology::Topology,
    beside: &Path,
    name: &str,
    table: &SchemeTable,
    (schemes, room): (usize, Room),
) -> Result<SchemePlan, ConfigError> {
    let mut own = document.clone();
    own.overlay_at("host", &table.host, &format!("scheme.{name}.host"))?;
    own.overlay_at("switch", &table.switch, &format!("scheme.{name}.switch"))?;
    let section = |key: &str| own.table().get(key).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let hosts: HostTable = own.read_table(&section("host"), "host")?;
    let mut switch: SwitchTable = own.read_table(&section("switch"), "switch")?;
    if let Some(multipath) = table.multipath {
        switch.multipath = multipath;
    }
    let build = || -> Result<Experiment, Invalid> {
        let single = table.topology == FabricWord::SingleSwitch;
        let topology = match single {
            true => super::network::TopologyTable::non_blocking(base)?,
            false => base.clone(),
        };
        let mut failures = Vec::new();
        for (n, failure) in scenario.failure.iter().enumerate() {
            let link = failure.build(n, base)?;
            // The non-blocking reference has no fabric links that could fail.
            if !single && table.failures {
                failures.push(Failure { at: failure.at, link, up: failure.up });
            }
        }
        failures.sort_by_key(|f| f.at);
        let mut workloads = Vec::new();
        for (n, workload) in scenario.workload.iter().enumerate() {
            workloads.push(workload.build(n, beside)?);
        }
        table.set_guests(name, &mut workloads)?;
        let mut guests = hosts.build()?;
        guests.mptcp = table.guests_mptcp(name, guests.tcp.congestion)?;
        if let Some(absent) = guests.plain.iter().find(|&&h| h as usize >= base.n_hosts()) {
            let problem = format!("there is no host {absent}");
            return Err(Invalid::new("host.plain", problem, format!("hosts are 0 to {}", base.n_hosts() - 1)));
        }
        Ok(Experiment {
            topology,
            switches: switch.build()?,
            multipath: switch.multipath(),
            loss: RandomLoss { per_million: switch.loss_per_million },
            failures,
            reroute_after: switch.reroute_after,
            hosts: guests,
            edge: table.edge(name, &workloads, base.n_hosts() as u32)?,
            racks: racks(base),
            workloads,
            duration: scenario.duration,
            drain: scenario.drain,
            warmup: scenario.warmup,
            seed: 0,
            record: Record {
                sample_every: scenario.record.sample_every,
                probe_every: scenario.record.probe_every,
                rtt_samples: scenario.record.rtt_samples,
                flowcells: scenario.record.flowcells,
                capture: None,
            },
        })
    };
    let template = build().map_err(|e| own.error(&e))?;
    super::memory::check(scenario, schemes, &template, room).map_err(|e| own.error(&e))?;
    for (n, workload) in template.workloads.iter().enumerate() {
        let seed = scenario.seeds.0.first().copied().unwrap_or(1);
        if let Err(e) = Source::new(workload, n as u16, &template.racks, seed, template.duration) {
            let text = e.problem.to_string();
            let (problem, remedy) = text.split_once("; ").unwrap_or((&text, ""));
            return Err(own.error(&Invalid::new(format!("workload.{n}{}", key_of(&e.problem)), problem, remedy)));
        }
    }
    let unmodelled = unmodelled(name, table, scenario, &template).map(|e| own.error(&e));
    Ok(SchemePlan { name: name.to_owned(), note: table.note.clone(), template, unmodelled })
}

/// The first workload whose congestion control no simulator has.
fn unmodelled(name: &str, table: &SchemeTable, scenario: &Scenario, template: &Experiment) -> Option<Invalid> {
    let law = |w: &host::workload::Workload| w.congestion.unwrap_or(template.hosts.tcp.congestion);
    let n = template.workloads.iter().position(|w| !law(w).is_modelled())?;
    let workload = &template.workloads[n].name;
    let key = if table.guests.contains_key(workload) {
        format!("scheme.{name}.guests.{workload}")
    } else if scenario.workload[n].congestion.is_some() {
        format!("workload.{n}.congestion")
    } else if table.host.contains_key("tcp") {
        format!("scheme.{name}.host")
    } else {
        "host.tcp.congestion".to_owned()
    };
    let problem = "only real hosts have bbr, the simulator has no model of it";
    Some(Invalid::new(key, problem, "use `selvedge lab run`, or leave the scheme out with --scheme"))
}

/// The key most likely at fault.
fn key_of(problem: &Problem) -> &'static str {
    match problem {
        Problem::StrideToSelf { .. } => ".k",
        Problem::NoSuchHost { .. } | Problem::ToSelf(_) | Problem::NoPairs => ".pairs",
        Problem::OneRack => ".to",
        Problem::TooManySenders { .. } => ".senders",
        Problem::BadLoad(_) | Problem::TooFast => ".load",
        Problem::Stagger => ".stagger",
        _ => "",
    }
}

/// Racks of the scenario's own fabric, which a scheme on another fabric keeps.
fn racks(base: &topology::Topology) -> HostMap {
    HostMap::new(base.hosts().map(|h| base.leaf_of(h)).collect())
}
