//! Taking the edge out of the kernel, with or without an agent.

use super::error::{Error, Result};
use super::follow::Followed;
use super::interfaces::{Interfaces, Netlink};
use super::limits;
use super::lock::{self, Lock};
use super::mtus;
use super::remembered::Remembered;
use super::rules;
use super::runtime::runtime;
use kernel::{self, again, cut, gro, htb, Role};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// An agent that answers no more may still be ending: so often it is looked again, and after such a pause.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes what an agent that does not run any more left below `pins`, and what the file beside `socket` remembers. Fine if
/// there is nothing.
///
/// # Errors
/// [`Error::Unheard`] while an agent runs; what the kernel refuses; [`Error::Left`] if interfaces of another network
/// namespace are still as the agent made them, or nobody knows how they were.
pub fn stop(pins: &Path, socket: &Path) -> Result<()> {
    let lock = acquire(pins, socket)?;
    let forgotten = Remembered::forgotten(pins, socket).filter(|_| lock.is_some());
    let noted = Remembered::load(socket);
    let of_others = noted.as_ref().is_some_and(|remembered| remembered.pins != pins);
    let remembered = noted.filter(|_| !of_others);
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
            return Err(Error::Left(remembered.elsewhere(socket, true)));
        }
    }
    let devices = if forgotten.is_some() { remove_devices(pins)? } else { Vec::new() };
    if lock.is_some() {
        kernel::remove_edge(pins)?;
    }
    if !of_others {
        Followed::remove(socket);
    }
    match elsewhere {
        // Kept for whoever stops it in the right place.
        Some(remembered) => return Err(Error::Left(remembered.elsewhere(socket, false))),
        None if forgotten.is_none() && !of_others => Remembered::remove(socket),
        None => {}
    }
    if std::os::unix::net::UnixStream::connect(socket).is_err() {
        let _ = fs::remove_file(socket); // what a killed agent left
    }
    match forgotten {
        Some(why) => Err(Error::Left(format!(
            "{why}. Programs, maps{} are removed. MTUs that it has changed stay, and what it made in another network \
             namespace; if it had another `socket`, `selvedge agent stop --config` with its file undoes that",
            devices.iter().map(|name| format!(", {name}")).collect::<String>()
        ))),
        None => Ok(()),
    }
}

/// # Errors
/// [`Error::Unheard`] if somebody else holds it all the time.
fn acquire(pins: &Path, socket: &Path) -> Result<Option<Lock>> {
    for _ in 0..LOOKS {
        match lock::acquire_existing(pins) {
            Err(Error::Held(_)) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    Err(Error::Unheard(pins.into(), socket.into()))
}

/// What the edge's programs are attached to, of the devices of this namespace that an agent makes; and limits' queues. Returns the
/// devices' names.
fn remove_devices(pins: &Path) -> Result<Vec<String>> {
    let attached = kernel::attachments(pins);
    let limits = [Role::Limiter, Role::LimitInside, Role::LimitGuest, Role::LimitPort];
    let limited = attached.iter().any(|(_, role)| limits.contains(role));
    let mut links = htb::links("sv").map_err(|e| Error::System("list devices", e))?;
    links.sort_by(|a, b| a.name.cmp(&b.name));
    let is_attached =
        |kind: &str| links.iter().any(|l| l.name.starts_with(kind) && attached.iter().any(|(i, _)| *i == l.ifindex));
    let goes = |name: &str| match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        rules::LIMIT_NAME => limited,
        kind => is_attached(kind),
    };
    let names = links.iter().map(|link| link.name.as_str()).filter(|name| rules::is_ours(name));
    let removed: Vec<String> = names.filter(|name| goes(name)).map(str::to_owned).collect();
    let has = |kind: &str| removed.iter().any(|name| name.starts_with(kind));
    if limited {
        let _ = limits::remove_all();
    }
    for (name, remove) in [(cut::NAME, cut::remove as fn() -> _), (again::NAME, again::remove)] {
        if has(name) {
            let _ = remove();
        }
    }
    for name in removed.iter().filter(|name| name.starts_with(rules::GRO_NAME)) {
        let _ = gro::remove(name); // gone with its namespace at the latest
    }
    Ok(removed)
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
