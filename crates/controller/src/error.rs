//! Why a controller does not run, or a question to it gets no answer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a controller does not run, or a question to it got no answer. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}; {2}")]
    Certificate(PathBuf, String, &'static str),
    #[error("cannot {0} {1}: {2}; {remedy}", remedy = remedy(.2))]
    Io(&'static str, PathBuf, io::Error),
    #[error("{0} is in use by another controller; give this one another `store`")]
    Held(PathBuf),
    #[error("{path}: {problem}; {remedy}")]
    Store { path: PathBuf, problem: String, remedy: &'static str },
    #[error("cannot listen on {0}: {1}; choose an address of this host and a port that is free")]
    Listen(String, io::Error),
    #[error("cannot serve metrics on {0}: {1}; choose another `metrics`, or bring the interface lo up")]
    Metrics(SocketAddr, io::Error),
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("{0:?} is no URL: write one such as \"https://10.0.0.9:7443\"; http is for etcd only")]
    Url(String),
    #[error("{0}: {1}")]
    Unreachable(String, String),
    /// What the controller said.
    #[error("{0}")]
    Refused(String),
    #[error("{0}: the answer is not a controller's: {1}")]
    Answer(String, String),
    #[error("the fabric has no link {0:?} between switches; `selvedge topo show` lists them")]
    NoLink(String),
    #[error("other controllers change links all the time; try again")]
    Busy,
    #[error("another controller with the same store has another topology; give all the same")]
    OtherFabric,
    #[error("no host of the topology is called {0:?}")]
    NoEdge(String),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "give a path in a directory that is there",
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => "give another path",
        _ => "give a path where this user may read and write",
    }
}
