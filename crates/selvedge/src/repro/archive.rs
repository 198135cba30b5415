//! Records of runs: `DIR/<paper>.jsonl`, one JSON object a result, mode and line, in the order of ids. A result whose record has the
//! configuration of now is not run again, so an archive that was interrupted goes on where it was.

use super::file::Mode;
use super::fingerprint::{COMMIT, SOURCES};
use super::judge::Judged;
use super::records::{embedded_records, Record};
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
    /// By id and mode.
    records: BTreeMap<(String, String), Value>,
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
        Archive::read(path.clone(), &text, &fail)
    }

    /// The records of a paper in this binary, to be read only.
    ///
    /// # Errors
    /// A line of them that is no record.
    pub(super) fn embedded(paper: &str) -> Result<Archive, ConfigError> {
        let path = PathBuf::from(format!("results/{paper}.jsonl"));
        let text = embedded_records().find(|(file, _)| *file == format!("{paper}.jsonl")).map_or("", |(_, text)| text);
        let fail = |problem: String| ConfigError::new(path.display().to_string(), problem, "build the program anew");
        Archive::read(path.clone(), text, &fail)
    }

    fn read(path: PathBuf, text: &str, fail: &dyn Fn(String) -> ConfigError) -> Result<Archive, ConfigError> {
        let mut records = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            let value: Value = serde_json::from_str(line).map_err(|e| fail(format!("line {}: {e}", n + 1)))?;
            let id = value["id"].as_str().ok_or_else(|| fail(format!("line {}: there is no `id`", n + 1)))?;
            serde_json::from_value::<Record>(value.clone())
                .map_err(|e| fail(format!("line {}: is no record: {e}", n + 1)))?;
            let mode = value["mode"].as_str().unwrap_or_default();
            if records.insert((id.to_owned(), mode.to_owned()), value.clone()).is_some() {
                let place = format!("{}, line {}", path.display(), n + 1);
                return Err(ConfigError::new(
                    place,
                    format!("{id} ({mode}) is there twice"),
                    "remove one of the lines",
                ));
            }
        }
        Ok(Archive { path, records })
    }

    /// Is the result there, run in this mode with this configuration?
    pub(super) fn has(&self, id: &str, mode: Mode, configuration: &str) -> bool {
        let record = self.records.get(&(id.to_owned(), mode.name().to_owned()));
        record.is_some_and(|record| record["configuration"] == configuration)
    }

    /// Processor time that an experiment's longest call in a mode took, seconds, and with how many seeds each result that still has a
    /// record of that call was decided. `counts`: does the record of this id count?
    pub(super) fn took(
        &self,
        file: &str,
        mode: Mode,
        counts: &dyn Fn(&str) -> bool,
    ) -> Option<(f64, BTreeMap<String, u64>)> {
        let of = |record: &&Value| record["file"] == file && record["mode"] == mode.name();
        let took = |record: &Value| Some((record["core_s"].as_f64()?, record["seeds"].as_u64()?));
        let all = || {
            self.records
                .iter()
                .filter(|((id, _), r)| of(r) && counts(id))
                .filter_map(|((id, _), r)| Some((id, took(r)?)))
        };
        let longest = all().map(|(_, (core_s, _))| core_s).max_by(f64::total_cmp)?;
        // Results of one call have one time.
        let same = all().filter(|(_, (core_s, _))| *core_s >= longest);
        Some((longest, same.map(|(id, (_, seeds))| (id.clone(), seeds)).collect()))
    }

    /// Processor time that the records of a mode took, seconds, each experiment counted once.
    pub(super) fn core_s(&self, mode: Mode) -> f64 {
        let experiments: BTreeMap<&str, f64> = self
            .records
            .values()
            .filter(|record| record["mode"] == mode.name())
            .filter_map(|record| Some((record["file"].as_str()?, record["core_s"].as_f64()?)))
            .collect();
        experiments.values().sum()
    }

    /// What a claim's run on real hosts came to with this configuration, if it has a record.
    pub(super) fn on_real_hosts(&self, id: &str, configuration: &str) -> Option<&Value> {
        let record = self.records.get(&(id.to_owned(), String::new()));
        record.filter(|record| record["configuration"] == configuration)
    }

    /// As [`Archive::put`], of a simulation.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn keep(&mut self, file: &str, configuration: &str, judged: &Judged) -> Result<(), Failure> {
        self.put(judged, record(judged, file, configuration))
    }

    /// Adds or replaces a record, and writes the file as a whole.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn put(&mut self, judged: &Judged, record: Value) -> Result<(), Failure> {
        self.records.insert((judged.published.id.clone(), judged.mode.to_owned()), record);
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
        // The scenario and the status have these.
        fields.remove("source");
        fields.remove("holds");
        fields.insert("seeds".into(), json!(judged.seeds.len()));
        fields.insert("file".into(), json!(file));
        fields.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        fields.insert("sources".into(), json!(SOURCES));
        if let Some(commit) = COMMIT {
            fields.insert("commit".into(), json!(commit));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_record_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(Archive::open(dir, "none").unwrap().records.is_empty());
        for (text, says) in [("{}\n", "line 1: there is no `id`"), ("{\"id\":\"a\",\"status\":\"holds\"}\n{", "line 2: "),
            ("{\"id\":\"a\",\"status\":7}\n", "line 1: is no record: "),
            (
                "{\"id\":\"a\",\"status\":\"holds\",\"mode\":\"full\"}\n{\"id\":\"a\",\"status\":\"fails\",\"mode\":\"full\"}\n",
                "line 2: a (full) is there twice; remove one of the lines",
            ),
        ] {
            fs::write(dir.join("bad.jsonl"), text).unwrap();
            let error = Archive::open(dir, "bad").unwrap_err().to_string();
            assert!(error.contains("bad.jsonl") && error.contains(says), "{error}");
        }
        let line = |mode: &str, core_s: u32| {
            format!("{{\"id\":\"good/a\",\"status\":\"holds\",\"mode\":\"{mode}\",\"configuration\":\"12\",\"file\":\"f\",\"core_s\":{core_s},\"seeds\":5}}\n")
        };
        fs::write(dir.join("good.jsonl"), [line("full", 20), line("quick", 2)].concat()).unwrap();
        let good = Archive::open(dir, "good").unwrap();
        assert!(good.has("good/a", Mode::Full, "12") && good.has("good/a", Mode::Quick, "12"));
        assert!(!good.has("good/a", Mode::Full, "13") && !good.has("good/b", Mode::Full, "12"));
        assert!(!good.has("good/a", Mode::Paper, "12"));
        assert!((good.core_s(Mode::Full) - 20.0).abs() < 1e-9, "a mode's own");
        assert_eq!(good.took("f", Mode::Quick, &|_| true), Some((2.0, BTreeMap::from([("good/a".to_owned(), 5)]))));
        assert_eq!(good.took("g", Mode::Quick, &|_| true), None);
        assert_eq!(good.took("f", Mode::Quick, &|_| false), None);
    }
}
