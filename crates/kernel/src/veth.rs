//! What got to the other end of a veth pair past this one.

use crate::netlink::{self, find, u32_at, u64_at};

const RTM_GETLINK: u16 = 18;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_TARGET_NETNSID: u16 = 46;
/// struct ifinfomsg.
const LINK: usize = 16;
/// Of struct rtnl_link_stats64, bytes.
const RX_BYTES: usize = 16;
const TX_BYTES: usize = 24;

/// Bytes that some network has put straight into the namespace of the other end of `ifindex` (`bpf_redirect_peer`): that end got them, and this one
/// did not send them. None if it is no veth pair whose other end is in another namespace that may be looked into. Kernels before 6.7 count none of
/// them, but for those that got the change later.
pub fn put_past(ifindex: u32) -> Option<u64> {
    let own = link(ifindex, None)?;
    let kind = own.get(LINK..).and_then(|own| find(find(own, IFLA_LINKINFO)?, IFLA_INFO_KIND))?;
    if kind.strip_suffix(&[0]).unwrap_or(kind) != b"veth" {
        return None;
    }
    let number = |kind| find(own.get(LINK..)?, kind).and_then(|value| u32_at(value, 0));
    let other = link(number(IFLA_LINK)?, Some(number(IFLA_LINK_NETNSID)?))?;
    let got = stat(&other, RX_BYTES)?;
    // Once more, and later: what was sent meanwhile is not to be taken for what got past.
    let sent = stat(&link(ifindex, None)?, TX_BYTES)?;
    Some(got.saturating_sub(sent))
}

fn link(ifindex: u32, namespace: Option<u32>) -> Option<Vec<u8>> {
    let mut asked = vec![0; LINK];
    asked[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    if let Some(namespace) = namespace {
        asked.extend(netlink::attribute(IFLA_TARGET_NETNSID, &namespace.to_ne_bytes()));
    }
    netlink::get(RTM_GETLINK, &asked).ok()
}

fn stat(link: &[u8], at: usize) -> Option<u64> {
    u64_at(find(link.get(LINK..)?, IFLA_STATS64)?, at)
}
