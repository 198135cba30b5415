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
    let [value, least, most] = [value, least, most].map(shown);
    Err(Invalid::value(key, format!("{value} is out of range"), format!("give {least} to {most}")))
}

/// A value as people write it. A time of zero prints as picoseconds, by which files of results know it.
pub fn shown(value: impl fmt::Display) -> String {
    match value.to_string().as_str() {
        "0ps" => "0s".to_owned(),
        other => other.to_owned(),
    }
}

/// The same for a time; the remedy has the quotes that TOML wants.
///
/// # Errors
/// As [`within`].
pub fn within_time(key: &str, value: Time, least: Time, most: Time) -> Result<(), Invalid> {
    let [least_shown, most_shown] = [least, most].map(shown);
    within(key, value, least, most)
        .map_err(|invalid| Invalid::value(key, invalid.problem, format!("give \"{least_shown}\" to \"{most_shown}\"")))
}

/// The same for a range that other keys decide.
///
/// # Errors
/// As [`within`].
pub fn within_others<T: PartialOrd + fmt::Display>(key: &str, value: T, least: T, most: T) -> Result<(), Invalid> {
    within(key, value, least, most).map_err(|invalid| Invalid::new(invalid.key, invalid.problem, invalid.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stands_in_a_unit_that_people_write() {
        let said = |invalid: Invalid| format!("{}; {}", invalid.problem, invalid.remedy);
        let (zero, least, most) = (Time::ZERO, Time::from_us(1), Time::from_secs(2));
        assert_eq!(said(within("k", zero, least, most).unwrap_err()), "0s is out of range; give 1us to 2s");
        assert_eq!(said(within("k", most, zero, least).unwrap_err()), "2s is out of range; give 0s to 1us");
        assert_eq!(said(within_others("k", most, zero, least).unwrap_err()), "2s is out of range; give 0s to 1us");
        assert_eq!(
            said(within_time("k", zero, least, most).unwrap_err()),
            "0s is out of range; give \"1us\" to \"2s\""
        );
        assert_eq!(said(within("k", 9, 0, 8).unwrap_err()), "9 is out of range; give 0 to 8");
    }
}
