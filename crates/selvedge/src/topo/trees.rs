//! `topo trees`: the trees of the intact fabric, and the trees that failures leave whole.

use super::read::Fabric;
use serde::Serialize;
use std::fmt::Write as _;
use topology::label_of;

#[derive(Debug, Serialize)]
pub(super) struct Tree {
    label: u16,
    root: String,
    links: Vec<String>,
    /// Of these, the failed ones.
    broken: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Coverage {
    links: usize,
    /// Trees that a link is in: the smallest and the largest number, over links between switches.
    least: usize,
    most: usize,
    /// Links in no tree.
    unused: Vec<String>,
    disjoint: bool,
    equal: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Trees {
    trees: Vec<Tree>,
    coverage: Coverage,
}

impl Trees {
    pub(super) fn new(fabric: &Fabric) -> Trees {
        let topology = &fabric.topology;
        let base = topology.base_trees();
        let trees = base.iter().enumerate().map(|(index, tree)| {
            let broken: Vec<_> = tree.links.iter().copied().filter(|&l| !fabric.is_up(l)).collect();
            Tree {
                label: label_of(index),
                root: fabric.node_name(tree.root).to_owned(),
                links: fabric.link_names(&tree.links),
                broken: fabric.link_names(&broken),
            }
        });
        let counts = topology.trees_per_link(base);
        let (least, most) = topology.coverage(base);
        let unused: Vec<_> = topology.fabric_links().filter(|&l| counts[l as usize] == 0).collect();
        let coverage = Coverage {
            links: topology.fabric_links().len(),
            least,
            most,
            unused: fabric.link_names(&unused),
            disjoint: most <= 1,
            equal: least == most,
        };
        Trees { trees: trees.collect(), coverage }
    }
}

/// So many links of a tree are listed before the rest is only counted.
const LISTED: usize = 12;

pub(super) fn text(trees: &Trees) -> String {
    let mut out = String::new();
    for tree in &trees.trees {
        let mut links = tree.links.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(" ");
        if tree.links.len() > LISTED {
            let _ = write!(links, " and {} more", tree.links.len() - LISTED);
        }
        if tree.links.is_empty() {
            "no links".clone_into(&mut links);
        }
        let _ = write!(out, "p{:<4} root {:<10} {links}", tree.label, tree.root);
        if !tree.broken.is_empty() {
            let _ = write!(out, "   broken: {}", tree.broken.join(" "));
        }
        out.push('\n');
    }
    let c = &trees.coverage;
    let how = match (c.links, c.equal, c.disjoint) {
        (0, ..) => "one switch: nothing to cover".to_owned(),
        (_, true, true) => "link-disjoint, every link in exactly one tree".to_owned(),
        (_, true, false) => format!("every link in {} trees", c.most),
        (_, false, true) => format!("link-disjoint, {} of {} links unused", c.unused.len(), c.links),
        (_, false, false) => format!("a link is in {} to {} trees, {} are unused", c.least, c.most, c.unused.len()),
    };
    let _ = writeln!(out, "{} trees: {how}", trees.trees.len());
    if !c.unused.is_empty() {
        let _ = writeln!(out, "unused: {}", c.unused.join(" "));
    }
    out
}
