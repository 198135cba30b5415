//! Records of runs: `DIR/<paper>.jsonl`, one JSON object a result and line, in the order of ids. A result whose record has the
//! configuration of now is not run again, so an archive that was interrupted goes on where it was.

use super::file::{Experiment, Mode, Published};
use super::judge::Judged;
use crate::Failure;
use config::ConfigError;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A longer file is none of ours.
const MOST: u64 = 64 << 20;

/// The records of one paper.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    records: BTreeMap<String, Value>,
}

impl Archive {
    /// Reads `DIR/<paper>.jsonl`; no file is no records.
    ///
    /// # Errors
    /// A file that cannot be read, or a line of it that is no record.
    pub(super) fn open(dir: &Path, paper: &str) -> Result<Archive, ConfigError> {
        let path = dir.join(format!("{paper}.jsonl"));
        let fail = |problem: String| {
            ConfigError::new(path.display().to_string(), problem, "mend or remove it; its results are then run again")
        };
        let text = match files::read_regular_text(&path, MOST) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(fail(format!("cannot be read: {e}"))),
        };
        let mut records = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            let value: Value = serde_json::from_str(line).map_err(|e| fail(format!("line {}: {e}", n + 1)))?;
            let id = value["id"].as_str().ok_or_else(|| fail(format!("line {}: there is no `id`", n + 1)))?;
            records.insert(id.to_owned(), value.clone());
        }
        Ok(Archive { path, records })
    }

    /// Is the result there, run with this configuration?
    pub(super) fn has(&self, id: &str, configuration: &str) -> bool {
        self.records.get(id).is_some_and(|record| record["configuration"] == configuration)
    }

    /// Processor time that the records took, each experiment counted once.
    pub(super) fn core_s(&self) -> f64 {
        let experiments: BTreeMap<&str, f64> = self
            .records
            .values()
            .filter_map(|record| Some((record["file"].as_str()?, record["core_s"].as_f64()?)))
            .collect();
        experiments.values().sum()
    }

    /// Adds or replaces records, and writes the file as a whole.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn keep(&mut self, file: &str, configuration: &str, all: &[Judged]) -> Result<(), Failure> {
        for judged in all {
            self.records.insert(judged.published.id.clone(), record(judged, file, configuration));
        }
        let text: String = self.records.values().map(|record| format!("{record}\n")).collect();
        let write = || {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
            let new = files::beside(&self.path, ".new");
            fs::write(&new, text)?;
            fs::rename(&new, &self.path)
        };
        let problem = |e: io::Error| {
            let place = self.path.display().to_string();
            ConfigError::new(place, format!("cannot be written: {e}"), "name another directory with --archive")
        };
        Ok(write().map_err(problem)?)
    }
}

fn record(judged: &Judged, file: &str, configuration: &str) -> Value {
    let mut record = judged.json();
    if let Value::Object(fields) = &mut record {
        let seeds = judged.seeds.len();
        fields.insert("seeds".into(), json!(seeds));
        fields.insert("file".into(), json!(file));
        fields.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        fields.insert("configuration".into(), json!(configuration));
        fields.insert("core_s".into(), json!((judged.core_s * 10.0).round() / 10.0));
        fields.insert("wall_s".into(), json!((judged.wall_s * 10.0).round() / 10.0));
        fields.insert("machine".into(), json!(machine()));
    }
    record
}

/// Processor and cores.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    format!("{}, {} cores", model.unwrap_or(std::env::consts::ARCH), crate::run::default_threads())
}

/// What decides a result, as 16 hexadecimal digits: the scenario at each point that it needs, whatever its seeds, and its
/// checks.
///
/// # Errors
/// A scenario that makes no sense at a point.
pub(super) fn configuration(experiment: &Experiment, result: &Published) -> Result<String, ConfigError> {
    let mut hash = Fnv::new();
    for mut point in experiment.points(Mode::Full, &|label| result.needs(label))? {
        point.plan.scenario.seeds = crate::scenario::Seeds(vec![1]);
        hash.add(&point.label);
        hash.add(&point.plan.effective());
    }
    for check in &result.checks {
        hash.add(&check.text);
        hash.add(check.holds.source());
    }
    Ok(format!("{:016x}", hash.0))
}

/// FNV-1a of 64 bits: the same on every machine and in every version, which `std`'s hashes do not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv() {
        let mut hash = Fnv::new();
        for byte in *b"foobar" {
            hash.0 = (hash.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        assert_eq!(hash.0, 0x8594_4171_f739_67e8, "the authors' test vector");
    }

    #[test]
    fn what_is_not_a_record_is_named_with_its_line() {
        let dir = std::env::temp_dir().join(format!("selvedge-archive-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(Archive::open(&dir, "none").unwrap().records.is_empty());
        for (text, says) in [("{}\n", "line 1: there is no `id`"), ("{\"id\":\"a\"}\n{", "line 2: ")] {
            fs::write(dir.join("bad.jsonl"), text).unwrap();
            let error = Archive::open(&dir, "bad").unwrap_err().to_string();
            assert!(error.contains("bad.jsonl") && error.contains(says), "{error}");
        }
        fs::write(dir.join("good.jsonl"), "{\"id\":\"good/a\",\"configuration\":\"12\",\"file\":\"f\",\"core_s\":2}\n")
            .unwrap();
        let good = Archive::open(&dir, "good").unwrap();
        assert!(good.has("good/a", "12") && !good.has("good/a", "13") && !good.has("good/b", "12"));
        assert!((good.core_s() - 2.0).abs() < 1e-9);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_configuration_follows_scenario_and_checks_but_not_seeds() {
        let (file, text) = super::super::embedded().find(|(file, _)| *file == "presto/fig15.toml").unwrap();
        let of = |text: &str| {
            let experiment = Experiment::parse(file, text).unwrap();
            configuration(&experiment, &experiment.results[0]).unwrap()
        };
        let first = of(text);
        assert_eq!((first.len(), of(&format!("{text}\n# a comment\n"))), (16, first.clone()));
        let seeds = text.lines().find(|line| line.starts_with("seeds = ")).unwrap();
        assert_eq!(of(&text.replacen(seeds, "seeds = \"7..9\"", 1)), first);
        let other = "include = \"testbed.toml\"\nswitch = { alpha = 2.0 }";
        assert_ne!(of(&text.replacen("include = \"testbed.toml\"", other, 1)), first);
    }
}
