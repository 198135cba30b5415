//! A collector of faults: a check notes its fault and the next check still runs.

use crate::{ConfigError, Document, Invalid};

/// What was found wrong in a document so far, where one fault does not keep the next from being looked for.
#[derive(Debug)]
pub struct Faults<'a> {
    document: &'a Document,
    found: Option<ConfigError>,
}

impl<'a> Faults<'a> {
    pub fn of(document: &'a Document) -> Faults<'a> {
        Faults { document, found: None }
    }

    /// Was nothing wrong so far?
    pub fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    /// The value; of a fault none, once it is noted with its place.
    pub fn note<T>(&mut self, result: Result<T, Invalid>) -> Option<T> {
        self.add(result.map_err(|invalid| self.document.error(&invalid)))
    }

    /// The same for faults that have their places.
    pub fn add<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        match &mut self.found {
            Some(all) => all.extend(error),
            none => *none = Some(error),
        }
        None
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
