//! A controller's reaction to failures, on the trees of the intact fabric ([`Topology::base_trees`]).
//!
//! Presto (section 3.3) has three stages: nothing has changed yet; hardware moves a dead port's traffic to a preset backup;
//! the controller takes the affected trees out of the schedules. Spines have no links to each other, so a spine cannot
//! forward packets whose link failed. The model therefore implements the second stage as relabelling at the leaves, at both
//! ends of a path, by [`Topology::failover`] or, per pair, [`Topology::failover_between`]. The third stage is
//! [`Topology::usable_trees`] and [`Topology::pair_weights`] per pair of leaves, or [`Topology::intact_trees`] for all.

use crate::graph::Topology;
use crate::ids::{LinkId, NodeId};
use crate::schedule::{schedule, ScheduleError};
use crate::tree::label_of;

/// The pairs of leaves that avoid a tree with a failed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prune {
    /// The pairs of leaves whose path the link was on.
    #[default]
    Pair,
    /// Every pair: loses capacity that is still there, but keeps all schedules alike.
    All,
}

impl Topology {
    /// The trees, by index, whose path between two leaves has no failed link. All of them for a leaf and itself.
    /// Both directions use the same links, so the order of the leaves does not matter.
    pub fn usable_trees(&self, src_leaf: NodeId, dst_leaf: NodeId, failed: &[LinkId]) -> Vec<usize> {
        let up = self.links_up(failed);
        (0..self.base_trees().len()).filter(|&tree| self.joins(tree, src_leaf, dst_leaf, &up)).collect()
    }

    /// The trees, by index, without any failed link: pruning for all pairs at once, coarser than
    /// [`Topology::usable_trees`].
    pub fn intact_trees(&self, failed: &[LinkId]) -> Vec<usize> {
        let up = self.links_up(failed);
        (0..self.base_trees().len()).filter(|&tree| self.is_intact(tree, &up)).collect()
    }

    /// The tree that takes over from `tree`: itself if it has no failed link, else the next one by index, wrapping,
    /// that has none. Neighbouring indices have different roots, so the preset backup of a spine is the next spine.
    /// `None` if every tree has lost a link, or if there is no such tree.
    pub fn failover(&self, tree: usize, failed: &[LinkId]) -> Option<usize> {
        let up = self.links_up(failed);
        self.next_that(tree, |candidate| self.is_intact(candidate, &up))
    }

    /// As [`Topology::failover`], but only what lies between two leaves counts: the other pairs stay where they are,
    /// and a pair finds a backup as long as any tree still joins it.
    pub fn failover_between(
        &self,
        tree: usize,
        src_leaf: NodeId,
        dst_leaf: NodeId,
        failed: &[LinkId],
    ) -> Option<usize> {
        let up = self.links_up(failed);
        self.next_that(tree, |candidate| self.joins(candidate, src_leaf, dst_leaf, &up))
    }

    /// Weights for [`crate::schedule`], one per tree: 0 for a tree that does not join the leaves any more, else what the
    /// path can carry, in bits per second: the least, over its links, of the link's rate divided by the number of the
    /// pair's usable trees that cross it. Equal in a symmetric fabric; a slower spine gets less.
    pub fn pair_weights(&self, src_leaf: NodeId, dst_leaf: NodeId, failed: &[LinkId]) -> Vec<f64> {
        let up = self.links_up(failed);
        let paths: Vec<Option<Vec<LinkId>>> = self
            .base_trees()
            .iter()
            .map(|tree| tree.path(src_leaf, dst_leaf).filter(|path| path.iter().all(|&l| up[l as usize])))
            .collect();
        let mut crossing = vec![0u32; self.links.len()];
        for &link in paths.iter().flatten().flatten() {
            crossing[link as usize] += 1;
        }
        let share = |link: LinkId| self.links[link as usize].rate.as_bps() as f64 / f64::from(crossing[link as usize]);
        let weight = |path: &Option<Vec<LinkId>>| match path {
            None => 0.0,
            // Within one leaf no tree is better than another.
            Some(path) if path.is_empty() => 1.0,
            Some(path) => path.iter().map(|&link| share(link)).fold(f64::INFINITY, f64::min),
        };
        paths.iter().map(weight).collect()
    }

    /// As [`Topology::pair_weights`], with 0 as well for trees that `prune` takes from everyone.
    pub fn pruned_weights(&self, src_leaf: NodeId, dst_leaf: NodeId, failed: &[LinkId], prune: Prune) -> Vec<f64> {
        let mut weights = self.pair_weights(src_leaf, dst_leaf, failed);
        if prune == Prune::All && src_leaf != dst_leaf {
            let up = self.links_up(failed);
            for (tree, weight) in weights.iter_mut().enumerate() {
                if !self.is_intact(tree, &up) {
                    *weight = 0.0;
                }
            }
        }
        weights
    }

    /// The labels that flowcells from one leaf to another take in turn.
    ///
    /// # Errors
    /// As [`schedule`]: no tree is left, or there are more than a schedule holds.
    pub fn labels_between(
        &self,
        src_leaf: NodeId,
        dst_leaf: NodeId,
        failed: &[LinkId],
        prune: Prune,
    ) -> Result<Vec<u16>, ScheduleError> {
        let slots = schedule(&self.pruned_weights(src_leaf, dst_leaf, failed, prune))?;
        Ok(slots.into_iter().map(label_of).collect())
    }

    fn next_that(&self, tree: usize, suits: impl Fn(usize) -> bool) -> Option<usize> {
        let n = self.base_trees().len();
        (tree < n).then(|| (tree..n).chain(0..tree).find(|&candidate| suits(candidate)))?
    }

    fn is_intact(&self, tree: usize, up: &[bool]) -> bool {
        self.base_trees()[tree].links.iter().all(|&link| up[link as usize])
    }

    fn joins(&self, tree: usize, src: NodeId, dst: NodeId, up: &[bool]) -> bool {
        self.base_trees()[tree].path(src, dst).is_some_and(|path| path.iter().all(|&link| up[link as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schedule, Clos, FatTree, ScheduleError};
    use units::{BitRate, Time};

    const G10: BitRate = BitRate::from_gbps(10);

    fn clos(leaves: u32, spines: u32, parallel_links: u32) -> Topology {
        let (host_rate, fabric_rate, host_delay, fabric_delay) = (G10, G10, Time::ZERO, Time::ZERO);
        let hosts_per_leaf = 1;
        Clos { leaves, spines, parallel_links, hosts_per_leaf, host_rate, host_delay, fabric_rate, fabric_delay }
            .build()
            .unwrap()
    }

    #[test]
    fn a_dead_link_costs_one_tree_and_only_its_leaf() {
        let fabric = clos(4, 4, 1);
        let dead = [fabric.link_named("spine1-leaf1").unwrap()];
        let leaf: Vec<NodeId> = (0..4).map(|h| fabric.leaf_of(h)).collect();
        for other in 1..4 {
            assert_eq!(fabric.usable_trees(leaf[0], leaf[other], &dead), [1, 2, 3]);
            assert_eq!(fabric.usable_trees(leaf[other], leaf[0], &dead), [1, 2, 3]);
        }
        assert_eq!(fabric.usable_trees(leaf[1], leaf[2], &dead), [0, 1, 2, 3]);
        assert_eq!(fabric.usable_trees(leaf[0], leaf[0], &dead), [0, 1, 2, 3]);
        assert_eq!(fabric.intact_trees(&dead), [1, 2, 3]);
        assert!(fabric.usable_trees(leaf[0], 0, &[]).is_empty(), "a host is no leaf");
    }

    #[test]
    fn one_of_two_parallel_links_costs_one_of_the_spines_trees() {
        let fabric = clos(3, 4, 2);
        let dead = [fabric.link_named("leaf1-spine1#2").unwrap()];
        let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(1));
        assert_eq!(fabric.usable_trees(l1, l2, &dead).len(), 7);
        assert_eq!(fabric.usable_trees(l2, fabric.leaf_of(2), &dead).len(), 8);
    }

    #[test]
    fn failover_goes_to_the_next_spine_and_wraps() {
        let fabric = clos(3, 4, 2);
        let link = |name| fabric.link_named(name).unwrap();
        let root = |tree: usize| fabric.nodes[fabric.base_trees()[tree].root as usize].name.as_str();
        assert_eq!((root(0), root(1), root(4)), ("spine1", "spine2", "spine1"));
        assert_eq!(fabric.failover(0, &[]), Some(0));
        assert_eq!(fabric.failover(0, &[link("leaf1-spine1")]), Some(1));
        assert_eq!(fabric.failover(0, &[link("leaf1-spine1"), link("leaf2-spine2")]), Some(2));
        assert_eq!(fabric.failover(7, &[link("leaf3-spine4#2")]), Some(0));
        assert_eq!(fabric.failover(8, &[]), None, "there is no ninth tree");
    }

    #[test]
    fn pairs_fail_over_where_no_tree_is_intact() {
        let fabric = clos(2, 2, 1);
        let dead = [fabric.link_named("leaf1-spine1").unwrap(), fabric.link_named("leaf2-spine2").unwrap()];
        let (l1, l2) = (fabric.leaf_of(0), fabric.leaf_of(1));
        assert_eq!(fabric.failover(0, &dead), None);
        assert_eq!(fabric.failover_between(0, l1, l2, &dead), None, "cut in two");
        assert_eq!(schedule(&fabric.pair_weights(l1, l2, &dead)), Err(ScheduleError::AllZero));

        let fabric = clos(3, 2, 1);
        let dead = [fabric.link_named("leaf1-spine1").unwrap(), fabric.link_named("leaf3-spine2").unwrap()];
        let (l1, l2, l3) = (fabric.leaf_of(0), fabric.leaf_of(1), fabric.leaf_of(2));
        assert_eq!(fabric.failover(0, &dead), None);
        assert_eq!(fabric.failover_between(0, l1, l2, &dead), Some(1));
        assert_eq!(fabric.failover_between(1, l2, l3, &dead), Some(0));
        assert_eq!(fabric.failover_between(0, l1, l3, &dead), None, "each tree misses one of them");
        // A tree that climbs back up still joins all three.
        let detour = fabric.trees(&dead);
        assert_eq!(detour.len(), 1);
        assert_eq!(detour[0].path(l1, l3).unwrap().len(), 4);
    }

    #[test]
    fn a_cores_share_of_a_dead_pod_link_is_pruned_per_pair() {
        let fabric = FatTree {
            k: 4,
            hosts_per_edge: 2,
            host_rate: G10,
            host_delay: Time::ZERO,
            fabric_rate: G10,
            fabric_delay: Time::ZERO,
        }
        .build()
        .unwrap();
        let dead = [fabric.link_named("edge1.1-agg1.1").unwrap()];
        let edge = |name| fabric.node_named(name).unwrap();
        // Cores 1 and 2 lie behind the first aggregation switch.
        assert_eq!(fabric.usable_trees(edge("edge1.1"), edge("edge3.1"), &dead), [2, 3]);
        assert_eq!(fabric.usable_trees(edge("edge1.2"), edge("edge3.1"), &dead), [0, 1, 2, 3]);
        assert_eq!(fabric.failover(0, &dead), Some(2));
        let dead = [fabric.link_named("agg1.1-core2").unwrap()];
        assert_eq!(fabric.usable_trees(edge("edge1.1"), edge("edge3.1"), &dead), [0, 2, 3]);
    }

    #[test]
    fn pruning_for_all_takes_the_tree_from_every_pair() {
        let fabric = clos(4, 4, 1);
        let dead = [fabric.link_named("leaf1-spine1").unwrap()];
        let (l1, l2, l3) = (fabric.leaf_of(0), fabric.leaf_of(1), fabric.leaf_of(2));
        let labels = |a, b, prune| fabric.labels_between(a, b, &dead, prune).unwrap();
        assert_eq!(labels(l1, l2, Prune::Pair), [2, 3, 4]);
        assert_eq!(labels(l2, l3, Prune::Pair), [1, 2, 3, 4]);
        assert_eq!(labels(l2, l3, Prune::All), [2, 3, 4]);
        let all: Vec<_> = (1..=4).map(|s| fabric.link_named(&format!("leaf1-spine{s}")).unwrap()).collect();
        assert_eq!(fabric.labels_between(l2, l3, &all, Prune::All), Err(ScheduleError::AllZero));
        assert_eq!(fabric.labels_between(l2, l3, &all, Prune::Pair).unwrap().len(), 4);
    }

    #[test]
    fn weights_follow_the_narrowest_link() {
        let mut fabric = clos(2, 3, 1);
        let slow = fabric.link_named("leaf2-spine2").unwrap() as usize;
        fabric.links[slow].rate = BitRate::from_gbps(5);
        let weights = fabric.pair_weights(fabric.leaf_of(0), fabric.leaf_of(1), &[]);
        assert_eq!(weights, [1e10, 5e9, 1e10]);
        assert_eq!(schedule(&weights), Ok(vec![0, 1, 2, 0, 2]));
        assert_eq!(fabric.pair_weights(fabric.leaf_of(0), fabric.leaf_of(0), &[]), [1.0; 3]);
    }
}
