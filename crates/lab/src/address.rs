//! Addresses of a lab's hosts.

use std::net::{Ipv4Addr, Ipv6Addr};
use topology::HostId;

/// The address of a host: 10.0.0.1 onwards, as in the simulator.
pub fn address(host: HostId) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

/// The address of one of a host's guests, as in the simulator; guest 0 has the host's own.
pub fn guest_address(host: HostId, guest: u8) -> Ipv4Addr {
    Ipv4Addr::from(host::experiment::guest_address(host, guest)[3])
}

pub(super) fn address_text(words: &[u32; 4]) -> String {
    match *words {
        [0, 0, 0xffff, v4] => Ipv4Addr::from(v4).to_string(),
        [a, b, c, d] => {
            let bits = u128::from(a) << 96 | u128::from(b) << 64 | u128::from(c) << 32 | u128::from(d);
            Ipv6Addr::from(bits).to_string()
        }
    }
}
