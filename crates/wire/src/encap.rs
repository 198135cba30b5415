//! The encapsulation between edges: the safe face of `datapath/encap.h`, described in `docs/wire.md`.

use std::ffi::c_int;

/// Metadata of one encapsulated frame: the mirror of `struct sv_encap`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encap {
    /// Network number, 24 bits.
    pub vni: u32,
    /// 0: plain VXLAN; 1 and 2: the layouts of `docs/wire.md`; up to 15.
    pub version: u8,
    /// 1: `cell` means something.
    pub has_cell: u8,
    /// Flowcell or flowlet number modulo 256.
    pub cell: u8,
    /// 0: none; 1: CE; 2: utilisation; 3, of version 2: marks counted, in `path` and `value`.
    pub feedback: u8,
    /// Index of the path that the feedback is about.
    pub path: u8,
    /// 1/255 of capacity, for utilisation.
    pub value: u8,
    /// 1, of version 1: the sender understands version 2.
    pub speaks2: u8,
    /// 1, of version 2: a [`Shim`] follows the header.
    pub shim: u8,
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
    /// Bytes of the outer headers, with the shim; the inner frame follows.
    pub add_len: u8,
    /// Bytes of the whole frame, as both IP and UDP say; 0: they contradict each other.
    pub frame_len: u32,
    /// If [`Encap::shim`]; see [`Shim::read`].
    pub shim: [u8; 8],
}

/// What stands between the VXLAN header and an inner frame without payload: the mirror of `struct sv_shim`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shim {
    /// Bytes that came, modulo 2^24; payload bytes that were dropped, or are to be sent again; time or delay in units of 64 ns.
    pub value: u32,
    /// Of reports: bytes that came marked, modulo 2^24.
    pub marked: u32,
    /// Of a probe and its reply; index of a path; payload bytes of each dropped packet.
    pub id: u16,
    /// 1: report; 2: drop; 3: probe; 4: reply; 5: delay of a path; 6: again.
    pub kind: u8,
    /// Of drops: 1: no room in a queue. Of [`Shim::AGAIN`]: 1: TCP's ACK field is a timestamp.
    pub detail: u8,
}

/// `SV_HEARD_SHIFT`, and what a tick is in seconds.
const TICK_SHIFT: u32 = 30;
const TICK: f64 = (1u64 << TICK_SHIFT) as f64 / 1e9;

/// What a peer was heard to understand: the mirror of `struct sv_heard`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    at: u32,
    version: u8,
    plain: u8,
    sent: u16,
}

const _: () = assert!(size_of::<Encap>() == 12 && size_of::<Outer>() == 60);
const _: () = assert!(size_of::<Shim>() == 12 && size_of::<Heard>() == 8);

extern "C" {
    fn sv_wire_encap_pack(encap: *const Encap, first: *mut u32, second: *mut u32);
    fn sv_wire_encap_unpack(first: u32, second: u32, encap: *mut Encap) -> c_int;
    fn sv_wire_encap_read(data: *const u8, len: usize, port: u16, outer: *mut Outer) -> c_int;
    fn sv_wire_encap_cell(newest: u32, cell: u8) -> u32;
    fn sv_wire_encap_ecn(inner: u8, outer: u8) -> c_int;
    fn sv_wire_shim_read(bytes: *const u8, shim: *mut Shim) -> c_int;
    fn sv_wire_shim_write(bytes: *mut u8, shim: *const Shim);
    fn sv_wire_heard_note(heard: *mut Heard, encap: *const Encap, now: u64);
    fn sv_wire_heard_sent(heard: *mut Heard, now: u64);
    fn sv_wire_heard_version(heard: *const Heard, most: u8, now: u64) -> u8;
    fn sv_wire_heard_age(heard: *const Heard, now: u64) -> u32;
    fn sv_wire_arrives(packet: *mut crate::Packet, outer: u8, wire: u8) -> c_int;
    fn sv_wire_departs(packet: *const crate::Packet) -> u8;
}

impl Shim {
    /// A report of virtual congestion control.
    pub const REPORT: u8 = 1;
    /// The packet whose headers follow was dropped.
    pub const DROP: u8 = 2;
    /// To be answered by [`Shim::REPLY`].
    pub const PROBE: u8 = 3;
    pub const REPLY: u8 = 4;
    /// Of a path, one way.
    pub const DELAY: u8 = 5;
    /// Dropped packets are to be sent again.
    pub const AGAIN: u8 = 6;

    /// `None` if the type is not known: to be ignored.
    pub fn read(bytes: &[u8; 8]) -> Option<Shim> {
        let mut shim = Shim::default();
        // SAFETY: reads eight bytes and writes one struct.
        (unsafe { sv_wire_shim_read(bytes.as_ptr(), &mut shim) } != 0).then_some(shim)
    }

    pub fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        // SAFETY: reads one struct and writes eight bytes.
        unsafe { sv_wire_shim_write(bytes.as_mut_ptr(), self) };
        bytes
    }
}

impl Heard {
    /// A frame of the peer came.
    pub fn note(&mut self, encap: &Encap, now_ns: u64) {
        // SAFETY: reads one struct and writes another.
        unsafe { sv_wire_heard_note(self, encap, now_ns) }
    }

    /// A frame is sent to the peer.
    pub fn note_sent(&mut self, now_ns: u64) {
        // SAFETY: writes one struct.
        unsafe { sv_wire_heard_sent(self, now_ns) }
    }

    /// Had its last frame no metadata?
    pub fn is_plain(&self) -> bool {
        self.plain != 0
    }

    /// How long ago something was sent to the peer, seconds, to within two ticks, up to 19 hours; `None`: never.
    pub fn sent_seconds(&self, now_ns: u64) -> Option<f64> {
        let ticks = ((now_ns >> TICK_SHIFT) as u16).wrapping_sub(self.sent);
        // What was sent in tick 0 counts as sent in the next.
        let ticks = if ticks == u16::MAX { 0 } else { ticks };
        (self.sent != 0).then(|| f64::from(ticks) * TICK)
    }

    /// Ticks of 2^30 ns (1.07 s) since the peer was heard. Of no meaning if it never was.
    pub fn age_ticks(&self, now_ns: u64) -> u32 {
        // SAFETY: reads one struct.
        unsafe { sv_wire_heard_age(self, now_ns) }
    }

    /// How long ago the peer was heard, seconds, to within a tick; `None`: never.
    pub fn age_seconds(&self, now_ns: u64) -> Option<f64> {
        (self.version != 0).then(|| f64::from(self.age_ticks(now_ns)) * TICK)
    }

    /// The version to speak to the peer, if up to `most` is allowed.
    pub fn version(&self, most: u8, now_ns: u64) -> u8 {
        // SAFETY: reads one struct.
        unsafe { sv_wire_heard_version(self, most, now_ns) }
    }
}

/// A packet leaves the tunnel, with this outer codepoint: fills in what the stages are to know of marks, and what the guest will see
/// if no stage objects (`datapath/ecn.h`). `wire`: [`version`](crate::version). False if the packet must be dropped.
pub fn arrives(packet: &mut crate::Packet, outer: u8, wire: u8) -> bool {
    // SAFETY: reads and writes one struct.
    unsafe { sv_wire_arrives(packet, outer, wire) != 0 }
}

/// The outer codepoint of a packet that enters the tunnel.
pub fn departs(packet: &crate::Packet) -> u8 {
    // SAFETY: reads one struct.
    unsafe { sv_wire_departs(packet) }
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
    fn the_layout_of_version_2_is_that_of_the_documentation() {
        assert_eq!(Encap { speaks2: 1, ..Encap::new(7, 1) }.pack(), (0x0814_0000, 0x0000_0700));
        assert_eq!(Encap { shim: 1, has_cell: 1, cell: 9, ..Encap::new(7, 2) }.pack(), (0x082c_0000, 0x0000_0709));
        let marks = Encap { feedback: 3, path: 0x12, value: 0x34, ..Encap::new(7, 2) };
        assert_eq!((marks.pack(), Encap::unpack(0x0823_1234, 0x0700)), ((0x0823_1234, 0x0000_0700), Some(marks)));
        let report = Shim { kind: Shim::REPORT, value: 0x01_0203, marked: 0x04_0506, ..Shim::default() };
        assert_eq!(report.bytes(), [1, 0, 1, 2, 3, 4, 5, 6]);
        let drop = Shim { kind: Shim::DROP, detail: 1, value: 1448, ..Shim::default() };
        assert_eq!(drop.bytes(), [2, 1, 0, 0, 0, 0, 5, 0xa8]);
        for kind in [Shim::PROBE, Shim::REPLY, Shim::DELAY, Shim::AGAIN] {
            let shim = Shim { kind, id: 0x1234, value: 0x0506_0708, ..Shim::default() };
            assert_eq!(shim.bytes(), [kind, 0, 0x12, 0x34, 5, 6, 7, 8]);
            assert_eq!(Shim::read(&shim.bytes()), Some(shim));
        }
        assert_eq!((Shim::read(&[0; 8]), Shim::read(&[7, 0, 0, 0, 0, 0, 0, 0])), (None, None));
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
        /// Whoever claims something under a peer's address: it counts until the peer is heard again, or for a minute.
        #[test]
        fn a_claim_lasts_no_longer_than_the_next(claims in proptest::collection::vec((0u8..4, 0u64..100_000_000_000), 1..50),
                                                 later in 0u64..100_000_000_000, most in 0u8..3) {
            let mut heard = Heard::default();
            prop_assert_eq!(heard.version(most, later), most.min(1), "nobody was heard");
            let mut now = 0;
            for (version, pause) in &claims {
                now += pause;
                let said = Encap { speaks2: u8::from(*version == 3), ..Encap::new(1, *version) };
                heard.note(&Encap { version: if *version == 3 { 1 } else { *version }, ..said }, now);
                prop_assert_eq!(heard.version(2, now), if *version >= 2 { 2 } else { 1 });
            }
            let spoken = heard.version(most, now + later);
            prop_assert!(spoken <= most && (spoken == 2 || spoken == most.min(1)));
            if later > 62 << 30 {
                prop_assert_eq!(spoken, most.min(1));
            }
        }

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
