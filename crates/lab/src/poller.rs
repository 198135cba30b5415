//! Waiting for frames, for commands, and for a moment in time, whichever comes first.

use nix::errno::Errno;
use nix::libc::{self, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use units::Time;

/// An epoll instance whose waits end at times known to the nanosecond.
#[derive(Debug)]
pub(crate) struct Poller {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub(crate) fn new(most: usize) -> io::Result<Poller> {
        // SAFETY: takes numbers only.
        let fd = Errno::result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poller { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; most.max(1)] })
    }

    fn control(&self, operation: c_int, fd: BorrowedFd<'_>, events: c_int, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open, and the kernel reads one event.
        Errno::result(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Reports `token` whenever `fd` can be read.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, token)
    }

    /// Whether it is to be reported.
    pub(crate) fn set(&self, fd: BorrowedFd<'_>, token: u64, on: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, if on { libc::EPOLLIN } else { 0 }, token)
    }

    /// Waits at most `wait` and appends the tokens of what can be read. A wait of zero does not sleep.
    pub(crate) fn wait(&mut self, wait: Time, tokens: &mut Vec<u64>) -> io::Result<()> {
        let ns = wait.as_ns();
        let timeout = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the kernel writes at most as many events as there is room for, and reads the timeout; there is no
        // signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        match Errno::result(n) {
            Ok(n) => tokens.extend(self.events[..n as usize].iter().map(|event| event.u64)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
