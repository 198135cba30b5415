//! Queues of the kernel, changed only where they differ; qdiscs that others set stay.

use kernel::htb::{self, Class, Found, Qdisc};
use std::io;

pub(super) const FIRST: &str = "svlimit0";
pub(super) const SECOND: &str = "svlimit1";

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
    let pair = kernel::ifindex(FIRST).unwrap_or(0);
    ours.iter().filter(|q| q.is_ours() && q.ifindex != pair).try_for_each(|q| htb::remove_root(q.ifindex))?;
    htb::remove_pair(FIRST)
}
