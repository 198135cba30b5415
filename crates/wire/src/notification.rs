//! Notifications of dropped packets: the format of FastLane (Zats et al. 2013, section 3.1).
//!
//! A switch turns a TCP packet that it drops into its notification and sends that back to the source: IP addresses swapped, ports
//! kept, the payload cut. The IP length stays that of the dropped packet, so that the sender learns how much is missing.

use crate::checksum;
use crate::encap::read_outer;
use crate::{parse, proto, Packet};
use std::ffi::c_int;

extern "C" {
    fn sv_wire_notification_is(frame: *const u8, len: usize) -> c_int;
    fn sv_wire_notification_read(packet: *mut Packet) -> c_int;
}

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
    if is_notification(dropped) {
        return None;
    }
    let (mut frame, family) = headers(dropped, 0)?;
    swap(&mut frame, family);
    begin_anew(&mut frame[ETHERNET..], family);
    Some(frame)
}

/// The same of a frame in the tunnel, whose UDP port is `port`: the addresses of both frames are swapped, DSCP and TTL are those of a
/// notification in the outer header alone, and everything behind the inner TCP header is cut. Both IP lengths and UDP's stay, and so does all that
/// the tunnel's headers say.
///
/// `None` as above, for what is not in the tunnel, and for what is with a guest's packet that has no notification.
pub fn in_tunnel(dropped: &[u8], port: u16) -> Option<Vec<u8>> {
    if is_notification(dropped) {
        return None;
    }
    let outer = read_outer(dropped, port)?;
    let inner = usize::from(outer.add_len);
    let (mut frame, family) = headers(dropped, inner)?;
    swap(&mut frame[inner..], family);
    let outer = if u16::from_be_bytes([dropped[12], dropped[13]]) == 0x0800 { 4 } else { 6 };
    swap(&mut frame, outer);
    begin_anew(&mut frame[ETHERNET..], outer);
    Some(frame)
}

/// All up to the end of the TCP header of the frame that begins at `at`, and its IP version.
fn headers(dropped: &[u8], at: usize) -> Option<(Vec<u8>, u8)> {
    let frame = dropped.get(at..)?;
    let packet = parse(frame).ok().filter(|packet| packet.proto == proto::TCP)?;
    let ethertype = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    if !matches!(ethertype, 0x0800 | 0x86dd) {
        return None;
    }
    let kept = at + ETHERNET + usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len);
    Some((dropped.get(..kept)?.to_vec(), packet.family))
}

/// MAC and IP addresses.
fn swap(frame: &mut [u8], family: u8) {
    let (to, from) = frame.split_at_mut(6);
    to.swap_with_slice(&mut from[..6]);
    let (at, len) = if family == 4 { (12, 4) } else { (8, 16) };
    let (source, destination) = frame[ETHERNET + at..ETHERNET + at + 2 * len].split_at_mut(len);
    source.swap_with_slice(destination);
}

/// An IP header gets DSCP and TTL of a notification.
fn begin_anew(ip: &mut [u8], family: u8) {
    if family == 4 {
        let words = |ip: &[u8]| [[ip[0], ip[1]], [ip[8], ip[9]]].map(u16::from_be_bytes);
        let before = words(ip);
        (ip[1], ip[8]) = (DSCP << 2, TTL);
        let after = words(ip);
        let check = u16::from_be_bytes([ip[10], ip[11]]);
        let check = before.into_iter().zip(after).fold(check, |sum, (old, new)| checksum::update(sum, old, new));
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        ip[0] = ip[0] & 0xf0 | DSCP >> 2;
        ip[1] = ip[1] & 0x0f | DSCP << 6;
        ip[7] = TTL;
    }
}

/// Is a frame (Ethernet without VLAN tag) a notification, by its DSCP? In the tunnel the outer one.
pub fn is_notification(frame: &[u8]) -> bool {
    // SAFETY: the C function reads no further than the length.
    unsafe { sv_wire_notification_is(frame.as_ptr(), frame.len()) != 0 }
}

/// The packet of which a notification tells, as its sender sent it, from what stands in the notification behind the tunnel's headers.
/// `None` if it is not TCP's.
pub fn of_dropped(mut inner: Packet) -> Option<Packet> {
    // SAFETY: a packet of our own.
    (unsafe { sv_wire_notification_read(&mut inner) } != 0).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use crate::encap::Encap;
    use crate::{emit, tcp, v4, TcpOptions};
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

    /// In the tunnel, as an edge sends it, with what the tunnel's header says of cell and feedback.
    fn tunnelled(family: u8, inner: &[u8], shim: u8) -> Vec<u8> {
        let encap = Encap { shim, has_cell: 1, cell: 9, ..Encap::new(7, 2) };
        let (first, second) = encap.pack();
        let shim = [0; 8].get(..8 * usize::from(shim)).unwrap();
        let len = (16 + shim.len() + inner.len()) as u16;
        let udp = [0xc1, 7, 0x12, 0xb5, (len >> 8) as u8, len as u8, 0, 0];
        let headers = [&udp[..], &first.to_be_bytes(), &second.to_be_bytes(), shim, inner].concat();
        let outer =
            Packet { proto: proto::UDP, payload: u32::from(len) - 8, tcp_flags: 0, ecn: 2, ..dropped(family, 0) };
        let mut frame = emit(&outer, &TcpOptions::default()).unwrap();
        let at = frame.len() - headers.len();
        frame[at..].copy_from_slice(&headers);
        frame
    }

    #[test]
    fn in_the_tunnel_both_pairs_of_addresses_are_swapped() {
        for (outer, inner) in [(4, 4), (4, 6), (6, 4), (6, 6)] {
            let packet = dropped(inner, 1400);
            let guests = emit(&packet, &TcpOptions { timestamps: Some((5, 6)), ..TcpOptions::default() }).unwrap();
            for shim in [0, 1] {
                let frame = tunnelled(outer, &guests, shim);
                let notice = in_tunnel(&frame, 4789).unwrap();
                assert!(is_notification(&notice) && !is_notification(&frame));
                assert_eq!(in_tunnel(&notice, 4789), None, "a dropped notification has none");
                let (was, is) = [&frame, &notice].map(|frame| read_outer(frame, 4789).unwrap()).into();
                assert_eq!((is.saddr, is.daddr), (was.daddr, was.saddr));
                assert_eq!(
                    (is.encap, is.sport, is.add_len, is.frame_len),
                    (was.encap, was.sport, was.add_len, was.frame_len)
                );
                assert_eq!((is.ecn, was.ecn), (0, 2), "nobody counts a mark of it");
                let at = usize::from(is.add_len);
                let headers = ETHERNET + if inner == 4 { 20 } else { 40 } + 32;
                assert_eq!(notice.len(), at + headers, "cut behind the inner TCP header");
                assert_eq!(notice[at + headers - 32..], frame[at + headers - 32..at + headers], "which is untouched");
                assert_eq!(
                    (&notice[at..at + 6], &notice[at + 6..at + 12]),
                    (&frame[at + 6..at + 12], &frame[at..at + 6])
                );
                let seen = parse(&notice[at..]).unwrap();
                assert_eq!((seen.saddr, seen.daddr, seen.truncated), (packet.daddr, packet.saddr, 1));
                let said = of_dropped(seen).unwrap();
                assert_eq!((said.flow_key(), said.seq, said.ack), (packet.flow_key(), 77, 99));
                assert_eq!((said.payload, said.tcp_flags), (1400, tcp::ACK));
                if outer == 4 {
                    assert_eq!(Sum::default().bytes(&notice[ETHERNET..ETHERNET + 20]).finish(), 0);
                }
                if inner == 4 {
                    assert_eq!(Sum::default().bytes(&notice[at + ETHERNET..at + ETHERNET + 20]).finish(), 0);
                }
            }
        }
    }

    #[test]
    fn what_is_not_in_the_tunnel_or_not_tcp_in_it_has_none() {
        let guests = emit(&dropped(4, 100), &TcpOptions::default()).unwrap();
        assert_eq!(in_tunnel(&guests, 4789), None);
        assert_eq!(in_tunnel(&tunnelled(4, &guests, 0), 4790), None, "of another port");
        let udp = emit(&Packet { proto: proto::UDP, ..dropped(4, 100) }, &TcpOptions::default()).unwrap();
        assert_eq!(in_tunnel(&tunnelled(4, &udp, 0), 4789), None);
        assert_eq!(in_tunnel(&tunnelled(4, &guests, 0)[..100], 4789), None, "cut before the end of the TCP header");
    }

    #[test]
    fn notifications_are_of_tcp() {
        let of = |packet: Packet| of_dropped(packet).map(|of| (of.saddr, of.sport));
        let ack = dropped(4, 0);
        assert_eq!(of(ack), Some((ack.daddr, ack.sport)));
        assert_eq!(of(Packet { proto: proto::UDP, ..dropped(4, 1) }), None);
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
            let _ = (notification(&bytes), in_tunnel(&bytes, 4789));
        }
    }
}
