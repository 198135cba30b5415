//! How large a limited container's segments are. A rate limit lets a whole segment go and holds all others until the rate has paid for
//! it: of 64 KB at 20 Mb/s that is 26 ms.

use nix::sys::socket::{recv, sendto, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::AsRawFd;

/// Shorter ones cost CPU, and gain little: some full packets.
const LEAST: u64 = 8 << 10;
/// What interfaces have unless told otherwise.
const MOST: u64 = 64 << 10;

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLMSG_ERROR: u16 = 2;
/// For up to 64 KiB it sets that of IPv4 (`IFLA_GSO_IPV4_MAX_SIZE`), too.
const IFLA_GSO_MAX_SIZE: u16 = 41;

/// The largest segment that a rate carries in so many milliseconds, within bounds.
pub(super) fn bytes(bps: u64, ms: u64) -> u32 {
    (bps.saturating_mul(ms) / 8_000).clamp(LEAST, MOST) as u32
}

/// Tells the kernel that an interface of the calling thread's namespace takes no larger segments (gso_max_size). TCP sends no larger
/// ones from then on; for what is forwarded to it the kernel splits them.
///
/// # Errors
/// What the kernel answers.
pub(super) fn shorten(ifindex: u32, bytes: u32) -> io::Result<()> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    sendto(fd.as_raw_fd(), &message(ifindex, bytes), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0u8; 1024];
    let len = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match (len >= 20, u16::from_ne_bytes([answer[4], answer[5]])) {
        (true, NLMSG_ERROR) => match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        },
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// struct nlmsghdr, struct ifinfomsg, one attribute.
fn message(ifindex: u32, bytes: u32) -> Vec<u8> {
    const LEN: u32 = 16 + 16 + 8;
    let header = [LEN.to_ne_bytes(), pair(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK), 1u32.to_ne_bytes(), [0; 4]];
    let link = [[0; 4], ifindex.to_ne_bytes(), [0; 4], [0; 4]];
    let size = [pair(8, IFLA_GSO_MAX_SIZE), bytes.to_ne_bytes()];
    [header.concat(), link.concat(), size.concat()].concat()
}

fn pair(first: u16, second: u16) -> [u8; 4] {
    let [a, b] = first.to_ne_bytes();
    let [c, d] = second.to_ne_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_the_rate_within_bounds() {
        for (mbps, ms, size) in [(20, 2, 8192), (100, 2, 25_000), (300, 2, 65_536), (1, 1, 8192), (20, 10, 25_000)] {
            assert_eq!(bytes(mbps * 1_000_000, ms), size, "{mbps} Mb/s, {ms} ms");
        }
        assert_eq!((bytes(0, 0), bytes(u64::MAX, 100)), (8192, 65_536));
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        assert_eq!(message(7, 8192).len(), 40);
        assert!(shorten(u32::MAX >> 1, 8192).is_err());
    }
}
