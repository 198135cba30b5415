//! The edge between guests and fabric, sans-IO: the safe face of `datapath/edge.h`, and the parts that a kernel program
//! cannot do, holding and reordering segments.
//!
//! See [`Edge`] for the calling contract.

pub mod balance;
mod config;
mod counters;
mod deadlines;
pub mod delays;
pub mod diverted;
pub mod ecn;
mod edge;
pub mod fastlane;
pub mod hidden;
pub mod hygenicc;
pub mod limiter;
pub mod names;
mod native;
pub mod reorder;
mod schedule;
pub mod shape;
mod table;
pub mod vcc;
mod verdict;

pub use balance::Balance;
pub use config::Config;
pub use counters::{CongestionCounters, Counters};
pub use edge::{Departure, Edge};
pub use native::{PathState, MAX_LABELS, WEIGHT_ONE};
pub use schedule::Rebound;
pub use verdict::{Direction, DropReason, Known, Release, Slot, Transmit, Verdict};
