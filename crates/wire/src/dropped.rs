//! What edges tell one another of dropped packets: the safe face of `datapath/dropped.h`, described in `docs/wire.md`.

use crate::checksum::Sum;
use crate::packet::{proto, Packet};
use crate::{emit, EmitError, TcpOptions};
use std::ffi::c_int;

const ETHERNET: usize = 14;
/// `SV_DROPPED_PROTO`, `SV_DROPPED_TCP_LEN`
const PROTO: u8 = 253;
const TCP_LEN: usize = 20;

extern "C" {
    fn sv_wire_dropped_read(shim: *const u8, frame: *const u8, len: usize, packet: *mut Packet) -> c_int;
    fn sv_wire_dropped_write(shim: *mut u8, tcp: *mut u8, packet: *const Packet, kind: u8, detail: u8);
    fn sv_wire_dropped_age(ns: u64) -> u16;
    fn sv_wire_dropped_at(age: u16, now: u64) -> u64;
}

/// What [`Dropped`] says in the place of the window, of packets that were dropped so long ago, ns.
pub fn age(ns: u64) -> u16 {
    // SAFETY: plain numbers.
    unsafe { sv_wire_dropped_age(ns) }
}

/// When that was, by the clock of who hears it at `now`, ns; 0: nobody knows.
pub fn at(age: u16, now: u64) -> u64 {
    // SAFETY: plain numbers.
    unsafe { sv_wire_dropped_at(age, now) }
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// [`Shim::DROP`](crate::encap::Shim::DROP), from the edge of the packets' destination; [`Shim::AGAIN`](crate::encap::Shim::AGAIN), to
    /// it.
    pub kind: u8,
    /// Of the shim.
    pub detail: u8,
    /// As their sender has sent them: addresses, ports, number, ACK, flags, payload and segment size. The window is [`age`].
    pub packet: Packet,
}

impl Dropped {
    /// Payload bytes that one message can name are at most so many times [`Packet::segment_size`].
    pub const MAX_PACKETS: u32 = 128;

    /// The shim, and the inner frame that follows it.
    ///
    /// # Errors
    /// As [`emit()`].
    pub fn frame(&self) -> Result<([u8; 8], Vec<u8>), EmitError> {
        let p = self.packet;
        let there = Packet { proto: proto::TCP, family: p.family, saddr: p.saddr, daddr: p.daddr, ..Packet::default() };
        let carrier = match self.kind {
            crate::encap::Shim::DROP => Packet { saddr: p.daddr, daddr: p.saddr, ..there },
            _ => there,
        };
        let mut frame = emit(&carrier, &TcpOptions::default())?;
        let tcp = frame.len() - TCP_LEN;
        let mut shim = [0; 8];
        // SAFETY: writes eight bytes, and the twenty of the TCP header.
        unsafe { sv_wire_dropped_write(shim.as_mut_ptr(), frame[tcp..].as_mut_ptr(), &p, self.kind, self.detail) };
        let ip = &mut frame[ETHERNET..tcp];
        if p.family == 4 {
            ip[9] = PROTO;
            ip[10..12].fill(0);
            let check = Sum::default().bytes(ip).finish();
            ip[10..12].copy_from_slice(&check.to_be_bytes());
        } else {
            ip[6] = PROTO;
        }
        Ok((shim, frame))
    }

    /// `None` if the shim and the inner frame do not tell of dropped packets, or contradict themselves.
    pub fn read(shim: [u8; 8], frame: &[u8]) -> Option<Dropped> {
        let mut packet = Packet::default();
        // SAFETY: reads eight bytes, and at most `len` of the frame; writes one struct.
        let read = unsafe { sv_wire_dropped_read(shim.as_ptr(), frame.as_ptr(), frame.len(), &mut packet) };
        (read != 0).then_some(Dropped { kind: shim[0], detail: shim[1], packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encap::Shim;
    use crate::{tcp, v4};
    use proptest::prelude::*;

    fn packet() -> Packet {
        Packet {
            saddr: v4([10, 7, 1, 2]),
            daddr: v4([10, 7, 2, 2]),
            sport: 1000,
            dport: 80,
            seq: 0x0102_0304,
            ack: 0x0506_0708,
            payload: 2900,
            segment_size: 1448,
            window: 2,
            tcp_flags: tcp::ACK | tcp::PSH,
            proto: proto::TCP,
            family: 4,
            ..Packet::default()
        }
    }

    fn said(p: &Packet) -> Packet {
        let Packet { saddr, daddr, sport, dport, seq, ack, payload, segment_size, tcp_flags, proto, family, .. } = *p;
        Packet {
            saddr,
            daddr,
            sport,
            dport,
            seq,
            ack,
            payload,
            segment_size,
            tcp_flags,
            proto,
            family,
            window: p.window,
            ..Packet::default()
        }
    }

    #[test]
    fn the_layout_is_that_of_the_documentation() {
        let told = Dropped { kind: Shim::DROP, detail: 1, packet: packet() };
        let (shim, frame) = told.frame().unwrap();
        assert_eq!(shim, [2, 1, 5, 0xa8, 0, 0, 11, 84]);
        assert_eq!((frame.len(), &frame[12..14], frame[23]), (54, &[8, 0][..], 253));
        assert_eq!(&frame[26..34], &[10, 7, 2, 2, 10, 7, 1, 2], "from the packet's destination");
        assert_eq!(&frame[34..48], &[0x03, 0xe8, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18], "as it was sent");
        assert_eq!(&frame[48..], &[0, 2, 0, 0, 0, 0], "so long ago");
        assert_eq!(Sum::default().bytes(&frame[14..34]).finish(), 0, "the IP header's checksum");
        let again = Dropped { kind: Shim::AGAIN, detail: 1, packet: Packet { segment_size: 0, ..packet() } };
        let (shim, frame) = again.frame().unwrap();
        assert_eq!(shim, [6, 1, 0, 0, 0, 0, 11, 84]);
        assert_eq!(&frame[26..34], &[10, 7, 1, 2, 10, 7, 2, 2], "to it");
    }

    #[test]
    fn ages_are_never_less_than_they_are() {
        for (ns, units) in [(0, 1), (16_383, 1), (16_384, 2), (1_000_000_000, 61_036), (u64::MAX, 0xffff)] {
            assert_eq!(age(ns), units, "{ns}");
        }
        let now = 1 << 40;
        assert_eq!((at(0, now), at(1, now), at(2, 3 << 14), at(2, 1 << 15)), (0, now - 16_384, 16_384, 0));
    }

    #[test]
    fn what_contradicts_itself_says_nothing() {
        let at = |shim: [u8; 8], change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = Dropped { kind: shim[0], detail: 1, packet: packet() }.frame().unwrap().1;
            change(&mut frame);
            Dropped::read(shim, &frame).is_some()
        };
        let as_it_is = |_: &mut Vec<u8>| ();
        let table: [([u8; 8], bool, &str); 11] = [
            ([2, 1, 5, 0xa8, 0, 0, 11, 84], true, "two packets and a bit"),
            ([6, 0, 0, 0, 0, 0, 11, 84], true, "without a size they are one"),
            ([1, 1, 5, 0xa8, 0, 0, 11, 84], false, "a report"),
            ([3, 1, 5, 0xa8, 0, 0, 11, 84], false, "a probe"),
            ([7, 1, 5, 0xa8, 0, 0, 11, 84], false, "nobody's type"),
            ([2, 1, 0, 0, 0, 1, 0, 0], false, "more than an IP packet has"),
            ([2, 1, 0, 1, 0, 0, 0, 128], true, "as many packets as there may be"),
            ([2, 1, 0, 1, 0, 0, 0, 129], false, "one more"),
            ([2, 1, 0, 5, 0, 0, 0, 4], false, "packets larger than all"),
            ([2, 1, 0, 4, 0, 0, 0, 4], true, "one packet"),
            ([2, 1, 0, 0, 0, 0, 0, 0], false, "a pure ACK"),
        ];
        for (shim, right, what) in table {
            assert_eq!(at(shim, &as_it_is), right, "{what}");
        }
        let shim = [2, 1, 0, 0, 0, 0, 0, 0];
        assert!(at(shim, &|frame| frame[47] = tcp::SYN) && at(shim, &|frame| frame[47] = tcp::FIN));
        let shim = [2, 1, 0, 0, 0, 0, 0, 4];
        assert!(!at(shim, &|frame| frame[23] = proto::TCP), "another protocol");
        assert!(!at(shim, &|frame| frame.truncate(53)), "no whole header");
        assert!(!at(shim, &|frame| frame[12] = 9), "no IP");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seq: u32, ack: u32, ports: (u16, u16), flags: u8, v6: bool, drop: bool, detail: u8, window: u16,
                                   payload in 1u32..=0xffff, size in 0u16..) {
            let family = if v6 { 6 } else { 4 };
            let (saddr, daddr) = if v6 { ([1, 2, 3, 4], [5, 6, 7, 8]) } else { (packet().saddr, packet().daddr) };
            let segment_size = if u32::from(size) < payload && payload <= u32::from(size) * Dropped::MAX_PACKETS { size } else { 0 };
            let (sport, dport) = ports;
            let packet = said(&Packet { seq, ack, sport, dport, tcp_flags: flags, payload, segment_size, family, saddr, daddr, window, ..packet() });
            let told = Dropped { kind: if drop { Shim::DROP } else { Shim::AGAIN }, detail, packet };
            let (shim, frame) = told.frame().unwrap();
            let read = Dropped::read(shim, &frame).unwrap();
            prop_assert_eq!((read.kind, read.detail, said(&read.packet)), (told.kind, detail, packet));
            let parsed = crate::parse(&frame);
            prop_assert!(parsed.is_err(), "no guest's transport");
        }
    }
}
