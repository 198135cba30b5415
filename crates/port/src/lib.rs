//! Where frames of guests enter and leave: a TAP device or a packet socket.
//!
//! Both have a header before each frame that tells of segmentation and checksums left undone. So segments of up to 64 KB pass whole.
//!
//! [`set_offload`] turns a device's offloads on and off, and [`device`] says what they are. [`pinned`] puts a BPF program on a device.
//! Threads that drive ports are punctual by [`priority`].
//!
//! Frames live in a [`Pool`] of bounded size; whoever drives a port knows them by their [`FrameId`].

pub mod device;
mod offload;
mod packet;
pub mod pinned;
mod pool;
pub mod priority;
mod tap;
mod vnet;

pub use offload::{set_offload, Switch};
pub use packet::PacketSocket;
pub use pool::{FrameId, Pool};
pub use tap::{Offload, Tap};
pub use vnet::{gso, VnetHeader};

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// A device that frames are read from and written to. Neither blocks.
pub trait Port: Send {
    /// Reads at most `most` waiting frames into `pool` and appends their names to `frames`. Fewer, possibly none, if
    /// no more wait or the pool is full; in that case frames stay with the kernel.
    ///
    /// # Errors
    /// What the kernel answers, such as ENETDOWN while the interface is down. Frames already read stay appended.
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<FrameId>, most: usize) -> io::Result<usize>;

    /// Writes one frame, given as its parts in order. False if the kernel has no room now, and the frame is lost, as
    /// on a full ring.
    ///
    /// # Errors
    /// What the kernel answers, such as EINVAL for a header that contradicts the frame.
    fn send(&mut self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> io::Result<bool>;

    /// To wait on.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// Did a call on a descriptor that never blocks find nothing to do?
fn would_block(error: nix::errno::Errno) -> bool {
    use nix::errno::Errno;
    // ENOBUFS: the kernel is short of memory for this frame, which is as if the ring were full.
    matches!(error, Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS)
}

/// The most parts of one frame: the kernel takes 1024 vectors.
const MAX_PARTS: usize = 1000;

/// `header` and `parts` as one list for writev.
fn gather<'a>(header: &'a [u8], parts: &'a [IoSlice<'a>]) -> io::Result<Vec<IoSlice<'a>>> {
    if parts.len() > MAX_PARTS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.push(IoSlice::new(header));
    all.extend_from_slice(parts);
    Ok(all)
}
