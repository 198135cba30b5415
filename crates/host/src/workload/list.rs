//! Flow lists from CSV and HPCC files.

use super::import::{ends, flow, shown, ImportError, Lines};
use super::{matrix, number, FlowSpec};
use units::{Bytes, Time};

/// Flows read from a file, in the file's order, for [`super::Pattern::List`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FlowList {
    /// Hosts that the file says there are, if it says.
    pub hosts: Option<u32>,
    /// On fresh connections, complete at the receiver; `tag` is the position in the file.
    pub flows: Vec<FlowSpec>,
}

impl FlowList {
    /// Reads flows from `text`, the contents of `file`, in whichever of these forms it has:
    ///
    /// - CSV with the header `start,src,dst,size` in any order and units in the values (`1.5ms,0,4,50KB`); the size
    ///   `unbounded` is a flow until the end;
    /// - an HPCC flow file: the number of flows, then `src dst priority port size start` per line, the size in bytes and
    ///   the start in seconds; priority and port are not used. Such files begin at 2 s by custom: see
    ///   [`FlowList::rebase`];
    /// - an htsim connection matrix: `Nodes N`, `Connections M`, then `src->dst start T size S` with the start in
    ///   picoseconds and the size in bytes (0 is unbounded); `id` and `prio` are not used, triggers and failures are
    ///   refused.
    ///
    /// # Errors
    /// With the line at fault.
    pub fn parse(file: &str, text: &str) -> Result<FlowList, ImportError> {
        let lines = Lines::new(file, text);
        let Some(&(at, first)) = lines.lines.first() else {
            return Err(lines.error(0, "the file has no flows; see docs/workloads.md for the forms that are read"));
        };
        let mut list = if first.contains(',') {
            csv(&lines)?
        } else if first.starts_with("Nodes") || first.starts_with("Connections") {
            let (hosts, flows) = matrix::parse(&lines)?;
            FlowList { hosts, flows }
        } else if number::whole(first).is_some() {
            hpcc(&lines)?
        } else {
            return Err(lines.error(
                at,
                format!(
                    "{} starts no list of flows; write a header `start,src,dst,size` (CSV), the number of flows (HPCC) or \
                     `Nodes N` (htsim)",
                    shown(first)
                ),
            ));
        };
        for (tag, flow) in list.flows.iter_mut().enumerate() {
            flow.tag = tag as u32;
        }
        Ok(list)
    }

    /// Shifts all starts so that the first flow starts at 0.
    pub fn rebase(&mut self) {
        let first = self.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
        for flow in &mut self.flows {
            flow.start -= first;
        }
    }
}

fn hpcc(lines: &Lines<'_>) -> Result<FlowList, ImportError> {
    let (head, first) = lines.lines[0];
    let promised = number::whole(first).unwrap_or(0);
    let mut flows = Vec::with_capacity(lines.lines.len() - 1);
    for &(at, line) in &lines.lines[1..] {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [src, dst, _priority, _port, size, start] = fields[..] else {
            let problem = format!("found {} fields; write `src dst priority port size start_seconds`", fields.len());
            return Err(lines.error(at, problem));
        };
        let (src, dst) = ends(lines, at, src, dst)?;
        let bytes = number::whole(size).filter(|&b| b > 0).ok_or_else(|| {
            lines.error(at, format!("the size {} is not a positive number of bytes; write digits", shown(size)))
        })?;
        let start = number::seconds(start).ok_or_else(|| {
            lines.error(at, format!("the start {} is not a time in seconds; write it like 2.000001", shown(start)))
        })?;
        flows.push(flow(start, src, dst, Some(bytes)));
    }
    if promised != flows.len() as u64 {
        let problem = format!("the file promises {promised} flows and has {}; correct the number", flows.len());
        return Err(lines.error(head, problem));
    }
    Ok(FlowList { hosts: None, flows })
}

fn csv(lines: &Lines<'_>) -> Result<FlowList, ImportError> {
    let (head, header) = lines.lines[0];
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let column = |name: &str| {
        names
            .iter()
            .position(|&n| n == name)
            .ok_or_else(|| lines.error(head, format!("the column {name} is missing; write `start,src,dst,size`")))
    };
    let (start, src, dst, size) = (column("start")?, column("src")?, column("dst")?, column("size")?);
    if names.len() != 4 {
        return Err(lines.error(head, "there are other columns than start, src, dst and size; remove them"));
    }
    let mut flows = Vec::with_capacity(lines.lines.len() - 1);
    for &(at, line) in &lines.lines[1..] {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != names.len() {
            return Err(lines.error(at, format!("found {} fields; the header has {}", fields.len(), names.len())));
        }
        let (src, dst) = ends(lines, at, fields[src], fields[dst])?;
        let begin: Time = fields[start].parse().map_err(|e| lines.error(at, format!("{e}")))?;
        let bytes = match fields[size] {
            "unbounded" => None,
            text => {
                let Bytes(bytes) = text.parse().map_err(|e| lines.error(at, format!("{e}, or `unbounded`")))?;
                if bytes == 0 {
                    return Err(lines.error(at, "the size is 0; write at least 1B, or `unbounded`"));
                }
                Some(bytes)
            }
        };
        flows.push(flow(begin, src, dst, bytes));
    }
    Ok(FlowList { hosts: None, flows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn csv_with_units() {
        let list = FlowList::parse("f.csv", "size, start, src, dst\n50KB,1.5ms,0,4\nunbounded,0s,3,2\n").unwrap();
        assert_eq!(list.flows[0], flow(Time::from_us(1500), 0, 4, Some(50_000)));
        assert_eq!(list.flows[1], FlowSpec { tag: 1, ..flow(Time::ZERO, 3, 2, None) });
    }

    #[test]
    fn hpcc_flow_file() {
        let mut list = FlowList::parse("flow.txt", "2 \n0 1 3 100 1460 2.000000500\n4 2 3 100 2000000 2.1\n").unwrap();
        assert_eq!(list.flows[0], flow(Time::from_ps(2_000_000_500_000), 0, 1, Some(1460)));
        list.rebase();
        assert_eq!(list.flows[0].start, Time::ZERO);
        assert_eq!(list.flows[1].start, Time::from_ps(99_999_500_000));
    }

    #[test]
    fn errors_name_file_line_and_remedy() {
        for (text, line, remedy) in [
            ("", 0, "docs/workloads.md"),
            ("hello\n", 1, "write a header"),
            ("start,src,dst\n", 1, "column size is missing"),
            ("start,src,dst,size,colour\n", 1, "remove them"),
            ("start,src,dst,size\n1,0,1,50KB\n", 2, "write \"3us\""),
            ("start,src,dst,size\n1us,0,1,50\n", 2, "or `unbounded`"),
            ("start,src,dst,size\n1us,0,1,0B\n", 2, "at least 1B"),
            ("start,src,dst,size\n1us,0,0,1B\n", 2, "another destination"),
            ("start,src,dst,size\n1us,0,-1,1B\n", 2, "from 0 up"),
            ("start,src,dst,size\n1us,0,1\n", 2, "the header has 4"),
            ("1\n0 1 3 100 1460\n", 2, "write `src dst priority"),
            ("2\n0 1 3 100 1460 2.0\n", 1, "correct the number"),
            ("1\n0 1 3 100 0 2.0\n", 2, "positive number"),
            ("1\n0 1 3 100 1460 soon\n", 2, "2.000001"),
            ("1\n0 4294967296 3 100 1460 1\n", 2, "from 0 up"),
        ] {
            let error = FlowList::parse("flows", text).unwrap_err();
            let shown = error.to_string();
            assert_eq!(error.line, line, "{text:?}: {shown}");
            assert!(shown.starts_with("flows:") && shown.contains(remedy), "{text:?}: {shown}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_text_panics(
            text in "\\PC*",
            head in prop::sample::select(vec!["start,src,dst,size\n", "2\n", "Nodes 4\nConnections 2\n"]),
            rows in prop::collection::vec("[-0-9.>,eusKB a-z]{0,30}", 0..4),
            link in "[0-9]{0,11}->[0-9]{0,11} (start|size|id|trigger|prio)? ?[-0-9.e]{0,24}( size [0-9]{1,22})?",
        ) {
            let _ = FlowList::parse("x", &text);
            let _ = FlowList::parse("x", &format!("{head}{}", rows.join("\n")));
            let _ = FlowList::parse("x", &format!("Nodes 4\nConnections 1\n{link}\n"));
        }
    }
}
