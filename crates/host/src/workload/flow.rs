//! One flow of a workload.

use units::{BitRate, Time};

/// One flow: bytes from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    pub start: Time,
    pub src: u32,
    pub dst: u32,
    /// Bytes of application data, at least 1; `None` for a flow that runs until the end.
    pub size: Option<u64>,
    /// Index of the workload.
    pub class: u16,
    /// The flow is complete when its sender has an application-level acknowledgement, instead of when its receiver has
    /// the last byte.
    pub reply: bool,
    /// The flow answers a request of so many bytes, which `dst` sends to `src` first, on the flow's connection. Only for fresh ones.
    pub request: Option<u64>,
    pub connection: Connection,
    /// The source's own, to be handed back to [`Source::on_complete`](super::Source::on_complete) unchanged.
    pub tag: u32,
}

/// Bytes of an application-level acknowledgement.
pub const REPLY_BYTES: u64 = 64;

impl FlowSpec {
    /// Who opens the connection, and who waits for that.
    pub(crate) fn ends(&self) -> [u32; 2] {
        match self.request {
            Some(_) => [self.dst, self.src],
            None => [self.src, self.dst],
        }
    }
    /// What the end that opens the connection writes first; `None`: without end.
    pub(crate) fn first_bytes(&self) -> Option<u64> {
        self.request.or(self.size)
    }
    /// Has the other end something to say when it has that?
    pub(crate) fn is_replied(&self) -> bool {
        self.reply || self.request.is_some()
    }
    /// How much that is.
    pub(crate) fn reply_bytes(&self) -> u64 {
        match self.request {
            Some(_) => self.size.unwrap_or_default(),
            None => REPLY_BYTES,
        }
    }
}

/// Which connection carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Connection {
    /// A new one per flow; its handshake is part of the completion time.
    #[default]
    Fresh,
    /// One per (workload, source, destination), opened by the first flow and kept; its congestion window carries over.
    Persistent,
}

/// Datagrams as large as the MTU allows, sent at a constant rate, without answer. Only for flows without a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// Of payload. What the host's queues have no room for is not sent.
    pub rate: BitRate,
}
