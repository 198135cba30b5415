//! LetFlow and CONGA in a fabric: which ways flowlets take, and what leaves learn of them.

mod common;

use common::{clos, DELAY, FULL, RATE};
use fabric::{conga_suits, Delivery, Event, Fabric, Multipath, Packet, Parallel, RandomLoss, SwitchConfig};
use sim::Scheduler;
use topology::{FatTree, SingleSwitch, Topology};
use units::{BitRate, Time};

const GAP: Time = Time::from_us(100);

#[derive(Clone, Copy, Debug)]
enum Happens {
    Fabric(Event),
    Send(u32),
}

impl From<Event> for Happens {
    fn from(event: Event) -> Happens {
        Happens::Fabric(event)
    }
}

struct Net {
    fabric: Fabric,
    scheduler: Scheduler<Happens>,
    packets: Vec<Packet>,
    delivered: Vec<Packet>,
}

impl Net {
    fn new(topology: &Topology, multipath: Multipath, parallel: Parallel) -> Net {
        Net::seeded(topology, multipath, parallel, 7)
    }
    fn seeded(topology: &Topology, multipath: Multipath, parallel: Parallel, seed: u64) -> Net {
        let switches = SwitchConfig { parallel, ..SwitchConfig::default() };
        let fabric = Fabric::new(topology, &switches, multipath, RandomLoss::default(), Time::ZERO, seed);
        Net { fabric, scheduler: Scheduler::new(), packets: Vec::new(), delivered: Vec::new() }
    }
    fn send_at(&mut self, at: Time, packet: Packet) {
        self.scheduler.schedule(at, packet.src, Happens::Send(self.packets.len() as u32));
        self.packets.push(packet);
    }
    fn fail(&mut self, name: &str) {
        let link = self.fabric.topology().link_named(name).unwrap();
        self.scheduler.schedule(Time::ZERO, 0, Event::Link { link, up: false }.into());
    }
    fn run(&mut self) {
        while let Some(fired) = self.scheduler.pop_until(Time::MAX) {
            match fired.event {
                Happens::Send(n) => {
                    let id = self.fabric.packets.add(self.packets[n as usize]);
                    self.fabric.send(id, &mut self.scheduler);
                }
                Happens::Fabric(event) => {
                    if let Some(Delivery { packet, .. }) = self.fabric.handle(event, &mut self.scheduler) {
                        self.delivered.push(self.fabric.packets.take(packet));
                    }
                }
            }
        }
    }
    /// Packets sent from `from` to `to`, by each of their parallel links.
    fn sent(&self, from: &str, to: &str) -> Vec<u64> {
        let topology = self.fabric.topology();
        let (from, to) = (topology.node_named(from).unwrap(), topology.node_named(to).unwrap());
        let links = topology.neighbours(from).iter().filter(|&&(_, next)| next == to).map(|&(link, _)| link);
        let port = |link: u32| 2 * link + u32::from(topology.links[link as usize].b == from);
        links.map(|link| self.fabric.stats(port(link)).tx_packets).collect()
    }
    fn uplinks(&self) -> Vec<u64> {
        let spines = self.fabric.topology().n_switches() - self.fabric.topology().leaves().len();
        (1..=spines).flat_map(|s| self.sent("leaf1", &format!("spine{s}"))).collect()
    }
}

fn packet(src: u32, dst: u32, flow: u32) -> Packet {
    Packet { src, dst, wire_len: FULL, hash: flow.wrapping_mul(0x9e37_79b9), flow, ..Packet::default() }
}

/// Bursts of three packets of one flow, `pause` apart.
fn bursts(net: &mut Net, n: u32, pause: Time) {
    for burst in 0..n {
        (0..3).for_each(|_| net.send_at(pause * u64::from(burst), packet(0, 4, 1)));
    }
    net.run();
}

#[test]
fn letflow_draws_an_uplink_for_each_flowlet_and_keeps_it() {
    let new = || Net::new(&clos(2, 4, 1, 4), Multipath::LetFlow { gap: GAP }, Parallel::Hash);
    let mut net = new();
    bursts(&mut net, 400, GAP * 2);
    let uplinks = net.uplinks();
    assert_eq!(uplinks.iter().sum::<u64>(), 1_200);
    assert!(uplinks.iter().all(|&n| n % 3 == 0), "no flowlet is divided: {uplinks:?}");
    assert!(uplinks.iter().all(|&n| (200..400).contains(&n)), "each is as likely: {uplinks:?}");

    let mut steady = new();
    bursts(&mut steady, 400, Time::from_us(50));
    let used: Vec<u64> = steady.uplinks().into_iter().filter(|&n| n > 0).collect();
    assert_eq!(used, [1_200], "without a pause above the gap it is one flowlet");

    let mut again = new();
    bursts(&mut again, 400, GAP * 2);
    assert_eq!(again.uplinks(), uplinks, "the same seed");
}

#[test]
fn letflow_leaves_a_link_that_the_tables_have_lost() {
    let mut net = Net::new(&clos(2, 2, 1, 4), Multipath::LetFlow { gap: Time::from_secs(1) }, Parallel::Hash);
    (0..100).for_each(|n| net.send_at(Time::from_us(10) * n, packet(0, 4, 1)));
    let mut whole = Net::new(&clos(2, 2, 1, 4), Multipath::LetFlow { gap: Time::from_secs(1) }, Parallel::Hash);
    whole.send_at(Time::ZERO, packet(0, 4, 1));
    whole.run();
    // The link of the flow's only flowlet fails half-way.
    let spine = if whole.sent("leaf1", "spine1") == [1] { 1 } else { 2 };
    let link = net.fabric.topology().link_named(&format!("leaf1-spine{spine}")).unwrap();
    net.scheduler.schedule(Time::from_us(505), 0, Event::Link { link, up: false }.into());
    net.run();
    assert!(net.delivered.len() >= 98, "all but those under way arrive: {}", net.delivered.len());
    assert!(net.uplinks().iter().all(|&n| n >= 45), "{:?}", net.uplinks());
}

/// A flow from each of the first hosts of leaf 1 to leaf 2, and one small packet back for every flowlet. Eight use a third of
/// two uplinks.
fn both_ways(net: &mut Net, flows: u32, rounds: u64) {
    let mut jitter = sim::Stream::new(1, 0, sim::Purpose::Arrivals);
    for n in 0..rounds {
        for flow in 0..flows {
            // Each burst is a flowlet of 20 packets, 25 us of one uplink.
            let at = Time::from_us(300 * n + jitter.below(150));
            (0..20).for_each(|_| net.send_at(at, packet(flow, 16 + flow, flow)));
            net.send_at(at + Time::from_us(40), Packet { wire_len: 84, ..packet(16 + flow, flow, 100 + flow) });
        }
    }
    net.run();
}

#[test]
fn conga_balances_by_local_load() {
    // A flow that meets nobody stays where it is, so one run may be uneven.
    let first = (1..=10).map(|seed| {
        let mut net = Net::seeded(&clos(2, 2, 1, 16), Multipath::Conga { gap: GAP }, Parallel::Hash, seed);
        both_ways(&mut net, 8, 200);
        let uplinks = net.uplinks();
        assert_eq!(uplinks.iter().sum::<u64>(), 32_000);
        assert!(uplinks.iter().all(|&n| (12_000..20_000).contains(&n)), "{uplinks:?}");
        assert_eq!(net.delivered.len(), 33_600);
        uplinks[0]
    });
    let mean = first.sum::<u64>() / 10;
    assert!((14_000..18_000).contains(&mean), "{mean}");
}

#[test]
fn conga_avoids_an_uplink_that_others_load() {
    let new = |multipath| {
        let mut net = Net::new(&clos(3, 2, 1, 16), multipath, Parallel::Hash);
        // Labelled packets to a third leaf take four fifths of one uplink, and of no link to the second leaf.
        let others = 39_000;
        (0..others).for_each(|n| net.send_at(Time::from_ns(1_538) * n, Packet { label: 1, ..packet(8, 40, 200) }));
        both_ways(&mut net, 6, 200);
        let uplinks = net.uplinks();
        assert_eq!(uplinks.iter().sum::<u64>(), 24_000 + others);
        let loaded = uplinks.iter().copied().max().unwrap() - others;
        (loaded, 24_000 - loaded)
    };
    let (aware, blind) = (new(Multipath::Conga { gap: GAP }), new(Multipath::LetFlow { gap: GAP }));
    assert!(aware.0 * 4 < aware.1, "{aware:?}");
    assert!(blind.0 * 2 > blind.1, "flowlets alone: {blind:?}");
}

#[test]
fn conga_learns_of_a_bottleneck_behind_the_spine() {
    let new = |multipath| {
        let mut net = Net::new(&clos(2, 2, 1, 16), multipath, Parallel::Hash);
        let slow = net.fabric.topology().link_named("leaf2-spine1").unwrap();
        net.fabric.set_wire(slow, BitRate::from_gbps(2), DELAY, Time::ZERO);
        both_ways(&mut net, 6, 200);
        net.uplinks()
    };
    let (aware, blind) = (new(Multipath::Conga { gap: GAP }), new(Multipath::LetFlow { gap: GAP }));
    assert_eq!(aware.iter().sum::<u64>(), 24_000);
    assert!(aware[0] * 4 < aware[1], "the local links are alike, only feedback can tell: {aware:?}");
    assert!(blind[0] * 2 > blind[1], "flowlets alone: {blind:?}");
}

#[test]
fn conga_needs_two_tiers_and_few_uplinks() {
    let fat =
        FatTree { k: 4, hosts_per_edge: 2, host_rate: RATE, host_delay: DELAY, fabric_rate: RATE, fabric_delay: DELAY };
    assert!(conga_suits(&fat.build().unwrap()).unwrap_err().contains("tiers"));
    assert!(conga_suits(&clos(2, 17, 1, 1)).unwrap_err().contains("16 uplinks"));
    assert_eq!(conga_suits(&clos(3, 8, 2, 2)), Ok(()));
    assert_eq!(conga_suits(&SingleSwitch { hosts: 4, host_rate: RATE, host_delay: DELAY }.build().unwrap()), Ok(()));
}

/// 400 flows of one packet each, or of each label.
fn spread(net: &mut Net, labels: u16) {
    for flow in 0..400u32 {
        let label = if labels == 0 { 0 } else { 1 + flow as u16 % labels };
        net.send_at(Time::from_us(2) * u64::from(flow), Packet { label, ..packet(0, 4, flow) });
    }
    net.run();
}

#[test]
fn in_order_joins_the_parallel_links_of_a_spine() {
    let topology = clos(2, 2, 2, 4);
    let mut hashed = Net::new(&topology, Multipath::Ecmp, Parallel::Hash);
    spread(&mut hashed, 0);
    let mut net = Net::new(&topology, Multipath::Ecmp, Parallel::InOrder);
    spread(&mut net, 0);
    assert_eq!(net.uplinks(), hashed.uplinks(), "leaves hash as before");
    for spine in ["spine1", "spine2"] {
        assert_eq!(net.sent("leaf1", spine), net.sent(spine, "leaf2"));
        assert_ne!(hashed.sent("leaf1", spine), hashed.sent(spine, "leaf2"));
    }
}

#[test]
fn in_order_keeps_hashes_and_labels_on_their_spine_when_a_link_behind_it_fails() {
    let topology = clos(2, 2, 2, 4);
    for labels in [0, 4] {
        let mut net = Net::new(&topology, Multipath::Ecmp, Parallel::InOrder);
        net.fail("leaf2-spine2#2");
        spread(&mut net, labels);
        assert_eq!(net.delivered.len(), 400);
        let (up, down) = (net.sent("leaf1", "spine2"), net.sent("spine2", "leaf2"));
        assert_eq!(down, [up.iter().sum::<u64>(), 0], "both of its links lead to the one that is left");
        assert!(up.iter().all(|&n| n > 60), "the leaf does not know: {up:?}");
    }
    // A leaf whose own uplink is down takes another whole tree.
    let mut net = Net::new(&topology, Multipath::Ecmp, Parallel::InOrder);
    net.fail("leaf1-spine2#2");
    spread(&mut net, 4);
    assert_eq!(net.delivered.len(), 400);
    assert_eq!(net.sent("leaf1", "spine2")[1], 0);
}
