//! The receive side of a NIC: ring, poll, GRO, and the way of each segment through the host's edge.
//!
//! [`Rx`] is sans-IO. A driver tells it of packets that arrive, starts the polls that it asks for, and takes segments until
//! there are none. The modelled hosts and the lab drive the same code; [`Frames`] is what differs between them.

mod gro;
mod rx;
mod segment;
#[cfg(test)]
mod tests;

pub use rx::{Handed, Io, Poll, Polled, RingFull, Rx};
pub use segment::{Frames, Modelled, Part, Segment};
