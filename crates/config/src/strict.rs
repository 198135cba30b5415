//! Strict reading that goes on after an error: it notes the error, removes the wrong value, and reads the rest again.

use crate::error::{explain, Invalid};
use crate::place::path_at;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A table with more faults is not looked at further: each costs another reading of the whole.
const MOST: usize = 20;

/// # Errors
/// All that is wrong, in the order in which it was met; keys are dotted paths from the table.
pub(crate) fn read<T: DeserializeOwned>(table: &Table) -> Result<T, Vec<Invalid>> {
    let mut rest = Rest { table: table.clone(), removed: Vec::new() };
    let mut found: Vec<Invalid> = Vec::new();
    for _ in 0..MOST {
        // Spans survive only in text. Rendering also gives every layer one form.
        let rendered = rest.table.to_string();
        let error = match toml::from_str(&rendered) {
            Ok(value) if found.is_empty() => return Ok(value),
            Ok(_) => return Err(found),
            Err(error) => error,
        };
        let (problem, remedy, key) = explain(error.message());
        let mut path = error.span().map(|span| path_at(&rendered, &span)).unwrap_or_default();
        let original = |path: &[String], key: Option<&String>| {
            let mut original = rest.original(path);
            original.extend(key.filter(|key| path.last() != Some(key)).cloned());
            original.join(".")
        };
        let invalid = Invalid { key: original(&path, key.as_ref()), problem, remedy };
        if !found.iter().any(|earlier| covers(earlier, &invalid)) {
            found.push(invalid);
        }
        if let Some(key) = key.filter(|key| path.last() != Some(key)) {
            path.push(key);
        }
        if !rest.remove(path) {
            break;
        }
    }
    Err(found)
}

/// What lacks because it was taken out, or stands there under a name that was taken for a slip, is no fault of its own.
fn covers(earlier: &Invalid, later: &Invalid) -> bool {
    let split = |key: &str| key.rsplit_once('.').map_or((String::new(), key.to_owned()), |(a, b)| (a.into(), b.into()));
    let ((table, _), (same, name)) = (split(&earlier.key), split(&later.key));
    let inside = earlier.key.strip_prefix(&later.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    inside || table == same && earlier.remedy.starts_with(&format!("did you mean `{name}`?"))
}

/// When nothing can be said of what is wrong.
pub(crate) fn unreadable(at: &str) -> Invalid {
    Invalid::new(at, "cannot be read", "correct it")
}

/// What is left of a table, and which items of its lists are gone.
struct Rest {
    table: Table,
    /// Paths of items in the table as it was given.
    removed: Vec<(Vec<String>, usize)>,
}

impl Rest {
    /// Takes out what stands at `path`; where nothing does (a key is missing), the table that should have it, unless
    /// that is all. False if there is nothing to take.
    fn remove(&mut self, mut path: Vec<String>) -> bool {
        while !path.is_empty() {
            let original = self.original(&path);
            match take(&mut self.table, &path) {
                Taken::Nothing => _ = path.pop(),
                Taken::Key => return true,
                Taken::Item => {
                    let Some((item, list)) = original.split_last() else { return false };
                    self.removed.push((list.to_vec(), item.parse().unwrap_or(0)));
                    self.removed.sort();
                    return true;
                }
            }
        }
        false
    }

    /// The path of the same thing before anything was taken out.
    fn original(&self, path: &[String]) -> Vec<String> {
        let mut original: Vec<String> = Vec::new();
        for step in path {
            let mut step = step.clone();
            let gone = self.removed.iter().filter(|(list, _)| *list == original);
            if let Ok(mut item) = step.parse::<usize>() {
                for (_, removed) in gone {
                    item += usize::from(*removed <= item);
                }
                step = item.to_string();
            }
            original.push(step);
        }
        original
    }
}

enum Taken {
    Nothing,
    Key,
    Item,
}

fn take(table: &mut Table, path: &[String]) -> Taken {
    let Some((first, rest)) = path.split_first() else { return Taken::Nothing };
    if rest.is_empty() {
        return table.remove(first).map_or(Taken::Nothing, |_| Taken::Key);
    }
    table.get_mut(first).map_or(Taken::Nothing, |inner| take_from(inner, rest))
}

fn take_from(value: &mut Value, path: &[String]) -> Taken {
    match value {
        Value::Table(table) => take(table, path),
        Value::Array(items) => {
            let Some((first, rest)) = path.split_first() else { return Taken::Nothing };
            let Some(n) = first.parse().ok().filter(|&n: &usize| n < items.len()) else { return Taken::Nothing };
            if rest.is_empty() {
                items.remove(n);
                return Taken::Item;
            }
            take_from(&mut items[n], rest)
        }
        _ => Taken::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct File {
        title: String,
        #[serde(default)]
        size: u32,
        uplink: Option<Uplink>,
        #[serde(default)]
        port: Vec<Port>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Uplink {
        interface: String,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Port {
        network: u32,
        #[serde(default)]
        addresses: Vec<String>,
    }

    fn keys(text: &str) -> Vec<String> {
        let table: Table = text.parse().unwrap();
        match read::<File>(&table) {
            Ok(_) => Vec::new(),
            Err(found) => found.into_iter().map(|invalid| invalid.key).collect(),
        }
    }

    #[test]
    fn all_that_is_wrong_is_found_and_stands_where_it_stood() {
        assert_eq!(keys("title = \"a\"\n[[port]]\nnetwork = 7"), [""; 0]);
        let text = r#"
            titel = "a"
            size = "big"
            [uplink]
            interfaces = "eth0"
            [[port]]
            addresses = ["10.0.0.1"]
            [[port]]
            network = 1
            [[port]]
            network = "two"
            adresses = []
            [[port]]
            network = 4
            addresses = ["a", 5, "b", 6]
        "#;
        let mut found = keys(text);
        found.sort();
        assert_eq!(
            found,
            [
                "port.0.network",
                "port.2.adresses",
                "port.2.network",
                "port.3.addresses.1",
                "port.3.addresses.3",
                "size",
                "titel",
                "uplink.interfaces",
            ]
        );
    }

    #[test]
    fn a_file_of_another_kind_ends() {
        let many = (0..500).map(|n| format!("key{n} = 1\n")).collect::<String>();
        assert_eq!(keys(&many).len(), MOST);
        assert_eq!(keys("port = 5\ntitle = \"a\""), ["port"]);
        assert_eq!(keys("title = \"a\"\n[uplink]\ninterface = 5"), ["uplink.interface"]);
    }
}
