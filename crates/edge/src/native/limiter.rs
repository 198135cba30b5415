//! Mirrors of `datapath/limiter.h` and `datapath/delay.h`.

use std::ffi::c_int;

/// `SV_LIMIT_*`
pub(crate) const LIMIT_NONE: u8 = 0;
pub(crate) const LIMIT_ECN: u8 = 1;
pub(crate) const LIMIT_DEM: u8 = 2;
pub(crate) const LIMIT_SPRING: u8 = 3;

/// `SV_LIMIT_FIRST`, `SV_LIMIT_HOLD`
pub(crate) const LIMIT_GOES_FIRST: u8 = 1;
pub(crate) const LIMIT_HOLD: u8 = 2;

/// `SV_LIMIT_ONE`: 1.0 of alpha and beta.
pub(crate) const LIMIT_ONE: u16 = 1024;

/// `struct sv_limit`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Limit {
    pub(crate) backlog: u32,
    pub(crate) k1: u32,
    pub(crate) k2: u32,
    pub(crate) alpha: u16,
    pub(crate) beta: u16,
    pub(crate) law: u8,
    pub(crate) flags: u8,
    pub(crate) flows: u16,
    pub(crate) rate: u32,
}
const _: () = assert!(size_of::<Limit>() == 24);

/// `struct sv_limit_queue`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LimitQueue {
    pub(crate) prev: u32,
    pub(crate) gradient: i32,
    pub(crate) begun: u32,
}
const _: () = assert!(size_of::<LimitQueue>() == 12);

/// `SV_SPARSE_FLOWS`
pub(crate) const SPARSE_FLOWS: usize = 512;

/// `struct sv_sparse_flow`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SparseFlow {
    pub(crate) at: u64,
    pub(crate) level: u32,
    pub(crate) waits_us: u32,
    pub(crate) place: u32,
    pub(crate) tag: u16,
    pub(crate) flags: u8,
    pub(crate) epoch: u8,
}
const _: () = assert!(size_of::<SparseFlow>() == 24);

/// `struct sv_sparse`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SparseAll {
    pub(crate) begun: u64,
    pub(crate) at: u64,
    pub(crate) first: u64,
    pub(crate) level: u32,
    pub(crate) bulk: u32,
    /// Before and now.
    pub(crate) all: [u16; 2],
    pub(crate) in_bulk: [u16; 2],
    pub(crate) epoch: u8,
    pub(crate) pad: [u8; 7],
}
const _: () = assert!(size_of::<SparseAll>() == 48);

/// Buckets of a histogram; the last one has no bound.
pub const BUCKETS: usize = 15;

/// How many segments waited for how long; `counts` is by bucket. `struct sv_delays`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    pub sum_us: u64,
    pub counts: [u64; BUCKETS],
}
const _: () = assert!(size_of::<Delays>() == 128);

extern "C" {
    fn sv_edge_goes_first(
        s: *mut SparseAll,
        flows: *mut SparseFlow,
        hash: u32,
        rate: u64,
        queued: u32,
        unpaid: u32,
        bytes: u32,
        now: u64,
    ) -> c_int;
    fn sv_edge_bulk_flows(s: *const SparseAll) -> u32;
    fn sv_edge_limit_widen(l: *mut Limit, rate: u64);
    pub(crate) fn sv_edge_delay_count(d: *mut Delays, ns: u64);
}

/// `sv_sparse_goes_first` for a segment of `bytes` whose flow has this hash. `rate`: bytes per second; `now`: ns.
pub(crate) fn goes_first(
    all: &mut SparseAll,
    flows: &mut [SparseFlow; SPARSE_FLOWS],
    hash: u32,
    rate: u64,
    (queued, unpaid): (u32, u32),
    bytes: u32,
    now: u64,
) -> bool {
    // SAFETY: the mirrors assert the layouts, there are as many flows as the hash is taken for, and nothing is kept.
    unsafe { sv_edge_goes_first(all, flows.as_mut_ptr(), hash, rate, queued, unpaid, bytes, now) != 0 }
}

/// `sv_limit_widen`; `rate` in bytes per second.
pub(crate) fn widen(limit: &mut Limit, rate: u64) {
    // SAFETY: changes one struct, whose mirror asserts the layout.
    unsafe { sv_edge_limit_widen(limit, rate) }
}

/// Flows that sent through the queue lately.
pub(crate) fn bulk_flows(all: &SparseAll) -> u32 {
    // SAFETY: reads one state, whose mirror asserts the layout.
    unsafe { sv_edge_bulk_flows(all) }
}

#[cfg(test)]
extern "C" {
    pub(crate) fn sv_edge_spring_even(l: *const Limit, had: u32, mss: u32, before: u32, after: u32) -> u32;
    pub(crate) fn sv_edge_limit_sample(q: *mut LimitQueue, l: *const Limit) -> i32;
    pub(crate) fn sv_edge_spring_window(
        l: *const Limit,
        gradient: i32,
        mss: u32,
        window: u32,
        ssthresh: *mut u32,
    ) -> u32;
    pub(crate) fn sv_edge_pacer_backlog(s: *const u64, rate: u64, now: u64) -> u32;
    pub(crate) fn sv_edge_pacer_take(s: *mut u64, rate: u64, bytes: u32, now: u64) -> u64;
    pub(crate) fn sv_edge_pacer_admit(
        s: *mut u64,
        rate: u64,
        horizon: u64,
        bytes: u32,
        now: u64,
        at: *mut u64,
    ) -> c_int;
    pub(crate) fn sv_edge_delay_ns(bytes: u64, rate: u64) -> u64;
    pub(crate) fn sv_edge_limit_bytes(p: *const wire::Packet, len: u32) -> u32;
}
