//! Shortest-path routes by hop count around failed links, stored once per set of equal next hops.

use crate::graph::Topology;
use crate::ids::{HostId, LinkId, NodeId};
use std::collections::BTreeMap;
use std::slice;

const NONE: u32 = u32::MAX;

/// Equal-cost next hops towards every leaf, over the paths with the fewest links.
///
/// Each (switch, leaf) holds the number of a set of links; equal sets are stored once, so a fat-tree of 27,648 hosts
/// takes 13 MB rather than hundreds.
#[derive(Clone, Debug)]
pub struct Routes {
    n_hosts: usize,
    n_leaves: usize,
    /// By switch: its column in `cells`, or `NONE` if it is no leaf.
    column: Vec<u32>,
    /// By switch and column: a set.
    cells: Vec<u32>,
    /// Set `s` is `set_links[set_start[s]..set_start[s + 1]]`; set 0 is empty.
    set_start: Vec<u32>,
    set_links: Vec<LinkId>,
    /// By host: its link (`NONE` while it is down) and its leaf.
    access: Vec<(LinkId, NodeId)>,
}

impl Routes {
    /// The links by which `node` sends packets for a host of `dst_leaf`, in ascending order: all that begin a
    /// shortest path. Empty if there is no path, if `node` is `dst_leaf`, or if an argument is invalid.
    ///
    /// A host's only next hop is its access link. The last hop, from `dst_leaf` to the host, is not a matter of
    /// routes: it is [`Topology::host_link`], whether up or down.
    pub fn next_hops(&self, node: NodeId, dst_leaf: NodeId) -> &[LinkId] {
        let node = node as usize;
        if let Some((link, leaf)) = self.access.get(node) {
            let leads_there = *leaf == dst_leaf || !self.next_hops(*leaf, dst_leaf).is_empty();
            return if *link != NONE && leads_there { slice::from_ref(link) } else { &[] };
        }
        let column = match (dst_leaf as usize).checked_sub(self.n_hosts).and_then(|s| self.column.get(s)) {
            Some(&column) if column != NONE => column as usize,
            _ => return &[],
        };
        match self.cells.get((node - self.n_hosts) * self.n_leaves + column) {
            Some(&set) => self.set(set),
            None => &[],
        }
    }

    fn set(&self, set: u32) -> &[LinkId] {
        let set = set as usize;
        &self.set_links[self.set_start[set] as usize..self.set_start[set + 1] as usize]
    }

    /// The links of a shortest path between two hosts, always the first of equals: what an idle round trip or an
    /// ideal completion time is reckoned from. Empty if `src` is `dst`; `None` if there is no way.
    pub fn first_path(&self, fabric: &Topology, src: HostId, dst: HostId) -> Option<Vec<LinkId>> {
        if src == dst {
            return Some(Vec::new());
        }
        let &(last_link, dst_leaf) = self.access.get(dst as usize).filter(|&&(link, _)| link != NONE)?;
        let mut path = Vec::new();
        let mut at = src;
        while at != dst_leaf {
            let &link = self.next_hops(at, dst_leaf).first()?;
            path.push(link);
            at = fabric.other_end(link, at);
        }
        path.push(last_link);
        Some(path)
    }
}

impl Topology {
    /// Routes by hop count that avoid the `failed` links; hosts do not forward. Order and repetition in `failed` do
    /// not matter, and numbers that are no link are ignored.
    pub fn routes(&self, failed: &[LinkId]) -> Routes {
        let up = self.links_up(failed);
        let (n_hosts, n_switches, n_leaves) = (self.n_hosts(), self.n_switches(), self.leaves().len());
        let mut column = vec![NONE; n_switches];
        for (c, &leaf) in self.leaves().iter().enumerate() {
            column[leaf as usize - n_hosts] = c as u32;
        }
        let mut routes = Routes {
            n_hosts,
            n_leaves,
            column,
            cells: vec![0; n_switches * n_leaves],
            set_start: vec![0, 0],
            set_links: Vec::new(),
            access: self.hosts().map(|h| (if up[h as usize] { h } else { NONE }, self.leaf_of(h))).collect(),
        };

        let mut known: BTreeMap<Vec<LinkId>, u32> = BTreeMap::new();
        let mut last = vec![0; n_switches];
        let mut distance = vec![NONE; n_switches];
        let mut queue: Vec<NodeId> = Vec::with_capacity(n_switches);
        let mut hops: Vec<LinkId> = Vec::new();
        for (column, &leaf) in self.leaves().iter().enumerate() {
            distance.fill(NONE);
            distance[leaf as usize - n_hosts] = 0;
            queue.clear();
            queue.push(leaf);
            let mut head = 0;
            while let Some(&at) = queue.get(head) {
                head += 1;
                let here = distance[at as usize - n_hosts];
                hops.clear();
                for &(link, next) in self.neighbours(at) {
                    if self.is_host(next) || !up[link as usize] {
                        continue;
                    }
                    let there = &mut distance[next as usize - n_hosts];
                    if *there == NONE {
                        *there = here + 1;
                        queue.push(next);
                    } else if *there + 1 == here {
                        // Everything one hop nearer was settled before `at` left the queue.
                        hops.push(link);
                    }
                }
                if hops.is_empty() {
                    continue;
                }
                let switch = at as usize - n_hosts;
                // Leaves next to each other mostly share their next hops, which saves the search.
                if routes.set(last[switch]) != hops {
                    last[switch] = match known.get(&hops[..]) {
                        Some(&set) => set,
                        None => {
                            let set = known.len() as u32 + 1;
                            routes.set_links.extend_from_slice(&hops);
                            routes.set_start.push(routes.set_links.len() as u32);
                            known.insert(hops.clone(), set);
                            set
                        }
                    };
                }
                routes.cells[switch * n_leaves + column] = last[switch];
            }
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clos, Dumbbell, FatTree, ParkingLot, SingleSwitch, Topology};
    use units::{BitRate, Time};

    const G10: BitRate = BitRate::from_gbps(10);
    const US: Time = Time::from_us(1);

    fn clos(leaves: u32, spines: u32, parallel_links: u32, hosts_per_leaf: u32) -> Topology {
        let (host_rate, fabric_rate, host_delay, fabric_delay) = (G10, G10, US, US);
        Clos { leaves, spines, parallel_links, hosts_per_leaf, host_rate, host_delay, fabric_rate, fabric_delay }
            .build()
            .unwrap()
    }

    #[test]
    fn a_leaf_spreads_over_all_spines_and_parallel_links() {
        let fabric = clos(3, 2, 2, 1);
        let routes = fabric.routes(&[]);
        let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(1));
        let names: Vec<String> = routes.next_hops(l1, l2).iter().map(|&l| fabric.link_name(l)).collect();
        assert_eq!(names, ["leaf1-spine1", "leaf1-spine1#2", "leaf1-spine2", "leaf1-spine2#2"]);
        let spine1 = fabric.node_named("spine1").unwrap();
        let down: Vec<String> = routes.next_hops(spine1, l2).iter().map(|&l| fabric.link_name(l)).collect();
        assert_eq!(down, ["leaf2-spine1", "leaf2-spine1#2"]);
        assert_eq!(routes.next_hops(0, l2), [0], "a host has its access link");
        assert!(routes.next_hops(l1, l1).is_empty());
        assert!(routes.next_hops(l1, spine1).is_empty(), "a spine is no destination");
        assert!(routes.next_hops(l1, 999).is_empty() && routes.next_hops(999, l1).is_empty());
    }

    #[test]
    fn a_failure_removes_the_spine_only_for_the_leaf_it_cut_off() {
        let fabric = clos(3, 3, 1, 1);
        let dead = fabric.link_named("leaf1-spine1").unwrap();
        let routes = fabric.routes(&[dead]);
        let leaf = |n| fabric.leaf_of(n);
        assert_eq!(routes.next_hops(leaf(0), leaf(1)).len(), 2);
        assert_eq!(routes.next_hops(leaf(1), leaf(0)).len(), 2);
        assert_eq!(routes.next_hops(leaf(1), leaf(2)).len(), 3);
    }

    #[test]
    fn an_isolated_leaf_and_a_cut_host_have_no_next_hops() {
        let fabric = clos(2, 2, 1, 2);
        let dead: Vec<_> = ["leaf1-spine1", "leaf1-spine2"].iter().map(|n| fabric.link_named(n).unwrap()).collect();
        let routes = fabric.routes(&dead);
        let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(2));
        assert!(routes.next_hops(l1, l2).is_empty());
        assert!(routes.next_hops(0, l2).is_empty());
        assert_eq!(routes.next_hops(0, l1), [0]);
        assert_eq!(routes.first_path(&fabric, 0, 2), None);

        let routes = fabric.routes(&[fabric.host_link(2)]);
        assert!(routes.next_hops(2, l1).is_empty());
        assert_eq!(routes.first_path(&fabric, 0, 2), None);
        assert_eq!(routes.first_path(&fabric, 2, 2), Some(vec![]));
    }

    #[test]
    fn paths_have_the_expected_length() {
        let fabric =
            FatTree { k: 4, hosts_per_edge: 2, host_rate: G10, host_delay: US, fabric_rate: G10, fabric_delay: US }
                .build()
                .unwrap();
        let routes = fabric.routes(&[]);
        let links = |dst| routes.first_path(&fabric, 0, dst).unwrap().len();
        assert_eq!((links(1), links(2), links(4), links(15)), (2, 4, 6, 6));

        let lot = ParkingLot { hops: 3, host_rate: G10, host_delay: US, hop_rate: G10, hop_delay: US }.build().unwrap();
        let routes = lot.routes(&[]);
        assert_eq!(routes.first_path(&lot, 0, 1).unwrap().len(), 5, "all three hops");
        for hop in 1..=3 {
            let path = routes.first_path(&lot, 2 * hop, 2 * hop + 1).unwrap();
            let name = lot.link_name(path[1]);
            assert_eq!((path.len(), name), (3, format!("switch{hop}-switch{}", hop + 1)));
        }

        let single = SingleSwitch { hosts: 3, host_rate: G10, host_delay: US }.build().unwrap();
        assert_eq!(single.routes(&[]).first_path(&single, 2, 0), Some(vec![2, 0]));

        let (bottleneck_rate, bottleneck_delay) = (G10, US);
        let bell = Dumbbell { pairs: 2, host_rate: G10, host_delay: US, bottleneck_rate, bottleneck_delay };
        let bell = bell.build().unwrap();
        let bottleneck = bell.link_named("left-right").unwrap();
        assert_eq!(bell.routes(&[]).first_path(&bell, 0, 2), Some(vec![0, bottleneck, 2]));
    }
}
