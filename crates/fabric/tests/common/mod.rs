//! The fabric that tests send packets through.

use topology::{Clos, Topology};
use units::{BitRate, Time};

pub(crate) const RATE: BitRate = BitRate::from_gbps(10);
pub(crate) const DELAY: Time = Time::from_us(1);
/// Octets of a full packet of 1500 and its 38 of Ethernet.
pub(crate) const FULL: u32 = 1538;

#[allow(dead_code)] // Not every test needs a fabric of several switches.
pub(crate) fn clos(leaves: u32, spines: u32, parallel_links: u32, hosts_per_leaf: u32) -> Topology {
    Clos {
        leaves,
        spines,
        parallel_links,
        hosts_per_leaf,
        host_rate: RATE,
        host_delay: DELAY,
        fabric_rate: RATE,
        fabric_delay: DELAY,
    }
    .build()
    .unwrap()
}
