//! The edge: what stands between guests and the fabric, sans-IO. The safe face of `datapath/edge.h`, plus what a
//! kernel program cannot do: holding and reordering segments.
//!
//! See [`Edge`] for the calling contract.

mod config;
mod counters;
pub mod reorder;
mod verdict;

pub use config::{Balance, Config};
pub use counters::Counters;
pub use verdict::{Direction, DropReason, Release, Slot, Verdict};

use units::Time;
use wire::Packet;

/// One edge. `now` is an argument of every call and never decreases; the edge owns no bytes and no clock.
///
/// Give each segment to [`process`](Edge::process), call [`end_batch`](Edge::end_batch) when the NIC poll ends. After
/// `process`, `end_batch` or [`handle_timeout`](Edge::handle_timeout): act on the verdict, drain
/// [`poll_release`](Edge::poll_release), then [`poll_transmit`](Edge::poll_transmit), then read
/// [`poll_timeout`](Edge::poll_timeout).
#[derive(Debug)]
pub struct Edge {
    config: Config,
    counters: Counters,
}

impl Edge {
    pub fn new(config: Config) -> Edge {
        Edge { config, counters: Counters::default() }
    }

    /// The labels of the paths to one destination, in the order in which flowcells take them; at most 256.
    pub fn set_schedule(&mut self, _daddr: [u32; 4], _labels: &[u16]) {}

    /// The labels for destinations without a schedule of their own.
    pub fn set_default_schedule(&mut self, _labels: &[u16]) {}

    pub fn process(&mut self, _now: Time, _dir: Direction, _slot: Slot, _pkt: &mut Packet) -> Verdict {
        Verdict::Forward
    }

    /// The NIC poll ended.
    pub fn end_batch(&mut self, _now: Time) {}

    /// The next held slot that is due, in order.
    pub fn poll_release(&mut self, _now: Time) -> Option<Release> {
        None
    }

    /// The next packet that the edge itself originates.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Packet> {
        None
    }

    /// When [`handle_timeout`](Edge::handle_timeout) is next due; may lie in the past.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    pub fn handle_timeout(&mut self, _now: Time) {}

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
