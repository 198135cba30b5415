//! Notifications of dropped packets: the format of FastLane (Zats et al. 2013, section 3.1).
//!
//! A switch turns a TCP packet that it drops into its notification and sends that back to the source: IP addresses swapped, ports
//! kept, the payload cut. The IP length stays that of the dropped packet, so that the sender learns how much is missing.

use crate::checksum;
use crate::{parse, proto};

/// DSCP of a notification; the paper names no value. Of the pool for experimental and local use (RFC 2474, section 6). The ECN field
/// is 0.
pub const DSCP: u8 = 43;

/// TTL of a notification: the switch starts a new journey.
const TTL: u8 = 64;
const ETHERNET: usize = 14;

/// The notification of a dropped frame: Ethernet without VLAN tag, IPv4 or IPv6, TCP. MAC addresses are swapped like the IP addresses.
///
/// The IPv4 checksum is right. The TCP checksum is the dropped packet's, which receivers of notifications must not verify: it
/// covers the payload that is missing.
///
/// `None` for everything that has no notification: notifications themselves, fragments, other protocols, and what does not parse.
pub fn notification(dropped: &[u8]) -> Option<Vec<u8>> {
    let packet = parse(dropped).ok().filter(|packet| packet.proto == proto::TCP)?;
    let ethertype = u16::from_be_bytes([*dropped.get(12)?, *dropped.get(13)?]);
    if !matches!(ethertype, 0x0800 | 0x86dd) || is_notification(dropped) {
        return None;
    }
    let kept = ETHERNET + usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
    let mut frame = dropped.get(..kept)?.to_vec();
    let (to, from) = frame.split_at_mut(6);
    to.swap_with_slice(&mut from[..6]);
    let ip = &mut frame[ETHERNET..];
    match packet.family {
        4 => {
            let words = |ip: &[u8]| [[ip[0], ip[1]], [ip[8], ip[9]]].map(u16::from_be_bytes);
            let before = words(ip);
            (ip[1], ip[8]) = (DSCP << 2, TTL);
            let after = words(ip);
            let check = u16::from_be_bytes([ip[10], ip[11]]);
            let check = before.into_iter().zip(after).fold(check, |sum, (old, new)| checksum::update(sum, old, new));
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            let (source, destination) = ip[12..20].split_at_mut(4);
            source.swap_with_slice(destination);
        }
        _ => {
            ip[0] = ip[0] & 0xf0 | DSCP >> 2;
            ip[1] = ip[1] & 0x0f | DSCP << 6;
            ip[7] = TTL;
            let (source, destination) = ip[8..40].split_at_mut(16);
            source.swap_with_slice(destination);
        }
    }
    Some(frame)
}

/// Is a frame (Ethernet without VLAN tag) a notification, by its DSCP?
pub fn is_notification(frame: &[u8]) -> bool {
    let Some(&[high, low, first, second]) = frame.get(12..16) else { return false };
    let dscp = match u16::from_be_bytes([high, low]) {
        0x0800 => second >> 2,
        0x86dd => (first << 4 | second >> 4) >> 2,
        _ => return false,
    };
    dscp == DSCP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::{emit, tcp, v4, Packet, TcpOptions};
    use proptest::prelude::*;

    fn dropped(family: u8, payload: u32) -> Packet {
        Packet {
            saddr: if family == 4 { v4([10, 0, 0, 1]) } else { [0x2001_0db8, 0, 0, 1] },
            daddr: if family == 4 { v4([10, 0, 0, 2]) } else { [0x2001_0db8, 0, 0, 2] },
            seq: 77,
            ack: 99,
            payload,
            sport: 1000,
            dport: 80,
            proto: proto::TCP,
            family,
            tcp_flags: tcp::ACK,
            ..Packet::default()
        }
    }

    #[test]
    fn addresses_are_swapped_ports_and_length_kept_and_the_payload_cut() {
        for (family, headers) in [(4, 40), (6, 60)] {
            let packet = dropped(family, 1460);
            let frame = emit(&packet, &TcpOptions::default()).unwrap();
            let notice = notification(&frame).unwrap();
            assert_eq!(notice.len(), ETHERNET + headers);
            assert_eq!((&notice[..6], &notice[6..12]), (&frame[6..12], &frame[..6]));
            let seen = parse(&notice).unwrap();
            assert_eq!((seen.saddr, seen.daddr), (packet.daddr, packet.saddr));
            assert_eq!((seen.sport, seen.dport, seen.seq, seen.ack), (1000, 80, 77, 99));
            assert_eq!((seen.payload, seen.truncated, seen.ecn), (1460, 1, 0), "the length is the dropped packet's");
            assert!(is_notification(&notice) && !is_notification(&frame));
            assert_eq!(notification(&notice), None, "a dropped notification has none");
        }
    }

    #[test]
    fn tcp_options_are_kept() {
        let options = TcpOptions { timestamps: Some((5, 6)), ..TcpOptions::default() };
        let frame = emit(&dropped(4, 100), &options).unwrap();
        let notice = notification(&frame).unwrap();
        assert_eq!(notice.len(), ETHERNET + 20 + 32);
        assert_eq!(notice[ETHERNET + 20..], frame[ETHERNET + 20..ETHERNET + 52], "the TCP header is untouched");
    }

    #[test]
    fn other_protocols_fragments_and_cut_headers_have_none() {
        let udp = emit(&Packet { proto: proto::UDP, ..dropped(4, 100) }, &TcpOptions::default()).unwrap();
        assert_eq!(notification(&udp), None);
        let tcp = emit(&dropped(4, 100), &TcpOptions::default()).unwrap();
        let mut fragment = tcp.clone();
        fragment[ETHERNET + 6] = 0x20;
        assert_eq!(notification(&fragment), None);
        assert_eq!(notification(&tcp[..50]), None);
        assert_eq!(notification(&[]), None);
    }

    proptest! {
        #[test]
        fn the_checksum_is_right_for_any_addresses_marks_and_lengths(
            from: [u8; 4], to: [u8; 4], payload in 0u32..9000, ttl: u8, tos: u8,
        ) {
            let packet = Packet { saddr: v4(from), daddr: v4(to), ..dropped(4, payload) };
            let mut frame = emit(&packet, &TcpOptions::default()).unwrap();
            (frame[ETHERNET + 1], frame[ETHERNET + 8]) = (tos, ttl);
            frame[ETHERNET + 10..ETHERNET + 12].fill(0);
            let check = Sum::default().bytes(&frame[ETHERNET..ETHERNET + 20]).finish();
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&check.to_be_bytes());
            if let Some(notice) = notification(&frame) {
                prop_assert_eq!(Sum::default().bytes(&notice[ETHERNET..ETHERNET + 20]).finish(), 0);
            } else {
                prop_assert_eq!(tos >> 2, DSCP);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = notification(&bytes);
        }
    }
}
