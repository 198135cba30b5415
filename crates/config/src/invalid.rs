//! Faults of values, before their places in a file are known.

use crate::place::join;

/// More are counted and not kept.
const MOST_KEPT: usize = 1000;

/// A value that parses but cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Dotted path of the key from the file's root; `workload.2.size` is the third workload's.
    pub key: String,
    pub problem: String,
    pub remedy: String,
    /// It is wrong whatever stands beside it.
    alone: bool,
    /// The key is wrong, not its value.
    of_key: bool,
}

impl Invalid {
    /// Of a value that is wrong beside others, or of one that is missing.
    pub fn new(key: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Invalid {
        Invalid { key: key.into(), problem: problem.into(), remedy: remedy.into(), alone: false, of_key: false }
    }

    /// Of a value that is wrong whatever stands beside it: it is told although other keys of its table could not be read.
    pub fn value(key: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Invalid {
        Invalid { alone: true, ..Invalid::new(key, problem, remedy) }
    }

    /// Of a key that nothing knows.
    #[must_use]
    pub(crate) fn of_key(self, of_key: bool) -> Invalid {
        Invalid { of_key, ..self }
    }

    pub(crate) fn is_of_key(&self) -> bool {
        self.of_key
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Of a key that stands below the table `at`.
    #[must_use]
    pub fn below(self, at: &str) -> Invalid {
        Invalid { key: join(at, &self.key), ..self }
    }

    /// The same of another key.
    #[must_use]
    pub(crate) fn at(self, key: String) -> Invalid {
        Invalid { key, ..self }
    }
}

/// All that is wrong in a part of a file: a check notes its fault here, and the next check still runs. As an error it holds at
/// least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    found: Vec<Invalid>,
    /// So many more are not kept.
    more: usize,
}

impl Wrong {
    /// Nothing yet.
    pub fn new() -> Wrong {
        Wrong::default()
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// In the order in which they were found.
    pub fn faults(&self) -> &[Invalid] {
        &self.found
    }

    /// How many more there were than [`Wrong::faults`] has.
    pub(crate) fn more(&self) -> usize {
        self.more
    }

    pub fn add(&mut self, invalid: Invalid) {
        if self.found.len() < MOST_KEPT {
            self.found.push(invalid);
        } else {
            self.more += 1;
        }
    }

    /// The value; of an error none, once its faults are noted.
    pub fn note<T, E: Into<Wrong>>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let Wrong { found, more } = error.into();
                found.into_iter().for_each(|invalid| self.add(invalid));
                self.more += more;
                None
            }
        }
    }

    /// The value, unless something was wrong.
    ///
    /// # Errors
    /// All that was noted.
    pub fn or<T>(self, value: T) -> Result<T, Wrong> {
        match self.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }

    /// What was made of the values, unless something was wrong.
    ///
    /// # Errors
    /// All that was noted.
    pub fn unless<T>(self, made: Option<T>) -> Result<T, Wrong> {
        match made {
            Some(made) => self.or(made),
            None if self.is_empty() => Err(Invalid::new("", "cannot be used", "report this as a bug").into()),
            None => Err(self),
        }
    }
}

impl From<Invalid> for Wrong {
    fn from(invalid: Invalid) -> Wrong {
        Wrong { found: vec![invalid], more: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_runs_and_tells_its_fault() {
        let mut wrong = Wrong::new();
        assert_eq!(wrong.note(Ok::<_, Invalid>(7)), Some(7));
        assert_eq!(wrong.note::<u8, _>(Err(Invalid::new("a", "", ""))), None);
        let mut inner = Wrong::from(Invalid::new("b", "", ""));
        inner.add(Invalid::value("c", "", ""));
        assert_eq!(wrong.note::<u8, _>(Err(inner)), None);
        let keys: Vec<&str> = wrong.faults().iter().map(|invalid| invalid.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c"]);
        assert!(wrong.clone().or(1).is_err() && wrong.unless(Some(1)).is_err());
        assert_eq!(Wrong::new().unless(Some(1)), Ok(1));
    }

    #[test]
    fn thousands_are_counted() {
        let mut wrong = Wrong::new();
        (0..5000).for_each(|n| wrong.add(Invalid::new(n.to_string(), "", "")));
        assert_eq!((wrong.faults().len(), wrong.more()), (MOST_KEPT, 5000 - MOST_KEPT));
    }
}
