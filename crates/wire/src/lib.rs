//! Frames and the edge's view of them: the safe face of `datapath/packet.h` and `datapath/parse.h`.
//!
//! [`Packet`] is a small `Copy` struct of headers and metadata. Simulated packets contain one and are never parsed;
//! real frames go through [`parse`] and afterwards [`write_back`]. [`emit`] builds a frame from a packet, for captures
//! of modelled traffic and for tests. No input makes this crate panic.

mod address;
pub mod checksum;
pub mod dropped;
mod emit;
pub mod encap;
pub mod feedback;
mod flow;
mod frame;
pub mod hidden;
pub mod notification;
mod packet;
pub mod telemetry;

pub use address::{address, words};
pub use emit::{emit, emit_snapped, EmitError, TcpOptions};
pub use flow::FlowKey;
pub use frame::{parse, set_later_timestamp, timestamp, write_back, write_back_resized, ParseError};
pub use packet::{dirty, ecn, pack, proto, reserved, tcp, v4, version, Packet, SIGNED};
