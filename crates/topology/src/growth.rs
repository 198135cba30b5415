//! Growing the trees of a fabric: link-disjoint, and each reaching every leaf.

use crate::graph::Topology;
use crate::ids::{LinkId, NodeId};
use crate::tree::{Tree, Up, MAX_TREES, NONE, OUTSIDE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Topology {
    /// Spanning trees that avoid the `failed` links, each reaching every leaf, over which traffic can be spread.
    ///
    /// In a tiered fabric, one tree grows downwards from each top-tier switch, again and again until its links are
    /// used up; no link at a root is in two trees, and below that the least used links are taken. The first round
    /// over all roots comes before the second, so neighbouring indices have different roots. A Clos of v spines and g
    /// parallel links thus gives v*g disjoint trees which cover each link once. A fat-tree gives one per core, k^2/4:
    /// disjoint between aggregation and core, but each edge-aggregation link is in k/2 of them, because that many cores
    /// lie behind it.
    ///
    /// Where no such tree exists (a mesh, a line, a ring, a Clos in which every spine has lost a leaf), disjoint trees of any
    /// shape are peeled off greedily. That is not always the largest number of them, nor need it cover every link;
    /// [`Topology::coverage`] tells. One switch alone has one tree without links.
    ///
    /// At most [`MAX_TREES`]. Failures renumber: for trees whose identity must survive, see [`Topology::base_trees`].
    pub fn trees(&self, failed: &[LinkId]) -> Vec<Tree> {
        let mut growth = Growth {
            fabric: self,
            up: self.links_up(failed),
            used: vec![0; self.links.len()],
            ways: vec![OUTSIDE; self.n_switches()],
            found: Vec::new(),
        };
        let top = self.switches().filter_map(|s| self.tier(s)).max().unwrap_or(0);
        let mut trees = Vec::new();
        if top > 0 {
            let mut roots: Vec<NodeId> = self.switches().filter(|&s| self.tier(s) == Some(top)).collect();
            while !roots.is_empty() && trees.len() < MAX_TREES {
                roots.retain(|&root| {
                    let tree = growth.descend(root);
                    let grew = tree.is_some();
                    trees.extend(tree);
                    grew
                });
            }
            trees.truncate(MAX_TREES);
        }
        if trees.is_empty() {
            while let Some(tree) = growth.peel() {
                let trivial = tree.links.is_empty();
                trees.push(tree);
                if trivial || trees.len() == MAX_TREES {
                    break;
                }
            }
        }
        trees
    }

    /// The trees of the intact fabric, built on first use. A tree's index here is its identity: labels, schedules and
    /// failover refer to it, whatever fails later.
    pub fn base_trees(&self) -> &[Tree] {
        self.trees.get_or_init(|| self.trees(&[]))
    }

    /// In how many of `trees` each link between switches is: the smallest and the largest number. (1, 1) means
    /// disjoint trees that leave nothing out. (0, 0) without such links.
    pub fn coverage(&self, trees: &[Tree]) -> (usize, usize) {
        let counts = self.trees_per_link(trees);
        let fabric = &counts[self.n_hosts()..];
        (fabric.iter().min().copied().unwrap_or(0), fabric.iter().max().copied().unwrap_or(0))
    }

    /// For each link, how many of `trees` it is in; 0 for access links.
    pub fn trees_per_link(&self, trees: &[Tree]) -> Vec<usize> {
        let mut counts = vec![0; self.links.len()];
        for &link in trees.iter().flat_map(|t| &t.links) {
            counts[link as usize] += 1;
        }
        counts
    }
}

struct Growth<'a> {
    fabric: &'a Topology,
    /// By link: does it work?
    up: Vec<bool>,
    /// By link: how many trees have it.
    used: Vec<u32>,
    /// Of the tree that is growing, by switch: the way to its root. Between trees, nothing but [`OUTSIDE`].
    ways: Vec<Up>,
    /// The switches that have one, and perhaps again.
    found: Vec<NodeId>,
}

impl Growth<'_> {
    fn index(&self, switch: NodeId) -> usize {
        switch as usize - self.fabric.n_hosts()
    }

    /// Gives a switch its way to the root, or a better one.
    fn lead(&mut self, switch: NodeId, way: Up) {
        let index = self.index(switch);
        self.ways[index] = way;
        self.found.push(switch);
    }

    /// Does the link work, and lead to a switch?
    fn is_open(&self, link: LinkId, next: NodeId) -> bool {
        !self.fabric.is_host(next) && self.up[link as usize]
    }

    fn switch_ports(&self, switch: NodeId) -> impl Iterator<Item = (LinkId, NodeId)> + '_ {
        self.fabric.neighbours(switch).iter().copied().filter(|&(link, next)| self.is_open(link, next))
    }

    /// A tree from `root` that only goes down tiers, over links that no tree has at the root and the least used ones
    /// elsewhere.
    fn descend(&mut self, root: NodeId) -> Option<Tree> {
        let fabric = self.fabric;
        self.lead(root, Up { parent: root, link: NONE });
        // By tier, so that a switch has weighed all its parents before it becomes one.
        let top = fabric.tier(root)?;
        let mut waiting: Vec<Vec<NodeId>> = vec![Vec::new(); usize::from(top) + 1];
        waiting[usize::from(top)].push(root);
        for tier in (1..=top).rev() {
            let mut parents = std::mem::take(&mut waiting[usize::from(tier)]);
            parents.sort_unstable();
            for parent in parents {
                for &(link, next) in fabric.neighbours(parent) {
                    if !self.is_open(link, next) {
                        continue;
                    }
                    let Some(lower) = fabric.tier(next).filter(|&t| t < tier) else { continue };
                    let used = self.used[link as usize];
                    if parent == root && used > 0 {
                        continue;
                    }
                    let way = self.ways[self.index(next)];
                    if way.parent == NONE {
                        waiting[usize::from(lower)].push(next);
                    } else if (self.used[way.link as usize], way.link) <= (used, link) {
                        continue;
                    }
                    self.lead(next, Up { parent, link });
                }
            }
        }
        self.finish(root)
    }

    /// A tree of any shape over links that are in no tree yet. It grows where the sum of depth and twice the degree is
    /// least: short paths, yet no switch spends all its links on one tree.
    fn peel(&mut self) -> Option<Tree> {
        let fabric = self.fabric;
        let root = fabric.leaves().iter().copied().max_by_key(|&l| (self.free_ports(l).count(), Reverse(l)))?;
        let mut cost = vec![0u32; fabric.n_switches()];
        let mut depth = vec![0u32; fabric.n_switches()];
        self.lead(root, Up { parent: root, link: NONE });
        let mut offers: BinaryHeap<_> = self.free_ports(root).map(|(l, next)| Reverse((0, l, root, next))).collect();
        while let Some(Reverse((offered, link, parent, next))) = offers.pop() {
            let (p, n) = (self.index(parent), self.index(next));
            if self.ways[n].parent != NONE {
                continue;
            }
            if cost[p] != offered {
                // The parent has got children since.
                offers.push(Reverse((cost[p], link, parent, next)));
                continue;
            }
            self.lead(next, Up { parent, link });
            cost[p] += 2;
            depth[n] = depth[p] + 1;
            cost[n] = depth[n] + 2;
            offers.extend(self.free_ports(next).map(|(l, after)| Reverse((cost[n], l, next, after))));
        }
        self.finish(root)
    }

    fn free_ports(&self, switch: NodeId) -> impl Iterator<Item = (LinkId, NodeId)> + '_ {
        self.switch_ports(switch).filter(|&(link, _)| self.used[link as usize] == 0)
    }

    /// Cuts the branches that carry no leaf and books the links; `None` if a leaf is not reached.
    fn finish(&mut self, root: NodeId) -> Option<Tree> {
        let members = self.reaching(root);
        for switch in std::mem::take(&mut self.found) {
            let index = self.index(switch);
            self.ways[index] = OUTSIDE;
        }
        let members = members?;
        let mut links: Vec<LinkId> = members.iter().map(|(_, way)| way.link).collect();
        links.sort_unstable();
        for &link in &links {
            self.used[link as usize] += 1;
        }
        Some(Tree::new(root, links, &members))
    }

    /// The switches on the way from a leaf to the root, which takes their ways away; `None` if a leaf is not reached.
    fn reaching(&mut self, root: NodeId) -> Option<Vec<(NodeId, Up)>> {
        let top = Up { parent: root, link: NONE };
        let mut members = Vec::new();
        for &leaf in self.fabric.leaves() {
            let mut at = leaf;
            loop {
                let index = self.index(at);
                // What was met before leads to the root.
                let way = self.ways[index];
                if way.parent == NONE {
                    return None;
                }
                if way == top {
                    break;
                }
                self.ways[index] = top;
                members.push((at, way));
                at = way.parent;
            }
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use crate::Clos;
    use units::{BitRate, Time};

    #[test]
    fn trees_of_a_fabric_with_many_spines_take_no_more_than_their_leaves() {
        let (rate, delay) = (BitRate::from_gbps(10), Time::from_us(1));
        let fabric = Clos {
            leaves: 2,
            spines: 20_000,
            parallel_links: 1,
            hosts_per_leaf: 1,
            host_rate: rate,
            host_delay: delay,
            fabric_rate: rate,
            fabric_delay: delay,
        };
        let fabric = fabric.build().unwrap();
        let trees = fabric.trees(&[]);
        assert_eq!(trees.len(), 20_000);
        assert_eq!(trees.iter().map(|tree| tree.size()).max(), Some(2));
        let (one, other, last) = (fabric.leaf_of(0), fabric.leaf_of(1), &trees[19_999]);
        assert_eq!(last.path(one, other).unwrap().len(), 2);
        assert!(last.contains(last.root) && !last.contains(trees[0].root));
    }
}
