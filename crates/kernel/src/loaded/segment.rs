//! A frame in BPF_PROG_TEST_RUN: what the kernel is told about it, and what a program has made of it.

use std::time::Duration;

/// The outcome of one [`super::KernelEdge::test_run_timed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// TC_ACT_*.
    pub verdict: u32,
    /// As the program left it.
    pub frame: Vec<u8>,
    /// The frame's `skb->mark` and `skb->priority`, as the program left them.
    pub mark: u32,
    pub priority: u32,
    pub duration: Duration,
}

/// What [`super::KernelEdge::test_run_segment`] tells the kernel about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The interface it arrived on.
    pub ifindex: u32,
    /// Payload bytes per packet; 0: the frame is one packet.
    pub gso_size: u16,
    /// Packets in it; 0: the frame is one packet.
    pub gso_segs: u32,
    /// With which it arrived. Nothing that a guest sends has one.
    pub mark: u32,
}

/// Places in `struct __sk_buff`.
pub(super) const MARK: usize = 8;
pub(super) const PRIORITY: usize = 32;

pub(super) fn word_of(context: &[u8; 192], at: usize) -> u32 {
    context[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// `struct __sk_buff` with what may be set of it.
pub(super) fn context_of(segment: Segment) -> [u8; 192] {
    const IFINDEX: usize = 40;
    const GSO_SEGS: usize = 164;
    const GSO_SIZE: usize = 176;
    let mut context = [0u8; 192];
    let set = [
        (MARK, segment.mark),
        (IFINDEX, segment.ifindex),
        (GSO_SEGS, segment.gso_segs),
        (GSO_SIZE, u32::from(segment.gso_size)),
    ];
    for (at, value) in set {
        context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    context
}
