//! Packets that the edge itself sends: what a stage asked for in [`EVENT_EMIT`](crate::state::EVENT_EMIT), as a frame on
//! an interface or, encapsulated, to a peer.
//!
//! The kernel edge cannot make packets. It says in an event which packet caused the wish and what was wished for. The reader
//! of the events turns that into a [`Packet`] with the data path's own functions and sends it here. A frame sent on a
//! guest's interface goes straight to the guest; one sent on an uplink goes to the fabric. Neither meets the edge's
//! programs of this host again, because those stand at ingress.

use crate::state::{address, Peer, VERSION_1, VERSION_2};
use nix::libc;
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use wire::checksum::Sum;
use wire::encap::{Encap, Shim};
use wire::{pack, version, EmitError, Packet, TcpOptions};

/// Source port of encapsulated packets without a label: the first that names no path (docs/wire.md).
const DEFAULT_LABEL: u16 = 0x8000;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// The frame of `packet` with these MAC addresses: no TCP options but those that a [`Packet`] has, and a payload of zeros.
///
/// # Errors
/// As [`wire::emit`].
pub fn frame(packet: &Packet, source: [u8; 6], destination: [u8; 6]) -> Result<Vec<u8>, EmitError> {
    let mut frame = wire::emit(packet, &TcpOptions::default())?;
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&source);
    Ok(frame)
}

/// UDP and VXLAN headers in front of `frame`, which begins with a shim if `encap` announces one: what follows the IP header on the way
/// to a peer. `label` 0: none.
///
/// # Errors
/// [`EmitError::TooLarge`] if UDP cannot say the length.
pub fn encapsulate(frame: &[u8], encap: &Encap, label: u16, port: u16) -> Result<Vec<u8>, EmitError> {
    let len = u16::try_from(frame.len() + 16).map_err(|_| EmitError::TooLarge(frame.len() as u32))?;
    let label = if label == 0 { DEFAULT_LABEL } else { label };
    let (first, second) = encap.pack();
    let mut datagram = Vec::with_capacity(usize::from(len));
    for half in [label, port, len, 0] {
        datagram.extend(half.to_be_bytes());
    }
    datagram.extend(first.to_be_bytes());
    datagram.extend(second.to_be_bytes());
    datagram.extend(frame);
    Ok(datagram)
}

/// A socket that sends, and never receives, on one interface of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Interface {
    socket: OwnedFd,
    ifindex: i32,
}

impl Interface {
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open(ifindex: u32) -> io::Result<Interface> {
        // Protocol 0: nothing is received, so nothing piles up.
        // SAFETY: a system call with constants.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let ifindex = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Interface { socket: owned(socket)?, ifindex })
    }

    /// What is sent from now on waits in no queue of the interface, and meets no program there.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn bypass_queue(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        let value = std::ptr::from_ref(&on).cast();
        // SAFETY: the value is as long as said.
        let done = unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, value, len)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// # Errors
    /// What the kernel refuses: ENXIO if the interface is gone, ENETDOWN, EMSGSIZE beyond its MTU, ENOBUFS.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: all zeros are a valid sockaddr_ll.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = self.ifindex;
        to.sll_protocol = frame.get(12..14).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(frame.get(..6).ok_or(io::ErrorKind::InvalidInput)?);
        send_to(&self.socket, frame, &to)
    }
}

/// Sends to peers over the host's own routes and neighbours, by the uplinks that the agent has chosen. One for each outer family and network namespace.
#[derive(Debug)]
pub struct Uplink {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Uplink {
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Uplink> {
        Uplink::of_protocol(libc::IPPROTO_UDP)
    }

    /// For [`Uplink::send_plain`].
    ///
    /// # Errors
    /// As [`Uplink::open`].
    pub fn open_plain() -> io::Result<Uplink> {
        Uplink::of_protocol(libc::IPPROTO_RAW)
    }

    fn of_protocol(protocol: libc::c_int) -> io::Result<Uplink> {
        let open = |family| {
            // SAFETY: a system call without pointers.
            owned(unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) })
        };
        let v4 = open(libc::AF_INET)?;
        silence(&v4)?;
        let v6 = open(libc::AF_INET6).ok(); // none where IPv6 is switched off
        if let Some(v6) = &v6 {
            silence(v6)?;
        }
        Ok(Uplink { v4, v6 })
    }

    /// Sends the inner `frame` of network `vni` to `peer`, by the uplink that its data takes, on the path and in the version that `packet`, which it is made of, has. It
    /// comes from the tunnel's own address: peers drop what others send.
    ///
    /// # Errors
    /// What the kernel refuses, ENETUNREACH among it; `InvalidInput` if the frame is too long.
    pub fn send(&self, peer: &Peer, vni: u32, packet: &Packet, frame: &[u8]) -> io::Result<()> {
        let most = peer.tunnel.version;
        let encap = match packet.wire {
            version::TWO if most >= VERSION_2 => {
                let (feedback, path, value) = (packet.feedback, packet.feedback_path, packet.feedback_value);
                Encap { shim: u8::from(packet.pack == pack::SHIM), feedback, path, value, ..Encap::new(vni, VERSION_2) }
            }
            _ => Encap { speaks2: u8::from(most >= VERSION_2), ..Encap::new(vni, most.min(VERSION_1)) },
        };
        let shim = if encap.shim == 0 { Vec::new() } else { report(packet).bytes().to_vec() };
        self.send_encapsulated(peer, &encap, packet.label, &[&shim, frame].concat())
    }

    /// The same of a frame behind a shim. The peer must speak version 2.
    ///
    /// # Errors
    /// As [`Uplink::send`].
    pub fn send_shim(&self, peer: &Peer, vni: u32, label: u16, shim: [u8; 8], frame: &[u8]) -> io::Result<()> {
        let encap = Encap { shim: 1, ..Encap::new(vni, VERSION_2) };
        self.send_encapsulated(peer, &encap, label, &[&shim, frame].concat())
    }

    /// `inner`: what follows the VXLAN header.
    fn send_encapsulated(&self, peer: &Peer, encap: &Encap, label: u16, inner: &[u8]) -> io::Result<()> {
        let datagram = encapsulate(inner, encap, label, peer.tunnel.port)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let bytes = [IoSlice::new(&datagram)];
        let sent = match (address(peer.tunnel.local), address(peer.tunnel.remote)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let from = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
                let ipi_ifindex = peer.ifindex as i32;
                let info = libc::in_pktinfo { ipi_ifindex, ipi_spec_dst: from, ipi_addr: libc::in_addr { s_addr: 0 } };
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                let with = [ControlMessage::Ipv4PacketInfo(&info)];
                sendmsg(self.v4.as_raw_fd(), &bytes, &with, MsgFlags::MSG_DONTWAIT, Some(&to))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
                    ipi6_ifindex: peer.ifindex,
                };
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
                let socket = self.v6.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                let with = [ControlMessage::Ipv6PacketInfo(&info)];
                sendmsg(socket.as_raw_fd(), &bytes, &with, MsgFlags::MSG_DONTWAIT, Some(&to))
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        sent.map(drop).map_err(io::Error::from)
    }

    /// Sends an IP packet with whatever addresses it has, as the host's routes say.
    ///
    /// # Errors
    /// What the kernel refuses, ENETUNREACH among it; `InvalidInput` if it is no IP packet.
    pub fn send_plain(&self, packet: &[u8]) -> io::Result<()> {
        let bytes = [IoSlice::new(packet)];
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let sent = match packet.first().map(|byte| byte >> 4) {
            Some(4) => {
                let to: [u8; 4] = packet.get(16..20).and_then(|to| to.try_into().ok()).ok_or_else(invalid)?;
                let to = SockaddrIn::from(SocketAddrV4::new(to.into(), 0));
                sendmsg(self.v4.as_raw_fd(), &bytes, &[], MsgFlags::MSG_DONTWAIT, Some(&to))
            }
            Some(6) => {
                let to: [u8; 16] = packet.get(24..40).and_then(|to| to.try_into().ok()).ok_or_else(invalid)?;
                let to = SockaddrIn6::from(SocketAddrV6::new(to.into(), 0, 0, 0));
                let socket = self.v6.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                sendmsg(socket.as_raw_fd(), &bytes, &[], MsgFlags::MSG_DONTWAIT, Some(&to))
            }
            _ => return Err(invalid()),
        };
        sent.map(drop).map_err(io::Error::from)
    }
}

/// The IP packet of `packet` without a tunnel, where one that is nothing but feedback says how many marks are new: as in the paper, 36
/// bytes with an Ethernet header over IPv4.
///
/// # Errors
/// As [`wire::emit`].
pub fn plain(packet: &Packet, marks: Option<u16>) -> Result<Vec<u8>, EmitError> {
    let mut ip = wire::emit(packet, &TcpOptions::default())?.split_off(ETHERNET);
    let Some(marks) = marks else { return Ok(ip) };
    ip.extend(marks.to_be_bytes());
    if packet.family == 6 {
        ip[4..6].copy_from_slice(&2u16.to_be_bytes());
        return Ok(ip);
    }
    ip[2..4].copy_from_slice(&22u16.to_be_bytes());
    ip[10..12].fill(0);
    let check = Sum::default().bytes(&ip[..20]).finish();
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    Ok(ip)
}

/// What a packet reports in a shim.
fn report(packet: &Packet) -> Shim {
    let bytes = |[a, b, c]: [u8; 3]| u32::from_be_bytes([0, a, b, c]);
    Shim { kind: Shim::REPORT, value: bytes(packet.pack_total), marked: bytes(packet.pack_ce), ..Shim::default() }
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A raw socket gets a copy of every datagram of the host; a filter that takes none spares that.
fn silence(socket: &OwnedFd) -> io::Result<()> {
    let mut none = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }; // BPF_RET | BPF_K: 0 bytes
    let program = libc::sock_fprog { len: 1, filter: &mut none };
    // SAFETY: the kernel reads one sock_fprog and the one instruction that it points to.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            std::ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn send_to<A>(socket: &OwnedFd, bytes: &[u8], to: &A) -> io::Result<()> {
    // SAFETY: both pointers are valid for the lengths given; `A` is a socket address.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(to).cast(),
            size_of::<A>() as libc::socklen_t,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{proto, tcp, v4};

    fn acknowledgement() -> Packet {
        Packet {
            saddr: v4([10, 7, 0, 2]),
            daddr: v4([10, 7, 0, 1]),
            family: 4,
            proto: proto::TCP,
            sport: 80,
            dport: 4000,
            seq: 7,
            ack: 9,
            window: 100,
            tcp_flags: tcp::ACK,
            ..Packet::default()
        }
    }

    /// Section 4.2 of HyGenICC: 14 + 20 + 2 bytes with the count as payload. Without it, as in Listing 5, they would be 34.
    #[test]
    fn a_packet_of_marks_has_36_bytes_as_a_frame() {
        let feedback = Packet { proto: 253, l4_header_len: 0, ip_header_len: 20, ..acknowledgement() };
        let ip = plain(&feedback, Some(4465)).unwrap();
        assert_eq!((ETHERNET + ip.len(), ETHERNET + plain(&feedback, None).unwrap().len()), (36, 34));
        assert_eq!((&ip[2..4], ip[9], &ip[20..]), (&22u16.to_be_bytes()[..], 253, &4465u16.to_be_bytes()[..]));
        assert_eq!(Sum::default().bytes(&ip[..20]).finish(), 0, "the header's checksum");
    }

    #[test]
    fn a_frame_says_what_its_packet_says() {
        let made = frame(&acknowledgement(), [2; 6], [4; 6]).unwrap();
        assert_eq!((&made[..6], &made[6..12]), ([4u8; 6].as_slice(), [2u8; 6].as_slice()));
        let parsed = wire::parse(&made).unwrap();
        assert_eq!((parsed.seq, parsed.ack, parsed.window, parsed.tcp_flags), (7, 9, 100, tcp::ACK));
    }

    #[test]
    fn feedback_without_a_tunnel_has_36_bytes_and_a_right_checksum() {
        let told = Packet { proto: 253, ..acknowledgement() };
        let ip = plain(&told, Some(0x1234)).unwrap();
        assert_eq!((ip.len() + ETHERNET, &ip[20..], &ip[2..4]), (36, [0x12, 0x34].as_slice(), [0, 22].as_slice()));
        assert_eq!(Sum::default().bytes(&ip[..20]).finish(), 0);
        let ip = plain(&Packet { family: 6, ..told }, Some(7)).unwrap();
        assert_eq!((ip.len(), &ip[4..6], ip[6], &ip[40..]), (42, [0, 2].as_slice(), 253, [0, 7].as_slice()));
        let ip = plain(&acknowledgement(), None).unwrap();
        assert_eq!(ip, frame(&acknowledgement(), [2; 6], [4; 6]).unwrap()[ETHERNET..]);
    }

    #[test]
    fn what_is_encapsulated_reads_as_such() {
        let made = frame(&acknowledgement(), [2; 6], [4; 6]).unwrap();
        let encap = Encap::new(7, 1);
        let datagram = encapsulate(&made, &encap, 50_001, 4789).unwrap();
        let mut outer = vec![0u8; 12];
        outer.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto::UDP, 0, 0, 192, 168, 99, 1, 192, 168, 99, 2]);
        outer.extend(&datagram);
        let read = wire::encap::read_outer(&outer, 4789).unwrap();
        assert_eq!((read.sport, read.encap), (50_001, encap));
        assert_eq!(outer[usize::from(read.add_len)..], made);
        assert!(encapsulate(&vec![0; 65_530], &encap, 0, 4789).is_err());
    }
}
