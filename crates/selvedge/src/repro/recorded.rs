//! What a record says of a result, in a word.

use serde::Deserialize;
use std::collections::BTreeMap;

/// What a record says of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recorded {
    Holds,
    Fails,
    /// It fails, and one of the checks that fail asks only who is ahead. Records write `fails`.
    #[serde(skip)]
    Reversed,
    NotRun,
    Undecided,
}

impl Recorded {
    pub fn fails(self) -> bool {
        matches!(self, Recorded::Fails | Recorded::Reversed)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Recorded::Holds => "holds",
            Recorded::Fails | Recorded::Reversed => "fails",
            Recorded::NotRun => "not run",
            Recorded::Undecided => "undecided",
        }
    }
}

/// Result id to what its record says.
pub type Records = BTreeMap<String, Recorded>;
