//! What ICMP quotes of a UDP datagram of this host: the part that messages of every kind have in common.

use kernel::probes::Heard;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::proto;

/// ICMP's header, before the quote.
pub(crate) const ICMP: usize = 8;
pub(crate) const UDP: usize = 8;
pub(crate) const VXLAN: usize = 8;

/// The beginning of a datagram, as far as it is quoted. Whoever can send ICMP can make it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Source and destination port.
    pub(crate) ports: [u16; 2],
    /// The message's own header.
    pub(crate) icmp: &'a [u8; ICMP],
    /// The quoted IP header: at least 20 bytes, over IPv6 40.
    pub(crate) ip: &'a [u8],
    /// Behind the quoted UDP header. Routers may quote nothing of it over IPv4 (RFC 792).
    pub(crate) payload: &'a [u8],
}

/// `None`: the message has another type and code than these, of ICMP or ICMPv6, or quotes something else than a UDP datagram that is in one
/// piece.
pub(crate) fn datagram<'a>(heard: &Heard<'a>, v4: (u8, u8), v6: (u8, u8)) -> Option<Datagram<'a>> {
    let (icmp, quote) = heard.message.split_first_chunk::<ICMP>()?;
    let kind = (icmp[0], icmp[1]);
    let (local, remote, ip, udp): (IpAddr, IpAddr, _, _) = match heard.from {
        IpAddr::V4(_) if kind == v4 => {
            let header = usize::from(quote.first()? & 15) * 4;
            let (ip, udp) = quote.split_at_checked(header.max(20))?;
            let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
            if ip[0] >> 4 != 4 || ip[9] != proto::UDP || fragment != 0 {
                return None;
            }
            let [local, remote] = [12, 16].map(|at| Ipv4Addr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]));
            (local.into(), remote.into(), ip, udp)
        }
        IpAddr::V6(_) if kind == v6 => {
            let (ip, udp) = quote.split_at_checked(40)?;
            if ip[0] >> 4 != 6 || ip[6] != proto::UDP {
                return None;
            }
            let address = |at: usize| ip.get(at..at + 16)?.first_chunk().map(|octets| Ipv6Addr::from(*octets));
            (address(8)?.into(), address(24)?.into(), ip, udp)
        }
        _ => return None,
    };
    let (udp, payload) = udp.split_first_chunk::<UDP>()?;
    let ports = [0, 2].map(|at| u16::from_be_bytes([udp[at], udp[at + 1]]));
    Some(Datagram { local, remote, ports, icmp, ip, payload })
}
