//! Cells of CSV files, and why files of results cannot be written.

use super::StagingError;
use units::Time;

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Staging(#[from] StagingError),
    #[error("cannot form a CSV file: {0}")]
    Csv(#[from] csv::Error),
    #[error("cannot form a capture: {0}")]
    Capture(#[from] wire::EmitError),
}

pub(super) fn us(time: Time) -> String {
    time.as_us_f64().to_string()
}

pub(super) fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

pub(super) fn finish(csv: csv::Writer<Vec<u8>>) -> Result<Vec<u8>, WriteError> {
    csv.into_inner().map_err(|e| WriteError::Csv(e.into_error().into()))
}
