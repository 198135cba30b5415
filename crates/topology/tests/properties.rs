//! What holds for every fabric and every set of failures.

use proptest::prelude::*;
use std::collections::BTreeSet;
use topology::{import, label_of, tree_of, Clos, FatTree, LinkId, NodeId, Topology, Tree};
use units::{BitRate, Time};

const RATE: BitRate = BitRate::from_gbps(10);
const DELAY: Time = Time::from_us(1);

fn clos() -> impl Strategy<Value = Clos> {
    (1u32..7, 1u32..6, 1u32..4, 1u32..4).prop_map(|(leaves, spines, parallel_links, hosts_per_leaf)| Clos {
        leaves,
        spines,
        parallel_links,
        hosts_per_leaf,
        host_rate: RATE,
        host_delay: DELAY,
        fabric_rate: RATE,
        fabric_delay: DELAY,
    })
}

fn fat_tree() -> impl Strategy<Value = Topology> {
    (1u32..5).prop_map(|half| {
        FatTree {
            k: 2 * half,
            hosts_per_edge: half,
            host_rate: RATE,
            host_delay: DELAY,
            fabric_rate: RATE,
            fabric_delay: DELAY,
        }
        .build()
        .unwrap()
    })
}

/// A random connected graph of switches, some with hosts, through the importer.
fn irregular() -> impl Strategy<Value = Topology> {
    (2usize..12)
        .prop_flat_map(|n| {
            let anchors = prop::collection::vec(any::<prop::sample::Index>(), n - 1);
            let extra = prop::collection::vec((0..n, 0..n), 0..2 * n);
            let hosts = prop::collection::vec(0..n, 1..2 * n);
            (Just(n), anchors, extra, hosts)
        })
        .prop_map(|(n, anchors, extra, hosts)| {
            let mut links: Vec<(usize, usize)> =
                anchors.iter().enumerate().map(|(i, anchor)| (i + 1, anchor.index(i + 1))).collect();
            links.extend(extra.into_iter().filter(|(a, b)| a != b));
            links.extend(hosts.iter().enumerate().map(|(h, &switch)| (n + h, switch)));
            let switches: Vec<String> = (0..n).map(|s| s.to_string()).collect();
            let mut file = format!("{} {n} {}\n{}\n", n + hosts.len(), links.len(), switches.join(" "));
            for (a, b) in links {
                file += &format!("{a} {b} 10Gbps 1us 0\n");
            }
            import(&file).unwrap()
        })
}

fn any_fabric() -> impl Strategy<Value = Topology> {
    prop_oneof![clos().prop_map(|c| c.build().unwrap()), fat_tree(), irregular()]
}

/// A fabric and up to a third of its links, broken.
fn with_failures() -> impl Strategy<Value = (Topology, Vec<LinkId>)> {
    any_fabric().prop_flat_map(|fabric| {
        let links = fabric.links.len() as LinkId;
        (Just(fabric), prop::collection::vec(0..links, 0..=(links as usize / 3)))
    })
}

/// What a node can reach over working links between switches; independent of the crate's own searches.
fn reachable(fabric: &Topology, from: NodeId, failed: &BTreeSet<LinkId>) -> BTreeSet<NodeId> {
    let mut seen = BTreeSet::from([from]);
    loop {
        let before = seen.len();
        for id in fabric.fabric_links().filter(|id| !failed.contains(id)) {
            let link = fabric.links[id as usize];
            if seen.contains(&link.a) || seen.contains(&link.b) {
                seen.extend([link.a, link.b]);
            }
        }
        if seen.len() == before {
            return seen;
        }
    }
}

/// The tree spans the leaves, has no cycle, and its next hops lead from everywhere in it to every leaf.
fn check_tree(fabric: &Topology, tree: &Tree) -> Result<(), TestCaseError> {
    let members: Vec<NodeId> = fabric.switches().filter(|&s| tree.contains(s)).collect();
    prop_assert_eq!(members.len(), tree.links.len() + 1, "as many links as a tree has");
    prop_assert!(tree.links.windows(2).all(|w| w[0] < w[1]));
    prop_assert!(fabric.leaves().iter().all(|leaf| members.contains(leaf)));
    for &from in &members {
        for &leaf in fabric.leaves() {
            let mut at = from;
            let mut walked = Vec::new();
            while let Some(link) = tree.next_hop(at, leaf) {
                prop_assert!(tree.links.binary_search(&link).is_ok());
                prop_assert!(walked.len() < members.len(), "a loop");
                walked.push(link);
                at = fabric.other_end(link, at);
            }
            prop_assert_eq!(at, leaf);
            prop_assert_eq!(tree.path(from, leaf), Some(walked.clone()));
            let mut back = tree.path(leaf, from).unwrap();
            back.reverse();
            prop_assert_eq!(back, walked, "both directions use the same links");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn routes_reach_exactly_what_is_connected((fabric, failed) in with_failures()) {
        let routes = fabric.routes(&failed);
        let dead: BTreeSet<LinkId> = failed.iter().copied().collect();
        for &leaf in fabric.leaves() {
            let near = reachable(&fabric, leaf, &dead);
            // Hops to the leaf, settled outwards; every next hop must be one nearer, so no walk can loop or strand.
            let mut distance = vec![usize::MAX; fabric.nodes.len()];
            distance[leaf as usize] = 0;
            for _ in fabric.switches() {
                for id in fabric.fabric_links().filter(|id| !dead.contains(id)) {
                    let link = fabric.links[id as usize];
                    let (a, b) = (distance[link.a as usize], distance[link.b as usize]);
                    distance[link.a as usize] = a.min(b.saturating_add(1));
                    distance[link.b as usize] = b.min(a.saturating_add(1));
                }
            }
            for switch in fabric.switches() {
                let hops = routes.next_hops(switch, leaf);
                prop_assert_eq!(hops.is_empty(), switch == leaf || !near.contains(&switch));
                let expected: Vec<LinkId> = fabric.neighbours(switch).iter()
                    .filter(|&&(link, next)| !dead.contains(&link) && !fabric.is_host(next)
                        && switch != leaf && near.contains(&next)
                        && distance[next as usize] + 1 == distance[switch as usize])
                    .map(|&(link, _)| link).collect();
                prop_assert_eq!(hops, expected);
            }
            for host in fabric.hosts() {
                let goes = !dead.contains(&host) && near.contains(&fabric.leaf_of(host));
                prop_assert_eq!(routes.next_hops(host, leaf), if goes { vec![host] } else { vec![] });
            }
        }
    }

    #[test]
    fn first_paths_are_walks_over_working_links((fabric, failed) in with_failures(), pick: [prop::sample::Index; 2]) {
        let [src, dst] = pick.map(|index| index.index(fabric.n_hosts()) as u32);
        if let Some(path) = fabric.routes(&failed).first_path(&fabric, src, dst) {
            let mut at = src;
            for &link in &path {
                prop_assert!(!failed.contains(&link));
                prop_assert!(fabric.neighbours(at).iter().any(|&(l, _)| l == link));
                at = fabric.other_end(link, at);
            }
            prop_assert_eq!(at, dst);
        }
    }

    #[test]
    fn the_trees_of_a_clos_are_disjoint_and_cover_it(clos in clos()) {
        let fabric = clos.build().unwrap();
        let trees = fabric.trees(&[]);
        prop_assert_eq!(trees.len() as u32, clos.spines * clos.parallel_links);
        prop_assert_eq!(fabric.coverage(&trees), (1, 1));
        for tree in &trees {
            check_tree(&fabric, tree)?;
        }
    }

    #[test]
    fn the_trees_of_a_fat_tree_span_it(fabric in fat_tree()) {
        let trees = fabric.trees(&[]);
        let roots: BTreeSet<NodeId> = trees.iter().map(|t| t.root).collect();
        let cores: BTreeSet<NodeId> = fabric.switches().filter(|&s| fabric.tier(s) == Some(2)).collect();
        prop_assert_eq!(roots, cores);
        prop_assert_eq!(trees.len(), fabric.switches().filter(|&s| fabric.tier(s) == Some(2)).count());
        for tree in &trees {
            check_tree(&fabric, tree)?;
        }
    }

    #[test]
    fn trees_exist_wherever_the_leaves_are_connected((fabric, failed) in with_failures()) {
        let dead: BTreeSet<LinkId> = failed.iter().copied().collect();
        let near = reachable(&fabric, fabric.leaves()[0], &dead);
        let connected = fabric.leaves().iter().all(|leaf| near.contains(leaf));
        let trees = fabric.trees(&failed);
        prop_assert_eq!(!trees.is_empty(), connected);
        for tree in &trees {
            check_tree(&fabric, tree)?;
            prop_assert!(tree.links.iter().all(|link| !dead.contains(link)));
        }
        prop_assert_eq!(fabric.trees(&failed), trees, "always the same");
    }

    #[test]
    fn failures_prune_exactly_the_paths_they_cut((fabric, failed) in with_failures()) {
        let works = |path: Vec<LinkId>| path.iter().all(|link| !failed.contains(link));
        let trees = fabric.base_trees();
        for &src in fabric.leaves() {
            for &dst in fabric.leaves() {
                let usable = fabric.usable_trees(src, dst, &failed);
                let weights = fabric.pair_weights(src, dst, &failed);
                prop_assert_eq!(weights.len(), trees.len());
                for (i, tree) in trees.iter().enumerate() {
                    let expected = works(tree.path(src, dst).unwrap());
                    prop_assert_eq!(usable.contains(&i), expected);
                    prop_assert_eq!(weights[i] > 0.0, expected);
                    let backup = fabric.failover_between(i, src, dst, &failed);
                    prop_assert_eq!(backup.is_some(), !usable.is_empty());
                    prop_assert!(backup.is_none_or(|b| usable.contains(&b)));
                    prop_assert!(!expected || backup == Some(i), "a working path stays");
                }
            }
        }
        let intact = fabric.intact_trees(&failed);
        for i in 0..trees.len() {
            let backup = fabric.failover(i, &failed);
            prop_assert_eq!(backup.is_some(), !intact.is_empty());
            prop_assert!(backup.is_none_or(|b| intact.contains(&b)));
            prop_assert_eq!(tree_of(label_of(i)), Some(i));
        }
    }

    #[test]
    fn no_text_makes_the_importer_panic(text in "([0-9]{1,2}[ \n]){0,12}|[0-9GMbps us#.\n-]{0,80}") {
        let _ = import(&text);
    }

    #[test]
    fn a_mangled_file_is_read_or_refused(cut in 0usize..200, at in 0usize..200, with in "[0-9a-z \n#.-]{0,3}") {
        let mut file: String = "6 3 6\n3 4 5\n0 3 1Gbps 1us 0\n1 4 1Gbps 1us 0\n2 5 1Gbps 1us 0\n\
                                3 4 1Gbps 1us 0\n4 5 1Gbps 1us 0\n3 5 1Gbps 1us 0\n".into();
        let at = at.min(file.len());
        file.insert_str(at, &with);
        file.truncate(file.len().saturating_sub(cut));
        match import(&file) {
            Ok(fabric) => prop_assert!(!fabric.base_trees().is_empty()),
            Err(error) => prop_assert!(error.line <= file.lines().count().max(1)),
        }
    }
}
