//! Claims that a computation decides: laws and counts of the papers against the project's own code.

use edge::{Balance, Config, Direction, Edge, Slot};
use fabric::Buffer;
use host::workload::Cdf;
use proptest::prelude::*;
use selvedge::repro::{embedded, Experiment, Mode, Point};
use topology::{Clos, Topology};
use units::{BitRate, Bytes, Time};
use wire::{proto, tcp, v4, Packet};

const FLOWCELL: Bytes = Bytes::kib(64);
const RATE: BitRate = BitRate::from_gbps(10);

fn edge(balance: Balance, labels: &[u16]) -> Edge {
    let mut edge = Edge::new(Config { balance, ..Config::default() });
    edge.set_default_schedule(labels);
    edge
}

/// Label and flowcell of a guest's segment.
fn send(edge: &mut Edge, sport: u16, seq: u32, payload: u32) -> (u16, u32) {
    let mut packet = Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 0, 2]),
        sport,
        dport: 80,
        seq,
        payload,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    };
    edge.process(Time::ZERO, Direction::Egress, Slot(0), &mut packet);
    (packet.label, packet.cell)
}

fn clos(leaves: u32, spines: u32, hosts_per_leaf: u32) -> Topology {
    let delay = Time::from_us(1);
    Clos {
        leaves,
        spines,
        parallel_links: 1,
        hosts_per_leaf,
        host_rate: RATE,
        host_delay: delay,
        fabric_rate: RATE,
        fabric_delay: delay,
    }
    .build()
    .unwrap()
}

fn points(file: &str) -> Vec<Point> {
    let (_, text) = embedded().find(|(name, _)| *name == file).unwrap();
    Experiment::parse(file, text).unwrap().points(Mode::Paper, &|_| true).unwrap()
}

proptest! {
    #[test]
    fn every_list_of_segments_is_stamped_as_algorithm_1_says(
        lengths in prop::collection::vec(1..=65_536u32, 1..200),
        schedule in prop::collection::vec(1..=8u16, 1..12),
    ) {
        let mut edge = edge(Balance::flowcell(FLOWCELL), &schedule);
        let stamps: Vec<(u16, u32)> = lengths.iter().map(|&length| send(&mut edge, 1, 0, length)).collect();
        let (mut bytes, mut cell, mut cells) = (0, 0, Vec::new());
        for &length in &lengths {
            if bytes + length > 65_536 {
                (bytes, cell) = (0, cell + 1);
            }
            bytes += length;
            cells.push(cell);
        }
        prop_assert_eq!(stamps.iter().map(|stamp| stamp.1).collect::<Vec<_>>(), &cells[..]);
        // Where a flow starts in the schedule is not printed.
        let of = |start: usize, cell: u32| schedule[(start + cell as usize) % schedule.len()];
        let labels: Vec<u16> = stamps.iter().map(|stamp| stamp.0).collect();
        let fits = |start| cells.iter().zip(&labels).all(|(&cell, &label)| of(start, cell) == label);
        prop_assert!((0..schedule.len()).any(fits), "{:?}", labels);
    }

    #[test]
    fn a_mouse_is_one_flowcell_on_one_path(
        sport in 1..u16::MAX,
        lengths in prop::collection::vec(0..6_553u32, 1..10),
    ) {
        let mut edge = edge(Balance::flowcell(FLOWCELL), &[1, 2, 3, 4]);
        let first = send(&mut edge, sport, 0, 0);
        prop_assert_eq!(first.1, 0);
        for length in lengths {
            prop_assert_eq!(send(&mut edge, sport, 0, length), first);
        }
    }
}

#[test]
fn a_repeated_segment_is_stamped_anew() {
    let mut edge = edge(Balance::flowcell(FLOWCELL), &[1, 2, 3, 4]);
    let mut cell = |seq, payload| send(&mut edge, 1, seq, payload).1;
    assert_eq!([cell(0, 60_000), cell(60_000, 6_000)], [0, 1]);
    assert_eq!(cell(0, 50_000), 1, "the number in force, not the first one");
    assert_eq!(cell(66_000, 10_000), 2, "its bytes count again: 6, 50 and 10 KB are more than a flowcell");
}

#[test]
fn a_flowcell_is_some_forty_packets() {
    let packets = |segment_size| Packet { payload: 65_536, segment_size, ..Packet::default() }.packet_count();
    assert_eq!(packets(1500), 44, "as the chapter on limiters counts");
    for size in [1448, 1460, 1500] {
        assert!((42..=46).contains(&packets(size)), "{size}: {}", packets(size));
    }
}

#[test]
fn labels_and_rules_of_a_clos() {
    let eight = clos(2, 8, 2).trees(&[]).len();
    assert_eq!(288_000 / eight, 36_000);
    let testbed = clos(4, 4, 4);
    let trees = testbed.trees(&[]).len();
    let (labels, rules) = (testbed.hosts().len() * trees, testbed.leaves().len() * trees);
    assert_eq!((labels, rules), (64, 16));
}

#[test]
fn two_tiers_reach_ten_thousand_hosts() {
    let fabric = clos(142, 71, 71);
    assert!(fabric.hosts().len() >= 10_000);
    for switch in fabric.switches() {
        assert_eq!(fabric.neighbours(switch).len(), 142, "ports of {switch}");
    }
}

#[test]
fn turns_are_more_even_than_hashes() {
    let labels: Vec<u16> = (1..=8).collect();
    let imbalances = |balance: Balance, one_flow: bool| -> Vec<u32> {
        let mut edge = edge(balance, &labels);
        let mut counts = [0u32; 8];
        (0..1000u16)
            .map(|n| {
                let (label, _) = send(&mut edge, if one_flow { 1 } else { n + 1 }, 0, 65_536);
                counts[usize::from(label) - 1] += 1;
                counts.iter().max().unwrap() - counts.iter().min().unwrap()
            })
            .collect()
    };
    let turns = imbalances(Balance::flowcell(FLOWCELL), true);
    let hashes = imbalances(Balance::random_path(), false);
    assert!(turns.iter().all(|&imbalance| imbalance <= 1), "{turns:?}");
    assert!(turns.iter().zip(&hashes).all(|(turn, hash)| turn <= hash) && *hashes.last().unwrap() > 1, "{hashes:?}");
}

#[test]
fn most_flows_are_small_and_most_bytes_are_not() {
    // The law of Presto's trace; of web search's flows 47% are below 64 KB.
    let law = Cdf::built_in("datamining").unwrap();
    let sizes: Vec<u64> = (0..100_000).map(|n| law.size_at((f64::from(n) + 0.5) / 100_000.0)).collect();
    let small: Vec<u64> = sizes.iter().copied().filter(|&size| size < FLOWCELL.0).collect();
    assert!(2 * small.len() > sizes.len(), "{} of {}", small.len(), sizes.len());
    assert!(2 * small.iter().sum::<u64>() < sizes.iter().sum::<u64>());
}

#[test]
fn most_losses_are_inside_a_flowcell() {
    for segment_size in [1448, 1460, 1500] {
        let packets = Packet { payload: 65_536, segment_size, ..Packet::default() }.packet_count();
        let inside = (0..packets).filter(|&n| n != 0 && n != packets - 1).count();
        assert!(inside as f64 / f64::from(packets) >= 0.9, "{inside} of {packets}");
    }
}

#[test]
fn a_port_fills_within_the_cited_times() {
    for point in points("presto/fig15.toml") {
        for scheme in &point.plan.schemes {
            let Buffer::Shared { total, alpha } = scheme.template().switches.buffer else { panic!("not shared") };
            // Alone, a port may hold the part of the buffer at which alpha times the rest equals it. Two senders at line
            // rate overload it by one.
            let most = Bytes((total.0 as f64 * alpha / (1.0 + alpha)) as u64);
            let fills = RATE.tx_time(most.0);
            assert!((Time::from_us(100)..=Time::from_ms(4)).contains(&fills), "{}: {fills}", scheme.name);
        }
    }
}

#[test]
fn both_ends_of_the_flowlet_gaps_are_run() {
    let points = points("presto/fig13.toml");
    let gap = |name: &str| {
        let plan = points[0].plan.schemes.iter().find(|scheme| scheme.name == name).unwrap();
        plan.template().edge.balance
    };
    assert_eq!(gap("flowlet-100us"), Balance::flowlet(Time::from_us(100)));
    assert_eq!(gap("flowlet-500us"), Balance::flowlet(Time::from_us(100) * 5));
}

#[test]
fn eight_flows_over_two_paths_are_four_times_too_many() {
    let mut seen = Vec::new();
    for point in points("presto/fig10.toml") {
        let plan = point.plan.schemes.iter().find(|scheme| scheme.name == "presto").unwrap();
        let fabric = &plan.template().topology;
        let leaf = fabric.leaves()[0];
        let sources = fabric.hosts_of(leaf).count();
        let paths = fabric.neighbours(leaf).len() - sources;
        assert_eq!(point.label, format!("flows={sources}"));
        seen.push(sources as f64 / paths as f64);
    }
    assert_eq!((seen.first(), seen.last()), (Some(&1.0), Some(&4.0)));
}

#[test]
fn a_thousand_flows_of_bursts_fill_the_link() {
    for burst in [Bytes(128_000), Bytes::kib(128)] {
        let bits_per_second = burst.0 * 8 * 10;
        assert!((1.0..=1.06).contains(&(bits_per_second as f64 / 10e6)), "{burst}");
        assert!(1000 * bits_per_second >= RATE.as_bps());
    }
}

#[test]
fn a_threshold_of_100_kb_is_far_above_theory() {
    for round_trip in [Time::from_us(116), Time::from_us(200)] {
        let theory = BitRate::from_gbps(2).bytes_in(round_trip) / 7;
        assert!(100_000 >= 5 * theory, "{theory}");
    }
}

/// Clove sections 5 and 5.2.
#[test]
fn the_fabric_of_clove_has_four_paths_and_loses_a_quarter() {
    let points = points("clove/fig4c.toml");
    let template = points[0].plan.schemes[0].template();
    let mut fabric = template.topology.clone();
    assert_eq!((fabric.bisection_rate(), fabric.oversubscription()), (BitRate::from_gbps(160), 1.0));
    let (from, to) = (fabric.leaves()[0], fabric.leaves()[1]);
    let paths: Vec<_> = fabric.trees(&[]).iter().map(|tree| tree.path(from, to).unwrap()).collect();
    let links: std::collections::BTreeSet<_> = paths.iter().flatten().collect();
    assert_eq!((paths.len(), links.len()), (4, 8), "they share nothing");

    let [failure] = template.failures[..] else { panic!("one link fails") };
    let weights = fabric.pair_weights(from, to, &[failure.link]);
    let all: f64 = weights.iter().sum();
    let over = |spine: &str| -> f64 {
        let ends_there = |path: &Vec<u32>| fabric.nodes[fabric.other_end(path[0], from) as usize].name == spine;
        paths.iter().zip(&weights).filter(|(path, _)| ends_there(path)).map(|(_, weight)| weight / all).sum()
    };
    assert!((over("spine1") - 2.0 / 3.0).abs() < 1e-9 && (over("spine2") - 1.0 / 3.0).abs() < 1e-9);
    fabric.links[failure.link as usize].rate = BitRate::from_bps(0);
    assert_eq!(fabric.bisection_rate(), BitRate::from_gbps(120));
}
