//! The lab: the modelled fabric against the wall clock, with real hosts.
//!
//! A host is a network namespace with a TAP device. What its kernel sends is read as segments of up to 64 KB, goes through
//! the host's [`edge::Edge`], is cut into packets of the model, and crosses the same [`fabric::Fabric`] that simulations
//! run. What arrives is merged as a NIC would, goes through the edge, and is written to the receiving host.
//!
//! Frames stay in the port's [`Pool`](port::Pool): the model's packets carry headers, the frame's number, and which
//! part of its payload they stand for.
//!
//! # Time
//! The model's clock is the machine's. Events carry the time at which they are due and are evaluated at exactly that
//! time however late the lab gets round to them, so queues, marks and drops do not depend on the machine's speed; what
//! does is when frames are read from hosts and handed to them. That is the lateness which [`Lateness`] records, and
//! from which a [`Verdict`] follows.

mod again;
mod clock;
mod driver;
mod frame;
mod host;
mod ingress;
mod lateness;
mod limit;
mod lock;
mod measure;
mod merge;
mod namespace;
mod network;
mod poller;
mod rest;
mod status;
pub mod traffic;

pub use driver::Driver;
pub use frame::mac;
pub use host::Counters;
pub use lateness::{Lateness, Verdict, LIMIT_PERCENT};
pub use lock::{lock_directory, DirectoryLock};
pub use measure::Measurement;
pub use namespace::{end_processes, HostNamespace};
pub use network::{
    address, congestion, guest_address, idle_rtt, smallest_rtt, Lab, LabError, Setup, INTERFACE, MAX_HOSTS,
};
pub use status::{CapturedFrame, FlowStatus, HostStatus, LinkStatus, Status};
