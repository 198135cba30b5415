use crate::port::PortId;
use topology::{LinkId, NodeId, Topology};

/// Forwarding tables of all switches: next hops by destination leaf, for hashed packets and per spanning tree.
#[derive(Debug)]
pub(crate) struct Routing {
    n_leaves: usize,
    /// Host to (index of its leaf among the leaves, leaf, port from the leaf to the host).
    hosts: Vec<(u32, NodeId, PortId)>,
    /// `[node * n_leaves + leaf]`: start and number of the equal next hops in `hops`.
    spans: Vec<(u32, u32)>,
    hops: Vec<PortId>,
    /// `[tree][node * n_leaves + leaf]`: the tree's next hop, or [`NO_PORT`].
    trees: Vec<Vec<PortId>>,
}

pub(crate) const NO_PORT: PortId = u32::MAX;

/// The direction of `link` that leaves `node`.
pub(crate) fn port_out_of(topology: &Topology, link: LinkId, node: NodeId) -> PortId {
    2 * link + u32::from(topology.links[link as usize].b == node)
}

impl Routing {
    pub(crate) fn new(topology: &Topology, failed: &[LinkId]) -> Routing {
        let leaves: Vec<NodeId> = topology.leaves().to_vec();
        let index_of = |leaf: NodeId| leaves.iter().position(|&l| l == leaf).map_or(u32::MAX, |i| i as u32);
        let hosts = (0..topology.n_hosts() as u32)
            .map(|host| {
                let leaf = topology.leaf_of(host);
                let (uplink, _) = topology.neighbours(host)[0];
                (index_of(leaf), leaf, port_out_of(topology, uplink, leaf))
            })
            .collect();
        let routes = topology.routes(failed);
        let (mut spans, mut hops) = (Vec::new(), Vec::new());
        for node in 0..topology.nodes.len() as NodeId {
            for &leaf in &leaves {
                let links = routes.next_hops(node, leaf);
                spans.push((hops.len() as u32, links.len() as u32));
                hops.extend(links.iter().map(|&l| port_out_of(topology, l, node)));
            }
        }
        // A label keeps its meaning when links fail: trees of the whole graph, with the dead hops of each taken by the
        // tree that fast failover names.
        let all = topology.trees(&[]);
        let trees = (0..all.len())
            .map(|tree| {
                let mut table = Vec::with_capacity(spans.len());
                for node in 0..topology.nodes.len() as NodeId {
                    for &leaf in &leaves {
                        let hop = |t: usize| all[t].next_hop(node, leaf);
                        let alive = |l: &LinkId| !failed.contains(l);
                        let link = hop(tree)
                            .filter(alive)
                            .or_else(|| (1..all.len()).find_map(|step| hop((tree + step) % all.len()).filter(alive)));
                        table.push(link.map_or(NO_PORT, |l| port_out_of(topology, l, node)));
                    }
                }
                table
            })
            .collect();
        Routing { n_leaves: leaves.len(), hosts, spans, hops, trees }
    }

    /// The port to the host itself, if `node` is its leaf.
    #[inline]
    pub(crate) fn last_hop(&self, node: NodeId, dst: u32) -> Option<PortId> {
        let (_, leaf, port) = self.hosts[dst as usize];
        (leaf == node).then_some(port)
    }

    #[inline]
    pub(crate) fn labelled(&self, node: NodeId, dst: u32, label: u16) -> Option<PortId> {
        let tree = self.trees.get(usize::from(label).wrapping_sub(1))?;
        let port = tree[node as usize * self.n_leaves + self.hosts[dst as usize].0 as usize];
        (port != NO_PORT).then_some(port)
    }

    #[inline]
    pub(crate) fn equal_hops(&self, node: NodeId, dst: u32) -> &[PortId] {
        let (start, n) = self.spans[node as usize * self.n_leaves + self.hosts[dst as usize].0 as usize];
        &self.hops[start as usize..(start + n) as usize]
    }
}
