//! The program on a guest's own end of its veth pair (`datapath/kernel/inside.bpf.c`). An agent has no power to enter guests' namespaces: it
//! pins the program, and who may enter puts it there.

use super::{attach, pins, KernelEdge, Role};
#[cfg(limits_object)]
use super::{Error, Result};
use agent_api::config::Place;
#[cfg(limits_object)]
use std::os::fd::AsFd;
use std::path::PathBuf;

#[cfg(limits_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inside.bpf.o"));

/// Where it is pinned, and where the link to it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    pub program: PathBuf,
    pub link: PathBuf,
}

impl KernelEdge {
    /// The program for the guest's end of the port `ifindex`.
    pub fn inside(&self, ifindex: u32) -> Inside {
        let program = self.pins.join(pins::INSIDE);
        Inside { program, link: attach::link_pin(&self.pins, ifindex, Role::LimitInside, Place::First) }
    }

    /// Pins the program, unless an agent has done so. It has no maps and knows of no version.
    #[cfg(limits_object)]
    pub(super) fn keep_inside(&self) -> Result<()> {
        let pin = self.pins.join(pins::INSIDE);
        let failed = |e| Error::Bpf("load the program of guests' own ends", e);
        let object = libbpf_rs::ObjectBuilder::default().open_memory(OBJECT).map_err(failed)?.load().map_err(failed)?;
        let name = Role::LimitInside.program(false);
        let program = object.progs().find(|program| program.name() == name).ok_or(Error::Missing(name))?;
        attach::pin_anew(program.as_fd(), &pin)
    }
}
