//! Mirrors of `datapath/fastlane.h`.

use super::vcc::{Bound, Conn};
use std::ffi::c_int;
use units::Time;
use wire::{FlowKey, Packet};

/// `SV_FASTLANE_ANEW`
pub(crate) const ANEW: u32 = 0x1;
/// `SV_FASTLANE_BEYOND`
pub(crate) const BEYOND: u32 = 0x2;

/// What the edge does about a notification; `SV_FASTLANE_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Resend,
    Tell,
    Leave,
    Later,
    Untracked,
    Empty,
    Acked,
    Outside,
    Stale,
    Repeated,
    Unkept,
}

impl Decision {
    fn of(number: u32) -> Decision {
        use Decision as D;
        const ALL: [Decision; 11] = [
            D::Resend,
            D::Tell,
            D::Leave,
            D::Later,
            D::Untracked,
            D::Empty,
            D::Acked,
            D::Outside,
            D::Stale,
            D::Repeated,
            D::Unkept,
        ];
        ALL.get(number.wrapping_sub(1) as usize).copied().unwrap_or(D::Untracked)
    }
}

/// `struct sv_fastlane`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FastLane {
    pub(crate) conn: Conn,
    pub(crate) bound: Bound,
    cut_end: u32,
    before: u32,
    rest: u32,
    flags: u32,
}
const _: () = assert!(size_of::<FastLane>() == 104);

/// `struct sv_fastlane_copy`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Copies {
    pub(crate) sent_ns: u64,
    pub(crate) seq: u32,
    pub(crate) end: u32,
    pub(crate) copies: u16,
    pub(crate) dropped: u16,
    pub(crate) own: u16,
    pub(crate) waits: u16,
}
const _: () = assert!(size_of::<Copies>() == 24);

extern "C" {
    fn sv_edge_fastlane_out(f: *mut FastLane, p: *const Packet, now: u64) -> u32;
    fn sv_edge_fastlane_in(f: *mut FastLane, p: *mut Packet, now: u64) -> u32;
    fn sv_edge_fastlane_notified(f: *mut FastLane, c: *mut Copies, p: *const Packet, now: u64) -> u32;
    fn sv_edge_fastlane_due_at(f: *const FastLane, c: *const Copies) -> u64;
    fn sv_edge_fastlane_due(f: *mut FastLane, c: *mut Copies, now: u64) -> u32;
    fn sv_edge_fastlane_again(f: *const FastLane, c: *mut Copies, now: u64) -> c_int;
    fn sv_edge_fastlane_ack(f: *const FastLane, k: *const FlowKey, p: *mut Packet);
}

impl FastLane {
    /// `sv_fastlane_out`. Returns [`ANEW`] and [`BEYOND`] bits.
    pub(crate) fn outgoing(&mut self, packet: &Packet, now: Time) -> u32 {
        // SAFETY: both pointers come from references that outlive the call; the mirrors assert the layouts.
        unsafe { sv_edge_fastlane_out(self, packet, now.as_ns()) }
    }

    /// `sv_fastlane_in`. Returns [`ANEW`] or 0.
    pub(crate) fn incoming(&mut self, packet: &mut Packet, now: Time) -> u32 {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_in(self, packet, now.as_ns()) }
    }

    /// `sv_fastlane_notified`
    pub(crate) fn notified(&mut self, copies: Option<&mut Copies>, packet: &Packet, now: Time) -> Decision {
        let copies = copies.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: as in `outgoing`; C tests `copies` for null before it reads it.
        Decision::of(unsafe { sv_edge_fastlane_notified(self, copies, packet, now.as_ns()) })
    }

    /// `sv_fastlane_due_at`, ns
    pub(crate) fn due_at(&self, copies: &Copies) -> u64 {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_due_at(self, copies) }
    }

    /// `sv_fastlane_due`
    pub(crate) fn due(&mut self, copies: &mut Copies, now: Time) -> Decision {
        // SAFETY: as in `outgoing`.
        Decision::of(unsafe { sv_edge_fastlane_due(self, copies, now.as_ns()) })
    }

    /// `sv_fastlane_again`: true if the guest's retransmission need not leave.
    pub(crate) fn again(&self, copies: &mut Copies, now: Time) -> bool {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_again(self, copies, now.as_ns()) != 0 }
    }

    /// `sv_fastlane_ack`: `key` is that of the guest's direction.
    pub(crate) fn ack(&self, key: &FlowKey) -> Packet {
        let mut packet = Packet::default();
        // SAFETY: as in `outgoing`; writes the packet only.
        unsafe { sv_edge_fastlane_ack(self, key, &mut packet) };
        packet
    }
}
