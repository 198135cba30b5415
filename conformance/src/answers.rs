//! What the edge says to a guest by itself, and what it does to its SYNs: written from the RFCs and not from `datapath/`,
//! which it checks.

use crate::config::Config;
use crate::inner::ETHERNET;
use crate::world::{EDGE_MAC, GUEST, NEIGHBOUR, PEERS};
use wire::checksum::{update, Sum};
use wire::{proto, tcp, Packet};

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// A guest's ARP packet or neighbour solicitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(crate) asker: [u32; 4],
    asked: [u32; 4],
    /// ARP's sender; neighbour discovery goes by the Ethernet header.
    mac: [u8; 6],
    /// Not about the asker's own address, and a question at all.
    open: bool,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn mac(bytes: &[u8]) -> [u8; 6] {
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}

/// RFC 826, RFC 4861 section 7.1.1; `None`: neither of the two, or not well formed.
pub(crate) fn question(frame: &[u8]) -> Option<Question> {
    let kind = frame.get(12..14)?;
    if kind == ARP && frame.len() >= 42 {
        let arp = &frame[ETHERNET..];
        let operation = u16::from_be_bytes([arp[6], arp[7]]);
        if arp[..6] != [0, 1, 8, 0, 6, 4] || !matches!(operation, 1 | 2) {
            return None;
        }
        let (asker, asked) = ([0, 0, 0xffff, word(arp, 14)], [0, 0, 0xffff, word(arp, 24)]);
        let open = operation == 1 && asker[3] != 0 && asker != asked;
        return Some(Question { asker, asked, mac: mac(&arp[8..]), open });
    }
    if kind == IPV6 && frame.len() >= 78 {
        let (ip, icmp) = (&frame[ETHERNET..], &frame[54..]);
        let length = u16::from_be_bytes([ip[4], ip[5]]);
        if ip[0] >> 4 != 6 || ip[6] != 58 || ip[7] != 255 || length < 24 || icmp[..2] != [135, 0] || icmp[8] == 0xff {
            return None;
        }
        let address = |bytes: &[u8], at: usize| [0, 4, 8, 12].map(|i| word(bytes, at + i));
        let (asker, asked) = (address(ip, 8), address(icmp, 8));
        return Some(Question { asker, asked, mac: mac(&frame[6..]), open: asker != [0; 4] && asker != asked });
    }
    None
}

/// The answer, where there is one.
pub(crate) fn answer(config: &Config, frame: &[u8], question: &Question) -> Option<Vec<u8>> {
    let edge = if config.answers { EDGE_MAC } else { [0; 6] };
    let guests = PEERS.iter().map(|peer| &peer.guest).chain([&NEIGHBOUR]);
    let known = guests.into_iter().find(|guest| guest.has(&question.asked))?;
    let mac = if known.mac == [0; 6] { edge } else { known.mac };
    if !question.open || mac == [0; 6] {
        return None;
    }
    let mut out = [&frame[6..12], &mac, &frame[12..14]].concat();
    let octets = |address: &[u32; 4]| address.map(u32::to_be_bytes).concat();
    if frame[12..14] == ARP {
        out.extend([0, 1, 8, 0, 6, 4, 0, 2]);
        for (mac, address) in [(mac, &question.asked), (question.mac, &question.asker)] {
            out.extend(mac);
            out.extend(&octets(address)[12..]);
        }
        return Some(out);
    }
    out.extend(&frame[ETHERNET..18]);
    out.extend([0, 32, 58, 255]);
    let (asked, asker) = (octets(&question.asked), octets(&question.asker));
    let mut icmp = vec![136, 0, 0, 0, 0x60, 0, 0, 0]; // solicited, override
    icmp.extend(&asked);
    icmp.extend([2, 1]); // target link-layer address
    icmp.extend(mac);
    let check = Sum::default().bytes(&asked).bytes(&asker).word(58).word(32).bytes(&icmp).finish();
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    out.extend(asked);
    out.extend(asker);
    out.extend(icmp);
    Some(out)
}

/// May the guest speak under this address, if its port is strict?
pub(crate) fn is_own(source: &[u32; 4]) -> bool {
    is_unrouted(source) || GUEST.has(source)
}

/// Unspecified or link-local: from a strict port it is for the host only.
pub(crate) fn is_unrouted(source: &[u32; 4]) -> bool {
    let unspecified = *source == [0; 4] || *source == [0, 0, 0xffff, 0];
    unspecified || source[0] & 0xffc0_0000 == 0xfe80_0000
}

/// Is the frame, of one packet unless `segment_size` says otherwise, larger than the port's MTU allows?
pub(crate) fn oversize(mtu: u16, frame: &[u8], packet: Option<&Packet>) -> bool {
    if mtu == 0 {
        return false;
    }
    let least = if frame[ETHERNET] >> 4 == 4 { 128 } else { 1280 };
    let split = packet.filter(|packet| packet.segment_size != 0);
    let len = split.map_or(frame.len() - ETHERNET, |packet| {
        usize::from(packet.ip_header_len) + usize::from(packet.l4_header_len) + usize::from(packet.segment_size)
    });
    len > usize::from(mtu).max(least)
}

/// Lowers the last MSS option of a SYN to what the port's MTU allows. True if it was larger.
pub(crate) fn clamp(mtu: u16, frame: &mut [u8], packet: &mut Packet) -> bool {
    let headers = if packet.family == 4 { 40 } else { 60 };
    let limit = mtu.saturating_sub(headers);
    if limit == 0 || packet.proto != proto::TCP || !packet.has_flags(tcp::SYN) || packet.mss <= limit {
        return false;
    }
    let tcp = ETHERNET + usize::from(packet.ip_header_len);
    let end = tcp + usize::from(packet.l4_header_len);
    let (mut at, mut found) = (tcp + 20, None);
    while at + 1 < end && frame[at] != 0 {
        let size = if frame[at] == 1 { 1 } else { usize::from(frame[at + 1]) };
        if frame[at] != 1 && (size < 2 || at + size > end) {
            break;
        }
        if frame[at] == 2 && size == 4 {
            found = Some(at + 2);
        }
        at += size;
    }
    let Some(at) = found else { return false };
    let get = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    // A field at an odd offset is summed with its bytes exchanged.
    let summed = |value: u16| if (at - tcp) % 2 == 1 { value.swap_bytes() } else { value };
    let check = update(get(frame, tcp + 16), summed(get(frame, at)), summed(limit));
    frame[at..at + 2].copy_from_slice(&limit.to_be_bytes());
    frame[tcp + 16..tcp + 18].copy_from_slice(&check.to_be_bytes());
    packet.mss = limit;
    true
}
