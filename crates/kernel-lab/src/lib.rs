//! A leaf-spine fabric of network namespaces on this machine.
//!
//! Every router is a namespace in which the kernel forwards over equal-cost paths. Every host is a namespace, and every guest
//! is a namespace behind its host.
//!
//! ```text
//!   spine1   spine2          each leaf has --links parallel links to each spine
//!     |  \  /  |
//!   leaf1    leaf2
//!    |  \     |  \
//! host1 host2 host3 host4    u0: the uplink
//!    |
//! guest1.1                   eth0; the host's end is g1
//! ```
//!
//! [`KernelLab::up`] makes one, [`KernelLab::down`] removes it: all namespaces whose names begin with the lab's prefix, every process
//! in them, what agents pinned, and the lab's directory below `/run`. Nothing lives outside of that, so a lab that was
//! left half-made goes the same way. Entering a namespace changes nothing but the network: the file systems, the bpffs
//! among them, stay visible.

mod agent;
mod ip;
mod lab;
mod make;
mod namespace;
mod plan;
mod queues;
mod shape;
mod status;

pub use lab::KernelLab;
pub use make::Up;
pub use namespace::NamedNamespace;
pub use plan::{guest_address, guest_mac, port, Link, GUEST, NETWORK, UPLINK};
pub use queues::{Marker, Marks, Queue};
pub use shape::{Node, Overlay, Shape, Wire, BUFFER};
pub use status::{Interface, NodeStatus, State, Status};

use std::io;
use std::path::PathBuf;
use units::{BitRate, Bytes};

/// Why a fabric cannot be made, changed or looked at. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is no name for a lab: give 1 to 12 lower-case letters and digits, a letter first")]
    Name(String),
    #[error("--{key} {value}: give {range}")]
    Shape { key: &'static str, value: u32, range: String },
    #[error("--rate: {given} rates for {links} links: give one for all, or one for each link of a leaf, those to spine 1 first")]
    Rates { given: usize, links: usize },
    #[error("--rate {0}: give 1Mbps to 100Gbps")]
    Rate(BitRate),
    #[error("--{0} {1}: links without a rate have no queue; give --rate, too")]
    NoRate(&'static str, Bytes),
    #[error("--buffer {0}: give {1} (two packets) to 1GB")]
    Buffer(Bytes, Bytes),
    #[error("--mark {0}: give 1B to less than the buffer, {1}")]
    Mark(Bytes, Bytes),
    #[error("routers cannot mark: {0}")]
    NoMarks(String),
    #[error("lab {0} is not up; make it with `selvedge lab kernel up --name {0}`")]
    NotUp(String),
    #[error("lab {0} is up with another shape; take it down first: `selvedge lab kernel down --name {0}`")]
    OtherShape(String),
    #[error("lab {lab} has no node {node:?}; it has {known}")]
    Node { lab: String, node: String, known: String },
    #[error("network namespaces cannot be made here: {0}; run as root")]
    Forbidden(io::Error),
    #[error("the guests' overlay cannot be the edge: {0}")]
    NoEdge(String),
    #[error("cannot run {0}: {1}; install {2}")]
    Program(String, io::Error, &'static str),
    #[error("{program}: {command:?} in {place}: {why}")]
    Command { program: &'static str, place: String, command: String, why: String },
    #[error("cannot {0} {path}: {1}", path = .2.display())]
    Io(&'static str, io::Error, PathBuf),
    #[error("cannot {0} in {1}: {2}")]
    Inside(&'static str, String, io::Error),
    #[error("the agent of {node} did not start: {why}")]
    Agent { node: Node, why: String },
    #[error("interrupted; what was made is removed")]
    Interrupted,
    #[error("interrupted; `selvedge lab kernel down --name {0}` removes what is there")]
    HalfMade(String),
    #[error("{0} processes in the lab's namespaces do not end")]
    Processes(usize),
}

/// Was this process asked to end? Asked time and again while a lab is made.
pub type Interrupted<'a> = dyn Fn() -> bool + 'a;

impl Error {
    /// Is the request at fault, rather than what came of it?
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Error::Name(_)
                | Error::Shape { .. }
                | Error::Rates { .. }
                | Error::Rate(_)
                | Error::NoRate(..)
                | Error::Buffer(..)
                | Error::Mark(..)
                | Error::Node { .. }
                | Error::OtherShape(_)
        )
    }
}
