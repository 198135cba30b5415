//! Why there is no lab.

use super::setup::MAX_HOSTS;
use std::io;

/// Why there is no lab. One line each, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("a lab needs the right to make network namespaces and TAP devices: run as root, or within `unshare -Urn`")]
    Privilege,
    #[error("/dev/net/tun: {0}; load the module tun, or pass the device into the container")]
    Tun(io::Error),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("cannot run {program}: {source}; install iproute2")]
    Run { program: &'static str, source: io::Error },
    #[error("{program} cannot set up a host's interface: {message}")]
    Configure { program: &'static str, message: String },
    #[error("{0} hosts are too many for a lab; at most {MAX_HOSTS} fit")]
    TooManyHosts(usize),
    #[error("this kernel has no congestion control {0}; choose one of: {1}")]
    Congestion(String, String),
    #[error("the lab's thread has ended")]
    Ended,
}
