//! Taking the edge out of the kernel, with or without an agent.

use super::error::{Error, Result};
use super::follow::Followed;
use super::interfaces::{Interfaces, Netlink};
use super::limits;
use super::lock;
use super::mtus;
use super::remembered::Remembered;
use super::runtime::runtime;
use kernel::{self, again, cut, gro};
use std::fs;
use std::path::Path;

/// Removes what an agent that does not run any more left below `pins`, and what the file beside `socket` remembers. Fine if
/// there is nothing.
///
/// # Errors
/// [`Error::Held`] while an agent runs; what the kernel refuses; [`Error::Elsewhere`] if interfaces of another network
/// namespace are still as the agent made them.
pub fn stop(pins: &Path, socket: &Path) -> Result<()> {
    let lock = lock::acquire_existing(pins)?;
    let remembered = Remembered::load(socket).filter(|remembered| remembered.pins == pins);
    let elsewhere = remembered.as_ref().filter(|remembered| !remembered.is_of_this_namespace());
    if let Some(remembered) = &remembered {
        if elsewhere.is_none() {
            runtime()?.block_on(async {
                let netlink = Netlink::new(false)?;
                undo(&netlink, &netlink.interfaces().await?, remembered).await;
                Ok::<(), Error>(())
            })?;
        } else if !is_empty(&pins.join("filters")) {
            // Interfaces of this namespace that have the same numbers are not ours.
            return Err(Error::Elsewhere(remembered.elsewhere(socket, true)));
        }
    }
    if lock.is_some() {
        kernel::remove_edge(pins)?;
    }
    Followed::remove(socket);
    match elsewhere {
        // Kept for whoever stops it in the right place.
        Some(remembered) => return Err(Error::Elsewhere(remembered.elsewhere(socket, false))),
        None => Remembered::remove(socket),
    }
    if std::os::unix::net::UnixStream::connect(socket).is_err() {
        let _ = fs::remove_file(socket); // what a killed agent left
    }
    Ok(())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

/// MTUs and GRO devices. Before the edge goes, whose program is on the latter.
pub(super) async fn undo(netlink: &Netlink, interfaces: &Interfaces, remembered: &Remembered) {
    for port in &remembered.ports {
        mtus::restore(netlink, interfaces, port).await;
    }
    for name in &remembered.gro {
        let _ = gro::remove(name); // gone with its namespace at the latest
    }
    let _ = limits::remove_all();
    let _ = cut::remove();
    let _ = again::remove();
}
