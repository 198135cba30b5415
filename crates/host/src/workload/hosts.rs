//! Hosts and their racks, as the workload sees them.

/// The hosts and the rack that each is in.
///
/// Racks are a property of the workload, not of the fabric: a comparison with one non-blocking switch must keep the
/// racks of the fabric it stands in for, or "a host in another rack" would mean different pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMap {
    rack: Vec<u32>,
    /// All hosts, those of one rack next to each other.
    grouped: Vec<u32>,
    /// Per host: where its rack begins and ends in `grouped`.
    span: Vec<(u32, u32)>,
}

impl HostMap {
    /// `racks[i]` is the rack of host i; numbers need not be dense. At most 2^32 - 1 hosts are kept.
    pub fn new(mut racks: Vec<u32>) -> HostMap {
        racks.truncate(u32::MAX as usize);
        let mut grouped: Vec<u32> = (0..racks.len() as u32).collect();
        grouped.sort_by_key(|&h| racks[h as usize]);
        let mut span = vec![(0, 0); racks.len()];
        let mut from = 0;
        for group in grouped.chunk_by(|&a, &b| racks[a as usize] == racks[b as usize]) {
            let to = from + group.len() as u32;
            for &h in group {
                span[h as usize] = (from, to);
            }
            from = to;
        }
        HostMap { rack: racks, grouped, span }
    }

    /// `hosts` hosts, the first `per_rack` in rack 0 and so on; one rack if `per_rack` is 0.
    pub fn uniform(hosts: u32, per_rack: u32) -> HostMap {
        HostMap::new((0..hosts).map(|h| h.checked_div(per_rack).unwrap_or(0)).collect())
    }

    pub fn hosts(&self) -> u32 {
        self.rack.len() as u32
    }

    /// The rack of a host that exists.
    pub(super) fn rack(&self, host: u32) -> u32 {
        self.rack[host as usize]
    }

    /// How many hosts are in the rack of `host`, itself included.
    pub(super) fn rack_size(&self, host: u32) -> u32 {
        let (from, to) = self.span[host as usize];
        to - from
    }

    /// How many hosts are outside the rack of `host`.
    pub(super) fn outside(&self, host: u32) -> u32 {
        self.hosts() - self.rack_size(host)
    }

    /// The `i`-th host outside the rack of `host`, for i below [`HostMap::outside`].
    pub(super) fn outsider(&self, host: u32, i: u32) -> u32 {
        let (from, to) = self.span[host as usize];
        self.grouped[if i < from { i } else { i + (to - from) } as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outsiders_are_all_hosts_of_other_racks_once() {
        let map = HostMap::new(vec![7, 1, 7, 3, 1, 7]);
        for h in 0..map.hosts() {
            let mut seen: Vec<u32> = (0..map.outside(h)).map(|i| map.outsider(h, i)).collect();
            seen.sort_unstable();
            let expected: Vec<u32> = (0..6).filter(|&o| map.rack(o) != map.rack(h)).collect();
            assert_eq!(seen, expected, "host {h}");
        }
        assert_eq!((map.rack_size(0), map.outside(0), map.outside(3)), (3, 3, 5));
    }

    #[test]
    fn uniform_racks() {
        let map = HostMap::uniform(6, 4);
        assert_eq!((0..6).map(|h| map.rack(h)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1]);
        assert_eq!(HostMap::uniform(3, 0).outside(1), 0);
        assert_eq!(HostMap::uniform(0, 4).hosts(), 0);
    }
}
