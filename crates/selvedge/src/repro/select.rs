//! Which experiments the arguments mean, and their list.

use super::file::{Experiment, Mode};
use super::fingerprint::configuration;
use crate::input;
use config::{closest, ConfigError};
use serde_json::{json, Map, Value};
use std::path::Path;

/// Experiments with the ids wanted of each.
pub(super) type Selected = Vec<(Experiment, Vec<String>)>;

/// An argument is an id, an experiment such as `presto/fig15`, a group such as `presto` or `presto/fig15*`, or a file.
pub(super) fn select(arguments: &[String]) -> Result<Selected, ConfigError> {
    let catalogue = super::experiments()?;
    let mut selected: Selected = Vec::new();
    let mut add = |experiment: &Experiment, wanted: &dyn Fn(&str) -> bool| {
        let ids: Vec<String> = experiment.results.iter().map(|r| r.id.clone()).filter(|id| wanted(id)).collect();
        if ids.is_empty() {
            return false;
        }
        match selected.iter_mut().find(|(e, _)| e.file == experiment.file) {
            Some((_, known)) => {
                for id in ids {
                    if !known.contains(&id) {
                        known.push(id);
                    }
                }
            }
            None => selected.push((experiment.clone(), ids)),
        }
        true
    };
    if arguments.is_empty() {
        catalogue.iter().for_each(|e| {
            add(e, &|_| true);
        });
    }
    for argument in arguments {
        if argument.ends_with(".toml") && Path::new(argument).is_file() {
            let fail = |problem: String, remedy: &str| ConfigError::new(argument.clone(), problem, remedy);
            let experiment = Experiment::read(input::scenario(Path::new(argument))?)?;
            if !add(&experiment, &|_| true) {
                return Err(fail("has no [[result]]".to_owned(), "run it with: selvedge sim run"));
            }
            continue;
        }
        let group = argument.strip_suffix('*').unwrap_or(argument);
        let below = |id: &str| {
            let rest = id.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '-']) || group.ends_with('/'))
        };
        // Others whose names merely begin like an experiment's are none of it.
        let own = catalogue.iter().find(|e| e.file.strip_suffix(".toml") == Some(argument));
        let found = match own {
            Some(experiment) => add(experiment, &|_| true),
            None => catalogue.iter().filter(|experiment| add(experiment, &below)).count() > 0,
        };
        if !found {
            let ids = catalogue.iter().flat_map(|e| &e.results).map(|r| r.id.as_str());
            let near = closest(argument, ids).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            return Err(ConfigError::new(
                "repro",
                format!("there is no result {argument:?}"),
                format!("{near}see selvedge repro --list"),
            ));
        }
    }
    Ok(selected)
}

/// # Errors
/// A scenario that makes no sense at a point.
pub(super) fn list(selected: &Selected, as_json: bool) -> Result<(), ConfigError> {
    let wide = selected.iter().flat_map(|(_, ids)| ids).map(String::len).max().unwrap_or(0);
    for (experiment, ids) in selected {
        for result in experiment.results.iter().filter(|r| ids.contains(&r.id)) {
            if as_json {
                let checks: Vec<&str> = result.checks.iter().map(|c| c.text.as_str()).collect();
                let mut configurations = Map::new();
                for mode in [Mode::Quick, Mode::Full, Mode::Paper] {
                    configurations
                        .insert(mode.name().to_owned(), Value::String(configuration(experiment, result, mode)?));
                }
                crate::say::json(&json!({
                    "id": result.id, "source": result.source, "what": result.what, "file": experiment.file,
                    "checks": checks, "notes": result.notes, "configuration": configurations,
                }));
            } else {
                say!("{:<wide$}  {}  [{}]", result.id, result.what, result.source);
            }
        }
    }
    Ok(())
}
