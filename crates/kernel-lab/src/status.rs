//! What of a lab is there now, as the kernel tells.

use super::agent::Files;
use super::{Error, KernelLab, Marks, Node, Overlay, Shape};
use serde::Serialize;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Up,
    /// Left half-made, or something of it is gone.
    Partial,
    Down,
}

#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub name: String,
    pub state: State,
    /// What it was made as; none if it is down.
    pub shape: Option<Shape>,
    pub nodes: Vec<NodeStatus>,
    pub links: Vec<LinkStatus>,
}

#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub kind: &'static str,
    pub namespace: String,
    pub present: bool,
    pub interfaces: Vec<Interface>,
    /// Processes in the namespace.
    pub processes: Vec<i32>,
    /// Does its agent answer? None where there is to be none.
    pub agent: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    pub name: String,
    pub up: bool,
    /// Bytes of the largest IP packet.
    pub mtu: u64,
    pub mac: String,
    /// With prefix lengths; without those that the kernel gives itself (link-local).
    pub addresses: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// `node:interface`.
    pub ends: [String; 2],
    /// Both interfaces are there and up.
    pub up: bool,
    /// What the routers at both ends have marked; none where they do not mark, or [`Status::read_marks`] was not called.
    pub marks: Option<[Marks; 2]>,
}

impl Status {
    /// Fills in what routers have marked, as `read` finds it by the place where it is pinned.
    ///
    /// # Errors
    /// [`Error::NoMarks`] if what should be there is not, or without privileges.
    pub fn read_marks(
        &mut self,
        lab: &KernelLab,
        read: impl Fn(&std::path::Path) -> Result<Marks, String>,
    ) -> Result<(), Error> {
        let Some(shape) = self.shape.as_ref().filter(|shape| shape.mark.is_some()) else { return Ok(()) };
        for (link, status) in shape.links().iter().zip(&mut self.links) {
            if shape.rate(link).is_some() {
                let [a, b] = [0, 1].map(|end| read(&lab.marks(link.ends[end].0, &link.ends[end].1)));
                status.marks = Some([a.map_err(Error::NoMarks)?, b.map_err(Error::NoMarks)?]);
            }
        }
        Ok(())
    }
}

impl KernelLab {
    /// Looks at every node.
    ///
    /// # Errors
    /// [`Error::Program`] without iproute2, [`Error::Command`] without privileges.
    pub fn status(&self) -> Result<Status, Error> {
        let Some(record) = self.record() else {
            let state = if self.directory().exists() { State::Partial } else { State::Down };
            return Ok(Status { name: self.name().into(), state, shape: None, nodes: Vec::new(), links: Vec::new() });
        };
        let shape = record.shape;
        let nodes = shape.nodes().into_iter().map(|n| self.node_status(&shape, n)).collect::<Result<Vec<_>, _>>()?;
        let is_up = |(node, interface): &(Node, String)| {
            let node = nodes.iter().find(|n| n.name == node.to_string());
            node.is_some_and(|n| n.interfaces.iter().any(|i| i.name == *interface && i.up))
        };
        let links: Vec<LinkStatus> = shape
            .links()
            .iter()
            .map(|link| LinkStatus {
                ends: [0, 1].map(|i| format!("{}:{}", link.ends[i].0, link.ends[i].1)),
                up: link.ends.iter().all(is_up),
                marks: None,
            })
            .collect();
        let whole = record.complete
            && nodes.iter().all(|node| node.present && node.agent != Some(false))
            && links.iter().all(|link| link.up);
        let state = if whole { State::Up } else { State::Partial };
        Ok(Status { name: self.name().into(), state, shape: Some(shape), nodes, links })
    }

    fn node_status(&self, shape: &Shape, node: Node) -> Result<NodeStatus, Error> {
        let namespace = self.namespace(node);
        let present = namespace.exists();
        let agent = match node {
            Node::Host(host) if shape.overlay == Overlay::Edge => Some(Files::of(self, host).alive()),
            _ => None,
        };
        Ok(NodeStatus {
            name: node.to_string(),
            kind: node.kind(),
            namespace: namespace.name().to_owned(),
            present,
            interfaces: if present { interfaces(namespace.name())? } else { Vec::new() },
            processes: namespace.processes(),
            agent,
        })
    }
}

/// Without the loopback.
fn interfaces(namespace: &str) -> Result<Vec<Interface>, Error> {
    let output = Command::new("ip").args(["-n", namespace, "-json", "address", "show"]).output();
    let output = output.map_err(|e| Error::Program("ip".into(), e, "iproute2"))?;
    if !output.status.success() {
        // Without privileges one can see that it is there, but not what is in it.
        let why = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it does not say why").to_owned();
        let command = "address show".to_owned();
        return Err(Error::Command { program: "ip", place: namespace.to_owned(), command, why });
    }
    let list: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let own = |address: &&serde_json::Value| address["scope"] != "link";
    let interface = |one: &serde_json::Value| Interface {
        name: text(&one["ifname"]),
        up: one["operstate"] == "UP",
        mtu: one["mtu"].as_u64().unwrap_or(0),
        mac: text(&one["address"]),
        addresses: one["addr_info"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(own)
            .map(|address| format!("{}/{}", text(&address["local"]), address["prefixlen"]))
            .collect(),
    };
    Ok(list.iter().map(interface).filter(|i| i.name != "lo").collect())
}
