//! Programs on interfaces: links on tcx, and filters of clsact where that does not exist.

use super::{entries, Error, KernelEdge, Result, Role};
use crate::sys;
use agent_api::config::Place;
use libbpf_rs::{TcHookBuilder, TC_EGRESS, TC_INGRESS};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Handle of our filters where tcx does not exist.
const CLSACT_HANDLE: u32 = 0x5e1f;
/// Behind the filters of others.
const CLSACT_LAST: u32 = 0x5e1f;
/// In front of them; and what is in front of that: the limit of what a guest sends.
const CLSACT_FIRST: u32 = 2;
const CLSACT_LIMIT: u32 = 1;

const PLACES: [Place; 2] = [Place::First, Place::Last];

/// What tells a place in the names of pins.
fn mark(place: Place) -> &'static str {
    match place {
        Place::First => "-first",
        Place::Last => "",
    }
}

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A pinned link on tcx (Linux 6.6): replaced atomically.
    Tcx,
    /// A filter on clsact: replaced in place; not visible in the bpffs.
    Clsact,
}

impl KernelEdge {
    /// Attaches a program, or puts this edge's program in place of an earlier agent's, the way that one was attached.
    ///
    /// # Errors
    /// What the kernel refuses; ENODEV if there is no such interface.
    pub fn attach(&self, ifindex: u32, role: Role) -> Result<Attachment> {
        if PLACES.iter().any(|place| self.filter_pin(ifindex, role, *place).exists()) {
            return self.attach_with(ifindex, role, Attachment::Clsact);
        }
        match self.attach_with(ifindex, role, Attachment::Tcx) {
            // Before Linux 6.6.
            Err(Error::Io(_, _, e)) if !role.is_fast() && e.raw_os_error() == Some(nix::libc::EINVAL) => {
                self.attach_with(ifindex, role, Attachment::Clsact)
            }
            result => result,
        }
    }

    /// As [`KernelEdge::attach`], in the way that is asked for. If the program was attached in the other way, that ends, after
    /// this began.
    ///
    /// # Errors
    /// As [`KernelEdge::attach`]; EINVAL for tcx before Linux 6.6.
    pub fn attach_with(&self, ifindex: u32, role: Role, attachment: Attachment) -> Result<Attachment> {
        let program = self.program(role)?;
        match attachment {
            Attachment::Tcx => {
                self.attach_tcx(&program, role, ifindex)?;
                PLACES.iter().try_for_each(|place| detach_clsact(&self.pins, ifindex, role, *place))?;
            }
            Attachment::Clsact => {
                self.attach_clsact(&program, role, ifindex)?;
                PLACES.iter().try_for_each(|place| detach_tcx(&self.pins, ifindex, role, *place))?;
            }
        }
        Ok(attachment)
    }

    fn attach_tcx(&self, program: &libbpf_rs::Program<'_>, role: Role, ifindex: u32) -> Result<()> {
        let (place, elsewhere) = self.places(role);
        let pin = &self.link_pin(ifindex, role, place);
        if let Ok(link) = sys::open_pinned(pin) {
            match sys::link_update(link.as_fd(), program.as_fd()) {
                Ok(()) => return detach_tcx(&self.pins, ifindex, role, elsewhere),
                // The interface is gone, and its number may be another's by now.
                Err(_) => fs::remove_file(pin).map_err(|e| Error::Io("remove", pin.clone(), e))?,
            }
        }
        // The limit of a port comes before its guest's program, wherever that is; before both, what follows the guest's connections.
        let link_of = |role| sys::open_pinned(&self.link_pin(ifindex, role, self.place)).ok();
        let (limit, fast) = (link_of(Role::LimitGuest), link_of(Role::FastGuest));
        let (guest, in_front) = (link_of(Role::Guest), limit.as_ref().or(fast.as_ref()));
        let at = match (role, place) {
            (Role::Guest, _) if in_front.is_some() => in_front.map(|link| sys::Order::Behind(link.as_fd())),
            (Role::LimitGuest, _) if fast.is_some() => fast.as_ref().map(|link| sys::Order::Behind(link.as_fd())),
            (Role::FastGuest, _) => limit.as_ref().or(guest.as_ref()).map(|link| sys::Order::Before(link.as_fd())),
            (Role::FastPort, _) => Some(sys::Order::Last),
            (Role::LimitGuest, _) | (_, Place::First) => Some(sys::Order::First),
            _ => Some(sys::Order::Last),
        };
        let at = at.unwrap_or(sys::Order::First);
        let link = sys::link_tcx(program.as_fd(), ifindex, role.on_egress(), at);
        let link = link.map_err(|e| Error::Io("attach to tcx as", pin.clone(), e))?;
        sys::pin(link.as_fd(), pin).map_err(|e| Error::Io("pin", pin.clone(), e))?;
        detach_tcx(&self.pins, ifindex, role, elsewhere)
    }

    /// The filter's program is changed in place: every packet meets the old or the new one. The clsact qdisc stays when
    /// the filter goes: it may be another's by then.
    fn attach_clsact(&self, program: &libbpf_rs::Program<'_>, role: Role, ifindex: u32) -> Result<()> {
        let (place, elsewhere) = self.places(role);
        let pin = &self.filter_pin(ifindex, role, place);
        // Pinned first: a filter without a pin would be left behind by an agent that is killed in between.
        let was_there = pin.exists();
        pin_anew(program.as_fd(), pin)?;
        let mut hook = clsact(program.as_fd(), role, ifindex, place);
        let created = quietly(|| hook.create()).map_err(|e| Error::Bpf("add clsact", e)); // complains if it is there, and succeeds
        let attached = created.and_then(|_| hook.attach().map_err(|e| Error::Bpf("attach to clsact", e)));
        if attached.is_err() && !was_there {
            let _ = fs::remove_file(pin);
        }
        attached?;
        detach_clsact(&self.pins, ifindex, role, elsewhere)
    }

    /// True if the interface that had this program has ended, so that `ifindex` names another now, or none; also if somebody took the program
    /// off. False if none was attached.
    pub fn has_ended(&self, ifindex: u32, role: Role) -> bool {
        let ended = |place: &Place| {
            if let Ok(link) = sys::open_pinned(&self.link_pin(ifindex, role, *place)) {
                return Some(sys::link_ifindex(link.as_fd()).is_ok_and(|on| on == 0));
            }
            let program = sys::open_pinned(&self.filter_pin(ifindex, role, *place)).ok()?;
            // No filter, or no clsact: these end with an interface.
            let missing = [libbpf_rs::ErrorKind::NotFound, libbpf_rs::ErrorKind::InvalidInput];
            let there = quietly(|| clsact(program.as_fd(), role, ifindex, *place).query());
            Some(there.is_err_and(|e| missing.contains(&e.kind())))
        };
        // An agent that is killed while it changes the place leaves a pin at each, and one filter.
        let places: Vec<bool> = PLACES.iter().filter_map(ended).collect();
        !places.is_empty() && places.iter().all(|ended| *ended)
    }

    /// Is a program of this role on the interface that had that number when it was attached?
    pub fn is_attached(&self, ifindex: u32, role: Role) -> bool {
        let pinned = PLACES.iter().any(|place| {
            self.link_pin(ifindex, role, *place).exists() || self.filter_pin(ifindex, role, *place).exists()
        });
        pinned && !self.has_ended(ifindex, role)
    }

    /// Where a program goes, and where else it may be. The limit of what a guest gets is in front, whatever is configured: behind a program that
    /// ends the chain, as some networks have one there, it would never see a segment, and its law would do nothing.
    fn places(&self, role: Role) -> (Place, Place) {
        match (role, self.place) {
            (Role::LimitPort | Role::LimitInside, _) | (_, Place::First) => (Place::First, Place::Last),
            (_, Place::Last) => (Place::Last, Place::First),
        }
    }

    /// Takes the program off an interface, however it is attached. Fine if none is there.
    ///
    /// # Errors
    /// A pin that cannot be removed.
    pub fn detach(&self, ifindex: u32, role: Role) -> Result<()> {
        detach(&self.pins, ifindex, role)
    }

    /// All attachments, this agent's and earlier ones', sorted.
    pub fn attachments(&self) -> Vec<(u32, Role)> {
        attachments(&self.pins)
    }

    fn link_pin(&self, ifindex: u32, role: Role, place: Place) -> PathBuf {
        link_pin(&self.pins, ifindex, role, place)
    }

    fn filter_pin(&self, ifindex: u32, role: Role, place: Place) -> PathBuf {
        filter_pin(&self.pins, ifindex, role, place)
    }
}

/// What programs of the edge below `pins` are attached to, by ifindex, as its pins say; sorted. No program is loaded for that.
pub fn attachments(pins: &Path) -> Vec<(u32, Role)> {
    let mut found: Vec<(u32, Role)> = ["links", "filters"]
        .iter()
        .flat_map(|dir| entries(&pins.join(dir)))
        .filter_map(|path| {
            let (tag, ifindex) = path.file_name()?.to_str()?.split_once('-')?;
            let role = Role::ALL.into_iter().find(|role| role.tag() == tag)?;
            let ifindex = ifindex.strip_suffix(mark(Place::First)).unwrap_or(ifindex);
            Some((ifindex.parse().ok()?, role))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Without an edge that is loaded, too: [`KernelEdge::detach`].
pub(super) fn detach(pins: &Path, ifindex: u32, role: Role) -> Result<()> {
    for place in PLACES {
        detach_tcx(pins, ifindex, role, place)?;
        detach_clsact(pins, ifindex, role, place)?;
    }
    Ok(())
}

fn detach_tcx(pins: &Path, ifindex: u32, role: Role, place: Place) -> Result<()> {
    let pin = link_pin(pins, ifindex, role, place);
    let Ok(link) = sys::open_pinned(&pin) else { return Ok(()) };
    let _ = sys::link_detach(link.as_fd()); // fails if the interface is gone
    fs::remove_file(&pin).map_err(|e| Error::Io("remove", pin, e))
}

fn detach_clsact(pins: &Path, ifindex: u32, role: Role, place: Place) -> Result<()> {
    let pin = filter_pin(pins, ifindex, role, place);
    if !pin.exists() {
        return Ok(());
    }
    let program = sys::open_pinned(&pin).map_err(|e| Error::Io("open", pin.clone(), e))?;
    let _ = quietly(|| clsact(program.as_fd(), role, ifindex, place).detach()); // fails if the interface is gone
    fs::remove_file(&pin).map_err(|e| Error::Io("remove", pin, e))
}

pub(super) fn link_pin(pins: &Path, ifindex: u32, role: Role, place: Place) -> PathBuf {
    pins.join("links").join(format!("{}-{ifindex}{}", role.tag(), mark(place)))
}

fn filter_pin(pins: &Path, ifindex: u32, role: Role, place: Place) -> PathBuf {
    pins.join("filters").join(format!("{}-{ifindex}{}", role.tag(), mark(place)))
}

/// Ends the name of a pin that is to take another's place.
pub(super) const NEW: &str = "-new";

/// Removes what an agent left that was killed in [`pin_anew`].
pub(super) fn remove_unfinished(filters: &Path) {
    for path in super::pins::entries(filters) {
        if path.as_os_str().as_encoded_bytes().ends_with(NEW.as_bytes()) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Pins a program in place of one that may be pinned there, with no moment without.
pub(super) fn pin_anew(program: BorrowedFd<'_>, pin: &Path) -> Result<()> {
    let mut new = pin.as_os_str().to_owned();
    new.push(NEW);
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::Io("remove", new, e)),
        _ => {}
    }
    sys::pin(program, &new).map_err(|e| Error::Io("pin", new.clone(), e))?;
    fs::rename(&new, pin).map_err(|e| Error::Io("pin", pin.into(), e))
}

fn clsact(program: BorrowedFd<'_>, role: Role, ifindex: u32, place: Place) -> libbpf_rs::TcHook {
    let priority = match (role, place) {
        (Role::LimitGuest, _) => CLSACT_LIMIT,
        (_, Place::First) => CLSACT_FIRST,
        (_, Place::Last) => CLSACT_LAST,
    };
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(ifindex as i32).replace(true).handle(CLSACT_HANDLE).priority(priority);
    builder.hook(if role.on_egress() { TC_EGRESS } else { TC_INGRESS })
}

/// Without libbpf's own messages on standard error.
fn quietly<T>(f: impl FnOnce() -> T) -> T {
    let before = libbpf_rs::set_print(None);
    let result = f();
    libbpf_rs::set_print(before);
    result
}
