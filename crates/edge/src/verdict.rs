//! Types of the calling contract: direction, what is known of a segment, slot, verdict, release and added packet.

use crate::limiter::Standing;

/// The way a packet travels through the edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a guest to the fabric.
    Egress,
    /// From the fabric to a guest.
    Ingress,
}

/// What a driver knows of a segment beyond its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// How the limiter's class stands through which its flow, or the other direction of that, leaves.
    pub standing: Option<Standing>,
    /// Its TCP timestamp: for an edge that reorders, and for one that acts on notifications.
    pub stamp: Option<u32>,
}

/// The driver's name for a frame that the edge may have to hold; the driver keeps the frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Slot(pub u32);

/// A held slot that is due now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    pub dir: Direction,
    pub slot: Slot,
    /// The slot continues the segment of the slot released just before it: the driver may hand both up as one.
    pub joins_previous: bool,
}

/// A packet that the edge itself originates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// [`Direction::Egress`]: send it to the fabric; [`Direction::Ingress`]: give it to the guest. It is not to be
    /// processed.
    pub dir: Direction,
    pub packet: wire::Packet,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send it on, as changed.
    Forward,
    /// Keep the frame, as changed, until [`Edge::poll_release`](crate::Edge::poll_release) names its slot, or
    /// [`Edge::poll_departure`](crate::Edge::poll_departure) if it is a guest's.
    Hold,
    /// It was meant for the edge itself; forget it.
    Consume,
    Drop(DropReason),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The guest sent beyond the window that it was granted.
    Policed,
    /// The segment exceeds its guest's rate, or HyGenICC refused a new pair of guests.
    OverRate,
    /// FastLane has just sent the same bytes again.
    UnderWay,
    /// A guest sends under another's address, or to an edge, where an option could say anything.
    Forged,
    /// A packet to this edge has no option of the hidden overlay, or none that an edge has written.
    Malformed,
}
