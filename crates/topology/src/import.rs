//! Import of topology files in the form that ns-3 and HPCC use.

use crate::error::{ImportError, ImportProblem};
use crate::graph::{Link, Node, NodeKind, Topology};
use crate::ids::NodeId;
use crate::limits::{rate_is_sane, MAX_DELAY, MAX_FORWARDING_ENTRIES, MAX_LINKS, MAX_NODES};
use units::{BitRate, Time};

/// Reads a topology in the text form that HPCC and its descendants feed to ns-3:
///
/// ```text
/// 6 2 5                     nodes, switches, links
/// 4 5                       the switches' numbers; all others are hosts
/// 0 4 10Gbps 1us 0          source, destination, rate, delay, error rate
/// ...
/// ```
///
/// Nodes keep the file's number in their name (`node4`). Hosts and switches are renumbered in the file's order, hosts
/// first, and links likewise, access links first. A switch's tier is its distance from the nearest one with hosts.
/// Blank lines and what follows a `#` are skipped. So is text after the last link, where such files explain themselves,
/// unless it looks like another link.
///
/// # Errors
/// The first thing wrong, with its line. A host needs exactly one link, to a switch; error rates must be 0; everything
/// must be connected and within [`crate::MAX_NODES`], [`crate::MAX_LINKS`] and [`crate::MAX_FORWARDING_ENTRIES`].
pub fn import(text: &str) -> Result<Topology, ImportError> {
    let mut lines = Lines { rest: text.lines().enumerate(), last: 1 };
    let (nodes, switches, n_links) = header(&mut lines)?;
    let is_switch = switch_list(&mut lines, nodes, switches)?;

    // Hosts first, each kind in the order of the file's numbers.
    let mut number = vec![0 as NodeId; nodes as usize];
    let hosts: Vec<usize> = (0..nodes as usize).filter(|&id| !is_switch[id]).collect();
    let order = hosts.iter().copied().chain((0..nodes as usize).filter(|&id| is_switch[id]));
    let file_id: Vec<usize> = order.collect();
    for (n, &id) in file_id.iter().enumerate() {
        number[id] = n as NodeId;
    }

    let mut access: Vec<Option<Link>> = vec![None; hosts.len()];
    let mut fabric: Vec<Link> = Vec::new();
    for found in 0..n_links {
        let Some((line, text)) = lines.next() else {
            return lines.fail(ImportProblem::Missing { what: "links", announced: n_links, found });
        };
        let at = |problem| ImportError { line, problem };
        let (src, dst, rate, delay) = link_fields(text, nodes).map_err(at)?;
        let (a, b) = (src as u64, dst as u64);
        if src == dst {
            return Err(at(ImportProblem::SelfLink { id: a }));
        }
        let host = match (is_switch[src], is_switch[dst]) {
            (true, true) => {
                fabric.push(Link { a: number[src], b: number[dst], rate, delay });
                continue;
            }
            (false, false) => return Err(at(ImportProblem::HostToHost { a, b })),
            (false, true) => src,
            (true, false) => dst,
        };
        let (end, leaf) = (number[host], number[src + dst - host]);
        let slot = &mut access[end as usize];
        if slot.replace(Link { a: end, b: leaf, rate, delay }).is_some() {
            return Err(at(ImportProblem::HostTwice { id: host as u64 }));
        }
    }
    if let Some((line, _)) = lines.find(|(_, text)| text.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(ImportError { line, problem: ImportProblem::Surplus { what: "links", announced: n_links } });
    }

    let mut links = Vec::with_capacity(access.len() + fabric.len());
    for (link, &id) in access.into_iter().zip(&hosts) {
        match link {
            Some(link) => links.push(link),
            None => return lines.fail(ImportProblem::HostAlone { id: id as u64 }),
        }
    }
    let n_hosts = hosts.len();
    let distance = match distances(n_hosts, switches as usize, &links, &fabric) {
        Ok(distance) => distance,
        Err((a, b)) => {
            let [a, b] = [a, b].map(|n| file_id[n as usize] as u64);
            return lines.fail(ImportProblem::Apart { a, b });
        }
    };
    let tier = |n: NodeId| distance[n as usize - n_hosts];
    let n_leaves = distance.iter().filter(|&&d| d == 0).count() as u64;
    if switches * n_leaves > MAX_FORWARDING_ENTRIES {
        let (count, most) = (switches * n_leaves, MAX_FORWARDING_ENTRIES);
        return lines.fail(ImportProblem::TooLarge { what: "switches times leaves", count, most });
    }
    for link in &mut fabric {
        if (tier(link.b), link.b) < (tier(link.a), link.a) {
            std::mem::swap(&mut link.a, &mut link.b);
        }
    }
    links.extend(fabric);
    let kind = |n: usize| if n < n_hosts { NodeKind::Host } else { NodeKind::Switch { tier: distance[n - n_hosts] } };
    let nodes = file_id.iter().enumerate().map(|(n, id)| Node { name: format!("node{id}"), kind: kind(n) }).collect();
    Ok(Topology::assemble(nodes, links))
}

/// The lines that say something, without comments, with their numbers.
struct Lines<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    last: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a str);
    fn next(&mut self) -> Option<(usize, &'a str)> {
        for (index, line) in self.rest.by_ref() {
            self.last = index + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                return Some((index + 1, line));
            }
        }
        None
    }
}

impl Lines<'_> {
    fn fail<T>(&self, problem: ImportProblem) -> Result<T, ImportError> {
        Err(ImportError { line: self.last, problem })
    }
}

fn header(lines: &mut Lines) -> Result<(u64, u64, u64), ImportError> {
    let Some((_, text)) = lines.next() else { return lines.fail(ImportProblem::Header) };
    let counts: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let Ok([nodes, switches, links]) = counts.as_deref() else { return lines.fail(ImportProblem::Header) };
    let (nodes, switches, links) = (*nodes, *switches, *links);
    for (what, count, most) in [("nodes", nodes, MAX_NODES), ("links", links, MAX_LINKS)] {
        if count > most {
            return lines.fail(ImportProblem::TooLarge { what, count, most });
        }
    }
    if switches == 0 || switches >= nodes {
        return lines.fail(ImportProblem::Counts { nodes, switches });
    }
    Ok((nodes, switches, links))
}

/// The announced number of switches, on as many lines as the file likes.
fn switch_list(lines: &mut Lines, nodes: u64, switches: u64) -> Result<Vec<bool>, ImportError> {
    let mut is_switch = vec![false; nodes as usize];
    let mut found = 0;
    while found < switches {
        let Some((line, text)) = lines.next() else {
            return lines.fail(ImportProblem::Missing { what: "switches", announced: switches, found });
        };
        let at = |problem| ImportError { line, problem };
        for word in text.split_whitespace() {
            if found == switches {
                return Err(at(ImportProblem::Surplus { what: "switches", announced: switches }));
            }
            let id = node_number(word, nodes).map_err(at)?;
            if std::mem::replace(&mut is_switch[id], true) {
                return Err(at(ImportProblem::SwitchTwice { id: id as u64 }));
            }
            found += 1;
        }
    }
    Ok(is_switch)
}

fn node_number(word: &str, nodes: u64) -> Result<usize, ImportProblem> {
    match word.parse::<u64>() {
        Ok(id) if id < nodes => Ok(id as usize),
        _ => Err(ImportProblem::NotANode { text: word.chars().take(40).collect(), nodes }),
    }
}

fn link_fields(text: &str, nodes: u64) -> Result<(usize, usize, BitRate, Time), ImportProblem> {
    let words: Vec<&str> = text.split_whitespace().take(6).collect();
    let [src, dst, rate, delay, error] = words[..] else {
        return Err(ImportProblem::LinkFields { found: text.split_whitespace().count() });
    };
    let (src, dst) = (node_number(src, nodes)?, node_number(dst, nodes)?);
    // ns-3 also writes "10Gb/s".
    let rate: BitRate = rate.replace("b/s", "bps").parse().map_err(ImportProblem::Quantity)?;
    if !rate_is_sane(rate) {
        return Err(ImportProblem::Rate { value: rate });
    }
    let delay: Time = delay.parse().map_err(ImportProblem::Quantity)?;
    if delay > MAX_DELAY {
        return Err(ImportProblem::Delay { value: delay });
    }
    if error.parse::<f64>() != Ok(0.0) {
        return Err(ImportProblem::LossRate { text: error.chars().take(40).collect() });
    }
    Ok((src, dst, rate, delay))
}

/// Each switch's distance, at most 255, from the nearest one with hosts; or two nodes that are not connected.
fn distances(n_hosts: usize, n: usize, access: &[Link], fabric: &[Link]) -> Result<Vec<u8>, (NodeId, NodeId)> {
    let mut next_to = vec![Vec::new(); n];
    for link in fabric {
        let (a, b) = (link.a as usize - n_hosts, link.b as usize - n_hosts);
        next_to[a].push(b);
        next_to[b].push(a);
    }
    let spread = |starts: Vec<usize>| {
        let mut distance = vec![None; n];
        for &start in &starts {
            distance[start] = Some(0u8);
        }
        let mut queue = starts;
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for &next in &next_to[at] {
                if distance[next].is_none() {
                    distance[next] = distance[at].map(|d| d.saturating_add(1));
                    queue.push(next);
                }
            }
        }
        distance
    };
    if let Some(far) = spread(vec![0]).iter().position(Option::is_none) {
        return Err((n_hosts as NodeId, (n_hosts + far) as NodeId));
    }
    let mut leaves: Vec<usize> = access.iter().map(|link| link.b as usize - n_hosts).collect();
    leaves.sort_unstable();
    leaves.dedup();
    // Connected, so every distance is known.
    Ok(spread(leaves).into_iter().map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF_SPINE: &str = "\
8 4 8
0 1 2 3
4 0 10Gbps 1us 0.000000
5 0 10Gb/s 1000ns 0
6 1 10Gbps 0.001ms 0   # a comment
1 7 10Gbps 1us 0

0 2 40Gbps 2us 0
3 0 40Gbps 2us 0
1 2 40Gbps 2us 0
1 3 40Gbps 2us 0
First line: total node #, switch node #, link #
";

    #[test]
    fn a_leaf_spine_file_becomes_the_fabric_it_describes() {
        let fabric = import(LEAF_SPINE).unwrap();
        assert_eq!((fabric.n_hosts(), fabric.n_switches(), fabric.links.len()), (4, 4, 8));
        let names: Vec<&str> = fabric.nodes.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["node4", "node5", "node6", "node7", "node0", "node1", "node2", "node3"]);
        let tiers: Vec<_> = fabric.switches().map(|s| fabric.tier(s).unwrap()).collect();
        assert_eq!(tiers, [0, 0, 1, 1]);
        let access = fabric.links[1];
        assert_eq!((access.a, access.b, access.delay), (1, 4, Time::from_us(1)));
        let uplink = fabric.links[fabric.link_named("node3-node0").unwrap() as usize];
        assert_eq!((uplink.a, uplink.b, uplink.rate), (4, 7, BitRate::from_gbps(40)), "the leaf is the lower end");
        let trees = fabric.trees(&[]);
        assert_eq!((trees.len(), fabric.coverage(&trees)), (2, (1, 1)));
        assert_eq!(fabric.routes(&[]).next_hops(4, 5).len(), 2);
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let file = |links: &str| format!("4 2 3\n2 3\n{links}");
        for (text, line, remedy) in [
            (String::new(), 1, "expected three counts"),
            ("# nothing\n\n".into(), 2, "expected three counts"),
            ("4 2\n".into(), 1, "expected three counts"),
            ("4 -2 3\n".into(), 1, "expected three counts"),
            ("99999999999 2 3\n".into(), 1, "at most 1048576"),
            ("4 2 99999999999\n".into(), 1, "at most 4194304"),
            ("4 4 3\n".into(), 1, "at least one switch and one host"),
            ("4 0 3\n".into(), 1, "at least one switch and one host"),
            ("4 2 3\n2 4\n".into(), 2, "\"4\" is no node: give a number from 0 to 3"),
            ("4 2 3\n2\n2\n".into(), 3, "listed twice"),
            ("4 2 3\n2\n".into(), 2, "after 1 of 2 switches"),
            ("4 2 3\n2 3 1\n".into(), 2, "more than the 2 switches"),
            (file("0 2 10Gbps 1us\n"), 3, "4 fields"),
            (file("0 2 10Gbps 1us 0 0 0\n"), 3, "7 fields"),
            (file("0 2 10 1us 0\n"), 3, "write \"10Gbps\""),
            (file("0 2 10Gbps 1 0\n"), 3, "write \"3us\""),
            (file("0 2 0Gbps 1us 0\n"), 3, "give a rate from 1Kbps to 100Tbps"),
            (file("0 2 10Gbps 11s 0\n"), 3, "give a delay up to 10s"),
            (file("0 2 10Gbps 1us 0.01\n"), 3, "write 0"),
            (file("0 2 10Gbps 1us none\n"), 3, "write 0"),
            (file("0 2 10Gbps 1us 0\n2 2 10Gbps 1us 0\n"), 4, "linked to itself"),
            (file("0 1 10Gbps 1us 0\n"), 3, "put a switch between"),
            (file("0 2 10Gbps 1us 0\n0 3 10Gbps 1us 0\n"), 4, "host 0 already has a link"),
            (file("0 2 10Gbps 1us 0\n"), 3, "after 1 of 3 links"),
            (
                file("0 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n\n2 3 1Gbps 1us 0\n"),
                7,
                "more than the 3 links",
            ),
            (file("0 2 1Gbps 1us 0\n2 3 1Gbps 1us 0\n2 3 1Gbps 1us 0\n"), 5, "host 1 has no link"),
            ("4 2 2\n2 3\n0 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n".into(), 4, "no way between nodes 2 and 3"),
        ] {
            let error = import(&text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(remedy), "{text:?}: {error}");
        }
    }
}
