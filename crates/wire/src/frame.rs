//! Parsing of frames, and writing of changed fields back into them.

use crate::checksum;
use crate::{dirty, pack, proto, tcp, Packet};
use std::ffi::c_int;

/// Why a frame has no [`Packet`]; the codes of `datapath/parse.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseError {
    #[error("neither IPv4 nor IPv6")]
    NotIp,
    #[error("neither TCP nor UDP")]
    NotTransport,
    #[error("an IP fragment")]
    Fragment,
    #[error("lengths or versions in the headers contradict each other")]
    Malformed,
    #[error("the frame ends within a header")]
    Short,
}

extern "C" {
    fn sv_wire_parse(data: *const u8, len: usize, packet: *mut Packet) -> c_int;
    fn sv_wire_write_back(packet: *const Packet, data: *mut u8, len: usize) -> c_int;
    fn sv_wire_option_put(packet: *const Packet, option: *mut u8);
}

fn check(code: c_int) -> Result<(), ParseError> {
    match code {
        0 => Ok(()),
        1 => Err(ParseError::NotIp),
        2 => Err(ParseError::NotTransport),
        3 => Err(ParseError::Fragment),
        5 => Err(ParseError::Short),
        _ => Err(ParseError::Malformed),
    }
}

/// Parses an Ethernet frame: at most two VLAN tags, IPv4 or IPv6, TCP or UDP.
///
/// A frame whose IP length exceeds its bytes is legal as long as the headers are whole: `truncated` is then 1 and
/// `payload` still counts the bytes that the IP length claims. Checksums are not verified.
///
/// # Errors
/// [`ParseError`] for all other frames; the edge lets them pass unchanged.
pub fn parse(frame: &[u8]) -> Result<Packet, ParseError> {
    let mut packet = Packet::default();
    // SAFETY: the C function reads only `len` bytes from `data` and writes only `packet`, which mirrors its struct.
    let code = unsafe { sv_wire_parse(frame.as_ptr(), frame.len(), &mut packet) };
    check(code).map(|()| packet)
}

/// Writes the fields named in `packet.dirty` into the frame that the packet was parsed from, and updates the IPv4 and
/// TCP checksums incrementally (RFC 1624). The feedback option is left as it is: see [`write_back_resized`].
///
/// # Errors
/// [`ParseError::Malformed`] or [`ParseError::Short`], with the frame unchanged, if `packet` cannot have come from it.
pub fn write_back(packet: &Packet, frame: &mut [u8]) -> Result<(), ParseError> {
    // SAFETY: the C function touches only `len` bytes from `data`, whatever `packet` says, and reads `packet`.
    let code = unsafe { sv_wire_write_back(packet, frame.as_mut_ptr(), frame.len()) };
    check(code)
}

/// As [`write_back`], and also brings the feedback option into the frame, or out of it: a pure ACK grows or shrinks by 8
/// bytes. An option that is to go from a frame with payload becomes padding.
///
/// # Errors
/// As [`write_back`]; also [`ParseError::Malformed`] if the option does not fit. The frame may then have other fields
/// written.
pub fn write_back_resized(packet: &Packet, frame: &mut Vec<u8>) -> Result<(), ParseError> {
    // The option is announced by the flags, so look before these change.
    let there = if packet.dirty & dirty::OPTION == 0 { None } else { Some(parse(frame)?) };
    write_back(packet, frame)?;
    let Some(there) = there else { return Ok(()) };
    let (l2, l4_len) = (ethernet_len(frame).ok_or(ParseError::Short)?, usize::from(there.l4_header_len));
    let tcp = l2 + usize::from(there.ip_header_len);
    let option = (tcp + l4_len).saturating_sub(usize::from(pack::LEN));
    if there.proto != proto::TCP || frame.len() < tcp + l4_len || there.truncated != 0 {
        return Err(ParseError::Malformed);
    }
    match (there.pack == pack::OK, packet.pack == pack::OK) {
        (false, false) => {}
        (true, false) if there.payload > 0 => replace(frame, tcp, option, &[1; 8]),
        (true, false) => {
            replace(frame, tcp, option, &[0; 8]);
            frame.truncate(option); // and padding behind it
            resize(frame, l2, tcp, &there, l4_len - 8);
        }
        (true, true) => replace(frame, tcp, option, &option_bytes(packet)),
        (false, true) => {
            if l4_len + 8 > 60 || there.payload > 0 {
                return Err(ParseError::Malformed);
            }
            frame.truncate(tcp + l4_len); // of padding
            frame.extend([0; 8]);
            resize(frame, l2, tcp, &there, l4_len + 8);
            replace(frame, tcp, tcp + l4_len, &option_bytes(packet));
        }
    }
    Ok(())
}

fn option_bytes(packet: &Packet) -> [u8; 8] {
    let mut bytes = [0; 8];
    // SAFETY: reads the packet and writes exactly eight bytes.
    unsafe { sv_wire_option_put(packet, bytes.as_mut_ptr()) };
    bytes
}

/// The Ethernet header with its VLAN tags, of a frame that was parsed.
pub(crate) fn ethernet_len(frame: &[u8]) -> Option<usize> {
    let mut len = 14;
    while let [0x81, 0x00] | [0x88, 0xa8] = frame.get(len - 2..len)? {
        len += 4;
    }
    Some(len)
}

/// The value of a TCP segment's timestamp (RFC 7323 section 3.2), if it has one. `packet` are the frame's headers, also as they are
/// without an option that the frame still has ([`restore`](crate::hidden::restore)).
pub fn timestamp(frame: &[u8], packet: &Packet) -> Option<u32> {
    let tcp = ethernet_len(frame)? + usize::from(packet.ip_header_len);
    let tcp = frame.get(tcp..).filter(|_| packet.proto == proto::TCP)?;
    Some(word(tcp, timestamp_at(tcp)?))
}

/// Gives a TCP segment, from its TCP header on, this timestamp if it has an older one, and no SYN. `summed`: its checksum is complete, and
/// not for a NIC to add up.
pub fn set_later_timestamp(tcp: &mut [u8], stamp: u32, summed: bool) {
    let Some(at) = timestamp_at(tcp).filter(|&at| stamp.wrapping_sub(word(tcp, at)) as i32 > 0) else { return };
    if tcp[13] & tcp::SYN != 0 {
        return;
    }
    // The checksum's words begin at even offsets, the option anywhere.
    let mut new = [0; 6];
    let words = at & !1..(at & !1) + 6;
    new.copy_from_slice(&tcp[words.clone()]);
    new[at % 2..at % 2 + 4].copy_from_slice(&stamp.to_be_bytes());
    for (at, new) in words.step_by(2).zip(new.chunks_exact(2)) {
        set16(tcp, at, u16::from_be_bytes([new[0], new[1]]), summed.then_some(16));
    }
}

/// Of a TCP header, where its timestamp's value begins.
fn timestamp_at(tcp: &[u8]) -> Option<usize> {
    let end = usize::from(tcp.get(12)? >> 4) * 4;
    let mut at = 20;
    loop {
        at = match *tcp.get(at..end)? {
            [8, 10, _, _, _, _, _, _, _, _, ..] => return Some(at + 2),
            [1, ..] => at + 1,
            [kind, len, ..] if kind > 1 && len > 1 => at + usize::from(len),
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Overwrites `bytes.len()` (even) bytes at the even offset `at` from `tcp`, and repairs TCP's checksum.
fn replace(frame: &mut [u8], tcp: usize, at: usize, bytes: &[u8]) {
    for (i, new) in bytes.chunks_exact(2).enumerate() {
        let at = at + 2 * i;
        set16(frame, at, u16::from_be_bytes([new[0], new[1]]), Some(tcp + 16));
    }
}

/// Writes a word and repairs the checksum at `check`.
fn set16(frame: &mut [u8], at: usize, new: u16, check: Option<usize>) {
    let get = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let old = get(frame, at);
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    if let Some(check) = check {
        let sum = checksum::update(get(frame, check), old, new);
        frame[check..check + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Sets the lengths of a pure ACK whose TCP header is now `l4_len` bytes long, the change being zeros.
fn resize(frame: &mut [u8], l2: usize, tcp: usize, before: &Packet, l4_len: usize) {
    let offset = u16::from_be_bytes([(l4_len as u8 / 4) << 4 | frame[tcp + 12] & 0x0f, frame[tcp + 13]]);
    set16(frame, tcp + 12, offset, Some(tcp + 16));
    // The pseudo header counts the length too.
    let (old, new) = (u16::from(before.l4_header_len), l4_len as u16);
    let sum = checksum::update(u16::from_be_bytes([frame[tcp + 16], frame[tcp + 17]]), old, new);
    frame[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
    let change = new.wrapping_sub(old);
    let at = if before.family == 4 { l2 + 2 } else { l2 + 4 };
    let total = u16::from_be_bytes([frame[at], frame[at + 1]]).wrapping_add(change);
    set16(frame, at, total, (before.family == 4).then_some(l2 + 10));
}
