//! Names of choices, such as window laws, and what can be set of them: one table for files, output, tests and docs.

use std::fmt::{self, Debug};
use units::Bytes;

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
    /// What can be set of it, in the order of docs.
    pub settings: &'static [&'static Setting],
}

impl<T> Named<T> {
    /// The name, then the aliases.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// What can be set of a choice. Choices may share one.
#[derive(PartialEq, Debug)]
pub struct Setting {
    /// The key in files.
    pub name: &'static str,
    /// The key in an agent's `[[port]]`, where it has one.
    pub of_port: Option<&'static str>,
    /// What it is, in one line for docs.
    pub about: &'static str,
    pub preset: Preset,
    pub least: Amount,
    pub most: Amount,
}

/// What holds where a file says nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Preset {
    Is(Amount),
    /// There is none, which files write as `"off"`.
    Off,
    /// It follows from this.
    From(&'static str),
}

/// A setting's value.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Amount {
    Bytes(Bytes),
    /// A part of 1.
    Share(f64),
}

impl From<Bytes> for Amount {
    fn from(bytes: Bytes) -> Amount {
        Amount::Bytes(bytes)
    }
}

impl From<f64> for Amount {
    fn from(share: f64) -> Amount {
        Amount::Share(share)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => fmt::Display::fmt(bytes, f),
            Amount::Share(share) => fmt::Display::fmt(share, f),
        }
    }
}

impl Amount {
    /// As a file has it.
    fn quoted(self) -> String {
        match self {
            Amount::Bytes(bytes) => format!("\"{bytes}\""),
            Amount::Share(share) => format!("{share:?}"),
        }
    }
}

impl Setting {
    /// Is it in range? A value of another unit is not.
    pub fn allows(&self, value: impl Into<Amount>) -> bool {
        let value = value.into();
        self.least <= value && value <= self.most
    }

    /// What a file may say.
    pub fn range(&self) -> String {
        let off = if self.preset == Preset::Off { ", or \"off\"" } else { "" };
        format!("{} to {}{off}", self.least.quoted(), self.most.quoted())
    }

    /// The share that is in force unless a file says another; 0 for what is no share.
    pub const fn share(&self) -> f64 {
        match self.preset {
            Preset::Is(Amount::Share(share)) => share,
            _ => 0.0,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Preset::Is(amount) => f.write_str(&amount.quoted()),
            Preset::Off => f.write_str("\"off\""),
            Preset::From(what) => write!(f, "from {what}"),
        }
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

    /// Has this choice the setting?
    fn has(self, setting: &Setting) -> bool {
        self.settings().contains(&setting)
    }

    /// What can be set of this choice.
    fn settings(self) -> &'static [&'static Setting] {
        Self::table().iter().find(|choice| choice.value == self).map_or(&[], |choice| choice.settings)
    }

    /// What can be set of any choice, each once.
    fn all_settings() -> Vec<&'static Setting> {
        let mut all: Vec<&'static Setting> = Vec::new();
        for setting in Self::table().iter().flat_map(|choice| choice.settings) {
            if !all.contains(setting) {
                all.push(setting);
            }
        }
        all
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
        for choice in T::table() {
            for (n, setting) in choice.settings.iter().enumerate() {
                let others = &choice.settings[..n];
                assert!(!others.iter().any(|other| other.name == setting.name), "{} is there twice", setting.name);
                let of_port = setting.of_port;
                assert!(of_port.is_none() || !others.iter().any(|other| other.of_port == of_port), "{of_port:?} twice");
                assert!(setting.least < setting.most, "{}", setting.name);
                if let Preset::Is(value) = setting.preset {
                    assert!(setting.allows(value), "{}", setting.name);
                }
            }
        }
    }

    #[test]
    fn words_are_unique_and_name_what_they_find() {
        each_word_once::<Option<vcc::Law>>(5);
        each_word_once::<limiter::Kind>(5);
        assert_eq!(limiter::Kind::find("mark").unwrap().name, "ecn");
        assert_eq!(limiter::Kind::find("off").unwrap().name, "none");
    }

    #[test]
    fn settings_say_what_a_file_may_say() {
        assert_eq!(
            (vcc::CLAMP.range().as_str(), vcc::CLAMP.preset.to_string().as_str()),
            ("\"1B\" to \"1GiB\", or \"off\"", "\"off\"")
        );
        assert_eq!((vcc::BETA.range().as_str(), vcc::BETA.preset.to_string().as_str()), ("0.0 to 1.0", "1.0"));
        assert!(limiter::K1.allows(Bytes(1)) && !limiter::K1.allows(Bytes(0)) && !limiter::K1.allows(0.5));
        assert!(!limiter::ALPHA.allows(f64::NAN) && !limiter::ALPHA.allows(1.5) && limiter::ALPHA.allows(1.0));
        assert!(limiter::Kind::Dem.has(&limiter::K) && !limiter::Kind::Spring.has(&limiter::K));
        assert_eq!(limiter::Kind::all_settings().len(), 5);
    }
}
