//! The header before each frame, with which the kernel tells what segmentation and checksums are left undone.

/// Kinds of segmentation that a header can ask for.
pub mod gso {
    pub const NONE: u8 = 0;
    pub const TCPV4: u8 = 1;
    pub const TCPV6: u8 = 4;
    pub const UDP_L4: u8 = 5;
    /// Beside TCPV4 or TCPV6: only the first packet carries CWR.
    pub const ECN: u8 = 0x80;
    /// Beside TCPV4 or TCPV6: within a UDP tunnel over IPv4, over IPv6.
    pub const TUNNEL: u8 = 0x20 | 0x40;
}

/// What precedes each frame: `struct virtio_net_hdr` in its 10-byte form, native byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VnetHeader {
    pub flags: u8,
    /// [`gso`].
    pub gso_type: u8,
    /// Bytes of all headers, Ethernet's included.
    pub hdr_len: u16,
    /// Payload bytes of each packet once cut.
    pub gso_size: u16,
    /// Offset in the frame from which the checksum is summed, and where it goes from there.
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Bytes before the frame.
    pub const LEN: usize = 10;
    /// The checksum field holds only the sum of the pseudo header (CHECKSUM_PARTIAL).
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum has been verified.
    pub const DATA_VALID: u8 = 2;

    pub fn needs_csum(&self) -> bool {
        self.flags & VnetHeader::NEEDS_CSUM != 0
    }

    pub fn from_bytes(b: &[u8; VnetHeader::LEN]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        VnetHeader {
            flags: b[0],
            gso_type: b[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    pub fn to_bytes(&self) -> [u8; VnetHeader::LEN] {
        let [h, g, s, o] = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset].map(u16::to_ne_bytes);
        [self.flags, self.gso_type, h[0], h[1], g[0], g[1], s[0], s[1], o[0], o[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let header = VnetHeader {
            flags: 1,
            gso_type: gso::TCPV4 | gso::ECN,
            hdr_len: 66,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
        };
        assert_eq!(VnetHeader::from_bytes(&header.to_bytes()), header);
    }
}
