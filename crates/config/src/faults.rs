//! A collector of a document's faults: a check notes its fault with its place, and the next check still runs.

use crate::place::split;
use crate::strict::{self, Lost};
use crate::{ConfigError, Document, Invalid, Wrong};
use serde::de::DeserializeOwned;
use toml::Table;

impl Document {
    /// What is left of the document without what cannot be read, if that is anything, and a collector of faults that has those
    /// of reading.
    pub fn read_what_can_be<T: DeserializeOwned>(&self) -> (Option<T>, Faults<'_>) {
        let (value, error, lost) = self.read_part(self.table(), "");
        let error = error.or_else(|| value.is_none().then(|| self.error(&strict::unreadable(""))));
        (value, Faults { document: self, found: error, lost, doubtful: false })
    }
}

/// What was found wrong in a document so far, where one fault does not keep the next from being looked for.
///
/// Where parts of a file could not be read, checks still run on the rest. A fault there may come from what is missing. It is told
/// if its value is wrong by itself ([`Invalid::value`]), or if all that it may depend on was read.
#[derive(Debug)]
pub struct Faults<'a> {
    document: &'a Document,
    found: Option<ConfigError>,
    lost: Lost,
    /// Something that everything may depend on could not be read.
    doubtful: bool,
}

impl<'a> Faults<'a> {
    pub fn of(document: &'a Document) -> Faults<'a> {
        Faults { document, found: None, lost: Lost::default(), doubtful: false }
    }

    /// Tells from here on only of values that are wrong by themselves.
    #[must_use]
    pub fn doubtful(self, is: bool) -> Faults<'a> {
        Faults { doubtful: is, ..self }
    }

    /// Reads what can be read of `table`, which stands at key `at`, and notes the faults of reading.
    pub fn read_table<T: DeserializeOwned>(&mut self, table: &Table, at: &str) -> Option<T> {
        let (value, error, lost) = self.document.read_part(table, at);
        self.lost.extend(lost, &split(at));
        error.into_iter().for_each(|error| self.join(error));
        value
    }

    /// Was nothing wrong so far?
    pub fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    /// Was all of the table of that name read?
    pub fn has_whole(&self, table: &str) -> bool {
        self.lost.leaves_whole(&[table.to_owned()], self.document.table())
    }

    /// The value; of a fault none, once it is noted with its place.
    pub fn note<T, E: Into<Wrong>>(&mut self, result: Result<T, E>) -> Option<T> {
        self.note_given(&[], result)
    }

    /// The same for a check that also depends on tables besides those of the keys at fault.
    pub fn note_given<T, E: Into<Wrong>>(&mut self, tables: &[&str], result: Result<T, E>) -> Option<T> {
        let wrong: Wrong = match result {
            Ok(value) => return Some(value),
            Err(error) => error.into(),
        };
        let sure = !self.doubtful && tables.iter().all(|table| self.has_whole(table));
        for invalid in wrong.faults() {
            let path = self.lost.original(&split(&invalid.key));
            let around = match path.get(1).is_some_and(|step| step.parse::<usize>().is_ok()) {
                true => &path[..2],
                false => &path[..path.len().min(1)],
            };
            if invalid.is_alone() || sure && self.lost.leaves_whole(around, self.document.table()) {
                match &mut self.found {
                    // To find a place takes a reading of the whole file.
                    Some(found) if found.is_full() => found.and_more(1),
                    _ => self.join(self.document.error(&invalid.clone().at(path.join(".")))),
                }
            }
        }
        if let (Some(found), true) = (&mut self.found, sure) {
            found.and_more(wrong.more());
        }
        None
    }

    /// Notes a fault.
    pub fn tell(&mut self, invalid: Invalid) {
        self.note::<(), _>(Err(invalid));
    }

    /// The value; of faults that have their places none, once they are noted.
    pub fn add<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.join(error);
                None
            }
        }
    }

    /// Where the document has the key, for errors about what it names.
    pub fn place(&self, key: &str) -> String {
        let error = self.document.error(&Invalid::new(key, "", ""));
        error.faults().first().map(|fault| fault.place.clone()).unwrap_or_default()
    }

    fn join(&mut self, error: ConfigError) {
        match &mut self.found {
            Some(all) => all.extend(error),
            none => *none = Some(error),
        }
    }

    /// What was made of the values, unless something was wrong.
    ///
    /// # Errors
    /// All that was noted.
    pub fn unless<T>(self, made: Option<T>) -> Result<T, ConfigError> {
        match (self.found, made) {
            (None, Some(made)) => Ok(made),
            (Some(found), _) => Err(found),
            (None, None) => Err(ConfigError::new(self.document.name(), "cannot be used", "report this as a bug")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        port: Vec<Port>,
        #[serde(default, rename = "peer")]
        _peer: toml::Table,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Port {
        network: u32,
        mtu: Option<u32>,
    }

    fn told(text: &str, tables: &[&str], invalid: Invalid) -> Vec<String> {
        let document = Document::parse("a.toml", text, "p").unwrap();
        let (file, mut faults) = document.read_what_can_be::<File>();
        assert!(file.unwrap().port.iter().all(|port| port.network > 0 && port.mtu != Some(0)));
        faults.note_given::<(), _>(tables, Err(invalid));
        let all = faults.unless::<()>(None).unwrap_err();
        all.faults().iter().map(|fault| format!("{} {}", fault.place, fault.key)).collect()
    }

    #[test]
    fn what_was_read_is_checked_though_something_else_was_not() {
        let text = "[peer]\nx = 1\n[[port]]\nnetwork = 1\nmtv = 2\n[[port]]\nnetwork = 3\nmtu = 9\n";
        let reading = "a.toml:5 port.0.mtv".to_owned();
        let with = |more: &str| vec![reading.clone(), more.to_owned()];
        let alone = std::slice::from_ref(&reading);
        assert_eq!(told(text, &[], Invalid::new("port.1.mtu", "", "")), with("a.toml:8 port.1.mtu"));
        assert_eq!(told(text, &["peer"], Invalid::new("port.1.mtu", "", "")), with("a.toml:8 port.1.mtu"));
        assert_eq!(told(text, &["port"], Invalid::new("port.1.mtu", "", "")), alone);
        assert_eq!(told(text, &[], Invalid::new("port.0", "is missing", "")), alone);
        assert_eq!(told(text, &["port"], Invalid::value("port.0.network", "", "")), with("a.toml:4 port.0.network"));
    }

    #[test]
    fn items_that_could_not_be_read_leave_the_others_their_places() {
        let text = "[[port]]\nmtu = 2\n[[port]]\nnetwork = 3\nmtu = 9\n";
        let found = told(text, &[], Invalid::new("port.0.mtu", "", ""));
        assert_eq!(found, ["a.toml:1 port.0.network", "a.toml:5 port.1.mtu"]);
    }

    #[test]
    fn an_absent_table_may_be_there_under_an_unknown_name() {
        let found = told("[piers]\n[[port]]\nnetwork = 3\n", &["peer"], Invalid::new("port.0", "", ""));
        assert_eq!(found, ["a.toml:1 piers"]);
    }
}
