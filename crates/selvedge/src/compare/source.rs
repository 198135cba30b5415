//! Where metrics of runs come from: results of `sim run`, of a sweep of either kind, and Parquet files.

use crate::sweep::{ungathered, INDEX, METRICS};
use config::ConfigError;
use frame::{Frame, MOST_BYTES};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// What is compared with its like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Empty without a sweep.
    pub(super) point: String,
    pub(super) scheme: String,
    pub(super) metric: String,
}

/// A metric's value at each seed that has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Series {
    pub(super) unit: String,
    pub(super) seeds: BTreeMap<u64, f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) rows: BTreeMap<Key, Series>,
    /// Jobs of the directory that are done, and not in its table.
    pub(super) ungathered: usize,
}

/// # Errors
/// What cannot be read or has no metrics.
pub(super) fn read(path: &Path) -> Result<Measured, ConfigError> {
    let file = file(path)?;
    let fail = |problem: String, remedy: &str| ConfigError::new(file.display().to_string(), problem, remedy);
    let bytes = files::read_regular(&file, MOST_BYTES).map_err(|e| fail(format!("cannot be read: {e}"), RESULTS))?;
    let found = match file.extension().is_some_and(|e| e == "csv") {
        true => of_csv(&bytes),
        false => frame::read(bytes).map_err(|e| e.to_string()).and_then(|frame| {
            let measured = of_frame(&frame)?;
            let ungathered = if path.is_dir() { ungathered(path, &jobs_of(&frame)) } else { 0 };
            Ok(Measured { ungathered, ..measured })
        }),
    };
    match found {
        Err(problem) => Err(fail(problem, RESULTS)),
        Ok(measured) if measured.rows.is_empty() => Err(fail("has no metric of any run".to_owned(), RESULTS)),
        Ok(measured) => Ok(measured),
    }
}

const RESULTS: &str = "give what `selvedge sim run -o` or `selvedge sweep` wrote";

/// The file that has a directory's metrics.
fn file(path: &Path) -> Result<PathBuf, ConfigError> {
    let fail = |problem: &str, remedy: &str| Err(ConfigError::new(path.display().to_string(), problem, remedy));
    if !path.is_dir() {
        return match path.exists() {
            true => Ok(path.to_owned()),
            false => fail("is not there", RESULTS),
        };
    }
    let found =
        [METRICS, "sweep.csv", "metrics.csv"].into_iter().map(|name| path.join(name)).find(|file| file.is_file());
    match found {
        Some(file) => Ok(file),
        None if path.join(INDEX).is_file() || path.join("jobs").is_dir() => {
            fail("is a sweep whose jobs are not gathered", "run `selvedge sweep` once more; it runs only what lacks")
        }
        None => fail("holds no metrics", RESULTS),
    }
}

/// Adds a value; rows over all seeds and those without a value have no part in it.
///
/// # Errors
/// There is one of that point, scheme, metric and seed.
fn add(measured: &mut Measured, key: Key, unit: &str, seed: u64, value: f64) -> Result<(), String> {
    let Key { point, scheme, metric } = &key;
    let at = if point.is_empty() { String::new() } else { format!(" at {point}") };
    let twice = format!("has {metric} of {scheme}{at}, seed {seed}, twice");
    let series = measured.rows.entry(key).or_default();
    unit.clone_into(&mut series.unit);
    series.seeds.insert(seed, value).map_or(Ok(()), |_| Err(twice))
}

fn of_csv(bytes: &[u8]) -> Result<Measured, String> {
    let mut csv = csv::Reader::from_reader(bytes);
    let headers = csv.headers().map_err(|e| e.to_string())?.clone();
    let at = |name: &str| headers.iter().position(|header| header == name);
    let needed = |name: &str| at(name).ok_or_else(|| format!("has no column {name:?}"));
    let (scheme, seed, metric, value) = (needed("scheme")?, needed("seed")?, needed("metric")?, needed("value")?);
    let (point, unit) = (at("point"), at("unit"));
    let mut measured = Measured::default();
    for row in csv.records() {
        let row = row.map_err(|e| e.to_string())?;
        let cell = |n: usize| row.get(n).unwrap_or_default();
        let or_empty = |n: Option<usize>| n.map(cell).unwrap_or_default();
        if cell(seed) == "all" || cell(value).is_empty() {
            continue;
        }
        let line = row.position().map_or(0, csv::Position::line);
        let number = |what: &str, text: &str| format!("line {line}: the {what} {text:?} is no number");
        let of_seed = cell(seed).parse().map_err(|_| number("seed", cell(seed)))?;
        let measure = cell(value).parse().map_err(|_| number("value", cell(value)))?;
        let key =
            Key { point: or_empty(point).to_owned(), scheme: cell(scheme).to_owned(), metric: cell(metric).to_owned() };
        add(&mut measured, key, or_empty(unit), of_seed, measure).map_err(|twice| format!("line {line}: {twice}"))?;
    }
    Ok(measured)
}

fn jobs_of(frame: &Frame) -> HashSet<&str> {
    let jobs = frame.column("job");
    (0..frame.rows()).filter_map(|n| jobs?.text(n)).collect()
}

fn of_frame(frame: &Frame) -> Result<Measured, String> {
    let needed = |name: &str| frame.column(name).ok_or_else(|| format!("has no column {name:?}"));
    let (scheme, seed, metric, value) = (needed("scheme")?, needed("seed")?, needed("metric")?, needed("value")?);
    let (point, unit) = (frame.column("point"), frame.column("unit"));
    let mut measured = Measured::default();
    for n in 0..frame.rows() {
        let whole = seed.whole(n).and_then(|seed| u64::try_from(seed).ok());
        let (Some(seed), Some(value)) = (whole, value.number(n)) else { continue };
        let text = |column: &frame::Values| column.text(n).unwrap_or_default().to_owned();
        let key = Key { point: point.map(text).unwrap_or_default(), scheme: text(scheme), metric: text(metric) };
        add(&mut measured, key, &unit.map(text).unwrap_or_default(), seed, value)?;
    }
    Ok(measured)
}
