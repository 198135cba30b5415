//! Modelled hosts: guest TCP, NIC, CPU cost and workloads. The real [`edge`] of every host stands between guests and
//! fabric. [`run`] is the simulator.

mod apps;
mod clock;
mod collect;
mod connection;
mod control;
mod datagrams;
mod delays;
mod disorder;
pub mod experiment;
pub mod measure;
pub mod mptcp;
mod network;
pub mod nic;
pub mod outcome;
pub mod ports;
mod probes;
mod sampling;
pub mod tcp;
mod transport;
pub mod workload;
mod world;

pub use outcome::Windows;
pub use workload::REPLY_BYTES;
pub use world::{begin, run, run_on, Begun, Progress};
