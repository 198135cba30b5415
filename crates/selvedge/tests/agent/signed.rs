//! Guests whose TCP signs its headers (RFC 2385), as BGP does: whoever changes the window, a number or a flag ends the connection.

use super::world::{eventually, World, LEARNING, NAMED};
use nix::libc;
use nix::sys::socket::{bind, connect, listen, socket, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

const TCP_MD5SIG: libc::c_int = 14;

/// `struct tcp_md5sig` of linux/tcp.h.
#[repr(C)]
struct Signature {
    address: libc::sockaddr_storage,
    flags: u8,
    prefix_len: u8,
    key_len: u16,
    interface: libc::c_int,
    key: [u8; 80],
}

/// A socket whose connections with `peer` are signed. An error where the kernel has no such signatures.
fn signing(peer: SockaddrIn) -> std::io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all zeros are an address and a key.
    let mut signature: Signature = unsafe { std::mem::zeroed() };
    // SAFETY: the storage has room for every address and is aligned for it.
    unsafe { (&raw mut signature.address).cast::<libc::sockaddr_in>().write(*peer.as_ref()) };
    signature.key_len = 3;
    signature.key[..3].copy_from_slice(b"key");
    let (value, len) = ((&raw const signature).cast(), size_of::<Signature>() as libc::socklen_t);
    // SAFETY: `value` points to `len` bytes that live until the call returns.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_MD5SIG, value, len) } {
        0 => Ok(socket),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Of the role "signed-server", whose client is guest 0, or "signed-client".
pub(crate) fn stream(server: bool, address: &str) -> TcpStream {
    let address = SockaddrIn::from(address.parse::<SocketAddrV4>().unwrap());
    let socket = signing(if server { SockaddrIn::new(10, 7, 1, 2, 0) } else { address }).unwrap();
    if server {
        bind(socket.as_raw_fd(), &address).unwrap();
        listen(&socket, Backlog::new(1).unwrap()).unwrap();
        return TcpListener::from(socket).accept().unwrap().0;
    }
    // Until the server listens.
    eventually("the server answers", || connect(socket.as_raw_fd(), &address).is_ok());
    TcpStream::from(socket)
}

#[test]
fn connections_that_sign_their_headers_go_on() {
    let Some(mut world) = World::new("si") else { return };
    if let Err(why) = signing(SockaddrIn::new(10, 7, 2, 2, 0)) {
        eprintln!("skipped: this kernel has no signatures in TCP: {why}");
        return;
    }
    let tables = [
        "egress_rate = \"200Mbps\"",
        "egress_rate = \"200Mbps\"\n[limits]\nlaw = \"dem\"",
        "[congestion]\nlaw = \"newreno\"",
        "egress_rate = \"200Mbps\"\n[congestion]\n[fastlane]",
    ];
    for (n, table) in tables.into_iter().enumerate() {
        for (i, port) in [NAMED, LEARNING].into_iter().enumerate() {
            world.configure(i, &format!("{port}\n{table}"));
        }
        if n == 0 {
            world.start_both();
            eventually("guest 1 is learned", || {
                world.exec(&world.guest(1), "ping -c 1 -W 1 10.7.1.2").status.success() && world.ping("10.7.2.2", 1)
            });
        } else {
            (0..2).for_each(|i| assert!(world.ctl(i, &["reload"]).status.success(), "{}", world.log(i)));
        }
        world.exchange_as("signed", &format!("10.7.2.2:{}", 9000 + n), 3_000_000);
        // Others are held as ever.
        world.exchange(&format!("10.7.2.2:{}", 9100 + n), 3_000_000);
    }
}
