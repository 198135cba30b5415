//! Coordinates for the drawing of a tiered network.

use std::collections::BTreeMap;

use super::data::TopologyDrawing;

impl TopologyDrawing {
    /// Places every node by its tier: hosts in a row at the bottom, in the order given, with a gap between the groups of
    /// different switches; each switch of the next tier over the middle of what it attaches to; the tiers above it
    /// spread evenly, for every switch there usually reaches everything below. One unit of `x` is one host.
    ///
    /// Overwrites all coordinates. A network without tiers (a dumbbell, a parking lot) is better placed by its maker.
    pub fn place_by_tier(&mut self) {
        let index: BTreeMap<&str, usize> = self.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        let ends: Vec<(usize, usize)> =
            self.links.iter().filter_map(|l| Some((*index.get(l.a.as_str())?, *index.get(l.b.as_str())?))).collect();
        let top = self.nodes.iter().map(|n| n.tier).max().unwrap_or(0);
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut above: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for &(a, b) in &ends {
            let (low, high) = if self.nodes[a].tier <= self.nodes[b].tier { (a, b) } else { (b, a) };
            if self.nodes[low].tier < self.nodes[high].tier {
                below[high].push(low);
                above[low].get_or_insert(high);
            }
        }

        let mut x = vec![0.0; self.nodes.len()];
        let mut next: f64 = 0.0;
        let mut group = None;
        let mut hosts: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.nodes[i].tier == 0).collect();
        hosts.sort_by_key(|&i| above[i].unwrap_or(usize::MAX));
        for i in hosts {
            if group.is_some_and(|g| g != above[i]) {
                next += 1.0;
            }
            group = Some(above[i]);
            x[i] = next;
            next += 1.0;
        }
        let width = (next - 1.0).max(1.0);

        for tier in 1..=top {
            let switches: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.nodes[i].tier == tier).collect();
            let over_children = switches.iter().all(|&i| !below[i].is_empty()) && distinct(&switches, &below);
            for (place, &i) in switches.iter().enumerate() {
                x[i] = if over_children {
                    below[i].iter().map(|&c| x[c]).sum::<f64>() / below[i].len() as f64
                } else {
                    width * (place as f64 + 0.5) / switches.len() as f64
                };
            }
        }
        // A tier is as far from the next as makes the whole about three times as wide as high.
        let rise = width / 3.0 / f64::from(top.max(1));
        for (node, x) in self.nodes.iter_mut().zip(x) {
            node.x = x;
            node.y = f64::from(top - node.tier) * rise;
        }
    }
}

/// Whether no two switches attach to the same nodes below, so that each can stand over its own.
fn distinct(switches: &[usize], below: &[Vec<usize>]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    switches.iter().flat_map(|&i| below[i].iter().collect::<std::collections::BTreeSet<_>>()).all(|c| seen.insert(*c))
}

#[cfg(test)]
mod tests {
    use super::super::data::{Link, Node};
    use super::*;

    fn node(name: &str, tier: u32) -> Node {
        Node { name: name.into(), tier, ..Node::default() }
    }

    fn link(a: &str, b: &str) -> Link {
        Link { a: a.into(), b: b.into(), name: format!("{a}-{b}"), rate_gbps: 10.0 }
    }

    #[test]
    fn leaves_stand_over_their_hosts_and_spines_apart() {
        let mut drawing = TopologyDrawing {
            nodes: [("h0", 0), ("h1", 0), ("h2", 0), ("h3", 0), ("l0", 1), ("l1", 1), ("s0", 2), ("s1", 2)]
                .map(|(n, t)| node(n, t))
                .to_vec(),
            links: [("h0", "l0"), ("h1", "l0"), ("h2", "l1"), ("h3", "l1")]
                .into_iter()
                .chain([("l0", "s0"), ("l0", "s1"), ("s0", "l1"), ("l1", "s1")])
                .map(|(a, b)| link(a, b))
                .collect(),
        };
        drawing.place_by_tier();
        let x: Vec<f64> = drawing.nodes.iter().map(|n| n.x).collect();
        // Two hosts, a gap, two hosts: 0 1 . 3 4; leaves at the middles; spines at a quarter and three quarters of 4.
        assert_eq!(x, [0.0, 1.0, 3.0, 4.0, 0.5, 3.5, 1.0, 3.0]);
        assert!(drawing.nodes[6].y < drawing.nodes[4].y && drawing.nodes[4].y < drawing.nodes[0].y);
    }

    #[test]
    fn odd_drawings_do_not_panic() {
        TopologyDrawing::default().place_by_tier();
        let mut lone = TopologyDrawing { nodes: vec![node("s", 3)], links: vec![link("s", "nowhere"), link("s", "s")] };
        lone.place_by_tier();
        assert!(lone.nodes[0].x.is_finite() && lone.nodes[0].y.is_finite());
    }
}
