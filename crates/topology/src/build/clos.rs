//! Builder of two-tier Clos (leaf-spine) fabrics.

use super::{at_least, check_wire, product, Draft, Size};
use crate::error::TopologyError;
use crate::graph::Topology;
use units::{BitRate, Time};

/// A two-tier Clos (leaf-spine): every leaf has `parallel_links` links to every spine.
///
/// Hosts are numbered leaf by leaf, then come the leaves `leaf1`, ..., then the spines `spine1`, .... Fabric links are
/// numbered by leaf, then spine, then copy, so a leaf's ports after its hosts' are ordered by spine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clos {
    pub leaves: u32,
    pub spines: u32,
    /// Links between each leaf and each spine.
    pub parallel_links: u32,
    pub hosts_per_leaf: u32,
    pub host_rate: BitRate,
    pub host_delay: Time,
    pub fabric_rate: BitRate,
    pub fabric_delay: Time,
}

/// To find all trees of a fabric.
const MAX_TREE_STEPS: u64 = 1 << 26;

impl Clos {
    /// # Errors
    /// A count of zero, more than [`crate::MAX_NODES`], [`crate::MAX_LINKS`] or [`crate::MAX_FORWARDING_ENTRIES`], or
    /// a rate or delay out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let Clos { leaves, spines, parallel_links, hosts_per_leaf, .. } = *self;
        at_least("leaves", leaves, 1)?;
        at_least("spines", spines, 1)?;
        at_least("parallel_links", parallel_links, 1)?;
        at_least("hosts_per_leaf", hosts_per_leaf, 1)?;
        check_wire(("host_rate", self.host_rate), ("host_delay", self.host_delay))?;
        check_wire(("fabric_rate", self.fabric_rate), ("fabric_delay", self.fabric_delay))?;
        let hosts = product(&[leaves, hosts_per_leaf]);
        Size {
            hosts,
            switches: u64::from(leaves) + u64::from(spines),
            leaves: leaves.into(),
            links: product(&[leaves, spines, parallel_links]).saturating_add(hosts),
            fields: "leaves, spines, parallel_links and hosts_per_leaf",
        }
        .check()?;
        // Each tree is looked for among all links of its root, and there are as many trees as parallel links.
        let most = u64::from((MAX_TREE_STEPS / product(&[leaves, spines])).isqrt() as u32).max(1);
        if u64::from(parallel_links) > most {
            let (what, count) = ("links between two switches", parallel_links.into());
            return Err(TopologyError::TooLarge { what, count, most, fields: "parallel_links" });
        }

        let leaf0 = hosts as u32;
        let mut draft = Draft::with_hosts(hosts, self.host_rate, self.host_delay, |h| leaf0 + h / hosts_per_leaf);
        for l in 1..=leaves {
            draft.switch(format!("leaf{l}"), 0);
        }
        for s in 1..=spines {
            draft.switch(format!("spine{s}"), 1);
        }
        let spine0 = leaf0 + leaves;
        for leaf in leaf0..spine0 {
            for spine in spine0..spine0 + spines {
                for _ in 0..parallel_links {
                    draft.link(leaf, spine, self.fabric_rate, self.fabric_delay);
                }
            }
        }
        Ok(draft.finish())
    }
}
