//! The encapsulation between edges: the safe face of `datapath/encap.h`, described in `docs/wire.md`.

use std::ffi::c_int;

/// Metadata of one encapsulated frame: the mirror of `struct sv_encap`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encap {
    /// Network number, 24 bits.
    pub vni: u32,
    /// 0: plain VXLAN; 1: the layout of `docs/wire.md`; up to 15.
    pub version: u8,
    /// 1: `cell` means something.
    pub has_cell: u8,
    /// Flowcell or flowlet number modulo 256.
    pub cell: u8,
    /// 0: none; 1: CE; 2: utilisation.
    pub feedback: u8,
    /// Index of the path that the feedback is about.
    pub path: u8,
    /// 1/256 of capacity, for utilisation.
    pub value: u8,
    pad: [u8; 2],
}

/// What the outer headers of a frame say: the mirror of `struct sv_outer`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outer {
    /// As in [`Packet`](crate::Packet).
    pub saddr: [u32; 4],
    pub daddr: [u32; 4],
    pub encap: Encap,
    /// The path label.
    pub sport: u16,
    /// ECN codepoint.
    pub ecn: u8,
    /// Bytes of the outer headers; the inner frame follows.
    pub add_len: u8,
    /// Bytes of the whole frame, as both IP and UDP say; 0: they contradict each other.
    pub frame_len: u32,
}

const _: () = assert!(size_of::<Encap>() == 12 && size_of::<Outer>() == 52);

extern "C" {
    fn sv_wire_encap_pack(encap: *const Encap, first: *mut u32, second: *mut u32);
    fn sv_wire_encap_unpack(first: u32, second: u32, encap: *mut Encap) -> c_int;
    fn sv_wire_encap_read(data: *const u8, len: usize, port: u16, outer: *mut Outer) -> c_int;
    fn sv_wire_encap_cell(newest: u32, cell: u8) -> u32;
    fn sv_wire_encap_ecn(inner: u8, outer: u8) -> c_int;
}

impl Encap {
    /// Metadata with nothing but a network and a version.
    pub fn new(vni: u32, version: u8) -> Encap {
        Encap { vni, version, ..Encap::default() }
    }

    /// The two words of the VXLAN header, in host order.
    pub fn pack(&self) -> (u32, u32) {
        let (mut first, mut second) = (0, 0);
        // SAFETY: reads one struct and writes two words.
        unsafe { sv_wire_encap_pack(self, &mut first, &mut second) };
        (first, second)
    }

    /// `None` if the flags are not those of our format. Metadata of unknown versions is left zero.
    pub fn unpack(first: u32, second: u32) -> Option<Encap> {
        let mut encap = Encap::default();
        // SAFETY: writes one struct.
        (unsafe { sv_wire_encap_unpack(first, second, &mut encap) } != 0).then_some(encap)
    }
}

/// The outer headers of a frame that is encapsulated to UDP port `port`; the inner frame starts at `add_len`.
pub fn read_outer(frame: &[u8], port: u16) -> Option<Outer> {
    let mut outer = Outer::default();
    // SAFETY: reads at most `len` bytes from `data` and writes one struct.
    (unsafe { sv_wire_encap_read(frame.as_ptr(), frame.len(), port, &mut outer) } != 0).then_some(outer)
}

/// The full flowcell number of a received `cell`: the one closest to the `newest` known.
pub fn full_cell(newest: u32, cell: u8) -> u32 {
    // SAFETY: a function of two numbers.
    unsafe { sv_wire_encap_cell(newest, cell) }
}

/// The inner ECN codepoint that leaves a tunnel (RFC 6040 section 4.2); `None`: the packet must be dropped.
pub fn decapsulated_ecn(inner: u8, outer: u8) -> Option<u8> {
    // SAFETY: a function of two numbers.
    u8::try_from(unsafe { sv_wire_encap_ecn(inner, outer) }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::{CE, ECT0, ECT1, NOT_ECT};
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_that_of_the_documentation() {
        assert_eq!(Encap::new(7, 0).pack(), (0x0800_0000, 0x0000_0700));
        let encap = Encap { has_cell: 1, cell: 0xab, ..Encap::new(0x12_3456, 1) };
        assert_eq!(encap.pack(), (0x0818_0000, 0x1234_56ab));
        let encap = Encap { feedback: 2, path: 0x21, value: 0xfe, ..Encap::new(1, 1) };
        assert_eq!(encap.pack(), (0x0812_21fe, 0x0000_0100));
    }

    #[test]
    fn plain_vxlan_gets_zeros() {
        let encap = Encap { has_cell: 1, cell: 9, feedback: 1, path: 3, ..Encap::new(7, 0) };
        assert_eq!(encap.pack(), Encap::new(7, 0).pack());
    }

    #[test]
    fn unknown_versions_keep_network_and_version_only() {
        assert_eq!(Encap::unpack(0x08f8_ffff, 0x0000_07ff), Some(Encap::new(7, 15)));
        assert_eq!(Encap::unpack(0x0c00_0000, 0x0000_0700), None, "an extension of VXLAN");
        assert_eq!(Encap::unpack(0, 0), None, "no network number");
        let reserved = Encap::unpack(0x0813_ffff, 0x0000_0700);
        assert_eq!(reserved, Some(Encap::new(7, 1)), "feedback of kind 3 reads as none");
    }

    #[test]
    fn cells_are_the_closest() {
        let table = [(0, 5, 5), (250, 3, 259), (259, 250, 250), (256, 127, 383), (256, 128, 128), (0, 255, u32::MAX)];
        for (newest, cell, full) in table {
            assert_eq!(full_cell(newest, cell), full, "{cell} after {newest}");
        }
    }

    #[test]
    fn ecn_leaves_the_tunnel_as_rfc_6040_figure_4_says() {
        let outer = [NOT_ECT, ECT0, ECT1, CE];
        let table = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT0, [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)]),
            (ECT1, [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)]),
            (CE, [Some(CE); 4]),
        ];
        for (inner, expected) in table {
            assert_eq!(outer.map(|outer| decapsulated_ecn(inner, outer)), expected, "inner {inner}");
        }
    }

    proptest! {
        #[test]
        fn metadata_survives_the_round_trip(vni in 0u32..1 << 24, has_cell in 0u8..2, cell: u8, feedback in 0u8..3,
                                            path: u8, value: u8) {
            let cell = if has_cell == 1 { cell } else { 0 };
            let (path, value) = if feedback == 0 { (0, 0) } else { (path, value) };
            let encap = Encap { has_cell, cell, feedback, path, value, ..Encap::new(vni, 1) };
            let (first, second) = encap.pack();
            prop_assert_eq!(Encap::unpack(first, second), Some(encap));
        }

        #[test]
        fn no_bytes_make_it_read_beyond_them(frame in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(outer) = read_outer(&frame, 4789) {
                prop_assert!(usize::from(outer.add_len) <= frame.len());
            }
        }
    }
}
