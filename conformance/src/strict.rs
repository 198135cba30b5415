//! What a guest may say besides what the edge carries, written from docs/wire.md and not from `datapath/`, which it checks.

use crate::answers::{is_own, Question};
use crate::config::Config;
use crate::inner::ETHERNET;
use crate::world::{Verdict, Why, PORT};

pub(crate) const ICMPV6: u8 = 58;
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// Does an IP packet claim more bytes than there are?
pub(crate) fn claims_more(frame: &[u8]) -> bool {
    let claimed = match frame.get(12..14) {
        Some([0x08, 0x00]) => word(frame, ETHERNET + 2).map(usize::from),
        Some([0x86, 0xdd]) => word(frame, ETHERNET + 4).map(|len| usize::from(len) + 40),
        _ => None,
    };
    claimed.is_some_and(|claimed| claimed > frame.len() - ETHERNET)
}

/// IPv6 extension headers that are stepped over, at most `most` of them, within `limit` bytes from the IP header on. What
/// follows, and where; `None` where it lies beyond.
fn behind_headers(ip: &[u8], most: usize, limit: usize) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*ip.get(6)?, 40);
    for _ in 0..most {
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        next = *ip.get(at)?;
        at += (usize::from(*ip.get(at + 1)?) + 1) * 8;
        if at > limit {
            return None;
        }
    }
    Some((next, at))
}

/// Of a packet that is neither TCP nor UDP nor a fragment: there may be more behind IPv6 extension headers.
pub(crate) fn hides_transport(ip: &[u8]) -> bool {
    ip[0] >> 4 == 6 && behind_headers(ip, 4, 255).is_none_or(|(next, _)| matches!(next, 0 | 43 | 60))
}

/// Where the ICMPv6 message of a packet begins, if it has one within reach.
fn icmpv6(frame: &[u8]) -> Option<&[u8]> {
    let ip = &frame[ETHERNET..];
    match (ip[0] >> 4 == 6).then(|| behind_headers(ip, 4, 255)).flatten() {
        Some((ICMPV6, at)) => ip.get(at..),
        _ => None,
    }
}

/// The address that a neighbour advertisement is about.
pub(crate) fn target(frame: &[u8]) -> Option<[u32; 4]> {
    let icmp = icmpv6(frame).filter(|icmp| icmp.first() == Some(&136))?;
    let target = icmp.get(8..24)?;
    Some([0, 4, 8, 12].map(|i| u32::from_be_bytes([target[i], target[i + 1], target[i + 2], target[i + 3]])))
}

/// ICMPv6 that says to be a router, or to be at another's address.
pub(crate) fn claims_others(frame: &[u8]) -> bool {
    match icmpv6(frame).and_then(|icmp| icmp.first()) {
        Some(134 | 137) => true,
        Some(136) => target(frame).is_none_or(|target| !is_own(&target)),
        _ => false,
    }
}

/// Would a host that forwards the frame, with or without its tags, send it to the tunnel's port?
pub(crate) fn is_for_tunnel(frame: &[u8]) -> bool {
    find_port(frame).unwrap_or(false)
}

fn find_port(frame: &[u8]) -> Option<bool> {
    let mut at = 12;
    let is_tag = |at: usize| frame.get(at..at + 2).is_some_and(|kind| TAGS.iter().any(|tag| tag == kind));
    while is_tag(at) {
        at += 4;
        if at > 12 + 4 * 4 {
            return Some(true); // nobody needs as many
        }
    }
    let (kind, ip) = (word(frame, at)?, frame.get(at + 2..)?);
    ip.get(9)?;
    let udp = match kind {
        0x0800 if ip[9] == 17 && word(ip, 6)? & 0x1fff == 0 => usize::from(ip[0] & 15) * 4,
        0x86dd => {
            let (mut next, mut at, mut n) = (ip[6], 40, 0);
            while matches!(next, 0 | 43 | 44 | 60) {
                if n == 8 {
                    return Some(true);
                }
                let header = ip.get(at..at + 4)?;
                if next == 44 && word(header, 2)? & 0xfff8 != 0 {
                    return Some(false);
                }
                at += if next == 44 { 8 } else { (usize::from(header[1]) + 1) * 8 };
                next = header[0];
                n += 1;
            }
            if next != 17 {
                return Some(false);
            }
            at
        }
        _ => return Some(false),
    };
    Some(word(ip, udp + 2)? == PORT)
}

/// What is not for a guest, and why: what becomes of it, and the counter of what is dropped.
pub(crate) fn leave(
    config: &Config,
    frame: &[u8],
    why: Why,
    question: Option<&Question>,
) -> (Verdict, Option<&'static str>) {
    if config.strict {
        let unknown = match why {
            Why::Tagged => return (Verdict::DropTagged, Some("drop_tagged_segments")),
            Why::Parse(wire::ParseError::NotIp) => question.is_none(),
            Why::Parse(wire::ParseError::Malformed | wire::ParseError::Short) => true,
            _ => hides(frame, why),
        };
        if unknown {
            return (Verdict::DropMalformed, Some("drop_malformed_segments"));
        }
    }
    if config.isolated {
        return (Verdict::DropHost, Some("drop_host_segments"));
    }
    if is_for_tunnel(frame) {
        return (Verdict::DropTunnel, Some("drop_tunnel_segments"));
    }
    (Verdict::Pass, None)
}

fn hides(frame: &[u8], why: Why) -> bool {
    why == Why::Route && hides_transport(&frame[ETHERNET..])
}
