//! Keys whose meaning depends on a choice made by another key.

use crate::{Invalid, Wrong};
use std::fmt;
use units::Time;

/// An optional key: whether the file has it, and what the choice makes of it.
pub struct Key {
    pub name: &'static str,
    pub given: bool,
    pub role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Needed,
    Optional,
    Meaningless,
}

/// Refuses keys that have no meaning under `choice` (such as `kind = "clos"`) and asks for those that it needs.
///
/// # Errors
/// All of them.
pub fn check(at: &str, choice: &str, keys: &[Key]) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    for key in keys {
        let path = format!("{at}.{}", key.name);
        match (key.role, key.given) {
            (Role::Meaningless, true) => {
                let known: Vec<&str> = keys.iter().filter(|k| k.role != Role::Meaningless).map(|k| k.name).collect();
                let problem = format!("has no meaning with {choice}");
                wrong.add(Invalid::new(path, problem, format!("remove it (that takes {})", known.join(", "))));
            }
            (Role::Needed, false) => {
                wrong.add(Invalid::new(path, format!("is missing, {choice} needs it"), "add it"));
            }
            _ => {}
        }
    }
    wrong.or(())
}

/// `value` must lie within the range, whatever stands beside it.
///
/// # Errors
/// It does not.
pub fn within<T: PartialOrd + fmt::Display>(key: &str, value: T, least: T, most: T) -> Result<(), Invalid> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(Invalid::value(key, format!("{value} is out of range"), format!("give {least} to {most}")))
}

/// The same for a time; the remedy has the quotes that TOML wants.
///
/// # Errors
/// As [`within`].
pub fn within_time(key: &str, value: Time, least: Time, most: Time) -> Result<(), Invalid> {
    within(key, value, least, most)
        .map_err(|_| Invalid::value(key, format!("{value} is out of range"), format!("give \"{least}\" to \"{most}\"")))
}

/// The same for a range that other keys decide.
///
/// # Errors
/// As [`within`].
pub fn within_others<T: PartialOrd + fmt::Display>(key: &str, value: T, least: T, most: T) -> Result<(), Invalid> {
    within(key, value, least, most).map_err(|invalid| Invalid::new(invalid.key, invalid.problem, invalid.remedy))
}
