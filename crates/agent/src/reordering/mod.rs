//! Presto's receiver in the kernel edge: the thread that holds segments which arrive before an earlier flowcell is complete.
//!
//! A kernel program cannot hold packets. `selvedge_uplink` follows each flow's order (`datapath/divert.h`), and diverts a
//! flow that is out of order to a TAP device of this thread. [`edge::diverted`] holds what must wait and gives everything
//! back in order; `selvedge_drain` at the device's ingress hands it to the guest.
//!
//! The thread says in a map that it is alive. If the thread ends, its device ends with it, and nothing is diverted any more. If it
//! hangs, its sign of life is old after a tenth of a second, with the same effect. Nothing of it outlives the process.

mod backlog;
mod frame;
mod sign;
mod work;

use agent_api::lacking::TUN;
use edge::reorder;
use kernel::{self, KernelEdge, Role};
use nix::sys::eventfd::{EfdFlags, EventFd};
use port::{Offload, Tap};
use sign::{secret, Sign};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::Bytes;
pub use work::Stats;
use work::{Worker, BATCH, FRAMES};

/// The thread's device, one in each network namespace.
pub const NAME: &str = "svhold0";

/// Frames that the engine may hold: all but what one reading brings.
const HELD: usize = FRAMES as usize - 2 * BATCH;
/// Held of one flow: what 10 Gbit/s bring in more than 5 ms.
const FLOW: Bytes = Bytes::kib(8 * 1024);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error("{}", TUN.missing)]
    NoTun,
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// The thread's handle: dropping it ends the thread, after everything that it holds has been given back.
#[derive(Debug)]
pub struct ReorderThread {
    ifindex: u32,
    settings: reorder::Config,
    stop: Arc<EventFd>,
    stats: Arc<Mutex<Stats>>,
    thread: Option<JoinHandle<()>>,
}

/// The engine's settings in the kernel edge.
pub fn settings(timeout: reorder::Timeout) -> reorder::Config {
    reorder::Config { timeout, flow_bytes: FLOW, total_slots: HELD, ..reorder::Config::default() }
}

impl ReorderThread {
    /// Makes the device in the calling thread's network namespace and starts the thread. From then on flows are diverted, if
    /// [`CONFIG_REORDER`](kernel::state::CONFIG_REORDER) is set.
    ///
    /// # Errors
    /// EBUSY if another agent of this namespace has the device; [`Error::NoTun`], or EACCES for /dev/net/tun; what the kernel refuses.
    pub fn start(edge: &KernelEdge, settings: reorder::Config) -> Result<ReorderThread, Error> {
        let tap = Tap::open(NAME, Offload::Decapsulated).map_err(|e| match e.raw_os_error() {
            // Without a file, and with one behind which there is no driver.
            Some(nix::libc::ENOENT | nix::libc::ENODEV | nix::libc::ENXIO) => Error::NoTun,
            _ => Error::System("make the device svhold0", e),
        })?;
        let ifindex = kernel::ifindex(NAME).map_err(|e| Error::System("find the device svhold0", e))?;
        // What is written before the program stands there would come up the host's stack.
        edge.attach(ifindex, Role::Drain)?;
        kernel::gro::up(NAME).map_err(|e| Error::System("set the device svhold0 up", e))?;
        let sign =
            Sign { map: edge.receiver_map()?, secret: secret().map_err(|e| Error::System("read /dev/urandom", e))? };
        sign.write(0)?;
        edge.set_receiver_device(ifindex)?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let stop = Arc::new(stop.map_err(|e| Error::System("make an event", e.into()))?);
        let stats = Arc::new(Mutex::new(Stats::default()));
        let worker = Worker::new(tap, sign, settings, Arc::clone(&stop), Arc::clone(&stats));
        let thread = std::thread::Builder::new().name("selvedge-hold".into()).spawn(move || worker.run());
        let thread = thread.map_err(|e| Error::System("start a thread", e))?;
        Ok(ReorderThread { ifindex, settings, stop, stats, thread: Some(thread) })
    }

    /// Of the device, at which [`Role::Drain`] is attached.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    pub fn settings(&self) -> &reorder::Config {
        &self.settings
    }

    pub fn stats(&self) -> Stats {
        self.stats.lock().map(|stats| *stats).unwrap_or_default()
    }

    /// False if the thread ended by itself: its device is gone, and another one has to be started.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for ReorderThread {
    fn drop(&mut self) {
        let _ = self.stop.write(1); // a counter: it cannot be full
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
