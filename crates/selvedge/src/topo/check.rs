//! `topo check`: conditions that a fabric must meet for labels, and useful facts about it.

use super::read::Fabric;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use topology::{LinkId, NodeId, Prune};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Holds,
    /// Works, but not as well as it could.
    Note,
    Fails,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    name: &'static str,
    status: Status,
    text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) holds: bool,
    findings: Vec<Finding>,
}

/// What all pairs of leaves have in common.
#[derive(Default)]
struct Pairs {
    count: usize,
    cut: Vec<(NodeId, NodeId)>,
    /// Trees that a pair may use: the smallest and the largest number.
    trees: (usize, usize),
    /// Links without which a pair has no tree.
    critical: BTreeSet<LinkId>,
    longest_schedule: usize,
    no_schedule: usize,
}

/// Pairs times trees beyond which only a part of the leaves is looked at.
const MOST_PATHS: usize = 5_000_000;

impl Verdict {
    pub(super) fn new(fabric: &Fabric) -> Verdict {
        let topology = &fabric.topology;
        let trees = topology.base_trees();
        let mut findings = Vec::new();
        let mut find = |name, status, text: String| findings.push(Finding { name, status, text });
        if topology.leaves().len() < 2 {
            find("trees", Status::Holds, "one leaf: no paths to choose from, labels have no use".to_owned());
            return Verdict { holds: true, findings };
        }

        let (least, most) = topology.coverage(trees);
        let n = trees.len();
        match (least, most) {
            (1, 1) => find("trees", Status::Holds, format!("{n} link-disjoint trees cover every link once")),
            (a, b) if a == b => find("trees", Status::Note, format!("{n} trees share links: each is in {a} of them")),
            (0, b) => {
                let unused = topology.trees_per_link(trees);
                let unused = topology.fabric_links().filter(|&l| unused[l as usize] == 0).count();
                let text = format!("{n} trees leave {unused} links unused; no link is in more than {b}");
                find("trees", Status::Note, text);
            }
            (a, b) => find("trees", Status::Note, format!("{n} trees cover links unevenly, {a} to {b} times")),
        }

        let pairs = Pairs::new(fabric);
        let named = |&(a, b): &(NodeId, NodeId)| format!("{} and {}", fabric.node_name(a), fabric.node_name(b));
        match pairs.cut.first() {
            None => find(
                "paths",
                Status::Holds,
                match pairs.trees {
                    (a, b) if a == b => format!("every pair of leaves has {a} paths"),
                    (a, b) => format!("a pair of leaves has {a} to {b} paths"),
                },
            ),
            Some(first) => {
                let more = if pairs.cut.len() > 1 {
                    format!(" and {} more pairs", pairs.cut.len() - 1)
                } else {
                    String::new()
                };
                find("paths", Status::Fails, format!("no tree joins {}{more}", named(first)));
            }
        }
        let critical: Vec<LinkId> = pairs.critical.iter().copied().collect();
        match critical.len() {
            0 if !pairs.cut.is_empty() => {
                find(
                    "failures",
                    Status::Note,
                    "pairs that have a path keep one if any one further link fails".to_owned(),
                );
            }
            0 => find("failures", Status::Holds, "any one further link may fail: every pair keeps a path".to_owned()),
            n => {
                let some: Vec<String> = fabric.link_names(&critical[..n.min(6)]);
                let more = if n > 6 { format!(" and {} more", n - 6) } else { String::new() };
                let text = format!("a pair would lose its last path with {}{more}", some.join(", "));
                find("failures", Status::Note, text);
            }
        }
        match pairs.no_schedule {
            0 => {
                find("schedules", Status::Holds, format!("the longest of them has {} labels", pairs.longest_schedule));
            }
            n => find("schedules", Status::Fails, format!("{n} pairs have more paths than a schedule holds")),
        }
        // Presto section 3.1: a rule per shadow MAC, or per leaf and tree where tunnels end at leaves.
        let (by_host, by_leaf) = (topology.n_hosts() * n, topology.leaves().len() * n);
        find("rules", Status::Holds, format!("a switch needs {by_host} exact-match rules, {by_leaf} with tunnels"));
        if pairs.count < topology.leaves().len() * (topology.leaves().len() - 1) {
            let text = format!("only {} pairs of leaves were looked at, the fabric is large", pairs.count);
            find("extent", Status::Note, text);
        }
        Verdict { holds: findings.iter().all(|f| f.status != Status::Fails), findings }
    }
}

impl Pairs {
    fn new(fabric: &Fabric) -> Pairs {
        let topology = &fabric.topology;
        let leaves = topology.leaves();
        let trees = topology.base_trees();
        let sources = (MOST_PATHS / (leaves.len() * trees.len()).max(1)).clamp(1, leaves.len());
        let mut pairs = Pairs { trees: (usize::MAX, 0), ..Pairs::default() };
        for &src in &leaves[..sources] {
            for &dst in leaves.iter().filter(|&&dst| dst != src) {
                pairs.add(fabric, src, dst);
            }
        }
        pairs
    }

    fn add(&mut self, fabric: &Fabric, src: NodeId, dst: NodeId) {
        self.count += 1;
        let trees = fabric.topology.base_trees();
        let usable = fabric.topology.usable_trees(src, dst, &fabric.failed);
        self.trees = (self.trees.0.min(usable.len()), self.trees.1.max(usable.len()));
        let mut on_all: Option<BTreeSet<LinkId>> = None;
        for path in usable.iter().filter_map(|&tree| trees[tree].path(src, dst)) {
            let path: BTreeSet<LinkId> = path.into_iter().collect();
            let common = match on_all {
                None => path,
                Some(known) => &known & &path,
            };
            let done = common.is_empty();
            on_all = Some(common);
            if done {
                break;
            }
        }
        match on_all {
            None => self.cut.push((src, dst)),
            Some(links) => {
                self.critical.extend(links);
                match fabric.topology.labels_between(src, dst, &fabric.failed, Prune::Pair) {
                    Ok(slots) => self.longest_schedule = self.longest_schedule.max(slots.len()),
                    Err(_) => self.no_schedule += 1,
                }
            }
        }
    }
}

pub(super) fn text(verdict: &Verdict) -> String {
    let mut out = String::new();
    for finding in &verdict.findings {
        let status = match finding.status {
            Status::Holds => "ok",
            Status::Note => "note",
            Status::Fails => "FAILS",
        };
        let _ = writeln!(out, "{status:<6} {:<10} {}", finding.name, finding.text);
    }
    out
}
