//! Weights of equal next hops: the capacity behind each (WCMP, Zhou et al., EuroSys 2014).

use std::collections::BTreeMap;
use topology::{schedule, NodeId, Routes, Topology};

/// Indices of the next hops from `node` towards `leaf`, each repeated by its share of what shortest paths can carry; every one
/// once if there is nothing to tell them apart.
pub(crate) fn shares(topology: &Topology, routes: &Routes, node: NodeId, leaf: NodeId) -> Vec<usize> {
    let mut known = Known { topology, routes, leaf, capacity: BTreeMap::from([(leaf, f64::INFINITY)]) };
    known.learn(node);
    let weights = known.by_link(node);
    schedule(&weights).unwrap_or_else(|_| (0..weights.len()).collect())
}

/// What switches can send towards one leaf, in bits per second, each link taken as this destination's alone.
struct Known<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    leaf: NodeId,
    capacity: BTreeMap<NodeId, f64>,
}

impl Known<'_> {
    /// Finds out about everything between `node` and the leaf. Without recursion: paths may be long.
    fn learn(&mut self, node: NodeId) {
        let mut stack = vec![node];
        while let Some(&at) = stack.last() {
            let hops = self.routes.next_hops(at, self.leaf).iter();
            let unknown = hops.map(|&l| self.topology.other_end(l, at)).find(|next| !self.capacity.contains_key(next));
            if let Some(next) = unknown {
                stack.push(next);
                continue;
            }
            let sum = if at == self.leaf { f64::INFINITY } else { self.by_link(at).iter().sum() };
            self.capacity.insert(at, sum);
            stack.pop();
        }
    }

    /// By next hop of `node`; parallel links share what lies behind them.
    fn by_link(&self, node: NodeId) -> Vec<f64> {
        let links = self.routes.next_hops(node, self.leaf);
        let rate = |link: u32| self.topology.links[link as usize].rate.as_bps() as f64;
        let mut to: BTreeMap<NodeId, f64> = BTreeMap::new();
        for &link in links {
            *to.entry(self.topology.other_end(link, node)).or_default() += rate(link);
        }
        let over = |&link: &u32| {
            let next = self.topology.other_end(link, node);
            rate(link) * (self.capacity.get(&next).copied().unwrap_or(0.0) / to[&next]).min(1.0)
        };
        links.iter().map(over).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Clos;
    use units::{BitRate, Time};

    #[test]
    fn a_next_hop_counts_by_what_lies_behind_it() {
        let (rate, delay) = (BitRate::from_gbps(10), Time::ZERO);
        let mut fabric = Clos {
            leaves: 2,
            spines: 2,
            parallel_links: 2,
            hosts_per_leaf: 1,
            host_rate: rate,
            host_delay: delay,
            fabric_rate: rate,
            fabric_delay: delay,
        }
        .build()
        .unwrap();
        let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(1));
        // Links in the order of spines, a spine's parallel ones together or not.
        let spine_of = |fabric: &Topology, slots: &[usize], routes: &Routes| -> [usize; 2] {
            let links = routes.next_hops(l1, l2);
            let to = |n: usize| fabric.nodes[fabric.other_end(links[n], l1) as usize].name.clone();
            let count = |name: &str| slots.iter().filter(|&&slot| to(slot) == name).count();
            [count("spine1"), count("spine2")]
        };
        let whole = fabric.routes(&[]);
        assert_eq!(spine_of(&fabric, &shares(&fabric, &whole, l1, l2), &whole), [2, 2]);
        // One of the two links behind the first spine is gone: its two uplinks carry 10 of 30 Gbps.
        let cut = fabric.routes(&[fabric.link_named("leaf2-spine1").unwrap()]);
        assert_eq!(spine_of(&fabric, &shares(&fabric, &cut, l1, l2), &cut), [2, 4]);
        // A narrower way up counts as well.
        for name in ["leaf1-spine2", "leaf1-spine2#2"] {
            let link = fabric.link_named(name).unwrap();
            fabric.links[link as usize].rate = BitRate::from_bps(2_500_000_000);
        }
        assert_eq!(spine_of(&fabric, &shares(&fabric, &whole, l1, l2), &whole), [8, 2]);
    }
}
