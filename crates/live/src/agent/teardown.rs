//! Taking the edge out of the kernel, with or without an agent.

use super::error::{Error, Result};
use super::follow::Followed;
use super::interfaces::Netlink;
use super::lock;
use super::reconcile::undo;
use super::remembered::Remembered;
use super::run::runtime;
use crate::kernel::{self, Edge, Options};
use std::fs;
use std::path::Path;

/// Removes what an agent that does not run any more left below `pins`, and what the file beside `socket` remembers.
/// Returns what could not be undone, one line each. Fine if there is nothing.
///
/// # Errors
/// [`Error::Held`] while an agent runs; what the kernel refuses.
pub fn stop(pins: &Path, socket: &Path) -> Result<Vec<String>> {
    let lock = lock::acquire_existing(pins)?;
    let remembered = Remembered::load(socket).filter(|remembered| remembered.pins == pins);
    let mut left = Vec::new();
    match &remembered {
        Some(remembered) if remembered.is_of_this_namespace() => runtime()?.block_on(async {
            let netlink = Netlink::new(false)?;
            undo(&netlink, &netlink.interfaces().await?, remembered).await;
            Ok::<(), Error>(())
        })?,
        Some(_) => left.push(format!(
            "MTUs and GRO devices belong to another network namespace and stay as they are; with `nsenter --net` in that \
             namespace `selvedge agent stop` would have undone them ({})",
            socket.display()
        )),
        None => {}
    }
    if lock.is_some() {
        remove_edge(pins)?;
    }
    Remembered::remove(socket);
    Followed::remove(socket);
    if std::os::unix::net::UnixStream::connect(socket).is_err() {
        let _ = fs::remove_file(socket); // what a killed agent left
    }
    Ok(left)
}

fn remove_edge(pins: &Path) -> Result<()> {
    // Links on tcx end with their pins, but filters on clsact must be taken off. Which flows are remembered is no matter.
    let attached =
        ["links", "filters"].iter().any(|dir| fs::read_dir(pins.join(dir)).is_ok_and(|mut d| d.next().is_some()));
    if attached {
        if let Ok(edge) = Edge::open(&Options { pins: pins.into(), max_flows: 1, ..Options::default() }) {
            return Ok(edge.destroy()?);
        }
    }
    Ok(kernel::remove_edge(pins)?)
}
