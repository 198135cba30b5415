//! A VXLAN device that is there for its effect only: it makes the kernel merge encapsulated packets before our program
//! takes them off.
//!
//! The kernel merges inner TCP segments (GRO) only behind a UDP port on which a tunnel has registered. Any VXLAN device
//! on the port does. Ours has a network number that no guest may use. Strangers may use it all the same, and what they
//! send would come up the host's stack as from an interface of its own. So [`crate::Role::Nothing`] must be on the device
//! before it is up.

use crate::netlink::{attribute, nested, request, terminated, NLM_F_CREATE, NLM_F_EXCL};
use agent_api::lacking::VXLAN;
use std::io;

/// Reserved: guests' networks are smaller.
pub const VNI: u32 = 0xff_ffff;

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const IFF_UP: u32 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
pub(crate) const IFLA_INFO_DATA: u16 = 2;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;

/// Makes the device for UDP port `port` of outer IPv4 or IPv6. It takes effect once it is [`up`]. Fine if it exists.
///
/// # Errors
/// What the kernel answers: EPERM without CAP_NET_ADMIN, EEXIST if a device of another kind has the name or another VXLAN device the same
/// number and port. [`io::ErrorKind::Unsupported`], which names the module, without VXLAN.
pub fn add(name: &str, port: u16, ipv6: bool) -> io::Result<()> {
    let mut data = vec![
        attribute(IFLA_VXLAN_ID, &VNI.to_ne_bytes()),
        attribute(IFLA_VXLAN_PORT, &port.to_be_bytes()),
        attribute(IFLA_VXLAN_LEARNING, &[0]),
    ];
    if ipv6 {
        data.push(attribute(IFLA_VXLAN_LOCAL6, &std::net::Ipv6Addr::LOCALHOST.octets()));
    }
    let mut body = link_header(0);
    body.extend(attribute(IFLA_IFNAME, &terminated(name)));
    body.extend(nested(IFLA_LINKINFO, &[attribute(IFLA_INFO_KIND, b"vxlan"), nested(IFLA_INFO_DATA, &data)]));
    match request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body) {
        Err(e) if e.raw_os_error() == Some(nix::libc::EEXIST) && crate::ifindex(name).is_ok() => Ok(()),
        Err(e) if e.raw_os_error() == Some(nix::libc::EOPNOTSUPP) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, VXLAN.missing))
        }
        result => result,
    }
}

/// Whether the kernel has VXLAN: a device is made in a namespace made for that. `None` if this process may not.
pub fn has_vxlan() -> Option<bool> {
    match crate::netlink::in_own_network(|| add("svprobe0", 4789, false))? {
        Ok(()) => Some(true),
        Err(e) if e.kind() == io::ErrorKind::Unsupported => Some(false),
        Err(_) => None,
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

/// struct ifinfomsg: any family and type, these flags set and no others touched.
pub(crate) fn link_header(set: u32) -> Vec<u8> {
    let mut header = vec![0u8; 8];
    header.extend(set.to_ne_bytes());
    header.extend(set.to_ne_bytes());
    header
}
