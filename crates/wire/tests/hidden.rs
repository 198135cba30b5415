//! The hidden overlay: a guest's packet, between edges, and the guest's again.

use proptest::prelude::*;
use wire::checksum::Sum;
use wire::hidden::{self, Hidden};
use wire::{ecn, emit, parse, proto, tcp, v4, version, Packet, TcpOptions};

const ETHERNET: usize = 14;
const IP: usize = ETHERNET;
const TCP: usize = ETHERNET + 20;
const LOCAL: u32 = 0xc612_0001;
const REMOTE: u32 = 0xc612_0002;
const MTU: u16 = 1500;

fn data_packet(payload: u32) -> Packet {
    Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 1, 2]),
        seq: 0xffff_fff0,
        ack: 77,
        payload,
        sport: 40_000,
        dport: 5001,
        window: 502,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK | tcp::PSH,
        ip_header_len: 20,
        l4_header_len: 20,
        ..Packet::default()
    }
}

fn with_timestamps() -> TcpOptions {
    TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() }
}

/// A frame with a payload that is not zero, and whole checksums.
fn frame_of(packet: &Packet, options: &TcpOptions) -> Vec<u8> {
    let mut frame = emit(packet, options).unwrap();
    let at = TCP + usize::from(frame[TCP + 12] >> 4) * 4;
    frame[at..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 31 + i / 251) as u8);
    finish(&mut frame);
    frame
}

/// The sum of the pseudo header, as offload leaves it in TCP's field.
fn pseudo(frame: &[u8]) -> Sum {
    Sum::default().bytes(&frame[IP + 12..IP + 20]).word(6).word((frame.len() - TCP) as u32)
}

fn leave_undone(frame: &mut [u8]) {
    let sum = !pseudo(frame).finish();
    frame[TCP + 16..TCP + 18].copy_from_slice(&sum.to_be_bytes());
}

/// As a NIC does.
fn finish(frame: &mut [u8]) {
    leave_undone(frame);
    let sum = Sum::default().bytes(&frame[TCP..]).finish();
    frame[TCP + 16..TCP + 18].copy_from_slice(&sum.to_be_bytes());
}

fn checksums_hold(frame: &[u8]) -> bool {
    Sum::default().bytes(&frame[IP..TCP]).finish() == 0 && pseudo(frame).bytes(&frame[TCP..]).finish() == 0
}

/// Cuts a frame with an unfinished checksum into packets of `size` bytes of payload, as a NIC does with TSO.
fn cut(frame: &[u8], size: usize) -> Vec<Vec<u8>> {
    let start = TCP + usize::from(frame[TCP + 12] >> 4) * 4;
    let payload = &frame[start..];
    let seq = u32::from_be_bytes(frame[TCP + 4..TCP + 8].try_into().unwrap());
    let count = payload.len().div_ceil(size).max(1);
    (0..count)
        .map(|n| {
            let part = &payload[n * size..payload.len().min((n + 1) * size)];
            let mut packet = [&frame[..start], part].concat();
            let total = (packet.len() - IP) as u16;
            packet[IP + 2..IP + 4].copy_from_slice(&total.to_be_bytes());
            packet[IP + 10..IP + 12].fill(0);
            let sum = Sum::default().bytes(&packet[IP..TCP]).finish();
            packet[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
            packet[TCP + 4..TCP + 8].copy_from_slice(&seq.wrapping_add((n * size) as u32).to_be_bytes());
            if n + 1 < count {
                packet[TCP + 13] &= !(tcp::PSH | tcp::FIN);
            }
            finish(&mut packet);
            packet
        })
        .collect()
}

/// What the source edge makes of a frame; `p` are its headers with what stages have said.
fn enter(frame: &[u8], mut p: Packet, undone: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let option = hidden::swap(&mut p, LOCAL, REMOTE, 12345).bytes();
    hidden::enter(&mut frame, &p, &option, undone).unwrap();
    frame
}

/// What the destination edge makes of it: its headers as a host's driver has them, and the frame.
fn leave(frame: &[u8], wire: u8, undone: bool) -> (Packet, Vec<u8>) {
    let mut frame = frame.to_vec();
    let mut p = parse(&frame).unwrap();
    assert!(hidden::is(&p, REMOTE));
    (p.wire, p.outer_ecn) = (wire, p.ecn);
    let option = hidden::option(&frame, &p).unwrap();
    hidden::restore(&mut p, &Hidden::read(&option).unwrap());
    hidden::leave(&mut frame, &p, undone).unwrap();
    (p, frame)
}

#[test]
fn the_option_has_the_bytes_of_the_page() {
    let frame = frame_of(&data_packet(4), &with_timestamps());
    let mut p = parse(&frame).unwrap();
    (p.wire, p.outer_ecn, p.label, p.cell, p.has_cell) = (version::TWO, ecn::ECT0, 0xc007, 0x1234, 1);
    (p.feedback, p.feedback_path, p.feedback_value) = (1, 9, 0);
    let sent = enter(&frame, p, false);
    #[rustfmt::skip]
    assert_eq!(sent[TCP + 20..TCP + 40], [
        254, 20, 0x29, 0x34, 9, 0,
        0x9c, 0x40, 0x13, 0x89,
        10, 0, 0, 1, 10, 0, 1, 2,
        0, 0,
    ]);
    assert_eq!(sent[IP + 1] & 3, ecn::ECT0, "the field of IP is the edges'");
    assert_eq!(sent[IP + 12..IP + 20], [198, 18, 0, 1, 198, 18, 0, 2]);
    assert_eq!(sent[TCP..TCP + 4], [0xc0, 0x07, 0x1d, 0x2f], "the label, 7471");
    assert_eq!(sent[TCP + 40..TCP + 44], frame[TCP + 20..TCP + 24], "the guest's options follow");
    assert_eq!(sent.len(), frame.len() + hidden::LEN);
    assert!(checksums_hold(&sent));
    let (back, restored) = leave(&sent, version::TWO, false);
    assert_eq!(restored, frame);
    assert_eq!((back.label, back.cell, back.has_cell, back.ecn, back.outer_ecn), (0xc007, 0x34, 1, 0, ecn::ECT0));
}

#[test]
fn without_a_label_the_flow_names_the_port_and_no_path() {
    let frame = frame_of(&data_packet(100), &TcpOptions::default());
    let sent = parse(&enter(&frame, parse(&frame).unwrap(), false)).unwrap();
    assert!((0x8000..0xc000).contains(&sent.sport), "{:#x}", sent.sport);
    assert_eq!(leave(&enter(&frame, parse(&frame).unwrap(), false), version::ONE, false).0.label, 0);
}

/// What leaves the header 20 bytes, and what a packet of the MTU.
#[test]
fn what_has_room_and_what_has_not() {
    let header = |l4_header_len: u8, flags: u8| Packet { l4_header_len, tcp_flags: flags, ..data_packet(0) };
    let segment = |payload, segment_size| Packet { segment_size, l4_header_len: 32, ..data_packet(payload) };
    for (packet, fits, why) in [
        (header(40, tcp::SYN), true, "a SYN with MSS, SACK, timestamps and window scale"),
        (header(44, tcp::SYN), false, "a SYN with a Fast Open cookie beside them"),
        (header(32, tcp::ACK), true, "timestamps"),
        (header(44, tcp::ACK), false, "timestamps and one SACK block"),
        (header(40, tcp::ACK), true, "two SACK blocks without timestamps"),
        (header(16, tcp::ACK), false, "no TCP header"),
        (segment(1428, 0), true, "a packet of the MTU"),
        (segment(1429, 0), false, "a byte more"),
        (segment(14_280, 1428), true, "a segment of ten"),
        (segment(14_290, 1429), false, "a segment of larger ones"),
        (segment(65_463, 1428), true, "the longest segment"),
        (segment(65_464, 1428), false, "more than IP's length can say"),
        (Packet { proto: proto::UDP, l4_header_len: 8, ..data_packet(10) }, false, "UDP"),
        (Packet { family: 6, ip_header_len: 40, ..data_packet(10) }, false, "IPv6"),
        (Packet { truncated: 1, ..data_packet(10) }, false, "a packet that is cut off"),
    ] {
        assert_eq!(hidden::fits(&packet, MTU), fits, "{why}");
    }
    assert_eq!(hidden::mss(MTU), 1440);
}

#[test]
fn nothing_but_what_an_edge_writes_is_an_option() {
    let good = Hidden { sport: 1, dport: 2, saddr: 3, daddr: 4, version: 2, ecn: 1, ..Hidden::default() }.bytes();
    assert!(Hidden::read(&good).is_some());
    let with = |at: usize, byte: u8| {
        let mut option = good;
        option[at] = byte;
        Hidden::read(&option)
    };
    for (at, byte, why) in [
        (0, 253, "another kind"),
        (0, 1, "padding"),
        (1, 18, "another length"),
        (1, 0, "no length"),
        (2, 0x00, "version 0"),
        (2, 0x30, "an unknown version"),
        (2, 0x24, "a bit that means nothing"),
        (2, 0x23, "marks counted, which need a tunnel"),
        (2, 0x10, "version 1 with a codepoint"),
        (3, 1, "a cell that is not announced"),
        (18, 4, "no codepoint"),
        (19, 1, "a byte that means nothing"),
    ] {
        assert_eq!(with(at, byte), None, "{why}");
    }
}

#[test]
fn a_path_is_kept_apart_from_the_guests_codepoint() {
    for (guest, outer, version) in [
        (ecn::NOT_ECT, ecn::CE, version::TWO),
        (ecn::ECT0, ecn::CE, version::TWO),
        (ecn::ECT1, ecn::ECT1, version::TWO),
        (ecn::ECT0, ecn::ECT0, version::ONE),
    ] {
        let frame = frame_of(&Packet { ecn: guest, ..data_packet(10) }, &TcpOptions::default());
        let p = Packet { wire: version, outer_ecn: outer, ..parse(&frame).unwrap() };
        let (back, restored) = leave(&enter(&frame, p, false), version, false);
        assert_eq!((back.ecn, back.outer_ecn, restored), (guest, outer, frame));
    }
}

#[test]
fn a_lower_mss_keeps_the_sum() {
    let syn = Packet { tcp_flags: tcp::SYN, mss: 1460, wscale: 8, ..data_packet(0) };
    let mut frame = frame_of(&syn, &with_timestamps());
    let p = parse(&frame).unwrap();
    assert!(hidden::clamp(&mut frame, &p, 1440, false));
    assert!(checksums_hold(&frame) && parse(&frame).unwrap().mss == 1440);
    let mut undone = frame_of(&syn, &with_timestamps());
    leave_undone(&mut undone);
    assert!(hidden::clamp(&mut undone, &p, 1440, true));
    finish(&mut undone);
    assert_eq!(undone, frame);
    assert!(!hidden::clamp(&mut frame, &p, 1440, false), "never raised");
}

#[test]
fn a_frame_that_is_not_the_packets_is_left_alone() {
    let frame = frame_of(&data_packet(10), &TcpOptions::default());
    let mut p = parse(&frame).unwrap();
    let option = hidden::swap(&mut p, LOCAL, REMOTE, 1).bytes();
    for other in
        [Packet { ip_header_len: 16, ..p }, Packet { ip_header_len: 255, ..p }, Packet { l4_header_len: 60, ..p }]
    {
        let mut same = frame.clone();
        assert!(hidden::enter(&mut same, &other, &option, false).is_err());
        assert_eq!(same, frame);
    }
    for end in 0..TCP + 20 {
        let mut short = frame[..end].to_vec();
        assert!(hidden::enter(&mut short, &p, &option, false).is_err(), "{end}");
        assert_eq!(short, frame[..end]);
        assert_eq!(hidden::option(&frame[..end], &p), None);
    }
}

fn any_packet() -> impl Strategy<Value = (Packet, TcpOptions)> {
    let words = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let halves = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u16>());
    let small = (0u32..1400, any::<u8>(), 0u8..4, 0u8..15);
    (words, halves, small, any::<Option<(u32, u32)>>(), any::<bool>()).prop_map(
        |((saddr, daddr, seq, ack), (sport, dport, window, mss), (payload, flags, ecn, wscale), timestamps, sack)| {
            let (saddr, daddr) = ([0, 0, 0xffff, saddr], [0, 0, 0xffff, daddr]);
            let packet = Packet { saddr, daddr, seq, ack, payload, sport, dport, window, ..data_packet(0) };
            let packet = Packet { payload, tcp_flags: flags, ecn, ..packet };
            let syn = packet.has_flags(tcp::SYN);
            let packet = if syn { Packet { mss, wscale, payload: 0, ..packet } } else { packet };
            let n_sack = u8::from(sack && !syn && timestamps.is_none());
            let options = TcpOptions {
                timestamps,
                sack_permitted: sack && timestamps.is_none(),
                n_sack,
                ..TcpOptions::default()
            };
            (packet, options)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any packet with room: every byte comes back, and between edges every sum is right.
    #[test]
    fn swapped_and_restored_is_the_same((packet, options) in any_packet(), label: u16, outer in 0u8..4, two: bool,
                                        cell: Option<u32>, told: (u8, u8, u8), undone: bool) {
        let mut frame = frame_of(&packet, &options);
        if undone {
            leave_undone(&mut frame);
        }
        let version = if two { version::TWO } else { version::ONE };
        let p = Packet {
            wire: version,
            outer_ecn: outer,
            label,
            cell: cell.unwrap_or(0),
            has_cell: u8::from(cell.is_some()),
            feedback: told.0 % 3,
            feedback_path: told.1,
            feedback_value: told.2,
            ..parse(&frame).unwrap()
        };
        prop_assume!(hidden::fits(&p, MTU));
        let mut sent = enter(&frame, p, undone);
        if undone {
            let (mut pseudo_only, mut whole) = (sent.clone(), sent.clone());
            leave_undone(&mut pseudo_only);
            prop_assert_eq!(&sent, &pseudo_only, "the sum of the pseudo header is right");
            finish(&mut whole);
            prop_assert!(checksums_hold(&whole));
        } else {
            prop_assert!(checksums_hold(&sent));
        }
        let (back, restored) = leave(&sent, version, undone);
        prop_assert_eq!(&restored, &frame);
        let same = Packet { ip_header_len: 20, l4_header_len: p.l4_header_len, ..p };
        prop_assert_eq!(back.flow_key(), same.flow_key());
        prop_assert_eq!((back.wire, back.ecn, back.has_cell, back.cell as u8), (p.wire, p.ecn, p.has_cell, p.cell as u8));
        if two || p.feedback != 0 {
            prop_assert_eq!((back.feedback, back.feedback_path, back.feedback_value), (p.feedback, p.feedback_path, p.feedback_value));
        }
        prop_assert_eq!(parse(&restored), parse(&frame));
        // A sum that was wrong stays wrong.
        if !undone {
            sent[TCP + 4] ^= 1;
            prop_assert!(!checksums_hold(&leave(&sent, version, false).1));
        }
    }

    /// A segment that the NIC cuts: its packets are those that it would have been cut into without the overlay.
    #[test]
    fn packets_of_a_swapped_segment_are_those_of_the_segment(payload in 1u32..20_000, size in 500u16..1428, mark: bool) {
        let mut frame = frame_of(&data_packet(payload), &with_timestamps());
        leave_undone(&mut frame);
        let p = Packet { wire: version::TWO, outer_ecn: ecn::ECT0, label: 0xc001, segment_size: size, ..parse(&frame).unwrap() };
        prop_assert!(hidden::fits(&p, MTU));
        let (before, between) = (cut(&frame, size.into()), cut(&enter(&frame, p, true), size.into()));
        prop_assert_eq!(before.len(), between.len());
        for (guest, mut sent) in before.into_iter().zip(between) {
            prop_assert!(checksums_hold(&sent) && sent.len() <= ETHERNET + usize::from(MTU));
            if mark {
                // A switch repairs the header's sum.
                let old = u16::from_be_bytes([sent[IP], sent[IP + 1]]);
                sent[IP + 1] |= ecn::CE;
                let sum = wire::checksum::update(u16::from_be_bytes([sent[IP + 10], sent[IP + 11]]), old, old | 3);
                sent[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
            }
            let (back, restored) = leave(&sent, version::TWO, false);
            prop_assert_eq!(&restored, &guest);
            prop_assert_eq!(back.outer_ecn == ecn::CE, mark);
        }
    }

    #[test]
    fn any_bytes_and_any_headers_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), option: [u8; 20],
                                              ip_header_len: u8, l4_header_len: u8, undone: bool, limit: u16) {
        if let Some(read) = Hidden::read(&option) {
            prop_assert_eq!(read.bytes(), option);
        }
        if bytes.len() > 47 && undone {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        }
        let p = Packet { ip_header_len, l4_header_len, ..data_packet(0) };
        let _ = hidden::option(&bytes, &p);
        let _ = hidden::clamp(&mut bytes.clone(), &p, limit, undone);
        let mut longer = bytes.clone();
        match hidden::enter(&mut longer, &p, &option, undone) {
            Ok(()) => prop_assert_eq!(longer.len(), bytes.len() + 20),
            Err(_) => prop_assert_eq!(&longer, &bytes),
        }
        let _ = hidden::leave(&mut bytes, &p, undone);
    }
}
