//! Forwarding tables of all switches: next hops by destination leaf for hashed packets, spanning trees for labelled ones.

use crate::capacity;
use crate::port::PortId;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use topology::{tree_of, LinkId, NodeId, Topology, Tree};

/// Forwarding tables of all switches: next hops by destination leaf for hashed packets, and spanning trees. Copies share them.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    leaves: Arc<[NodeId]>,
    hosts: Arc<[Place]>,
    /// `[switch * leaves + leaf]`: which of `spans`. Switches have the numbers after the hosts'.
    sets: Arc<[u32]>,
    /// Start and number of equal next hops in `hops`. Each set of a switch is there once, because most leaves share theirs.
    spans: Arc<[(u32, u32)]>,
    hops: Arc<[PortId]>,
    /// Next hops are repeated in `hops` by their capacity.
    weighted: bool,
    /// Tree n carries label n + 1, also after failures.
    trees: Arc<[Tree]>,
    failed: Vec<LinkId>,
    /// Labels that stand in for others since the last failure, by (label, source leaf, destination leaf); looked up only.
    backups: FxHashMap<(u16, NodeId, NodeId), u16>,
}

/// Where a host is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Of its leaf, among the leaves.
    index: u32,
    leaf: NodeId,
    /// From the leaf to the host.
    port: PortId,
}

impl Place {
    /// The port to the host itself, if `node` is its leaf.
    #[inline]
    pub(crate) fn last_hop(self, node: NodeId) -> Option<PortId> {
        (self.leaf == node).then_some(self.port)
    }
}

/// The direction of `link` that leaves `node`.
pub(crate) fn port_out_of(topology: &Topology, link: LinkId, node: NodeId) -> PortId {
    2 * link + u32::from(topology.links[link as usize].b == node)
}

impl Routing {
    pub(crate) fn new(topology: &Topology, weighted: bool) -> Routing {
        let leaves: Arc<[NodeId]> = topology.leaves().into();
        let hosts = topology
            .hosts()
            .map(|host| {
                let leaf = topology.leaf_of(host);
                let index = leaves.binary_search(&leaf).map_or(u32::MAX, |i| i as u32);
                Place { index, leaf, port: port_out_of(topology, topology.host_link(host), leaf) }
            })
            .collect();
        let trees = topology.base_trees().into();
        let mut routing = Routing {
            leaves,
            hosts,
            sets: Arc::default(),
            spans: Arc::default(),
            hops: Arc::default(),
            weighted,
            trees,
            failed: Vec::new(),
            backups: FxHashMap::default(),
        };
        routing.update(topology, &[]);
        routing
    }

    /// Computes the tables anew, without the failed links.
    pub(crate) fn update(&mut self, topology: &Topology, failed: &[LinkId]) {
        let routes = topology.routes(failed);
        self.failed = failed.to_vec();
        self.backups.clear();
        let (mut sets, mut spans, mut hops) = (Vec::new(), Vec::new(), Vec::new());
        let mut known: FxHashMap<Vec<PortId>, u32> = FxHashMap::default();
        for node in topology.n_hosts() as NodeId..topology.nodes.len() as NodeId {
            known.clear();
            for &leaf in &*self.leaves {
                let links = routes.next_hops(node, leaf);
                let ports: Vec<PortId> = if self.weighted && links.len() > 1 {
                    let slots = capacity::shares(topology, &routes, node, leaf);
                    slots.into_iter().map(|n| port_out_of(topology, links[n], node)).collect()
                } else {
                    links.iter().map(|&l| port_out_of(topology, l, node)).collect()
                };
                sets.push(*known.entry(ports).or_insert_with_key(|ports| {
                    spans.push((hops.len() as u32, ports.len() as u32));
                    hops.extend(ports);
                    spans.len() as u32 - 1
                }));
            }
        }
        (self.sets, self.spans, self.hops) = (sets.into(), spans.into(), hops.into());
    }

    #[inline]
    pub(crate) fn host(&self, host: u32) -> Place {
        self.hosts[host as usize]
    }

    /// What a leaf makes of the label of a packet that one of its hosts sends: once it has learnt of failures, a label
    /// whose way to that destination is broken becomes that of the next tree whose way is whole.
    ///
    /// This is fast failover done by the source leaf for both directions, because spines, which are not joined to one
    /// another, cannot do it (Presto section 3.3 describes hardware failover).
    pub(crate) fn relabel(&mut self, topology: &Topology, leaf: NodeId, dst: u32, label: u16) -> u16 {
        if self.failed.is_empty() {
            return label;
        }
        let dst_leaf = self.hosts[dst as usize].leaf;
        let failed = &self.failed;
        *self.backups.entry((label, leaf, dst_leaf)).or_insert_with(|| {
            let backup = tree_of(label).and_then(|t| topology.failover_between(t, leaf, dst_leaf, failed));
            backup.map_or(0, topology::label_of)
        })
    }

    /// The next hop along a label's tree, whether or not it is up.
    #[inline]
    pub(crate) fn labelled(&self, topology: &Topology, node: NodeId, dst: u32, label: u16) -> Option<PortId> {
        let tree = self.trees.get(usize::from(label).wrapping_sub(1))?;
        let link = tree.next_hop(node, self.hosts[dst as usize].leaf)?;
        Some(port_out_of(topology, link, node))
    }

    /// Of a switch.
    pub(crate) fn equal_hops(&self, node: NodeId, dst: u32) -> &[PortId] {
        self.equal_hops_to(node, self.host(dst))
    }

    /// Of a switch.
    #[inline]
    pub(crate) fn equal_hops_to(&self, node: NodeId, dst: Place) -> &[PortId] {
        let switch = node as usize - self.hosts.len();
        let set = self.sets[switch * self.leaves.len() + dst.index as usize];
        let (start, n) = self.spans[set as usize];
        &self.hops[start as usize..(start + n) as usize]
    }
}
