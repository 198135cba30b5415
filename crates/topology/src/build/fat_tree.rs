//! Builder of three-tier fat-trees.

use super::{at_least, check_wire, product, Draft, Size};
use crate::error::TopologyError;
use crate::graph::Topology;
use units::{BitRate, Time};

/// A three-tier fat-tree of switches with `k` ports: `k` pods of `k/2` edge and `k/2` aggregation switches, `k^2/4`
/// cores. With `hosts_per_edge` = `k/2`, as in the literature, it has `k^3/4` hosts (`k` = 8 gives 128), and full bisection if
/// `fabric_rate` equals `host_rate`. More hosts oversubscribe the edge switches, which then have more than `k` ports.
///
/// Hosts are numbered pod by pod and edge by edge. Switches are `edge2.1` (pod 2, first), `agg2.1` and `core1`; the
/// i-th aggregation switch of every pod reaches the i-th group of `k/2` cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Ports per switch; even.
    pub k: u32,
    /// Hosts at each edge switch, at least 1.
    pub hosts_per_edge: u32,
    pub host_rate: BitRate,
    pub host_delay: Time,
    pub fabric_rate: BitRate,
    pub fabric_delay: Time,
}

impl FatTree {
    /// # Errors
    /// A `k` that is odd, below 2 or so large that a bound is exceeded; no hosts; a rate or delay out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let k = self.k;
        at_least("k", k, 2)?;
        if k % 2 != 0 {
            return Err(TopologyError::OddPorts { field: "k", value: k.into() });
        }
        let hosts_per_edge = self.hosts_per_edge;
        at_least("hosts_per_edge", hosts_per_edge, 1)?;
        check_wire(("host_rate", self.host_rate), ("host_delay", self.host_delay))?;
        check_wire(("fabric_rate", self.fabric_rate), ("fabric_delay", self.fabric_delay))?;
        let half = k / 2;
        let edges = product(&[k, half]);
        let hosts = edges.saturating_mul(hosts_per_edge.into());
        let cores = product(&[half, half]);
        Size {
            hosts,
            switches: edges.saturating_mul(2).saturating_add(cores),
            leaves: edges,
            // Each edge and each aggregation switch has k/2 links up.
            links: hosts.saturating_add(edges.saturating_mul(k.into())),
            fields: "k and hosts_per_edge",
        }
        .check()?;

        let edge0 = hosts as u32;
        let agg0 = edge0 + k * half;
        let core0 = agg0 + k * half;
        let mut draft = Draft::with_hosts(hosts, self.host_rate, self.host_delay, |h| edge0 + h / hosts_per_edge);
        for (layer, tier) in [("edge", 0), ("agg", 1)] {
            for pod in 1..=k {
                for i in 1..=half {
                    draft.switch(format!("{layer}{pod}.{i}"), tier);
                }
            }
        }
        for core in 1..=half * half {
            draft.switch(format!("core{core}"), 2);
        }
        for pod in 0..k {
            for edge in 0..half {
                for agg in 0..half {
                    let (edge, agg) = (edge0 + pod * half + edge, agg0 + pod * half + agg);
                    draft.link(edge, agg, self.fabric_rate, self.fabric_delay);
                }
            }
        }
        for pod in 0..k {
            for agg in 0..half {
                for core in 0..half {
                    let (agg, core) = (agg0 + pod * half + agg, core0 + agg * half + core);
                    draft.link(agg, core, self.fabric_rate, self.fabric_delay);
                }
            }
        }
        Ok(draft.finish())
    }
}
