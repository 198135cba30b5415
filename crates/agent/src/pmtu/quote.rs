//! What "fragmentation needed" and "packet too big" quote of a packet: enough to know a tunnel's.

use crate::quoted::{datagram, Datagram, VXLAN};
use kernel::probes::Heard;
use std::net::IpAddr;

/// A packet that did not fit, and what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Outer source port.
    pub(crate) port: u16,
    pub(crate) udp_port: u16,
    /// Of the next link, IP header included, bytes.
    pub(crate) mtu: u32,
}

/// Types and codes: RFC 792 with RFC 1191, and RFC 4443.
const UNREACHABLE: (u8, u8) = (3, 4);
const TOO_BIG: (u8, u8) = (2, 0);
/// VXLAN's flags: there is a network, and nothing else (docs/wire.md).
const VXLAN_FLAGS: u8 = 0x08;

/// `None`: the message says something else, quotes something else than a whole datagram, or one that would have fitted.
pub(super) fn read(heard: &Heard<'_>) -> Option<Quoted> {
    let Datagram { local, remote, ports: [port, udp_port], icmp, ip, payload } = datagram(heard, UNREACHABLE, TOO_BIG)?;
    let u16_at = |bytes: &[u8], at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (mtu, len) = match local {
        IpAddr::V4(_) => (u16_at(icmp, 6), u16_at(ip, 2)),
        IpAddr::V6(_) => (u32::from_be_bytes([icmp[4], icmp[5], icmp[6], icmp[7]]), 40 + u16_at(ip, 4)),
    };
    let is_vxlan = payload.len() < VXLAN || payload[0] == VXLAN_FLAGS;
    (is_vxlan && mtu < len).then_some(Quoted { local, remote, port, udp_port, mtu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quoted::{ICMP, UDP};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wire::proto;

    const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
    const ROUTER6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    /// What a router with a link of `mtu` bytes says of a tunnel's packet of 1500 bytes from 10.0.0.1 to 10.0.1.1.
    fn message(port: u16, mtu: u16) -> Vec<u8> {
        let mut bytes = vec![3, 4, 0, 0, 0, 0];
        bytes.extend(mtu.to_be_bytes());
        bytes.extend([0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 63, proto::UDP, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0x12, 0xb5, 5, 0xc8, 0, 0, 8, 0x20, 0, 0, 0, 0, 7, 0]);
        bytes
    }

    fn message6(mtu: u32) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        bytes.extend(mtu.to_be_bytes());
        bytes.extend([0x60, 0, 0, 0, 5, 0xb4, proto::UDP, 63]);
        bytes.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
        bytes.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
        bytes.extend([0xc3, 0x51, 0x12, 0xb5, 5, 0xb4, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0]);
        bytes
    }

    #[test]
    fn a_tunnels_packet_is_read() {
        let wanted = Quoted {
            local: "10.0.0.1".parse().unwrap(),
            remote: "10.0.1.1".parse().unwrap(),
            port: 50_001,
            udp_port: 4789,
            mtu: 1400,
        };
        let bytes = message(50_001, 1400);
        for len in [ICMP + 20 + UDP, bytes.len()] {
            assert_eq!(read(&Heard { from: ROUTER, message: &bytes[..len] }), Some(wanted), "{len} bytes");
        }
        assert_eq!(read(&Heard { from: ROUTER, message: &bytes[..ICMP + 20 + UDP - 1] }), None);
        let found = read(&Heard { from: ROUTER6, message: &message6(1400) }).unwrap();
        assert_eq!((found.port, found.udp_port, found.mtu), (50_001, 4789, 1400));
        assert_eq!(found.remote, "fd00::2".parse::<IpAddr>().unwrap());
        assert_eq!(read(&Heard { from: ROUTER, message: &message6(1400) }), None, "in ICMP of the other family");
    }

    #[test]
    fn what_says_something_else_is_not() {
        // Another type, code, version and protocol; a fragment; other flags than VXLAN's.
        for (at, byte) in [(0, 11), (1, 1), (8, 0x65), (8 + 9, proto::TCP), (8 + 7, 8), (8 + 20 + 8, 0)] {
            let mut bytes = message(50_001, 1400);
            bytes[at] = byte;
            assert_eq!(read(&Heard { from: ROUTER, message: &bytes }), None, "byte {at} is {byte}");
        }
        let fits = |mtu| read(&Heard { from: ROUTER, message: &message(50_001, mtu) }).is_none();
        assert!(fits(1500) && !fits(1499), "a packet that fits makes no router complain");
        let fits = |mtu| read(&Heard { from: ROUTER6, message: &message6(mtu) }).is_none();
        assert!(fits(1500) && !fits(1499));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut message in proptest::collection::vec(any::<u8>(), 0..120), six: bool) {
            let (kind, code) = if six { TOO_BIG } else { UNREACHABLE };
            if let Some([first, second]) = message.first_chunk_mut() {
                (*first, *second) = (kind, code);
            }
            let _ = read(&Heard { from: if six { ROUTER6 } else { ROUTER }, message: &message });
        }
    }
}
