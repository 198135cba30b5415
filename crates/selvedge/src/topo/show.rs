//! `topo show`: the fabric itself.

use super::read::Fabric;
use crate::table::number;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use topology::NodeKind;

/// Links alike in ends, rate and delay.
#[derive(Debug, Serialize)]
pub(super) struct Links {
    between: String,
    count: usize,
    failed: usize,
    rate: String,
    delay: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Shown {
    file: String,
    hosts: usize,
    /// By tier, from 0, the leaves.
    switches: Vec<usize>,
    links: Vec<Links>,
    host_capacity_gbps: f64,
    bisection_gbps: f64,
    oversubscription: f64,
    trees: usize,
    failed: Vec<String>,
}

impl Shown {
    pub(super) fn new(fabric: &Fabric) -> Shown {
        let topology = &fabric.topology;
        let mut switches = Vec::new();
        for switch in topology.switches() {
            let tier = usize::from(topology.tier(switch).unwrap_or(0));
            switches.resize(switches.len().max(tier + 1), 0);
            switches[tier] += 1;
        }
        let kind = |node| match topology.nodes[node as usize].kind {
            NodeKind::Host => "host".to_owned(),
            NodeKind::Switch { tier } => format!("tier {tier}"),
        };
        let mut alike: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for (id, link) in topology.links.iter().enumerate() {
            let key = (kind(link.a), kind(link.b), link.rate.as_bps(), link.delay);
            let counts = alike.entry(key).or_default();
            counts.0 += 1;
            counts.1 += usize::from(!fabric.is_up(id as u32));
        }
        let links = alike.into_iter().map(|((a, b, rate, delay), (count, failed))| Links {
            between: format!("{a} and {b}"),
            count,
            failed,
            rate: units::BitRate::from_bps(rate).to_string(),
            delay: delay.to_string(),
        });
        Shown {
            file: fabric.name.clone(),
            hosts: topology.n_hosts(),
            links: links.collect(),
            host_capacity_gbps: topology.host_capacity().as_bps() as f64 / 1e9,
            bisection_gbps: topology.bisection_rate().as_bps() as f64 / 1e9,
            oversubscription: topology.oversubscription(),
            trees: topology.base_trees().len(),
            failed: fabric.link_names(&fabric.failed),
            switches,
        }
    }
}

// Writing to a string cannot fail, here and in the other verbs.
pub(super) fn text(shown: &Shown) -> String {
    let mut out = String::new();
    let tiers: Vec<String> = shown.switches.iter().enumerate().map(|(t, n)| format!("{n} of tier {t}")).collect();
    let _ = writeln!(out, "{}", shown.file);
    let _ = writeln!(out, "  hosts             {}", shown.hosts);
    let _ = writeln!(out, "  switches          {}", tiers.join(", "));
    for links in &shown.links {
        let failed = if links.failed > 0 { format!(", {} failed", links.failed) } else { String::new() };
        let _ = writeln!(
            out,
            "  links             {} between {}, {}, {}{failed}",
            links.count, links.between, links.rate, links.delay
        );
    }
    let _ = writeln!(out, "  hosts can send    {} Gbps", number(shown.host_capacity_gbps));
    let _ = writeln!(out, "  half to half      {} Gbps, all links up", number(shown.bisection_gbps));
    if shown.switches.iter().sum::<usize>() > 1 {
        let _ = writeln!(out, "  oversubscription  {} : 1 at the worst leaf", number(shown.oversubscription));
    }
    let _ = writeln!(out, "  spanning trees    {}", shown.trees);
    if !shown.failed.is_empty() {
        let _ = writeln!(out, "  failed            {}", shown.failed.join(", "));
    }
    out
}
