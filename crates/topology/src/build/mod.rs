//! Builders: plain structs whose `build` checks every field.

mod clos;
mod fat_tree;
mod line;
mod single;

pub use clos::Clos;
pub use fat_tree::FatTree;
pub use line::{Dumbbell, ParkingLot};
pub use single::SingleSwitch;

use crate::error::TopologyError;
use crate::graph::{Link, Node, NodeKind, Topology};
use crate::ids::NodeId;
use crate::limits::{rate_is_sane, MAX_DELAY, MAX_FORWARDING_ENTRIES, MAX_LINKS, MAX_NODES};
use units::{BitRate, Time};

fn at_least(field: &'static str, value: u32, least: u32) -> Result<(), TopologyError> {
    if value < least {
        return Err(TopologyError::TooSmall { field, value: value.into(), least: least.into() });
    }
    Ok(())
}

fn check_wire(
    (rate_field, rate): (&'static str, BitRate),
    (delay_field, delay): (&'static str, Time),
) -> Result<(), TopologyError> {
    if !rate_is_sane(rate) {
        return Err(TopologyError::Rate { field: rate_field, value: rate });
    }
    if delay > MAX_DELAY {
        return Err(TopologyError::Delay { field: delay_field, value: delay });
    }
    Ok(())
}

/// How large a fabric is going to be; products saturate, so that no field can overflow its way past the check.
struct Size {
    hosts: u64,
    switches: u64,
    leaves: u64,
    links: u64,
    /// The builder's fields that decide the size.
    fields: &'static str,
}

impl Size {
    fn check(&self) -> Result<(), TopologyError> {
        for (what, count, most) in [
            ("nodes", self.hosts.saturating_add(self.switches), MAX_NODES),
            ("links", self.links, MAX_LINKS),
            ("forwarding entries", self.switches.saturating_mul(self.leaves), MAX_FORWARDING_ENTRIES),
        ] {
            if count > most {
                return Err(TopologyError::TooLarge { what, count, most, fields: self.fields });
            }
        }
        Ok(())
    }
}

fn product(factors: &[u32]) -> u64 {
    factors.iter().fold(1, |all: u64, &factor| all.saturating_mul(factor.into()))
}

/// A fabric in the making, after its size has been checked: hosts with their links first, then switches.
struct Draft {
    nodes: Vec<Node>,
    links: Vec<Link>,
}

impl Draft {
    /// Host `h` hangs at node `leaf_of(h)`, which is added later.
    fn with_hosts(hosts: u64, rate: BitRate, delay: Time, leaf_of: impl Fn(u32) -> NodeId) -> Draft {
        let hosts = 0..hosts as u32;
        Draft {
            nodes: hosts.clone().map(|h| Node { name: format!("host{h}"), kind: NodeKind::Host }).collect(),
            links: hosts.map(|h| Link { a: h, b: leaf_of(h), rate, delay }).collect(),
        }
    }
    fn switch(&mut self, name: String, tier: u8) {
        self.nodes.push(Node { name, kind: NodeKind::Switch { tier } });
    }
    fn link(&mut self, a: NodeId, b: NodeId, rate: BitRate, delay: Time) {
        self.links.push(Link { a, b, rate, delay });
    }
    fn finish(self) -> Topology {
        Topology::assemble(self.nodes, self.links)
    }
}
