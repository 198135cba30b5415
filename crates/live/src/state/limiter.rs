//! Mirrors of the map values in `datapath/kernel/limits.h`.

use super::Plain;

/// What the guest sends: the queue is on the limiter's device.
pub const LIMITER_OUT: u32 = 0;
/// What it gets: the queue is on its port.
pub const LIMITER_IN: u32 = 1;

/// `struct sv_limiter_key`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimiterKey {
    /// Of the port.
    pub ifindex: u32,
    /// `LIMITER_*`.
    pub direction: u32,
}

/// `struct sv_limiter`: one direction of a port that is limited.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limiter {
    /// The kernel's; reads as zero.
    pub lock: u32,
    /// ifindex of the device on which the class is.
    pub device: u32,
    /// Of that device's HTB: major and minor number.
    pub class: u32,
    /// [`edge::limiter::Law::to_bytes`].
    pub law: [u8; 20],
    /// The data path's own.
    pub queue: [u32; 3],
    pub pad: u32,
    /// ns without a packet after which a connection is forgotten.
    pub idle_ns: u64,
}

/// `struct sv_limiter_counts`, summed over CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterCounts {
    /// Segments marked, or ACKs that got ECE.
    pub marked: u64,
    /// ACKs with which SPRING's window shrank.
    pub cuts: u64,
    /// ACKs whose receive window was lowered.
    pub lowered: u64,
    /// Segments back to the sender that the law looked at.
    pub acks: u64,
    /// Segments for which the backlog could not be read.
    pub unread: u64,
    /// Segments without room for their connection's state.
    pub untracked: u64,
}

impl LimiterCounts {
    #[cfg(feature = "kernel")]
    pub(crate) fn add(&mut self, other: &LimiterCounts) {
        for (sum, n) in [
            (&mut self.marked, other.marked),
            (&mut self.cuts, other.cuts),
            (&mut self.lowered, other.lowered),
            (&mut self.acks, other.acks),
            (&mut self.unread, other.unread),
            (&mut self.untracked, other.untracked),
        ] {
            *sum = sum.wrapping_add(n);
        }
    }
}

plain!(LimiterKey = 8, Limiter = 56, LimiterCounts = 48);
