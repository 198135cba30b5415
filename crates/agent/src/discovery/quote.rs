//! What "time exceeded" quotes of a packet: enough to know the probe by.

use crate::quoted::{datagram, Datagram, VXLAN};
use kernel::probes::Heard;
use std::net::IpAddr;
use wire::encap::Shim;

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

/// "Time exceeded" in transit (RFC 792, RFC 4443).
const EXCEEDED: (u8, u8) = (11, 0);
const EXCEEDED6: (u8, u8) = (3, 0);

/// `None`: the message says something else, or quotes something else than UDP.
///
/// Over IPv4, 8 bytes behind the quoted header suffice (RFC 792), since its identification is the probe's. IPv6 has none, but routers
/// quote as much as fits (RFC 4443 section 3.3), and so the shim.
pub(super) fn read(heard: &Heard<'_>) -> Option<Quoted> {
    let Datagram { local, remote, ports: [port, udp_port], ip, payload, .. } = datagram(heard, EXCEEDED, EXCEEDED6)?;
    let id = if local.is_ipv4() {
        u16::from_be_bytes([ip[4], ip[5]])
    } else {
        let shim = payload.get(VXLAN..VXLAN + 8)?.try_into().ok()?;
        Shim::read(shim).filter(|shim| shim.kind == Shim::PROBE)?.id
    };
    Some(Quoted { local, remote, port, udp_port, id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::probes::Probe;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

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
