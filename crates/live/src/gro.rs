//! A VXLAN device that is there for its effect only: it makes the kernel merge encapsulated packets before our program
//! takes them off.
//!
//! The kernel merges inner TCP segments (GRO) only behind a UDP port on which a tunnel has registered. Any VXLAN device
//! on the port does. Ours has a network number that no guest may use. Strangers may use it all the same, and what they
//! send would come up the host's stack as from an interface of its own: [`crate::kernel::Role::Nothing`] must be on the
//! device before it is up.

use nix::sys::socket::{self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::AsRawFd;

/// Reserved: guests' networks are smaller.
pub const VNI: u32 = 0xff_ffff;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const NLA_F_NESTED: u16 = 0x8000;

/// Makes the device for UDP port `port` of outer IPv4 or IPv6. It takes effect once it is [`up`]. Fine if it exists.
///
/// # Errors
/// What the kernel answers: EPERM without CAP_NET_ADMIN, EOPNOTSUPP without VXLAN, EEXIST if a device of another kind
/// has the name or another VXLAN device the same number and port.
pub fn add(name: &str, port: u16, ipv6: bool) -> io::Result<()> {
    let mut data = attribute(IFLA_VXLAN_ID, &VNI.to_ne_bytes());
    data.extend(attribute(IFLA_VXLAN_PORT, &port.to_be_bytes()));
    data.extend(attribute(IFLA_VXLAN_LEARNING, &[0]));
    if ipv6 {
        data.extend(attribute(IFLA_VXLAN_LOCAL6, &std::net::Ipv6Addr::LOCALHOST.octets()));
    }
    let mut info = attribute(IFLA_INFO_KIND, b"vxlan");
    info.extend(attribute(IFLA_INFO_DATA | NLA_F_NESTED, &data));
    let mut body = link_header(0);
    body.extend(attribute(IFLA_IFNAME, &terminated(name)));
    body.extend(attribute(IFLA_LINKINFO | NLA_F_NESTED, &info));
    match request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body) {
        Err(e) if e.raw_os_error() == Some(nix::libc::EEXIST) && crate::kernel::ifindex(name).is_ok() => Ok(()),
        result => result,
    }
}

/// Sets the device up.
///
/// # Errors
/// What the kernel answers: ENODEV if there is none; EADDRINUSE if the UDP port is a program's.
pub fn up(name: &str) -> io::Result<()> {
    let mut body = link_header(IFF_UP);
    body.extend(attribute(IFLA_IFNAME, &terminated(name)));
    request(RTM_NEWLINK, 0, &body)
}

/// Removes the device. Fine if there is none.
///
/// # Errors
/// What the kernel answers.
pub fn remove(name: &str) -> io::Result<()> {
    let mut body = link_header(0);
    body.extend(attribute(IFLA_IFNAME, &terminated(name)));
    match request(RTM_DELLINK, 0, &body) {
        Err(e) if e.raw_os_error() == Some(nix::libc::ENODEV) => Ok(()),
        result => result,
    }
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// struct ifinfomsg: any family and type, these flags set and no others touched.
fn link_header(set: u32) -> Vec<u8> {
    let mut header = vec![0u8; 8];
    header.extend(set.to_ne_bytes());
    header.extend(set.to_ne_bytes());
    header
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len().next_multiple_of(4));
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends one request and reads its acknowledgement.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    message.extend(1u32.to_ne_bytes()); // sequence number
    message.extend(0u32.to_ne_bytes()); // the kernel fills in who asks
    message.extend(body);
    let fd = socket::socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    socket::sendto(fd.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0u8; 4096];
    let n = socket::recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let answer = &answer[..n];
    let kind = answer.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(16..20).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}
