//! Results as files: CSV and JSON with named columns, FlowMonitor XML, pcapng, the configuration in effect.

mod cells;
mod flowmonitor;
mod manifest;
pub(crate) mod pcapng;
mod series;
mod staging;
mod sweep;
mod write;

pub use cells::WriteError;
pub use series::too_many_series;
pub use staging::{Staging, StagingError};
pub use sweep::SweepCsv;
pub use write::{effective, metrics, shown, write, write_report, Extras};
