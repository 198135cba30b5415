//! Link-disjoint spanning trees that reach every leaf. A path label names one.

use crate::ids::{LinkId, NodeId};

/// Labels have 16 bits, and 0 means "no label".
pub const MAX_TREES: usize = u16::MAX as usize;

/// The path label of the tree with this index: one more than the index. 0, "no label", beyond [`MAX_TREES`].
pub fn label_of(tree: usize) -> u16 {
    u16::try_from(tree.saturating_add(1)).unwrap_or(0)
}

/// The index of the tree that a label names; `None` for "no label".
pub fn tree_of(label: u16) -> Option<usize> {
    usize::from(label).checked_sub(1)
}

pub(crate) const NONE: u32 = u32::MAX;

/// A tree over switches that reaches every leaf. A path label names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub root: NodeId,
    /// In ascending order.
    pub links: Vec<LinkId>,
    /// The first switch that `up` tells of.
    first: NodeId,
    /// The way to the root of every switch but the root, from the first to the last that is in the tree: thousands of trees of a
    /// fabric with thousands of roots are to cost no table of all of them each.
    up: Vec<Up>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Up {
    /// The root is its own parent; `NONE` if the switch is not in the tree.
    pub(crate) parent: NodeId,
    pub(crate) link: LinkId,
}
pub(crate) const OUTSIDE: Up = Up { parent: NONE, link: NONE };

impl Tree {
    /// `links` in ascending order; `members` are all switches but the root, in any order.
    pub(crate) fn new(root: NodeId, links: Vec<LinkId>, members: &[(NodeId, Up)]) -> Tree {
        let numbers = || members.iter().map(|(switch, _)| *switch);
        let first = numbers().min().unwrap_or(0);
        let mut up = vec![OUTSIDE; numbers().max().map_or(0, |last| (last - first) as usize + 1)];
        for (switch, way) in members {
            up[(switch - first) as usize] = *way;
        }
        Tree { root, links, first, up }
    }

    fn up(&self, node: NodeId) -> Option<Up> {
        if node == self.root {
            return Some(Up { parent: node, link: NONE });
        }
        let switch = node.checked_sub(self.first)?;
        self.up.get(switch as usize).copied().filter(|up| up.parent != NONE)
    }

    /// How many switches its table tells of.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.up.len()
    }

    pub fn contains(&self, switch: NodeId) -> bool {
        self.up(switch).is_some()
    }

    /// The link by which switch `node` sends packets for `dst_leaf`. `None` at `dst_leaf` itself, for a host,
    /// and for a switch outside the tree. Takes time proportional to the tree's depth.
    pub fn next_hop(&self, node: NodeId, dst_leaf: NodeId) -> Option<LinkId> {
        let here = self.up(node)?;
        let mut below = dst_leaf;
        if node == dst_leaf {
            return None;
        }
        // The leaf is below `node` if the way from the leaf to the root leads through it.
        loop {
            let Up { parent, link } = self.up(below)?;
            if parent == node {
                return Some(link);
            }
            if parent == below {
                return Some(here.link);
            }
            below = parent;
        }
    }

    /// The links from one switch of the tree to another, in order. `None` if either is outside the tree.
    pub fn path(&self, src: NodeId, dst: NodeId) -> Option<Vec<LinkId>> {
        let mut path = self.way_up(src)?;
        let mut down = self.way_up(dst)?;
        while !path.is_empty() && path.last() == down.last() {
            path.pop();
            down.pop();
        }
        path.extend(down.iter().rev());
        Some(path)
    }

    fn way_up(&self, from: NodeId) -> Option<Vec<LinkId>> {
        let mut links = Vec::new();
        let mut at = from;
        loop {
            let Up { parent, link } = self.up(at)?;
            if parent == at {
                return Some(links);
            }
            links.push(link);
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_start_at_one() {
        assert_eq!((label_of(0), label_of(7), tree_of(8), tree_of(0)), (1, 8, Some(7), None));
        assert_eq!((label_of(MAX_TREES - 1), label_of(MAX_TREES), label_of(usize::MAX)), (u16::MAX, 0, 0));
    }
}
