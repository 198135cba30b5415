//! Who is where: guests of two networks, and the hosts' addresses.

use super::UDP_PORT;
use fuzz_drivers::Addresses;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A guest: network, the last number of its addresses, host (0: A, 1: B, 2: C, which is not there), MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Guest {
    pub(super) network: u32,
    pub(super) n: u8,
    pub(super) host: usize,
}

pub(super) const fn guest(network: u32, n: u8, host: usize) -> Guest {
    Guest { network, n, host }
}

/// The first is the attacker. Some addresses are in both networks, with others behind them.
pub(super) const GUESTS: [Guest; 9] = [
    guest(7, 1, 0),
    guest(7, 9, 0),
    guest(9, 11, 0),
    guest(9, 2, 0),
    guest(7, 2, 1),
    guest(9, 12, 1),
    guest(9, 1, 1),
    guest(7, 3, 2),
    guest(9, 13, 2),
];

impl Guest {
    pub(super) fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 7, 0, self.n)
    }

    pub(super) fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, self.n.into())
    }

    pub(super) fn mac(self) -> [u8; 6] {
        [2, 0, 0, self.network as u8, self.host as u8, self.n]
    }

    pub(super) fn has(self, addr: IpAddr) -> bool {
        addr == IpAddr::V4(self.v4()) || addr == IpAddr::V6(self.v6())
    }
}

pub(super) fn host4(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 99, i as u8 + 1)
}

pub(super) fn host6(i: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, i as u16 + 1)
}

pub(super) fn outer(i: usize, six: bool) -> IpAddr {
    if six {
        host6(i).into()
    } else {
        host4(i).into()
    }
}

pub(super) fn addresses() -> Addresses {
    let mut macs: Vec<[u8; 6]> = GUESTS.iter().map(|guest| guest.mac()).collect();
    macs.extend([[0xff; 6], [2, 0x5e, 0, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]]);
    Addresses {
        own_mac: GUESTS[0].mac(),
        macs,
        own4: GUESTS[0].v4(),
        own6: GUESTS[0].v6(),
        guests4: GUESTS.iter().map(|guest| guest.v4()).collect(),
        guests6: GUESTS.iter().map(|guest| guest.v6()).collect(),
        hosts4: (0..4).map(host4).collect(),
        hosts6: (0..4).map(host6).collect(),
        networks: vec![7, 9, 9, 8, 0xff_ffff],
        port: UDP_PORT,
    }
}
