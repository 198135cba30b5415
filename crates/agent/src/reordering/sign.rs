//! The thread's sign of life in the data path's map.

use kernel::state::{Plain, ReorderAlive};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io::Read;

/// Where the thread writes that it is alive.
#[derive(Debug)]
pub(super) struct Sign {
    pub(super) map: MapHandle,
    pub(super) secret: u64,
}

impl Sign {
    /// `alive` in ns, CLOCK_MONOTONIC; 0: no more.
    pub(super) fn write(&self, alive: u64) -> Result<(), kernel::Error> {
        let row = ReorderAlive { alive, secret: self.secret };
        let done = self.map.update(0u32.as_bytes(), row.as_bytes(), MapFlags::ANY);
        done.map_err(|e| kernel::Error::Bpf("update a map", e))
    }
}

/// Never 0, which stands for no thread.
pub(super) fn secret() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}
