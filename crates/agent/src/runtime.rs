//! One thread for everything.

use super::error::{Error, Result};

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| Error::System("start", e))
}
