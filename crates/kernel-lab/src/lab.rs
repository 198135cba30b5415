//! Making a lab and removing it.

use super::ip::{batch, Batch};
use super::namespace::{end_processes, permitted, NamedNamespace};
use super::{Error, Node, Overlay, Queue, Shape, Wire, UPLINK};
use nix::fcntl::{Flock, FlockArg};
use port::{set_offload, Switch};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Makes an interface mark: its name, its queue, and where in the bpffs its counts go. Or says why it cannot.
pub type Marker<'a> = dyn Fn(&str, &Queue, &Path) -> Result<(), String> + Sync + 'a;

const DIRECTORY: &str = "/run/selvedge-lab";
const BPFFS: &str = "/sys/fs/bpf";

/// A fabric by its name; it need not be up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLab {
    name: String,
}

/// What [`KernelLab::up`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    Made,
    /// It was up already, with the same shape.
    Was,
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
    fn prefix(&self) -> String {
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

    /// Makes the lab, with agents run from `agent` where the overlay is the edge. If it is up already with this shape,
    /// nothing happens; what an interrupted attempt left is removed first, and so is what this one made if it fails. Where routers
    /// are to mark, `mark` has an interface of the calling thread's network do it, and pins what it counts.
    ///
    /// # Errors
    /// One line: what is not permitted, missing or wrong.
    pub fn up(&self, shape: &Shape, agent: &Path, mark: &Marker<'_>) -> Result<Up, Error> {
        shape.check()?;
        permitted().map_err(Error::Forbidden)?;
        let _lock = self.lock()?;
        match self.record() {
            Some(record) if record.complete && self.whole(&record.shape) => {
                return if record.shape == *shape { Ok(Up::Was) } else { Err(Error::OtherShape(self.name.clone())) };
            }
            _ => self.remove()?,
        }
        let made = self.make(shape, agent, mark);
        if made.is_err() {
            let _ = self.remove().and_then(|()| self.forget()); // the first error is the one to tell
        }
        made.map(|()| Up::Made)
    }

    /// Removes everything that carries the lab's name, and ends every process in its namespaces. `false` if there was
    /// nothing.
    ///
    /// # Errors
    /// What does not go, in one line.
    pub fn down(&self) -> Result<bool, Error> {
        let there = self.directory().exists()
            || !NamedNamespace::with_prefix(&self.prefix()).is_empty()
            || !self.pinned().is_empty();
        if !there {
            return Ok(false);
        }
        permitted().map_err(Error::Forbidden)?;
        let _lock = self.lock()?;
        self.remove()?;
        self.forget()?;
        Ok(true)
    }

    /// Removes the lab's directory, last of all.
    fn forget(&self) -> Result<(), Error> {
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

    fn write_record(&self, shape: &Shape, complete: bool) -> Result<(), Error> {
        let path = self.record_path();
        let text = serde_json::json!({ "complete": complete, "shape": shape }).to_string();
        fs::write(&path, text + "\n").map_err(|e| Error::Io("write", e, path))
    }

    /// Are all namespaces there, and the agents too? After a reboot of the edge or by other hands they may not be.
    fn whole(&self, shape: &Shape) -> bool {
        shape.nodes().iter().all(|node| self.namespace(*node).exists())
            && (shape.overlay != Overlay::Edge
                || (1..=shape.host_count()).all(|host| super::agent::Files::of(self, host).alive()))
    }

    fn make(&self, shape: &Shape, agent: &Path, mark: &Marker<'_>) -> Result<(), Error> {
        self.write_record(shape, false)?;
        let nodes = shape.nodes();
        let names = nodes.iter().map(|node| format!("netns add {}", self.namespace(*node).name())).collect();
        batch("ip", None, names)?;
        for node in &nodes {
            self.write_sysctls(shape, *node)?;
        }
        batch("ip", None, self.wiring(shape))?;
        // Side by side: they wait for the kernel more than they compute.
        let mut running = Vec::new();
        for node in &nodes {
            running.push(Batch::start("ip", Some(&self.namespace(*node)), shape.setup(*node))?);
        }
        running.into_iter().map(Batch::finish).collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>()?;
        for host in 1..=shape.host_count() {
            let namespace = self.namespace(Node::Host(host));
            if shape.overlay == Overlay::Vxlan && shape.host_count() > 1 {
                batch("bridge", Some(&namespace), shape.flood_list(host))?;
            }
            if shape.wire == Wire::Mtu {
                let cut = || -> io::Result<()> {
                    set_offload(UPLINK, Switch::Tso, false)?;
                    set_offload(UPLINK, Switch::Gso, false)?;
                    set_offload(UPLINK, Switch::Gro, true)
                };
                let name = namespace.name().to_owned();
                namespace.run(cut).and_then(|r| r).map_err(|e| Error::Inside("set offloads", name, e))?;
            }
        }
        self.make_queues(shape, mark)?;
        if shape.overlay == Overlay::Edge {
            self.start_agents(shape, agent)?;
        }
        self.write_record(shape, true)?;
        self.wait_for_links()
    }

    /// The kernel takes note of carriers once in a second. What it has not by the end of the wait, the status tells.
    fn wait_for_links(&self) -> Result<(), Error> {
        for _ in 0..50 {
            if self.status()?.links.iter().all(|link| link.up) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Both ends of a pair are made where they belong: nothing ever shows up in this namespace.
    fn wiring(&self, shape: &Shape) -> Vec<String> {
        let links = shape.links();
        let line = |[a, b]: &[(Node, String); 2]| {
            let (here, there) = (self.namespace(a.0), self.namespace(b.0));
            format!("link add {} netns {} type veth peer name {} netns {}", a.1, here.name(), b.1, there.name())
        };
        links.iter().map(|link| line(&link.ends)).collect()
    }

    fn write_sysctls(&self, shape: &Shape, node: Node) -> Result<(), Error> {
        let namespace = self.namespace(node);
        let write = || {
            for (file, value, may_lack) in shape.sysctls(node) {
                let path = Path::new("/proc/sys/net").join(file);
                match fs::write(&path, value) {
                    Err(e) if !(may_lack && e.kind() == io::ErrorKind::NotFound) => {
                        return Err(Error::Io("write", e, path));
                    }
                    _ => {}
                }
            }
            Ok(())
        };
        namespace.run(write).map_err(|e| Error::Inside("set parameters", namespace.name().to_owned(), e))?
    }

    /// Everything but the lab's directory.
    fn remove(&self) -> Result<(), Error> {
        let namespaces = NamedNamespace::with_prefix(&self.prefix());
        let ended = end_processes(&namespaces);
        for namespace in &namespaces {
            namespace.remove().map_err(|e| Error::Io("remove", e, namespace.path()))?;
        }
        for pins in self.pinned() {
            fs::remove_dir_all(&pins).map_err(|e| Error::Io("remove", e, pins))?;
        }
        ended
    }

    /// What agents of this lab pinned.
    fn pinned(&self) -> Vec<PathBuf> {
        let prefix = format!("selvedge-{}-", self.name);
        let entries = fs::read_dir(BPFFS).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).map(|e| e.path()).collect()
    }

    /// One process at a time changes a lab. The lock goes with the process, and with the directory.
    fn lock(&self) -> Result<Flock<File>, Error> {
        let dir = self.directory();
        let failed = |e: io::Error| Error::Io("lock", e, dir.clone());
        loop {
            fs::create_dir_all(&dir).map_err(|e| Error::Io("create", e, dir.clone()))?;
            let file = match File::open(&dir) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue, // removed just now
                opened => opened.map_err(failed)?,
            };
            let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| failed(e.into()))?;
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
