//! The records that the site shows.

use super::super::records::{self, current, read_records, Record, Records};
use config::ConfigError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// A longer file is none of ours.
const MOST: u64 = 64 << 20;

/// Records, and the lines that they were read from.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What they say of results whose scenario and checks are as they were then.
    pub(super) current: Records,
    lines: BTreeMap<String, Value>,
}

impl Kept {
    /// Of all `*.jsonl` files of a directory, or of the binary.
    ///
    /// # Errors
    /// A directory without such files, a file that does not read, an id that two lines have.
    pub(super) fn read(dir: Option<&Path>) -> Result<Kept, ConfigError> {
        let texts = match dir {
            Some(dir) => texts(dir)?,
            None => records::embedded_records().map(|(file, text)| (file.to_owned(), text.to_owned())).collect(),
        };
        let (mut all, mut lines): (BTreeMap<String, Record>, BTreeMap<String, Value>) = Default::default();
        for (file, text) in &texts {
            for (id, record) in read_records(file, text)? {
                if all.insert(id.clone(), record).is_some() {
                    let problem = format!("{id} has a record in another file, too");
                    return Err(ConfigError::new(file.clone(), problem, "keep one of them in the directory"));
                }
            }
            for value in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                if let Some(id) = value["id"].as_str() {
                    lines.insert(id.to_owned(), value.clone());
                }
            }
        }
        Ok(Kept { current: current(all)?, lines })
    }

    pub(super) fn line(&self, id: &str) -> Option<&Value> {
        self.lines.get(id)
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The result has a record, but its scenario or checks have changed since.
    pub(super) fn is_stale(&self, id: &str) -> bool {
        self.lines.contains_key(id) && !self.current.contains_key(id)
    }
}

fn texts(dir: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let fail = |place: &Path, e: &io::Error| {
        let remedy = "name a directory that --archive or --output has written";
        ConfigError::new(place.display().to_string(), format!("cannot be read: {e}"), remedy)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| fail(dir, &e))? {
        let path = entry.map_err(|e| fail(dir, &e))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = files::read_regular_text(&path, MOST).map_err(|e| fail(&path, &e))?;
            found.push((path.display().to_string(), text));
        }
    }
    if found.is_empty() {
        return Err(fail(dir, &io::Error::new(io::ErrorKind::NotFound, "there is no *.jsonl file")));
    }
    found.sort();
    Ok(found)
}
