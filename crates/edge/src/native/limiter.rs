//! Mirrors of `datapath/limiter.h`.

#[cfg(test)]
use std::ffi::c_int;

/// `SV_LIMIT_*`
pub(crate) const LIMIT_NONE: u8 = 0;
pub(crate) const LIMIT_ECN: u8 = 1;
pub(crate) const LIMIT_DEM: u8 = 2;
pub(crate) const LIMIT_SPRING: u8 = 3;

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
    pub(crate) pad: [u8; 3],
}
const _: () = assert!(size_of::<Limit>() == 20);

/// `struct sv_limit_queue`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LimitQueue {
    pub(crate) prev: u32,
    pub(crate) gradient: i32,
    pub(crate) begun: u32,
}
const _: () = assert!(size_of::<LimitQueue>() == 12);

#[cfg(test)]
extern "C" {
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
    pub(crate) fn sv_edge_limit_bytes(p: *const wire::Packet, len: u32) -> u32;
}
