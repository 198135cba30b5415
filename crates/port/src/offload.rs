//! Switches of an interface's offloads (ethtool), without the program of that name.

use nix::libc;
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType};
use std::io;
use std::os::fd::AsRawFd;

/// From linux/ethtool.h: the commands that set one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Switch {
    /// Checksums of what is sent are left to the device. Without them it can neither cut nor gather.
    TxChecksum = 0x17,
    /// The device cuts TCP segments, over IPv4 and IPv6.
    Tso = 0x1f,
    /// Segments stay whole until the device.
    Gso = 0x24,
    /// Packets received are merged. On veth this also turns its polling (NAPI) on.
    Gro = 0x2c,
}

/// Turns an offload of an interface of this namespace on or off.
///
/// # Errors
/// ENODEV if there is no such interface, EPERM without CAP_NET_ADMIN, EOPNOTSUPP if the device lacks it.
pub fn set_offload(interface: &str, switch: Switch, on: bool) -> io::Result<()> {
    // struct ethtool_value.
    ask(interface, &mut [switch as u32, on.into()])
}

/// Has ethtool's command, which `words` begin with, read and write them.
pub(crate) fn ask(interface: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: the request names an interface, ends with a zero, and points to words of which a command uses only as many as its callers give.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, std::ptr::from_mut(&mut request)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
