//! One host of the lab: its port, edge and NIC, and what they have counted since the lab began.

use super::limit::Queues;
use super::merge::Part;
use edge::Edge;
use fabric::Packet;
use host::nic::Rx;
use port::{FrameId, Port};
use rustc_hash::FxHashMap;

/// One host as the lab sees it: the port to its kernel, its edge, and the receiving side of its NIC.
pub(crate) struct Host {
    pub(crate) port: Box<dyn Port>,
    pub(crate) edge: Edge,
    /// Its rate limiter, if it has one.
    pub(crate) queues: Option<Queues>,
    /// Nothing is read from it until its uplink has sent more.
    pub(crate) waiting: bool,
    pub(crate) rx: Rx<Part>,
    /// What its edge holds until the guest's rate lets it leave.
    pub(crate) held: FxHashMap<FrameId, Packet>,
    /// What its edge may send again, as it came from the guest.
    pub(crate) kept: FxHashMap<FrameId, Packet>,
    pub(crate) counters: Counters,
}

/// Since the lab began.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Segments read from the host's kernel, and the packets that they made.
    pub tx_segments: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// Packets that reached the host's NIC, and the segments handed to its kernel.
    pub rx_packets: u64,
    pub rx_segments: u64,
    /// Payload bytes of these segments.
    pub rx_bytes: u64,
    /// Packets lost on a full receive ring.
    pub rx_ring_drops: u64,
    /// Segments that the host's kernel did not take.
    pub rx_refused: u64,
    /// Frames to no host of the lab, such as multicast, and such that are not IP.
    pub ignored: u64,
    /// Frames whose headers contradict each other.
    pub malformed: u64,
}

impl Host {
    pub(crate) fn new(port: Box<dyn Port>, edge: Edge, queues: Option<Queues>) -> Host {
        Host {
            port,
            edge,
            queues,
            waiting: false,
            rx: Rx::default(),
            held: FxHashMap::default(),
            kept: FxHashMap::default(),
            counters: Counters::default(),
        }
    }
}
