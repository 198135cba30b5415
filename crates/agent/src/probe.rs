//! Questions to the holders of learned addresses: an ARP request or a neighbour solicitation out of the holder's port. The data
//! path hears the answer, because it goes to the edge's own MAC address, and tells of it as of a guest's first frame.

use super::desired::EDGE_MAC;
use super::learned::Question;
use kernel::emit::Interface;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::Sum;

/// The link-local address that follows from [`EDGE_MAC`] (RFC 4291, appendix A).
const EDGE_V6: Ipv6Addr = {
    let [a, b, c, d, e, f] = EDGE_MAC;
    Ipv6Addr::from_bits(u128::from_be_bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
};

impl Question {
    /// Sends it past the port's queue, which others may have filled.
    pub(super) fn send(&self) -> io::Result<()> {
        let port = Interface::open(self.ifindex)?;
        port.bypass_queue()?;
        port.send(&self.frame())
    }

    fn frame(&self) -> Vec<u8> {
        let to = if self.mac == [0; 6] { [0xff; 6] } else { self.mac };
        let mut frame = [to, EDGE_MAC].concat();
        match self.addr {
            IpAddr::V4(addr) => {
                // Without a sender's address (RFC 5227): nobody's neighbours change.
                frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
                frame.extend(EDGE_MAC);
                frame.extend(Ipv4Addr::UNSPECIFIED.octets());
                frame.extend([0; 6]);
                frame.extend(addr.octets());
            }
            IpAddr::V6(addr) => {
                let mut icmp = vec![135, 0, 0, 0, 0, 0, 0, 0];
                icmp.extend(addr.octets());
                icmp.extend([1, 1]); // source link-layer address
                icmp.extend(EDGE_MAC);
                let sum = Sum::default().bytes(&EDGE_V6.octets()).bytes(&addr.octets());
                let check = sum.word(icmp.len() as u32).word(58).bytes(&icmp).finish();
                icmp[2..4].copy_from_slice(&check.to_be_bytes());
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 255]);
                frame.extend(EDGE_V6.octets());
                frame.extend(addr.octets());
                frame.extend(icmp);
            }
        }
        frame
    }
}
