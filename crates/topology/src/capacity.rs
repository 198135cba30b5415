//! Capacities of a fabric: access links, bisection bandwidth, oversubscription.

use crate::graph::Topology;
use crate::ids::NodeId;
use std::collections::BTreeMap;
use units::BitRate;

impl Topology {
    /// What all hosts can send together: the sum of the access links' rates, one direction. The capacity that a load of
    /// 1 is named against in a fabric that is not oversubscribed.
    pub fn host_capacity(&self) -> BitRate {
        total(self.hosts().map(|h| self.links[h as usize].rate))
    }

    /// What the first half of the hosts can send to the second half (hosts in numerical order, the smaller half first):
    /// the maximum flow, one direction, limited by access links and fabric alike. For the builders, which number hosts
    /// leaf by leaf and pod by pod, that is the bisection bandwidth in the usual sense; for imported fabrics another
    /// split may be narrower. A parking lot's halves are not the ends of the line, so look at its `hop_rate` instead.
    pub fn bisection_rate(&self) -> BitRate {
        let half = (self.n_hosts() / 2) as u32;
        let (n_hosts, n) = (self.n_hosts(), self.n_switches());
        let (source, sink) = (n, n + 1);
        let mut network = Flow::new(n + 2);
        for &leaf in self.leaves() {
            let rate_of = |first: bool| {
                let hosts = self.hosts_of(leaf).filter(|&h| (h < half) == first);
                hosts.map(|h| u128::from(self.links[h as usize].rate.as_bps())).sum()
            };
            let leaf = leaf as usize - n_hosts;
            network.add(source, leaf, rate_of(true), 0);
            network.add(leaf, sink, rate_of(false), 0);
        }
        // Parallel links count as one.
        let mut trunks: BTreeMap<(NodeId, NodeId), u128> = BTreeMap::new();
        for link in &self.links[n_hosts..] {
            *trunks.entry((link.a, link.b)).or_default() += u128::from(link.rate.as_bps());
        }
        for ((a, b), rate) in trunks {
            network.add(a as usize - n_hosts, b as usize - n_hosts, rate, rate);
        }
        saturated(network.maximum(source, sink))
    }

    /// How many times more the hosts of a leaf can send than its links to other switches carry, at the worst leaf:
    /// 1 is balanced, 4 is "4:1 oversubscribed", below 1 the fabric is the wider. 0 for a single switch.
    pub fn oversubscription(&self) -> f64 {
        if self.n_switches() < 2 {
            return 0.0;
        }
        let ratio = |&leaf: &NodeId| {
            let rates = |to_host: bool| {
                let ports = self.neighbours(leaf).iter().filter(move |&&(_, node)| self.is_host(node) == to_host);
                total(ports.map(|&(link, _)| self.links[link as usize].rate)).as_bps() as f64
            };
            rates(true) / rates(false)
        };
        self.leaves().iter().map(ratio).fold(0.0, f64::max)
    }
}

fn total(rates: impl Iterator<Item = BitRate>) -> BitRate {
    saturated(rates.map(|rate| u128::from(rate.as_bps())).sum())
}

fn saturated(bps: u128) -> BitRate {
    BitRate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

/// Dinic's maximum flow.
struct Flow {
    /// Edge `e` and its reverse `e ^ 1`: head and residual capacity.
    edges: Vec<(usize, u128)>,
    out: Vec<Vec<usize>>,
}

impl Flow {
    fn new(nodes: usize) -> Flow {
        Flow { edges: Vec::new(), out: vec![Vec::new(); nodes] }
    }

    fn add(&mut self, a: usize, b: usize, forth: u128, back: u128) {
        self.out[a].push(self.edges.len());
        self.edges.push((b, forth));
        self.out[b].push(self.edges.len());
        self.edges.push((a, back));
    }

    fn maximum(&mut self, source: usize, sink: usize) -> u128 {
        let mut flow = 0;
        while let Some(level) = self.levels(source, sink) {
            let mut next = vec![0; self.out.len()];
            loop {
                let pushed = self.push(source, sink, &level, &mut next);
                if pushed == 0 {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    /// Distances from the source over edges with capacity left; `None` if the sink is out of reach.
    fn levels(&self, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut level = vec![usize::MAX; self.out.len()];
        level[source] = 0;
        let mut queue = vec![source];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for &edge in &self.out[at] {
                let (to, left) = self.edges[edge];
                if left > 0 && level[to] == usize::MAX {
                    level[to] = level[at] + 1;
                    queue.push(to);
                }
            }
        }
        (level[sink] != usize::MAX).then_some(level)
    }

    /// Saturates one path that descends the levels; 0 if there is none. Without recursion: paths may be long.
    fn push(&mut self, source: usize, sink: usize, level: &[usize], next: &mut [usize]) -> u128 {
        let mut path: Vec<usize> = Vec::new();
        let mut at = source;
        while at != sink {
            match self.out[at].get(next[at]) {
                Some(&edge) if self.edges[edge].1 > 0 && level[self.edges[edge].0] == level[at] + 1 => {
                    path.push(edge);
                    at = self.edges[edge].0;
                }
                Some(_) => next[at] += 1,
                None => {
                    // A dead end: step back and do not come here again.
                    let Some(edge) = path.pop() else { return 0 };
                    at = self.edges[edge ^ 1].0;
                    next[at] += 1;
                }
            }
        }
        let amount = path.iter().map(|&edge| self.edges[edge].1).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].1 -= amount;
            self.edges[edge ^ 1].1 += amount;
        }
        amount
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clos, Dumbbell, FatTree, ParkingLot, SingleSwitch};
    use units::{BitRate, Time};

    const fn gbps(n: u64) -> BitRate {
        BitRate::from_gbps(n)
    }

    #[test]
    fn capacities_by_hand() {
        let (host_rate, host_delay, fabric_delay) = (gbps(10), Time::ZERO, Time::ZERO);
        let clos = |fabric_rate, parallel_links| {
            let (leaves, spines, hosts_per_leaf) = (4, 2, 4);
            Clos { leaves, spines, parallel_links, hosts_per_leaf, host_rate, host_delay, fabric_rate, fabric_delay }
                .build()
                .unwrap()
        };
        // 4 hosts a leaf over 2 x 10: 2:1; half of the leaves' uplinks cross the middle.
        let narrow = clos(gbps(10), 1);
        assert_eq!((narrow.host_capacity(), narrow.bisection_rate()), (gbps(160), gbps(40)));
        assert_eq!(narrow.oversubscription(), 2.0);
        let wide = clos(gbps(40), 2);
        assert_eq!((wide.bisection_rate(), wide.oversubscription()), (gbps(80), 0.25), "hosts are the limit");

        let tree = FatTree { k: 4, hosts_per_edge: 2, host_rate, host_delay, fabric_rate: gbps(10), fabric_delay }
            .build()
            .unwrap();
        assert_eq!((tree.host_capacity(), tree.bisection_rate()), (gbps(160), gbps(80)));
        assert_eq!(tree.oversubscription(), 1.0);
        // Three times as many hosts, and the fabric between them is the same.
        let wide = FatTree { k: 4, hosts_per_edge: 6, host_rate, host_delay, fabric_rate: gbps(10), fabric_delay };
        let wide = wide.build().unwrap();
        assert_eq!((wide.host_capacity(), wide.bisection_rate()), (gbps(480), gbps(80)));
        assert_eq!(wide.oversubscription(), 3.0);

        let single = SingleSwitch { hosts: 5, host_rate, host_delay }.build().unwrap();
        assert_eq!((single.bisection_rate(), single.oversubscription()), (gbps(20), 0.0));

        let bottleneck_rate = gbps(25);
        let bell = Dumbbell { pairs: 5, host_rate, host_delay, bottleneck_rate, bottleneck_delay: Time::ZERO };
        let bell = bell.build().unwrap();
        assert_eq!((bell.bisection_rate(), bell.oversubscription()), (gbps(25), 2.0));
    }

    #[test]
    fn a_long_line_does_not_exhaust_the_stack() {
        let (rate, delay) = (gbps(10), Time::ZERO);
        let lot = ParkingLot { hops: 3000, host_rate: rate, host_delay: delay, hop_rate: rate, hop_delay: delay };
        let lot = lot.build().unwrap();
        // Only the link in the middle, and the pair that hangs across it.
        assert!(lot.bisection_rate() >= rate);
        assert_eq!(lot.base_trees().len(), 1);
        assert_eq!(lot.base_trees()[0].path(lot.leaf_of(0), lot.leaf_of(1)).unwrap().len(), 3000);
    }
}
