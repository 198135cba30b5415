use crate::Packet;
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
/// `payload` still counts what the IP length claims. Checksums are not verified.
///
/// # Errors
/// [`ParseError`] for everything else; such frames are none of the edge's business and pass untouched.
pub fn parse(frame: &[u8]) -> Result<Packet, ParseError> {
    let mut packet = Packet::default();
    // SAFETY: the C function reads only `len` bytes from `data` and writes only `packet`, which mirrors its struct.
    let code = unsafe { sv_wire_parse(frame.as_ptr(), frame.len(), &mut packet) };
    check(code).map(|()| packet)
}

/// Writes the fields named in `packet.dirty` into the frame that the packet was parsed from, and updates the IPv4 and
/// TCP checksums incrementally (RFC 1624).
///
/// # Errors
/// [`ParseError::Malformed`] or [`ParseError::Short`], with the frame unchanged, if `packet` cannot have come from it.
pub fn write_back(packet: &Packet, frame: &mut [u8]) -> Result<(), ParseError> {
    // SAFETY: the C function touches only `len` bytes from `data`, whatever `packet` says, and reads `packet`.
    let code = unsafe { sv_wire_write_back(packet, frame.as_mut_ptr(), frame.len()) };
    check(code)
}
