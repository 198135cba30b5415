//! The lab: the modelled fabric against the wall clock, with real hosts.
//!
//! A host is a network namespace with a TAP device. What its kernel sends is read as segments of up to 64 KB and goes through
//! the host's [`edge::Edge`]. Then it is cut into packets of the model, which cross the same [`fabric::Fabric`] that
//! simulations run. What arrives is merged as a NIC would, goes through the edge, and is written to the receiving host.
//!
//! Frames stay in the port's [`Pool`](port::Pool): the model's packets carry headers, the frame's number, and which
//! part of its payload they stand for.
//!
//! # Time
//! The model's clock is the machine's. Events carry the time at which they are due and are evaluated at exactly that
//! time, however late the lab gets round to them. So queues, marks and drops do not depend on the machine's speed. What does
//! is when frames are read from hosts and handed to them. [`Lateness`] records how late that was, and a [`Verdict`] follows
//! from it.

mod address;
mod again;
mod clock;
mod driver;
mod egress;
mod error;
mod frame;
mod host;
mod ingress;
mod interface;
mod lateness;
mod limit;
mod lock;
mod measurement;
mod measuring;
mod merge;
mod namespace;
mod network;
mod poller;
mod rest;
mod setup;
mod shaping;
mod status;
mod timing;
pub mod traffic;
mod watching;

pub use address::{address, guest_address};
pub use driver::Driver;
pub use error::LabError;
pub use frame::mac;
pub use host::Counters;
pub use interface::INTERFACE;
pub use lateness::{Lateness, Verdict, LIMIT_PERCENT};
pub use lock::{lock_directory, DirectoryLock};
pub use measurement::Measurement;
pub use namespace::{end_marked, end_processes, HostNamespace};
pub use network::Lab;
pub use setup::{congestion, Setup, MAX_HOSTS};
pub use status::{CapturedFrame, FlowStatus, HostStatus, LinkStatus, Status};
pub use timing::{idle_rtt, smallest_rtt};
