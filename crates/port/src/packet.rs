//! Packet sockets: frames from and to an interface that exists already, such as a NIC.

use super::{gather, tap::interface_request, would_block, FrameId, Pool, Port, VnetHeader};
use nix::errno::Errno;
use nix::libc::{self, c_int, c_void};
use nix::sys::socket::{sendmsg, MsgFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// linux/if_packet.h
const PACKET_VNET_HDR: c_int = 15;
const PACKET_IGNORE_OUTGOING: c_int = 23;
/// Enough for a few hundred segments; the kernel may give less.
const RECEIVE_BUFFER: c_int = 16 << 20;
/// Frames read by one call.
const BATCH: usize = 16;

/// A packet socket on an existing interface, such as a NIC or one end of a veth pair: reads what arrives there and
/// sends as that interface would.
///
/// It sees every protocol, because sockets bound to one protocol run behind tc's ingress programs, and never what is
/// sent from here.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// # Errors
    /// EPERM without CAP_NET_RAW in the calling thread's network namespace, ENODEV if it has no such interface.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // No protocol until it is bound: nothing of other interfaces gets in.
        // SAFETY: takes numbers only.
        let fd = Errno::result(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut request = interface_request(interface)?;
        // SAFETY: the kernel reads the name and fills in the index.
        Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX, &mut request) })?;
        // SAFETY: this call fills this member.
        let ifindex = unsafe { request.ifr_ifru.ifru_ifindex };
        set(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
        set(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)?;
        if set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
            set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER)?;
        }
        let promiscuous = libc::packet_mreq {
            mr_ifindex: ifindex,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: ifindex,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is whole and of the given size.
        Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
        Ok(PacketSocket { fd })
    }
}

fn set<T>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value: *const c_void = (&raw const *value).cast();
    // SAFETY: the kernel reads `size` bytes of the value.
    Errno::result(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, size) })?;
    Ok(())
}

impl PacketSocket {
    /// One call: at most [`BATCH`] frames. How many were read, and how many were asked for.
    fn receive_batch(&mut self, pool: &mut Pool, frames: &mut Vec<FrameId>, most: usize) -> io::Result<(usize, usize)> {
        let mut ids = [0; BATCH];
        let mut wanted = 0;
        while wanted < most.min(BATCH) {
            let Some(id) = pool.take() else { break };
            ids[wanted] = id;
            wanted += 1;
        }
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: all its members are numbers and pointers, for which zero is a value.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for i in 0..wanted {
            let buffer = pool.buffer(ids[i]);
            vectors[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            messages[i].msg_hdr.msg_iov = &raw mut vectors[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each message has one vector, and each vector is a buffer of its own in the pool, which outlives the
        // call.
        let read = Errno::result(unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                wanted as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        });
        let read = match read {
            Ok(n) => n as usize,
            Err(error) if would_block(error) => 0,
            Err(error) => {
                ids[..wanted].iter().for_each(|&id| pool.release(id));
                return Err(error.into());
            }
        };
        for (i, &id) in ids[..wanted].iter().enumerate() {
            let truncated = messages[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            if i < read && !truncated && pool.filled(id, messages[i].msg_len as usize) {
                frames.push(id);
            } else {
                pool.release(id);
            }
        }
        Ok((read, wanted))
    }
}

impl Port for PacketSocket {
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<FrameId>, most: usize) -> io::Result<usize> {
        let before = frames.len();
        let mut left = most;
        while left > 0 {
            let (read, wanted) = self.receive_batch(pool, frames, left)?;
            left -= read;
            if read < wanted || wanted == 0 {
                break;
            }
        }
        Ok(frames.len() - before)
    }

    fn send(&mut self, header: &VnetHeader, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let header = header.to_bytes();
        let all = gather(&header, parts)?;
        match sendmsg::<()>(self.fd.as_raw_fd(), &all, &[], MsgFlags::MSG_DONTWAIT, None) {
            Ok(_) => Ok(true),
            Err(error) if would_block(error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
