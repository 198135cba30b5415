use super::*;
use kernel::state::fastlane::{FastKey, FAST_UNDERLAY};
use proptest::prelude::*;

const MSS: u32 = 1000;
const SEQ: u32 = 7_000;
/// Options of 12 bytes, as timestamps are.
const L4: u8 = 32;

/// A record of a segment of this payload, with `before` bytes in front of the guest's IP header.
fn record(family: u8, payload: u32, size: u16, before: u32, unfinished: bool) -> Vec<u8> {
    let ip: u8 = if family == 4 { 20 } else { 40 };
    let mut header = vec![0u8; usize::from(ip + L4)];
    header[0] = family << 4 | if family == 4 { 5 } else { 0 };
    if family == 4 {
        header[4..6].copy_from_slice(&0xfffe_u16.to_be_bytes());
        header[9] = 6;
        header[12..20].copy_from_slice(&[10, 1, 1, 2, 10, 1, 2, 3]);
    } else {
        header[6] = 6;
        header[8..40].iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
    }
    let tcp = &mut header[usize::from(ip)..];
    tcp[..8].copy_from_slice(&[0x10, 0, 0, 80, 0, 0, 0x1b, 0x58]);
    tcp[12] = L4 << 2;
    tcp[13] = tcp::ACK | tcp::PSH | tcp::FIN | tcp::CWR;
    let data: Vec<u8> = (0..payload).map(|n| (n / 7) as u8).collect();
    let drop = FastDrop {
        key: FastKey { port: 9, ..FastKey::default() },
        seq: SEQ,
        payload,
        segment_size: size,
        tcp_flags: tcp[13],
        place: FAST_UNDERLAY,
        family,
        ip_header_len: ip,
        l4_header_len: L4,
        unfinished: unfinished.into(),
        ethernet: [2; 14],
        at: before,
        len: before + u32::from(ip + L4) + payload,
        ..FastDrop::default()
    };
    [drop.as_bytes(), &vec![0xee; before as usize], &header, &data, &[0; 4]].concat()
}

fn ip_of(frame: &Frame) -> &[u8] {
    &frame.bytes[14..]
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[test]
fn packets_are_asked_about_as_the_kernel_would_have_cut_them() {
    let record = record(4, 2_500, MSS as u16, 50, true);
    let segment = Segment::read(&record).unwrap();
    assert_eq!(segment.packets(), 3);
    let calls: Vec<_> = (0..3).map(|n| segment.call(n, 0)).map(|c| (c.seq, c.payload, c.tcp_flags)).collect();
    let (first, last) = (tcp::ACK | tcp::CWR, tcp::ACK | tcp::PSH | tcp::FIN);
    assert_eq!(calls, [(7_000, 1_000, first), (8_000, 1_000, tcp::ACK), (9_000, 500, last)]);
}

#[test]
fn some_packets_of_a_segment_become_a_smaller_one() {
    for family in [4, 6] {
        let record = record(family, 3_500, MSS as u16, 50, true);
        let segment = Segment::read(&record).unwrap();
        let frame = segment.frame(1, 2).unwrap();
        let ip = ip_of(&frame);
        let l4 = usize::from(segment.drop.ip_header_len);
        assert_eq!(frame.bytes.len(), 14 + l4 + 32 + 2_000);
        assert_eq!(&frame.bytes[..14], [2; 14]);
        match family {
            4 => {
                assert_eq!((word(ip, 2), word(ip, 4)), (20 + 32 + 2_000, 0xffff), "length, identification");
                assert_eq!(Sum::default().bytes(&ip[..20]).finish(), 0, "header checksum");
            }
            _ => assert_eq!(word(ip, 4), 32 + 2_000),
        }
        assert_eq!(ip[l4 + 4..l4 + 8], 8_000_u32.to_be_bytes());
        assert_eq!(ip[l4 + 13], tcp::ACK, "neither the first packet nor the last");
        let pseudo = Sum::default().bytes(if family == 4 { &ip[12..20] } else { &ip[8..40] }).word(6).word(2_032);
        assert_eq!(word(ip, l4 + 16), !pseudo.finish());
        assert_eq!(ip[l4 + 32..], (1_000..3_000_u32).map(|n| (n / 7) as u8).collect::<Vec<_>>());
        let h = frame.header;
        let kind = if family == 4 { gso::TCPV4 } else { gso::TCPV6 };
        assert_eq!((h.flags, h.gso_type, h.gso_size), (VnetHeader::NEEDS_CSUM, kind, 1_000));
        assert_eq!((h.csum_start, h.csum_offset, h.hdr_len), (14 + l4 as u16, 16, 14 + l4 as u16 + 32 + 64));
        let one = segment.frame(3, 1).unwrap();
        assert_eq!((one.header.gso_type, one.bytes.len()), (gso::NONE, 14 + l4 + 32 + 500));
        assert_eq!(ip_of(&one)[l4 + 13], tcp::ACK | tcp::PSH | tcp::FIN);
    }
}

/// Where the checksum is whole, it is the guest's word for its data, and stays.
#[test]
fn a_checksum_that_is_finished_is_the_guests_own() {
    let mut one = record(4, 900, 0, 0, false);
    let check_at = size_of::<FastDrop>() + 20 + 16;
    one[check_at..check_at + 2].copy_from_slice(&[0xab, 0xcd]);
    let frame = Segment::read(&one).unwrap().frame(0, 1).unwrap();
    assert_eq!((frame.header, word(ip_of(&frame), 36)), (VnetHeader::default(), 0xabcd));
    let cut = record(4, 2_500, MSS as u16, 0, false);
    assert_eq!(Segment::read(&cut).unwrap().frame(1, 1), None);
}

#[test]
fn what_edges_said_in_it_is_taken_back() {
    let at = size_of::<FastDrop>() + 20 + 12;
    for (said, ecn) in [(EDGE, 0), (EDGE | ECT, 2), (0, 2)] {
        let mut one = record(4, 900, 0, 0, false);
        one[size_of::<FastDrop>() + 1] = 2;
        one[at] |= said;
        let spoken = std::mem::offset_of!(FastDrop, spoken);
        one[spoken] = 1;
        let frame = Segment::read(&one).unwrap().frame(0, 1).unwrap();
        let ip = ip_of(&frame);
        assert_eq!((ip[32] & 0x0f, ip[1] & 3), (0, ecn), "{said:#x}");
        let before = u16::from_be_bytes([one[at], one[at + 1]]);
        let expected = if said == 0 { 0 } else { update(0, before, word(ip, 32)) };
        assert_eq!(word(ip, 36), expected);
        one[at] |= EDGE | REPORT;
        assert_eq!(Segment::read(&one).unwrap().frame(0, 1), None, "a report has been sent for good");
    }
}

/// A receiver that has accepted later ones drops what bears an old one.
#[test]
fn a_packet_gets_a_later_timestamp_and_never_an_earlier_one() {
    for unfinished in [false, true] {
        let mut one = record(4, 900, 0, 0, unfinished);
        let option = size_of::<FastDrop>() + 40;
        one[option..option + 8].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0x10, 0x20]);
        let before = Segment::read(&one).unwrap().frame(0, 1).unwrap();
        let mut frame = before.clone();
        frame.stamp(0x1020);
        frame.stamp(0xffff_0000);
        assert_eq!(frame, before, "not later");
        frame.stamp(0x0003_0001);
        assert_eq!(ip_of(&frame)[44..48], [0, 3, 0, 1]);
        let of = |frame: &Frame| Sum::default().bytes(&ip_of(frame)[20..]).finish();
        match unfinished {
            false => assert_eq!(of(&frame), of(&before), "the checksum is as right as it was"),
            true => assert_eq!(word(ip_of(&frame), 36), word(ip_of(&before), 36)),
        }
        one[option] = 2;
        let mut other = Segment::read(&one).unwrap().frame(0, 1).unwrap();
        let before = other.clone();
        other.stamp(0x0003_0001);
        assert_eq!(other, before, "another option");
    }
}

/// What looks like a timestamp elsewhere is left alone.
#[test]
fn a_timestamp_is_behind_extension_headers_of_ipv6() {
    let mut one = record(6, 900, 0, 0, true);
    let (drop, options) = (size_of::<FastDrop>(), [6u8, 0, 1, 4, 0, 0, 0, 0]);
    let mut fields = FastDrop::from_bytes(&one[..drop]).unwrap();
    fields.ip_header_len += 8;
    fields.len += 8;
    fields.tcp_flags = tcp::ACK | tcp::PSH;
    one[..drop].copy_from_slice(fields.as_bytes());
    one[drop + 6] = 60;
    one.splice(drop + 40..drop + 40, options);
    let tcp = drop + 48;
    // Read 8 bytes too early, the header has 60 bytes, and an option of 24 is in front of these bytes of payload.
    one[tcp + 13] = fields.tcp_flags;
    one[tcp + 4..tcp + 8].copy_from_slice(&[0xf0, 0, 0x1b, 0x58]);
    one[tcp + 20..tcp + 28].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0x10, 0x20]);
    one[tcp + 36..tcp + 42].copy_from_slice(&[8, 10, 0, 0, 0, 1]);
    let before = Segment::read(&one).unwrap().frame(0, 1).unwrap();
    let mut frame = before.clone();
    frame.stamp(0x0003_0001);
    assert_eq!(frame.bytes[86..90], [0, 3, 0, 1]);
    frame.bytes[86..90].copy_from_slice(&before.bytes[86..90]);
    assert_eq!(frame, before);
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    let good = record(6, 2_500, MSS as u16, 50, true);
    assert!(Segment::read(&good).is_some());
    for len in 0..good.len() - 4 {
        assert!(Segment::read(&good[..len]).is_none(), "{len} bytes");
    }
    let tiny = record(4, 2_500, 10, 0, true);
    assert!(Segment::read(&tiny).is_none(), "nobody makes 250 packets of that");
}

proptest! {
    #[test]
    fn no_record_makes_a_frame_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        payload in 0u32..200, size in 0u16..100, ip in 0u8..80, first in 0u32..200, count in 0u32..200,
    ) {
        if let Some(mut drop) = bytes.get(..size_of::<FastDrop>()).and_then(FastDrop::from_bytes) {
            drop = FastDrop { payload, segment_size: size, ip_header_len: ip, l4_header_len: 20, len: 150, at: 14, ..drop };
            bytes[..size_of::<FastDrop>()].copy_from_slice(drop.as_bytes());
        }
        if let Some(segment) = Segment::read(&bytes) {
            let _ = segment.call(first, 0);
            if let Some(frame) = segment.frame(first, count) {
                prop_assert!(frame.bytes.len() <= bytes.len());
            }
        }
    }
}
