//! `selvedge sweep`: a scenario at every point of its axes, as jobs that are kept.

mod arguments;
mod command;
mod jobs;
mod store;
mod summary;
mod tables;
mod work;

pub(crate) use arguments::Sweep;
pub(crate) use command::run;
pub(crate) use store::{ungathered, INDEX, METRICS};
