//! Frames in, packets out, and back.

use proptest::prelude::*;
use wire::checksum::Sum;
use wire::{dirty, ecn, emit, emit_snapped, pack, parse, proto, reserved, tcp, v4, write_back, write_back_resized};
use wire::{set_later_timestamp, timestamp, Packet, ParseError, TcpOptions};

const ETHERNET: usize = 14;

fn data_packet() -> Packet {
    Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 1, 2]),
        seq: 0xffff_fff0,
        ack: 77,
        payload: 1448,
        sport: 40_000,
        dport: 5001,
        window: 502,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK | tcp::PSH,
        ecn: ecn::ECT0,
        ip_header_len: 20,
        l4_header_len: 20,
        ..Packet::default()
    }
}

/// Both checksums of an untruncated frame without extension headers, verified the receiver's way: the sum over what
/// they cover, checksum field included, is all ones.
fn checksums_hold(frame: &[u8]) -> bool {
    let ip = &frame[ETHERNET..];
    let (addresses, protocol, header) = match ip[0] >> 4 {
        4 => (&ip[12..20], ip[9], usize::from(ip[0] & 15) * 4),
        _ => (&ip[8..40], ip[6], 40),
    };
    let l4 = &ip[header..];
    let pseudo = Sum::default().bytes(addresses).word(u32::from(protocol)).word(l4.len() as u32);
    let header_holds = ip[0] >> 4 != 4 || Sum::default().bytes(&ip[..header]).finish() == 0;
    header_holds && pseudo.bytes(l4).finish() == 0
}

#[test]
fn emitted_data_segment_has_the_expected_bytes() {
    let packet = Packet { payload: 0, window: 0x0102, ..data_packet() };
    let frame = emit(&packet, &TcpOptions::default()).unwrap();
    #[rustfmt::skip]
    let expected = [
        0x02, 0, 10, 0, 1, 2, 0x02, 0, 10, 0, 0, 1, 0x08, 0x00,
        0x45, 0x02, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x25, 0xcc, 10, 0, 0, 1, 10, 0, 1, 2,
        0x9c, 0x40, 0x13, 0x89, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 77, 0x50, 0x18, 0x01, 0x02, 0xe9, 0xc0, 0, 0,
    ];
    assert_eq!(frame, expected);
}

#[test]
fn syn_options_survive_the_round_trip() {
    let syn = Packet { payload: 0, tcp_flags: tcp::SYN, mss: 8960, wscale: 8, l4_header_len: 44, ..data_packet() };
    let options = TcpOptions { sack_permitted: true, timestamps: Some((1, 2)), ..TcpOptions::default() };
    let frame = emit(&syn, &options).unwrap();
    assert_eq!(parse(&frame), Ok(syn));
    assert!(checksums_hold(&frame));
}

#[test]
fn window_scale_above_14_counts_as_14() {
    let syn = Packet { payload: 0, tcp_flags: tcp::SYN, wscale: 1, ..data_packet() };
    let mut frame = emit(&syn, &TcpOptions::default()).unwrap();
    assert_eq!(frame[54..58], [1, 3, 3, 0]);
    frame[57] = 200;
    assert_eq!(parse(&frame).unwrap().wscale, 15);
}

#[test]
fn options_of_a_segment_without_syn_are_not_read() {
    let syn = Packet { payload: 0, tcp_flags: tcp::SYN, mss: 1460, ..data_packet() };
    let mut frame = emit(&syn, &TcpOptions::default()).unwrap();
    frame[ETHERNET + 20 + 13] = tcp::ACK;
    assert_eq!(parse(&frame).unwrap().mss, 0);
}

#[test]
fn syn_option_list_ends_where_it_should() {
    let syn = Packet { payload: 0, tcp_flags: tcp::SYN, mss: 1460, wscale: 3, ..data_packet() };
    let frame = emit(&syn, &TcpOptions::default()).unwrap();
    let with_first_option = |kind: u8, size: u8| {
        let mut frame = frame.clone();
        frame[54..56].copy_from_slice(&[kind, size]);
        let packet = parse(&frame).unwrap();
        (packet.mss, packet.wscale)
    };
    assert_eq!(with_first_option(2, 4), (1460, 3));
    assert_eq!(with_first_option(0, 4), (0, 0), "end of list");
    assert_eq!(with_first_option(99, 4), (0, 3), "unknown options are stepped over");
    assert_eq!(with_first_option(99, 0), (0, 0), "a length of zero must not loop");
    assert_eq!(with_first_option(99, 1), (0, 0));
    assert_eq!(with_first_option(99, 9), (0, 0), "beyond the header");
    assert_eq!(with_first_option(2, 3), (0, 0), "a wrong length, then rubbish");
}

/// Wherever it stands among the options, and none where they contradict themselves or end before.
#[test]
fn a_timestamp_is_found_among_the_options() {
    let whole = TcpOptions { timestamps: Some((0x1234_5678, 9)), ..TcpOptions::default() };
    let mut frame = emit(&data_packet(), &whole).unwrap();
    let packet = parse(&frame).unwrap();
    assert_eq!(timestamp(&frame, &packet), Some(0x1234_5678));
    assert_eq!(timestamp(&frame[..60], &packet), None, "cut");
    let options = ETHERNET + 40;
    for (bytes, found) in [
        ([8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 1], Some(7)),
        ([4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0], Some(7)),
        ([0, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0], None),
        ([5, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0], None),
        ([5, 0, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0], None),
        ([5, 13, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0], None),
        ([1, 1, 1, 1, 1, 1, 1, 1, 8, 10, 0, 7], None),
        ([1; 12], None),
    ] {
        frame[options..options + 12].copy_from_slice(&bytes);
        assert_eq!(timestamp(&frame, &packet), found, "{bytes:?}");
    }
    let mut option = [0; 20];
    option[..2].copy_from_slice(&[254, 20]);
    let hidden = TcpOptions { hidden: Some(option), ..whole };
    let frame = emit(&data_packet(), &hidden).unwrap();
    let there = parse(&frame).unwrap();
    let restored = Packet { l4_header_len: there.l4_header_len - 20, ..there };
    assert_eq!([there, restored].map(|packet| timestamp(&frame, &packet)), [Some(0x1234_5678); 2]);
    let plain = emit(&data_packet(), &TcpOptions::default()).unwrap();
    assert_eq!(timestamp(&plain, &parse(&plain).unwrap()), None);
}

/// Receivers drop what bears an older one than what they have accepted.
#[test]
fn a_segment_gets_a_later_timestamp_and_never_an_earlier_one() {
    let options = TcpOptions { timestamps: Some((0x1_fffe, 9)), ..TcpOptions::default() };
    let tcp = ETHERNET + 20;
    let before = emit(&data_packet(), &options).unwrap();
    for (stamp, summed, changed) in
        [(0x1_fffe, true, false), (0xffff_0000, true, false), (0x3_0001, true, true), (0x3_0001, false, true)]
    {
        let mut frame = before.clone();
        set_later_timestamp(&mut frame[tcp..], stamp, summed);
        assert_eq!(timestamp(&frame, &parse(&frame).unwrap()), Some(if changed { stamp } else { 0x1_fffe }));
        let whole = emit(&data_packet(), &TcpOptions { timestamps: Some((stamp, 9)), ..options }).unwrap();
        match (changed, summed) {
            (true, true) => assert_eq!(frame, whole, "with its checksum"),
            (true, false) => assert_eq!(frame[tcp + 16..tcp + 18], before[tcp + 16..tcp + 18]),
            (false, _) => assert_eq!(frame, before),
        }
    }
    for (at, value) in [(tcp + 13, tcp::SYN), (tcp + 20, 2), (tcp + 12, 0x40)] {
        let mut frame = before.clone();
        frame[at] = value;
        let other = frame.clone();
        set_later_timestamp(&mut frame[tcp..], 0x3_0001, true);
        assert_eq!(frame, other, "byte {at} is {value:#x}");
    }
    // Anywhere among the options, also where the checksum's words do not begin.
    for before in 0..=2 {
        let with = |stamp: u32| {
            let mut frame = emit(&data_packet(), &options).unwrap();
            let place = &mut frame[tcp + 20..tcp + 32];
            place.fill(1);
            place[before..before + 2].copy_from_slice(&[8, 10]);
            place[before + 2..before + 6].copy_from_slice(&stamp.to_be_bytes());
            let sums = |frame: &[u8]| Sum::default().bytes(&frame[tcp..]).finish();
            (sums(&frame), frame)
        };
        let ((sum, mut frame), (_, later)) = (with(0xffff), with(0x3_0001));
        set_later_timestamp(&mut frame[tcp..], 0x3_0001, true);
        assert_eq!(Sum::default().bytes(&frame[tcp..]).finish(), sum, "as right as it was, {before} bytes behind");
        frame[tcp + 16..tcp + 18].copy_from_slice(&later[tcp + 16..tcp + 18]);
        assert_eq!(frame, later);
    }
    set_later_timestamp(&mut [0; 12], 1, true);
}

#[test]
fn vlan_tags_up_to_two() {
    let packet = data_packet();
    let frame = emit(&packet, &TcpOptions::default()).unwrap();
    let tagged = |tags: &[[u8; 4]]| [&frame[..12], tags.concat().as_slice(), &frame[12..]].concat();
    let (c, s) = ([0x81, 0, 0, 5], [0x88, 0xa8, 0, 6]);
    assert_eq!(parse(&tagged(&[c])), Ok(packet));
    assert_eq!(parse(&tagged(&[s, c])), Ok(packet));
    assert_eq!(parse(&tagged(&[s, c, c])), Err(ParseError::NotIp));
    assert_eq!(parse(&tagged(&[s, c])[..20]), Err(ParseError::Short));
}

#[test]
fn ipv4_options_are_skipped() {
    let frame = emit(&data_packet(), &TcpOptions::default()).unwrap();
    let mut longer = [&frame[..34], &[1, 1, 1, 0], &frame[34..]].concat();
    longer[ETHERNET] = 0x46;
    let total = (frame.len() - ETHERNET + 4) as u16;
    longer[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
    assert_eq!(parse(&longer), Ok(Packet { ip_header_len: 24, ..data_packet() }));
}

fn v6_packet() -> Packet {
    let address = |last| [0x2001_0db8, 0, 0, last];
    Packet { family: 6, saddr: address(1), daddr: address(2), ip_header_len: 40, ..data_packet() }
}

/// Puts a chain of extension headers into an IPv6 frame: (type, bytes, a multiple of 8).
fn with_extensions(frame: &[u8], chain: &[(u8, usize)]) -> Vec<u8> {
    let mut out = frame[..54].to_vec();
    let mut next_at = ETHERNET + 6;
    let transport = frame[next_at];
    for (kind, size) in chain {
        out[next_at] = *kind;
        next_at = out.len();
        out.extend(std::iter::repeat_n(0, *size));
        out[next_at + 1] = (size / 8 - 1) as u8;
    }
    out[next_at] = transport;
    out.extend_from_slice(&frame[54..]);
    let length = (out.len() - 54) as u16;
    out[18..20].copy_from_slice(&length.to_be_bytes());
    out
}

#[test]
fn ipv6_extension_headers_within_bounds() {
    let packet = v6_packet();
    let frame = emit(&packet, &TcpOptions::default()).unwrap();
    assert_eq!(parse(&frame), Ok(packet));
    let extended = |chain: &[(u8, usize)]| parse(&with_extensions(&frame, chain));
    assert_eq!(extended(&[(0, 8), (60, 16)]), Ok(Packet { ip_header_len: 64, ..packet }));
    assert_eq!(extended(&[(0, 8), (60, 8), (43, 8), (60, 8)]), Ok(Packet { ip_header_len: 72, ..packet }));
    assert_eq!(extended(&[(0, 8), (60, 8), (43, 8), (60, 8), (60, 8)]), Err(ParseError::NotTransport));
    assert_eq!(extended(&[(60, 224)]), Err(ParseError::NotTransport));
    assert_eq!(extended(&[(0, 8), (44, 8)]), Err(ParseError::Fragment));
}

#[test]
fn untouchable_frames_say_why() {
    let frame = emit(&data_packet(), &TcpOptions::default()).unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut frame = frame.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        parse(&frame).map(|_| ())
    };
    assert_eq!(patched(12, &[0x08, 0x06]), Err(ParseError::NotIp));
    assert_eq!(patched(ETHERNET + 9, &[1]), Err(ParseError::NotTransport));
    assert_eq!(patched(ETHERNET + 6, &[0x20, 0]), Err(ParseError::Fragment));
    assert_eq!(patched(ETHERNET + 6, &[0, 1]), Err(ParseError::Fragment));
    assert_eq!(patched(ETHERNET + 6, &[0x40, 0]), Ok(()), "don't fragment is no fragment");
    assert_eq!(patched(ETHERNET, &[0x65]), Err(ParseError::Malformed));
    assert_eq!(patched(ETHERNET, &[0x44]), Err(ParseError::Malformed));
    assert_eq!(patched(ETHERNET + 2, &[0, 19]), Err(ParseError::Malformed));
    assert_eq!(patched(ETHERNET + 2, &[0, 39]), Err(ParseError::Malformed));
    assert_eq!(patched(ETHERNET + 20 + 12, &[0x40]), Err(ParseError::Malformed));
    assert_eq!(parse(&frame[..53]), Err(ParseError::Short));
    assert_eq!(parse(&[]), Err(ParseError::Short));
}

/// Linux's BIG TCP: a length of zero says that the segment is longer than the field can say (RFC 2675 for IPv6).
#[test]
fn a_segment_of_more_than_64_kb_has_the_length_of_its_frame() {
    let mut frame = emit(&data_packet(), &TcpOptions::default()).unwrap();
    frame[16..18].fill(0);
    assert_eq!(parse(&frame), Err(ParseError::Malformed), "a short one has no length of zero");
    frame.resize(100_000, 0);
    let parsed = parse(&frame).unwrap();
    assert_eq!((parsed.truncated, parsed.payload), (0, 100_000 - 14 - 20 - u32::from(parsed.l4_header_len)));

    let v6 = Packet { family: 6, saddr: [1, 2, 3, 4], daddr: [5, 6, 7, 8], ..data_packet() };
    let plain = emit(&v6, &TcpOptions::default()).unwrap();
    // A hop-by-hop header with the jumbo payload's length.
    let mut frame = plain[..54].to_vec();
    frame[18..20].fill(0);
    frame[20] = 0;
    frame.extend([proto::TCP, 0, 0xc2, 4, 0, 1, 0x86, 0xa0]);
    frame.extend(&plain[54..]);
    frame.resize(100_054, 0);
    let parsed = parse(&frame).unwrap();
    assert_eq!((parsed.truncated, parsed.ip_header_len, parsed.proto), (0, 48, proto::TCP));
    assert_eq!(parsed.payload, 100_000 - 8 - u32::from(parsed.l4_header_len));
}

#[test]
fn truncated_frame_is_legal_and_says_so() {
    let frame = emit(&data_packet(), &TcpOptions::default()).unwrap();
    assert_eq!(parse(&frame[..54]), Ok(Packet { truncated: 1, ..data_packet() }));
    let padded = [frame.as_slice(), &[0; 4]].concat();
    assert_eq!(parse(&padded), Ok(data_packet()));
}

#[test]
fn udp_payload_follows_the_udp_length() {
    let packet = Packet {
        proto: proto::UDP,
        payload: 100,
        seq: 0,
        ack: 0,
        window: 0,
        tcp_flags: 0,
        l4_header_len: 8,
        ..data_packet()
    };
    let mut frame = emit(&packet, &TcpOptions::default()).unwrap();
    assert!(checksums_hold(&frame));
    assert_eq!(parse(&frame), Ok(packet));
    frame[38..40].copy_from_slice(&20u16.to_be_bytes());
    assert_eq!(parse(&frame).map(|p| p.payload), Ok(12));
    frame[38..40].copy_from_slice(&7u16.to_be_bytes());
    assert_eq!(parse(&frame), Err(ParseError::Malformed));
    frame[38..40].copy_from_slice(&109u16.to_be_bytes());
    assert_eq!(parse(&frame), Err(ParseError::Malformed));
}

#[test]
fn snapped_frame_is_a_prefix_and_reports_the_full_length() {
    let whole = emit(&data_packet(), &TcpOptions::default()).unwrap();
    for snap in [0, 10, 54, 60, whole.len(), 5000] {
        let mut out = vec![0xee];
        let full = emit_snapped(&data_packet(), &TcpOptions::default(), snap, &mut out).unwrap();
        assert_eq!(full, whole.len());
        assert_eq!(out[1..], whole[..snap.min(whole.len())]);
    }
}

#[test]
fn sack_blocks_are_cut_to_the_room_there_is() {
    let options = TcpOptions {
        sack_permitted: true,
        timestamps: Some((1, 2)),
        sack: [(1, 2), (3, 4), (5, 6)],
        n_sack: 255,
        ..TcpOptions::default()
    };
    let header_len = |flags| {
        let packet = Packet { tcp_flags: flags, mss: 1460, wscale: 8, ..data_packet() };
        parse(&emit(&packet, &options).unwrap()).unwrap().l4_header_len
    };
    assert_eq!(header_len(tcp::ACK), 60);
    assert_eq!(header_len(tcp::SYN), 56);
}

#[test]
fn impossible_packets_are_errors() {
    let emit = |packet| emit(&packet, &TcpOptions::default()).is_err();
    assert!(emit(Packet::default()));
    assert!(emit(Packet { family: 5, ..data_packet() }));
    assert!(emit(Packet { proto: 1, ..data_packet() }));
    assert!(emit(Packet { payload: 65_496, ..data_packet() }));
    assert!(!emit(Packet { payload: 65_495, ..data_packet() }));
    assert!(emit(Packet { payload: u32::MAX, ..data_packet() }));
}

#[test]
fn write_back_changes_what_is_dirty_and_nothing_else() {
    let packet = data_packet();
    let frame = emit(&packet, &TcpOptions::default()).unwrap();
    let changed = Packet { window: 9, ecn: ecn::CE, seq: 5, ..packet };
    let written = |dirty| {
        let mut frame = frame.clone();
        write_back(&Packet { dirty, ..changed }, &mut frame).unwrap();
        assert!(checksums_hold(&frame));
        parse(&frame).unwrap()
    };
    assert_eq!(written(0), packet);
    assert_eq!(written(dirty::LABEL), packet);
    assert_eq!(written(dirty::WINDOW), Packet { window: 9, ..packet });
    assert_eq!(written(dirty::ECN), Packet { ecn: ecn::CE, ..packet });
    assert_eq!(written(dirty::ECN | dirty::WINDOW), Packet { window: 9, ecn: ecn::CE, ..packet });
}

#[test]
fn write_back_refuses_a_packet_of_another_frame() {
    let mut frame = emit(&data_packet(), &TcpOptions::default()).unwrap();
    let before = frame.clone();
    let packet = Packet { dirty: dirty::WINDOW, window: 1, ..v6_packet() };
    assert_eq!(write_back(&packet, &mut frame), Err(ParseError::Malformed));
    let packet = Packet { dirty: dirty::WINDOW, ip_header_len: 0, ..data_packet() };
    assert_eq!(write_back(&packet, &mut frame), Err(ParseError::Malformed));
    let packet = Packet { dirty: dirty::WINDOW, ..data_packet() };
    assert_eq!(write_back(&packet, &mut frame[..40]), Err(ParseError::Short));
    assert_eq!(frame, before);
}

/// A pure ACK and its report, over IPv4 or IPv6, with a tag and padding or without.
#[test]
fn the_feedback_option_comes_and_goes_without_a_trace() {
    let timestamps = TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() };
    let sack = TcpOptions { sack: [(1, 2), (3, 4), (0, 0)], n_sack: 2, ..timestamps };
    for (packet, options) in [data_packet(), v6_packet()]
        .iter()
        .flat_map(|p| [TcpOptions::default(), timestamps, sack].map(|options| (Packet { payload: 0, ..*p }, options)))
    {
        let plain = emit(&packet, &options).unwrap();
        let tagged = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
        for before in [plain, tagged] {
            // Padding behind the packet goes with the first change of its length.
            let mut frame = [&before[..], &[0; 6]].concat();
            let was = parse(&frame).unwrap();
            let report = Packet {
                pack: pack::OK,
                pack_total: [1, 2, 3],
                pack_ce: [0, 4, 5],
                tcp_reserved: reserved::EDGE | reserved::ECT | reserved::PACK,
                tcp_flags: tcp::ACK,
                ecn: ecn::ECT0,
                dirty: dirty::OPTION | dirty::FLAGS | dirty::ECN,
                ..was
            };
            write_back_resized(&report, &mut frame).unwrap();
            let seen = parse(&frame).unwrap();
            assert_eq!(seen, Packet { dirty: 0, l4_header_len: was.l4_header_len + 8, ..report });
            assert_eq!(frame.len(), before.len() + 8);
            if frame[12] != 0x81 {
                assert!(checksums_hold(&frame));
            }
            let update = Packet { pack_total: [9, 9, 9], dirty: dirty::OPTION, ..seen };
            write_back_resized(&update, &mut frame).unwrap();
            assert_eq!(parse(&frame).unwrap(), Packet { dirty: 0, ..update });
            let dirty = dirty::OPTION | dirty::FLAGS | dirty::ECN;
            write_back_resized(&Packet { dirty, ..was }, &mut frame).unwrap();
            assert_eq!(frame, before);
        }
    }
}

/// The lowest of TCP's reserved bits, which packets do not have, goes only if that is asked for.
#[test]
fn a_syn_no_longer_offers_accurate_ecn() {
    for family in [4, 6] {
        let syn = Packet { tcp_flags: tcp::SYN | tcp::ECE | tcp::CWR, payload: 0, family, ..data_packet() };
        let mut frame = emit(&syn, &TcpOptions::default()).unwrap();
        let tcp_at = ETHERNET + if family == 4 { 20 } else { 40 };
        let without = frame.clone();
        frame[tcp_at + 12] |= 1;
        let sum = u32::from(!u16::from_be_bytes([frame[tcp_at + 16], frame[tcp_at + 17]])) + 0x100;
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[tcp_at + 16..tcp_at + 18].copy_from_slice(&sum.to_be_bytes());
        assert!(checksums_hold(&frame));
        let offered = frame.clone();
        let parsed = parse(&frame).unwrap();
        write_back(&Packet { dirty: dirty::FLAGS, ..parsed }, &mut frame).unwrap();
        assert_eq!(frame, offered);
        write_back(&Packet { dirty: dirty::FLAGS | dirty::AE, ..parsed }, &mut frame).unwrap();
        assert_eq!(frame, without);
    }
}

#[test]
fn an_option_is_read_where_it_is_announced() {
    let report = Packet {
        payload: 0,
        pack: pack::OK,
        pack_total: [1, 2, 3],
        tcp_reserved: reserved::EDGE | reserved::PACK,
        l4_header_len: 28,
        ..data_packet()
    };
    let seen = |packet: &Packet, change: fn(&mut Vec<u8>)| {
        let mut frame = emit(packet, &TcpOptions::default()).unwrap();
        change(&mut frame);
        parse(&frame).unwrap().pack
    };
    assert_eq!(seen(&report, |_| {}), pack::OK);
    assert_eq!(seen(&report, |f| f[55] = 7), pack::MALFORMED);
    assert_eq!(seen(&report, |f| f[54] = 254), pack::MALFORMED);
    assert_eq!(seen(&Packet { pack: pack::NONE, ..report }, |_| {}), pack::MALFORMED, "no options at all");
    assert_eq!(seen(&Packet { tcp_reserved: reserved::EDGE, ..report }, |_| {}), pack::NONE);
    // The left edge of a SACK block may begin with any byte.
    let options = TcpOptions { sack: [(0xfd08_0000, 1), (0, 0), (0, 0)], n_sack: 1, ..TcpOptions::default() };
    let frame = emit(&Packet { payload: 0, ..data_packet() }, &options).unwrap();
    assert_eq!(parse(&frame).unwrap().pack, pack::NONE);
}

#[test]
fn options_that_cannot_go_or_come() {
    let announced = reserved::EDGE | reserved::PACK;
    let report = Packet { pack: pack::OK, pack_total: [1, 2, 3], tcp_reserved: announced, ..data_packet() };
    let mut data = emit(&report, &TcpOptions::default()).unwrap();
    let seen = parse(&data).unwrap();
    write_back_resized(&Packet { pack: pack::NONE, dirty: dirty::OPTION, ..seen }, &mut data).unwrap();
    assert_eq!((&data[54..62], parse(&data).unwrap().pack), (&[1; 8][..], pack::MALFORMED), "padding before payload");
    assert!(checksums_hold(&data));
    let mut full = emit(&Packet { payload: 0, ..data_packet() }, &TcpOptions::default()).unwrap();
    full.splice(54..54, [1; 40]);
    full[46] = 0xf0;
    full[17] += 40;
    let more = Packet { pack: pack::OK, dirty: dirty::OPTION, ..parse(&full).unwrap() };
    assert_eq!(write_back_resized(&more, &mut full), Err(ParseError::Malformed), "60 bytes of header are the most");
    let more = Packet { pack: pack::OK, dirty: dirty::OPTION, ..data_packet() };
    let mut data = emit(&data_packet(), &TcpOptions::default()).unwrap();
    assert_eq!(write_back_resized(&more, &mut data), Err(ParseError::Malformed), "data carries no option");
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let addresses = (any::<[u32; 4]>(), any::<[u32; 4]>(), any::<bool>());
    let transport = (any::<bool>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>(), 0u32..9000);
    let fields = (any::<u8>(), any::<u16>(), 0u8..4, any::<u16>(), 0u8..=15);
    (addresses, transport, fields).prop_map(|((saddr, daddr, six), transport, fields)| {
        let (is_tcp, sport, dport, seq, ack, payload) = transport;
        let (tcp_flags, window, ecn, mss, wscale) = fields;
        let mut packet = Packet { saddr, daddr, sport, dport, payload, ecn, ..Packet::default() };
        packet.family = if six { 6 } else { 4 };
        if !six {
            packet.saddr = [0, 0, 0xffff, saddr[3]];
            packet.daddr = [0, 0, 0xffff, daddr[3]];
        }
        packet.proto = if is_tcp { proto::TCP } else { proto::UDP };
        if is_tcp {
            packet = Packet { seq, ack, window, tcp_flags, ..packet };
            if packet.has_flags(tcp::SYN) {
                packet = Packet { mss, wscale, ..packet };
            }
        }
        packet
    })
}

fn any_options() -> impl Strategy<Value = TcpOptions> {
    (any::<bool>(), any::<Option<(u32, u32)>>(), any::<[(u32, u32); 3]>(), any::<u8>()).prop_map(
        |(sack_permitted, timestamps, sack, n_sack)| TcpOptions {
            sack_permitted,
            timestamps,
            sack,
            n_sack,
            ..TcpOptions::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn emit_then_parse_gives_the_packet_back(packet in any_packet(), options in any_options()) {
        let frame = emit(&packet, &options).unwrap();
        prop_assert!(checksums_hold(&frame));
        let parsed = parse(&frame).unwrap();
        let lengths = Packet {
            ip_header_len: if packet.family == 4 { 20 } else { 40 },
            l4_header_len: parsed.l4_header_len,
            ..packet
        };
        prop_assert_eq!(parsed, lengths);
    }

    #[test]
    fn write_back_keeps_checksums_valid(packet in any_packet(), options in any_options(),
                                        window: u16, ecn in 0u8..4) {
        let mut frame = emit(&packet, &options).unwrap();
        let mut parsed = parse(&frame).unwrap();
        parsed.ecn = ecn;
        parsed.dirty = dirty::ECN;
        if packet.proto == proto::TCP {
            parsed.window = window;
            parsed.dirty |= dirty::WINDOW;
        }
        write_back(&parsed, &mut frame).unwrap();
        prop_assert!(checksums_hold(&frame));
        prop_assert_eq!(parse(&frame).unwrap(), Packet { dirty: 0, ..parsed });
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), dirty: u16) {
        if let Ok(packet) = parse(&bytes) {
            let before = bytes.len();
            // A parsed packet can always be written back to its own frame.
            let written = Packet { dirty, window: !packet.window, ecn: packet.ecn ^ 3, ..packet };
            let expected = dirty & (dirty::WINDOW | dirty::FLAGS) == 0 || packet.proto == proto::TCP;
            prop_assert_eq!(write_back(&written, &mut bytes).is_ok(), expected);
            prop_assert_eq!(bytes.len(), before);
        }
    }

    /// Random bytes rarely look like IP, so damage real frames instead.
    #[test]
    fn damaged_frames_are_survived(packet in any_packet(), options in any_options(), cut: prop::sample::Index,
                                   damage in proptest::collection::vec((0usize..110, any::<u8>()), 0..4)) {
        let mut frame = emit(&packet, &options).unwrap();
        for (at, byte) in damage {
            if at < frame.len() {
                frame[at] = byte;
            }
        }
        frame.truncate(cut.index(frame.len() + 1));
        if let Ok(parsed) = parse(&frame) {
            let headers = ETHERNET + usize::from(parsed.ip_header_len) + usize::from(parsed.l4_header_len);
            prop_assert!(headers <= frame.len());
            // UDP's own length may be less than IP's; TCP's payload is all that IP claims.
            if parsed.proto == proto::TCP && matches!(frame[12], 0x08 | 0x86) {
                prop_assert_eq!(parsed.truncated == 1, frame.len() < headers + parsed.payload as usize);
            }
        }
    }

    #[test]
    fn any_packet_may_be_written_to_any_frame(packet in any_packet(), other in any_packet(), family: u8,
                                              ip_header_len: u8, dirty: u16, cut: prop::sample::Index) {
        let mut frame = emit(&packet, &TcpOptions::default()).unwrap();
        frame.truncate(cut.index(frame.len() + 1));
        let packet = Packet { family, ip_header_len, dirty, ..other };
        let _ = write_back(&packet, &mut frame);
        let _ = write_back_resized(&Packet { pack: u8::from(dirty & 0x8000 != 0), ..packet }, &mut frame);
    }
}
