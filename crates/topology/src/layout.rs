//! Coordinates for drawing a fabric tier by tier.

use crate::graph::Topology;
use crate::ids::NodeId;

impl Topology {
    /// Where to draw each node: `(x, y)` in 0..1, x to the right and y downwards, as SVG has it.
    ///
    /// Hosts are at the bottom, under their leaves, and each tier of switches is one row above the last, evenly spread in
    /// order of number.
    pub fn layout(&self) -> Vec<(f32, f32)> {
        let mut tiers: Vec<u8> = self.switches().filter_map(|s| self.tier(s)).collect();
        tiers.sort_unstable();
        tiers.dedup();
        let rows = (tiers.len() + 1) as f32;
        let mut at = vec![(0.0, 0.0); self.nodes.len()];
        let mut place = |row: usize, nodes: &[NodeId]| {
            for (i, &node) in nodes.iter().enumerate() {
                at[node as usize] = ((i as f32 + 0.5) / nodes.len() as f32, 1.0 - (row as f32 + 0.5) / rows);
            }
        };
        let hosts: Vec<NodeId> = self.leaves().iter().flat_map(|&leaf| self.hosts_of(leaf)).collect();
        place(0, &hosts);
        for (row, &tier) in tiers.iter().enumerate() {
            let switches: Vec<NodeId> = self.switches().filter(|&s| self.tier(s) == Some(tier)).collect();
            place(row + 1, &switches);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clos, ParkingLot};
    use units::{BitRate, Time};

    #[test]
    fn tiers_are_rows_and_hosts_are_under_their_leaves() {
        let (rate, delay) = (BitRate::from_gbps(10), Time::ZERO);
        let clos = Clos {
            leaves: 2,
            spines: 1,
            parallel_links: 1,
            hosts_per_leaf: 2,
            host_rate: rate,
            host_delay: delay,
            fabric_rate: rate,
            fabric_delay: delay,
        }
        .build()
        .unwrap();
        let at = clos.layout();
        assert_eq!(at.iter().map(|p| p.0).collect::<Vec<_>>(), [0.125, 0.375, 0.625, 0.875, 0.25, 0.75, 0.5]);
        let rows: Vec<i32> = at.iter().map(|p| (p.1 * 6.0).round() as i32).collect();
        assert_eq!(rows, [5, 5, 5, 5, 3, 3, 1]);

        let lot = ParkingLot { hops: 3, host_rate: rate, host_delay: delay, hop_rate: rate, hop_delay: delay };
        let at = lot.build().unwrap().layout();
        let mut hosts: Vec<usize> = (0..8).collect();
        hosts.sort_by(|&a, &b| at[a].0.total_cmp(&at[b].0));
        assert_eq!(hosts, [0, 2, 3, 4, 5, 6, 1, 7], "in the order of their switches");
    }
}
