//! One end of a connection: the handshake, and the two halves tied together.

use crate::tcp::{Config, Receiver, Segment, Sender};
use std::sync::Arc;
use units::Time;

/// Connection state. Closing is told by the halves: `tx.fin_acked()`, `rx.finished()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for a SYN.
    Listen,
    SynSent,
    SynReceived,
    Established,
    /// Reset by the peer, or given up.
    Closed,
}

/// One end of a connection. See the [module](crate::tcp) for the order of calls.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub tx: Sender,
    pub rx: Receiver,
}

impl Endpoint {
    /// A client: its SYN is ready in [`Endpoint::poll_transmit`]. `iss` is the initial sequence number.
    pub fn connect(_config: Arc<Config>, _iss: u32) -> Endpoint {
        todo!()
    }
    /// A server waiting for one SYN.
    pub fn listen(_config: Arc<Config>, _iss: u32) -> Endpoint {
        todo!()
    }
    /// An end of a connection whose handshake is taken as done, with what both would have negotiated.
    ///
    /// `requester` says which end asked for ECN: true for the client. No RTT sample has been taken.
    pub fn established(_config: Arc<Config>, _peer: &Config, _iss: u32, _peer_iss: u32, _requester: bool) -> Endpoint {
        todo!()
    }

    /// Takes a segment from the network, after GRO.
    pub fn on_segment(&mut self, _now: Time, _segment: &Segment) {
        todo!()
    }
    /// The next segment to send, or `None` when nothing may be sent now. Carries at most `budget` bytes of payload
    /// (whole packets, unless the data ends); pure ACKs need no budget.
    pub fn poll_transmit(&mut self, _now: Time, _budget: u64) -> Option<Segment> {
        todo!()
    }
    /// When [`Endpoint::handle_timeout`] is due; it may be called early, or late.
    pub fn poll_timeout(&self) -> Option<Time> {
        todo!()
    }
    pub fn handle_timeout(&mut self, _now: Time) {
        todo!()
    }
    /// The application appends `bytes` to its stream. Ignored after [`Endpoint::close`].
    pub fn write(&mut self, _bytes: u64) {
        todo!()
    }
    /// The application takes up to `bytes` that arrived in order; returns how many. Not needed with `auto_read`.
    pub fn read(&mut self, _bytes: u64) -> u64 {
        todo!()
    }
    /// Sends a FIN after everything written.
    pub fn close(&mut self) {
        todo!()
    }
    /// The NIC has put `bytes` of this endpoint's payload on the wire (TCP small queues).
    pub fn on_nic_tx_done(&mut self, _bytes: u64) {
        todo!()
    }
    pub fn state(&self) -> State {
        todo!()
    }
    /// Everything written, and the FIN if there was one, has been acknowledged.
    pub fn is_drained(&self) -> bool {
        todo!()
    }
    /// ECN was negotiated.
    pub fn ecn_enabled(&self) -> bool {
        todo!()
    }
}
