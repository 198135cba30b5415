//! Packet sockets with virtio headers: frames into and out of an interface as they are, also those that offload left
//! whole and those that BPF_PROG_TEST_RUN refuses.

use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// struct virtio_net_hdr.
const VNET: usize = 10;

pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// On an interface of the calling thread's namespace; sees what arrives there.
    pub(crate) fn open(ifindex: u32) -> io::Result<PacketSocket> {
        let every = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: a system call without pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, every.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let socket = PacketSocket(unsafe { OwnedFd::from_raw_fd(fd) });
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1i32)?;
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1i32)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, libc::timeval { tv_sec: 0, tv_usec: 200_000 })?;
        // SAFETY: zero is a valid value of every field.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = ifindex as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is as long as said.
        check(unsafe { libc::bind(fd, std::ptr::from_ref(&address).cast(), len) } as isize)?;
        Ok(socket)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value is as long as said.
        let done =
            unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, std::ptr::from_ref(&value).cast(), len) };
        check(done as isize).map(drop)
    }

    /// `segment`: where the TCP header starts and how long it is, and payload bytes per packet; `None`: one packet.
    pub(crate) fn send(&self, frame: &[u8], segment: Option<(u16, u16, u16)>) -> io::Result<()> {
        let mut bytes = vec![0; VNET];
        if let Some((tcp, tcp_len, size)) = segment {
            let ipv6 = frame.get(12..14) == Some([0x86, 0xdd].as_slice());
            bytes[..2].copy_from_slice(&[1, if ipv6 { 4 } else { 1 }]); // checksum to be completed; TCP over IPv4 or 6
            for (at, value) in [(2, tcp + tcp_len), (4, size), (6, tcp), (8, 16)] {
                bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
            }
        }
        bytes.extend_from_slice(frame);
        // SAFETY: reads as many bytes as there are.
        check(unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }).map(drop)
    }

    /// The next frame and its payload per packet (0: one packet); `None` if none comes for a while.
    pub(crate) fn receive(&self) -> Option<(Vec<u8>, u16)> {
        let mut bytes = vec![0; 70_000];
        // SAFETY: writes at most as many bytes as there are.
        let n = unsafe { libc::recv(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let n = usize::try_from(n).ok().filter(|n| *n >= VNET)?;
        let size = u16::from_ne_bytes([bytes[4], bytes[5]]);
        Some((bytes[VNET..n].to_vec(), size))
    }
}

fn check(code: isize) -> io::Result<isize> {
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(code)
}
