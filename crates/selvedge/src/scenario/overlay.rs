//! `overlay`: how edges speak to one another through the fabric.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tunnel, or the guests' five-tuple in a TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayWord {
    Encapsulated,
    Hidden,
}

impl OverlayWord {
    /// What came later stands in no configuration in effect where it is off: results are filed under it.
    pub(super) fn is_encapsulated(&self) -> bool {
        *self == OverlayWord::Encapsulated
    }
}
