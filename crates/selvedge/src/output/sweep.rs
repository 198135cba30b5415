//! `sweep.csv`: every metric of every run at every point of a sweep, in rows of their own.

use super::cells::{finish, WriteError};
use super::write::metric_rows;
use crate::results::Results;

/// The file in the making.
pub struct SweepCsv {
    csv: csv::Writer<Vec<u8>>,
    axis: String,
}

impl SweepCsv {
    /// # Errors
    /// None that a file in memory could have.
    pub fn new(axis: &str) -> Result<SweepCsv, WriteError> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record([
            "axis",
            "point",
            "axis_value",
            "scheme",
            "seed",
            "metric",
            "unit",
            "value",
            "samples_needed",
            "samples",
        ])?;
        Ok(SweepCsv { csv, axis: axis.to_owned() })
    }

    /// Adds the results at `point`, where the axis has `value`.
    ///
    /// # Errors
    /// As [`SweepCsv::new`].
    pub fn add(&mut self, point: &str, value: Option<&str>, results: &Results) -> Result<(), WriteError> {
        let SweepCsv { csv, axis } = self;
        metric_rows(results, &mut |row| {
            csv.write_record([axis, point, value.unwrap_or_default()].into_iter().chain(row))
        })?;
        Ok(())
    }

    /// # Errors
    /// As [`SweepCsv::new`].
    pub fn finish(self) -> Result<Vec<u8>, WriteError> {
        finish(self.csv)
    }
}
