//! Addresses in the data path's form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address in the data path's form: IPv4 as `::ffff:a.b.c.d`, most significant word first.
pub fn words(addr: IpAddr) -> [u32; 4] {
    let v6: Ipv6Addr = match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let bits = u128::from(v6);
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

/// The inverse of [`words`].
pub fn address(words: [u32; 4]) -> IpAddr {
    let bits = words.iter().fold(0u128, |bits, word| bits << 32 | u128::from(*word));
    let v6 = Ipv6Addr::from(bits);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), |v4: Ipv4Addr| IpAddr::V4(v4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        for text in ["10.1.2.3", "2001:db8::1", "::"] {
            let addr: IpAddr = text.parse().unwrap();
            assert_eq!(address(words(addr)), addr);
        }
        assert_eq!(words("10.1.2.3".parse().unwrap()), crate::v4([10, 1, 2, 3]));
    }
}
