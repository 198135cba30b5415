//! Frames from packets, for captures of modelled traffic and for tests.

use crate::checksum::Sum;
use crate::hidden;
use crate::packet::{pack, proto, reserved, tcp, Packet, SIGNED};

/// TCP options that a [`Packet`] does not carry because the edge never reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpOptions {
    /// On a SYN only (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// TSval and TSecr (RFC 7323 section 3).
    pub timestamps: Option<(u32, u32)>,
    /// Left and right edges (RFC 2018 section 3); the first `n_sack` count.
    pub sack: [(u32, u32); 3],
    pub n_sack: u8,
    /// FastLane's count of the sender's timeouts, modulo 255, plus 1; 0: no option.
    pub timeouts: u8,
    /// FastLane's bytes that the receiver holds beyond its cumulative acknowledgement; 0: no option.
    pub held: u32,
    /// The option of the hidden overlay, in front of all others; options that it leaves no room for are not written.
    pub hidden: Option<hidden::Bytes>,
}

/// Option kinds of the two: those for experiments (RFC 4727), since the paper names none. FastLane runs without an edge that uses 253.
const TIMEOUTS: u8 = 253;
const HELD: u8 = 254;

/// Why a packet cannot be a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    #[error("family {0} is neither 4 nor 6")]
    Family(u8),
    #[error("protocol {0} is neither TCP nor UDP")]
    Protocol(u8),
    #[error("a payload of {0} bytes does not fit in an IP packet")]
    TooLarge(u32),
}

const ETHERNET: usize = 14;

/// Builds the Ethernet frame of `packet`: IP and TCP or UDP with correct checksums, and a payload of zeros.
///
/// MSS and window scale are written on SYNs, the feedback option last; `ip_header_len` and `l4_header_len` are ignored. MAC addresses are
/// locally administered ones that end in the last four bytes of the IP addresses.
///
/// # Errors
/// [`EmitError`] if the packet is not TCP or UDP over IP, or larger than the IP length field can say.
pub fn emit(packet: &Packet, options: &TcpOptions) -> Result<Vec<u8>, EmitError> {
    let mut frame = Vec::new();
    emit_snapped(packet, options, usize::MAX, &mut frame)?;
    Ok(frame)
}

/// As [`emit`], but appends only the first `snap` bytes of the frame to `out`. Returns the frame's full length.
///
/// The checksums are those of the whole frame, as in a capture with that snap length.
///
/// # Errors
/// As [`emit`]; `out` is then unchanged.
pub fn emit_snapped(packet: &Packet, options: &TcpOptions, snap: usize, out: &mut Vec<u8>) -> Result<usize, EmitError> {
    let mut l4 = [0u8; 60];
    let l4_len = match packet.proto {
        proto::TCP => tcp_header(packet, options, &mut l4),
        proto::UDP => udp_header(packet, &mut l4)?,
        _ if packet.payload == 0 => 0,
        other => return Err(EmitError::Protocol(other)),
    };
    let l4_total = packet.payload.checked_add(l4_len as u32).ok_or(EmitError::TooLarge(packet.payload))?;
    let mut head = [0u8; ETHERNET + 40 + 60];
    ethernet_header(packet, &mut head);
    let ip_len = ip_header(packet, l4_total, &mut head[ETHERNET..])?;

    // Zeros add nothing to the checksum, so the payload need not exist.
    let address_words = if packet.family == 4 { 3..4 } else { 0..4 };
    let sum = address_words
        .fold(Sum::default(), |sum, i| sum.word(packet.saddr[i]).word(packet.daddr[i]))
        .word(u32::from(packet.proto))
        .word(l4_total)
        .bytes(&l4[..l4_len]);
    match packet.proto {
        proto::TCP => l4[16..18].copy_from_slice(&sum.finish().to_be_bytes()),
        // RFC 768: zero would mean "no checksum", so it is sent as all ones.
        _ => l4[6..8].copy_from_slice(&Some(sum.finish()).filter(|c| *c != 0).unwrap_or(0xffff).to_be_bytes()),
    }
    let head_len = ETHERNET + ip_len + l4_len;
    head[ETHERNET + ip_len..head_len].copy_from_slice(&l4[..l4_len]);
    let total = head_len + packet.payload as usize;
    let kept = total.min(snap);
    let end = out.len() + kept;
    out.extend_from_slice(&head[..head_len.min(kept)]);
    out.resize(end, 0);
    Ok(total)
}

fn ethernet_header(packet: &Packet, out: &mut [u8]) {
    for (at, address) in [(0, &packet.daddr), (6, &packet.saddr)] {
        out[at] = 0x02; // locally administered
        out[at + 2..at + 6].copy_from_slice(&address[3].to_be_bytes());
    }
    let ethertype: u16 = if packet.family == 4 { 0x0800 } else { 0x86dd };
    out[12..14].copy_from_slice(&ethertype.to_be_bytes());
}

fn ip_header(packet: &Packet, l4_total: u32, out: &mut [u8]) -> Result<usize, EmitError> {
    let ecn = packet.ecn & 3;
    match packet.family {
        4 => {
            let total = l4_total
                .checked_add(20)
                .and_then(|total| u16::try_from(total).ok())
                .ok_or(EmitError::TooLarge(packet.payload))?;
            out[0] = 0x45;
            out[1] = ecn;
            out[2..4].copy_from_slice(&total.to_be_bytes());
            out[6] = 0x40; // don't fragment
            out[8] = 64;
            out[9] = packet.proto;
            out[12..16].copy_from_slice(&packet.saddr[3].to_be_bytes());
            out[16..20].copy_from_slice(&packet.daddr[3].to_be_bytes());
            let check = Sum::default().bytes(&out[..20]).finish();
            out[10..12].copy_from_slice(&check.to_be_bytes());
            Ok(20)
        }
        6 => {
            let length = u16::try_from(l4_total).map_err(|_| EmitError::TooLarge(packet.payload))?;
            out[0] = 0x60;
            out[1] = ecn << 4;
            out[4..6].copy_from_slice(&length.to_be_bytes());
            out[6] = packet.proto;
            out[7] = 64;
            for i in 0..4 {
                out[8 + 4 * i..12 + 4 * i].copy_from_slice(&packet.saddr[i].to_be_bytes());
                out[24 + 4 * i..28 + 4 * i].copy_from_slice(&packet.daddr[i].to_be_bytes());
            }
            Ok(40)
        }
        other => Err(EmitError::Family(other)),
    }
}

fn udp_header(packet: &Packet, out: &mut [u8]) -> Result<usize, EmitError> {
    let length = packet
        .payload
        .checked_add(8)
        .and_then(|length| u16::try_from(length).ok())
        .ok_or(EmitError::TooLarge(packet.payload))?;
    out[0..2].copy_from_slice(&packet.sport.to_be_bytes());
    out[2..4].copy_from_slice(&packet.dport.to_be_bytes());
    out[4..6].copy_from_slice(&length.to_be_bytes());
    Ok(8)
}

/// At most 60 bytes: a SYN has 19 bytes of options before padding, beside the hidden overlay's without any, and SACK blocks are cut to
/// the rest.
fn tcp_header(packet: &Packet, options: &TcpOptions, out: &mut [u8; 60]) -> usize {
    out[0..2].copy_from_slice(&packet.sport.to_be_bytes());
    out[2..4].copy_from_slice(&packet.dport.to_be_bytes());
    out[4..8].copy_from_slice(&packet.seq.to_be_bytes());
    out[8..12].copy_from_slice(&packet.ack.to_be_bytes());
    out[13] = packet.tcp_flags;
    out[14..16].copy_from_slice(&packet.window.to_be_bytes());
    let mut end = 20;
    let mut put = |bytes: &[u8]| {
        out[end..end + bytes.len()].copy_from_slice(bytes);
        end += bytes.len();
    };
    let mut room = 40usize;
    if let Some(option) = &options.hidden {
        put(option);
        room -= hidden::LEN;
    }
    // As Linux does where it counts: SACK-permitted in place of the timestamps' padding.
    let dense = options.hidden.is_some() && options.sack_permitted && options.timestamps.is_some();
    if packet.has_flags(tcp::SYN) {
        if packet.mss != 0 {
            put(&[2, 4]);
            put(&packet.mss.to_be_bytes());
        }
        match packet.wscale {
            0 => {}
            SIGNED => put(&[29, 4, 0, 0]),
            scale => put(&[1, 3, 3, (scale - 1).min(14)]),
        }
        if options.sack_permitted && !dense {
            put(&[1, 1, 4, 2]);
        }
    }
    if let Some((value, echo)) = options.timestamps {
        put(if dense && packet.has_flags(tcp::SYN) { &[4, 2, 8, 10] } else { &[1, 1, 8, 10] });
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
        room -= 12;
    }
    if packet.has_flags(tcp::SYN) {
        room = room.saturating_sub(12);
    }
    let blocks = &options.sack[..usize::from(options.n_sack).min(3).min(room.saturating_sub(4) / 8)];
    if !blocks.is_empty() {
        put(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            put(&left.to_be_bytes());
            put(&right.to_be_bytes());
        }
    }
    if options.timeouts != 0 && end + 12 <= out.len() {
        out[end..end + 3].copy_from_slice(&[TIMEOUTS, 3, options.timeouts - 1]);
        out[end + 3] = 1;
        end += 4;
        if options.held != 0 {
            out[end - 1] = HELD;
            out[end] = 6;
            out[end + 1..end + 5].copy_from_slice(&options.held.to_be_bytes());
            out[end + 5..end + 8].fill(1);
            end += 8;
        }
    }
    if packet.pack == pack::OK && end + usize::from(pack::LEN) <= out.len() {
        out[end..end + 2].copy_from_slice(&[253, pack::LEN]);
        out[end + 2..end + 5].copy_from_slice(&packet.pack_total);
        out[end + 5..end + 8].copy_from_slice(&packet.pack_ce);
        end += usize::from(pack::LEN);
    }
    out[12] = (end as u8 / 4) << 4 | packet.tcp_reserved & reserved::MASK;
    end
}
