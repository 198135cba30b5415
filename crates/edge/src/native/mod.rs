//! The stages of `datapath/edge.h`, compiled natively, and the mirrors of their state.

#[cfg(test)]
mod tests;

use std::ffi::c_int;
use units::Time;
use wire::{FlowKey, Packet};

/// The most labels in a schedule, `SV_MAX_LABELS`.
pub(crate) const MAX_LABELS: usize = 256;

pub(crate) const BEGAN: u32 = 0x1;
pub(crate) const CELL_OPENED: u32 = 0x2;
pub(crate) const CELL_LATE: u32 = 0x4;

pub(crate) const BALANCE_ECMP: u32 = 0;
pub(crate) const BALANCE_FLOWCELL: u32 = 1;

/// `struct sv_conf`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conf {
    pub(crate) idle_ns: u64,
    pub(crate) balance: u32,
    pub(crate) cell_bytes: u32,
}
const _: () = assert!(size_of::<Conf>() == 16);

/// `struct sv_flow`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FlowLife {
    last_seen_ns: u64,
    in_cell: u32,
    phase: u8,
    has_in_cell: u8,
    pad: [u8; 2],
}
const _: () = assert!(size_of::<FlowLife>() == 16);

/// `struct sv_flowcell`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flowcell {
    bytes: u32,
    cell: u32,
    index: u16,
    label: u16,
    started: u8,
    pad: [u8; 3],
}
const _: () = assert!(size_of::<Flowcell>() == 16);

extern "C" {
    fn sv_edge_hash(k: *const FlowKey, seed: u64) -> u32;
    fn sv_edge_egress(
        conf: *const Conf,
        flow: *mut FlowLife,
        flowcell: *mut Flowcell,
        labels: *const u16,
        n_labels: u32,
        hash: u32,
        now: u64,
        p: *mut Packet,
    ) -> u32;
    fn sv_edge_ingress(
        conf: *const Conf,
        flow: *mut FlowLife,
        flowcell: *mut Flowcell,
        now: u64,
        p: *mut Packet,
    ) -> u32;
    fn sv_edge_tick(conf: *const Conf, flow: *mut FlowLife, now: u64) -> c_int;
    #[cfg(test)]
    fn sv_edge_flow_key(p: *const Packet, reverse: c_int, k: *mut FlowKey);
    #[cfg(test)]
    fn sv_edge_flowcell_assign(
        f: *mut Flowcell,
        threshold: u32,
        labels: *const u16,
        n: u32,
        start: u32,
        p: *mut Packet,
    ) -> c_int;
}

/// `sv_flow_hash`, which spreads flows over paths.
pub(crate) fn hash(key: &FlowKey, seed: u64) -> u32 {
    // SAFETY: reads one key, whose mirror asserts the layout.
    unsafe { sv_edge_hash(key, seed) }
}

/// The C side of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowState {
    life: FlowLife,
    flowcell: Flowcell,
}

impl FlowState {
    /// `sv_egress`. Returns [`BEGAN`] and [`CELL_OPENED`] bits. `labels` holds at most [`MAX_LABELS`].
    pub(crate) fn egress(&mut self, conf: &Conf, labels: &[u16], hash: u32, now: Time, packet: &mut Packet) -> u32 {
        debug_assert!(labels.len() <= MAX_LABELS);
        // SAFETY: all pointers come from references that outlive the call, `labels` with its own length, and the
        // mirrors assert the layouts; C reads and writes nothing else and keeps nothing.
        unsafe {
            sv_edge_egress(
                conf,
                &mut self.life,
                &mut self.flowcell,
                labels.as_ptr(),
                labels.len() as u32,
                hash,
                now.as_ns(),
                packet,
            )
        }
    }

    /// `sv_ingress`. Returns [`BEGAN`] and [`CELL_LATE`] bits.
    pub(crate) fn ingress(&mut self, conf: &Conf, now: Time, packet: &mut Packet) -> u32 {
        // SAFETY: as in `egress`.
        unsafe { sv_edge_ingress(conf, &mut self.life, &mut self.flowcell, now.as_ns(), packet) }
    }

    /// `sv_tick`. True when the flow has expired.
    pub(crate) fn tick(&mut self, conf: &Conf, now: Time) -> bool {
        // SAFETY: as in `egress`.
        unsafe { sv_edge_tick(conf, &mut self.life, now.as_ns()) != 0 }
    }
}

/// `sv_egress` for a packet whose flow has no state.
pub(crate) fn egress_stateless(conf: &Conf, labels: &[u16], hash: u32, packet: &mut Packet) {
    debug_assert!(labels.len() <= MAX_LABELS);
    let (flow, flowcell) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: C tests the state pointers for null before anything else; the rest as in `FlowState::egress`.
    unsafe { sv_edge_egress(conf, flow, flowcell, labels.as_ptr(), labels.len() as u32, hash, 0, packet) };
}
