//! The graph: nodes, full-duplex links, ports, and the tiers of switches.

use crate::ids::{HostId, LinkId, NodeId};
use crate::tree::Tree;
use std::ops::Range;
use std::sync::OnceLock;
use units::{BitRate, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    Host,
    /// Tier 0 switches (leaf, ToR, edge) have hosts; tier 1 is spine or aggregation, tier 2 core.
    Switch {
        tier: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique, without `-` and `#`. Builders number hosts from 0, as flow files and results do, and switches from 1,
    /// as papers do: `host0`, `leaf1`, `spine2`. Imported nodes keep the file's number: `node17`.
    pub name: String,
    pub kind: NodeKind,
}

/// A full-duplex link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The lower end: a host, or the switch of the lower tier (of the smaller number within a tier).
    pub a: NodeId,
    pub b: NodeId,
    /// Capacity of each direction.
    pub rate: BitRate,
    /// Propagation, one way.
    pub delay: Time,
}

/// A connected fabric.
///
/// Hosts are nodes `0..n_hosts`, switches follow. Every host has one link, to a tier-0 switch, and that link carries
/// the host's number: links `0..n_hosts` are access links, the others join switches. A switch is a *leaf* if it has
/// hosts, which is the same as being of tier 0.
///
/// `nodes` and `links` are public to be read; the derived tables do not follow changes made to them.
#[derive(Clone, Debug)]
pub struct Topology {
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    n_hosts: usize,
    leaves: Vec<NodeId>,
    /// Adjacency of node `n`: `ports[port_start[n]..port_start[n + 1]]`.
    ports: Vec<(LinkId, NodeId)>,
    port_start: Vec<u32>,
    /// See [`Topology::base_trees`].
    pub(crate) trees: OnceLock<Vec<Tree>>,
}

impl Topology {
    /// Derives the tables. The callers, the builders and the importer, guarantee the invariants above.
    pub(crate) fn assemble(nodes: Vec<Node>, links: Vec<Link>) -> Topology {
        let n_hosts = nodes.iter().take_while(|n| n.kind == NodeKind::Host).count();
        debug_assert!(nodes[n_hosts..].iter().all(|n| n.kind != NodeKind::Host));
        debug_assert!(links[..n_hosts].iter().enumerate().all(|(h, l)| l.a as usize == h && l.b as usize >= n_hosts));

        let mut port_start = vec![0u32; nodes.len() + 1];
        for link in &links {
            port_start[link.a as usize + 1] += 1;
            port_start[link.b as usize + 1] += 1;
        }
        for n in 0..nodes.len() {
            port_start[n + 1] += port_start[n];
        }
        let mut next = port_start.clone();
        let mut ports = vec![(0, 0); 2 * links.len()];
        for (id, link) in links.iter().enumerate() {
            for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                ports[next[from as usize] as usize] = (id as LinkId, to);
                next[from as usize] += 1;
            }
        }
        let leaves = (n_hosts..nodes.len())
            .filter(|&n| matches!(nodes[n].kind, NodeKind::Switch { tier: 0 }))
            .map(|n| n as NodeId)
            .collect();
        Topology { nodes, links, n_hosts, leaves, ports, port_start, trees: OnceLock::new() }
    }

    pub fn n_hosts(&self) -> usize {
        self.n_hosts
    }
    pub fn n_switches(&self) -> usize {
        self.nodes.len() - self.n_hosts
    }
    pub fn hosts(&self) -> Range<HostId> {
        0..self.n_hosts as HostId
    }
    pub fn switches(&self) -> Range<NodeId> {
        self.n_hosts as NodeId..self.nodes.len() as NodeId
    }
    /// The switches that have hosts, in ascending order.
    pub fn leaves(&self) -> &[NodeId] {
        &self.leaves
    }
    pub fn is_host(&self, node: NodeId) -> bool {
        (node as usize) < self.n_hosts
    }
    /// A switch's tier; `None` for a host and for a number that is no node.
    pub fn tier(&self, node: NodeId) -> Option<u8> {
        match self.nodes.get(node as usize)?.kind {
            NodeKind::Host => None,
            NodeKind::Switch { tier } => Some(tier),
        }
    }

    /// The switch a host is attached to.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn leaf_of(&self, host: HostId) -> NodeId {
        assert!(self.is_host(host), "host {host} of {}", self.n_hosts);
        self.links[host as usize].b
    }
    /// The link between a host and its leaf; it bears the host's number.
    pub fn host_link(&self, host: HostId) -> LinkId {
        debug_assert!(self.is_host(host));
        host
    }
    /// The hosts of a leaf, in ascending order.
    pub fn hosts_of(&self, leaf: NodeId) -> impl Iterator<Item = HostId> + '_ {
        self.neighbours(leaf).iter().map(|&(_, node)| node).filter(|&node| self.is_host(node))
    }
    /// The links between switches.
    pub fn fabric_links(&self) -> Range<LinkId> {
        self.n_hosts as LinkId..self.links.len() as LinkId
    }

    /// A node's links and the nodes at their other ends, by ascending link: the order of a switch's ports.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn neighbours(&self, node: NodeId) -> &[(LinkId, NodeId)] {
        let n = node as usize;
        &self.ports[self.port_start[n] as usize..self.port_start[n + 1] as usize]
    }
    /// The end of `link` that is not `node`.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn other_end(&self, link: LinkId, node: NodeId) -> NodeId {
        let Link { a, b, .. } = self.links[link as usize];
        if node == a {
            b
        } else {
            a
        }
    }

    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|n| n as NodeId)
    }

    /// The link called `"leaf1-spine2"` or, in the other order, `"spine2-leaf1"`; the second of several parallel
    /// links is `"leaf1-spine2#2"`, the first needs no `#1`.
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        let (ends, nth) = match name.split_once('#') {
            Some((ends, nth)) => (ends, nth.parse::<usize>().ok()?.checked_sub(1)?),
            None => (name, 0),
        };
        let (a, b) = ends.split_once('-')?;
        let (a, b) = (self.node_named(a)?, self.node_named(b)?);
        self.neighbours(a).iter().filter(|&&(_, node)| node == b).nth(nth).map(|&(link, _)| link)
    }

    /// The name by which [`Topology::link_named`] finds the link, lower end first.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn link_name(&self, link: LinkId) -> String {
        let Link { a, b, .. } = self.links[link as usize];
        // From the end with fewer links: a leaf may have thousands.
        let [(ports, far), _] = {
            let mut ends = [(self.neighbours(a), b), (self.neighbours(b), a)];
            ends.sort_by_key(|(ports, _)| ports.len());
            ends
        };
        let nth = ports.iter().filter(|&&(l, node)| node == far && l <= link).count();
        let (a, b) = (&self.nodes[a as usize].name, &self.nodes[b as usize].name);
        if nth > 1 {
            format!("{a}-{b}#{nth}")
        } else {
            format!("{a}-{b}")
        }
    }

    /// Which links work: `up[link]`. Numbers in `failed` that are no link are ignored.
    pub(crate) fn links_up(&self, failed: &[LinkId]) -> Vec<bool> {
        let mut up = vec![true; self.links.len()];
        for &link in failed {
            if let Some(state) = up.get_mut(link as usize) {
                *state = false;
            }
        }
        up
    }
}
