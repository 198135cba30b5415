//! Captures: the first packets that cross one direction of a link.

use crate::packet::Packet;
use crate::port::PortId;
use units::Time;

/// A packet that crossed a link.
#[derive(Clone, Copy, Debug)]
pub struct Captured {
    /// When its last bit reached the far end.
    pub at: Time,
    pub packet: Packet,
}

/// Keeps the first packets that cross one direction of a link, for a packet capture.
#[derive(Clone, Debug)]
pub struct Tap {
    pub port: PortId,
    pub limit: usize,
    pub packets: Vec<Captured>,
}
