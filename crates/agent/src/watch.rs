//! Changes of interfaces, addresses and routes, as the kernel announces them. Of each announcement only type and interface
//! are read: in a storm of them the rest would cost more than to look at everything anew once in a while.

use nix::sys::socket::{self, sockopt, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Announcements that wait until they are read, bytes of the kernel's memory.
const BUFFER: usize = 8 << 20;
/// An announcement is shorter; of a longer one the rest is not needed.
const DATAGRAM: usize = 1 << 14;
/// linux/rtnetlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const GROUP_LINK: u32 = 0x1;
const GROUPS_ADDRESS: u32 = 0x10 | 0x100;
const GROUPS_ROUTE: u32 = 0x40 | 0x400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// An interface, by its number.
    Link(u32),
    LinkGone(u32),
    Other,
    /// There were more than there was room for.
    Lost,
}

#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    /// `routes`: of these too.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(routes: bool) -> io::Result<Watch> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        let _ = socket::setsockopt(&fd, sockopt::RcvBufForce, &BUFFER); // what does not fit is noticed
        let groups = GROUP_LINK | GROUPS_ADDRESS | if routes { GROUPS_ROUTE } else { 0 };
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Watch(fd))
    }

    /// Until there are some. Safe to drop. Only meanwhile does the runtime look at the socket: else each announcement of a storm would
    /// wake the process, also while it lets them gather.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) async fn ready(&self) -> io::Result<()> {
        // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped, which is after this.
        let watched = unsafe { AsyncFd::register(self.0.as_fd()) }?;
        watched.readable().await?.clear_ready();
        Ok(())
    }

    /// All that wait.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn take(&self, mut each: impl FnMut(Change)) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM];
        loop {
            match socket::recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(n) => changes(&buffer[..n]).for_each(&mut each),
                Err(nix::Error::EAGAIN) => return Ok(()),
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::ENOBUFS) => each(Change::Lost),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Of one datagram: struct nlmsghdr, and of links struct ifinfomsg with the number at 4.
fn changes(datagram: &[u8]) -> impl Iterator<Item = Change> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let word = |at: usize| rest.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let (len, kind) = (word(0)?, word(4)? as u16);
        let change = match (kind, word(20)) {
            (RTM_NEWLINK, Some(ifindex)) => Change::Link(ifindex),
            (RTM_DELLINK, Some(ifindex)) => Change::LinkGone(ifindex),
            _ => Change::Other,
        };
        rest = rest.get((len.max(16) as usize).next_multiple_of(4)..).unwrap_or_default();
        Some(change)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u32]) -> Vec<u8> {
        let mut bytes = (16 + 4 * body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(u32::from(kind).to_ne_bytes());
        bytes.extend([0; 8]);
        body.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn announcements_are_read_as_far_as_they_go() {
        let all = [message(16, &[0, 7, 0]), message(20, &[1, 2]), message(17, &[0, 9]), message(16, &[])].concat();
        let read: Vec<Change> = changes(&all).collect();
        assert_eq!(read, [Change::Link(7), Change::Other, Change::LinkGone(9), Change::Other]);
        for end in 0..all.len() {
            assert!(changes(&all[..end]).count() <= 4, "damaged ones end");
        }
        assert_eq!(changes(&[0; 64]).count(), 4, "and so do those without a length");
    }
}
