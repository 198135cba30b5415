//! Modelled hosts: guest TCP, NIC, CPU cost and workloads, with the real [`edge`] of every host between them and the
//! fabric.

pub mod experiment;
pub mod measure;
pub mod outcome;
pub mod tcp;
pub mod workload;
