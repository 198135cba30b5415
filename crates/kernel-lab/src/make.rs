//! Making a lab and removing it.

use super::agent::Files;
use super::ip::{batch, Batch};
use super::namespace::{end_processes, permitted, NamedNamespace};
use super::queues::Marker;
use super::{Error, Interrupted, KernelLab, Node, Overlay, Shape, Wire, UPLINK};
use port::{set_offload, Switch};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What [`KernelLab::up`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    Made,
    /// It was up already, with the same shape.
    Was,
}

impl KernelLab {
    /// Makes the lab, with agents run from `agent` where the overlay is the edge. If it is up already with this shape,
    /// nothing happens; what a killed attempt left is removed first, and so is what this one made if it fails or is `interrupted`.
    /// Where routers are to mark, `mark` has an interface of the calling thread's network do it, and pins what it counts.
    ///
    /// # Errors
    /// One line: what is not permitted, missing or wrong.
    pub fn up(
        &self,
        shape: &Shape,
        agent: &Path,
        mark: &Marker<'_>,
        interrupted: &Interrupted<'_>,
    ) -> Result<Up, Error> {
        shape.check()?;
        permitted().map_err(Error::Forbidden)?;
        let _lock = self.lock(interrupted)?;
        match self.record() {
            Some(record) if record.complete && self.whole(&record.shape) => {
                return if record.shape == *shape {
                    Ok(Up::Was)
                } else {
                    Err(Error::OtherShape(self.name().to_owned()))
                };
            }
            _ => self.remove()?,
        }
        let made = self.make(shape, agent, mark, interrupted);
        if made.is_err() {
            let gone = self.remove().and_then(|()| self.forget());
            // Ctrl-C ends what runs for this process, too: that is no failure of its own.
            if interrupted() {
                return Err(if gone.is_ok() { Error::Interrupted } else { Error::HalfMade(self.name().to_owned()) });
            }
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
        let _lock = self.lock(&|| false)?;
        self.remove()?;
        self.forget()?;
        Ok(true)
    }

    /// Are all namespaces there, and the agents too? After a reboot of the edge or by other hands they may not be.
    fn whole(&self, shape: &Shape) -> bool {
        shape.nodes().iter().all(|node| self.namespace(*node).exists())
            && (shape.overlay != Overlay::Edge || (1..=shape.host_count()).all(|host| Files::of(self, host).alive()))
    }

    fn make(&self, shape: &Shape, agent: &Path, mark: &Marker<'_>, interrupted: &Interrupted<'_>) -> Result<(), Error> {
        let go_on = || if interrupted() { Err(Error::Interrupted) } else { Ok(()) };
        self.write_record(shape, false)?;
        let nodes = shape.nodes();
        let names = nodes.iter().map(|node| format!("netns add {}", self.namespace(*node).name())).collect();
        batch("ip", None, names)?;
        for node in &nodes {
            go_on()?;
            self.write_sysctls(shape, *node)?;
        }
        batch("ip", None, self.wiring(shape))?;
        // Side by side: they wait for the kernel more than they compute.
        let mut running = Vec::new();
        for node in &nodes {
            go_on()?;
            running.push(Batch::start("ip", Some(&self.namespace(*node)), shape.setup(*node))?);
        }
        running.into_iter().map(Batch::finish).collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>()?;
        for host in 1..=shape.host_count() {
            go_on()?;
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
            self.start_agents(shape, agent, interrupted)?;
        }
        self.wait_for_links(interrupted)?;
        go_on()?;
        self.write_record(shape, true)
    }

    /// The kernel takes note of carriers once in a second. What it has not by the end of the wait, the status tells.
    fn wait_for_links(&self, interrupted: &Interrupted<'_>) -> Result<(), Error> {
        for _ in 0..50 {
            if interrupted() || self.status()?.links.iter().all(|link| link.up) {
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
}
