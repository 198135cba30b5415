//! Sockets with a chosen congestion control.

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::socket::{
    bind, connect, listen, recv, send, setsockopt, socket, sockopt, AddressFamily, Backlog, MsgFlags, SockFlag,
    SockType, SockaddrStorage,
};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

/// Sent again and again, and where received bytes would go if they were kept.
pub(super) const CHUNK: usize = 256 << 10;

/// As many open files as this process may have; where that fails connections do, which is told.
pub(super) fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn tcp(address: IpAddr, law: &str) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    // Before the handshake, in which a law may ask for ECN.
    setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(law))?;
    setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    Ok(socket)
}

/// Accepted connections use `law`, too. Any free port if `port` is 0.
pub(super) fn listener(address: IpAddr, law: &str, port: u16) -> io::Result<TcpListener> {
    let socket = tcp(address, law)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(address, port)))?;
    listen(&socket, Backlog::new(4096)?)?;
    Ok(TcpListener::from(socket))
}

/// What comes while its host's thread waits for the CPU waits here.
const DATAGRAMS_WAITING: usize = 4 << 20;

/// Any free port.
pub(super) fn datagrams(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_nonblocking(true)?;
    // Without the privilege fewer wait.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAMS_WAITING);
    Ok(socket)
}

/// The connection is being made, from that address if one is given; it is there when the socket becomes writable.
pub(super) fn connecting(from: Option<IpAddr>, to: SocketAddr, law: &str) -> io::Result<TcpStream> {
    let socket = tcp(to.ip(), law)?;
    if let Some(from) = from {
        // The port is chosen when it connects, or ports of connections that have just ended would run out.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    }
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Takes up to as many bytes as `scratch` has, without copying them; `None` if there are none, 0 at the end of the stream.
pub(super) fn discard(stream: &TcpStream, scratch: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(stream.as_raw_fd(), scratch, MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// As [`discard`], but keeps the bytes.
pub(super) fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(stream.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `None` if the socket takes nothing now.
pub(super) fn write(stream: &TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
    match send(stream.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes no more than some segments' worth ahead of what it sends.
pub(super) fn keep_little_unsent(stream: &TcpStream) {
    let bytes: libc::c_int = 128 << 10;
    // SAFETY: the kernel reads one integer, which outlives the call. That it may refuse is of no account.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            std::mem::size_of_val(&bytes) as libc::socklen_t,
        );
    }
}

/// Closes by a reset, without lingering data.
pub(super) fn abort(stream: TcpStream) {
    let _ = setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}

/// Of the kernel's `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    /// Smoothed RTT, microseconds.
    pub(super) rtt_us: u32,
    pub(super) retransmitted: u32,
    pub(super) timeouts: u32,
    pub(super) segments_in: u32,
    pub(super) out_of_order: u32,
}

/// Zero where the kernel is too old to tell: timeouts came with Linux 6.7.
pub(super) fn info(stream: &TcpStream) -> Info {
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, which has as many.
    unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(stream.as_raw_fd(), level, option, bytes.as_mut_ptr().cast(), &mut length);
    }
    parse(&bytes)
}

/// By offset (`linux/tcp.h`), as the structure in libc's bindings ends earlier.
fn parse(bytes: &[u8; 256]) -> Info {
    let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Info {
        rtt_us: u32_at(68),
        retransmitted: u32_at(100),
        segments_in: u32_at(152),
        out_of_order: u32_at(224),
        timeouts: u16::from_ne_bytes([bytes[240], bytes[241]]).into(),
    }
}

impl Info {
    /// What was counted since `before`; the RTT is the present one.
    pub(super) fn since(self, before: Info) -> Info {
        Info {
            rtt_us: self.rtt_us,
            retransmitted: self.retransmitted.wrapping_sub(before.retransmitted),
            timeouts: self.timeouts.wrapping_sub(before.timeouts),
            segments_in: self.segments_in.wrapping_sub(before.segments_in),
            out_of_order: self.out_of_order.wrapping_sub(before.out_of_order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_agree_with_the_bindings() {
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
    }

    #[test]
    fn counts_are_differences() {
        let before = Info { rtt_us: 5, retransmitted: 2, timeouts: 1, segments_in: 10, out_of_order: 3 };
        let now = Info { rtt_us: 9, retransmitted: 4, timeouts: 1, segments_in: 30, out_of_order: 3 };
        let since = Info { rtt_us: 9, retransmitted: 2, timeouts: 0, segments_in: 20, out_of_order: 0 };
        assert_eq!(now.since(before), since);
    }
}
