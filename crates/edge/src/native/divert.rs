//! The mirror of `datapath/divert.h`, for tests; only the kernel edge uses that header.

use std::ffi::c_int;
use wire::Packet;

/// `SV_DIVERT_*`
pub(crate) const DIVERT: u32 = 0x1;
pub(crate) const FIRST: u32 = 0x2;
pub(crate) const AHEAD: u32 = 0x4;
pub(crate) const PATIENCE: u32 = 256;
pub(crate) const MAX: u32 = 1024;

/// `struct sv_divert`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Divert {
    pub(crate) exp: u32,
    pub(crate) cell: u32,
    pub(crate) since: u32,
    pub(crate) bounced: u16,
    pub(crate) drained: u16,
    pub(crate) flags: u8,
    pad: [u8; 3],
}
const _: () = assert!(size_of::<Divert>() == 20);

/// `struct sv_place`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) exp: u32,
    pub(crate) cell: u32,
    pub(crate) number: u16,
    pad: u16,
}
const _: () = assert!(size_of::<Place>() == 12);

extern "C" {
    fn sv_edge_divert_segment(r: *mut Divert, p: *const Packet, now: u32, ready: c_int, place: *mut Place) -> u32;
    fn sv_edge_divert_drained(r: *mut Divert, number: u16, now: u32);
    fn sv_edge_divert_restart(r: *mut Divert);
}

impl Divert {
    pub(crate) fn segment(&mut self, packet: &Packet, now: u32, ready: bool) -> (u32, Place) {
        let mut place = Place::default();
        // SAFETY: valid references to mirrors of C's structs, which C does not keep.
        let result = unsafe { sv_edge_divert_segment(self, packet, now, ready.into(), &mut place) };
        (result, place)
    }

    pub(crate) fn drained(&mut self, number: u16, now: u32) {
        // SAFETY: as above.
        unsafe { sv_edge_divert_drained(self, number, now) }
    }

    pub(crate) fn restart(&mut self) {
        // SAFETY: as above.
        unsafe { sv_edge_divert_restart(self) }
    }

    pub(crate) fn is_diverted(&self) -> bool {
        self.bounced != self.drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{proto, tcp};

    fn data(seq: u32, payload: u32, cell: u32) -> Packet {
        Packet { seq, payload, cell, has_cell: 1, proto: proto::TCP, tcp_flags: tcp::ACK, ..Packet::default() }
    }

    fn begun(exp: u32, cell: u32) -> Divert {
        let mut r = Divert::default();
        assert_eq!(r.segment(&data(exp.wrapping_sub(10), 10, cell), 0, true).0, 0);
        assert_eq!((r.exp, r.cell), (exp, cell));
        r
    }

    #[test]
    fn what_is_in_order_goes_straight_on_across_the_ends_of_the_number_spaces() {
        let mut r = begun(u32::MAX - 4, u32::MAX);
        assert_eq!(r.segment(&data(u32::MAX - 4, 10, 0), 0, true).0, 0);
        assert_eq!((r.exp, r.cell), (5, 0));
        assert_eq!(r.segment(&data(5, 10, 0), 0, true).0, 0);
        assert_eq!(r.exp, 15);
    }

    #[test]
    fn a_gap_before_a_newer_flowcell_diverts_until_all_is_back() {
        let mut r = begun(100, 7);
        let (result, place) = r.segment(&data(120, 10, 8), 0, true);
        assert_eq!((result, place.exp, place.cell, place.number), (DIVERT | FIRST, 100, 7, 1));
        let (result, place) = r.segment(&data(100, 20, 7), 0, true);
        assert_eq!((result, place.number), (DIVERT, 2), "the gap's filler too");
        r.drained(1, 0);
        assert_eq!(r.segment(&data(130, 10, 8), 0, true).0, DIVERT);
        r.drained(3, 0);
        assert_eq!(r.segment(&data(140, 10, 8), 0, true).0, 0);
        assert_eq!((r.exp, r.cell), (150, 8));
    }

    #[test]
    fn loss_and_retransmissions_are_not_held_up() {
        let mut r = begun(100, 7);
        assert_eq!(r.segment(&data(120, 10, 7), 0, true).0, 0, "a gap within a flowcell is loss");
        assert_eq!(r.exp, 130);
        assert_eq!(r.segment(&data(100, 20, 9), 0, true).0, 0, "a retransmission in a newer one");
        assert_eq!((r.exp, r.cell), (130, 9));
        assert_eq!(r.segment(&data(150, 10, 8), 0, true).0, 0, "a stale one");
        assert_eq!(r.exp, 130);
        assert_eq!(r.segment(&data(120, 20, 8), 0, true).0, 0, "a stale one that covers what is expected");
        assert_eq!((r.exp, r.cell), (140, 9));
    }

    #[test]
    fn only_data_takes_the_long_way() {
        let mut r = begun(100, 7);
        let ahead = data(120, 10, 8);
        assert_eq!(r.segment(&Packet { payload: 0, ..ahead }, 0, true).0, 0);
        for flag in [tcp::FIN, tcp::URG, tcp::RST] {
            let before = r;
            assert_eq!(r.segment(&Packet { tcp_flags: ahead.tcp_flags | flag, ..ahead }, 0, true).0, 0);
            assert_eq!(r, before);
        }
        assert_eq!(r.segment(&ahead, 0, true).0, DIVERT | FIRST);
        assert_eq!(r.segment(&Packet { payload: 0, ..ahead }, 0, true).0, 0, "an ACK");
        let fin = Packet { payload: 0, seq: 130, tcp_flags: tcp::ACK | tcp::FIN, ..ahead };
        assert_eq!(r.segment(&fin, 0, true).0, DIVERT, "a FIN must not overtake");
        assert_eq!(r.exp, 131);
        assert_eq!(r.segment(&Packet { proto: proto::UDP, ..ahead }, 0, true).0, 0);
    }

    #[test]
    fn a_new_connection_starts_anew_and_a_late_syn_does_not() {
        let mut r = Divert::default();
        let syn = Packet { payload: 0, tcp_flags: tcp::SYN, ..data(99, 0, 1) };
        assert_eq!(r.segment(&syn, 0, true).0, 0);
        assert_eq!((r.exp, r.cell), (100, 1));
        assert_eq!(r.segment(&data(200, 10, 2), 0, true).0, DIVERT | FIRST);
        assert_eq!(r.segment(&syn, 0, true).0, 0);
        assert!(r.is_diverted() && r.exp == 210);
        assert_eq!(r.segment(&Packet { seq: 1 << 30, ..syn }, 0, true).0, 0);
        assert!(!r.is_diverted() && r.exp == (1 << 30) + 1);
        r.drained(1, 0);
        assert!(!r.is_diverted(), "of the old connection");
        let mut r = begun(100, 7);
        r.restart();
        assert_eq!(r.segment(&data(500, 10, 1), 0, true).0, 0);
    }

    #[test]
    fn without_flowcells_nothing_is_diverted() {
        let mut r = begun(100, 7);
        let plain = Packet { has_cell: 0, ..data(200, 10, 0) };
        assert_eq!(r.segment(&plain, 0, true).0, 0);
        assert_eq!(r.segment(&data(400, 10, 8), 0, true).0, 0, "what is expected is not known");
        assert_eq!(r.segment(&data(500, 10, 9), 0, true).0, DIVERT | FIRST);
        assert_eq!(r.segment(&Packet { seq: 510, ..plain }, 0, true).0, DIVERT, "behind what is diverted");
    }

    #[test]
    fn a_silent_holder_is_not_waited_for() {
        let mut r = begun(100, 7);
        assert_eq!(r.segment(&data(120, 10, 8), 5, false).0, AHEAD, "there is none");
        assert_eq!(r.exp, 130);
        assert_eq!(r.segment(&data(150, 10, 9), 5, true).0, DIVERT | FIRST);
        assert_eq!(r.segment(&data(160, 10, 9), 5 + PATIENCE, true).0, DIVERT);
        r.drained(0, 5 + PATIENCE);
        assert_eq!(r.segment(&data(170, 10, 9), 5 + 2 * PATIENCE, true).0, DIVERT, "it is at work");
        assert_eq!(r.segment(&data(180, 10, 9), 6 + 2 * PATIENCE, true).0, 0);
        assert_eq!(r.segment(&data(200, 10, 10), 7, true).0, DIVERT | FIRST);
        assert_eq!(r.segment(&data(210, 10, 10), 7, false).0, 0, "it ended");
        assert!(!r.is_diverted());
    }

    #[test]
    fn what_was_lost_on_the_way_is_covered_by_what_came_later() {
        let mut r = begun(100, 7);
        for i in 0..5 {
            r.segment(&data(120 + 10 * i, 10, 8), 0, true);
        }
        r.drained(9, 0);
        r.drained(0u16.wrapping_sub(1), 0);
        assert_eq!((r.bounced, r.drained), (5, 0), "numbers that were not given");
        r.drained(5, 0);
        r.drained(3, 0);
        assert!(!r.is_diverted());
    }

    #[test]
    fn what_is_on_the_long_way_is_bounded() {
        let mut r = begun(100, 7);
        let sent = (0..2 * MAX).filter(|i| r.segment(&data(200 + i, 1, 8), 0, true).0 & DIVERT != 0).count();
        assert_eq!(sent as u32, MAX);
        r.drained(MAX as u16, 0);
        assert!(!r.is_diverted());
    }
}
