//! Queues of the kernel, changed only where they differ; qdiscs that others set stay.

use super::super::rules::LIMIT_NAME;
use agent_api::config::MAX_PAIRS;
use kernel::htb::{self, Class, Found, Qdisc};
use std::io;

/// Where the sending of some ports is limited: it enters by the first device and leaves by the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair(pub(super) u32);

impl Pair {
    pub(super) fn all() -> impl Iterator<Item = Pair> {
        (0..MAX_PAIRS).map(Pair)
    }

    pub(super) fn first(self) -> String {
        format!("{LIMIT_NAME}{}", self.0 * 2)
    }

    pub(super) fn second(self) -> String {
        format!("{LIMIT_NAME}{}", self.0 * 2 + 1)
    }

    /// Number of the first device, if there is one of that name.
    pub(super) fn ifindex(self) -> Option<u32> {
        kernel::ifindex(&self.first()).ok()
    }

    /// Fine if it is not there.
    pub(super) fn remove(self) -> io::Result<()> {
        match self.ifindex() {
            Some(_) => htb::remove_pair(&self.first()),
            None => Ok(()),
        }
    }
}

/// The queue of a leaf, unless somebody has put another qdisc there, which stays; in a class that is new nobody has.
pub(super) fn set_queue(device: u32, class: u32, limit: u32, qdiscs: &[Qdisc], new: bool) -> io::Result<()> {
    match qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0).filter(|_| !new) {
        Some(queue) if !queue.is_our_queue() || queue.limit == limit => Ok(()),
        _ => htb::set_queue(device, class, limit),
    }
}

pub(super) fn occupied(interface: &str, other: &Qdisc) -> String {
    let shown = other.shown();
    format!(
        "{interface} has a root qdisc that somebody set ({shown}); remove it with `tc qdisc del dev {interface} root`"
    )
}

/// Which an agent without the right to try it beforehand finds missing only here.
pub(super) fn add_fq(device: u32) -> io::Result<()> {
    htb::add_fq(device).map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ENOENT) => {
            io::Error::other("this kernel has no fq, which keeps to departure times; set limits.pacing = \"htb\"")
        }
        _ => e,
    })
}

/// Our root qdisc of that kind, in place of ours of another.
pub(super) fn set_root(
    device: u32,
    qdiscs: &[Qdisc],
    kind: &str,
    add: impl FnOnce(u32) -> io::Result<()>,
) -> io::Result<()> {
    match qdiscs.iter().find(|q| q.ifindex == device && q.is_ours()) {
        Some(ours) if ours.kind == kind => return Ok(()),
        Some(_) => htb::remove_root(device)?,
        None => {}
    }
    add(device)
}

/// Only if it is not there like that. One that is below another parent is made anew.
pub(super) fn set(device: u32, have: &[Found], class: &Class) -> io::Result<()> {
    match have.iter().find(|found| found.class.id == class.id) {
        Some(found) if found.class == *class => return Ok(()),
        Some(found) if found.class.parent != class.parent => htb::remove_class(device, class.id)?,
        _ => {}
    }
    htb::set_class(device, class)
}

/// Without an agent: everything of ours on any device.
pub(crate) fn remove_all() -> io::Result<()> {
    let ours = htb::qdiscs()?;
    let pairs: Vec<u32> = Pair::all().filter_map(Pair::ifindex).collect();
    let others = ours.iter().filter(|q| q.is_ours() && !pairs.contains(&q.ifindex));
    others.into_iter().try_for_each(|q| htb::remove_root(q.ifindex))?;
    Pair::all().try_for_each(Pair::remove)
}
