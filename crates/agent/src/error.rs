//! Why the agent does not run, or does not do what it was asked: the errors that its callers get.

use std::io;
use std::path::PathBuf;

/// Why the agent does not run, or does not do what it was asked. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the configuration's reader said.
    #[error("{0}")]
    Config(String),
    /// The configuration names what this host does not have, or cannot do now.
    #[error("{0}")]
    Unresolved(String),
    /// The same of interfaces and addresses that it names: key and remedy.
    #[error("{0}")]
    Named(String),
    #[error("another agent holds {0}; stop it first, or give this one other `pins` and another `socket`")]
    Held(PathBuf),
    #[error(
        "an agent holds {0}, and none answers on {1}: it starts, or ends, or has another `socket`; try again, or name its \
         file with --config"
    )]
    Unheard(PathBuf, PathBuf),
    #[error("agent.pins: {0} cannot be a directory in a BPF file system: {1}")]
    NotBpffs(PathBuf, String),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error("cannot {0} {1}: {2}")]
    Io(&'static str, PathBuf, io::Error),
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
    #[error("cannot {0}: {1}")]
    Netlink(&'static str, rtnetlink::Error),
    #[error("another agent answers on {0}; give this one another `socket`")]
    SocketInUse(PathBuf),
    /// What a stop has left, or may have left, and how to remove it.
    #[error("{0}")]
    Left(String),
}

impl Error {
    /// Is the request at fault, rather than the machine?
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Config(_))
    }

    /// Is it about a key of the configuration?
    pub fn is_of_file(&self) -> bool {
        matches!(self, Error::Named(_) | Error::NotBpffs(..))
    }
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// For `map_err`: what was done to which file.
pub(super) fn io_error(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |e| Error::Io(what, path, e)
}
