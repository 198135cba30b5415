//! The stages of `datapath/edge.h`, compiled natively, and the mirrors of their state.

pub(crate) mod again;
#[cfg(test)]
mod clove;
#[cfg(test)]
mod clove_edge;
#[cfg(test)]
pub(crate) mod divert;
pub(crate) mod fastlane;
mod hygenicc;
pub(crate) mod limiter;
#[cfg(test)]
mod oneway;
#[cfg(test)]
mod owed;
mod paths;
#[cfg(test)]
pub(crate) mod plain;
#[cfg(test)]
mod sparse_tests;
#[cfg(test)]
mod tests;
mod vcc;

pub(crate) use hygenicc::{
    admitted, began, bytes as hyg_bytes, counts, is_feedback, pay, refuses, saw, tick as hyg_tick, Bounds, Hyg, Part,
    Tally, Uplink, BEGAN_OUTSIDE, SETTLED, UNSETTLED_IDLE,
};
pub use hygenicc::{Bucket, HygConf};
pub(crate) use hygenicc::{
    Pair as HygPair, AIAD as HYG_AIAD, ALPHA as HYG_ALPHA, CARRY as HYG_CARRY, KEEP_MARKS as HYG_KEEP_MARKS,
    MAX_GAIN as HYG_MAX_GAIN, ONE as HYG_ONE, PROTO as HYG_PROTO,
};
pub(crate) use limiter::{bulk_flows, goes_first, widen, SparseAll, SparseFlow, SPARSE_FLOWS};
pub(crate) use limiter::{Limit, LimitQueue, LIMIT_DEM, LIMIT_ECN, LIMIT_NONE, LIMIT_ONE, LIMIT_SPRING};
pub(crate) use limiter::{LIMIT_GOES_FIRST, LIMIT_HOLD};
pub(crate) use paths::{hear, tick_paths, PathStates, Paths, Relay};
pub use paths::{PathState, WEIGHT_ONE};
pub use vcc::Vcc;
pub(crate) use vcc::{fack, PolicyRule, VccClass, VccConf, AWARE, BEGUN, BOTH_SCALES, BOTH_SYNS};
pub(crate) use vcc::{CLASS_OBSERVE, CLASS_OFF, CLASS_POLICE, CONF_DUPACKS, CONF_TWO, DUPACKS, ONE};
pub(crate) use vcc::{LAW_CUBIC, LAW_DCTCP, LAW_NONE, LAW_RENO, MAX_CLASSES, MAX_RULES};

#[cfg(test)]
pub(crate) use hygenicc::{rests as hyg_rests, schedule as hyg_schedule, set_rate as hyg_set_rate};
#[cfg(test)]
use limiter::{
    sv_edge_limit_bytes, sv_edge_limit_sample, sv_edge_pacer_admit, sv_edge_pacer_backlog, sv_edge_pacer_take,
    sv_edge_spring_even, sv_edge_spring_window,
};
#[cfg(test)]
use std::ffi::c_int;

use crate::balance;
use units::Time;
use wire::{FlowKey, Packet};

/// The most labels in a schedule, `SV_MAX_LABELS`.
pub const MAX_LABELS: usize = 256;

pub(crate) const BEGAN: u32 = 0x1;
pub(crate) const CELL_OPENED: u32 = 0x2;
pub(crate) const CELL_LATE: u32 = 0x4;
pub(crate) const POLICED: u32 = 0x8;
pub(crate) const CONSUMED: u32 = 0x10;
pub(crate) const LIMITED: u32 = 0x20;
pub(crate) const EXPIRED: u32 = 0x1;

/// `SV_EMIT_*`
pub(crate) const EMIT_FACK: u8 = 0x1;
pub(crate) const EMIT_WINDOW: u8 = 0x2;
pub(crate) const EMIT_DUPACK: u8 = 0x4;

/// `struct sv_conf`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conf {
    pub(crate) idle_ns: u64,
    pub(crate) balance: balance::Conf,
}
const _: () = assert!(size_of::<Conf>() == 48);

/// `struct sv_flow`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FlowLife {
    last_seen_ns: u64,
    in_cell: u32,
    phase: u8,
    has_in_cell: u8,
    /// `SV_FLOW_OUT`, `SV_FLOW_IN`, `SV_FLOW_IN_FIRST`, `SV_FLOW_SETTLED`
    seen: u8,
    pad: u8,
}
const _: () = assert!(size_of::<FlowLife>() == 16);

extern "C" {
    fn sv_edge_hash(k: *const FlowKey, seed: u64) -> u32;
    fn sv_edge_egress(
        conf: *const Conf,
        vcc_conf: *const VccConf,
        limit: *const Limit,
        queue: *mut LimitQueue,
        flow: *mut FlowLife,
        balance: *mut balance::State,
        vcc: *mut Vcc,
        hyg: *mut Hyg<'_>,
        paths: *const Paths,
        hash: u32,
        now: u64,
        p: *mut Packet,
    ) -> u32;
    fn sv_edge_ingress(
        conf: *const Conf,
        vcc_conf: *const VccConf,
        limit: *const Limit,
        queue: *mut LimitQueue,
        flow: *mut FlowLife,
        balance: *mut balance::State,
        vcc: *mut Vcc,
        hyg: *mut Hyg<'_>,
        paths: *const Paths,
        now: u64,
        p: *mut Packet,
    ) -> u32;
    fn sv_edge_ecn_departs(p: *const Packet) -> u8;
    fn sv_edge_ecn_arrives(p: *mut Packet, outer: u8, wire: u8) -> std::ffi::c_int;
    fn sv_edge_tick(conf: *const Conf, vcc_conf: *const VccConf, flow: *mut FlowLife, vcc: *mut Vcc, now: u64) -> u32;
    #[cfg(test)]
    fn sv_edge_flow_key(p: *const Packet, reverse: c_int, k: *mut FlowKey);
    #[cfg(test)]
    fn sv_edge_hooks() -> c_int;
    #[cfg(test)]
    fn sv_edge_many_paths() -> c_int;
    #[cfg(test)]
    fn sv_edge_clove_locks() -> c_int;
    #[cfg(test)]
    fn sv_edge_balance(
        conf: *const balance::Conf,
        b: *mut balance::State,
        labels: *const u16,
        n: u32,
        prompt: u32,
        hash: u32,
        now: u64,
        p: *mut Packet,
    ) -> c_int;
}

/// `sv_flow_hash`, which spreads flows over paths.
pub(crate) fn hash(key: &FlowKey, seed: u64) -> u32 {
    // SAFETY: reads one key, whose mirror asserts the layout.
    unsafe { sv_edge_hash(key, seed) }
}

/// `sv_ecn_departs`: the codepoint of the outer header of a packet that enters the tunnel.
pub(crate) fn ecn_departs(packet: &Packet) -> u8 {
    // SAFETY: reads one packet, whose mirror asserts the layout.
    unsafe { sv_edge_ecn_departs(packet) }
}

/// `sv_ecn_arrives`. False: the packet must be dropped.
pub(crate) fn ecn_arrives(packet: &mut Packet, outer: u8, wire: u8) -> bool {
    // SAFETY: writes one packet, whose mirror asserts the layout.
    unsafe { sv_edge_ecn_arrives(packet, outer, wire) != 0 }
}

/// What the stages of an edge are configured with.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    pub(crate) conf: Conf,
    /// `None`: no virtual congestion control.
    pub(crate) vcc: Option<Box<VccConf>>,
}

/// The C side of one connection, apart from virtual congestion control.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowState {
    life: FlowLife,
    balance: balance::State,
}

impl FlowState {
    /// The newest flowcell received; 0 before the first.
    pub(crate) fn newest_cell(&self) -> u32 {
        self.life.in_cell
    }
}

/// The limiter that a packet's flow goes through, with its backlog, and its memory.
pub(crate) type Limiter<'a> = Option<(&'a Limit, &'a mut LimitQueue)>;

/// A pointer for C, null for `None`.
fn pointer<T>(reference: Option<&mut T>) -> *mut T {
    reference.map_or(std::ptr::null_mut(), std::ptr::from_mut)
}

fn pointers(limiter: Limiter) -> (*const Limit, *mut LimitQueue) {
    match limiter {
        Some((limit, queue)) => (limit, queue),
        None => (std::ptr::null(), std::ptr::null_mut()),
    }
}

impl Stages {
    fn vcc_pointer(&self) -> *const VccConf {
        self.vcc.as_deref().map_or(std::ptr::null(), std::ptr::from_ref)
    }

    /// `sv_egress`. Returns [`BEGAN`], [`CELL_OPENED`], [`POLICED`] and [`LIMITED`] bits. `vcc` is given where connections are
    /// followed: for virtual congestion control if that is configured, else for limiters.
    #[expect(clippy::too_many_arguments, reason = "as many as the stages want to know")]
    pub(crate) fn egress<'p>(
        &self,
        flow: &mut FlowState,
        vcc: Option<&mut Vcc>,
        limiter: Limiter,
        hyg: Option<&mut Hyg<'_>>,
        paths: impl Into<Paths<'p>>,
        hash: u32,
        now: Time,
        packet: &mut Packet,
    ) -> u32 {
        let (limit, queue) = pointers(limiter);
        let paths = paths.into();
        // SAFETY: all pointers come from references that outlive the call, or are null where C expects that; `paths`
        // goes with its own length, and the mirrors assert the layouts; C reads and writes nothing else and keeps nothing.
        unsafe {
            sv_edge_egress(
                &self.conf,
                self.vcc_pointer(),
                limit,
                queue,
                &mut flow.life,
                &mut flow.balance,
                pointer(vcc),
                pointer(hyg),
                &paths,
                hash,
                now.as_ns(),
                packet,
            )
        }
    }

    /// `sv_ingress`. Returns [`BEGAN`], [`CELL_LATE`], [`CONSUMED`] and [`LIMITED`] bits. `paths` to the sender, where the scheme
    /// keeps states of them.
    #[expect(clippy::too_many_arguments, reason = "as many as the stages want to know")]
    pub(crate) fn ingress(
        &self,
        flow: &mut FlowState,
        vcc: Option<&mut Vcc>,
        limiter: Limiter,
        hyg: Option<&mut Hyg<'_>>,
        paths: &Paths,
        now: Time,
        packet: &mut Packet,
    ) -> u32 {
        let (life, balance) = (&mut flow.life, &mut flow.balance);
        let (limit, queue) = pointers(limiter);
        let (conf, vcc_conf) = (&self.conf, self.vcc_pointer());
        // SAFETY: as in `egress`.
        unsafe {
            sv_edge_ingress(
                conf,
                vcc_conf,
                limit,
                queue,
                life,
                balance,
                pointer(vcc),
                pointer(hyg),
                paths,
                now.as_ns(),
                packet,
            )
        }
    }

    /// `sv_egress` for a packet whose flow has no state. Returns [`LIMITED`].
    pub(crate) fn egress_stateless<'p>(
        &self,
        limiter: Limiter,
        hyg: Option<&mut Hyg<'_>>,
        paths: impl Into<Paths<'p>>,
        hash: u32,
        now: Time,
        packet: &mut Packet,
    ) -> u32 {
        let paths = paths.into();
        let (flow, balance, vcc) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let (conf, vcc_conf) = (&self.conf, self.vcc_pointer());
        let (limit, queue) = pointers(limiter);
        // SAFETY: C tests the state pointers for null before anything else; the rest as in `egress`.
        unsafe {
            sv_edge_egress(
                conf,
                vcc_conf,
                limit,
                queue,
                flow,
                balance,
                vcc,
                pointer(hyg),
                &paths,
                hash,
                now.as_ns(),
                packet,
            )
        }
    }

    /// `sv_ingress` for a packet whose flow has no state. Returns [`CONSUMED`].
    pub(crate) fn ingress_stateless(
        &self,
        hyg: Option<&mut Hyg<'_>>,
        paths: &Paths,
        now: Time,
        packet: &mut Packet,
    ) -> u32 {
        let (flow, balance, vcc) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let (limit, queue) = pointers(None);
        // SAFETY: as in `egress_stateless`.
        unsafe {
            sv_edge_ingress(
                &self.conf,
                self.vcc_pointer(),
                limit,
                queue,
                flow,
                balance,
                vcc,
                pointer(hyg),
                paths,
                now.as_ns(),
                packet,
            )
        }
    }

    /// `sv_tick`. True when the flow has expired, else the packets to send, as [`EMIT_WINDOW`] and [`EMIT_DUPACK`].
    pub(crate) fn tick(&self, flow: &mut FlowState, vcc: Option<&mut Vcc>, now: Time) -> (bool, u8) {
        // SAFETY: as in `egress`.
        let result = unsafe { sv_edge_tick(&self.conf, self.vcc_pointer(), &mut flow.life, pointer(vcc), now.as_ns()) };
        (result & EXPIRED != 0, (result >> 8) as u8)
    }
}
