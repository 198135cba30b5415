//! What "time exceeded" quotes of a packet: enough to know the probe by.

use kernel::probes::Heard;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::encap::Shim;
use wire::proto;

/// A packet of ours whose TTL ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    /// Outer source port.
    pub(super) port: u16,
    pub(super) udp_port: u16,
    pub(super) id: u16,
}

/// ICMP's header, before the quote.
const ICMP: usize = 8;
const UDP: usize = 8;
const VXLAN: usize = 8;

/// `None`: the message says something else, or quotes something else than UDP.
///
/// Over IPv4, 8 bytes behind the quoted header suffice (RFC 792), since its identification is the probe's. IPv6 has none, but routers
/// quote as much as fits (RFC 4443 section 3.3), and so the shim.
pub(super) fn read(heard: &Heard<'_>) -> Option<Quoted> {
    let (kind, quote) = heard.message.split_at_checked(ICMP)?;
    let (local, remote, id, datagram) = match (heard.from, kind[0], kind[1]) {
        (IpAddr::V4(_), 11, 0) => {
            let header = usize::from(quote.first()? & 15) * 4;
            let (ip, datagram) = quote.split_at_checked(header.max(20))?;
            let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
            if ip[0] >> 4 != 4 || ip[9] != proto::UDP || fragment != 0 {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            };
            (address(12)?, address(16)?, u16::from_be_bytes([ip[4], ip[5]]), datagram)
        }
        (IpAddr::V6(_), 3, 0) => {
            let (ip, datagram) = quote.split_at_checked(40)?;
            if ip[0] >> 4 != 6 || ip[6] != proto::UDP {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = ip.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            };
            let shim = datagram.get(UDP + VXLAN..UDP + VXLAN + 8)?.try_into().ok()?;
            let shim = Shim::read(shim).filter(|shim| shim.kind == Shim::PROBE)?;
            (address(8)?, address(24)?, shim.id, datagram)
        }
        _ => return None,
    };
    let udp = datagram.get(..UDP)?;
    let (port, udp_port) = (u16::from_be_bytes([udp[0], udp[1]]), u16::from_be_bytes([udp[2], udp[3]]));
    Some(Quoted { local, remote, port, udp_port, id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::probes::Probe;
    use proptest::prelude::*;

    fn probe(local: &str, remote: &str) -> Probe {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        Probe { local, remote, udp_port: 4789, port: 0xc107, ttl: 1, id: 0x1243, time: 7 }
    }

    fn quoted(probe: &Probe) -> Quoted {
        let Probe { local, remote, udp_port, port, id, .. } = *probe;
        Quoted { local, remote, port, udp_port, id }
    }

    fn v4() -> (Probe, Vec<u8>) {
        let probe = probe("10.1.1.2", "10.2.3.2");
        (probe, [&[11, 0, 0, 0, 0, 0, 0, 0][..], &probe.packet().unwrap()].concat())
    }

    const HOP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1));
    const HOP6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[test]
    fn eight_bytes_behind_the_header_suffice_over_ipv4() {
        let (probe, message) = v4();
        for len in [8 + 20 + 8, message.len()] {
            let found = read(&Heard { from: HOP, message: &message[..len] });
            assert_eq!(found, Some(quoted(&probe)), "{len} bytes");
        }
        assert_eq!(read(&Heard { from: HOP, message: &message[..8 + 20 + 7] }), None);
        // With options in the quoted header.
        let mut options = message.clone();
        options[8] = 0x46;
        options.splice(28..28, [1, 1, 1, 0]);
        assert_eq!(read(&Heard { from: HOP, message: &options }), Some(quoted(&probe)));
    }

    #[test]
    fn ipv6_needs_the_shim() {
        let probe = probe("fd5e::1", "fd5e::2");
        let message = [&[3, 0, 0, 0, 0, 0, 0, 0][..], &probe.packet().unwrap()].concat();
        assert_eq!(read(&Heard { from: HOP6, message: &message }), Some(quoted(&probe)));
        assert_eq!(read(&Heard { from: HOP6, message: &message[..8 + 40 + 8 + 8 + 7] }), None);
        assert_eq!(read(&Heard { from: HOP, message: &message }), None, "in ICMP of the other family");
    }

    #[test]
    fn other_messages_say_nothing() {
        let (_, message) = v4();
        for (at, byte) in [(0, 3), (1, 1), (8, 0x65), (8 + 9, 6), (8 + 7, 8)] {
            let mut other = message.clone();
            other[at] = byte;
            assert_eq!(read(&Heard { from: HOP, message: &other }), None, "byte {at} is {byte}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut message in proptest::collection::vec(any::<u8>(), 0..120), six: bool) {
            if let Some(first) = message.first_mut() {
                *first = if six { 3 } else { 11 };
            }
            let _ = read(&Heard { from: if six { HOP6 } else { HOP }, message: &message });
        }
    }
}
