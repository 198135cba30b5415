//! Tests of what the kernel edge says by itself: datapath/{neighbour,mss,toobig}.h, compiled natively.

use proptest::prelude::*;
use wire::checksum::Sum;
use wire::{proto, tcp, v4, Packet, TcpOptions};

/// `struct sv_neighbour`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Neighbour {
    asked: [u32; 4],
    asker: [u32; 4],
    mac: [u8; 6],
    family: u8,
    question: u8,
}

const _: () = assert!(size_of::<Neighbour>() == 40);

extern "C" {
    fn sv_kernel_neighbour(frame: *mut u8, len: u32, mac: *const u8, q: *mut Neighbour) -> u32;
    fn sv_kernel_mss_clamp(tcp: *mut u8, len: usize, limit: u16) -> i32;
    fn sv_kernel_mss_limit(family: u8, mtu: u32) -> u16;
    fn sv_kernel_toobig(b: *mut u8, p: *const Packet, check: u16, mtu: u32) -> i32;
    fn sv_kernel_toobig_fits(p: *const Packet, ip_len: u32, mtu: u32) -> i32;
}

const MAC: [u8; 6] = [2, 0x5e, 0, 0, 0, 1];
const GUEST: [u8; 6] = [2, 0, 0x0a, 7, 0, 1];

/// What was read, and the answer if there is one.
fn neighbour(frame: &[u8]) -> (Option<Neighbour>, Option<Vec<u8>>) {
    let mut bytes = [0u8; 86];
    let known = frame.len().min(86);
    bytes[..known].copy_from_slice(&frame[..known]);
    let mut q = Neighbour::default();
    // SAFETY: 86 bytes are what the function may touch; the MAC has six.
    let len = unsafe { sv_kernel_neighbour(bytes.as_mut_ptr(), frame.len() as u32, MAC.as_ptr(), &mut q) };
    match len {
        0 => (None, None),
        1 => (Some(q), None),
        len => (Some(q), Some(bytes[..len as usize].to_vec())),
    }
}

fn arp(operation: u8, asker: [u8; 4], asked: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], GUEST].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(GUEST);
    frame.extend(asker);
    frame.extend([0; 6]);
    frame.extend(asked);
    frame
}

#[test]
fn an_arp_request_becomes_its_reply() {
    let (q, answer) = neighbour(&arp(1, [10, 7, 0, 1], [10, 7, 0, 2]));
    let q = q.unwrap();
    assert_eq!((q.asker, q.asked, q.mac, q.family), (v4([10, 7, 0, 1]), v4([10, 7, 0, 2]), GUEST, 4));
    let mut expected = [GUEST, MAC].concat();
    expected.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    expected.extend(MAC);
    expected.extend([10, 7, 0, 2]);
    expected.extend(GUEST);
    expected.extend([10, 7, 0, 1]);
    assert_eq!(answer.unwrap(), expected);
}

#[test]
fn probes_announcements_and_replies_are_no_questions() {
    let (q, answer) = neighbour(&arp(1, [0; 4], [10, 7, 0, 2]));
    assert!(answer.is_none() && q.is_some(), "a probe (RFC 5227 section 2.1.1)");
    assert_eq!(neighbour(&arp(1, [10, 7, 0, 1], [10, 7, 0, 1])).1, None, "an announcement");
    let (q, answer) = neighbour(&arp(2, [10, 7, 0, 1], [10, 7, 0, 2]));
    assert_eq!((q.unwrap().asker, answer), (v4([10, 7, 0, 1]), None), "a reply tells who the guest is");
    assert_eq!(neighbour(&arp(3, [10, 7, 0, 1], [10, 7, 0, 2])), (None, None), "reverse ARP");
    let mut token_ring = arp(1, [10, 7, 0, 1], [10, 7, 0, 2]);
    token_ring[15] = 6;
    assert_eq!(neighbour(&token_ring), (None, None));
    assert_eq!(neighbour(&arp(1, [10, 7, 0, 1], [10, 7, 0, 2])[..41]), (None, None), "cut short");
}

fn address(last: u8) -> [u8; 16] {
    [0xfd, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}

/// ICMPv6's checksum of a frame without extension headers, over all that follows.
fn icmpv6_sum(frame: &[u8]) -> u16 {
    let payload = &frame[54..];
    Sum::default().bytes(&frame[22..54]).word(payload.len() as u32).word(58).bytes(payload).finish()
}

fn solicitation(asker: [u8; 16], asked: [u8; 16], options: &[u8]) -> Vec<u8> {
    let mut frame = [[0x33, 0x33, 0xff, 0, 0, 2], GUEST].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24 + options.len() as u8, 58, 255]);
    frame.extend(asker);
    frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, asked[15]]);
    frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend(asked);
    frame.extend(options);
    frame
}

#[test]
fn a_solicitation_becomes_an_advertisement_whatever_its_options() {
    let source_option = [[1, 1].as_slice(), &GUEST].concat();
    let nonce_too = [source_option.as_slice(), &[14, 1, 1, 2, 3, 4, 5, 6]].concat();
    for options in [&[], source_option.as_slice(), nonce_too.as_slice()] {
        let (_, answer) = neighbour(&solicitation(address(1), address(2), options));
        let answer = answer.unwrap();
        assert_eq!((&answer[..6], &answer[6..12]), (GUEST.as_slice(), MAC.as_slice()));
        assert_eq!(answer[18..22], [0, 32, 58, 255]);
        assert_eq!((&answer[22..38], &answer[38..54]), (address(2).as_slice(), address(1).as_slice()));
        assert_eq!(answer[54..56], [136, 0]);
        assert_eq!(answer[58..62], [0x60, 0, 0, 0], "solicited, override, no router");
        assert_eq!(answer[62..78], address(2));
        assert_eq!(answer[78..], [[2, 1].as_slice(), &MAC].concat());
        assert_eq!(icmpv6_sum(&answer), 0);
    }
}

#[test]
fn duplicate_address_detection_and_forgeries_are_not_answered() {
    assert_eq!(neighbour(&solicitation([0; 16], address(2), &[])).1, None, "unspecified source");
    assert_eq!(neighbour(&solicitation(address(2), address(2), &[])).1, None, "its own");
    let good = solicitation(address(1), address(2), &[]);
    for (at, value, why) in [
        (21, 64, "came through a router"),
        (55, 1, "code"),
        (54, 136, "an advertisement"),
        (62, 0xff, "a multicast target"),
        (19, 16, "length"),
        (20, 6, "TCP"),
    ] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(neighbour(&bad), (None, None), "{why}");
    }
    assert_eq!(neighbour(&good[..77]), (None, None), "cut short");
}

fn limit(family: u8, mtu: u32) -> u16 {
    // SAFETY: a function of two numbers.
    unsafe { sv_kernel_mss_limit(family, mtu) }
}

fn clamp(tcp: &mut [u8], limit: u16) -> bool {
    // SAFETY: the function touches only `len` bytes.
    unsafe { sv_kernel_mss_clamp(tcp.as_mut_ptr(), tcp.len(), limit) != 0 }
}

fn syn(family: u8, mss: u16) -> Packet {
    let host = |n: u32| if family == 4 { [0, 0, 0xffff, 0x0a07_0000 | n] } else { [0xfd07_0000, 0, 0, n] };
    let proto = proto::TCP;
    Packet { saddr: host(1), daddr: host(2), family, proto, tcp_flags: tcp::SYN, mss, ..Packet::default() }
}

#[test]
fn limits_leave_room_for_the_headers() {
    assert_eq!((limit(4, 1450), limit(6, 1450)), (1410, 1390));
    assert_eq!((limit(4, 0), limit(4, 40), limit(6, 60), limit(4, 65_536)), (0, 0, 0, 0), "no limit");
}

#[test]
fn the_mss_is_lowered_never_raised_and_the_checksum_follows() {
    for family in [4, 6] {
        let options = TcpOptions { timestamps: Some((1, 2)), sack_permitted: true, ..TcpOptions::default() };
        for (mss, limit, expected) in [(1460, 1400, 1400), (1400, 1400, 1400), (536, 1400, 536), (1460, 0, 1460)] {
            let mut frame = wire::emit(&syn(family, mss), &options).unwrap();
            let at = if family == 4 { 34 } else { 54 };
            assert_eq!(clamp(&mut frame[at..], limit), expected != mss);
            assert_eq!(frame, wire::emit(&syn(family, expected), &options).unwrap());
        }
    }
    let mut no_syn = wire::emit(&Packet { tcp_flags: tcp::ACK, ..syn(4, 1460) }, &TcpOptions::default()).unwrap();
    assert!(!clamp(&mut no_syn[34..], 100));
}

/// A TCP header with these options, and the sum of it all.
fn header(options: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0u8; 20];
    tcp.extend(options);
    tcp.resize(20 + options.len().next_multiple_of(4), 0);
    tcp[12] = (tcp.len() as u8 / 4) << 4;
    tcp[13] = tcp::SYN;
    let sum = Sum::default().bytes(&tcp).finish();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    tcp
}

#[test]
fn the_mss_is_found_at_odd_places_and_the_last_of_several() {
    let mut odd = header(&[1, 2, 4, 0x05, 0xb4]);
    assert!(clamp(&mut odd, 1400));
    assert_eq!((odd[23..25].to_vec(), Sum::default().bytes(&odd).finish()), (1400u16.to_be_bytes().to_vec(), 0));
    let mut twice = header(&[2, 4, 0x05, 0xb4, 2, 4, 0x05, 0xb5]);
    assert!(clamp(&mut twice, 1400));
    assert_eq!((twice[22..24].to_vec(), twice[26..28].to_vec()), (vec![0x05, 0xb4], 1400u16.to_be_bytes().to_vec()));
    for broken in [[2, 3, 0x05, 0xb4], [2, 5, 0x05, 0xb4], [3, 0, 2, 4], [0, 2, 4, 5]] {
        assert!(!clamp(&mut header(&broken), 1), "{broken:?}");
    }
}

/// The answer to `packet`, of which `frame` has at least 142 bytes; `None` if it gets none.
fn toobig(packet: &Packet, frame: &[u8], check: u16, mtu: u32) -> Option<(Vec<u8>, bool)> {
    let add = if packet.family == 4 { 28 } else { 48 };
    let mut bytes = vec![0u8; 14 + 48 + 128];
    bytes[..14].copy_from_slice(&frame[..14]);
    bytes[14 + add..][..128].copy_from_slice(&frame[14..][..128]);
    // SAFETY: the function touches at most as many bytes as there are, and reads one mirrored struct.
    let code = unsafe { sv_kernel_toobig(bytes.as_mut_ptr(), packet, check, mtu) };
    bytes.truncate(14 + add + 128);
    (code != 0).then_some((bytes, code == 2))
}

fn segment(family: u8, proto: u8) -> (Packet, Vec<u8>) {
    let packet = Packet { proto, payload: 1400, tcp_flags: tcp::ACK, ..syn(family, 0) };
    let frame = wire::emit(&packet, &TcpOptions::default()).unwrap();
    (wire::parse(&frame).unwrap(), frame)
}

#[test]
fn a_packet_that_is_too_big_is_answered_in_icmp_from_where_it_went() {
    for family in [4, 6] {
        let (packet, frame) = segment(family, proto::TCP);
        let (answer, unfinished) = toobig(&packet, &frame, 0x1234, 1300).unwrap();
        assert!(!unfinished);
        assert_eq!((&answer[..6], &answer[6..12]), (&frame[6..12], &frame[..6]));
        if family == 4 {
            assert_eq!((&answer[26..30], &answer[30..34]), (&frame[30..34], &frame[26..30]));
            assert_eq!(Sum::default().bytes(&answer[14..34]).finish(), 0, "IP header");
            assert_eq!(u16::from_be_bytes([answer[16], answer[17]]) as usize, answer.len() - 14);
            assert_eq!(answer[34..36], [3, 4]);
            assert_eq!(answer[38..42], [0, 0, 5, 20], "1300 bytes");
            assert_eq!(Sum::default().bytes(&answer[34..]).finish(), 0, "ICMP");
            assert_eq!(answer[42..], frame[14..142]);
        } else {
            assert_eq!((&answer[22..38], &answer[38..54]), (&frame[38..54], &frame[22..38]));
            assert_eq!(u16::from_be_bytes([answer[18], answer[19]]) as usize, answer.len() - 54);
            assert_eq!(answer[54..56], [2, 0]);
            assert_eq!(answer[58..62], [0, 0, 5, 20]);
            assert_eq!(icmpv6_sum(&answer), 0);
            assert_eq!(answer[62..], frame[14..142]);
        }
    }
}

#[test]
fn an_unfinished_checksum_may_be_finished_after_the_answer_was_made() {
    for (family, proto) in [(4, proto::TCP), (6, proto::TCP), (4, proto::UDP), (6, proto::UDP)] {
        let (packet, mut frame) = segment(family, proto);
        let l4 = if family == 4 { 34 } else { 54 };
        let at = l4 + if proto == wire::proto::TCP { 16 } else { 6 };
        let addresses = if family == 4 { 26..34 } else { 22..54 };
        let len = packet.payload + u32::from(packet.l4_header_len);
        let pseudo = !Sum::default().bytes(&frame[addresses]).word(len).word(u32::from(proto)).finish();
        frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let (mut answer, unfinished) = toobig(&packet, &frame, pseudo, 1300).unwrap();
        assert!(unfinished);
        // What the kernel does in software: sum from the transport header to the end, into the field.
        let add = if family == 4 { 28 } else { 48 };
        let finished = Sum::default().bytes(&answer[add + l4..]).finish();
        answer[add + at..add + at + 2].copy_from_slice(&finished.to_be_bytes());
        let sum = if family == 4 { Sum::default().bytes(&answer[34..]).finish() } else { icmpv6_sum(&answer) };
        assert_eq!(sum, 0, "family {family}, protocol {proto}");
    }
}

#[test]
fn errors_and_later_fragments_are_not_answered() {
    let (packet, frame) = segment(4, proto::UDP);
    let with = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        frame
    };
    assert!(toobig(&packet, &with(21, 1), 0, 1300).is_none(), "an offset");
    assert!(toobig(&packet, &with(20, 0x20), 0, 1300).is_some(), "a first fragment");
    assert!(toobig(&packet, &with(20, 0), 0, 1300).is_some(), "without DF");
    assert!(toobig(&Packet { saddr: v4([0; 4]), ..packet }, &frame, 0, 1300).is_none());
    assert!(toobig(&Packet { saddr: v4([224, 0, 0, 1]), ..packet }, &frame, 0, 1300).is_none());
    let icmp = Packet { proto: 1, l4_header_len: 0, ..packet };
    assert!(toobig(&icmp, &with(34, 8), 0, 1300).is_some(), "echo");
    assert!(toobig(&icmp, &with(34, 3), 0, 1300).is_none(), "unreachable");
    let (packet, frame) = segment(6, proto::UDP);
    let icmp = Packet { proto: 58, l4_header_len: 0, ..packet };
    let kind = |value| {
        let mut frame = frame.clone();
        frame[54] = value;
        frame
    };
    assert!(toobig(&icmp, &kind(128), 0, 1300).is_some() && toobig(&icmp, &kind(2), 0, 1300).is_none());
}

#[test]
fn segments_are_judged_by_the_packets_they_become() {
    let fits = |packet: &Packet, ip_len, mtu| {
        // SAFETY: reads one mirrored struct.
        unsafe { sv_kernel_toobig_fits(packet, ip_len, mtu) != 0 }
    };
    let (packet, _) = segment(4, proto::TCP);
    assert!(fits(&packet, 1400, 1400) && !fits(&packet, 1401, 1400));
    let segment = Packet { segment_size: 1360, ..packet };
    assert!(fits(&segment, 60_000, 1400) && !fits(&segment, 60_000, 1399));
    let v6 = Packet { family: 6, ..packet };
    assert!(fits(&v6, 1280, 1000), "IPv6 links carry 1280 bytes");
}

proptest! {
    #[test]
    fn no_frame_is_read_beyond_its_end(frame in proptest::collection::vec(any::<u8>(), 0..100)) {
        neighbour(&frame);
        let mut tcp = frame.clone();
        clamp(&mut tcp, 500);
    }
}
