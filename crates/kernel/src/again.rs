//! Guests' segments that the agent sends again.
//!
//! A segment enters by a pair of devices, at whose other end the guest's program takes it as if it came from the guest's port. Or it
//! enters the queue of a limit, where it was before.

use crate::htb;
use nix::libc;
use port::VnetHeader;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Start of the devices' names. Segments enter by the first, and come out of the second.
pub const NAME: &str = "svagain";
pub const FIRST: &str = "svagain0";
pub const SECOND: &str = "svagain1";

/// Makes the pair, down. Fine if it exists.
///
/// # Errors
/// What the kernel answers.
pub fn add() -> io::Result<()> {
    htb::add_pair(FIRST, SECOND)
}

/// # Errors
/// What the kernel answers.
pub fn up() -> io::Result<()> {
    [FIRST, SECOND].iter().try_for_each(|name| htb::set_up(name))
}

/// Fine if there is none.
///
/// # Errors
/// What the kernel answers.
pub fn remove() -> io::Result<()> {
    htb::remove_pair(FIRST)
}

// linux/if_packet.h
const PACKET_VNET_HDR: libc::c_int = 15;
/// Segments that may wait in queues at once, bytes.
const SEND_BUFFER: libc::c_int = 16 << 20;

/// Where a segment goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// ifindex.
    pub device: u32,
    /// The packet's: ifindex of the port from which it seems to come.
    pub mark: u32,
    pub priority: u32,
}

/// A socket that sends frames with marks, in the network namespace in which it was opened. It never receives, and never blocks.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    /// As the socket has them.
    mark: u32,
    priority: u32,
}

impl Sender {
    /// # Errors
    /// EPERM without CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn open() -> io::Result<Sender> {
        // Protocol 0: nothing is received, so nothing piles up.
        // SAFETY: a system call with constants.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let sender = Sender { socket, mark: 0, priority: 0 };
        sender.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        sender.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER)?;
        Ok(sender)
    }

    /// # Errors
    /// What the kernel answers: EAGAIN if too much waits already, ENXIO or ENETDOWN if the device is gone.
    pub fn send(&mut self, way: Way, header: &VnetHeader, frame: &[u8]) -> io::Result<()> {
        if self.mark != way.mark {
            self.set(libc::SOL_SOCKET, libc::SO_MARK, way.mark as libc::c_int)?;
            self.mark = way.mark;
        }
        if self.priority != way.priority {
            self.set(libc::SOL_SOCKET, libc::SO_PRIORITY, way.priority as libc::c_int)?;
            self.priority = way.priority;
        }
        let ethernet = frame.first_chunk::<14>().ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: all zeros are a valid sockaddr_ll.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = i32::try_from(way.device).map_err(|_| io::ErrorKind::InvalidInput)?;
        to.sll_protocol = u16::from_ne_bytes([ethernet[12], ethernet[13]]);
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&ethernet[..6]);
        let mut header = header.to_bytes();
        let parts = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() },
        ];
        // SAFETY: zeros are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = parts.as_ptr().cast_mut();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: address and parts outlive the call, which only reads them.
        match unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, 0) } {
            sent if sent < 0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel reads the value, which is as long as said.
        let done =
            unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, name, std::ptr::from_ref(&value).cast(), size) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
