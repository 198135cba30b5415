//! Names of choices, such as window laws: one table for files, output, tests and docs.

use std::fmt::Debug;

/// A choice and its words.
#[derive(Debug)]
pub struct Named<T: 'static> {
    pub value: T,
    /// The word in files, output and docs.
    pub name: &'static str,
    /// Other words that files may have.
    pub aliases: &'static [&'static str],
    /// What it does, in one line for docs.
    pub about: &'static str,
}

impl<T> Named<T> {
    /// The name, then the aliases.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// A type whose values files choose by name.
pub trait Names: Copy + PartialEq + Debug + 'static {
    /// All values with a name, in the order of docs.
    fn table() -> &'static [Named<Self>];

    /// The choice of that name or alias.
    fn find(word: &str) -> Option<&'static Named<Self>> {
        Self::table().iter().find(|choice| choice.words().any(|known| known == word))
    }

    /// The name; empty for a value that files cannot choose.
    fn name(self) -> &'static str {
        Self::table().iter().find(|choice| choice.value == self).map_or("", |choice| choice.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limiter, vcc};

    fn each_word_once<T: Names>(values: usize) {
        assert_eq!(T::table().len(), values);
        let words: Vec<&str> = T::table().iter().flat_map(Named::words).collect();
        for (n, word) in words.iter().enumerate() {
            assert!(!words[..n].contains(word), "{word} is there twice");
            assert_eq!(T::find(word).unwrap().value.name(), T::find(word).unwrap().name);
        }
        assert!(T::find("").is_none() && T::find("no-such-word").is_none());
    }

    #[test]
    fn words_are_unique_and_name_what_they_find() {
        each_word_once::<Option<vcc::Law>>(5);
        each_word_once::<limiter::Kind>(5);
        assert_eq!(limiter::Kind::find("mark").unwrap().name, "ecn");
        assert_eq!(limiter::Kind::find("off").unwrap().name, "none");
    }
}
