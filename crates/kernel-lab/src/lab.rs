//! A lab by its name: what carries that name on this machine, and what it was made as.

use super::namespace::NamedNamespace;
use super::{Error, Interrupted, Node, Shape};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const DIRECTORY: &str = "/run/selvedge-lab";
const BPFFS: &str = "/sys/fs/bpf";

/// A fabric by its name; it need not be up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLab {
    name: String,
}

/// `lab.json`: what was asked for, and whether making it came to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) complete: bool,
    pub(super) shape: Shape,
}

impl KernelLab {
    /// # Errors
    /// [`Error::Name`]: names become part of namespaces' and files' names.
    pub fn new(name: &str) -> Result<KernelLab, Error> {
        let fits = name.len() <= 12
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if fits {
            Ok(KernelLab { name: name.to_owned() })
        } else {
            Err(Error::Name(name.to_owned()))
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of all its namespaces' names, and of no other lab's: names have no dash.
    pub(super) fn prefix(&self) -> String {
        format!("sv-{}-", self.name)
    }

    pub fn namespace(&self, node: Node) -> NamedNamespace {
        NamedNamespace::new(format!("{}{node}", self.prefix()))
    }

    /// Where its files are: the record, agents' configurations, sockets and logs.
    pub fn directory(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// Where a host's agent pins.
    pub fn pins(&self, node: Node) -> PathBuf {
        Path::new(BPFFS).join(format!("selvedge-{}-{node}", self.name))
    }

    /// Where an end of a link is pinned that marks.
    pub fn marks(&self, node: Node, interface: &str) -> PathBuf {
        Path::new(BPFFS).join(format!("selvedge-{}-marks", self.name)).join(format!("{node}-{interface}"))
    }

    /// Removes the lab's directory, last of all.
    pub(super) fn forget(&self) -> Result<(), Error> {
        let dir = self.directory();
        fs::remove_dir_all(&dir).map_err(|e| Error::Io("remove", e, dir))?;
        let _ = fs::remove_dir(DIRECTORY); // stays while other labs are up
        Ok(())
    }

    /// Becomes `command` in a node's network, in this process; returns only if that fails.
    pub fn exec(&self, node: &str, command: &[OsString]) -> Error {
        let (node, [program, arguments @ ..]) = (
            match self.node(node) {
                Ok(node) => node,
                Err(error) => return error,
            },
            command,
        ) else {
            return Error::Program(String::new(), io::ErrorKind::InvalidInput.into(), "a program to run");
        };
        let namespace = self.namespace(node);
        if let Err(e) = namespace.enter() {
            return Error::Inside("run a program", namespace.name().to_owned(), e);
        }
        let error = Command::new(program).args(arguments).exec();
        Error::Program(program.to_string_lossy().into_owned(), error, "it, or give its path")
    }

    /// The node of that name, if the lab is up and has it.
    ///
    /// # Errors
    /// [`Error::NotUp`], [`Error::Node`].
    pub fn node(&self, name: &str) -> Result<Node, Error> {
        let shape = self.shape()?;
        let found = name.parse::<Node>().ok().filter(|node| shape.nodes().contains(node));
        found.ok_or_else(|| {
            let known = shape.nodes().iter().map(Node::to_string).collect::<Vec<_>>().join(", ");
            Error::Node { lab: self.name.clone(), node: name.to_owned(), known }
        })
    }

    /// What the lab was made as.
    ///
    /// # Errors
    /// [`Error::NotUp`].
    pub fn shape(&self) -> Result<Shape, Error> {
        let record = self.record().filter(|record| record.complete);
        record.map(|record| record.shape).ok_or_else(|| Error::NotUp(self.name.clone()))
    }

    pub(super) fn record(&self) -> Option<Record> {
        let text = fs::read_to_string(self.record_path()).ok()?;
        // One that an earlier version wrote, or that was cut short, counts as none: its lab is half-made.
        serde_json::from_str(&text).ok()
    }

    fn record_path(&self) -> PathBuf {
        self.directory().join("lab.json")
    }

    pub(super) fn write_record(&self, shape: &Shape, complete: bool) -> Result<(), Error> {
        let path = self.record_path();
        let text = serde_json::json!({ "complete": complete, "shape": shape }).to_string();
        fs::write(&path, text + "\n").map_err(|e| Error::Io("write", e, path))
    }

    /// What agents of this lab pinned.
    pub(super) fn pinned(&self) -> Vec<PathBuf> {
        let prefix = format!("selvedge-{}-", self.name);
        let entries = fs::read_dir(BPFFS).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).map(|e| e.path()).collect()
    }

    /// One process at a time changes a lab. The lock goes with the process, and with the directory.
    pub(super) fn lock(&self, interrupted: &Interrupted<'_>) -> Result<Flock<File>, Error> {
        let dir = self.directory();
        let failed = |e: io::Error| Error::Io("lock", e, dir.clone());
        loop {
            match fs::create_dir_all(&dir) {
                // The last lab that went took the directory above along, just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound && Path::new("/run").exists() && !interrupted() => {
                    continue
                }
                made => made.map_err(|e| Error::Io("create", e, dir.clone()))?,
            }
            let mut file = match File::open(&dir) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue, // removed just now
                opened => opened.map_err(failed)?,
            };
            let lock = loop {
                match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                    Ok(lock) => break lock,
                    Err((same, Errno::EWOULDBLOCK | Errno::EINTR)) => file = same,
                    Err((_, e)) => return Err(failed(e.into())),
                }
                if interrupted() {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            // Whoever held it before may have removed what we opened.
            let opened = lock.metadata().map_err(failed)?;
            if fs::metadata(&dir).is_ok_and(|now| now.ino() == opened.ino() && now.dev() == opened.dev()) {
                return Ok(lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_reach_beyond_the_lab_are_refused() {
        for name in ["", "A", "a-b", "../x", "a b", "1a", "waytoolongname"] {
            assert!(matches!(KernelLab::new(name), Err(Error::Name(_))), "{name}");
        }
        assert_eq!(KernelLab::new("lab1").unwrap().namespace(Node::Guest(1, 2)).name(), "sv-lab1-guest1.2");
    }
}
