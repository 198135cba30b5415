//! htsim's connection matrices.

use super::import::{ends, flow, shown, ImportError, Lines, Numbered};
use super::number;
use units::Time;

/// Hosts that it says there are, if it says, and the flows.
pub(super) fn parse(lines: &Lines<'_>) -> Result<(Option<u32>, Vec<Numbered>), ImportError> {
    let (mut hosts, mut flows) = (None, Vec::new());
    let mut promised = None;
    for &(at, line) in &lines.lines {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        if let Some((src, dst)) = first.split_once("->") {
            let (src, dst) = ends(lines, at, src, dst)?;
            if let Some(n) = hosts.filter(|&n| src.max(dst) >= n) {
                let problem = format!("host {} does not exist among {n}; correct it or `Nodes`", src.max(dst));
                return Err(lines.error(at, problem));
            }
            let (start, size) = attributes(lines, at, words)?;
            flows.push((at, flow(start, src, dst, size)));
            continue;
        }
        let value = words.next();
        let count = value.and_then(number::whole).filter(|_| words.next().is_none());
        match (first, count) {
            ("Nodes", Some(n)) if (1..=u64::from(u32::MAX)).contains(&n) => hosts = Some(n as u32),
            ("Connections", Some(n)) => promised = Some((at, n)),
            ("Triggers" | "Failures", Some(0)) => {}
            ("Triggers" | "trigger", _) => {
                return Err(lines.error(at, "triggers are not read; give every connection a start time"));
            }
            ("Failures" | "failure", _) => {
                return Err(lines.error(at, "failures are not read; set them in the scenario"));
            }
            ("Nodes" | "Connections", _) => {
                return Err(lines.error(at, format!("{first} needs one positive whole number, such as `{first} 16`")));
            }
            _ => {
                let problem = format!("{} is no connection; write `0->1 start 0 size 1000000`", shown(line));
                return Err(lines.error(at, problem));
            }
        }
    }
    match promised {
        Some((at, n)) if n != flows.len() as u64 => {
            let problem = format!("the file promises {n} connections and has {}; correct the number", flows.len());
            Err(lines.error(at, problem))
        }
        _ => Ok((hosts, flows)),
    }
}

/// Start and size of a connection; 0 bytes mean unbounded.
fn attributes<'a>(
    lines: &Lines<'_>,
    at: usize,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<(Time, Option<u64>), ImportError> {
    let (mut start, mut size) = (None, None);
    while let Some(key) = words.next() {
        let value =
            words.next().ok_or_else(|| lines.error(at, format!("{} has no value; write one after it", shown(key))))?;
        match key {
            "start" => {
                start = Some(number::picoseconds(value).ok_or_else(|| {
                    lines.error(at, format!("the start {} is not a time in picoseconds; write digits", shown(value)))
                })?);
            }
            "size" => {
                size = Some(number::whole(value).ok_or_else(|| {
                    lines.error(at, format!("the size {} is not a number of bytes; write digits", shown(value)))
                })?);
            }
            "id" | "prio" => {}
            "trigger" | "send_done_trigger" | "recv_done_trigger" => {
                return Err(lines.error(at, "triggers are not read; give every connection a start time"));
            }
            _ => {
                let problem = format!("{} is unknown; use start, size, id and prio", shown(key));
                return Err(lines.error(at, problem));
            }
        }
    }
    let start = start.ok_or_else(|| lines.error(at, "the start is missing; write `start 0`"))?;
    let size = size.ok_or_else(|| lines.error(at, "the size is missing; write `size 1000000`, or 0 for unbounded"))?;
    Ok((start, (size > 0).then_some(size)))
}

#[cfg(test)]
mod tests {
    use super::super::FlowList;
    use super::*;

    fn parse(text: &str) -> Result<FlowList, ImportError> {
        FlowList::parse("m.cm", text)
    }

    #[test]
    fn connection_matrix() {
        let list =
            parse("Nodes 16\nConnections 2\n0->13 id 1 start 0 size 2000000\n3->4 start 1500000.0 size 0 prio 2\n\n");
        let list = list.unwrap();
        assert_eq!(list.hosts, Some(16));
        assert_eq!(list.flows[0], flow(Time::ZERO, 0, 13, Some(2_000_000)));
        assert_eq!((list.flows[1].start, list.flows[1].size), (Time::from_ps(1_500_000), None));
    }

    #[test]
    fn errors_name_line_and_remedy() {
        for (text, line, remedy) in [
            ("Nodes x\n", 1, "`Nodes 16`"),
            ("Nodes 0\n", 1, "`Nodes 16`"),
            ("Nodes 4\nConnections 2\n0->1 start 0 size 1\n", 2, "correct the number"),
            ("Nodes 4\nConnections 1\n0->4 start 0 size 1\n", 3, "correct it or `Nodes`"),
            ("Nodes 4\nConnections 1\n0->1 size 1\n", 3, "write `start 0`"),
            ("Nodes 4\nConnections 1\n0->1 start 0\n", 3, "write `size 1000000`"),
            ("Nodes 4\nConnections 1\n0->1 start\n", 3, "write one after it"),
            ("Nodes 4\nConnections 1\n0->1 trigger 1 size 1\n", 3, "give every connection a start"),
            ("Nodes 4\nConnections 1\nTriggers 1\n", 3, "give every connection a start"),
            ("Nodes 4\nfailure switch_type TOR\n", 2, "set them in the scenario"),
            ("Nodes 4\nwhat\n", 2, "write `0->1"),
            ("Nodes 4\n0->1 colour 3\n", 2, "use start, size"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(remedy), "{text:?}: {error}");
        }
    }
}
