//! A scenario with a scheme's changes applied.

use super::era;
use super::scheme::{FabricWord, Guests, SchemeTable};
use super::scheme_plan::SchemePlan;
use super::tenants::{holds_segments, tenants_of};
use super::{HostTable, Room, Scenario, SwitchTable};
use config::{ConfigError, Document, Faults, Invalid, Wrong};
use fabric::{Multipath, RandomLoss};
use host::experiment::{EdgeConfig, Experiment, Failure, HostConfig, Record};
use host::workload::{HostMap, Pattern, Problem, Source, Workload};
use units::BitRate;

/// What a scheme's table makes of the scenario, before it is known whether there is room to run it.
pub(super) struct Draft {
    /// The scenario with the scheme's own hosts and switches.
    document: Document,
    template: Experiment,
}

impl Draft {
    /// `doubtful`: something else of the scenario is wrong, so that only those faults are told that cannot come from it. `None`: there are
    /// only others.
    ///
    /// # Errors
    /// All that is wrong with the scheme.
    pub(super) fn new(
        document: &Document,
        scenario: &Scenario,
        base: &topology::Topology,
        (name, table): (&str, &SchemeTable),
        doubtful: bool,
    ) -> Result<Option<Draft>, ConfigError> {
        // Without the others: there may be thousands, and each has a draft.
        let mut own = document.with_only("scheme", name);
        own.overlay_at("host", &table.rest.host, &format!("scheme.{name}.host"))?;
        own.overlay_at("switch", &table.rest.switch, &format!("scheme.{name}.switch"))?;
        let own = era::applied(&own);
        let section = |key: &str| own.table().get(key).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let mut faults = Faults::of(&own).doubtful(doubtful);
        let hosts = faults.read_table::<HostTable>(&section("host"), "host");
        faults.note(era::only_for_all(name, &table.rest.host));
        let switch = faults.read_table::<SwitchTable>(&section("switch"), "switch");
        let doubtful = doubtful || !faults.is_empty();
        let mut faults = faults.doubtful(doubtful);
        let guests = hosts.and_then(|hosts| faults.note(guests(&hosts, base, name, table)));
        let switch =
            switch.map(|switch| SwitchTable { multipath: table.rest.multipath.unwrap_or(switch.multipath), ..switch });
        let switches = switch.as_ref().and_then(|switch| faults.note(switch.build()));
        let workloads = faults.note(workloads(document, scenario, base, name, table));
        let edge = workloads.as_ref().and_then(|w| faults.note(edge(scenario, name, w, base, table)));
        if let (Some(edge), Some(guests)) = (&edge, &guests) {
            faults.note(holds_segments(name, edge, guests));
        }
        let fabric = faults.note(fabric(scenario, base, table));
        if let (Some(switch), Some((topology, _))) = (&switch, &fabric) {
            faults.note(suits(switch, topology, name, table));
        }
        if let (Some(switch), Some(guests)) = (&switch, &guests) {
            faults.note(relies_on_switches(switch, guests));
        }
        if let (Some(edge), Some(switches), Some(guests)) = (&edge, &switches, &guests) {
            faults.note(super::fastlane::suits(name, edge.fastlane, switches, guests));
        }
        if let (Some(switch), Some(switches), Some(guests)) = (&switch, &switches, &guests) {
            let (multipath, hosts) = (switch.multipath(), base.n_hosts());
            faults.note(super::hidden::suits(name, &table.rest, switches, multipath, guests, hosts));
        }
        let made = || {
            let (switch, (topology, failures)) = (switch?, fabric?);
            Some(Experiment {
                topology,
                switches: switches?,
                multipath: switch.multipath(),
                loss: RandomLoss { per_million: switch.loss_per_million },
                failures,
                reroute_after: switch.reroute_after,
                hosts: guests?,
                edge: edge?,
                racks: racks(base),
                workloads: workloads?,
                duration: scenario.duration,
                drain: scenario.drain,
                warmup: scenario.warmup,
                seed: 0,
                record: Record {
                    sample_every: scenario.record.sample_every,
                    probe_every: scenario.record.probe_every,
                    rtt_samples: scenario.record.rtt_samples,
                    flowcells: scenario.record.flowcells,
                    weights: false,
                    capture: None,
                },
            })
        };
        let made = made();
        if made.is_none() && doubtful && faults.is_empty() {
            return Ok(None);
        }
        let template = faults.unless(made)?;
        Ok(Some(Draft { document: own, template }))
    }

    /// # Errors
    /// Workloads that cannot run on the fabric, or that there is no room for.
    pub(super) fn finish(
        self,
        scenario: &Scenario,
        name: &str,
        table: &SchemeTable,
        (schemes, room): (usize, Room),
    ) -> Result<SchemePlan, ConfigError> {
        let Draft { document, template } = self;
        let mut faults = Faults::of(&document);
        let memory = faults.note(super::memory::check(scenario, schemes, &template, room));
        let mut left_out = Vec::new();
        for (n, workload) in template.workloads.iter().enumerate() {
            // Without room nothing is drawn.
            if memory.is_none() {
                break;
            }
            let seed = scenario.seeds.0.first().copied().unwrap_or(1);
            match Source::new(workload, n as u16, &template.racks, seed, template.duration) {
                Ok(source) => {
                    if let (Pattern::List(flows), late @ 1..) = (&workload.pattern, source.past_end()) {
                        left_out.push(format!(
                            "{}: {late} of the list's {} flows would start at its end or later, and do not run",
                            workload.name,
                            flows.len()
                        ));
                    }
                }
                Err(e) => {
                    let text = e.problem.to_string();
                    let (problem, remedy) = text.split_once("; ").unwrap_or((&text, ""));
                    let key = format!("workload.{n}{}", key_of(&e.problem, &workload.pattern));
                    faults.tell(Invalid::new(key, problem, remedy));
                }
            }
        }
        let unmodelled = unmodelled(name, table, scenario, &template).map(|e| document.error(&e));
        let (note, name) = (table.rest.note.clone(), name.to_owned());
        let cautions = table.cautions(&name);
        let made = memory.map(|memory| SchemePlan { name, note, template, unmodelled, left_out, cautions, memory });
        faults.unless(made)
    }
}

/// The scheme's fabric, and what fails in it.
fn fabric(
    scenario: &Scenario,
    base: &topology::Topology,
    table: &SchemeTable,
) -> Result<(topology::Topology, Vec<Failure>), Wrong> {
    let mut wrong = Wrong::new();
    let single = table.rest.topology == FabricWord::SingleSwitch;
    let topology = match single {
        true => super::network::TopologyTable::non_blocking(base)?,
        false => base.clone(),
    };
    let mut failures = Vec::new();
    for (n, failure) in scenario.failure.iter().enumerate() {
        let Some(link) = wrong.note(failure.build(n, base)) else { continue };
        // The non-blocking reference has no fabric links that could fail.
        if !single && table.rest.failures {
            failures.push(Failure { at: failure.at, link, up: failure.up });
        }
    }
    failures.sort_by_key(|f| f.at);
    wrong.or((topology, failures))
}

/// Guests that rely on switches need those that do it.
fn relies_on_switches(switch: &SwitchTable, guests: &host::experiment::HostConfig) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    let mut wants = |key: &str, problem: &str, remedy: &str| wrong.add(Invalid::new(key, problem, remedy));
    if guests.tcp.fastlane.is_some() && switch.notify.is_none() {
        let problem = "guests with FastLane hear of drops from switches, and these are silent";
        wants("host.tcp.fastlane", problem, "add `notify = {}` to [switch], or remove it");
    }
    if guests.tcp.quench && !switch.quench {
        let problem = "switches send no Source Quench";
        wants("host.tcp.quench", problem, "add `quench = true` and `codel = {}` to [switch], or remove it");
    }
    if guests.tcp.pfabric.is_some() && !switch.pfabric {
        let problem = "guests rank their packets, and switches do not look at it";
        wants("host.tcp.pfabric", problem, "add `pfabric = true` to [switch], or remove it");
    }
    if guests.tcp.pfabric.is_none() && switch.pfabric {
        wants("switch.pfabric", "packets have no ranks", "add `pfabric = {}` to [host.tcp], or remove it");
    }
    if guests.tcp.pfabric.is_some() && guests.mptcp.is_some() {
        wants("host.tcp.pfabric", "subflows of MPTCP have no ranks", "remove it, or `mptcp` from the scheme");
    }
    wrong.or(())
}

/// Whether its switches can do in this fabric what they should.
fn suits(switch: &SwitchTable, fabric: &topology::Topology, name: &str, table: &SchemeTable) -> Result<(), Invalid> {
    let Multipath::Conga { .. } = switch.multipath() else { return Ok(()) };
    fabric::conga_suits(fabric).map_err(|why| {
        let key = match table.rest.multipath {
            Some(_) => format!("scheme.{name}.multipath"),
            None => "switch.multipath".to_owned(),
        };
        Invalid::new(key, format!("conga cannot work here: {why}"), "take letflow, or a clos of fewer spines")
    })
}

fn workloads(
    document: &Document,
    scenario: &Scenario,
    base: &topology::Topology,
    name: &str,
    table: &SchemeTable,
) -> Result<Vec<Workload>, Wrong> {
    let mut wrong = Wrong::new();
    let mut workloads = Vec::new();
    for (n, workload) in scenario.workload.iter().enumerate() {
        let beside = document.directory_of(&format!("workload.{n}"));
        workloads.extend(wrong.note(workload.build(n, &beside, base.n_hosts() as u32, scenario.duration)));
    }
    let tenants = wrong.note(tenants_of(&scenario.workload));
    let (true, Some(tenants)) = (wrong.is_empty(), tenants) else { return Err(wrong) };
    for (workload, table) in workloads.iter_mut().zip(&scenario.workload) {
        let guest = table.tenant.as_ref().and_then(|name| tenants.iter().position(|known| known == name));
        workload.guest = guest.map_or(0, |n| n as u8 + 1);
    }
    wrong.note(table.rest.set_guests(name, &mut workloads));
    wrong.or(workloads)
}

fn edge(
    scenario: &Scenario,
    name: &str,
    workloads: &[Workload],
    base: &topology::Topology,
    table: &SchemeTable,
) -> Result<EdgeConfig, Wrong> {
    let tenants = tenants_of(&scenario.workload)?;
    let rates = base.hosts().map(|host| base.links[base.host_link(host) as usize].rate);
    let slowest = rates.min().unwrap_or(BitRate::from_gbps(1));
    table.edge(name, workloads, base.n_hosts() as u32, Guests { tenants: &tenants, slowest })
}

fn guests(hosts: &HostTable, base: &topology::Topology, name: &str, table: &SchemeTable) -> Result<HostConfig, Wrong> {
    let mut wrong = Wrong::new();
    let mut guests = wrong.note(hosts.build()).unwrap_or_default();
    if let Some(mptcp) = wrong.note(table.rest.guests_mptcp(name, guests.tcp.congestion)) {
        guests.mptcp = mptcp;
    }
    for absent in hosts.plain.iter().filter(|&&h| h as usize >= base.n_hosts()) {
        let problem = format!("there is no host {absent}");
        wrong.add(Invalid::new("host.plain", problem, format!("hosts are 0 to {}", base.n_hosts() - 1)));
    }
    wrong.or(guests)
}

/// The first workload whose congestion control no simulator has.
fn unmodelled(name: &str, table: &SchemeTable, scenario: &Scenario, template: &Experiment) -> Option<Invalid> {
    let law = |w: &host::workload::Workload| w.congestion.unwrap_or(template.hosts.tcp.congestion);
    let n = template.workloads.iter().position(|w| !law(w).is_modelled())?;
    let workload = &template.workloads[n].name;
    let key = if table.rest.guests.contains_key(workload) {
        format!("scheme.{name}.guests.{workload}")
    } else if scenario.workload[n].congestion.is_some() {
        format!("workload.{n}.congestion")
    } else if table.rest.host.contains_key("tcp") {
        format!("scheme.{name}.host")
    } else {
        "host.tcp.congestion".to_owned()
    };
    let problem = "only real hosts have bbr, the simulator has no model of it";
    Some(Invalid::new(key, problem, "use `selvedge lab run`, or leave the scheme out with --scheme"))
}

/// The key most likely at fault.
fn key_of(problem: &Problem, pattern: &Pattern) -> &'static str {
    match problem {
        Problem::NoSuchHost { .. } if matches!(pattern, Pattern::Incast { .. }) => ".receiver",
        Problem::StrideToSelf { .. } => ".k",
        Problem::FewSenders(_) => ".among",
        Problem::NoSuchHost { .. } | Problem::ToSelf(_) | Problem::NoPairs => ".pairs",
        Problem::OneRack => ".to",
        Problem::TooManySenders { .. } => ".senders",
        Problem::BadLoad(_) | Problem::TooFast => ".load",
        Problem::Stagger | Problem::StaggerBeyondPeriod => ".stagger",
        _ => "",
    }
}

/// Racks of the scenario's own fabric, which a scheme on another fabric keeps.
fn racks(base: &topology::Topology) -> HostMap {
    HostMap::new(base.hosts().map(|h| base.leaf_of(h)).collect())
}
