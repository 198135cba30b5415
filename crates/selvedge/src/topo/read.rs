//! From a file and its failed links to a fabric.

use super::Arguments;
use crate::input;
use crate::scenario::{self};
use config::{closest, ConfigError};
use topology::{LinkId, NodeId, Topology};

/// A fabric as the verbs see it.
pub(super) struct Fabric {
    pub(super) name: String,
    pub(super) topology: Topology,
    /// In ascending order, each once.
    pub(super) failed: Vec<LinkId>,
}

impl Fabric {
    /// # Errors
    /// A file that cannot be read or describes no fabric; a link that the fabric does not have.
    pub(super) fn read(arguments: &Arguments) -> Result<Fabric, ConfigError> {
        let name = arguments.file.display().to_string();
        let text = input::read(&arguments.file, input::TOPOLOGY, "give a scenario file or a topology file")?;
        let topology = match is_link_list(&text) {
            true => import(&name, &text)?,
            false => scenario::fabric(&input::scenario_text(&name, &text)?)?,
        };
        let mut failed = Vec::new();
        for link in &arguments.fail {
            failed.push(find_link(&topology, link)?);
        }
        failed.sort_unstable();
        failed.dedup();
        Ok(Fabric { name, topology, failed })
    }

    pub(super) fn node_name(&self, node: NodeId) -> &str {
        &self.topology.nodes[node as usize].name
    }

    pub(super) fn link_names(&self, links: &[LinkId]) -> Vec<String> {
        links.iter().map(|&link| self.topology.link_name(link)).collect()
    }

    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.failed.binary_search(&link).is_err()
    }

    /// The leaf that a node stands for: itself, or a host's.
    ///
    /// # Errors
    /// No such node, or a switch without hosts.
    pub(super) fn leaf(&self, option: &str, name: &str) -> Result<NodeId, ConfigError> {
        let fail = |problem: String, remedy: String| ConfigError::new(option, problem, remedy);
        let Some(node) = self.topology.node_named(name) else {
            let near = closest(name, self.topology.nodes.iter().map(|n| n.name.as_str()));
            let first = self.topology.leaves().first().map(|&leaf| self.node_name(leaf));
            let near = near.or(first).unwrap_or_default();
            return Err(fail(format!("there is no node {name:?}"), format!("did you mean {near:?}?")));
        };
        if self.topology.is_host(node) {
            return Ok(self.topology.leaf_of(node));
        }
        match self.topology.leaves().contains(&node) {
            true => Ok(node),
            false => Err(fail(format!("{name} has no hosts"), "name a leaf or a host".to_owned())),
        }
    }
}

/// Topology files begin with three counts, which no TOML file does.
fn is_link_list(text: &str) -> bool {
    let line = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()).find(|l| !l.is_empty());
    line.is_some_and(|line| line.split_whitespace().all(|word| word.bytes().all(|b| b.is_ascii_digit())))
}

fn import(name: &str, text: &str) -> Result<Topology, ConfigError> {
    topology::import(text)
        .map_err(|e| ConfigError::new(format!("{name}:{}", e.line), e.problem.to_string(), String::new()))
}

fn find_link(topology: &Topology, name: &str) -> Result<LinkId, ConfigError> {
    let found = topology.link_named(name).filter(|&link| topology.fabric_links().contains(&link));
    found.ok_or_else(|| {
        let links: Vec<String> = topology.fabric_links().map(|l| topology.link_name(l)).collect();
        let near = closest(name, links.iter().map(String::as_str)).or(links.first().map(String::as_str));
        ConfigError::new(
            format!("--fail {name}"),
            "the fabric has no such link between switches",
            match near {
                Some(near) => format!("did you mean {near}?"),
                None => "it has none at all; leave the option out".to_owned(),
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_their_first_line() {
        assert!(is_link_list("# four nodes\n\n4 2 3   # counts\n"));
        for text in ["", "title = \"x\"\n", "[topology]\n", "4 = 2\n"] {
            assert!(!is_link_list(text), "{text:?}");
        }
    }
}
