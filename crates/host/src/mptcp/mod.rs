//! Multipath TCP (RFC 8684) as the comparisons of load balancing need it.
//!
//! One stream of data runs over several TCP connections, its subflows. Each subflow has ports, and so a path, of its own.
//!
//! [`Stream`] is one direction of such a connection at the level of data: bytes written, bytes per subflow, bytes that
//! arrived in order over all subflows. It performs no I/O and knows no TCP; `transport::subflows` ties it to a run's connections.
//!
//! Simplifications:
//!
//! - Options take no bytes, so a packet carries as much as with TCP.
//! - A data acknowledgement travels with the subflow's ACK for the bytes that caused it.
//! - A slow subflow that holds up the window is not penalised.
//! - Subflows are opened together once the first is established, and closed together.

mod stream;

use crate::tcp::cc::Algorithm;
pub(crate) use stream::Stream;

/// Guests speak MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// TCP connections of each MPTCP connection, 1 to 16.
    pub subflows: u8,
    /// Law of their windows; [`Algorithm::Lia`] and [`Algorithm::Olia`] couple them, others leave each to itself.
    pub congestion: Algorithm,
}
