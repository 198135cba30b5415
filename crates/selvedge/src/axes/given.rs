//! `--set` beside an axis: what a point changes cannot be set, too.

use super::SweepTable;
use config::{ConfigError, Document};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The steps to a key. In lists they are positions.
type Path = Vec<String>;

impl SweepTable {
    /// Refuses a `--set` of what one of these points changes: nobody would see that it does not hold there. `document` has what was set.
    ///
    /// # Errors
    /// Such a `--set`.
    pub(crate) fn check_set(
        &self,
        sets: &[String],
        points: impl IntoIterator<Item = usize>,
        document: &Document,
    ) -> Result<(), ConfigError> {
        let root = document.table();
        let mut changed = BTreeSet::new();
        for n in points {
            self.changed(n, root, &mut changed);
        }
        for set in sets {
            let typed = steps(set.split('=').next().unwrap_or_default().trim());
            let (key, value) = resolved(root, &typed);
            let mut given = Vec::new();
            ends(key.clone(), value, &mut given);
            let is_lost = |end: &&Path| changed.iter().any(|other| other.starts_with(end) || end.starts_with(other));
            if let Some(lost) = given.iter().find(is_lost) {
                let problem =
                    format!("{} is what [sweep] changes", [&typed[..], &lost[key.len()..]].concat().join("."));
                let remedy = "leave it out, or choose points with --at";
                return Err(ConfigError::new(format!("--set {set}"), problem, remedy));
            }
        }
        Ok(())
    }

    /// The keys that the `n`-th point replaces.
    fn changed(&self, n: usize, root: &Table, into: &mut BTreeSet<Path>) {
        if self.values.get(n).is_some() {
            into.extend(self.keys.iter().map(|key| resolved(root, &steps(key)).0));
        }
        if let Some(point) = self.point.get(n) {
            overlaid(&point.set, &[], root, into);
        }
    }
}

/// What a table replaces that is laid over the document, as [`Document::overlay`] does it.
fn overlaid(table: &Table, at: &[String], root: &Table, into: &mut BTreeSet<Path>) {
    for (key, value) in table {
        let to = [at, &steps(key)].concat();
        let there = || to[1..].iter().fold(root.get(&to[0]), |value, name| value?.get(name)).is_some();
        match value {
            Value::Table(inner) if !inner.is_empty() || there() => overlaid(inner, &to, root, into),
            _ => into.extend([resolved(root, &to).0]),
        }
    }
}

fn steps(key: &str) -> Path {
    key.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect()
}

/// With positions for names in lists, and the value there, if there is one.
fn resolved<'v>(root: &'v Table, path: &[String]) -> (Path, Option<&'v Value>) {
    let mut found = Path::new();
    let mut at: Option<&Value> = None;
    for (n, step) in path.iter().enumerate() {
        let mut step = step.clone();
        at = match at {
            None if n == 0 => root.get(&step),
            Some(Value::Table(table)) => table.get(&step),
            Some(Value::Array(items)) => {
                let known = step.parse().ok().filter(|&n: &usize| n < items.len());
                let known = known.or_else(|| items.iter().position(|item| name_of(item) == Some(&step)));
                step = known.map_or(step, |n| n.to_string());
                known.and_then(|n| items.get(n))
            }
            _ => None,
        };
        found.push(step);
    }
    (found, at)
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name").or_else(|| item.get("id"))?.as_str()
}

/// All keys of a value that hold no others.
fn ends(path: Path, value: Option<&Value>, into: &mut Vec<Path>) {
    let below: Vec<(String, &Value)> = match value {
        Some(Value::Table(table)) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Some(Value::Array(items)) if items.iter().any(Value::is_table) => {
            items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    if below.is_empty() {
        into.push(path);
        return;
    }
    for (step, value) in below {
        ends([&path[..], &[step]].concat(), Some(value), into);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Axes;
    use super::*;

    const FILE: &str =
        "[topology]\nspines = 2\n[switch]\nbuffer = \"1MB\"\n[[workload]]\nname = \"mice\"\nsize = \"1KB\"\n\
                        [[sweep]]\nname = \"what\"\npoint = [\n\
                        { label = \"a\", set = { topology.spines = 1, switch.notify = {} } },\n\
                        { label = \"b\", set = { workload.mice.size = \"2KB\", host.tcp = {} } }]\n\
                        [[sweep]]\nname = \"load\"\nvalues = [1, 2]\nkeys = [\"workload.mice.load\", \"host.tcp.k\"]\n";

    fn said(sets: &[&str], at: &[&str]) -> String {
        let mut document = Document::parse("s.toml", FILE, "p").unwrap();
        let sweep = document.take("sweep").unwrap();
        sets.iter().for_each(|set| document.set(set).unwrap());
        let axes = Axes::read(&document, sweep).unwrap();
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        axes.check_set(&owned(sets), &owned(at), &document).map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn what_a_point_changes_cannot_be_set() {
        for (set, key) in [
            ("topology.spines=9", "topology.spines"),
            ("topology={spines=9, leaves=4}", "topology.spines"),
            ("topology=9", "topology"),
            ("workload.mice.size=9KB", "workload.mice.size"),
            ("workload.0.size=9KB", "workload.0.size"),
            ("workload.0.load=9", "workload.0.load"),
            ("workload=[{name=\"mice\", size=\"9KB\"}]", "workload.0.size"),
            ("host.tcp.k=9", "host.tcp.k"),
            ("host.tcp.k.deeper=9", "host.tcp.k.deeper"),
            ("host={tcp={k=9}}", "host.tcp.k"),
        ] {
            let words = format!("--set {set}: {key} is what [sweep] changes; leave it out, or choose points with --at");
            assert_eq!(said(&[set], &[]), words);
        }
    }

    #[test]
    fn what_no_chosen_point_changes_can_be_set() {
        for (sets, at) in [
            (&["topology.leaves=4", "topology={leaves=4}", "switch.buffer=2MB", "title=x"][..], &[][..]),
            // An empty table changes nothing where something stands.
            (&["switch.notify.k=1", "host.tcp.other=1", "workload.mice.every=1ms"], &[]),
            (&["topology.spines=9"], &["b,load=1", "b,load=2"]),
            (&["workload.mice.size=9KB"], &["a,load=2"]),
        ] {
            assert_eq!(said(sets, at), "", "{sets:?} {at:?}");
        }
        assert!(said(&["topology.spines=9"], &["b,load=1", "a,load=1"]).contains("topology.spines is what"));
        assert!(said(&["topology.spines=9"], &["c"]).contains("no point \"c\""));
    }
}
