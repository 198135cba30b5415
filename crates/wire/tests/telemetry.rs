//! Reports built by hand from the field tables of the Telemetry Report Format Specification 2.0, and what is read from them.

use proptest::prelude::*;
use wire::telemetry::{Group, Place, Report, TelemetryError};
use wire::{emit, parse, proto, tcp, v4, Packet, TcpOptions};

const PORT: u16 = 4789;

fn sent() -> Packet {
    Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 0, 2]),
        seq: 0x0102_0304,
        ack: 99,
        payload: 1448,
        sport: 40_000,
        dport: 5001,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    }
}

/// The packet's frame, cut.
fn frame(packet: &Packet, bytes: usize) -> Vec<u8> {
    let mut frame = emit(packet, &TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() }).unwrap();
    frame.truncate(bytes);
    frame
}

/// The frame in the tunnel of docs/wire.md, over IPv4, in network 7.
fn tunnelled(inner: &[u8], full: usize) -> Vec<u8> {
    let ip = (20 + 16 + full) as u16;
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    bytes.extend([0x45, 0]);
    bytes.extend(ip.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 63, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend(0xc001u16.to_be_bytes());
    bytes.extend(PORT.to_be_bytes());
    bytes.extend((ip - 20).to_be_bytes());
    bytes.extend([0, 0, 0x08, 0x20, 0, 0, 0, 0, 7, 0]);
    bytes.extend(inner);
    bytes
}

/// Section 3.2: version, hardware 5, sequence number 9; node.
fn group(reports: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (2u32 << 28 | 5 << 22 | 9).to_be_bytes().to_vec();
    bytes.extend(0xaabb_ccddu32.to_be_bytes());
    bytes.extend(reports.concat());
    bytes
}

/// Section 3.3, with the bits D, Q, F, I and Rsvd in the last byte. What does not fill a word is padded.
fn report(kind: u8, inner: u8, metadata: u8, bits: u8, contents: &[u8]) -> Vec<u8> {
    let words = contents.len().div_ceil(4);
    let mut bytes = vec![kind << 4 | inner, words as u8, metadata, bits];
    bytes.extend(contents);
    bytes.resize(4 + 4 * words, 0);
    bytes
}

/// Section 3.3.1: the fixed part, and metadata.
fn int(bits: u16, metadata: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut bytes = bits.to_be_bytes().to_vec();
    bytes.extend([0; 6]);
    bytes.extend(metadata);
    bytes.extend(packet);
    bytes
}

fn only(bytes: &[u8]) -> Report<'_> {
    let group = Group::read(bytes).unwrap();
    assert_eq!((group.node, group.hardware, group.sequence), (0xaabb_ccdd, 5, 9));
    let mut reports = group.reports();
    let report = reports.next().unwrap();
    assert_eq!(reports.next(), None);
    report
}

#[test]
fn a_drop_in_the_tunnel_names_the_guests_packet() {
    let inner = frame(&sent(), 66);
    let bytes = group(&[report(0, 3, 0, 0x80, &tunnelled(&inner, 14 + 20 + 32 + 1448))]);
    let report = only(&bytes);
    assert_eq!((report.dropped, report.place), (true, None));
    let reported = report.packet(PORT).unwrap();
    let outer = reported.outer.unwrap();
    assert_eq!((outer.encap.vni, outer.saddr, outer.daddr), (7, v4([192, 0, 2, 1]), v4([192, 0, 2, 2])));
    let packet = reported.packet;
    assert_eq!((packet.saddr, packet.daddr, packet.sport, packet.dport), (sent().saddr, sent().daddr, 40_000, 5001));
    assert_eq!((packet.seq, packet.ack, packet.payload, packet.tcp_flags), (0x0102_0304, 99, 1448, tcp::ACK));
    assert_eq!(reported.headers, inner, "whole headers are the packet's own");
    assert_eq!(report.packet(PORT + 1), None, "another port is no tunnel of ours");
}

#[test]
fn queue_and_reason_stand_where_the_bits_say() {
    let packet = frame(&sent(), 66);
    // Interfaces of level 1, an ingress time stamp of two words, drop metadata: one, two and one word.
    let metadata = [[0; 4], [1; 4], [2; 4], [6, 24, 0, 0]].concat();
    let bytes = group(&[report(1, 3, 4, 0x80, &int(0x4801, &metadata, &packet))]);
    let found = only(&bytes);
    assert_eq!((found.dropped, found.place), (true, Some(Place { queue: 6, reason: 24 })));
    assert_eq!(found.packet(PORT).unwrap().packet.seq, 0x0102_0304);
    // Metadata of the domain follow those of the format.
    let bytes = group(&[report(1, 3, 3, 0x80, &int(0x0001, &[[1, 2, 0, 0], [9; 4], [9; 4]].concat(), &packet))]);
    assert_eq!(only(&bytes).place, Some(Place { queue: 1, reason: 2 }));
    assert_eq!(only(&bytes).packet(PORT).unwrap().packet.payload, 1448);
}

#[test]
fn a_packet_may_begin_with_its_ip_header_and_stand_in_a_list_of_values() {
    let four = frame(&sent(), 66);
    let six = Packet { saddr: [0x2001_0db8, 0, 0, 1], daddr: [0x2001_0db8, 0, 0, 2], family: 6, ..sent() };
    let six_frame = frame(&six, 14 + 40 + 32);
    let bytes = group(&[
        report(0, 4, 0, 0x80, &four[14..]),
        report(0, 5, 77, 0x80, &six_frame[14..]),
        report(0, 1, 0, 0x80, &[&[0x00, 1, 0, 5, 1, 2, 3, 4, 0x20, 13, 0, 0][..], &four[14..]].concat()),
    ]);
    let group = Group::read(&bytes).unwrap();
    let packets: Vec<Packet> = group.reports().map(|report| report.packet(PORT).unwrap().packet).collect();
    assert_eq!(packets.len(), 3);
    assert_eq!([packets[0].family, packets[1].family, packets[2].family], [4, 6, 4]);
    assert_eq!(packets[1].saddr, six.saddr);
    assert!(packets.iter().all(|packet| (packet.seq, packet.payload) == (0x0102_0304, 1448)));
}

#[test]
fn the_fabrics_vlan_tags_are_no_obstacle() {
    let mut tagged = tunnelled(&frame(&sent(), 66), 14 + 20 + 32 + 1448);
    tagged.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0x00, 0, 6]);
    let bytes = group(&[report(0, 3, 0, 0x80, &tagged)]);
    assert_eq!(only(&bytes).packet(PORT).unwrap().packet.seq, 0x0102_0304);
}

#[test]
fn a_packet_needs_its_tcp_header_but_not_its_options() {
    for (bytes, there) in [(54, true), (60, true), (66, true), (52, false), (34, false), (14, false), (0, false)] {
        let cut = frame(&sent(), bytes);
        let datagram = group(&[report(0, 3, 0, 0x80, &cut)]);
        // Padding to words may complete a header only by zeros that the switch says are the packet's.
        let found = only(&datagram).packet(PORT);
        assert_eq!(found.is_some(), there, "{bytes} bytes");
        if let Some(found) = found {
            assert_eq!((found.packet.payload, found.headers.len()), (1448, 66));
            assert_eq!(parse(&found.headers).unwrap().seq, found.packet.seq);
        }
    }
}

#[test]
fn what_is_no_tcp_packet_is_none() {
    let udp = frame(&Packet { proto: proto::UDP, ..sent() }, 60);
    let none = [
        report(0, 0, 0, 0x80, &[]),
        report(0, 2, 0, 0x80, &[0; 16]),
        report(0, 9, 0, 0x80, &frame(&sent(), 66)),
        report(2, 3, 0, 0x80, &frame(&sent(), 66)),
        report(0, 3, 0, 0x80, &udp),
        report(0, 4, 0, 0x80, &frame(&sent(), 66)),
    ];
    for report in none {
        let bytes = group(&[report]);
        assert_eq!(only(&bytes).packet(PORT), None);
        assert!(only(&bytes).dropped);
    }
    let kept = group(&[report(0, 3, 0, 0x70, &frame(&sent(), 66))]);
    assert!(!only(&kept).dropped, "Q, F and I are not D");
}

#[test]
fn what_contradicts_itself_is_refused_whole() {
    let right = report(0, 3, 0, 0x80, &frame(&sent(), 66));
    let cases: [(Vec<u8>, TelemetryError); 9] = [
        (vec![], TelemetryError::Short),
        (group(&[])[..7].to_vec(), TelemetryError::Short),
        ([&[0x10], &group(&[])[1..]].concat(), TelemetryError::Version(1)),
        (group(&[right.clone(), vec![0, 0, 0]]), TelemetryError::Short),
        (group(&[right.clone(), vec![0x03, 1, 0, 0x80]]), TelemetryError::Length),
        (group(&[right.clone(), report(1, 3, 0, 0x80, &[0; 4])]), TelemetryError::Metadata),
        (group(&[report(1, 3, 3, 0x80, &int(0, &[0; 8], &[]))]), TelemetryError::Metadata),
        (group(&[report(1, 3, 1, 0x80, &int(0x0801, &[0; 4], &[0; 40]))]), TelemetryError::Metadata),
        (group(&[right, report(0, 1, 0, 0x80, &[0x10, 2, 0, 0, 0, 0, 0, 0])]), TelemetryError::Tlv),
    ];
    for (bytes, error) in cases {
        assert_eq!(Group::read(&bytes), Err(error), "{bytes:02x?}");
    }
}

proptest! {
    #[test]
    fn any_packet_that_was_cut_behind_its_headers_is_found(
        from: [u8; 4], to: [u8; 4], ports: (u16, u16), seq: u32, ack: u32, payload in 0u32..9000, flags: u8,
        tunnel: bool, metadata in 0u8..20, more in 0usize..30, node: u32,
    ) {
        let packet = Packet {
            saddr: v4(from), daddr: v4(to), sport: ports.0, dport: ports.1, seq, ack, payload, tcp_flags: flags & 0x3f, ..sent()
        };
        let plain = frame(&packet, 66 + more);
        let cut = if tunnel { tunnelled(&plain, 66 + payload as usize) } else { plain };
        let contents = int(0, &vec![0; 4 * usize::from(metadata)], &cut);
        let mut bytes = group(&[report(1, 3, metadata, 0x80, &contents)]);
        bytes[4..8].copy_from_slice(&node.to_be_bytes());
        let found = Group::read(&bytes).unwrap().reports().next().unwrap().packet(PORT).unwrap();
        prop_assert_eq!(found.outer.is_some(), tunnel);
        prop_assert_eq!(found.packet.flow_key(), packet.flow_key());
        prop_assert_eq!((found.packet.seq, found.packet.ack, found.packet.payload), (seq, ack, payload));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..3, inner in 0u8..7) {
        for bytes in [bytes.clone(), group(&[report(kind, inner, bytes.first().map_or(0, |b| b % 8), 0x80, &bytes)])] {
            if let Ok(group) = Group::read(&bytes) {
                prop_assert!(group.reports().count() <= bytes.len() / 4);
                for report in group.reports() {
                    if let Some(found) = report.packet(PORT) {
                        prop_assert!(found.headers.len() <= bytes.len() + 60);
                    }
                }
            }
        }
    }
}
