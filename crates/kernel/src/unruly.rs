//! Hosts of a lab that ignore their receive window (`datapath/kernel/unruly.bpf.c`), for trials of policing.

use libbpf_rs::Object;
#[cfg(unruly_object)]
use libbpf_rs::ObjectBuilder;
use std::os::fd::{AsFd, OwnedFd};

#[cfg(unruly_object)]
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/unruly.bpf.o"));

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("hosts that ignore their window are not in this program: {0}")]
    Unavailable(&'static str),
    #[error("cannot {0}: {1}")]
    Bpf(&'static str, libbpf_rs::Error),
    #[error("cannot make a host ignore its window: {0}")]
    Attach(std::io::Error),
}

/// Hosts are unruly until this is dropped.
#[derive(Debug)]
pub struct Unruly {
    links: Vec<OwnedFd>,
    object: Object,
}

impl Unruly {
    /// Loads the program. Nobody is unruly yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the build lacks it; else what the kernel refuses (CAP_BPF, CAP_NET_ADMIN).
    #[cfg(unruly_object)]
    pub fn load() -> Result<Unruly, Error> {
        let open = ObjectBuilder::default().open_memory(OBJECT).map_err(|e| Error::Bpf("read the program", e))?;
        let object = open.load().map_err(|e| Error::Bpf("load the program into the kernel", e))?;
        Ok(Unruly { links: Vec::new(), object })
    }

    /// As this build lacks the program, always an error.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    #[cfg(not(unruly_object))]
    pub fn load() -> Result<Unruly, Error> {
        Err(Error::Unavailable(option_env!("SELVEDGE_NO_UNRULY").unwrap_or("the build left it out")))
    }

    /// What leaves by `interface`, of the calling thread's network namespace, ignores the windows that it is offered.
    ///
    /// # Errors
    /// [`Error::Attach`]: EINVAL before Linux 6.6.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        for program in self.object.progs() {
            let attach =
                || crate::sys::link_tcx(program.as_fd(), crate::ifindex(interface)?, false, crate::sys::Order::Last);
            self.links.push(attach().map_err(Error::Attach)?);
        }
        Ok(())
    }
}
