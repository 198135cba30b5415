//! Uplinks that fail, as the kernel announces it: on a socket of their own. Its filter lets nothing else through, so announcements
//! of guests' interfaces, however many, delay none of these.

use nix::libc;
use nix::sys::socket::{self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// linux/rtnetlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const GROUP_LINK: u32 = 0x1;
/// Offsets in an announcement: of the type in struct nlmsghdr, and behind it of number and flags in struct ifinfomsg.
const TYPE: usize = 4;
const IFINDEX: usize = 20;
const FLAGS: usize = 24;
/// More uplinks are not told from others by the filter, whose jumps are short.
const MAX_UPLINKS: usize = 64;

#[derive(Debug)]
pub(super) struct Carriers {
    socket: AsyncFd<OwnedFd>,
    uplinks: BTreeSet<u32>,
}

impl Carriers {
    /// # Errors
    /// The kernel's.
    pub(super) fn watch(uplinks: BTreeSet<u32>) -> io::Result<Carriers> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket::socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        // SAFETY: an OwnedFd is an open descriptor, and names the same one until it is dropped.
        let socket = unsafe { AsyncFd::register(socket) }?;
        let carriers = Carriers { socket, uplinks };
        carriers.filter()?;
        socket::bind(carriers.socket.as_raw_fd(), &NetlinkAddr::new(0, GROUP_LINK))?;
        Ok(carriers)
    }

    /// Other uplinks from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn follow(&mut self, uplinks: BTreeSet<u32>) -> io::Result<()> {
        if self.uplinks == uplinks {
            return Ok(());
        }
        self.uplinks = uplinks;
        self.filter()
    }

    fn filter(&self) -> io::Result<()> {
        let mut code = program(&self.uplinks);
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
        let value = std::ptr::from_ref(&program).cast();
        // SAFETY: the kernel reads one sock_fprog and as many instructions as it says, which outlive the call.
        let done =
            unsafe { libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, len) };
        nix::Error::result(done).map(drop).map_err(io::Error::from)
    }

    /// Waits until an uplink has failed: its carrier is lost, it is set down, or it is removed. Safe to drop at any await.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) async fn failed(&self) -> io::Result<BTreeSet<u32>> {
        loop {
            let mut ready = self.socket.readable().await?;
            let found = self.take()?;
            ready.clear_ready();
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    fn take(&self) -> io::Result<BTreeSet<u32>> {
        let (mut found, mut buffer) = (BTreeSet::new(), [0; 4096]);
        loop {
            match socket::recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(n) => found.extend(failed(&buffer[..n]).filter(|ifindex| self.uplinks.contains(ifindex))),
                Err(nix::Error::EAGAIN) => return Ok(found),
                // What was lost, the look that follows every change finds.
                Err(nix::Error::EINTR | nix::Error::ENOBUFS) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The interface that an announcement says cannot carry anything.
fn failed(announcement: &[u8]) -> Option<u32> {
    let word = |at: usize| announcement.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let kind = announcement.get(TYPE..TYPE + 2)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
    let runs = word(FLAGS)? & libc::IFF_RUNNING as u32 != 0;
    (kind == RTM_DELLINK || (kind == RTM_NEWLINK && !runs)).then(|| word(IFINDEX)).flatten()
}

/// [`failed`] for these interfaces. A filter reads the host's words as if they came from the network.
fn program(uplinks: &BTreeSet<u32>) -> Vec<libc::sock_filter> {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |size: u32, at: usize| op(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at as u32);
    let jump = |how: u32, k: u32, jt: u8, jf: u8| op(libc::BPF_JMP | how | libc::BPF_K, jt, jf, k);
    let end = |bytes: u32| op(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    let mut code = vec![
        load(libc::BPF_H, TYPE),
        jump(libc::BPF_JEQ, u32::from(RTM_DELLINK.to_be()), 4, 0),
        jump(libc::BPF_JEQ, u32::from(RTM_NEWLINK.to_be()), 0, 2),
        load(libc::BPF_W, FLAGS),
        jump(libc::BPF_JSET, (libc::IFF_RUNNING as u32).to_be(), 0, 1),
        end(0),
        load(libc::BPF_W, IFINDEX),
    ];
    if uplinks.len() <= MAX_UPLINKS {
        for (n, ifindex) in uplinks.iter().enumerate() {
            code.push(jump(libc::BPF_JEQ, ifindex.to_be(), (uplinks.len() - n) as u8, 0));
        }
        code.push(end(0));
    }
    code.push(end(u32::MAX));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(kind: u16, ifindex: u32, flags: u32) -> Vec<u8> {
        let mut bytes = 32u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 14]);
        bytes.extend([ifindex, flags, 0].map(u32::to_ne_bytes).concat());
        bytes
    }

    /// What the kernel does with a filter.
    fn takes(code: &[libc::sock_filter], bytes: &[u8]) -> bool {
        let (mut at, mut a) = (0, 0u32);
        loop {
            let libc::sock_filter { code: op, jt, jf, k } = code[at];
            let k_at = k as usize;
            at += 1;
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(op) {
                0x28 => a = u32::from(u16::from_be_bytes(bytes[k_at..k_at + 2].try_into().unwrap())),
                0x20 => a = u32::from_be_bytes(bytes[k_at..k_at + 4].try_into().unwrap()),
                0x15 => at += jump(a == k),
                0x45 => at += jump(a & k != 0),
                0x06 => return k != 0,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn the_filter_takes_failures_of_uplinks_only() {
        let (up, running) = (libc::IFF_UP as u32, libc::IFF_RUNNING as u32);
        let cases = [
            (RTM_NEWLINK, 7, up, true),
            (RTM_NEWLINK, 9, 0, true),
            (RTM_NEWLINK, 7, up | running, false),
            (RTM_NEWLINK, 8, up, false),
            (RTM_DELLINK, 9, up | running, true),
            (RTM_DELLINK, 8, up, false),
            (20, 7, 0, false),
        ];
        let code = program(&BTreeSet::from([7, 9, 300]));
        for (kind, ifindex, flags, wanted) in cases {
            let bytes = announcement(kind, ifindex, flags);
            assert_eq!(takes(&code, &bytes), wanted, "{kind} {ifindex} {flags:#x}");
            assert_eq!(failed(&bytes).is_some_and(|ifindex| ifindex != 8), wanted, "{kind} {ifindex} {flags:#x}");
        }
        assert!(takes(&code, &announcement(RTM_NEWLINK, 300, up)));
        assert!(!takes(&program(&BTreeSet::new()), &announcement(RTM_NEWLINK, 7, up)));
        let many = program(&(1..200).collect());
        assert!(
            takes(&many, &announcement(RTM_NEWLINK, 7, 0)) && !takes(&many, &announcement(RTM_NEWLINK, 7, running))
        );
        for end in 0..32 {
            assert_eq!(failed(&announcement(RTM_NEWLINK, 7, 0)[..end]).is_some(), end >= 28);
        }
    }
}
