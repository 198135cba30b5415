//! Records with all that they say, for pages and tables.

use super::catalogue::Entry;
use super::file::Mode;
use super::fingerprint::SOURCES;
use super::records::{self, current, read_records, statuses, Record, Records};
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
    pub(super) statuses: Records,
    /// The one that counts for each result.
    current: BTreeMap<String, Record>,
    /// By id and mode, all of them.
    lines: BTreeMap<(String, Option<Mode>), Value>,
}

impl Kept {
    /// Of all `*.jsonl` files of a directory, or of the binary.
    ///
    /// # Errors
    /// A directory without such files, a file that does not read, an id and mode that two lines have.
    pub(super) fn read(dir: Option<&Path>) -> Result<Kept, ConfigError> {
        Kept::of(match dir {
            Some(dir) => texts(dir)?,
            None => records::embedded_records().map(|(file, text)| (file.to_owned(), text.to_owned())).collect(),
        })
    }

    fn of(texts: Vec<(String, String)>) -> Result<Kept, ConfigError> {
        let (mut all, mut lines) = (Vec::new(), BTreeMap::new());
        for (file, text) in &texts {
            let records = read_records(file, text)?;
            let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            for (record, value) in records.iter().zip(values) {
                if lines.insert((record.id.clone(), record.mode), value).is_some() {
                    let problem = format!("{} has a record in another file, too", record.id);
                    return Err(ConfigError::new(file.clone(), problem, "keep one of them in the directory"));
                }
            }
            all.extend(records);
        }
        let current = current(all)?;
        Ok(Kept { statuses: statuses(&current), current, lines })
    }

    /// The record that counts for a result, else its longest one, which is stale then.
    pub(super) fn line(&self, id: &str) -> Option<&Value> {
        match self.current.get(id) {
            Some(record) => self.lines.get(&(id.to_owned(), record.mode)),
            None => self.of_id(id).next_back(),
        }
    }

    /// What a shorter run than the one that counts said.
    pub(super) fn quick(&self, id: &str) -> Option<&Value> {
        let counts = self.line(id)?;
        self.of_id(id).find(|line| line["mode"] == Mode::Quick.name() && line["mode"] != counts["mode"])
    }

    /// The record of a claim's run on real hosts, unless its command or checks have changed since.
    pub(super) fn on_real_hosts(&self, entry: &Entry) -> Option<&Value> {
        let now = entry.configuration()?;
        let line = self.lines.get(&(entry.id.clone(), None))?;
        (line["configuration"].is_null() || line["configuration"] == now).then_some(line)
    }

    /// All records of a result's simulations, of the longest run last.
    fn of_id<'a>(&'a self, id: &str) -> impl DoubleEndedIterator<Item = &'a Value> + use<'a> {
        let key = |mode| (id.to_owned(), mode);
        self.lines.range(key(Some(Mode::Quick))..=key(Some(Mode::Paper))).map(|(_, line)| line)
    }

    /// Lines of the records that count, in the order of ids.
    pub(super) fn counting(&self) -> impl Iterator<Item = (&Record, &Value)> {
        self.current.values().filter_map(|record| Some((record, self.lines.get(&(record.id.clone(), record.mode))?)))
    }

    /// Results that have a record.
    pub(super) fn len(&self) -> usize {
        let mut ids: Vec<&String> = self.lines.keys().map(|(id, _)| id).collect();
        ids.dedup();
        ids.len()
    }

    /// The result has a record, but its scenario or checks have changed since.
    pub(super) fn is_stale(&self, id: &str) -> bool {
        self.of_id(id).next().is_some() && !self.current.contains_key(id)
    }

    /// Was it measured by other sources of the simulator than this binary's?
    pub(super) fn is_of_other_sources(&self, id: &str) -> bool {
        self.current.get(id).is_some_and(differs)
    }

    /// Records that count but were measured by other sources of the simulator than this binary's.
    pub(super) fn of_other_sources(&self) -> usize {
        self.current.values().filter(|record| differs(record)).count()
    }
}

fn differs(record: &Record) -> bool {
    record.sources.as_deref().is_some_and(|sources| sources != SOURCES)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_record_counts_before_a_quick_one_of_the_same_result() {
        let line = |mode: &str, status: &str, more: &str| {
            format!("{{\"id\":\"presto/fig6-throughput\",\"mode\":\"{mode}\",\"status\":\"{status}\"{more}}}\n")
        };
        let of = |lines: &[String]| Kept::of(vec![("presto.jsonl".to_owned(), lines.concat())]).unwrap();
        let both = of(&[line("full", "fails", ""), line("quick", "holds", ",\"sources\":\"0\"")]);
        let id = "presto/fig6-throughput";
        assert_eq!((both.line(id).unwrap()["mode"].as_str(), both.len()), (Some("full"), 1));
        assert_eq!(both.quick(id).unwrap()["status"], "holds");
        assert_eq!((both.of_other_sources(), both.is_of_other_sources(id)), (0, false), "the full one says nothing");
        let stale = ",\"configuration\":\"0\"";
        let old = of(&[line("full", "fails", stale), line("quick", "holds", ",\"sources\":\"0\"")]);
        assert_eq!(old.line(id).unwrap()["mode"], "quick", "the full one is of another scenario");
        assert_eq!((old.is_stale(id), old.of_other_sources()), (false, 1));
        assert!(of(&[line("full", "fails", stale)]).is_stale(id) && !of(&[]).is_stale(id));
        let twice = Kept::of(vec![("presto.jsonl".to_owned(), line("full", "fails", "").repeat(2))]).unwrap_err();
        assert!(twice.to_string().contains("(full) is there twice"), "{twice}");
    }

    #[test]
    fn a_run_on_real_hosts_stands_beside_what_the_simulator_says() {
        let lines = "{\"id\":\"hygenicc/fig6a\",\"status\":\"fails\",\"reason\":\"slow\"}\n\
                     {\"id\":\"hygenicc/fig6a\",\"mode\":\"quick\",\"status\":\"holds\"}\n";
        let of = |text: &str| Kept::of(vec![("hygenicc.jsonl".to_owned(), text.to_owned())]).unwrap();
        let all = super::super::catalogue::catalogues().unwrap();
        let entry = all.iter().flat_map(|c| &c.entries).find(|entry| entry.id == "hygenicc/fig6a").unwrap();
        let both = of(lines);
        assert_eq!(both.on_real_hosts(entry).unwrap()["reason"], "slow");
        assert_eq!(both.line(&entry.id).unwrap()["mode"], "quick");
        assert_eq!(entry.status(&both.statuses).word(), "holds");
        let alone = of(lines.lines().next().unwrap());
        assert_eq!(entry.status(&alone.statuses).word(), "not run", "the simulator said nothing");
        assert!(!alone.is_stale(&entry.id) && alone.line(&entry.id).is_none());
    }
}
