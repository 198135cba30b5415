//! What frames say, read without the edge's own parser.

use kernel::state::{address, words};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source of the IP packet in a frame.
pub(crate) fn source(frame: &[u8]) -> Option<IpAddr> {
    match frame.get(12..14)? {
        [0x08, 0x00] => Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(26..30)?).ok()?).into()),
        [0x86, 0xdd] => Some(Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(22..38)?).ok()?).into()),
        _ => None,
    }
}

/// The source in the form of the data path: both that an IPv6 header can hold are one.
pub(crate) fn same(addr: IpAddr) -> IpAddr {
    address(words(addr))
}

/// What an IPv6 packet says by neighbour discovery to its receiver: type, and the address that it is about. Extension headers are
/// followed to the end. Not in fragments, where receivers ignore it (RFC 6980).
pub(crate) fn discovery(frame: &[u8]) -> Option<(u8, Ipv6Addr)> {
    if frame.get(12..14)? != [0x86, 0xdd] {
        return None;
    }
    let (mut next, mut at) = (*frame.get(20)?, 54);
    while matches!(next, 0 | 43 | 60) {
        (next, at) = (*frame.get(at)?, at + 8 * (usize::from(*frame.get(at + 1)?) + 1));
    }
    let target = <[u8; 16]>::try_from(frame.get(at + 8..at + 24)?).ok()?;
    (next == 58).then(|| Some((*frame.get(at)?, Ipv6Addr::from(target))))?
}

/// What a host may make of a frame that it forwards: without its tags, and without what is behind the end of the packet.
pub(crate) fn forwarded(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut bare = frame.to_vec();
    while matches!(bare.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8])) && bare.len() >= 18 {
        bare.drain(12..16);
    }
    let length = |at: usize| bare.get(at..at + 2).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let end = match bare.get(12..14) {
        Some([0x08, 0x00]) => 14 + length(16),
        Some([0x86, 0xdd]) => 54 + length(18),
        _ => bare.len(),
    };
    let trimmed = bare[..end.min(bare.len())].to_vec();
    vec![bare, trimmed]
}

/// Destination of the IP packet in a frame.
pub(crate) fn destination(frame: &[u8]) -> Option<IpAddr> {
    match frame.get(12..14)? {
        [0x08, 0x00] => Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(30..34)?).ok()?).into()),
        [0x86, 0xdd] => Some(Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(38..54)?).ok()?).into()),
        _ => None,
    }
}

/// The ECN codepoint of its IP header.
pub(crate) fn ecn_of(frame: &[u8]) -> u8 {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame[15] & 3,
        _ => frame[15] >> 4 & 3,
    }
}

/// The reserved bit of an IPv4 header.
pub(crate) fn has_bit(frame: &[u8]) -> bool {
    frame[12..14] == [0x08, 0x00] && frame[20] & 0x80 != 0
}

/// Protocol of its IP packet. Of IPv6 that behind as many extension headers as edges read: four, in 255 bytes with the IP header.
pub(crate) fn protocol(frame: &[u8]) -> Option<u8> {
    if frame.get(12..14)? == [0x08, 0x00] {
        return frame.get(23).copied();
    }
    let (mut next, mut at) = (*frame.get(20)?, 54);
    for _ in 0..4 {
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        let end = at + 8 * (usize::from(*frame.get(at + 1)?) + 1);
        if end > 14 + 255 {
            break;
        }
        (next, at) = (*frame.get(at)?, end);
    }
    Some(next)
}

/// Is the second the first with no more than what laws write: the ECN codepoint, and behind the IP header TCP's flags, window and checksum?
pub(crate) fn differ_by_laws_only(before: &[u8], after: &[u8]) -> bool {
    let (ip, fixed) = match before.get(12..14) {
        Some([0x08, 0x00]) => (16..24, 26..34),
        Some([0x86, 0xdd]) => (16..38, 38..54),
        _ => return before == after,
    };
    let differ = |(a, b): (&u8, &u8)| a != b;
    before.len() == after.len()
        && before[..15] == after[..15]
        && before[ip.clone()] == after[ip]
        && before[fixed.clone()] == after[fixed.clone()]
        && before[fixed.end..].iter().zip(&after[fixed.end..]).filter(|pair| differ(*pair)).count() <= 6
}
