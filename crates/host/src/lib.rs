//! Modelled hosts: guest TCP, NIC, CPU cost and workloads. The real [`edge`] of every host stands between guests and
//! fabric. [`run`] is the simulator.

mod apps;
mod connection;
mod control;
mod cpu;
pub mod experiment;
mod gro;
mod host;
pub mod measure;
pub mod mptcp;
pub mod outcome;
mod rx;
mod sampling;
pub mod tcp;
mod tx;
pub mod workload;
mod world;

pub use connection::REPLY_BYTES;
pub use world::{run, Progress};
