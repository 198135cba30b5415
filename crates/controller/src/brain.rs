//! What a controller knows and decides: no files, no sockets.

use super::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use topology::{label_of, schedule, LinkId, Prune, Topology};

/// What an edge is to do, towards every other edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedules {
    /// Rises with each change.
    pub revision: u64,
    /// Edges that are not named keep what their configuration says.
    pub schedules: Vec<Slots>,
}

/// The outer source ports that flowcells take in turn towards some edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// 1 to 256; a port is repeated as often as its path's weight asks. Empty: no tree joins them, and any port will do.
    pub ports: Vec<u16>,
    pub edges: Vec<String>,
}

/// A link failed or came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChange {
    pub link: String,
    pub up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub revision: u64,
    pub trees: usize,
    pub failed: Vec<String>,
    /// What each edge said it has when it last asked this controller, by name; edges that never did are absent.
    pub edges: BTreeMap<String, u64>,
    /// What is wrong with the store now; empty: nothing.
    pub problem: String,
}

/// A fabric, what of it failed, and what follows.
#[derive(Debug)]
pub struct Brain {
    topology: Topology,
    prune: Prune,
    /// Of the first tree; the others follow.
    first_port: u16,
    /// In ascending order, each once.
    failed: Vec<LinkId>,
    /// Names of failed links that this fabric does not have: another one may have them again.
    unknown: Vec<String>,
    revision: u64,
    seen: BTreeMap<String, u64>,
}

impl Brain {
    /// `first_port` plus the number of trees is at most 65536, or the last ones share a port.
    /// `revision`: larger than that of any controller whose store was lost, such as the time.
    pub fn new(topology: Topology, prune: Prune, first_port: u16, revision: u64) -> Brain {
        let (failed, unknown, seen) = (Vec::new(), Vec::new(), BTreeMap::new());
        Brain { topology, prune, first_port, failed, unknown, revision, seen }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The names of the links that failed.
    pub fn failed(&self) -> Vec<String> {
        let known = self.failed.iter().map(|&link| self.topology.link_name(link));
        known.chain(self.unknown.iter().cloned()).collect()
    }

    /// What an earlier or another controller knew.
    pub fn recall(&mut self, revision: u64, failed: &[String]) {
        let (known, unknown): (Vec<_>, Vec<_>) = failed.iter().partition(|name| self.link(name).is_ok());
        self.failed = known.into_iter().filter_map(|name| self.link(name).ok()).collect();
        self.failed.sort_unstable();
        self.failed.dedup();
        self.unknown = unknown.into_iter().cloned().collect();
        self.revision = revision;
    }

    fn link(&self, name: &str) -> Result<LinkId, Error> {
        let found = self.topology.link_named(name).filter(|&link| self.topology.fabric_links().contains(&link));
        found.ok_or_else(|| Error::NoLink(name.to_owned()))
    }

    /// What [`Brain::recall`] would make of a change: revision and failed links. `None` if nothing would change.
    ///
    /// # Errors
    /// [`Error::NoLink`].
    pub fn after(&self, change: &LinkChange) -> Result<Option<(u64, Vec<String>)>, Error> {
        let mut failed = self.failed();
        if change.up && self.unknown.contains(&change.link) {
            failed.retain(|name| *name != change.link);
            return Ok(Some((self.revision.saturating_add(1), failed)));
        }
        let link = self.link(&change.link)?;
        match (self.failed.binary_search(&link), change.up) {
            (Ok(_), true) => failed.retain(|name| *name != change.link),
            (Err(_), false) => failed.push(self.topology.link_name(link)),
            _ => return Ok(None),
        }
        Ok(Some((self.revision.saturating_add(1), failed)))
    }

    /// How many links between switches, and how many edges.
    pub fn extent(&self) -> (usize, usize) {
        let nodes = (0..).zip(&self.topology.nodes);
        (self.topology.fabric_links().len(), nodes.filter(|&(id, _)| self.topology.is_host(id)).count())
    }

    /// Is there such an edge?
    pub fn has_edge(&self, name: &str) -> bool {
        self.topology.node_named(name).is_some_and(|node| self.topology.is_host(node))
    }

    /// For the edge of a host. Edges of its own leaf are not named: no tree is needed to reach them.
    ///
    /// # Errors
    /// [`Error::NoEdge`].
    pub fn schedules(&self, edge: &str) -> Result<Schedules, Error> {
        let topology = &self.topology;
        let host = topology.node_named(edge).filter(|&node| topology.is_host(node));
        let own = topology.leaf_of(host.ok_or_else(|| Error::NoEdge(edge.to_owned()))?);
        let mut by_leaf: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (id, node) in (0..).zip(&topology.nodes).filter(|&(id, _)| topology.is_host(id)) {
            let leaf = topology.leaf_of(id);
            if leaf != own {
                by_leaf.entry(leaf).or_default().push(node.name.clone());
            }
        }
        // Leaves with one schedule are told together.
        let mut slots: BTreeMap<Vec<u16>, Vec<String>> = BTreeMap::new();
        for (leaf, edges) in by_leaf {
            let weights = topology.pruned_weights(own, leaf, &self.failed, self.prune);
            // No path at all, or more than a schedule holds.
            let trees = schedule(&weights).unwrap_or_default();
            let ports = trees.into_iter().map(|tree| self.first_port.saturating_add(label_of(tree) - 1)).collect();
            slots.entry(ports).or_default().extend(edges);
        }
        let schedules = slots.into_iter().map(|(ports, edges)| Slots { ports, edges }).collect();
        Ok(Schedules { revision: self.revision, schedules })
    }

    /// An edge says which revision it has.
    /// `false` if there is no such edge.
    pub fn note(&mut self, edge: &str, revision: u64) -> bool {
        let known = self.has_edge(edge);
        if known {
            self.seen.insert(edge.to_owned(), revision);
        }
        known
    }

    pub fn status(&self) -> Status {
        Status {
            revision: self.revision,
            trees: self.topology.base_trees().len(),
            failed: self.failed(),
            edges: self.seen.clone(),
            problem: String::new(),
        }
    }

    /// Of all that schedules follow from but failures, so that a store says whether it is about this fabric.
    pub fn fingerprint(&self) -> u64 {
        let links = self.topology.links.iter().map(|link| format!("{link:?}"));
        let names = self.topology.nodes.iter().map(|node| node.name.clone());
        let settings = [format!("{:?}", self.prune), self.first_port.to_string()];
        // FNV-1a: it need not withstand anybody.
        let bytes = names.chain(links).chain(settings).flat_map(|name| [name.into_bytes(), vec![0]].concat());
        bytes.fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Clos;
    use units::{BitRate, Time};

    fn brain() -> Brain {
        let clos = Clos {
            leaves: 3,
            spines: 2,
            parallel_links: 1,
            hosts_per_leaf: 2,
            host_rate: BitRate::from_gbps(10),
            host_delay: Time::from_us(1),
            fabric_rate: BitRate::from_gbps(10),
            fabric_delay: Time::from_us(1),
        };
        Brain::new(clos.build().unwrap(), Prune::Pair, 50_001, 1)
    }

    fn set(brain: &mut Brain, change: &LinkChange) -> bool {
        let Some((revision, failed)) = brain.after(change).unwrap() else { return false };
        brain.recall(revision, &failed);
        true
    }

    fn ports<'a>(schedules: &'a Schedules, edge: &str) -> Option<&'a [u16]> {
        let found = schedules.schedules.iter().find(|slots| slots.edges.iter().any(|e| e == edge));
        found.map(|slots| slots.ports.as_slice())
    }

    #[test]
    fn a_failure_takes_its_tree_from_the_pairs_that_it_hits() {
        let mut brain = brain();
        let hosts: Vec<String> =
            brain.topology.nodes.iter().map(|n| n.name.clone()).filter(|n| brain.has_edge(n)).collect();
        let (own, neighbour, second, third) = (&hosts[0], &hosts[1], &hosts[2], &hosts[4]);
        let whole = brain.schedules(own).unwrap();
        assert_eq!(
            (ports(&whole, second), ports(&whole, third)),
            (Some(&[50_001, 50_002][..]), Some(&[50_001, 50_002][..]))
        );
        assert_eq!(ports(&whole, neighbour), None, "it is on the same leaf");
        let failure = LinkChange { link: "leaf2-spine1".into(), up: false };
        assert!(set(&mut brain, &failure) && !set(&mut brain, &failure));
        let hit = brain.schedules(own).unwrap();
        assert_eq!((hit.revision, ports(&hit, second)), (whole.revision + 1, Some(&[50_002][..])));
        assert_eq!(ports(&hit, third), Some(&[50_001, 50_002][..]));
        assert!(set(&mut brain, &LinkChange { link: "leaf2-spine2".into(), up: false }));
        assert_eq!(ports(&brain.schedules(own).unwrap(), second), Some(&[][..]), "cut off");
        assert!(set(&mut brain, &LinkChange { up: true, ..failure }));
        assert_eq!(ports(&brain.schedules(own).unwrap(), second), Some(&[50_001][..]));
        assert!(brain.after(&LinkChange { link: "leaf9-spine1".into(), up: false }).is_err());
        assert!(brain.schedules("leaf1").is_err() && brain.schedules("nobody").is_err());
    }

    #[test]
    fn what_was_known_is_known_again() {
        let mut first = brain();
        set(&mut first, &LinkChange { link: "leaf1-spine1".into(), up: false });
        let mut second = brain();
        second.recall(first.revision(), &first.failed());
        assert_eq!((second.revision(), second.failed()), (first.revision(), first.failed()));
        // Of a larger fabric, which may come back.
        let failed = ["leaf1-spine1".to_owned(), "leaf9-spine1".to_owned()];
        second.recall(9, &failed);
        assert_eq!(second.failed(), failed);
        assert!(set(&mut second, &LinkChange { link: "leaf9-spine1".into(), up: true }));
        assert_eq!(second.failed(), failed[..1]);
    }
}
