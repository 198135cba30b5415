//! What the flows of one workload share, for the patterns that make them.

use super::{Connection, FlowSpec};
use sim::{Purpose, Stream};
use units::{Bytes, Time};

/// What all flows of a workload have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub class: u16,
    pub connection: Connection,
    pub reply: bool,
    pub request: Option<Bytes>,
    /// No flow starts at or after this.
    pub end: Time,
}

impl Shape {
    pub(super) fn flow(&self, start: Time, (src, dst): (u32, u32), size: Option<Bytes>, tag: u32) -> FlowSpec {
        let Shape { class, connection, reply, request, .. } = *self;
        let request = request.map(Bytes::get);
        FlowSpec { start, src, dst, size: size.map(Bytes::get), class, reply, request, connection, tag }
    }

    /// The stream of one sender of this workload.
    pub(super) fn stream(&self, seed: u64, sender: u32, purpose: Purpose) -> Stream {
        Stream::new(seed, u64::from(self.class) << 32 | u64::from(sender), purpose)
    }
}
