//! TCP of Linux guests, modelled from the RFCs.
//!
//! Read first: RFC 9293 (TCP), 5681 (congestion control), 6298 (timer), 6675 (SACK recovery), 6582 (NewReno), 8985
//! (RACK-TLP), 6937 (PRR), 7323 (window scaling, timestamps), 3168 (ECN), 8257 (DCTCP), 9438 (CUBIC).
//!
//! Payload bytes do not exist: an [`Endpoint`] exchanges [`Segment`]s, plain structs, and counts. It performs no I/O and
//! reads no clock. It shares no code with `datapath/`, so that a comparison of the two compares independent
//! implementations.
//!
//! Left out: F-RTO (RFC 5682), early retransmit (RFC 5827), receive window autotuning, PAWS, accurate ECN,
//! simultaneous open, TIME-WAIT, and giving up. [`crate::mptcp`] ties several connections into one. A law or option differs from Linux only where its documentation says.
//!
//! # Calling contract
//! After any call that changes an endpoint ([`Endpoint::on_segment`], [`Endpoint::handle_timeout`],
//! [`Endpoint::write`], [`Endpoint::read`], [`Endpoint::close`], [`Endpoint::on_nic_tx_done`]) drain
//! [`Endpoint::poll_transmit`] until `None`, then read [`Endpoint::poll_timeout`]: it replaces the deadline read
//! before. ACKs come out of `poll_transmit` like everything else. Drain after every single received segment, or
//! several ACKs become one, as with a real stack that is late.

mod algorithm;
pub mod cc;
mod config;
mod dropped;
mod ecn;
mod endpoint;
pub mod fastlane;
mod options;
pub mod pfabric;
mod probes;
mod quench;
mod rack;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod timer;
mod transmit;

pub use config::{Config, EcnMode, Recovery};
pub use endpoint::{Endpoint, State};
pub use receiver::{Receiver, ReceiverCounters};
pub use segment::{codepoint, flags, Segment};
pub use sender::{CaState, Sender, SenderCounters};

#[cfg(test)]
mod tests;
