//! Trees of particular fabrics, by hand.

use topology::{import, Clos, FatTree, LinkId, NodeId, ParkingLot, SingleSwitch, Topology};
use units::{BitRate, Time};

const RATE: BitRate = BitRate::from_gbps(10);
const DELAY: Time = Time::from_us(1);

fn clos(leaves: u32, spines: u32, parallel_links: u32) -> Topology {
    Clos {
        leaves,
        spines,
        parallel_links,
        hosts_per_leaf: 2,
        host_rate: RATE,
        host_delay: DELAY,
        fabric_rate: RATE,
        fabric_delay: DELAY,
    }
    .build()
    .unwrap()
}

/// Switches `0..n` with a host each (`n..2n`) and the given links between them.
fn mesh(n: usize, links: &[(usize, usize)]) -> Topology {
    let mut file = format!("{} {n} {}\n", 2 * n, n + links.len());
    for switch in 0..n {
        file += &format!("{switch} ");
    }
    file.push('\n');
    for (a, b) in (0..n).map(|s| (s, n + s)).chain(links.iter().copied()) {
        file += &format!("{a} {b} 10Gbps 1us 0\n");
    }
    import(&file).unwrap()
}

#[test]
fn a_clos_has_a_disjoint_tree_for_each_spine_and_parallel_link() {
    for (spines, parallel_links, expected) in [(4, 1, 4), (4, 2, 8), (1, 1, 1), (2, 3, 6)] {
        let fabric = clos(4, spines, parallel_links);
        let trees = fabric.trees(&[]);
        assert_eq!((trees.len(), fabric.coverage(&trees)), (expected, (1, 1)));
        for tree in &trees {
            assert_eq!(tree.links.len(), 4, "a star");
            assert_eq!(tree.links.iter().filter(|&&l| fabric.links[l as usize].b == tree.root).count(), 4);
        }
        assert_eq!(fabric.base_trees(), trees);
    }
}

#[test]
fn a_tree_forwards_up_to_its_spine_and_down_again() {
    let fabric = clos(3, 2, 1);
    let tree = &fabric.trees(&[])[1];
    let node = |name| fabric.node_named(name).unwrap();
    let hop = |from, to| tree.next_hop(node(from), node(to)).map(|l| fabric.link_name(l));
    assert_eq!(hop("leaf1", "leaf3").as_deref(), Some("leaf1-spine2"));
    assert_eq!(hop("spine2", "leaf3").as_deref(), Some("leaf3-spine2"));
    assert_eq!(hop("leaf3", "leaf3"), None);
    assert_eq!(hop("spine1", "leaf3"), None, "not in this tree");
    assert_eq!(hop("host0", "leaf3"), None);
    assert_eq!(tree.next_hop(node("leaf1"), 999), None);
    assert!(tree.contains(node("spine2")) && !tree.contains(node("spine1")) && !tree.contains(0));
}

#[test]
fn a_fat_tree_has_one_tree_per_core_and_says_what_they_share() {
    for k in [2, 4, 6, 8] {
        let fat = FatTree {
            k,
            hosts_per_edge: k / 2,
            host_rate: RATE,
            host_delay: DELAY,
            fabric_rate: RATE,
            fabric_delay: DELAY,
        };
        let fabric = fat.build().unwrap();
        let trees = fabric.trees(&[]);
        let half = (k / 2) as usize;
        assert_eq!((trees.len(), fabric.coverage(&trees)), (half * half, (1, half)));
        let counts = fabric.trees_per_link(&trees);
        for id in fabric.fabric_links() {
            let expected = if fabric.tier(fabric.links[id as usize].a) == Some(0) { half } else { 1 };
            assert_eq!(counts[id as usize], expected, "{}", fabric.link_name(id));
        }
        let path = trees[0].path(fabric.leaf_of(0), *fabric.leaves().last().unwrap()).unwrap();
        assert_eq!(path.len(), 4, "up to the core and down");
    }
}

#[test]
fn one_switch_has_one_trivial_tree() {
    let fabric = SingleSwitch { hosts: 4, host_rate: RATE, host_delay: DELAY }.build().unwrap();
    let trees = fabric.trees(&[]);
    assert_eq!((trees.len(), fabric.coverage(&trees)), (1, (0, 0)));
    assert!(trees[0].links.is_empty());
    let leaf = fabric.leaf_of(0);
    assert_eq!((trees[0].next_hop(leaf, leaf), trees[0].path(leaf, leaf)), (None, Some(vec![])));
    assert_eq!(fabric.usable_trees(leaf, leaf, &[]), [0]);
}

#[test]
fn lines_and_rings_have_one_tree() {
    let lot = ParkingLot { hops: 3, host_rate: RATE, host_delay: DELAY, hop_rate: RATE, hop_delay: DELAY };
    let lot = lot.build().unwrap();
    let trees = lot.trees(&[]);
    assert_eq!((trees.len(), lot.coverage(&trees)), (1, (1, 1)));
    let hop = lot.fabric_links().start;
    assert!(lot.trees(&[hop]).is_empty(), "cut in two");

    let ring = mesh(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
    let trees = ring.trees(&[]);
    assert_eq!((trees.len(), ring.coverage(&trees)), (1, (0, 1)), "one link is left over, and it shows");
    let in_use = trees[0].links[0];
    assert_eq!(ring.trees(&[in_use]).len(), 1, "the tree closes up over the spare link");
}

#[test]
fn a_full_mesh_of_four_has_two_disjoint_trees() {
    let fabric = mesh(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    let trees = fabric.trees(&[]);
    assert_eq!((trees.len(), fabric.coverage(&trees)), (2, (1, 1)));
}

#[test]
fn global_pruning_keeps_the_spines_that_reach_everyone() {
    let fabric = clos(4, 4, 1);
    let dead = [fabric.link_named("leaf1-spine1").unwrap()];
    let trees = fabric.trees(&dead);
    let roots: Vec<&str> = trees.iter().map(|t| fabric.nodes[t.root as usize].name.as_str()).collect();
    assert_eq!(roots, ["spine2", "spine3", "spine4"]);

    // Each parallel link of spine1 is dead at another leaf: one tree can still be pieced together.
    let fabric = clos(3, 2, 2);
    let dead: Vec<LinkId> =
        ["leaf1-spine1", "leaf2-spine1#2"].iter().map(|name| fabric.link_named(name).unwrap()).collect();
    assert_eq!(fabric.trees(&dead).len(), 3);
    assert_eq!(fabric.intact_trees(&dead).len(), 2);
}

#[test]
fn a_branch_without_leaves_is_cut() {
    // Two cores (4, 5) over two aggregation switches (2, 3) over two leaves (0, 1); a tree needs one of each.
    let file = "8 6 10\n0 1 2 3 4 5\n6 0 1Gbps 1us 0\n7 1 1Gbps 1us 0\n0 2 1Gbps 1us 0\n0 3 1Gbps 1us 0\n\
                1 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n2 4 1Gbps 1us 0\n2 5 1Gbps 1us 0\n3 4 1Gbps 1us 0\n3 5 1Gbps 1us 0\n";
    let fabric = import(file).unwrap();
    let trees = fabric.trees(&[]);
    assert_eq!(trees.iter().map(|t| t.links.len()).collect::<Vec<_>>(), [3, 3, 3, 3]);
    let switches = |i: usize| -> Vec<NodeId> { fabric.switches().filter(|&s| trees[i].contains(s)).collect() };
    assert_ne!(switches(0), switches(2), "the second round takes the other branch");
    assert_eq!(fabric.coverage(&trees), (1, 2));
}
