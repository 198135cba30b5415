//! Symbols of `datapath/hygenicc_plain.h`, for its tests: the kernel program is what uses it.

use super::hygenicc::{Hyg, HygConf, Pair};
use std::ffi::c_int;
use units::Time;
use wire::Packet;

/// `struct sv_flow`, of which the one field that is of interest here is the last byte.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    others: [u64; 1],
    cell: u32,
    rest: [u8; 3],
    pub(crate) codepoint: u8,
}
const _: () = assert!(size_of::<Flow>() == 16);

extern "C" {
    fn sv_edge_plain_egress(h: *mut Hyg<'_>, p: *mut Packet, now: u64) -> c_int;
    fn sv_edge_plain_ingress(h: *mut Hyg<'_>, p: *const Packet, now: u64);
    fn sv_edge_plain_hear(h: *mut Hyg<'_>, marks: u32, now: u64);
    fn sv_edge_plain_asks(q: *mut Pair, now: u64) -> u16;
    fn sv_edge_plain_return(q: *mut Pair, marks: u32);
    fn sv_edge_show_plain_ecn(c: *const HygConf, f: *mut Flow, was: u8, p: *mut Packet);
    fn sv_edge_plain_word(word: u16, bit: c_int) -> u16;
}

/// `sv_plain_egress`: has the segment the bit?
pub(crate) fn egress(h: &mut Hyg<'_>, packet: &mut Packet, now: Time) -> bool {
    // SAFETY: `h` holds pointers from references that outlive it, or null; the mirrors assert the layouts; C keeps nothing.
    unsafe { sv_edge_plain_egress(h, packet, now.as_ns()) != 0 }
}

/// `sv_plain_ingress`
pub(crate) fn ingress(h: &mut Hyg<'_>, packet: &Packet, now: Time) {
    // SAFETY: as in `egress`.
    unsafe { sv_edge_plain_ingress(h, packet, now.as_ns()) }
}

/// `sv_plain_hear`
pub(crate) fn hear(h: &mut Hyg<'_>, marks: u32, now: Time) {
    // SAFETY: as in `egress`.
    unsafe { sv_edge_plain_hear(h, marks, now.as_ns()) }
}

/// `sv_plain_asks`
pub(crate) fn asks(pair: &mut Pair, now: Time) -> u16 {
    // SAFETY: one struct, whose mirror asserts the layout.
    unsafe { sv_edge_plain_asks(pair, now.as_ns()) }
}

/// `sv_plain_return`
pub(crate) fn give_back(pair: &mut Pair, marks: u32) {
    // SAFETY: one struct, whose mirror asserts the layout.
    unsafe { sv_edge_plain_return(pair, marks) }
}

/// `sv_show_plain_ecn`
pub(crate) fn show(conf: &HygConf, flow: Option<&mut Flow>, was: u8, packet: &mut Packet) {
    // SAFETY: as in `egress`.
    unsafe { sv_edge_show_plain_ecn(conf, super::pointer(flow), was, packet) }
}

/// `sv_plain_word`
pub(crate) fn word(word: u16, bit: bool) -> u16 {
    // SAFETY: two integers.
    unsafe { sv_edge_plain_word(word, c_int::from(bit)) }
}
