//! How large a fabric may be, and how slow, fast and long its links.

use units::{BitRate, Time};

/// The largest number of nodes, hosts and switches together.
pub const MAX_NODES: u64 = 1 << 20;
/// The largest number of links.
pub const MAX_LINKS: u64 = 1 << 22;
/// The largest number of switches times leaves, which is what a table of routes holds, at 4 bytes each.
pub const MAX_FORWARDING_ENTRIES: u64 = 1 << 26;

// With these, one 64 KB segment over the slowest and longest link takes under 600 s: no sum of a few overflows `Time`.
pub(crate) const MIN_RATE: BitRate = BitRate::from_bps(1_000);
pub(crate) const MAX_RATE: BitRate = BitRate::from_gbps(100_000);
pub(crate) const MAX_DELAY: Time = Time::from_secs(10);

pub(crate) fn rate_is_sane(rate: BitRate) -> bool {
    (MIN_RATE..=MAX_RATE).contains(&rate)
}
