//! A segment that this host has dropped, as its program tells of it, and the frames by which packets of it are sent again.

use kernel::state::fastlane::{FastCall, FastDrop};
use kernel::state::Plain;
use port::{gso, VnetHeader};
use wire::checksum::{update, Sum};
use wire::tcp;

/// Bytes of payload that the kernel is to put beside a segment's headers. With headers alone Linux 6.12 warned where such a segment's payload
/// was joined to another's (`skb_try_coalesce`): it had counted less memory than bytes, probably since the room for headers had grown.
const BESIDE: usize = 64;
const ETHERNET: usize = 14;
/// Of a TCP header: where its flags and its checksum are.
const FLAGS: usize = 12;
const CHECK: usize = 16;
/// By which edges speak to one another in byte 12 of the header (docs/wire.md): an edge has seen the packet, its guest sent it as
/// ECN-capable, the last option is a report.
const EDGE: u8 = 0x08;
const ECT: u8 = 0x04;
const REPORT: u8 = 0x02;
/// Packets of one segment that are looked at. No stack makes more.
const MAX_PACKETS: u32 = 128;

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) drop: FastDrop,
    /// From the guest's IP header on.
    bytes: &'a [u8],
}

/// A frame that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) header: VnetHeader,
    pub(super) bytes: Vec<u8>,
    /// Where in these the TCP header begins: behind IPv6's extension headers.
    pub(super) l4: usize,
}

impl Frame {
    /// Gives the packet a later timestamp of its guest's, as a retransmission has: receivers take one that is older than what they have
    /// accepted for a duplicate of long ago (PAWS, RFC 7323 section 5).
    pub(super) fn stamp(&mut self, stamp: u32) {
        if let Some(tcp) = self.bytes.get_mut(self.l4..) {
            wire::set_later_timestamp(tcp, stamp, !self.header.needs_csum());
        }
    }
}

/// The flags of `count` packets from packet `first` on, of a segment of so many `packets`: as the kernel does when it cuts segments.
pub(super) fn part(flags: u8, first: u32, count: u32, packets: u32) -> u8 {
    let not_last = if first + count < packets { tcp::FIN | tcp::PSH } else { 0 };
    let not_first = if first > 0 { tcp::CWR } else { 0 };
    flags & !(not_last | not_first)
}

impl<'a> Segment<'a> {
    /// `None` if the record contradicts itself.
    pub(super) fn read(record: &'a [u8]) -> Option<Segment<'a>> {
        let (head, rest) = record.split_at_checked(size_of::<FastDrop>())?;
        let drop = FastDrop::from_bytes(head)?;
        let bytes = rest.get(..drop.len as usize)?.get(drop.at as usize..)?;
        let segment = Segment { drop, bytes };
        let (ip, l4) = (usize::from(drop.ip_header_len), usize::from(drop.l4_header_len));
        let least = if drop.family == 4 { 20 } else { 40 };
        let version = bytes.first().is_some_and(|first| matches!(drop.family, 4 | 6) && first >> 4 == drop.family);
        let fits = version && ip >= least && l4 >= 20 && segment.headers() + drop.payload as usize <= bytes.len();
        (fits && segment.packets() <= MAX_PACKETS).then_some(segment)
    }

    /// Bytes of IP and TCP header.
    fn headers(&self) -> usize {
        usize::from(self.drop.ip_header_len) + usize::from(self.drop.l4_header_len)
    }

    /// Payload of each packet but the last.
    fn size(&self) -> u32 {
        if self.drop.segment_size == 0 {
            self.drop.payload
        } else {
            self.drop.segment_size.into()
        }
    }

    pub(super) fn packets(&self) -> u32 {
        self.drop.payload.div_ceil(self.size().max(1)).max(1)
    }

    /// Where `count` packets from packet `first` on are in the payload, and how many bytes.
    pub(super) fn range(&self, first: u32, count: u32) -> (u32, u32) {
        let start = (first * self.size()).min(self.drop.payload);
        (start, (count * self.size()).min(self.drop.payload - start))
    }

    /// The question what is to be done about one packet. `what`: `FAST_*`.
    pub(super) fn call(&self, packet: u32, what: u8) -> FastCall {
        let (start, payload) = self.range(packet, 1);
        let (seq, tcp_flags) = (self.drop.seq.wrapping_add(start), self.flags(packet, 1));
        let FastDrop { key, ack, time: dropped, .. } = self.drop;
        FastCall { key, seq, ack, payload, tcp_flags, what, dropped, ..FastCall::default() }
    }

    pub(super) fn flags(&self, first: u32, count: u32) -> u8 {
        part(self.drop.tcp_flags, first, count, self.packets())
    }

    /// The frame of `count` packets from packet `first` on. `None`: their checksum cannot be had.
    pub(super) fn frame(&self, first: u32, count: u32) -> Option<Frame> {
        let (start, len) = self.range(first, count);
        let whole = len == self.drop.payload;
        if self.drop.unfinished == 0 && !whole {
            return None;
        }
        let ip = usize::from(self.drop.ip_header_len);
        let payload = self.bytes.get(self.headers() + start as usize..)?.get(..len as usize)?;
        let mut bytes = Vec::with_capacity(ETHERNET + self.headers() + payload.len());
        bytes.extend(self.drop.ethernet);
        bytes.extend(self.bytes.get(..self.headers())?);
        bytes.extend(payload);
        let (network, transport) = bytes.get_mut(ETHERNET..)?.split_at_mut(ip);
        if self.drop.spoken != 0 && !unspeak(network, transport, self.drop.family) {
            return None;
        }
        self.write_ip(network, transport.len(), first);
        if !whole {
            transport[4..8].copy_from_slice(&self.drop.seq.wrapping_add(start).to_be_bytes());
            transport[13] = self.flags(first, count);
        }
        let mut header = VnetHeader::default();
        if self.drop.unfinished != 0 {
            let sum = pseudo_header(network, transport.len());
            transport[CHECK..CHECK + 2].copy_from_slice(&sum.to_be_bytes());
            header.flags = VnetHeader::NEEDS_CSUM;
            header.csum_start = (ETHERNET + ip) as u16;
            header.csum_offset = CHECK as u16;
        }
        if len > self.size() {
            header.gso_type = if self.drop.family == 4 { gso::TCPV4 } else { gso::TCPV6 };
            header.gso_size = self.drop.segment_size;
            header.hdr_len = (ETHERNET + self.headers() + BESIDE).min(bytes.len()) as u16;
        }
        Some(Frame { header, bytes, l4: ETHERNET + ip })
    }

    /// Lengths and what depends on them. `packet`: the first of those that are sent.
    fn write_ip(&self, ip: &mut [u8], transport: usize, packet: u32) {
        if self.drop.family != 4 {
            let len = ip.len() - 40 + transport;
            ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            return;
        }
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(packet as u16);
        let len = (ip.len() + transport) as u16;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[10..12].fill(0);
        let check = Sum::default().bytes(ip).finish();
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    }
}

/// What the edge has written into the packet it will write again: this is how the guest sent it. False if it has a report.
fn unspeak(ip: &mut [u8], transport: &mut [u8], family: u8) -> bool {
    let before = u16::from_be_bytes([transport[FLAGS], transport[FLAGS + 1]]);
    let spoken = transport[FLAGS];
    if spoken & EDGE == 0 {
        return true;
    }
    if spoken & REPORT != 0 {
        return false;
    }
    if spoken & ECT == 0 {
        let (at, field) = if family == 4 { (1, 3) } else { (1, 0x30) };
        ip[at] &= !field;
    }
    transport[FLAGS] &= !(EDGE | ECT | REPORT);
    let after = u16::from_be_bytes([transport[FLAGS], transport[FLAGS + 1]]);
    let check = update(u16::from_be_bytes([transport[CHECK], transport[CHECK + 1]]), before, after);
    transport[CHECK..CHECK + 2].copy_from_slice(&check.to_be_bytes());
    true
}

/// Its sum, which whoever finishes the checksum expects in the field.
fn pseudo_header(ip: &[u8], len: usize) -> u16 {
    const TCP: u32 = 6;
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    !Sum::default().bytes(addresses).word(TCP).word(len as u32).finish()
}

#[cfg(test)]
mod tests;
