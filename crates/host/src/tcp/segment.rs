//! A TCP segment on the wire: the fields that the model needs, as plain values in host order.

/// Wire bits of the TCP flags octet.
pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
    pub const URG: u8 = 32;
    pub const ECE: u8 = 64;
    pub const CWR: u8 = 128;
}

/// IP ECN codepoints (RFC 3168, section 5).
pub mod codepoint {
    pub const NOT_ECT: u8 = 0;
    pub const ECT1: u8 = 1;
    pub const ECT0: u8 = 2;
    pub const CE: u8 = 3;
}

/// One TCP segment: outgoing, up to 64 KB that the NIC splits (TSO); incoming, the packets that GRO merged.
///
/// SYN and FIN take one sequence number each, which `len` does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first payload byte (of the SYN, if SYN is set), modulo 2^32.
    pub seq: u32,
    /// Cumulative acknowledgement, modulo 2^32; meaningful only with ACK.
    pub ack: u32,
    /// Payload in bytes.
    pub len: u32,
    /// [`flags`].
    pub flags: u8,
    /// [`codepoint`] to put on every packet of this segment, or that arrived on all of them.
    pub ecn: u8,
    /// The window field as on the wire: scaled down by the sender's shift, except on a SYN.
    pub window: u16,
    /// Payload bytes of every packet of the segment but the last.
    pub segment_size: u16,
    /// MSS option of a SYN in bytes; 0 means absent.
    pub mss: u16,
    /// Window scale option of a SYN (RFC 7323, section 2).
    pub wscale: Option<u8>,
    /// SACK-permitted option of a SYN (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// SACK blocks `[left, right)`; the first [`Segment::n_sack`] are valid. Three fit beside timestamps.
    pub sack: [(u32, u32); 3],
    pub n_sack: u8,
    /// Timestamps option present (RFC 7323, section 3).
    pub has_ts: bool,
    /// Microseconds of the sender's clock, modulo 2^32. (Linux guests of the time count milliseconds.)
    pub tsval: u32,
    pub tsecr: u32,
    /// FastLane's timeout count option, plus 1; 0 means absent.
    pub timeouts: u8,
    /// FastLane's option of an ACK: bytes that the receiver holds beyond it; 0 means absent.
    pub held: u32,
    /// Outgoing: the peer's NIC is to answer it; incoming: the answer. It has no data and no meaning to the peer's TCP.
    pub probe: bool,
    /// Bytes that were sent before; the wire does not carry it: for measurements and captures only.
    pub is_retransmission: bool,
}

impl Segment {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The SACK blocks present.
    pub fn sacks(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.n_sack.min(3))]
    }

    /// How many packets the NIC makes of the segment, at least 1.
    pub fn packets(&self) -> u32 {
        match self.segment_size {
            0 => 1,
            size => self.len.div_ceil(u32::from(size)).max(1),
        }
    }

    /// Bytes of TCP header and options in each packet, padded to four as on the wire.
    pub fn header_len(&self) -> u32 {
        let mut options = 0;
        if self.has(flags::SYN) {
            options += if self.mss != 0 { 4 } else { 0 };
            options += if self.wscale.is_some() { 4 } else { 0 };
            options += if self.sack_permitted && !self.has_ts { 4 } else { 0 };
        }
        options += if self.has_ts { 12 } else { 0 };
        options += if self.n_sack > 0 { 4 + 8 * u32::from(self.n_sack) } else { 0 };
        options += match (self.timeouts, self.held) {
            (0, 0) => 0,
            (0, _) => 8,
            (_, 0) => 4,
            _ => 12,
        };
        20 + options
    }

    /// Sequence space taken: payload plus SYN and FIN.
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN))
    }
}

/// The 64-bit sequence number nearest to `near` whose low 32 bits are `wire`.
///
/// Internal sequence numbers start at 2^32 plus the initial sequence number, so the subtraction cannot pass zero.
pub(crate) fn unwrap_seq(near: u64, wire: u32) -> u64 {
    let distance = wire.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(distance))
}

/// Where the 64-bit number space of a connection with initial sequence number `iss` starts.
pub(crate) fn origin(iss: u32) -> u64 {
    (1 << 32) + u64::from(iss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwraps_across_the_end_of_the_number_space() {
        let near = origin(0xffff_fff0);
        assert_eq!(unwrap_seq(near, 0x10), near + 0x20);
        assert_eq!(unwrap_seq(near + 0x20, 0xffff_fff0), near);
        assert_eq!(unwrap_seq(near, 0xffff_fff0), near);
        assert_eq!(unwrap_seq(origin(0), 0xffff_ffff), origin(0) - 1);
    }

    #[test]
    fn header_length_follows_the_options() {
        let syn = Segment { flags: flags::SYN, mss: 1460, wscale: Some(7), sack_permitted: true, ..Segment::default() };
        assert_eq!(syn.header_len(), 32);
        assert_eq!(Segment { has_ts: true, ..syn }.header_len(), 40, "SACK-permitted shares the timestamps' padding");
        assert_eq!(Segment { n_sack: 3, has_ts: true, ..Segment::default() }.header_len(), 60);
        assert_eq!(Segment { len: 1460, segment_size: 1460, ..Segment::default() }.header_len(), 20);
    }

    #[test]
    fn packets_count_the_last_partial_one() {
        let segment = |len| Segment { len, segment_size: 1460, ..Segment::default() };
        assert_eq!([0, 1, 1460, 1461, 2920].map(|len| segment(len).packets()), [1, 1, 1, 2, 2]);
    }
}
