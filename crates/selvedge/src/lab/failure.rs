//! Errors of the lab's commands: one line each, with a remedy.

use std::io;
use std::path::PathBuf;

/// Why a verb of the lab did not do its work. One line each, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabFailure {
    #[error(transparent)]
    Lab(#[from] lab::LabError),
    #[error("{0:?} is no name for a lab: give 1 to 24 lower-case letters, digits and `-`")]
    Name(String),
    #[error("another `lab up` or `lab down` has not come to an end; try again")]
    Busy,
    #[error("there is no directory for labs; set SELVEDGE_RUN_DIR to one of your own")]
    NoPlace,
    #[error("lab {0} is not up; {1}")]
    NoLab(String, String),
    #[error(
        "lab {0} is up already; take it down with `selvedge lab down --name {0}`, or give this one another --name"
    )]
    Up(String),
    #[error("the process of lab {0} is gone; remove what it left with `selvedge lab down --name {0}`")]
    Dead(String),
    #[error("{path}: the record of lab {name} cannot be read: {source}; take the lab down with `selvedge lab down --name {name}`")]
    Record { name: String, path: PathBuf, source: io::Error },
    #[error("lab {name} does not go away; end its process {pid} yourself")]
    Stuck { name: String, pid: u32 },
    #[error("there is no host {name:?}; there are h0 to h{last}")]
    NoHost { name: String, last: usize },
    #[error("there is no command; write it after --")]
    NoCommand,
    #[error("cannot run {program}: {source}")]
    Program { program: String, source: io::Error },
    #[error("cannot write {path}: {source}; name a file with --output where you may write, on a disk with room")]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl LabFailure {
    pub(super) fn io(what: &'static str) -> impl Fn(io::Error) -> LabFailure {
        move |source| LabFailure::Io { what, source }
    }

    /// Is the request at fault, rather than what came of it?
    pub fn is_request(&self) -> bool {
        use LabFailure::*;
        matches!(self, Name(_) | NoLab(..) | Up(_) | NoHost { .. } | NoCommand)
    }
}
