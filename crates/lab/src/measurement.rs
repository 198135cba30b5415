//! What is kept of the measured part of a lab run, and what comes of it in the records that simulations yield.

use super::host::Counters;
use crate::lateness::Lateness;
use fabric::{NotifyStats, PortStats};
use host::outcome::{HostRecord, PortRecord};
use units::Time;

/// Series of the current measurement.
#[derive(Debug, Default)]
pub(super) struct Measure {
    pub(super) begun: Time,
    pub(super) every: Time,
    pub(super) generation: u32,
    pub(super) first: bool,
    pub(super) queue: Vec<Vec<u32>>,
    pub(super) utilisation: Vec<Vec<f32>>,
    pub(super) busy_before: Vec<Time>,
    pub(super) cpu_before: Time,
    pub(super) hops_before: u64,
    pub(super) events_before: u64,
    pub(super) exhausted_before: u64,
    /// Counters at the beginning.
    pub(super) ports: Vec<PortStats>,
    pub(super) notifications: Vec<NotifyStats>,
    pub(super) hosts: Vec<Counters>,
    pub(super) edges: Vec<edge::Counters>,
}

/// A measurement that begins and ends by itself.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) every: Time,
    pub(super) done: Option<Measurement>,
}

/// Samples per port that one measurement keeps.
pub(super) const MAX_SAMPLES: usize = 1_000_000;

impl Measure {
    pub(super) fn new(ports: usize) -> Measure {
        Measure {
            queue: vec![Vec::new(); ports],
            utilisation: vec![Vec::new(); ports],
            busy_before: vec![Time::ZERO; ports],
            ..Measure::default()
        }
    }
}

/// What a measurement yields.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    pub ports: Vec<PortRecord>,
    pub hosts: Vec<HostRecord>,
    /// Packets lost on wires or for want of a route since the lab began.
    pub lost_packets: u64,
    pub packet_hops: u64,
    pub events: u64,
    pub peak_packets: usize,
    pub lateness: Lateness,
    /// Segments that hosts' kernels did not take, and times that reading from hosts stopped for want of a buffer.
    pub rx_refused: u64,
    pub frames_exhausted: u64,
    /// How long it took, and what the driver used of a core: with it, what kernels do to receive, which happens within
    /// the driver's calls.
    pub span: Time,
    pub cpu: Time,
}
