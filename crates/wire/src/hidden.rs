//! The hidden overlay: the safe face of `datapath/hidden.h`, described in `docs/wire.md`.

use crate::frame::ethernet_len;
use crate::{FlowKey, Packet, ParseError};
use std::ffi::c_int;

/// Bytes of the option.
pub const LEN: usize = 20;
/// Destination port of all packets between edges.
pub const PORT: u16 = 7471;

/// The option as it stands in a TCP header.
pub type Bytes = [u8; LEN];

/// TCP's header without options.
const TCP: usize = 20;

/// What the option says: the mirror of `struct sv_hidden`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hidden {
    /// Of the guests, IPv4.
    pub saddr: u32,
    pub daddr: u32,
    pub sport: u16,
    pub dport: u16,
    /// 1: the ECN field of IP is the guest's; 2: it is the edges'.
    pub version: u8,
    /// 1: `cell` means something.
    pub has_cell: u8,
    /// Flowcell or flowlet number modulo 256.
    pub cell: u8,
    /// 0: none; 1: CE; 2: utilisation, or lateness.
    pub feedback: u8,
    /// Index of the path that the feedback is about. Without feedback, of version 2: path and value are a stamp.
    pub path: u8,
    pub value: u8,
    /// Of version 2: the guest's codepoint.
    pub ecn: u8,
    pub pad: u8,
}

const _: () = assert!(size_of::<Hidden>() == 20);

extern "C" {
    fn sv_wire_hidden_read(option: *const u8, hidden: *mut Hidden) -> c_int;
    fn sv_wire_hidden_write(option: *mut u8, hidden: *const Hidden);
    fn sv_wire_hidden_fits(packet: *const Packet, mtu: u32) -> c_int;
    fn sv_wire_hidden_mss(mtu: u32) -> u16;
    fn sv_wire_hidden_swap(packet: *mut Packet, local: u32, remote: u32, hash: u32, hidden: *mut Hidden);
    fn sv_wire_hidden_is(packet: *const Packet, local: u32) -> c_int;
    fn sv_wire_hidden_may(from: u32, source: u32, here: u32, destination: u32) -> c_int;
    fn sv_wire_hidden_restore(packet: *mut Packet, ecn: u8, hidden: *const Hidden);
    fn sv_wire_hidden_rewrite(
        ip: *mut u8,
        len: usize,
        packet: *const Packet,
        ecn: u8,
        option: *const u8,
        undone: c_int,
    ) -> c_int;
    fn sv_wire_hidden_clamp(tcp: *mut u8, len: usize, limit: u16, undone: c_int) -> c_int;
}

impl Hidden {
    /// `None` unless an edge can have written all of it.
    pub fn read(option: &Bytes) -> Option<Hidden> {
        let mut hidden = Hidden::default();
        // SAFETY: reads twenty bytes and writes one struct.
        (unsafe { sv_wire_hidden_read(option.as_ptr(), &mut hidden) } != 0).then_some(hidden)
    }

    pub fn bytes(&self) -> Bytes {
        let mut option = [0; LEN];
        // SAFETY: reads one struct and writes twenty bytes.
        unsafe { sv_wire_hidden_write(option.as_mut_ptr(), self) };
        option
    }

    /// The guests' flow.
    pub fn flow_key(&self) -> FlowKey {
        let address = |v4| [0, 0, 0xffff, v4];
        FlowKey::new(address(self.saddr), address(self.daddr), self.sport, self.dport, crate::proto::TCP)
    }
}

/// Is it TCP over IPv4 with room for the option, in packets of `mtu` bytes?
pub fn fits(packet: &Packet, mtu: u16) -> bool {
    // SAFETY: reads one struct.
    unsafe { sv_wire_hidden_fits(packet, mtu.into()) != 0 }
}

/// The largest MSS of guests for packets of `mtu` bytes.
pub fn mss(mtu: u16) -> u16 {
    // SAFETY: a function of numbers.
    unsafe { sv_wire_hidden_mss(mtu.into()) }
}

/// A packet that [`fits`] leaves between the edges at `local` and `remote`, IPv4; `hash` of its flow. With version 2 the codepoint on the
/// wire is `packet.outer_ecn`.
pub fn swap(packet: &mut Packet, local: u32, remote: u32, hash: u32) -> Hidden {
    let mut hidden = Hidden::default();
    // SAFETY: writes two structs.
    unsafe { sv_wire_hidden_swap(packet, local, remote, hash, &mut hidden) };
    hidden
}

/// Did an edge send this to the edge at `local`?
pub fn is(packet: &Packet, local: u32) -> bool {
    // SAFETY: reads one struct.
    unsafe { sv_wire_hidden_is(packet, local) != 0 }
}

/// May the edge at `from` say that this is a packet of a guest whose edge is `source`, for one whose edge is `destination`, at the edge
/// `here`? 0: nobody's guest.
pub fn may(from: u32, source: u32, here: u32, destination: u32) -> bool {
    // SAFETY: a function of numbers.
    unsafe { sv_wire_hidden_may(from, source, here, destination) != 0 }
}

/// The packet as the guest sent it. Of its cell only the low byte came.
pub fn restore(packet: &mut Packet, hidden: &Hidden) {
    let ecn = packet.network_ecn();
    // SAFETY: reads one struct and writes another.
    unsafe { sv_wire_hidden_restore(packet, ecn, hidden) };
}

/// The option in a frame, at its fixed place; `packet` are the frame's headers.
pub fn option(frame: &[u8], packet: &Packet) -> Option<Bytes> {
    let at = tcp_at(frame, packet)?;
    let header = frame.get(at..at + TCP)?;
    let whole = usize::from(header[12] >> 4) * 4 >= TCP + LEN;
    frame.get(at + TCP..at + TCP + LEN).filter(|_| whole)?.try_into().ok()
}

/// Puts into the guest's frame what [`swap`] has made of its headers. `undone`: TCP's checksum is that of offload.
///
/// # Errors
/// As [`write_back`](crate::write_back), with the frame unchanged.
pub fn enter(frame: &mut Vec<u8>, packet: &Packet, option: &Bytes, undone: bool) -> Result<(), ParseError> {
    let at = tcp_at(frame, packet).filter(|at| at + TCP <= frame.len()).ok_or(ParseError::Malformed)? + TCP;
    frame.splice(at..at, [0; LEN]);
    let done = rewrite(frame, packet, packet.network_ecn(), option, undone);
    if done.is_err() {
        frame.drain(at..at + LEN);
    }
    done
}

/// Makes the frame, or its headers alone, the guest's again: `packet` is what [`restore`] has made of its headers.
///
/// # Errors
/// As [`enter`].
pub fn leave(frame: &mut Vec<u8>, packet: &Packet, undone: bool) -> Result<(), ParseError> {
    rewrite(frame, packet, packet.ecn, &[0; LEN], undone)?;
    let at = tcp_at(frame, packet).ok_or(ParseError::Malformed)? + TCP;
    frame.drain(at..at + LEN);
    Ok(())
}

/// Lowers the MSS in the frame of a SYN. True: it was larger.
pub fn clamp(frame: &mut [u8], packet: &Packet, limit: u16, undone: bool) -> bool {
    let Some(tcp) = tcp_at(frame, packet).and_then(|at| frame.get_mut(at..)) else { return false };
    // SAFETY: the C function touches only the bytes that it is given.
    unsafe { sv_wire_hidden_clamp(tcp.as_mut_ptr(), tcp.len(), limit, undone.into()) != 0 }
}

fn tcp_at(frame: &[u8], packet: &Packet) -> Option<usize> {
    Some(ethernet_len(frame)? + usize::from(packet.ip_header_len))
}

fn rewrite(frame: &mut [u8], packet: &Packet, ecn: u8, option: &Bytes, undone: bool) -> Result<(), ParseError> {
    let l2 = ethernet_len(frame).ok_or(ParseError::Short)?;
    let ip = frame.get_mut(l2..).ok_or(ParseError::Short)?;
    // SAFETY: the C function touches only the bytes that it is given, and reads twenty of the option.
    let done =
        unsafe { sv_wire_hidden_rewrite(ip.as_mut_ptr(), ip.len(), packet, ecn, option.as_ptr(), undone.into()) };
    if done == 0 {
        return Err(ParseError::Malformed);
    }
    Ok(())
}
