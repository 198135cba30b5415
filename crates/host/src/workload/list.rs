//! Flow lists from CSV and HPCC files.

use super::import::{ends, flow, shown, ImportError, Lines, Numbered};
use super::{matrix, number, FlowSpec};
use units::{Bytes, Time};

/// Flows read from a file, in the file's order, for [`super::Pattern::List`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FlowList {
    /// Hosts that the file says there are, if it says.
    pub hosts: Option<u32>,
    /// On fresh connections, complete at the receiver; `tag` is the position in the file.
    pub flows: Vec<FlowSpec>,
    /// Where each flow stands in the file, counted from 1.
    pub lines: Vec<u32>,
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
        let (hosts, numbered) = if first.contains(',') {
            (None, csv(&lines)?)
        } else if first.starts_with("Nodes") || first.starts_with("Connections") {
            matrix::parse(&lines)?
        } else if number::whole(first).is_some() {
            (None, hpcc(&lines)?)
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
        let mut list = FlowList { hosts, ..FlowList::default() };
        for (tag, (line, flow)) in numbered.into_iter().enumerate() {
            list.flows.push(FlowSpec { tag: tag as u32, ..flow });
            list.lines.push(line as u32);
        }
        Ok(list)
    }

    /// Whether a run can use the list, which stands in `file`: hosts 0 to `hosts` - 1 exist, and the workload lasts from `start` to
    /// `end`, to which the flows' times are added.
    ///
    /// # Errors
    /// A host that does not exist, or that no flow would start, with the line at fault.
    pub fn check(&self, file: &str, hosts: u32, start: Time, end: Time) -> Result<(), ImportError> {
        let error = |line: u32, problem| ImportError { file: file.to_owned(), line: line as usize, problem };
        let mut flows = self.flows.iter().zip(&self.lines);
        if let Some((flow, line)) = flows.find(|(flow, _)| flow.src.max(flow.dst) >= hosts) {
            let absent = flow.src.max(flow.dst);
            let remedy = format!("hosts are 0 to {}, so correct it or give a larger fabric", hosts.saturating_sub(1));
            return Err(error(*line, format!("host {absent} does not exist; {remedy}")));
        }
        let Some((first, line)) = self.flows.iter().zip(&self.lines).min_by_key(|(flow, _)| flow.start) else {
            return Err(error(0, "it has no flows; name at least one".to_owned()));
        };
        let at = start.saturating_add(first.start);
        if at >= end {
            let problem =
                format!("the first flow would start at {at}, and the workload ends at {end}, so none would run");
            return Err(error(
                *line,
                format!("{problem}; lower the starts, or raise `duration` (and `stop`, if given)"),
            ));
        }
        Ok(())
    }

    /// Shifts all starts so that the first flow starts at 0.
    pub fn rebase(&mut self) {
        let first = self.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
        for flow in &mut self.flows {
            flow.start -= first;
        }
    }
}

fn hpcc(lines: &Lines<'_>) -> Result<Vec<Numbered>, ImportError> {
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
        flows.push((at, flow(start, src, dst, Some(bytes))));
    }
    if promised != flows.len() as u64 {
        let problem = format!("the file promises {promised} flows and has {}; correct the number", flows.len());
        return Err(lines.error(head, problem));
    }
    Ok(flows)
}

fn csv(lines: &Lines<'_>) -> Result<Vec<Numbered>, ImportError> {
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
        flows.push((at, flow(begin, src, dst, bytes)));
    }
    Ok(flows)
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
    fn a_list_that_a_run_cannot_use_names_its_line() {
        let list = FlowList::parse("f.csv", "# c\nstart,src,dst,size\n3ms,0,4,1B\n\n2ms,1,2,1B\n").unwrap();
        assert_eq!(list.lines, [3, 5]);
        let (zero, ms) = (Time::ZERO, Time::from_ms(1));
        let check = |hosts, start, end| list.check("f.csv", hosts, start, end).map_err(|e| e.to_string());
        assert_eq!(check(5, zero, Time::from_us(2001)), Ok(()), "one of two is enough");
        let said = check(4, zero, Time::from_ms(9)).unwrap_err();
        assert!(said.starts_with("f.csv:3: host 4 does not exist; hosts are 0 to 3"), "{said}");
        for (start, end) in [(zero, Time::from_ms(2)), (ms, Time::from_ms(3))] {
            let said = check(5, start, end).unwrap_err();
            assert!(said.starts_with("f.csv:5: the first flow would start at ") && said.contains("duration"), "{said}");
        }
        let none = FlowList::parse("f.csv", "start,src,dst,size\n").unwrap();
        assert!(none.check("f.csv", 4, zero, ms).unwrap_err().to_string().starts_with("f.csv: it has no flows"));
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
