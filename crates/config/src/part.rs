//! One file of a document: its name, text and table, and which of two files gives a key its value.

use crate::error::{ConfigError, Fault};
use crate::place::{join, line_at, Lines};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Copies share it: a document is copied for each of its schemes and points.
#[derive(Clone, Debug)]
pub(crate) struct Part(Arc<Content>);

#[derive(Debug)]
struct Content {
    name: String,
    text: String,
    table: Table,
    /// Read when the first fault wants its place.
    lines: OnceLock<Lines>,
}

impl Part {
    /// `page` is where the reader finds an example.
    ///
    /// # Errors
    /// Text that is not TOML.
    pub(crate) fn parse(name: &str, text: &str, page: &str) -> Result<Part, ConfigError> {
        let table = text.parse::<Table>().map_err(|e| {
            let line = e.span().map(|span| line_at(text, span.start));
            let at = e.span().and_then(|span| text.get(span)).unwrap_or("").lines().next().unwrap_or("").trim();
            let (problem, remedy) = match e.message() {
                "duplicate key" => (format!("`{at}` is there twice"), "remove one of them".to_owned()),
                other => {
                    if let Some((key, value, line)) = too_large(text) {
                        let place = place(name, Some(line));
                        let problem = format!("{value} is too large");
                        let remedy = format!("give a whole number from {} to {}", i64::MIN, i64::MAX);
                        return Fault { place, key, problem, remedy }.into();
                    }
                    (format!("this is not TOML: {other}"), format!("correct it; {page} has an example"))
                }
            };
            ConfigError::new(place(name, line), problem, remedy)
        })?;
        Ok(Part(Arc::new(Content { name: name.to_owned(), text: text.to_owned(), table, lines: OnceLock::new() })))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0.table
    }

    pub(crate) fn directory(&self) -> &Path {
        Path::new(&self.0.name).parent().unwrap_or(Path::new(""))
    }

    /// `file.toml:12`: the line of the key, or of the nearest one above it.
    pub(crate) fn place(&self, path: &[String]) -> String {
        let lines = self.0.lines.get_or_init(|| Lines::of(&self.0.text));
        place(&self.0.name, lines.line_of(path))
    }

    /// Does it have the key, or the item of a list?
    pub(crate) fn has(&self, path: &[String]) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        let found = rest.iter().try_fold(self.0.table.get(first), |value, step| match value? {
            Value::Table(table) => Some(table.get(step)),
            Value::Array(items) => Some(step.parse::<usize>().ok().and_then(|n| items.get(n))),
            _ => None,
        });
        found.flatten().is_some()
    }

    /// Is the key here, or more of the tables above it, than in `first`, which wins where it has a value?
    pub(crate) fn decides_beside(&self, first: &Part, path: &[String]) -> bool {
        let (own, open) = depth(&first.0.table, path);
        open && depth(&self.0.table, path).0 > own
    }
}

/// How many keys of the path are there, and whether the last of them is a table to which another could add keys.
fn depth(table: &Table, path: &[String]) -> (usize, bool) {
    let Some((first, rest)) = path.split_first() else { return (0, true) };
    match table.get(first) {
        None => (0, true),
        Some(Value::Table(inner)) => {
            let (deeper, open) = depth(inner, rest);
            (1 + deeper, open)
        }
        Some(_) => (1, false),
    }
}

/// `above` with the keys of `below` that it does not give, table by table.
pub(crate) fn lay(above: &Table, below: &Table) -> Table {
    let mut all = below.clone();
    for (key, value) in above {
        let merged = match (value, below.get(key)) {
            (Value::Table(above), Some(Value::Table(below))) => Value::Table(lay(above, below)),
            _ => value.clone(),
        };
        all.insert(key.clone(), merged);
    }
    all
}

/// The first whole number that nothing can hold, of a text that is TOML: its key, itself, its line.
fn too_large(text: &str) -> Option<(String, String, usize)> {
    fn within(key: &str, value: &Spanned<DeValue<'_>>) -> Option<(String, String, usize)> {
        match value.get_ref() {
            DeValue::Integer(whole) => {
                let fits = i64::from_str_radix(whole.as_str(), whole.radix()).is_ok();
                (!fits).then(|| (key.to_owned(), whole.to_string(), value.span().start))
            }
            DeValue::Table(table) => table.iter().find_map(|(k, v)| within(&join(key, k.get_ref()), v)),
            DeValue::Array(items) => items.iter().enumerate().find_map(|(n, v)| within(&join(key, &n.to_string()), v)),
            _ => None,
        }
    }
    let root = DeTable::parse(text).ok()?;
    let (key, value, at) = root.get_ref().iter().find_map(|(k, v)| within(k.get_ref(), v))?;
    Some((key, value, line_at(text, at)))
}

fn place(name: &str, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{name}:{line}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConfigError, Document, Invalid};
    use std::path::Path;

    const TESTBED: &str =
        "title = \"testbed\"\n[topology]\nrate = \"10Gbps\"\nhosts = 4\n[host.tcp]\nrto_min = \"10ms\"\n";

    fn read(own: &str) -> Result<Document, ConfigError> {
        Document::parse_including("a/own.toml", own, "page", &|path: &Path| match path.to_str() {
            Some("a/testbed.toml") => Ok(TESTBED.to_owned()),
            Some("a/again.toml") => Ok("x = 1\ninclude = \"testbed.toml\"".to_owned()),
            Some("a/own.toml") => Ok(own.to_owned()),
            Some("a/bad.toml") => Ok("x = 1\nx = 2".to_owned()),
            _ => Err("there is none".to_owned()),
        })
    }

    #[test]
    fn the_file_wins_table_by_table() {
        let own = "include = \"testbed.toml\"\n[topology]\nhosts = 8\n[host]\nmtu = 9\nflags = [1]\n";
        let merged: toml::Table = "title = \"testbed\"\n[topology]\nrate = \"10Gbps\"\nhosts = 8\n[host]\nmtu = 9\n\
            flags = [1]\ntcp = { rto_min = \"10ms\" }\n"
            .parse()
            .unwrap();
        assert_eq!(*read(own).unwrap().table(), merged);
        assert_eq!(*read("x = 1\n").unwrap().table(), "x = 1".parse().unwrap());
    }

    #[test]
    fn a_fault_stands_where_its_value_does() {
        let own = "include = \"testbed.toml\"\n[topology]\nhosts = 8\n[[workload]]\nsize = 1\n";
        let mut document = read(own).unwrap();
        let place =
            |document: &Document, key: &str| document.error(&Invalid::new(key, "", "")).faults()[0].place.clone();
        for (key, at) in [
            ("topology.hosts", "a/own.toml:3"),
            ("topology.rate", "a/testbed.toml:3"),
            ("topology.delay", "a/own.toml:2"),
            ("host.tcp.rto_min", "a/testbed.toml:6"),
            ("host.mtu", "a/testbed.toml:5"),
            ("title", "a/testbed.toml:1"),
            ("workload.0.size", "a/own.toml:5"),
            ("duration", "a/own.toml"),
        ] {
            assert_eq!(place(&document, key), at, "{key}");
        }
        document.set("topology.rate=1Gbps").unwrap();
        assert_eq!(place(&document, "topology.rate"), "--set topology.rate=1Gbps");
        assert_eq!(place(&document, "topology.hosts"), "a/own.toml:3");
    }

    #[test]
    fn what_cannot_be_included_is_named_with_its_line() {
        for (own, says) in [
            ("x = 1\ninclude = \"none.toml\"", "a/own.toml:2: include: a/none.toml cannot be read: there is none"),
            ("include = 7", "a/own.toml:1: include: found 7"),
            ("include = \"\"", "a/own.toml:1: include: found \"\""),
            ("include = \"own.toml\"", "a/own.toml:1: include: a/own.toml is included by a/own.toml"),
            ("include = \"again.toml\"", "a/again.toml:2: include: a/again.toml is included by a/own.toml, so it can"),
            ("include = \"bad.toml\"", "a/bad.toml:2: `x` is there twice"),
        ] {
            let error = read(own).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    #[test]
    fn what_only_a_change_made_is_told_of_the_change() {
        let mut document = Document::parse("a.toml", "x = 1\n[t]\ny = 2\n[[w]]\nk = 1\n", "page").unwrap();
        document.set("a.b.c=1").unwrap();
        document.set("t.z.q=1").unwrap();
        document.set("w.0.u.v=1").unwrap();
        let place = |key: &str| document.error(&Invalid::new(key, "", "")).faults()[0].place.clone();
        assert_eq!(
            [place("a"), place("a.b"), place("t.z"), place("w.0.u")].map(|p| p.starts_with("--set ")),
            [true; 4]
        );
        assert_eq!(
            [place("x"), place("t"), place("t.y"), place("w"), place("w.0"), place("w.0.k"), place("none")]
                .map(|p| p.starts_with("a.toml")),
            [true; 7]
        );
    }

    #[test]
    fn a_number_that_nothing_can_hold_is_told_with_its_key() {
        for number in [
            "99999999999999999999",
            "9223372036854775808",
            "0xffffffffffffffff",
            "999999999999999999999999999999999999999999999",
        ] {
            let text = format!("a = 1\n[[w]]\nk = [1, {number}]\n");
            let error = Document::parse("a.toml", &text, "page").unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("a.toml:3: w.0.k.1: {number} is too large; give a whole number from -9223")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_key_below_a_list_is_to_name_the_item() {
        let mut document = Document::parse("a.toml", "s = [1]\nn = 1\n[[workload]]\nname = \"w\"\n", "page").unwrap();
        let mut said = |set: &str| document.set(set).unwrap_err().to_string();
        assert!(said("workload.w=1").ends_with("`workload` is an array of tables; name a key of one: workload.w.k"));
        assert!(said("s.x=1").ends_with("`s` is an array, which has no keys; shorten the key"));
        assert!(said("n.x=1").ends_with("`n` is an integer, which has no keys; shorten the key"));
    }

    #[test]
    fn faults_find_their_places_in_one_reading_of_the_text() {
        let keys = 5000;
        let text: String = (0..keys).map(|n| format!("[scheme.s{n}]\nbalance = 1\n")).collect();
        let document = Document::parse("a.toml", &text, "page").unwrap();
        let (before, copy) = (crate::place::READINGS.with(std::cell::Cell::get), document.clone());
        for (n, document) in (0..keys).zip([&document, &copy].into_iter().cycle()) {
            let error = document.error(&Invalid::new(format!("scheme.s{n}.balance"), "", ""));
            assert_eq!(error.faults()[0].place, format!("a.toml:{}", 2 * n + 2));
        }
        assert_eq!(crate::place::READINGS.with(std::cell::Cell::get) - before, 1);
    }

    #[test]
    fn a_document_for_one_scheme_has_no_other() {
        let text = "x = 1\n[scheme.a]\ny = 2\n[scheme.b]\ny = \"b\"\n[switch]\nz = 3\n";
        let document = Document::parse("a.toml", text, "page").unwrap();
        let only = document.with_only("scheme", "b");
        let whole: toml::Table = "x = 1\n[scheme.b]\ny = \"b\"\n[switch]\nz = 3\n".parse().unwrap();
        assert_eq!(*only.table(), whole);
        assert_eq!(only.table().keys().collect::<Vec<_>>(), ["x", "scheme", "switch"]);
        assert_eq!(document.with_only("scheme", "c").table()["scheme"], toml::Value::Table(toml::Table::new()));
        let place = only.error(&Invalid::new("scheme.b.y", "", "")).faults()[0].place.clone();
        assert_eq!(place, "a.toml:5");
    }

    #[test]
    fn paths_are_relative_to_the_file_that_gives_them() {
        let document = Document::parse_including("a/own.toml", "include = \"../b/t.toml\"\nx = 1", "page", &|_| {
            Ok("[topology]\npath = \"p\"".to_owned())
        })
        .unwrap();
        assert_eq!(document.directory_of("topology.path"), Path::new("a/../b"));
        assert_eq!(document.directory_of("x"), Path::new("a"));
    }
}
