//! One modelled host: NIC queues, receive offload, edge and cores.

use super::server::Server;
use crate::connection::{EndId, NO_CONNECTION};
use crate::datagrams::DATAGRAM;
use crate::nic::Rx;
use edge::shape::Htb;
use edge::{Edge, Slot};
use fabric::Packet;
use rustc_hash::FxHashMap;
use sim::TimerId;
use std::collections::VecDeque;
use units::Time;

/// A segment that waits in the qdisc or NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxSegment {
    pub packet: Packet,
    /// When the sending core has finished with it.
    pub ready_at: Time,
    /// When it came from the edge.
    pub queued_at: Time,
}

/// Payload that is being sent and that an endpoint waits to hear of (TCP small queues).
#[derive(Clone, Copy, Debug)]
pub(crate) struct InNic {
    pub sender: u32,
    pub bytes: u64,
}

impl InNic {
    /// Of a segment with payload of a guest.
    pub(super) fn of(segment: &Packet) -> Option<InNic> {
        if segment.headers.payload == 0 || segment.flow >= NO_CONNECTION || segment.again {
            return None;
        }
        let sender = if segment.flow >= DATAGRAM { segment.flow } else { EndId(segment.flow).peer().0 };
        Some(InNic { sender, bytes: u64::from(segment.headers.payload) })
    }
}

#[derive(Debug)]
pub(crate) struct Host {
    pub edge: Edge,
    pub edge_timer: TimerId,
    // Transmit side.
    /// Limits the rate of segments into `tx_queue`.
    pub shaper: Option<Htb<TxSegment>>,
    pub tx_queue: VecDeque<TxSegment>,
    /// What the edge holds of the guests' segments. Looked up only.
    pub held: FxHashMap<Slot, Packet>,
    /// What the edge may send again, as it came from the guest. Looked up only.
    pub kept: FxHashMap<Slot, Packet>,
    /// The latest name of a segment for the edge.
    pub last_slot: u32,
    pub nic_free_at: Time,
    pub in_nic: Option<InNic>,
    /// The earliest wake-up of the transmit side in the event queue.
    pub tx_event: Option<Time>,
    pub tx_core_free_at: Time,
    // Receive side.
    pub rx: Rx<()>,
    /// What handles packets before the receive path.
    pub server: Option<Server>,
    pub rx_core_free_at: Time,
    // Counted.
    pub tx_cpu_busy: Time,
    pub rx_cpu_busy: Time,
    pub rx_ring_drops: u64,
    pub rx_packets: u64,
    pub rx_segments: u64,
    pub rx_bytes: u64,
    /// Source ports given out.
    pub ports_used: u16,
}

impl Host {
    pub(crate) fn new(edge: Edge, edge_timer: TimerId, shaper: Option<Htb<TxSegment>>, first_port: u16) -> Host {
        Host {
            edge,
            edge_timer,
            shaper,
            tx_queue: VecDeque::new(),
            held: FxHashMap::default(),
            kept: FxHashMap::default(),
            last_slot: 0,
            nic_free_at: Time::ZERO,
            in_nic: None,
            tx_event: None,
            tx_core_free_at: Time::ZERO,
            rx: Rx::default(),
            server: None,
            rx_core_free_at: Time::ZERO,
            tx_cpu_busy: Time::ZERO,
            rx_cpu_busy: Time::ZERO,
            rx_ring_drops: 0,
            rx_packets: 0,
            rx_segments: 0,
            rx_bytes: 0,
            ports_used: first_port,
        }
    }
}
