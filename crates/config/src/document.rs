//! A configuration as text: the place of each key, and layers that change values.

use crate::error::{ConfigError, Fault};
use crate::part::{lay, Part};
use crate::place::{join, split};
use crate::strict::{self, Lost};
use crate::Invalid;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The key by which a file names another that it completes.
const INCLUDE: &str = "include";

/// A parsed file together with its text, the file that it includes, and the changes laid over both.
#[derive(Clone, Debug)]
pub struct Document {
    own: Part,
    included: Option<Part>,
    table: Table,
    layers: Vec<Layer>,
    /// Keys of the root that were read by themselves.
    apart: Vec<String>,
}

/// A change laid over a file: the keys that it decides, and how to name it in an error.
#[derive(Clone, Debug)]
struct Layer {
    key: Vec<String>,
    /// Where the change was written: a place of its own, or a key of the same file.
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Elsewhere(String),
    Key(Vec<String>),
    /// A value there, of a key that has its own name and stands elsewhere.
    Value {
        value: Vec<String>,
        key: Vec<String>,
    },
}

impl Document {
    /// `page` is where the reader finds an example, such as `docs/scenarios.md`.
    ///
    /// # Errors
    /// Text that is not TOML.
    pub fn parse(name: &str, text: &str, page: &str) -> Result<Document, ConfigError> {
        let own = Part::parse(name, text, page)?;
        let table = own.table().clone();
        Ok(Document { own, included: None, table, layers: Vec::new(), apart: Vec::new() })
    }

    /// The same for a file that may have the key `include`: a path relative to the file, of one whose keys hold where the
    /// file does not give them. Tables merge key by key; of a list, the file's own replaces the included one. What is
    /// included includes nothing itself. `read` gives the text at a path, or what is wrong with it.
    ///
    /// # Errors
    /// Text of either file that is not TOML; an included file that cannot be read, or that has the key itself.
    pub fn parse_including(
        name: &str,
        text: &str,
        page: &str,
        read: &dyn Fn(&Path) -> Result<String, String>,
    ) -> Result<Document, ConfigError> {
        let mut document = Document::parse(name, text, page)?;
        let Some(value) = document.take(INCLUDE) else { return Ok(document) };
        let wrong = |problem: String| Invalid::new(INCLUDE, problem, "give the path of a file, relative to this one");
        let Some(path) = value.as_str().filter(|path| !path.is_empty()) else {
            return Err(document.error(&wrong(format!("found {value}"))));
        };
        let path = document.own.directory().join(path);
        let text =
            read(&path).map_err(|e| document.error(&wrong(format!("{} cannot be read: {e}", path.display()))))?;
        let included = Part::parse(&path.display().to_string(), &text, page)?;
        if included.table().contains_key(INCLUDE) {
            let problem = format!("{} is included by {name}, so it can include no other", included.name());
            let remedy = "remove the key; copy here what it names";
            let place = included.place(&[INCLUDE.to_owned()]);
            return Err(Fault { place, key: INCLUDE.to_owned(), problem, remedy: remedy.to_owned() }.into());
        }
        document.table = lay(&document.table, included.table());
        document.included = Some(included);
        Ok(document)
    }

    pub fn name(&self) -> &str {
        self.own.name()
    }
    /// With all layers applied.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// A copy that has of the table `of` only `key`: what is made for each entry of a table is to cost no copy of all of them.
    #[must_use]
    pub fn with_only(&self, of: &str, key: &str) -> Document {
        let kept = |(name, value): (&String, &Value)| match value {
            Value::Table(table) if name == of => {
                let entry = table.get_key_value(key).map(|(key, value)| (key.clone(), value.clone()));
                (name.clone(), Value::Table(entry.into_iter().collect()))
            }
            other => (name.clone(), other.clone()),
        };
        let table = self.table.iter().map(kept).collect();
        Document {
            own: self.own.clone(),
            included: self.included.clone(),
            table,
            layers: self.layers.clone(),
            apart: self.apart.clone(),
        }
    }

    /// Takes `table`, of which all keys stand in the file, for what is left to read.
    pub fn replace(&mut self, table: Table) {
        self.table = table;
    }

    /// Removes a key of the root, so that the rest can be read strictly.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        if !self.apart.iter().any(|known| known == key) {
            self.apart.push(key.to_owned());
        }
        self.table.remove(key)
    }

    /// Applies `key=value` from the command line. `key` is a dotted path, an array of tables being indexed by position
    /// (from 0) or by `name`; `value` is TOML, or a bare word or quantity, which is taken as a string.
    ///
    /// # Errors
    /// No `=`, or a path through something that is not a table.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        self.set_at(&format!("--set {assignment}"), assignment)
    }

    /// The same for an assignment that stands elsewhere: `place` is what an error names.
    ///
    /// # Errors
    /// As for [`Document::set`].
    pub fn set_at(&mut self, place: &str, assignment: &str) -> Result<(), ConfigError> {
        let fail = |key: &str, problem: &str, remedy: &str| {
            ConfigError::from(Fault {
                place: place.to_owned(),
                key: key.to_owned(),
                problem: problem.to_owned(),
                remedy: remedy.to_owned(),
            })
        };
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(fail("", "there is no `=`", "write key=value, such as --set switch.buffer=4MB"));
        };
        let (key, text) = (key.trim(), text.trim());
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(fail(key, "the key is malformed", "write a dotted path, such as switch.buffer"));
        }
        self.assign(key, toml_value(text), Source::Elsewhere(place.to_owned()))
            .map_err(|(problem, remedy)| fail(key, &problem, &remedy))
    }

    /// Sets one key to a value that stands at `source` in the same file.
    ///
    /// # Errors
    /// A path through something that is not a table.
    pub fn set_from(&mut self, key: &str, value: Value, source: &str) -> Result<(), ConfigError> {
        self.assign(key, value, Source::Key(split(source)))
            .map_err(|(problem, remedy)| self.error(&Invalid::new(source, problem, remedy)))
    }

    /// Sets one key to a value that stands at `source` in the same file, where no name of the key is: errors name both. `named` is where
    /// the file has the key.
    ///
    /// # Errors
    /// As for [`Document::set_from`].
    pub fn set_value(&mut self, key: &str, value: Value, source: &str, named: &str) -> Result<(), ConfigError> {
        self.assign(key, value, Source::Value { value: split(source), key: split(named) })
            .map_err(|(problem, remedy)| self.error(&Invalid::new(named, problem, remedy)))
    }

    /// Lays the table that stands at key `source` of this file over the document.
    ///
    /// # Errors
    /// As for [`Document::set_from`].
    pub fn overlay(&mut self, table: &Table, source: &str) -> Result<(), ConfigError> {
        self.overlay_at("", table, source)
    }

    /// The same, over the table at `target`.
    ///
    /// # Errors
    /// As for [`Document::set_from`].
    pub fn overlay_at(&mut self, target: &str, table: &Table, source: &str) -> Result<(), ConfigError> {
        for (key, value) in table {
            let (to, from) = (join(target, key), join(source, key));
            match value {
                // An empty table turns something on.
                Value::Table(inner) if !inner.is_empty() || self.has(&to) => self.overlay_at(&to, inner, &from)?,
                other => self.set_from(&to, other.clone(), &from)?,
            }
        }
        Ok(())
    }

    /// Is there such a key, under tables?
    fn has(&self, key: &str) -> bool {
        let mut path = split(key).into_iter();
        let first = path.next().and_then(|name| self.table.get(&name));
        path.fold(first, |value, name| value?.get(&name)).is_some()
    }

    /// Gives the keys that the document lacks, table by table. What it has stays.
    pub fn beneath(&mut self, below: &Table) {
        self.table = lay(&self.table, below);
    }

    fn assign(&mut self, key: &str, value: Value, source: Source) -> Result<(), (String, String)> {
        let mut path = split(key);
        let mut table = &mut self.table;
        let last = path.len() - 1;
        let mut i = 0;
        while i < last {
            let inside = table.entry(path[i].clone()).or_insert_with(|| Value::Table(Table::new()));
            let kind = inside.type_str();
            let has_tables = inside.as_array().is_some_and(|items| items.iter().any(Value::is_table));
            table = match inside {
                Value::Table(inner) => inner,
                Value::Array(items) if i + 1 < last => {
                    let n = position(items, &path[i], &path[i + 1])?;
                    i += 1;
                    path[i] = n.to_string();
                    items[n].as_table_mut().ok_or_else(|| no_keys(&path[i - 1], "list of plain values"))?
                }
                _ if has_tables => {
                    let (list, key) = (&path[i], &path[last]);
                    return Err((
                        format!("`{list}` is an array of tables"),
                        format!("name a key of one: {list}.{key}.k"),
                    ));
                }
                _ => return Err(no_keys(&path[i], kind)),
            };
            i += 1;
        }
        table.insert(path[last].clone(), value);
        self.layers.push(Layer { key: path, source });
        Ok(())
    }

    /// Reads the whole document strictly.
    ///
    /// # Errors
    /// All keys that are unknown, missing or have a value of the wrong kind, with their places.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.read_table(&self.table, "")
    }

    /// Reads `table`, which stands at key `at`, strictly.
    ///
    /// # Errors
    /// As for [`Document::read`].
    pub fn read_table<T: DeserializeOwned>(&self, table: &Table, at: &str) -> Result<T, ConfigError> {
        match self.read_part(table, at) {
            (Some(value), None, _) => Ok(value),
            (_, Some(error), _) => Err(error),
            (None, None, _) => Err(self.error(&strict::unreadable(at))),
        }
    }

    pub(crate) fn read_part<T: DeserializeOwned>(
        &self,
        table: &Table,
        at: &str,
    ) -> (Option<T>, Option<ConfigError>, Lost) {
        let strict::Read { value, found, cut, lost } =
            strict::read(table, if at.is_empty() { &self.apart } else { &[] });
        let faults = found.into_iter().map(|invalid| self.error(&invalid.below(at)));
        let mut error = faults.reduce(|mut all, more| {
            all.extend(more);
            all
        });
        if let (Some(error), true) = (&mut error, cut) {
            error.was_cut();
        }
        (value, error, lost)
    }

    /// Gives an invalid value its place: the layer that decided it, or its line, or that of the nearest key above it.
    pub fn error(&self, invalid: &Invalid) -> ConfigError {
        self.fault(invalid).into()
    }

    fn fault(&self, invalid: &Invalid) -> Fault {
        let (place, key) = self.locate(split(&invalid.key), self.layers.len(), invalid.is_of_key());
        Fault { place, key, problem: invalid.problem.clone(), remedy: invalid.remedy.clone() }
    }

    /// Place and shown name of a key, as the first `layers` layers decide. `of_key`: where its name stands, rather than its value.
    fn locate(&self, path: Vec<String>, layers: usize, of_key: bool) -> (String, String) {
        let decided = self.layers[..layers].iter().rposition(|layer| path.starts_with(&layer.key));
        match decided.map(|n| (n, &self.layers[n])) {
            Some((_, Layer { source: Source::Elsewhere(place), .. })) => (place.clone(), self.named(&path)),
            Some((n, Layer { source: Source::Key(source), key })) => {
                let mut at = source.clone();
                at.extend_from_slice(&path[key.len()..]);
                self.locate(at, n, of_key)
            }
            Some((n, Layer { source: Source::Value { value, key }, .. })) => {
                let source = if of_key { key } else { value };
                (self.locate(source.clone(), n, of_key).0, self.named(&path))
            }
            // A table that only a change made is the change's.
            None if !self.has_part(&path) => {
                match self.layers[..layers].iter().rfind(|layer| layer.key.starts_with(&path)) {
                    Some(Layer { source: Source::Elsewhere(place), .. }) => (place.clone(), self.named(&path)),
                    Some(Layer { source: Source::Key(source) | Source::Value { key: source, .. }, .. }) => {
                        self.locate(source.clone(), 0, of_key)
                    }
                    None => (self.part_of(&path).place(&path), self.named(&path)),
                }
            }
            None => (self.part_of(&path).place(&path), self.named(&path)),
        }
    }

    /// Does one of the files have the key?
    fn has_part(&self, path: &[String]) -> bool {
        self.own.has(path) || self.included.as_ref().is_some_and(|included| included.has(path))
    }

    /// The file that gives the key its value: the included one only if that alone does.
    fn part_of(&self, path: &[String]) -> &Part {
        self.included.as_ref().filter(|included| included.decides_beside(&self.own, path)).unwrap_or(&self.own)
    }

    /// The directory of the file that gives `key` its value, to which paths there are relative.
    pub fn directory_of(&self, key: &str) -> PathBuf {
        self.part_of(&split(key)).directory().to_owned()
    }

    /// The path with array positions replaced by names where the tables have one.
    fn named(&self, path: &[String]) -> String {
        let mut shown = path.to_vec();
        let mut table = Some(&self.table);
        let mut n = 0;
        while n < path.len() {
            match table.and_then(|table| table.get(&path[n])) {
                Some(Value::Table(inner)) => table = Some(inner),
                Some(Value::Array(items)) if n + 1 < path.len() => {
                    n += 1;
                    let item = path[n].parse::<usize>().ok().and_then(|at| items.get(at));
                    if let Some(name) = item.map(name_of).filter(|name| !name.is_empty()) {
                        shown[n] = name.to_owned();
                    }
                    table = item.and_then(Value::as_table);
                }
                _ => break,
            }
            n += 1;
        }
        shown.join(".")
    }
}

fn no_keys(key: &str, kind: &str) -> (String, String) {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    (format!("`{key}` is {article} {kind}, which has no keys"), "shorten the key".to_owned())
}

/// The item called `wanted`, or at that position, of the array `key`.
fn position(items: &[Value], key: &str, wanted: &str) -> Result<usize, (String, String)> {
    let found = wanted.parse().ok().filter(|&n: &usize| n < items.len());
    found.or_else(|| items.iter().position(|v| name_of(v) == wanted)).ok_or_else(|| {
        let names: Vec<&str> = items.iter().map(name_of).collect();
        (format!("there is no {key} `{wanted}`"), format!("there are {}: {}", items.len(), names.join(", ")))
    })
}

fn name_of(value: &Value) -> &str {
    value.get("name").or_else(|| value.get("id")).and_then(Value::as_str).unwrap_or("")
}

/// `9MB` and `clos` are strings, `4`, `1.0`, `true`, `"x"`, `[1, 2]` and `{k="65KB"}` are what TOML says.
fn toml_value(text: &str) -> Value {
    match format!("value = {text}").parse::<Table>() {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or_else(|| Value::String(text.to_owned())),
        _ => Value::String(text.to_owned()),
    }
}
