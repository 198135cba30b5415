//! Which addresses hosts and guests may have.

use agent_api::config::Prefix;
use config::Invalid;
use std::net::IpAddr;

/// Of a host.
pub(super) fn check_outer(key: &str, addr: IpAddr) -> Result<(), Invalid> {
    if is_of_its_link(addr) || is_mapped(addr) {
        return Err(Invalid::value(
            key,
            format!("{addr} cannot be reached from other hosts"),
            "give a routable address",
        ));
    }
    check_inner(key, addr)
}

/// Of a guest, or of a host.
pub(super) fn check_inner(key: &str, addr: IpAddr) -> Result<(), Invalid> {
    let broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast());
    if addr.is_unspecified() || addr.is_multicast() || broadcast {
        return Err(Invalid::value(
            key,
            format!("{addr} is not one station's"),
            "give an address such as \"10.0.0.1\"",
        ));
    }
    if is_of_its_link(addr) {
        let problem = format!("{addr} means another station on each link");
        return Err(Invalid::value(key, problem, "give an address such as \"10.0.0.1\""));
    }
    check_range(key, Prefix::host(addr))
}

/// Neither loopback nor IPv6 link-local addresses are carried.
fn is_of_its_link(addr: IpAddr) -> bool {
    addr.is_loopback() || matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn is_mapped(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The data path knows IPv4 addresses as ::ffff:a.b.c.d: an IPv6 range that has these would have all of IPv4.
pub(super) fn check_range(key: &str, range: Prefix) -> Result<(), Invalid> {
    if is_mapped(range.addr()) {
        let problem = format!("{} is an IPv4 address in IPv6's clothes", range.addr());
        return Err(Invalid::value(key, problem, "write it as IPv4"));
    }
    if range.contains(std::net::Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into()) {
        let remedy = "give ranges that are in use, such as \"2000::/3\" and \"fc00::/7\"";
        return Err(Invalid::value(key, format!("{range} has ::ffff:0:0/96, which stands for all of IPv4"), remedy));
    }
    Ok(())
}
