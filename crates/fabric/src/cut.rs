//! How a fabric is cut into parts for several threads.
//!
//! Mail between parts costs half as much as a hop, so each thread has one large part. The first has all hosts and, if that is less than
//! a thread's share, racks' switches. It makes no difference whether mail goes between these switches and their hosts or between them
//! and the rest. The other large parts have whole pods, and what is above them. What fits into none of them is in small parts with a
//! rack's switch or two. None is made on purpose: its mail costs more than it brings by keeping threads busy.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use topology::{Link, LinkId, NodeId, Topology};
use units::Time;

/// Which part each node belongs to.
#[derive(Clone, Debug)]
pub struct Cut {
    /// By node; hosts are in part 0.
    owner: Arc<[u16]>,
    pub(crate) parts: usize,
    lookahead: Time,
}

/// Windows shorter than this hold next to nothing.
const LEAST_LOOKAHEAD: Time = Time::from_ns(50);
/// Parts for each thread: enough that loads even out, and no more, because every part knows all ports.
const PARTS_PER_THREAD: usize = 4;
/// What the model does at a host for each bit of its link, against what it does at a switch for each bit of one of its own: counted
/// in docs/performance.md.
const HOST_COST: u64 = 6;
const SWITCH_COST: u64 = 2;
/// No packet takes less time to send than so many octets, not even at a port that catches up.
const LEAST_PACKET: u64 = 64;

impl Cut {
    /// Cuts a fabric for so many threads. Switches that shorter links join than those between hosts and switches stay together.
    ///
    /// # Errors
    /// Why it is not cut, as the end of a sentence.
    pub fn new(topology: &Topology, threads: usize) -> Result<Cut, String> {
        let delay = |link: LinkId| topology.links[link as usize].delay;
        let access = topology.hosts().map(|host| delay(topology.host_link(host))).min().unwrap_or(Time::ZERO);
        if access < LEAST_LOOKAHEAD {
            return Err(format!("a host's link has a delay of {access}, and {LEAST_LOOKAHEAD} are needed"));
        }
        let owner = Plan::new(topology, access, threads.clamp(2, 1024)).owners(topology);
        let parts = usize::from(owner.iter().copied().max().unwrap_or(0)) + 1;
        // Two short links may have joined switches that long ones join, too: those count for nothing.
        let between = topology.links.iter().filter(|link| owner[link.a as usize] != owner[link.b as usize]);
        let least = |link: &Link| link.delay.saturating_add(link.rate.tx_time(LEAST_PACKET));
        let lookahead = between.map(least).min().unwrap_or(access);
        Ok(Cut { owner: owner.into(), parts, lookahead })
    }

    /// The least time from a packet's start at one part to its arrival at another.
    pub fn lookahead(&self) -> Time {
        self.lookahead
    }

    /// The part of a node.
    pub fn owner(&self, node: NodeId) -> usize {
        usize::from(self.owner[node as usize])
    }
}

/// Disjoint sets of nodes; each names another of its set, or itself.
struct Sets(Vec<NodeId>);

impl Sets {
    fn find(&mut self, mut node: NodeId) -> NodeId {
        while self.0[node as usize] != node {
            let above = self.0[self.0[node as usize] as usize];
            self.0[node as usize] = above;
            node = above;
        }
        node
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// Switches that stay together, by the first of them.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: NodeId,
    cost: u64,
    has_hosts: bool,
}

fn rate(topology: &Topology, link: LinkId) -> u64 {
    topology.links[link as usize].rate.as_bps()
}

/// A cut in the making.
struct Plan {
    /// Of switches that stay together, and of pods.
    groups: Sets,
    pods: Sets,
    threads: usize,
    /// The most of a large part.
    large: u64,
    /// What parts have to do: the large one of each thread, that of the hosts first, then the small ones.
    loads: Vec<u64>,
}

impl Plan {
    /// Before any switch has a part; `access` is the least delay of a host's link.
    fn new(topology: &Topology, access: Time, threads: usize) -> Plan {
        let mut groups = Sets((0..topology.nodes.len() as NodeId).collect());
        let mut pods = Sets(groups.0.clone());
        let top = topology.switches().filter_map(|switch| topology.tier(switch)).max();
        for link in topology.fabric_links() {
            let ends = topology.links[link as usize];
            let short = ends.delay < access;
            if short {
                groups.join(ends.a, ends.b);
            }
            if short || topology.tier(ends.a) < top && topology.tier(ends.b) < top {
                pods.join(ends.a, ends.b);
            }
        }
        let mut loads = vec![0; threads];
        loads[0] = topology.hosts().map(|host| HOST_COST * rate(topology, topology.host_link(host))).sum();
        let of = |switch| topology.neighbours(switch).iter().map(move |&(link, _)| SWITCH_COST * rate(topology, link));
        let all = loads[0] + topology.switches().flat_map(of).sum::<u64>();
        Plan { groups, pods, threads, large: all / threads as u64, loads }
    }

    fn all_groups(&mut self, topology: &Topology) -> Vec<Group> {
        let mut groups: Vec<Group> =
            (0..topology.nodes.len() as NodeId).map(|first| Group { first, cost: 0, has_hosts: false }).collect();
        for switch in topology.switches() {
            let group = &mut groups[self.groups.find(switch) as usize];
            for &(link, node) in topology.neighbours(switch) {
                group.cost += SWITCH_COST * rate(topology, link);
                group.has_hosts |= topology.is_host(node);
            }
        }
        groups.retain(|group| group.cost > 0);
        groups
    }

    fn fits(&self, part: usize, cost: u64) -> bool {
        self.loads[part] + cost <= self.large
    }

    fn least(&self, of: Range<usize>) -> usize {
        of.min_by_key(|&part| self.loads[part]).unwrap_or(0)
    }

    /// A part other than the hosts', a large one if it has room.
    fn place(&mut self, cost: u64) -> usize {
        let least = self.least(1..self.threads);
        if self.fits(least, cost) {
            return least;
        }
        if self.loads.len() < PARTS_PER_THREAD * self.threads {
            self.loads.push(0);
        }
        self.least(self.threads..self.loads.len())
    }

    /// The part of every node.
    fn owners(mut self, topology: &Topology) -> Vec<u16> {
        let (racks, trunks): (Vec<Group>, Vec<Group>) =
            self.all_groups(topology).into_iter().partition(|group| group.has_hosts);
        let mut of_pods: BTreeMap<NodeId, u64> = BTreeMap::new();
        for trunk in &trunks {
            *of_pods.entry(self.pods.find(trunk.first)).or_default() += trunk.cost;
        }
        let mut of_pods: Vec<(NodeId, u64)> = of_pods.into_iter().collect();
        of_pods.sort_by_key(|&(_, cost)| Reverse(cost));
        let mut home: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (pod, cost) in of_pods {
            let part = self.place(cost);
            self.loads[part] += cost;
            home.insert(pod, part);
        }
        let mut part_of = vec![0; topology.nodes.len()];
        for trunk in trunks {
            part_of[trunk.first as usize] = home[&self.pods.find(trunk.first)];
        }
        // Who lists hosts begins with the first ones: their racks are the last to share a part with all hosts.
        for rack in racks.into_iter().rev() {
            let near = home.get(&self.pods.find(rack.first)).copied();
            let part = [Some(0), near].into_iter().flatten().find(|&part| self.fits(part, rack.cost));
            let part = part.unwrap_or_else(|| self.place(rack.cost));
            self.loads[part] += rack.cost;
            part_of[rack.first as usize] = part;
        }
        // A large part that nothing fits into is none.
        let mut n_parts = 0;
        let mut number = |&load: &u64| {
            n_parts += u16::from(load > 0);
            n_parts.saturating_sub(1)
        };
        let numbers: Vec<u16> = self.loads.iter().map(&mut number).collect();
        let mut owners = vec![0; topology.nodes.len()];
        for switch in topology.switches() {
            owners[switch as usize] = numbers[part_of[self.groups.find(switch) as usize]];
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use topology::{Clos, FatTree, SingleSwitch};
    use units::BitRate;

    const RATE: BitRate = BitRate::from_gbps(10);
    const DELAY: Time = Time::from_us(1);
    /// With a packet of 64 octets.
    const LOOKAHEAD: Time = Time::from_ps(1_051_200);

    fn fat_tree(k: u32) -> Topology {
        let hosts_per_edge = k / 2;
        FatTree { k, hosts_per_edge, host_rate: RATE, host_delay: DELAY, fabric_rate: RATE, fabric_delay: DELAY }
            .build()
            .unwrap()
    }

    /// What each part has to do, as estimated.
    fn costs(topology: &Topology, cut: &Cut) -> Vec<u64> {
        let mut costs = vec![0; cut.parts];
        for (number, link) in (0..).zip(&topology.links) {
            for end in [link.a, link.b] {
                let cost = if topology.is_host(end) { HOST_COST } else { SWITCH_COST };
                costs[cut.owner(end)] += cost * rate(topology, number);
            }
        }
        costs
    }

    #[test]
    fn two_threads_have_a_large_part_each_and_most_of_the_work_in_them() {
        for k in [8, 12, 16] {
            let topology = fat_tree(k);
            let cut = Cut::new(&topology, 2).unwrap();
            let costs = costs(&topology, &cut);
            let half = costs.iter().sum::<u64>() / 2;
            assert!(costs[..2].iter().all(|&cost| cost * 16 >= half * 15 && cost <= half), "k = {k}: {costs:?}");
            assert!(costs.len() <= 8 && cut.lookahead() == LOOKAHEAD);
            // The last host's rack is with all hosts, the first one's is not; pods and core switches are in one part.
            let rack = |host| cut.owner(topology.leaf_of(host));
            assert!(rack(topology.n_hosts() as u32 - 1) == 0 && rack(0) > 0, "k = {k}");
            let others = topology.switches().filter(|&switch| topology.hosts_of(switch).next().is_none());
            assert!(others.map(|switch| cut.owner(switch)).all(|part| part == 1), "k = {k}");
        }
    }

    #[test]
    fn with_many_threads_hosts_are_the_largest_part() {
        let topology = fat_tree(8);
        let cut = Cut::new(&topology, 16).unwrap();
        let costs = costs(&topology, &cut);
        assert!(costs.len() >= 16 && costs[1..].iter().all(|&cost| cost * 4 <= costs[0]), "{costs:?}");
        assert!(topology.switches().all(|switch| cut.owner(switch) > 0));
    }

    #[test]
    fn what_short_links_join_stays_together() {
        let spines = 4;
        let fabric = |fabric_delay| {
            Clos {
                leaves: 4,
                spines,
                parallel_links: 1,
                hosts_per_leaf: 4,
                host_rate: RATE,
                host_delay: DELAY,
                fabric_rate: RATE,
                fabric_delay,
            }
            .build()
            .unwrap()
        };
        let parts = |delay| {
            let topology = fabric(delay);
            let cut = Cut::new(&topology, 3).unwrap();
            let of: BTreeSet<usize> = topology.switches().map(|switch| cut.owner(switch)).collect();
            (of.len(), cut.lookahead())
        };
        assert_eq!(parts(Time::from_ns(600)), (1, LOOKAHEAD));
        assert_eq!(parts(Time::from_us(3)), (2, LOOKAHEAD));
        let switch = SingleSwitch { hosts: 4, host_rate: RATE, host_delay: DELAY }.build().unwrap();
        assert_eq!(Cut::new(&switch, 3).unwrap().parts, 2);
        let near = SingleSwitch { hosts: 4, host_rate: RATE, host_delay: Time::from_ns(10) }.build().unwrap();
        assert!(Cut::new(&near, 2).unwrap_err().contains("10ns"));
    }
}
