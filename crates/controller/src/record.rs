//! What a controller must not forget: the revision, or agents would take new schedules for old ones, and the failed links.
//! One small record, replaced as a whole; a database of our own would have nothing else to hold.

use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
/// Revisions must be able to rise.
const MAX_REVISION: u64 = 1 << 62;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    pub(super) fabric: u64,
    pub(super) revision: u64,
    pub(super) failed: Vec<String>,
}

impl Record {
    pub(super) fn new(fabric: u64, revision: u64, failed: Vec<String>) -> Record {
        Record { version: VERSION, fabric, revision, failed }
    }

    /// Else what is wrong with it.
    pub(super) fn read(text: &[u8]) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(text).map_err(|e| format!("is not a controller's record: {e}"))?;
        match record.version {
            1..=VERSION if record.revision < MAX_REVISION => Ok(Record { version: VERSION, ..record }),
            1..=VERSION => Err(format!("has revision {}, after which there is no room", record.revision)),
            other => Err(format!("is of version {other}, this controller knows {VERSION}")),
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// Where in its history the record was read; 0: there was none. Files have no history.
pub(super) type Place = u64;

/// What came of saving.
pub(super) enum Saved {
    At(Place),
    /// Another controller was first: read it again.
    Conflict,
}
