//! Plans: a checked scenario with one ready experiment per scheme.

use super::draft::Draft;
use super::era;
use super::network::{TopologyTable, PATH};
use super::scheme::{SchemeTable, Schemes, BUILT_IN};
use super::scheme_plan::SchemePlan;
use super::{Room, Scenario, Seeds};
use config::{closest, ConfigError, Document, Faults, Invalid, Wrong};
use edge::balance::Parameter;
use std::collections::{HashMap, HashSet};
use units::Time;

/// The command line's choice of schemes and seeds.
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

impl Plan {
    /// Reads and checks everything, so that a run that starts does not end for want of a sensible value.
    ///
    /// # Errors
    /// All that is wrong, also in schemes that are not chosen.
    pub fn new(document: &Document, choice: &Choice) -> Result<Plan, ConfigError> {
        Plan::within(document, choice, Room::default())
    }

    /// The same, for runs that have so much room in memory.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn within(document: &Document, choice: &Choice, room: Room) -> Result<Plan, ConfigError> {
        let given = era::applied(document);
        let (read, faults) = given.read_what_can_be::<Scenario>();
        // Where a key is missing without which there is no scenario, another stands in, so that the rest is looked at.
        let stand_in = read.is_none().then(|| with_the_needed(&given));
        let (read, mut faults) = match &stand_in {
            None => (read, faults),
            Some(stand_in) => {
                let (read, rest) = stand_in.read_what_can_be();
                let mut all = rest.doubtful(true);
                all.add(faults.unless::<()>(None));
                (read, all)
            }
        };
        let whole = faults.is_empty();
        let Some(mut scenario) = read else {
            for (name, given) in declared(document) {
                faults.add(read_scheme(document, &name, Some(&given)).1);
            }
            return faults.unless(None);
        };
        // A fabric that makes no sense is not built: it could be of any size.
        let base = match scenario.complete(&mut faults) {
            true => faults.note(scenario.topology.build(&document.directory_of(PATH))),
            false => None,
        };
        if let Some(seeds) = &choice.seeds {
            scenario.seeds = seeds.clone();
        }
        if let Some(base) = base.as_ref().filter(|_| faults.is_empty()) {
            faults.note(sampling_fits(&scenario, base.links.len()));
        }
        let doubtful = !whole || !faults.is_empty();
        let base = base.or_else(TopologyTable::stand_in);
        let names = chosen(&scenario, choice);
        let names = match choice.schemes.is_empty() {
            true => faults.note_given(&["scheme"], names),
            false => faults.add(names.map_err(|wrong| of_option(document, &wrong))),
        };
        let names = names.unwrap_or_default();
        let mut schemes = Vec::new();
        let mut tables = Vec::new();
        let runs: HashSet<&String> = names.iter().collect();
        let declared: HashMap<&String, &toml::Table> =
            scenario.scheme.0.iter().map(|(name, table)| (name, table)).collect();
        let others = scenario.scheme.0.iter().map(|(name, _)| name).filter(|name| !runs.contains(name));
        for name in names.iter().chain(others) {
            let given = declared.get(name).copied();
            let (table, sound) = read_scheme(document, name, given);
            let doubtful = doubtful || sound.is_err();
            faults.add(sound);
            let (Some(base), Some(table)) = (&base, table) else { continue };
            let draft = Draft::new(document, &scenario, base, (name, &table), doubtful);
            let Some(planned) = faults.add(draft).flatten() else { continue };
            if runs.contains(name) && !doubtful {
                schemes.extend(faults.add(planned.finish(&scenario, name, &table, (names.len(), room))));
                let effective = table
                    .to_table()
                    .map_err(|e| Invalid::new(format!("scheme.{name}"), e.to_string(), "report this as a bug"));
                tables.extend(faults.note(effective).map(|table| (name.clone(), table)));
            }
        }
        scenario.schemes = names;
        scenario.scheme = Schemes(tables);
        faults.unless(Some(Plan { scenario, schemes }))
    }

    /// Can the simulator run all of it?
    ///
    /// # Errors
    /// As [`SchemePlan::modelled`].
    pub fn modelled(&self) -> Result<(), ConfigError> {
        self.schemes.iter().try_for_each(SchemePlan::modelled)
    }

    /// An estimate of the memory that the runs need, bytes.
    pub fn memory(&self) -> f64 {
        self.schemes.iter().map(|scheme| scheme.memory).fold(0.0, f64::max)
    }

    /// What a reader of results must know: listed flows that do not run, and schemes whose parts cost one another.
    pub fn notes(&self) -> Vec<String> {
        let left_out = self.schemes.first().map(|scheme| scheme.left_out.as_slice()).unwrap_or_default();
        left_out.iter().chain(self.schemes.iter().flat_map(|scheme| &scheme.cautions)).cloned().collect()
    }

    /// The part that the simulator can run, too.
    pub fn without_unmodelled(&self) -> Plan {
        self.of(|scheme| scheme.modelled().is_ok())
    }

    /// The part that a lab can run.
    pub(crate) fn without_only_simulated(&self) -> Plan {
        self.of(|scheme| scheme.only_simulated().is_none())
    }

    fn of(&self, kept: impl Fn(&SchemePlan) -> bool) -> Plan {
        let mut plan = self.clone();
        plan.schemes.retain(kept);
        plan.scenario.schemes.retain(|name| plan.schemes.iter().any(|s| s.name == *name));
        plan.scenario.scheme.0.retain(|(name, _)| plan.schemes.iter().any(|s| s.name == *name));
        plan
    }

    /// The configuration that is in effect in the run of one scheme with one seed alone, as [`Plan::effective`].
    pub(crate) fn effective_of(&self, scheme: &str, seed: u64) -> String {
        let mut scenario = self.scenario.clone();
        scenario.seeds = Seeds(vec![seed]);
        scenario.schemes.retain(|name| name == scheme);
        scenario.scheme.0.retain(|(name, _)| name == scheme);
        toml::to_string(&scenario).unwrap_or_default()
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

/// So many unknown schemes are compared with those that are known.
const MOST_LIKENED: usize = 100;

fn chosen(scenario: &Scenario, choice: &Choice) -> Result<Vec<String>, Wrong> {
    let mut wrong = Wrong::new();
    let declared = scenario.scheme.0.iter().map(|(name, _)| name.as_str());
    let mut known: Vec<&str> = declared.collect();
    let built_in = BUILT_IN.iter().map(|built_in| built_in.name);
    known.extend(built_in.filter(|built_in| !scenario.scheme.0.iter().any(|(name, _)| name.as_str() == *built_in)));
    let names = if !choice.schemes.is_empty() {
        choice.schemes.clone()
    } else if !scenario.schemes.is_empty() {
        scenario.schemes.clone()
    } else if !scenario.scheme.0.is_empty() {
        scenario.scheme.0.iter().map(|(name, _)| name.clone()).collect()
    } else {
        BUILT_IN.iter().filter(|built_in| built_in.unasked).map(|built_in| built_in.name.to_owned()).collect()
    };
    let (all, mut seen) = (known.iter().copied().collect::<HashSet<_>>(), HashSet::new());
    for name in &names {
        if !all.contains(name.as_str()) {
            // What the first are like takes a look at all that are known.
            let few = wrong.faults().len() < MOST_LIKENED;
            let remedy = match few.then(|| closest(name, known.iter().copied())) {
                None => String::new(),
                Some(Some(near)) => format!("did you mean `{near}`? (known: {})", known.join(", ")),
                Some(None) => format!("known: {}; declare others as [scheme.{name}]", known.join(", ")),
            };
            wrong.add(Invalid::new("schemes", format!("unknown scheme `{name}`"), remedy));
        }
        if !seen.insert(name) {
            wrong.add(Invalid::value("schemes", format!("scheme `{name}` is named twice"), "name it once"));
        }
    }
    wrong.or(names)
}

/// What is wrong with the command line's schemes.
fn of_option(document: &Document, wrong: &Wrong) -> ConfigError {
    let mut faults = Faults::of(document);
    wrong.faults().iter().for_each(|invalid| faults.tell(invalid.clone()));
    match faults.unless::<()>(None) {
        Err(error) => error.at("--scheme"),
        Ok(()) => ConfigError::new("--scheme", "cannot be used", "report this as a bug"),
    }
}

/// The document with a value for each key that a scenario must have and this does not.
fn with_the_needed(document: &Document) -> Document {
    let mut document = document.clone();
    let topology = toml::Table::from_iter([("kind".to_owned(), toml::Value::from("clos"))]);
    let needed = [
        ("duration".to_owned(), toml::Value::from("1s")),
        ("topology".to_owned(), toml::Value::Table(topology)),
        ("workload".to_owned(), toml::Value::Array(Vec::new())),
    ];
    document.beneath(&toml::Table::from_iter(needed));
    document
}

/// The schemes that a file declares, also one that cannot be read otherwise.
fn declared(document: &Document) -> Vec<(String, toml::Table)> {
    let all = document.table().get("scheme").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    all.into_iter().filter_map(|(name, table)| Some((name, table.as_table()?.clone()))).collect()
}

/// The file's table over the built-in scheme of that name, or over the defaults: what can be read of it, and all that cannot.
fn read_scheme(
    document: &Document,
    name: &str,
    given: Option<&toml::Table>,
) -> (Option<SchemeTable>, Result<(), ConfigError>) {
    let at = format!("scheme.{name}");
    let mut faults = Faults::of(document);
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit()) {
        let remedy = "use letters, digits, `_` and `-`, a letter first";
        faults.tell(Invalid::value(at.clone(), format!("{name:?} cannot name a scheme"), remedy));
    }
    let base = SchemeTable::base(name).to_table();
    let base = faults.note(base.map_err(|e| Invalid::new(at.clone(), e.to_string(), "report this as a bug")));
    let mut table = base.unwrap_or_default();
    let given = given.cloned().unwrap_or_default();
    for parameter in given.keys().filter_map(|key| Parameter::find(key)) {
        table.remove(parameter.name); // it may be given under another name
    }
    table.extend(given);
    let read = faults.read_table(&table, &at);
    (read, faults.unless(Some(())))
}
