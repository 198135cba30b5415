//! Presto's receiver in the kernel edge: the thread that holds what overtook an earlier flowcell.
//!
//! A kernel program cannot hold packets. `selvedge_uplink` follows each flow's order (`datapath/divert.h`), and diverts a
//! flow that is out of order to a TAP device of this thread. [`edge::diverted`] holds what must wait and gives everything
//! back in order; `selvedge_drain` at the device's ingress hands it to the guest.
//!
//! The thread says in a map that it is alive. If it ends, its device ends with it, and nothing is diverted any more; if it
//! hangs, its word is old after a tenth of a second, with the same effect. Nothing of it outlives the process.

mod backlog;
mod frame;
mod work;

use edge::reorder;
use kernel::state::{Plain, Receiver as Row};
use kernel::{self, KernelEdge, Role};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::eventfd::{EfdFlags, EventFd};
use port::{Offload, Tap};
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::Bytes;

/// The thread's device, one in each network namespace.
pub const NAME: &str = "svhold0";

/// Frames held or under way at once: of 64 KB each at most, in memory that is used only then.
const FRAMES: u32 = 1024;
/// Of these the engine may hold all but what one reading brings.
const HELD: usize = FRAMES as usize - 2 * work::BATCH;
/// Held of one flow: what 10 Gbit/s bring in more than 5 ms.
const FLOW: Bytes = Bytes::kib(8 * 1024);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// What the thread has done since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub reorder: reorder::Counters,
    /// Flows that it knows now.
    pub flows: usize,
    /// Frames that could not be given back, or were no diverted frames.
    pub lost: u64,
}

/// The thread's handle: dropping it ends the thread, after everything that it holds has been given back.
#[derive(Debug)]
pub struct Receiver {
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

impl Receiver {
    /// Makes the device in the calling thread's network namespace and starts the thread. From then on flows are diverted, if
    /// [`CONFIG_REORDER`](kernel::state::CONFIG_REORDER) is set.
    ///
    /// # Errors
    /// EBUSY if another agent of this namespace has the device; ENOENT or EACCES for /dev/net/tun; what the kernel refuses.
    pub fn start(edge: &KernelEdge, settings: reorder::Config) -> Result<Receiver, Error> {
        let tap = Tap::open(NAME, Offload::Decapsulated).map_err(|e| Error::System("make the device svhold0", e))?;
        let ifindex = kernel::ifindex(NAME).map_err(|e| Error::System("find the device svhold0", e))?;
        // What is written before the program stands there would come up the host's stack.
        edge.attach(ifindex, Role::Drain)?;
        kernel::gro::up(NAME).map_err(|e| Error::System("set the device svhold0 up", e))?;
        let sign = Sign { map: edge.receiver_map()?, secret: secret()? };
        sign.write(0)?;
        edge.set_receiver_device(ifindex)?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let stop = Arc::new(stop.map_err(|e| Error::System("make an event", e.into()))?);
        let stats = Arc::new(Mutex::new(Stats::default()));
        let worker = work::Worker::new(tap, sign, settings, Arc::clone(&stop), Arc::clone(&stats));
        let thread = std::thread::Builder::new().name("selvedge-hold".into()).spawn(move || worker.run());
        let thread = thread.map_err(|e| Error::System("start a thread", e))?;
        Ok(Receiver { ifindex, settings, stop, stats, thread: Some(thread) })
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

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.stop.write(1); // a counter: it cannot be full
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's word that it is alive.
#[derive(Debug)]
struct Sign {
    map: MapHandle,
    secret: u64,
}

impl Sign {
    /// `alive` in ns, CLOCK_MONOTONIC; 0: no more.
    fn write(&self, alive: u64) -> Result<(), kernel::Error> {
        let row = Row { alive, secret: self.secret };
        let done = self.map.update(0u32.as_bytes(), row.as_bytes(), MapFlags::ANY);
        done.map_err(|e| kernel::Error::Bpf("update a map", e))
    }
}

/// Never 0, which stands for no thread.
fn secret() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::System("read /dev/urandom", e))?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}
