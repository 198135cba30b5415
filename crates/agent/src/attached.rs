//! Where this agent's programs are.

use kernel::{Error, KernelEdge, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Interface and role of each program, with the interface's name at that time: a number may be another interface's later.
#[derive(Debug, Default)]
pub(crate) struct Attached(BTreeMap<(u32, Role), String>);

impl Attached {
    pub(crate) fn has(&self, at: (u32, Role)) -> bool {
        self.0.contains_key(&at)
    }

    pub(crate) fn count(&self, role: Role) -> usize {
        self.0.keys().filter(|(_, r)| *r == role).count()
    }

    /// Attaches the program unless it is there. True if that is news.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn ensure(&mut self, edge: &KernelEdge, at: (u32, Role), name: &str) -> Result<bool, Error> {
        if self.0.get(&at).map(String::as_str) == Some(name) {
            return Ok(false);
        }
        edge.attach(at.0, at.1)?;
        self.note(at, name);
        Ok(true)
    }

    /// Somebody else attached it.
    pub(crate) fn note(&mut self, at: (u32, Role), name: &str) {
        self.0.insert(at, name.to_owned());
    }

    /// It is detached. Returns the interface's name.
    pub(crate) fn forget(&mut self, at: (u32, Role)) -> Option<String> {
        self.0.remove(&at)
    }

    /// The interface has ended.
    pub(crate) fn forget_interface(&mut self, ifindex: u32) {
        self.0.retain(|(at, _), _| *at != ifindex);
    }

    /// Any number may be another interface's by now.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }

    /// Only what is in `there` is left.
    pub(crate) fn keep(&mut self, there: &BTreeSet<(u32, Role)>) {
        self.0.retain(|at, _| there.contains(at));
    }
}
