//! CONGA's leaf switches (Alizadeh et al., SIGCOMM 2014, section 3).
//!
//! Each leaf keeps what it knows of the congestion on the way to every other leaf. Leaves learn it from one another, and choose by it
//! the uplink that a flowlet takes.

use crate::dre::FULL;
use crate::flowlets::Flowlets;
use crate::port::PortId;
use topology::{NodeId, Topology};
use units::Time;

/// Uplinks of a leaf: what the four bits of the overlay header's LBTag can name.
pub(crate) const MAX_UPLINKS: usize = 16;

/// A metric that was not renewed for this long loses one of its eight steps, and another for each further such time (section 3.3,
/// which leaves the steps open).
const AGE: Time = Time::from_ms(10);

/// CONGA's fields of the overlay header, which a packet has between its two leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The source leaf's uplink; [`Header::NONE`]: the packet has no such header.
    pub(crate) lbtag: u8,
    /// The most congested link after the first, in eighths.
    pub(crate) ce: u8,
    /// What the source leaf tells of one of the destination leaf's uplinks: its number and its metric.
    pub(crate) feedback: Option<(u8, u8)>,
}

impl Header {
    pub(crate) const NONE: Header = Header { lbtag: u8::MAX, ce: 0, feedback: None };
}

/// A congestion metric, 0 to [`FULL`], as it was last told.
#[derive(Clone, Copy, Debug, Default)]
struct Metric {
    value: u8,
    at_ps: u64,
}

impl Metric {
    fn aged(self, now: u64) -> u8 {
        let steps = now.saturating_sub(self.at_ps) / AGE.as_ps();
        self.value.saturating_sub(steps.min(u64::from(FULL)) as u8)
    }
}

/// A metric that waits to be told to the leaf whose packets showed it.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    metric: Metric,
    known: bool,
    /// It differs from what was told last.
    changed: bool,
}

/// One leaf's congestion tables; rows are the other leaves, columns uplinks.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// Congestion-To-Leaf: of this leaf's uplinks.
    to: Vec<[Metric; MAX_UPLINKS]>,
    /// Congestion-From-Leaf: of the other leaf's uplinks.
    from: Vec<[Heard; MAX_UPLINKS]>,
    /// Of each row of `from`, where the search for what to tell goes on.
    turn: Vec<u8>,
}

impl Leaf {
    pub(crate) fn new(leaves: usize) -> Leaf {
        Leaf { to: vec![Default::default(); leaves], from: vec![Default::default(); leaves], turn: vec![0; leaves] }
    }

    /// A packet from the leaf `peer` has arrived.
    pub(crate) fn received(&mut self, peer: usize, header: Header, now: u64) {
        if let Some(heard) = self.from[peer].get_mut(usize::from(header.lbtag)) {
            heard.changed |= !heard.known || heard.metric.value != header.ce;
            heard.metric = Metric { value: header.ce, at_ps: now };
            heard.known = true;
        }
        if let Some((lbtag, value)) = header.feedback {
            if let Some(metric) = self.to[peer].get_mut(usize::from(lbtag)) {
                *metric = Metric { value, at_ps: now };
            }
        }
    }

    /// What the next packet to the leaf `peer` tells: in turn one of the metrics that have changed since they were told, or
    /// one of all if none has.
    pub(crate) fn feedback(&mut self, peer: usize, now: u64) -> Option<(u8, u8)> {
        let (row, turn) = (&mut self.from[peer], &mut self.turn[peer]);
        let in_turn = (0..MAX_UPLINKS).map(|n| (usize::from(*turn) + n) % MAX_UPLINKS);
        let next = in_turn.clone().find(|&n| row[n].changed).or_else(|| in_turn.clone().find(|&n| row[n].known))?;
        *turn = (next as u8 + 1) % MAX_UPLINKS as u8;
        row[next].changed = false;
        Some((next as u8, row[next].metric.aged(now)))
    }

    /// Congestion on the way to the leaf `peer` behind an uplink of this one.
    pub(crate) fn remote(&self, peer: usize, uplink: u8, now: u64) -> u8 {
        self.to[peer].get(usize::from(uplink)).map_or(0, |metric| metric.aged(now))
    }
}

/// The port of a new flowlet among (port, congestion): the least congested; of several that of the flow's last flowlet, if it is one,
/// or else one at random. `below(n)` draws from 0 to n - 1.
pub(crate) fn choose(
    costs: impl Iterator<Item = (PortId, u8)> + Clone,
    last: Option<PortId>,
    below: impl FnOnce(u64) -> u64,
) -> Option<PortId> {
    let least = costs.clone().map(|(_, cost)| cost).min()?;
    let mut best = costs.filter(|&(_, cost)| cost == least).map(|(port, _)| port);
    if let Some(last) = last.filter(|&last| best.clone().any(|port| port == last)) {
        return Some(last);
    }
    let draw = below(best.clone().count() as u64);
    best.nth(draw as usize)
}

/// All that CONGA adds to a fabric.
#[derive(Clone, Debug)]
pub(crate) struct Conga {
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) flowlets: Vec<Flowlets>,
    /// By node: its place among the leaves.
    leaf_of: Vec<u32>,
    /// By port that leaves a leaf upwards: its LBTag.
    uplink_of: Vec<u8>,
    /// By packet.
    headers: Vec<Header>,
}

impl Conga {
    /// `ports`: by port, the nodes that it leaves and leads to.
    pub(crate) fn new(topology: &Topology, ports: impl Iterator<Item = (NodeId, NodeId)>, gap: Time) -> Conga {
        let leaves = topology.leaves();
        let mut leaf_of = vec![u32::MAX; topology.nodes.len()];
        for (n, &leaf) in leaves.iter().enumerate() {
            leaf_of[leaf as usize] = n as u32;
        }
        let mut next = vec![0u8; leaves.len()];
        let tag = |(from, to): (NodeId, NodeId)| match next.get_mut(leaf_of[from as usize] as usize) {
            Some(n) if !topology.is_host(to) => {
                *n = n.saturating_add(1);
                *n - 1
            }
            _ => u8::MAX,
        };
        Conga {
            leaves: leaves.iter().map(|_| Leaf::new(leaves.len())).collect(),
            flowlets: leaves.iter().map(|_| Flowlets::new(gap)).collect(),
            uplink_of: ports.map(tag).collect(),
            leaf_of,
            headers: Vec::new(),
        }
    }

    /// A leaf's place among the leaves.
    pub(crate) fn leaf(&self, node: NodeId) -> usize {
        self.leaf_of[node as usize] as usize
    }
    pub(crate) fn lbtag(&self, port: PortId) -> u8 {
        self.uplink_of[port as usize]
    }
    /// The header of a packet that a leaf has seen; `packet` must be below `packets`.
    pub(crate) fn header(&mut self, packet: u32, packets: usize) -> &mut Header {
        if self.headers.len() < packets {
            self.headers.resize(packets, Header::NONE);
        }
        &mut self.headers[packet as usize]
    }
}

/// Whether CONGA can work in a fabric: no way between leaves has more than two links, and no leaf has more than 16 uplinks.
///
/// # Errors
/// What is in its way, as the end of a sentence.
pub fn conga_suits(topology: &Topology) -> Result<(), &'static str> {
    let leaves = topology.leaves();
    let uplinks = |leaf: NodeId| topology.neighbours(leaf).iter().filter(|&&(_, to)| !topology.is_host(to)).count();
    if leaves.iter().any(|&leaf| uplinks(leaf) > MAX_UPLINKS) {
        return Err("its overlay header names at most 16 uplinks of a leaf");
    }
    let routes = topology.routes(&[]);
    let reaches = |from: NodeId, to: NodeId| {
        from == to || {
            let mut next = routes.next_hops(from, to).iter().map(|&link| topology.other_end(link, from));
            next.all(|node| node == to || routes.next_hops(node, to).iter().all(|&l| topology.other_end(l, node) == to))
        }
    };
    if leaves.iter().any(|&from| leaves.iter().any(|&to| !reaches(from, to))) {
        return Err("it knows two tiers of switches, and this fabric has more");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn told(lbtag: u8, ce: u8) -> Header {
        Header { lbtag, ce, feedback: None }
    }

    #[test]
    fn feedback_goes_round_and_prefers_what_changed() {
        let mut leaf = Leaf::new(2);
        assert_eq!(leaf.feedback(1, 0), None, "nothing heard, nothing told");
        for lbtag in [0, 1, 5] {
            leaf.received(1, told(lbtag, lbtag), 0);
        }
        let next = |leaf: &mut Leaf| leaf.feedback(1, 0).unwrap();
        assert_eq!([next(&mut leaf), next(&mut leaf), next(&mut leaf)], [(0, 0), (1, 1), (5, 5)], "all are new");
        assert_eq!([next(&mut leaf), next(&mut leaf)], [(0, 0), (1, 1)], "none has changed: in turn");
        leaf.received(1, told(1, 6), 0);
        assert_eq!(next(&mut leaf), (1, 6), "it has changed, so it goes before 5");
        assert_eq!([next(&mut leaf), next(&mut leaf)], [(5, 5), (0, 0)], "told once, it waits for its turn");
        // Changed twice before it is told: the newest value.
        leaf.received(1, told(5, 2), 0);
        leaf.received(1, told(5, 3), 0);
        assert_eq!(next(&mut leaf), (5, 3));
        assert_eq!(leaf.feedback(0, 0), None, "each leaf hears of its own uplinks only");
    }

    #[test]
    fn the_newest_metric_counts_and_ages() {
        let mut leaf = Leaf::new(2);
        let feedback = |lbtag, metric| Header { feedback: Some((lbtag, metric)), ..told(0, 0) };
        assert_eq!(leaf.remote(1, 3, 0), 0, "unknown is uncongested");
        leaf.received(1, feedback(3, 5), 0);
        leaf.received(1, feedback(3, 4), MS);
        assert_eq!(leaf.remote(1, 3, MS), 4);
        assert_eq!((leaf.remote(1, 2, MS), leaf.remote(0, 3, MS)), (0, 0));
        let aged: Vec<u8> = [10, 11, 21, 31, 41, 500].map(|ms| leaf.remote(1, 3, ms * MS)).into();
        assert_eq!(aged, [4, 3, 2, 1, 0, 0]);
    }

    #[test]
    fn numbers_out_of_range_change_nothing() {
        let mut leaf = Leaf::new(1);
        leaf.received(0, Header { feedback: Some((200, 7)), ..Header::NONE }, 0);
        assert_eq!(leaf.feedback(0, 0), None);
        assert_eq!(leaf.remote(0, 200, 0), 0);
    }

    #[test]
    fn a_flow_moves_only_to_a_strictly_better_uplink() {
        let costs = |costs: [u8; 3]| (10..13).zip(costs);
        let none = |_| panic!("no draw is needed");
        assert_eq!(choose(costs([3, 2, 3]), Some(10), |_| 0), Some(11));
        assert_eq!(choose(costs([2, 2, 3]), Some(11), none), Some(11), "a tie with its own");
        assert_eq!(choose(costs([2, 4, 2]), Some(11), |n| n - 1), Some(12), "a tie among others is drawn");
        assert_eq!(choose(costs([2, 4, 2]), None, |_| 0), Some(10));
        assert_eq!(choose(costs([0, 0, 0]), Some(99), |n| n - 1), Some(12), "its own has gone");
        assert_eq!(choose(std::iter::empty(), Some(10), |_| 0), None);
    }
}
