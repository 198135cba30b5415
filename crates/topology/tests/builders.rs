//! Builders: the shapes they give, and what they say to bad fields.

use topology::{Clos, Dumbbell, FatTree, NodeKind, ParkingLot, SingleSwitch, Topology, TopologyError};
use units::{BitRate, Time};

const HOST: BitRate = BitRate::from_gbps(10);
const FABRIC: BitRate = BitRate::from_gbps(40);
const NEAR: Time = Time::from_ns(500);
const FAR: Time = Time::from_us(2);

const CLOS: Clos = Clos {
    leaves: 4,
    spines: 3,
    parallel_links: 2,
    hosts_per_leaf: 5,
    host_rate: HOST,
    host_delay: NEAR,
    fabric_rate: FABRIC,
    fabric_delay: FAR,
};
const FAT_TREE: FatTree =
    FatTree { k: 8, hosts_per_edge: 4, host_rate: HOST, host_delay: NEAR, fabric_rate: FABRIC, fabric_delay: FAR };
const SINGLE: SingleSwitch = SingleSwitch { hosts: 16, host_rate: HOST, host_delay: NEAR };
const DUMBBELL: Dumbbell =
    Dumbbell { pairs: 3, host_rate: HOST, host_delay: NEAR, bottleneck_rate: FABRIC, bottleneck_delay: FAR };
const LOT: ParkingLot = ParkingLot { hops: 3, host_rate: HOST, host_delay: NEAR, hop_rate: FABRIC, hop_delay: FAR };

/// Nodes, hosts, leaves, links.
fn shape(fabric: &Topology) -> (usize, usize, usize, usize) {
    (fabric.nodes.len(), fabric.n_hosts(), fabric.leaves().len(), fabric.links.len())
}

fn check_invariants(fabric: &Topology) {
    for host in fabric.hosts() {
        let link = fabric.links[fabric.host_link(host) as usize];
        assert_eq!((link.a, link.b, link.rate, link.delay), (host, fabric.leaf_of(host), HOST, NEAR));
        assert_eq!(fabric.neighbours(host), [(host, fabric.leaf_of(host))]);
        assert_eq!(fabric.nodes[host as usize].kind, NodeKind::Host);
    }
    for id in fabric.fabric_links() {
        let link = fabric.links[id as usize];
        assert!((fabric.tier(link.a), link.a) < (fabric.tier(link.b), link.b), "lower end first");
        assert_eq!((link.rate, link.delay), (FABRIC, FAR));
        assert_eq!((fabric.other_end(id, link.a), fabric.other_end(id, link.b)), (link.b, link.a));
    }
    for switch in fabric.switches() {
        let ports = fabric.neighbours(switch);
        assert!(ports.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(fabric.leaves().contains(&switch), fabric.hosts_of(switch).next().is_some());
        for &(link, next) in ports {
            assert_eq!(fabric.other_end(link, switch), next);
        }
    }
    for id in 0..fabric.links.len() as u32 {
        assert_eq!(fabric.link_named(&fabric.link_name(id)), Some(id), "{}", fabric.link_name(id));
    }
    assert_eq!(fabric.layout().len(), fabric.nodes.len());
    assert!(fabric.layout().iter().all(|&(x, y)| (0.0..=1.0).contains(&x) && (0.0..=1.0).contains(&y)));
}

#[test]
fn every_builder_keeps_the_invariants() {
    for (fabric, expected) in [
        (CLOS.build(), (27, 20, 4, 20 + 4 * 3 * 2)),
        (FAT_TREE.build(), (128 + 80, 128, 32, 3 * 128)),
        (FatTree { k: 2, hosts_per_edge: 1, ..FAT_TREE }.build(), (2 + 5, 2, 2, 6)),
        // 32 edge switches of 12 hosts; edge and aggregation switches keep their 4 links up.
        (FatTree { hosts_per_edge: 12, ..FAT_TREE }.build(), (384 + 80, 384, 32, 384 + 2 * 128)),
        (SINGLE.build(), (17, 16, 1, 16)),
        (DUMBBELL.build(), (8, 6, 2, 7)),
        (LOT.build(), (12, 8, 4, 11)),
        (ParkingLot { hops: 1, ..LOT }.build(), (6, 4, 2, 5)),
    ] {
        let fabric = fabric.unwrap();
        assert_eq!(shape(&fabric), expected);
        check_invariants(&fabric);
    }
}

#[test]
fn every_switch_of_a_fat_tree_has_k_ports() {
    let fabric = FAT_TREE.build().unwrap();
    assert!(fabric.switches().all(|s| fabric.neighbours(s).len() == 8));
    // The i-th aggregation switch of each pod reaches the i-th group of cores.
    assert!(fabric.link_named("agg3.2-core5").is_some() && fabric.link_named("agg3.2-core4").is_none());
}

#[test]
fn a_parking_lot_hangs_its_hosts_where_it_says() {
    let fabric = LOT.build().unwrap();
    let switch: Vec<&str> = fabric.hosts().map(|h| fabric.nodes[fabric.leaf_of(h) as usize].name.as_str()).collect();
    assert_eq!(
        switch,
        ["switch1", "switch4", "switch1", "switch2", "switch2", "switch3", "switch3", "switch4"],
        "through, then a pair for each hop"
    );
}

#[test]
fn links_have_names() {
    let fabric = CLOS.build().unwrap();
    let id = |name| fabric.link_named(name);
    assert_eq!(id("host0-leaf1"), Some(0));
    assert_eq!(id("leaf1-spine1"), Some(20));
    assert_eq!(id("leaf1-spine1#1"), id("leaf1-spine1"));
    assert_eq!(id("spine2-leaf1#2"), Some(23));
    assert_eq!(fabric.link_name(23), "leaf1-spine2#2");
    for none in ["", "-", "leaf1", "leaf1-leaf2", "leaf1-spine4", "leaf1-spine1#3", "leaf1-spine1#0", "leaf1-spine1#x"]
    {
        assert_eq!(id(none), None, "{none:?}");
    }
}

#[test]
fn bad_fields_are_named_with_a_remedy() {
    let slow = BitRate::from_bps(999);
    let long = Time::from_secs(11);
    for (result, message) in [
        (Clos { leaves: 0, ..CLOS }.build(), "leaves is 0: give at least 1"),
        (Clos { spines: 0, ..CLOS }.build(), "spines is 0: give at least 1"),
        (Clos { parallel_links: 0, ..CLOS }.build(), "parallel_links is 0: give at least 1"),
        (Clos { hosts_per_leaf: 0, ..CLOS }.build(), "hosts_per_leaf is 0: give at least 1"),
        (Clos { fabric_rate: slow, ..CLOS }.build(), "fabric_rate is 999bps: give a rate from 1Kbps to 100Tbps"),
        (
            Clos { host_rate: BitRate::default(), ..CLOS }.build(),
            "host_rate is 0bps: give a rate from 1Kbps to 100Tbps",
        ),
        (Clos { host_delay: long, ..CLOS }.build(), "host_delay is 11s: give a delay up to 10s"),
        (FatTree { k: 7, ..FAT_TREE }.build(), "k is 7: a fat-tree needs an even number of ports, such as 8"),
        (FatTree { k: 0, ..FAT_TREE }.build(), "k is 0: give at least 2"),
        (FatTree { hosts_per_edge: 0, ..FAT_TREE }.build(), "hosts_per_edge is 0: give at least 1"),
        (FatTree { fabric_delay: long, ..FAT_TREE }.build(), "fabric_delay is 11s: give a delay up to 10s"),
        (SingleSwitch { hosts: 0, ..SINGLE }.build(), "hosts is 0: give at least 1"),
        (Dumbbell { pairs: 0, ..DUMBBELL }.build(), "pairs is 0: give at least 1"),
        (
            Dumbbell { bottleneck_rate: slow, ..DUMBBELL }.build(),
            "bottleneck_rate is 999bps: give a rate from 1Kbps to 100Tbps",
        ),
        (ParkingLot { hops: 0, ..LOT }.build(), "hops is 0: give at least 1"),
        (
            SingleSwitch { hosts: 1 << 20, ..SINGLE }.build(),
            "hosts make 1048577 nodes, of which at most 1048576 are allowed: lower hosts",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
}

#[test]
fn silly_sizes_are_refused_before_anything_is_allocated() {
    let max = u32::MAX;
    for (result, what) in [
        (Clos { leaves: max, spines: max, parallel_links: max, hosts_per_leaf: max, ..CLOS }.build(), "nodes"),
        (Clos { parallel_links: max, ..CLOS }.build(), "links"),
        (
            Clos { leaves: 100_000, spines: 1, parallel_links: 1, hosts_per_leaf: 1, ..CLOS }.build(),
            "forwarding entries",
        ),
        (FatTree { k: max - 1, ..FAT_TREE }.build(), "nodes"),
        (FatTree { hosts_per_edge: max, ..FAT_TREE }.build(), "nodes"),
        (FatTree { k: 128, ..FAT_TREE }.build(), "forwarding entries"),
        (SingleSwitch { hosts: max, ..SINGLE }.build(), "nodes"),
        (Dumbbell { pairs: max, ..DUMBBELL }.build(), "nodes"),
        (ParkingLot { hops: max, ..LOT }.build(), "nodes"),
        (ParkingLot { hops: 10_000, ..LOT }.build(), "forwarding entries"),
    ] {
        match result.unwrap_err() {
            TopologyError::TooLarge { what: got, .. } => assert_eq!(got, what),
            other => panic!("{other}"),
        }
    }
}
