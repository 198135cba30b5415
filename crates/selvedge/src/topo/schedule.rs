//! `topo schedule`: the weighted schedule of each pair of leaves.

use super::read::Fabric;
use crate::table::number;
use config::ConfigError;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use topology::{label_of, schedule, NodeId, Prune, ScheduleError};

/// Paths looked at, over all pairs, before a choice of pairs is asked for: some seconds' worth.
const MOST_PATHS: usize = 20_000_000;

type Pairs = Vec<(NodeId, NodeId)>;

/// Pairs of leaves with one schedule.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    /// Shares by label, in percent of the pair's capacity; labels that are not used are absent.
    shares: BTreeMap<u16, f64>,
    /// Labels in the order in which successive flowcells take them; empty if the pair is cut off.
    labels: Vec<u16>,
    pairs: Vec<(String, String)>,
    /// Why there is no schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Schedules {
    schedules: Vec<Group>,
    failed: Vec<String>,
    pairs: usize,
}

impl Schedules {
    /// # Errors
    /// A node that is no leaf of the fabric; too large a fabric to do all pairs.
    pub(super) fn new(
        fabric: &Fabric,
        from: Option<&str>,
        to: Option<&str>,
        prune: Prune,
    ) -> Result<Schedules, ConfigError> {
        let topology = &fabric.topology;
        let some = |option: &str, name: Option<&str>| match name {
            None => Ok(topology.leaves().to_vec()),
            Some(name) => fabric.leaf(option, name).map(|leaf| vec![leaf]),
        };
        let (sources, destinations) = (some("--from", from)?, some("--to", to)?);
        let paths = sources.len().saturating_mul(destinations.len()).saturating_mul(topology.base_trees().len());
        if paths > MOST_PATHS {
            return Err(ConfigError::new(
                fabric.name.clone(),
                format!("{} leaves make {paths} paths", topology.leaves().len()),
                "choose pairs with --from and --to",
            ));
        }
        let mut groups: BTreeMap<Vec<u64>, (Vec<f64>, Pairs)> = BTreeMap::new();
        for &src in &sources {
            for &dst in destinations.iter().filter(|&&dst| dst != src) {
                let weights = topology.pruned_weights(src, dst, &fabric.failed, prune);
                let key = weights.iter().map(|w| w.to_bits()).collect();
                groups.entry(key).or_insert_with(|| (weights, Vec::new())).1.push((src, dst));
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        // The rule first, then the exceptions.
        let used = |weights: &[f64]| weights.iter().filter(|w| **w > 0.0).count();
        groups.sort_by_key(|(weights, pairs)| (Reverse(pairs.len()), Reverse(used(weights)), pairs[0]));
        let pairs = groups.iter().map(|(_, pairs)| pairs.len()).sum();
        let schedules = groups.into_iter().map(|(weights, pairs)| Group::new(fabric, &weights, &pairs)).collect();
        Ok(Schedules { schedules, failed: fabric.link_names(&fabric.failed), pairs })
    }
}

impl Group {
    fn new(fabric: &Fabric, weights: &[f64], pairs: &[(NodeId, NodeId)]) -> Group {
        let (labels, problem) = match schedule(weights) {
            Ok(slots) => (slots.into_iter().map(label_of).collect(), None),
            Err(ScheduleError::AllZero) => (Vec::new(), Some("no tree joins them".to_owned())),
            Err(other) => (Vec::new(), Some(other.to_string())),
        };
        let all: f64 = weights.iter().sum();
        let used = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
        Group {
            shares: used.map(|(tree, w)| (label_of(tree), 100.0 * w / all)).collect(),
            labels,
            pairs: pairs
                .iter()
                .map(|&(a, b)| (fabric.node_name(a).to_owned(), fabric.node_name(b).to_owned()))
                .collect(),
            problem,
        }
    }
}

/// So many pairs of a group are listed before the rest is only counted.
const LISTED: usize = 6;

pub(super) fn text(schedules: &Schedules) -> String {
    let mut out = String::new();
    if !schedules.failed.is_empty() {
        let _ = writeln!(out, "failed: {}", schedules.failed.join(" "));
    }
    for group in &schedules.schedules {
        let labels: Vec<String> = group.labels.iter().map(|l| format!("p{l}")).collect();
        let shown = match &group.problem {
            Some(problem) => problem.clone(),
            None => labels.join(","),
        };
        let mut shares: Vec<String> = group.shares.values().map(|s| number(*s)).collect();
        shares.dedup();
        if shares.len() > 1 {
            let all: Vec<String> = group.shares.iter().map(|(l, s)| format!("p{l} {}%", number(*s))).collect();
            let _ = write!(out, "{shown}   ({})", all.join(", "));
        } else {
            out += &shown;
        }
        let n = group.pairs.len();
        let whom = if n == schedules.pairs { format!("all {n} pairs of leaves") } else { format!("{n} pairs") };
        let some: Vec<String> = group.pairs.iter().take(LISTED).map(|(a, b)| format!("{a}>{b}")).collect();
        let more = if n > LISTED { format!(" and {} more", n - LISTED) } else { String::new() };
        let _ = writeln!(out, "\n    {whom}: {}{more}", some.join(" "));
    }
    if schedules.pairs == 0 {
        out += "there is no such pair of leaves: these hosts are on one switch\n";
    }
    out
}
