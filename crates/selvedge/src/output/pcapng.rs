//! Captured packets as pcapng (draft-ietf-opsawg-pcapng): one section, one Ethernet interface, nanosecond times.

use fabric::Captured;
use wire::EmitError;

/// Octets kept of each packet: all headers and options; payloads are zeros anyway.
const SNAP: usize = 128;

/// The file. Frame lengths are told in full, contents are cut off after the headers.
///
/// # Errors
/// A packet that has no form on the wire, which would be a fault of the simulator.
pub(super) fn render(interface: &str, packets: &[Captured]) -> Result<Vec<u8>, EmitError> {
    let mut file = begin(interface, SNAP as u32);
    let mut frame = Vec::new();
    for captured in packets {
        frame.clear();
        let length = wire::emit_snapped(&captured.packet.headers, &captured.packet.options, SNAP, &mut frame)?;
        append(&mut file, captured.at.as_ns(), length as u32, &frame);
    }
    Ok(file)
}

/// A file without packets. At most `snap` octets of each packet will be kept.
pub(crate) fn begin(interface: &str, snap: u32) -> Vec<u8> {
    let mut file = Vec::new();
    // Section header: byte-order magic, version 1.0, unknown length.
    let mut body = Vec::new();
    body.extend(0x1A2B_3C4D_u32.to_le_bytes());
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes());
    block(&mut file, 0x0A0D_0D0A, &body);
    // Interface: Ethernet, snap length, options if_name and if_tsresol = 10^-9.
    body.clear();
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(snap.to_le_bytes());
    option(&mut body, 2, interface.as_bytes());
    option(&mut body, 9, &[9]);
    option(&mut body, 0, &[]);
    block(&mut file, 1, &body);
    file
}

/// Appends a packet of `length` octets; `frame` is its kept part.
pub(crate) fn append(file: &mut Vec<u8>, at_ns: u64, length: u32, frame: &[u8]) {
    let mut body = Vec::with_capacity(24 + frame.len());
    body.extend(0_u32.to_le_bytes());
    body.extend(((at_ns >> 32) as u32).to_le_bytes());
    body.extend((at_ns as u32).to_le_bytes());
    body.extend((frame.len() as u32).to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(frame);
    pad(&mut body);
    block(file, 6, &body);
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (body.len() as u32 + 12).to_le_bytes();
    file.extend(kind.to_le_bytes());
    file.extend(length);
    file.extend(body);
    file.extend(length);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}
