//! Which segments of a class go first (`datapath/sparse.h`).

use crate::native::{self, SparseAll, SparseFlow, SPARSE_FLOWS};
use units::{BitRate, Time};

/// The flows of one class.
#[derive(Debug)]
pub(super) struct Sparse {
    /// Bytes per second.
    rate: u64,
    all: SparseAll,
    /// By their hash.
    flows: Box<[SparseFlow; SPARSE_FLOWS]>,
}

impl Sparse {
    pub(super) fn new(guarantee: BitRate) -> Sparse {
        let rate = (guarantee.as_bps() / 8).max(1);
        Sparse { rate, all: SparseAll::default(), flows: Box::new([SparseFlow::default(); SPARSE_FLOWS]) }
    }

    /// `waits`: bytes in the queue, and those that have left before their time.
    pub(super) fn goes_first(&mut self, segment: &wire::Packet, waits: (u64, u64), bytes: u64, now: Time) -> bool {
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let hash = native::hash(&segment.flow_key(), 0);
        let waits = (small(waits.0), small(waits.1));
        native::goes_first(&mut self.all, &mut self.flows, hash, self.rate, waits, small(bytes), now.as_ns())
    }

    /// Flows that sent through the queue lately.
    pub(super) fn bulk_flows(&self) -> u16 {
        u16::try_from(native::bulk_flows(&self.all)).unwrap_or(u16::MAX)
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn first_bytes(&self) -> u64 {
        self.all.first
    }
}
