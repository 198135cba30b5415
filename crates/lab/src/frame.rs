//! Frames of hosts and packets of the model: a frame is read, cut into packets that refer to it, and written again from
//! the packets that arrived. All functions are pure.

use fabric::{flow_hash, Packet};
use port::{gso, Pool, VnetHeader};
use wire::checksum::{update, Sum};
use wire::{dirty, proto, tcp, ParseError};

/// Octets of each packet on the wire besides the frame without its FCS: preamble 8, FCS 4, gap 12.
pub(crate) const WIRE_OVERHEAD: u32 = 24;
/// The shortest Ethernet frame with all of them.
const MIN_WIRE: u32 = 84;
const ETHERNET: usize = 14;
/// The shortest Ethernet frame without its FCS.
pub(crate) const LEAST: usize = 60;

/// Why a frame does not enter the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ignored {
    /// Neither IPv4 nor IPv6: ARP above all, which hosts do not need here.
    NotIp,
    /// To no host of the lab: multicast, or an address that nobody has.
    NoHost,
    /// What the header asks for does not fit the frame.
    Malformed,
}

/// The number in a hardware address of [`mac`].
pub(crate) fn host_of(mac: &[u8]) -> Option<u32> {
    let number = mac.strip_prefix(&MAC_PREFIX)?;
    Some(u32::from_be_bytes([0, *number.first()?, *number.get(1)?, *number.get(2)?]))
}

/// Locally administered.
const MAC_PREFIX: [u8; 3] = [0x02, 0x53, 0x56];

/// The hardware address of a host's interface.
pub fn mac(host: u32) -> [u8; 6] {
    let [_, a, b, c] = host.to_be_bytes();
    [MAC_PREFIX[0], MAC_PREFIX[1], MAC_PREFIX[2], a, b, c]
}

/// Bytes of the Ethernet header, tags included, and its type.
fn ethernet(frame: &[u8]) -> Option<(usize, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut len = ETHERNET;
    let mut kind = word(12)?;
    for _ in 0..2 {
        if !matches!(kind, 0x8100 | 0x88a8) {
            break;
        }
        kind = word(len + 2)?;
        len += 4;
    }
    Some((len, kind))
}

/// What the model carries for a frame: one packet, or a segment that [`cut`] divides. `slot` is its name.
///
/// IP packets that are neither TCP nor UDP, and fragments, are opaque: they have addresses, a protocol and an ECN
/// codepoint, `l4_header_len` is 0, and the edge does not see them.
pub(crate) fn read(frame: &[u8], header: &VnetHeader, src: u32, hosts: u32, slot: u32) -> Result<Packet, Ignored> {
    let headers = match wire::parse(frame) {
        Ok(headers) => segment(headers, header)?,
        Err(ParseError::NotIp) => return Err(Ignored::NotIp),
        Err(ParseError::NotTransport | ParseError::Fragment) if header.gso_type == gso::NONE => opaque(frame)?,
        Err(_) => return Err(Ignored::Malformed),
    };
    let dst = host_of(&frame[..6]).filter(|&dst| dst < hosts && dst != src).ok_or(Ignored::NoHost)?;
    let wire_len = wire_len(frame.len() as u32);
    Ok(Packet { src, dst, slot, wire_len, hash: flow_hash(&headers), headers, ..Packet::default() })
}

/// Adds what the header says about segmentation.
fn segment(mut headers: wire::Packet, header: &VnetHeader) -> Result<wire::Packet, Ignored> {
    let expected = match (header.gso_type & !gso::ECN, headers.proto, headers.family) {
        (gso::NONE, ..) => return if headers.truncated == 0 { Ok(headers) } else { Err(Ignored::Malformed) },
        (gso::TCPV4, proto::TCP, 4) | (gso::TCPV6, proto::TCP, 6) | (gso::UDP_L4, proto::UDP, _) => true,
        _ => false,
    };
    if !expected || header.gso_size == 0 || !header.needs_csum() || headers.truncated != 0 {
        return Err(Ignored::Malformed);
    }
    if headers.payload > u32::from(header.gso_size) {
        headers.segment_size = header.gso_size;
    }
    Ok(headers)
}

fn opaque(frame: &[u8]) -> Result<wire::Packet, Ignored> {
    let (l2, kind) = ethernet(frame).ok_or(Ignored::Malformed)?;
    let ip = &frame[l2..];
    let word = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let mut headers = wire::Packet::default();
    match kind {
        0x0800 if ip.len() >= 20 => {
            headers.family = 4;
            headers.ecn = ip[1] & 3;
            headers.proto = ip[9];
            headers.saddr = [0, 0, 0xffff, word(12)];
            headers.daddr = [0, 0, 0xffff, word(16)];
            headers.ip_header_len = 20;
        }
        0x86dd if ip.len() >= 40 => {
            headers.family = 6;
            headers.ecn = ip[1] >> 4 & 3;
            headers.proto = ip[6];
            headers.saddr = std::array::from_fn(|i| word(8 + 4 * i));
            headers.daddr = std::array::from_fn(|i| word(24 + 4 * i));
            headers.ip_header_len = 40;
        }
        _ => return Err(Ignored::Malformed),
    }
    Ok(headers)
}

pub(crate) fn wire_len(frame_len: u32) -> u32 {
    (frame_len + WIRE_OVERHEAD).max(MIN_WIRE)
}

/// The `i`-th packet that a NIC makes of a segment, with the sequence number and flags that TSO gives it. `flow` holds the offset
/// of its payload within the segment's.
pub(crate) fn cut(segment: &Packet, i: u32) -> Packet {
    let mut packet = *segment;
    let h = &mut packet.headers;
    let size = u32::from(h.segment_size);
    if size == 0 {
        return packet;
    }
    let offset = i * size;
    let last = offset + size >= h.payload;
    let whole = h.payload;
    h.payload = if last { whole.saturating_sub(offset) } else { size };
    h.segment_size = 0;
    if h.proto == proto::TCP {
        h.seq = h.seq.wrapping_add(offset);
        if !last {
            h.tcp_flags &= !(tcp::PSH | tcp::FIN);
        }
        if i > 0 {
            h.tcp_flags &= !tcp::CWR;
        }
    }
    packet.flow = offset;
    let frame = segment.wire_len - WIRE_OVERHEAD;
    packet.wire_len = wire_len(frame - whole + h.payload);
    packet
}

/// Writes what the edge changed of a packet into the frame that it was read from. `resized` is scratch for a frame whose
/// length changes; if it does, the new frame is there.
pub(crate) fn rewrite(
    packet: &mut wire::Packet,
    frame: &mut [u8],
    header: &VnetHeader,
    resized: &mut Vec<u8>,
) -> Result<bool, ParseError> {
    let resizes = packet.dirty & dirty::OPTION != 0;
    if resizes {
        resized.clear();
        resized.extend_from_slice(frame);
        wire::write_back_resized(packet, resized)?;
    } else {
        wire::write_back(packet, frame)?;
    }
    packet.dirty = 0;
    if header.needs_csum() {
        let frame = if resizes { resized.as_mut_slice() } else { frame };
        leave_sum_undone(frame, packet);
    }
    Ok(resizes)
}

/// The headers of a frame about to be written, and what the receiving kernel is told about it.
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    pub(crate) vnet: VnetHeader,
}

/// Headers for the frame that one packet, or several merged ones, arrive as. `frame` and `original` are those of the frame
/// that the first was cut from; `index` says which of its packets that was. `packet` has the payload of all,
/// `segment_size` if it is to be cut again, and what the edge changed on arrival.
///
/// `None` if they do not belong together, which would be a fault of the caller.
pub(crate) fn head(frame: &[u8], original: &VnetHeader, packet: &wire::Packet, index: u16, cut: bool) -> Option<Head> {
    let (l2, _) = ethernet(frame)?;
    let l4 = l2 + usize::from(packet.ip_header_len);
    let mut len = payload_start(frame, packet)?;
    let mut bytes = frame.get(..len)?.to_vec();
    if has_other_addresses(&bytes, packet) {
        // An edge's option of the hidden overlay: the packet is the guest's again.
        wire::hidden::leave(&mut bytes, packet, cut || original.needs_csum()).ok()?;
        len = bytes.len();
    }
    set_ecn(bytes.get_mut(l2..)?, packet);
    if is_opaque(packet) {
        return Some(Head { bytes, vnet: *original });
    }
    if cut {
        let l4_len = (len - l4) as u32 + packet.payload;
        set_length(bytes.get_mut(l2..l4)?, packet, l4_len, index);
        let transport = bytes.get_mut(l4..)?;
        if packet.proto == proto::TCP {
            transport[4..8].copy_from_slice(&packet.seq.to_be_bytes());
            transport[13] = packet.tcp_flags;
            transport[14..16].copy_from_slice(&packet.window.to_be_bytes());
        } else {
            transport[4..6].copy_from_slice(&(l4_len as u16).to_be_bytes());
        }
    }
    if packet.dirty & !dirty::LABEL != 0 {
        // Only a packet without payload changes its length; an option of any other stays, which guests skip.
        let _ = wire::write_back_resized(packet, &mut bytes);
    }
    if !cut && !original.needs_csum() {
        return Some(Head { bytes, vnet: *original });
    }
    leave_sum_undone(&mut bytes, packet);
    let mut gso_type = gso::NONE;
    if packet.segment_size != 0 {
        gso_type = if packet.family == 4 { gso::TCPV4 } else { gso::TCPV6 };
        if packet.has_flags(tcp::CWR) {
            gso_type |= gso::ECN;
        }
    }
    let vnet = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type,
        hdr_len: bytes.len() as u16,
        gso_size: packet.segment_size,
        csum_start: l4 as u16,
        csum_offset: if packet.proto == proto::TCP { 16 } else { 6 },
    };
    Some(Head { bytes, vnet })
}

/// Puts the sum of the pseudo header, not complemented, where the checksum goes: the receiving kernel takes the segment
/// as its own.
fn leave_sum_undone(bytes: &mut [u8], packet: &wire::Packet) {
    let Some((l2, _)) = ethernet(bytes) else { return };
    let l4 = l2 + usize::from(packet.ip_header_len);
    let Some(start) = payload_start(bytes, packet) else { return };
    let sum = (0..4)
        .fold(Sum::default(), |sum, i| match packet.family {
            4 if i < 3 => sum,
            _ => sum.word(packet.saddr[i]).word(packet.daddr[i]),
        })
        .word(u32::from(packet.proto))
        .word((start - l4) as u32 + packet.payload);
    let at = l4 + if packet.proto == proto::TCP { 16 } else { 6 };
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&(!sum.finish()).to_be_bytes());
    }
}

/// The frame of a packet that an edge made, for the host `to`, from its own host `from`.
pub(crate) fn made(packet: &wire::Packet, from: u32, to: u32) -> Option<Vec<u8>> {
    let mut frame = wire::emit(packet, &wire::TcpOptions::default()).ok()?;
    frame[..6].copy_from_slice(&mac(to));
    frame[6..12].copy_from_slice(&mac(from));
    Some(frame)
}

/// Writes the codepoint that the packet has now, with the checksum of IPv4. No other checksum covers it.
fn set_ecn(ip: &mut [u8], packet: &wire::Packet) {
    if ip.len() < 20 {
        return;
    }
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    let new = match packet.family {
        4 => (old & !3) | u16::from(packet.ecn & 3),
        _ => (old & !0x30) | u16::from(packet.ecn & 3) << 4,
    };
    if new == old {
        return;
    }
    ip[..2].copy_from_slice(&new.to_be_bytes());
    if packet.family == 4 {
        let check = update(u16::from_be_bytes([ip[10], ip[11]]), old, new);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    }
}

/// Length and, of IPv4, identification (which a NIC counts up from packet to packet) and checksum. `ip` is the header.
fn set_length(ip: &mut [u8], packet: &wire::Packet, l4_len: u32, index: u16) {
    if packet.family == 4 {
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index);
        let total = (ip.len() as u32 + l4_len) as u16;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[10..12].fill(0);
        let check = Sum::default().bytes(ip).finish();
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        let total = (ip.len() as u32 - 40 + l4_len) as u16;
        ip[4..6].copy_from_slice(&total.to_be_bytes());
    }
}

/// Is the packet, over IPv4, no more between those whose addresses its frame has?
fn has_other_addresses(frame: &[u8], packet: &wire::Packet) -> bool {
    if packet.family != 4 || packet.proto != proto::TCP || is_opaque(packet) {
        return false;
    }
    let words = packet.saddr[3].to_be_bytes().into_iter().chain(packet.daddr[3].to_be_bytes());
    let addresses = ethernet(frame).and_then(|(l2, _)| frame.get(l2 + 12..l2 + 20));
    addresses.is_some_and(|addresses| !words.eq(addresses.iter().copied()))
}

/// Where the payload of the frame's transport begins, by the frame itself: edges change the length of a packet's headers.
pub(crate) fn payload_start(frame: &[u8], packet: &wire::Packet) -> Option<usize> {
    let l4 = l4_start(frame, packet)?;
    let len = match packet.proto {
        _ if is_opaque(packet) => 0,
        proto::TCP => usize::from(*frame.get(l4 + 12)? >> 4) * 4,
        _ => 8,
    };
    (frame.len() >= l4 + len).then_some(l4 + len)
}

/// Where the transport header begins.
pub(crate) fn l4_start(frame: &[u8], packet: &wire::Packet) -> Option<usize> {
    let (l2, _) = ethernet(frame)?;
    Some(l2 + usize::from(packet.ip_header_len))
}

/// The bytes of the options behind a TCP header.
pub(crate) fn tcp_options<'a>(frame: &'a [u8], packet: &wire::Packet) -> Option<&'a [u8]> {
    frame.get(l4_start(frame, packet)? + 20..payload_start(frame, packet)?)
}

/// Is the packet one that only the fabric and the two kernels understand? What edges say to one another is not.
pub(crate) fn is_opaque(packet: &wire::Packet) -> bool {
    packet.l4_header_len == 0 && !edge::hygenicc::is_feedback(packet)
}

/// The headers of a frame made of parts.
pub(crate) fn head_of(packet: &Packet, merged: bool, pool: &Pool) -> Option<Head> {
    let original = pool.header(packet.slot);
    let size = original.gso_size;
    let cut = merged || packet.flow > 0 || (original.gso_type != 0 && size > 0);
    let index = if size > 0 { packet.flow / u32::from(size) } else { 0 };
    head(pool.frame(packet.slot), &original, &packet.headers, index as u16, cut)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{ecn, reserved, v4, TcpOptions};

    /// A frame from host 0 to host 1 as a kernel with offloads sends it, and its header.
    pub(crate) fn sent(headers: &wire::Packet, size: u16) -> (Vec<u8>, VnetHeader) {
        let options = TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() };
        let mut frame = wire::emit(headers, &options).unwrap();
        frame[..6].copy_from_slice(&mac(1));
        frame[6..12].copy_from_slice(&mac(0));
        for (i, byte) in frame.iter_mut().enumerate().skip(66) {
            *byte = (i * 7) as u8;
        }
        let kind = match (size, headers.proto) {
            (0, _) => gso::NONE,
            (_, proto::TCP) => gso::TCPV4,
            _ => gso::UDP_L4,
        };
        let (at, flags) = if headers.proto == proto::TCP { (16, 1) } else { (6, 1) };
        let vnet = VnetHeader { flags, gso_type: kind, hdr_len: 66, gso_size: size, csum_start: 34, csum_offset: at };
        (frame, vnet)
    }

    pub(crate) fn tcp_headers(payload: u32) -> wire::Packet {
        wire::Packet {
            saddr: v4([10, 0, 0, 1]),
            daddr: v4([10, 0, 0, 2]),
            family: 4,
            proto: proto::TCP,
            sport: 1000,
            dport: 2000,
            seq: u32::MAX - 2000,
            ack: 77,
            window: 500,
            ecn: ecn::ECT0,
            tcp_flags: tcp::ACK | tcp::PSH | tcp::CWR,
            payload,
            ..wire::Packet::default()
        }
    }

    /// The IP header's checksum is right.
    fn ip_is_whole(frame: &[u8]) -> bool {
        Sum::default().bytes(&frame[14..34]).finish() == 0
    }

    #[test]
    fn cutting_keeps_every_byte_and_moves_flags_to_the_edges() {
        let (frame, vnet) = sent(&tcp_headers(3000), 1448);
        let segment = read(&frame, &vnet, 0, 2, 9).unwrap();
        assert_eq!((segment.dst, segment.slot, segment.headers.packet_count()), (1, 9, 3));
        let cuts: Vec<Packet> = (0..3).map(|i| cut(&segment, i)).collect();
        assert_eq!(
            cuts.iter().map(|p| (p.flow, p.headers.payload)).collect::<Vec<_>>(),
            [(0, 1448), (1448, 1448), (2896, 104)]
        );
        assert_eq!(cuts[0].wire_len, 1538);
        assert_eq!(cuts[2].wire_len, 66 + 104 + 24);
        let flags: Vec<u8> = cuts.iter().map(|p| p.headers.tcp_flags & !tcp::ACK).collect();
        assert_eq!(flags, [tcp::CWR, 0, tcp::PSH]);
    }

    #[test]
    fn a_marked_packet_arrives_marked_with_its_checksums() {
        let (frame, vnet) = sent(&tcp_headers(3000), 1448);
        let mut packet = cut(&read(&frame, &vnet, 0, 2, 0).unwrap(), 1);
        packet.headers.ecn = ecn::CE;
        let head = head(&frame, &vnet, &packet.headers, 1, true).unwrap();
        assert_eq!(head.vnet.gso_type, gso::NONE);
        assert_eq!((head.vnet.csum_start, head.vnet.csum_offset), (34, 16));
        let mut arrived = head.bytes.clone();
        assert!(ip_is_whole(&arrived));
        arrived.extend_from_slice(&frame[66 + 1448..66 + 2896]);
        let parsed = wire::parse(&arrived).unwrap();
        assert_eq!((parsed.ecn, parsed.payload, parsed.truncated), (ecn::CE, 1448, 0));
        assert_eq!(parsed.seq, tcp_headers(0).seq.wrapping_add(1448));
        // The receiving kernel would finish the sum like this.
        let sum = Sum::default().bytes(&arrived[34..]).finish();
        arrived[50..52].copy_from_slice(&sum.to_be_bytes());
        let l4 = (arrived.len() - 34) as u32;
        let all = Sum::default().word(0x0a00_0001).word(0x0a00_0002).word(6).word(l4).bytes(&arrived[34..]).finish();
        assert_eq!(all, 0);
    }

    #[test]
    fn what_was_sent_whole_arrives_whole() {
        let (frame, mut vnet) = sent(&tcp_headers(100), 0);
        vnet.flags = 0;
        let packet = read(&frame, &vnet, 0, 2, 0).unwrap();
        let same = head(&frame, &vnet, &packet.headers, 0, false).unwrap();
        assert_eq!((same.bytes.as_slice(), same.vnet), (&frame[..66], vnet));
        let mut changed = packet.headers;
        changed.window = 9;
        changed.dirty = dirty::WINDOW;
        changed.ecn = ecn::CE;
        let head = head(&frame, &vnet, &changed, 0, false).unwrap();
        assert!(ip_is_whole(&head.bytes));
        let fix = update(u16::from_be_bytes([frame[50], frame[51]]), 500, 9);
        assert_eq!(u16::from_be_bytes([head.bytes[50], head.bytes[51]]), fix);
    }

    #[test]
    fn datagrams_are_cut_too() {
        let headers = wire::Packet { proto: proto::UDP, payload: 2500, tcp_flags: 0, seq: 0, ..tcp_headers(0) };
        let (frame, vnet) = sent(&headers, 1000);
        let segment = read(&frame, &vnet, 0, 2, 0).unwrap();
        let last = cut(&segment, 2);
        assert_eq!((last.flow, last.headers.payload), (2000, 500));
        let head = head(&frame, &vnet, &last.headers, 2, true).unwrap();
        let length = u16::from_be_bytes([head.bytes[38], head.bytes[39]]);
        assert_eq!((length, head.vnet.gso_type, head.vnet.csum_offset), (508, gso::NONE, 6));
    }

    #[test]
    fn what_the_edge_changes_is_in_the_frame() {
        let ack = wire::Packet { payload: 0, tcp_flags: tcp::ACK, ..tcp_headers(0) };
        for undone in [true, false] {
            let (mut frame, mut vnet) = sent(&ack, 0);
            if !undone {
                vnet.flags = 0;
            }
            let mut packet = read(&frame, &vnet, 0, 2, 0).unwrap().headers;
            // A feedback option comes in on the way out, and is taken out on arrival.
            (packet.pack, packet.l4_header_len, packet.dirty) = (wire::pack::OK, 40, dirty::OPTION | dirty::FLAGS);
            packet.tcp_reserved = reserved::EDGE | reserved::PACK;
            let mut longer = Vec::new();
            assert_eq!(rewrite(&mut packet, &mut frame, &vnet, &mut longer), Ok(true));
            assert_eq!((longer.len(), packet.dirty), (frame.len() + 8, 0));
            assert!(ip_is_whole(&longer));
            let mut arrived = read(&longer, &vnet, 0, 2, 0).unwrap().headers;
            assert_eq!(arrived.pack, wire::pack::OK);
            (arrived.pack, arrived.l4_header_len, arrived.dirty) = (wire::pack::NONE, 32, dirty::OPTION | dirty::FLAGS);
            arrived.tcp_reserved = 0;
            let head = head(&longer, &vnet, &arrived, 0, false).unwrap();
            assert_eq!(head.bytes.len(), frame.len());
            assert_eq!(head.vnet.needs_csum(), undone);
            let l4 = (head.bytes.len() - 34) as u32;
            let pseudo = Sum::default().word(0x0a00_0001).word(0x0a00_0002).word(6).word(l4);
            if undone {
                assert_eq!(u16::from_be_bytes([head.bytes[50], head.bytes[51]]), !pseudo.finish());
            } else {
                assert_eq!(head.bytes[34..], frame[34..], "as it was sent");
            }
        }
    }

    #[test]
    fn other_protocols_pass_and_strangers_do_not() {
        let mut frame = sent(&tcp_headers(40), 0).0;
        frame[23] = 1; // ICMP
        let none = VnetHeader::default();
        let ping = read(&frame, &none, 0, 2, 0).unwrap();
        assert!(is_opaque(&ping.headers));
        assert_eq!((ping.dst, ping.wire_len, ping.headers.daddr[3]), (1, frame.len() as u32 + 24, 0x0a00_0002));
        assert_eq!(read(&frame, &none, 1, 2, 0).unwrap_err(), Ignored::NoHost, "to itself");
        assert_eq!(read(&frame, &none, 0, 1, 0).unwrap_err(), Ignored::NoHost, "to no host");
        frame[0] = 0x33;
        assert_eq!(read(&frame, &none, 0, 2, 0).unwrap_err(), Ignored::NoHost, "multicast");
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(read(&frame, &none, 0, 2, 0).unwrap_err(), Ignored::NotIp);
    }

    proptest! {
        #[test]
        fn no_frame_and_no_header_panic(mut frame in proptest::collection::vec(any::<u8>(), 0..200), guided: bool,
                                        flags: u8, kind in 0u8..7, size: u16, index: u16, i in 0u32..4) {
            if guided && frame.len() > 47 {
                frame[..6].copy_from_slice(&mac(1));
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[23] = if i % 2 == 0 { 6 } else { 17 };
                frame[20..22].fill(0);
                let len = (frame.len() - 14) as u16;
                frame[16..18].copy_from_slice(&len.to_be_bytes());
                frame[46] = 0x50;
            }
            let vnet = VnetHeader { flags, gso_type: kind, gso_size: size, ..VnetHeader::default() };
            if let Ok(segment) = read(&frame, &vnet, 0, 2, 0) {
                let packet = cut(&segment, i.min(segment.headers.packet_count() - 1));
                let _ = head(&frame, &vnet, &packet.headers, index, false);
                let _ = head(&frame, &vnet, &packet.headers, index, true);
                let _ = tcp_options(&frame, &packet.headers);
            }
        }
    }
}
