//! Strict reading that goes on after an error: it notes the error, removes the wrong value, and reads the rest again.

use crate::error::explain;
use crate::place::path_at;
use crate::Invalid;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A table with more faults is not looked at further: each costs another reading of the whole, of which a long one gets fewer.
const MOST: usize = 100;
const LEAST: usize = 20;
/// Bytes that all readings of a table may take.
const BUDGET: usize = 16 << 20;

/// What came of a table.
pub(crate) struct Read<T> {
    /// Of what is left without that which cannot be read; `None` if that is nothing.
    pub(crate) value: Option<T>,
    /// All that is wrong, in the order in which it was met; keys are dotted paths from the table.
    pub(crate) found: Vec<Invalid>,
    /// There may be more, because reading ended early.
    pub(crate) cut: bool,
    pub(crate) lost: Lost,
}

/// `also` are keys that `table` may have and that are read elsewhere.
pub(crate) fn read<T: DeserializeOwned>(table: &Table, also: &[String]) -> Read<T> {
    let mut rest = Rest { table: table.clone(), lost: Lost::default() };
    let mut found: Vec<Invalid> = Vec::new();
    let mut most = MOST;
    for n in 0.. {
        // Spans survive only in text. Rendering also gives every layer one form.
        let rendered = rest.table.to_string();
        let error = match toml::from_str(&rendered) {
            Ok(value) => return Read { value: Some(value), found, cut: false, lost: rest.lost },
            Err(error) => error,
        };
        most = most.min((BUDGET / rendered.len().max(1)).max(LEAST));
        if n == most {
            return Read { value: None, found, cut: true, lost: rest.lost };
        }
        let mut path = error.span().map(|span| path_at(&rendered, &span)).unwrap_or_default();
        let at_root = if path.len() <= 1 { also } else { &[] };
        let (mut problem, mut remedy, mut key) = explain(error.message(), at_root);
        if let Some(list) = rest.single::<T>(&path, error.message()) {
            path.truncate(list);
            let name = path.join(".");
            (problem, remedy, key) = (format!("found [[{name}]]"), format!("write [{name}], once"), None);
        }
        let original = |path: &[String], key: Option<&String>| {
            let mut original = rest.lost.original(path);
            original.extend(key.filter(|key| path.last() != Some(key)).cloned());
            original.join(".")
        };
        let unknown = problem.starts_with("unknown key");
        let invalid = Invalid::value(original(&path, key.as_ref()), problem, remedy).of_key(unknown);
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
    Read { value: None, found, cut: false, lost: rest.lost }
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

/// What was taken out of a table because it cannot be read. Paths are those in the table as it was given.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    paths: Vec<Vec<String>>,
    /// Of these, the items of lists: the lists, and the items' places.
    items: Vec<(Vec<String>, usize)>,
}

impl Lost {
    /// Is all there of what stands at `path` in `table`? What is not there at all may stand there under an unknown name, and so may
    /// what plain values beside it depend on.
    pub(crate) fn leaves_whole(&self, path: &[String], table: &Table) -> bool {
        let inside = self.paths.iter().any(|lost| lost.starts_with(path));
        let renamed = self.paths.iter().any(|lost| lost.len() == 1);
        let found = path.first().and_then(|key| table.get(key));
        !inside && (!renamed || found.is_some_and(|value| value.is_table() || value.is_array()))
    }

    /// Also what was taken out of the table that stands at `at`.
    pub(crate) fn extend(&mut self, other: Lost, at: &[String]) {
        let below = |path: Vec<String>| [at, &path].concat();
        self.paths.extend(other.paths.into_iter().map(below));
        self.items.extend(other.items.into_iter().map(|(list, item)| (below(list), item)));
        self.items.sort();
    }

    /// The path of the same thing before anything was taken out.
    pub(crate) fn original(&self, path: &[String]) -> Vec<String> {
        let mut original: Vec<String> = Vec::new();
        for step in path {
            let mut step = step.clone();
            let gone = self.items.iter().filter(|(list, _)| *list == original);
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

/// What is left of a table.
struct Rest {
    table: Table,
    lost: Lost,
}

impl Rest {
    /// Takes out what stands at `path`; where nothing does (a key is missing), the table that should have it, unless
    /// that is all. False if there is nothing to take.
    fn remove(&mut self, mut path: Vec<String>) -> bool {
        while !path.is_empty() {
            let original = self.lost.original(&path);
            match take(&mut self.table, &path) {
                Taken::Nothing => _ = path.pop(),
                Taken::Key => {
                    self.lost.paths.push(original);
                    return true;
                }
                Taken::Item => {
                    if let Some((item, list)) = original.split_last() {
                        self.lost.items.push((list.to_vec(), item.parse().unwrap_or(0)));
                        self.lost.items.sort();
                    }
                    self.lost.paths.push(original);
                    return true;
                }
            }
        }
        false
    }
}

impl Rest {
    /// Is what is wrong at `path` that a list of tables stands where one table is wanted? The length of the list's path.
    fn single<T: DeserializeOwned>(&self, path: &[String], message: &str) -> Option<usize> {
        // A struct reads a list as its values in turn, an enum as its variant.
        let fits = ["invalid type: map, ", "invalid length ", "wanted exactly 1 element"];
        if !fits.iter().any(|start| message.starts_with(start)) {
            return None;
        }
        let list = path.len() - usize::from(path.last().is_some_and(|step| step == "0"));
        let mut changed = self.table.clone();
        let value = at(&mut changed, &path[..list])?;
        *value = value.as_array()?.first().filter(|item| item.is_table())?.clone();
        // With only the table it says that it wants a list, if it does.
        let rendered = changed.to_string();
        let Err(error) = toml::from_str::<T>(&rendered) else { return Some(list) };
        let there = error.span().map(|span| path_at(&rendered, &span)).unwrap_or_default();
        (there != path[..list] || !error.message().starts_with("invalid type: map")).then_some(list)
    }
}

fn at<'a>(table: &'a mut Table, path: &[String]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get_mut(first)?, |value, step| match value {
        Value::Table(table) => table.get_mut(step),
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    })
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
        read::<File>(&table, &[]).found.into_iter().map(|invalid| invalid.key).collect()
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
    fn of_a_table_that_is_written_as_a_list_the_remedy_is_one_table() {
        let said = |text: &str| -> Vec<String> {
            let found = read::<File>(&text.parse().unwrap(), &[]).found;
            found
                .into_iter()
                .map(|invalid| format!("{}: {}; {}", invalid.key, invalid.problem, invalid.remedy))
                .collect()
        };
        let once = "uplink: found [[uplink]]; write [uplink], once";
        assert_eq!(said("title = \"a\"\n[[uplink]]\ninterface = \"eth0\"\n"), [once]);
        assert_eq!(said("title = \"a\"\n[[uplink]]\ninterface = 5\n[[uplink]]\n"), [once]);
        assert_eq!(said("title = \"a\"\nuplink = [5]\n"), ["uplink.0: found integer `5`; write a string"]);
        assert_eq!(
            said("title = \"a\"\n[[port]]\nnetwork = [[1]]\n"),
            ["port.0.network: found a list; write a whole number from 0 to 4294967295"]
        );
        assert_eq!(
            said("title = \"a\"\n[[port]]\nnetwork = 1\naddresses = [{a = 1}]\n"),
            ["port.0.addresses.0: found a table; write a string"]
        );
    }

    #[test]
    fn what_can_be_read_of_a_file_is_there_beside_what_cannot() {
        let text = "title = \"a\"\nsiz = 1\nsize = 4\n[[port]]\naddresses = []\n[[port]]\nnetwork = 4\nmtu = 9\n";
        let Read { value, found, lost, .. } = read::<File>(&text.parse().unwrap(), &[]);
        let file = value.unwrap();
        assert_eq!((file.size, file.port.len(), file.port[0].network, found.len()), (4, 1, 4, 3));
        let path = |path: &str| crate::place::split(path);
        assert_eq!(lost.original(&path("port.0.network")), path("port.1.network"));
        assert!(read::<File>(&"size = 4".parse().unwrap(), &[]).value.is_none(), "there must be a title");
    }

    #[test]
    fn a_file_of_another_kind_ends() {
        let many = (0..500).map(|n| format!("key{n} = 1\n")).collect::<String>();
        assert_eq!(keys(&many).len(), MOST);
        assert!(read::<File>(&many.parse().unwrap(), &[]).cut);
        let long = format!("title = \"{}\"\n{many}", "x".repeat(BUDGET / LEAST));
        assert_eq!(keys(&long).len(), LEAST);
        assert_eq!(keys("port = 5\ntitle = \"a\""), ["port"]);
        assert_eq!(keys("title = \"a\"\n[uplink]\ninterface = 5"), ["uplink.interface"]);
    }
}
