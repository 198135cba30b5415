//! Probes of path discovery as packets, and the raw sockets that send them and hear what routers say of them.
//!
//! A probe is encapsulated as the data is (docs/wire.md), with the source port under test and a small TTL. The inner frame is a mere
//! Ethernet header in a network that no guest can have, so that no guest ever sees one, whatever edge receives it.

use crate::emit::encapsulate;
use crate::state::VERSION_2;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    recvfrom, sendmsg, socket, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
    SockaddrIn6, SockaddrStorage,
};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use wire::encap::{Encap, Shim};

/// The network of probes: that of the edge's own VXLAN device (`gro`), which drops all that other edges may leave to the host.
const NETWORK: u32 = agent_api::config::MAX_NETWORK + 1;
/// The type of frames that are no protocol's (IEEE 802, local experiments).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Source and destination of inner frames: a locally administered address.
const NOBODY: [u8; 6] = [0x02, 0x73, 0x65, 0x6c, 0x76, 0x02];
/// What follows the IP header: UDP, VXLAN, shim, inner Ethernet header.
const PAYLOAD: usize = 8 + 8 + 8 + 14;

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Outer addresses, of one family.
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Of the tunnel: UDP destination port.
    pub udp_port: u16,
    /// Under test: outer source port.
    pub port: u16,
    /// IPv4's TTL, IPv6's hop limit.
    pub ttl: u8,
    /// By which answers are known, not 0: in the shim, and on IPv4 also the identification, for routers may quote no more than 8 bytes
    /// behind the IP header (RFC 792).
    pub id: u16,
    /// Sender's time in units of 64 ns, modulo 2^32.
    pub time: u32,
}

impl Probe {
    /// From the IP header on; IPv4's checksum is the kernel's to fill in. `None` for addresses of two families.
    pub fn packet(&self) -> Option<Vec<u8>> {
        let shim = Shim { kind: Shim::PROBE, id: self.id, value: self.time, ..Shim::default() };
        let frame = [&shim.bytes()[..], &NOBODY, &NOBODY, &ETHERTYPE].concat();
        let encap = Encap { shim: 1, ..Encap::new(NETWORK, VERSION_2) };
        let datagram = encapsulate(&frame, &encap, self.port, self.udp_port).ok()?;
        debug_assert_eq!(datagram.len(), PAYLOAD);
        let mut packet = Vec::with_capacity(40 + PAYLOAD);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                packet.extend([0x45, 0]);
                packet.extend((20 + PAYLOAD as u16).to_be_bytes());
                packet.extend(self.id.to_be_bytes());
                packet.extend([0x40, 0, self.ttl, libc::IPPROTO_UDP as u8, 0, 0]); // don't fragment, as the data
                packet.extend(local.octets());
                packet.extend(remote.octets());
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                packet.extend([0x60, 0, 0, 0]); // no flow label, as the data: routers may hash it
                packet.extend((PAYLOAD as u16).to_be_bytes());
                packet.extend([libc::IPPROTO_UDP as u8, self.ttl]);
                packet.extend(local.octets());
                packet.extend(remote.octets());
            }
            _ => return None,
        }
        packet.extend(datagram);
        Some(packet)
    }
}

/// Types of ICMP and of ICMPv6: RFC 792 and RFC 4443.
pub type Types = (u8, u8);
/// "Time exceeded".
pub const TIME_EXCEEDED: Types = (11, 3);
/// "Destination unreachable", of which a code is "fragmentation needed", and "packet too big".
pub const TOO_BIG: Types = (3, 2);

/// Sockets that hear messages of one kind, of the network namespace in which they were opened. IPv6 is left out where the host has none.
#[derive(Debug)]
pub struct Hearing {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

/// Sockets that send probes.
#[derive(Debug)]
pub struct Sending {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

/// Both.
#[derive(Debug)]
pub struct Sockets {
    sending: Sending,
    hearing: Hearing,
}

/// A message of ICMP or ICMPv6 that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<'a> {
    pub from: IpAddr,
    /// From the ICMP header on; cut to the buffer's length.
    pub message: &'a [u8],
}

fn raw(family: AddressFamily, protocol: SockProtocol) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(family, SockType::Raw, flags, protocol).map_err(io::Error::from)
}

/// `None` where the host has no IPv6.
fn raw6(protocol: SockProtocol) -> io::Result<Option<OwnedFd>> {
    match raw(AddressFamily::Inet6, protocol) {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Sockets {
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Sockets> {
        Ok(Sockets { sending: Sending::open()?, hearing: Hearing::open(TIME_EXCEEDED)? })
    }

    pub fn sending(&self) -> &Sending {
        &self.sending
    }

    /// For the answers of routers.
    pub fn hearing(&self) -> &Hearing {
        &self.hearing
    }
}

impl Sending {
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Sending> {
        // This protocol sends whole packets and receives none.
        Ok(Sending { v4: raw(AddressFamily::Inet, SockProtocol::Raw)?, v6: raw6(SockProtocol::Raw)? })
    }

    /// `ifindex`: by which the data leaves. Returns bytes sent, IP header included.
    ///
    /// # Errors
    /// What the kernel refuses: ENETUNREACH, ENOBUFS, EINVAL for a source address that is not the host's.
    pub fn send(&self, probe: &Probe, ifindex: u32) -> io::Result<usize> {
        let packet = probe.packet().ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = [IoSlice::new(&packet)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match (probe.local, probe.remote) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: ifindex as i32,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                sendmsg(self.v4.as_raw_fd(), &bytes, &[ControlMessage::Ipv4PacketInfo(&info)], flags, Some(&to))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let info =
                    libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: ifindex };
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
                let socket = self.v6.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                sendmsg(socket.as_raw_fd(), &bytes, &[ControlMessage::Ipv6PacketInfo(&info)], flags, Some(&to))
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        sent.map_err(io::Error::from)
    }
}

impl Hearing {
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open((four, six): Types) -> io::Result<Hearing> {
        let v4 = raw(AddressFamily::Inet, SockProtocol::Icmp)?;
        // A bit for each type that is left out; of larger ones there are none.
        set(&v4, libc::SOL_RAW, ICMP_FILTER, !(1u32 << (four % 32)))?;
        let v6 = raw6(SockProtocol::IcmpV6)?;
        if let Some(v6) = &v6 {
            let mut left_out = [!0u32; 8];
            left_out[usize::from(six / 32)] ^= 1 << (six % 32);
            set(v6, libc::IPPROTO_ICMPV6, ICMP_FILTER, left_out)?;
        }
        Ok(Hearing { v4, v6 })
    }

    /// To wait on, IPv4's first.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.v4.as_fd()).chain(self.v6.as_ref().map(AsFd::as_fd))
    }

    /// The next message of either family, IPv6's before IPv4's if so asked; `None`: there is none now. Who asks for them in turn hears
    /// one family while the other is flooded.
    ///
    /// # Errors
    /// What the kernel says, other than that there is nothing.
    pub fn hear<'a>(&self, six_first: bool, buffer: &'a mut [u8]) -> io::Result<Option<Heard<'a>>> {
        let mut sockets = [Some(self.v4.as_fd()), self.v6.as_ref().map(AsFd::as_fd)];
        if six_first {
            sockets.reverse();
        }
        for socket in sockets.into_iter().flatten() {
            let (len, from) = match recvfrom::<SockaddrStorage>(socket.as_raw_fd(), buffer) {
                Ok((len, Some(from))) => (len, from),
                Ok((_, None)) | Err(Errno::EAGAIN | Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            let len = len.min(buffer.len());
            if let Some(from) = from.as_sockaddr_in6() {
                return Ok(Some(Heard { from: from.ip().into(), message: &buffer[..len] }));
            }
            if let Some(from) = from.as_sockaddr_in() {
                // With the IP header in front.
                let header = buffer.first().map_or(0, |first| usize::from(first & 15) * 4).min(len);
                return Ok(Some(Heard { from: from.ip().into(), message: &buffer[header..len] }));
            }
        }
        Ok(None)
    }
}

/// Both ICMP_FILTER and ICMPV6_FILTER of Linux.
const ICMP_FILTER: libc::c_int = 1;

fn set<T: Copy>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads the value, which is as long as said.
    let code = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(&value).cast(), len) };
    Errno::result(code).map(drop).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::encap::read_outer;

    fn probe(local: &str, remote: &str) -> Probe {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        Probe { local, remote, udp_port: 4789, port: 0xc107, ttl: 3, id: 0x1243, time: 0x0506_0708 }
    }

    #[test]
    fn a_probe_is_encapsulated_as_the_data_is() {
        for (local, remote, ethertype, ttl) in
            [("10.1.1.2", "10.2.3.2", [8, 0], 14 + 8), ("fd5e:1:1:1::2", "fd5e:1:2:3::2", [0x86, 0xdd], 14 + 7)]
        {
            let packet = probe(local, remote).packet().unwrap();
            let frame = [&[0; 12][..], &ethertype, &packet].concat();
            let outer = read_outer(&frame, 4789).unwrap();
            assert_eq!((outer.sport, outer.encap.version, outer.encap.shim), (0xc107, VERSION_2, 1));
            assert_eq!((outer.encap.vni, outer.frame_len as usize), (0xff_ffff, frame.len()));
            let shim = Shim { kind: Shim::PROBE, id: 0x1243, value: 0x0506_0708, ..Shim::default() };
            assert_eq!(Shim::read(&outer.shim), Some(shim));
            assert_eq!(frame.len() - usize::from(outer.add_len), 14, "a mere header");
            assert_eq!(frame[ttl], 3);
        }
        let packet = probe("10.1.1.2", "10.2.3.2").packet().unwrap();
        assert_eq!(packet[4..6], [0x12, 0x43], "routers quote the identification");
        assert_eq!(probe("10.1.1.2", "::1").packet(), None);
    }
}
