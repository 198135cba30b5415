//! Comparison of lab and simulator: the same metrics of both, each with the allowed difference.

use crate::report::{Cell, CheckReport, CheckStatus, ReportData};
use crate::results::{Results, SchemeResults};
use crate::table::number;
use serde::Serialize;

/// Metrics of each workload that are compared, and by how much the lab's may differ from the simulator's.
const OF_WORKLOAD: [(&str, &str, f64); 4] = [
    ("goodput_gbps", "goodput", 0.10),
    ("jain", "fairness between its flows (Jain)", 0.10),
    ("fct_ms.p50", "FCT, median", 0.15),
    ("fct_ms.p99", "FCT, 99th percentile", 0.30),
];
/// The same of the whole run.
const OF_ALL: [(&str, &str, f64); 1] = [("queue.mean_kb.max", "busiest queue, mean", 0.15)];

/// One metric of one scheme.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Compared {
    pub(super) scheme: String,
    pub(super) metric: String,
    #[serde(skip)]
    title: String,
    unit: &'static str,
    /// Absent where too few samples carry it, or where it falls among unfinished flows.
    simulator: Option<f64>,
    lab: Option<f64>,
    /// The lab's over the simulator's, less 1.
    difference: Option<f64>,
    tolerance: f64,
    /// Absent where there is nothing to compare.
    pub(super) holds: Option<bool>,
    /// Why not.
    reason: Option<String>,
}

/// Scheme by scheme, what both have measured. There is no verdict on schemes for which `counts` says that the machine did not keep
/// up with the lab: their values say nothing of either model.
pub(super) fn compare(simulated: &Results, lab: &Results, counts: &dyn Fn(&str) -> bool) -> Vec<Compared> {
    let workloads = &lab.plan.scenario.workload;
    let mut wanted: Vec<(String, String, f64)> = Vec::new();
    for workload in workloads {
        for (suffix, title, tolerance) in OF_WORKLOAD {
            let key = format!("{}.{suffix}", workload.name);
            if !wanted.iter().any(|(known, ..)| *known == key) {
                wanted.push((key, format!("{}: {title}", workload.name), tolerance));
            }
        }
    }
    wanted.extend(OF_ALL.map(|(key, title, tolerance)| (key.to_owned(), title.to_owned(), tolerance)));
    let mut all = Vec::new();
    for l in &lab.schemes {
        let s = simulated.schemes.iter().find(|s| s.name == l.name);
        all.extend(wanted.iter().filter_map(|(key, title, tolerance)| match s {
            Some(s) => one(s, l, key, title, *tolerance),
            None => alone(l, key, title, *tolerance),
        }));
    }
    let run = |name: &str| lab.schemes.iter().any(|l| l.name == name);
    for s in simulated.schemes.iter().filter(|s| !run(&s.name)) {
        all.extend(wanted.iter().filter_map(|(key, title, tolerance)| {
            let alone = alone(s, key, title, *tolerance)?;
            let reason = Some("simulated alone: no lab has it".to_owned());
            Some(Compared { simulator: alone.lab, lab: None, reason, ..alone })
        }));
    }
    for compared in all.iter_mut().filter(|compared| !counts(&compared.scheme)) {
        compared.holds = None;
        compared.reason = Some("not judged: the lab's run is not valid".to_owned());
    }
    all
}

/// A metric of a scheme that the simulator does not know.
fn alone(lab: &SchemeResults, key: &str, title: &str, tolerance: f64) -> Option<Compared> {
    let measured = lab.measured(key).ok()?;
    Some(Compared {
        scheme: lab.name.clone(),
        metric: key.to_owned(),
        title: title.to_owned(),
        unit: measured.unit,
        simulator: None,
        lab: Some(measured.value).filter(|v| v.is_finite()),
        difference: None,
        tolerance,
        holds: None,
        reason: Some("not simulated: its guests are not modelled".to_owned()),
    })
}

/// `None` where neither has such a metric.
fn one(simulated: &SchemeResults, lab: &SchemeResults, key: &str, title: &str, tolerance: f64) -> Option<Compared> {
    let known = |r: &SchemeResults| r.pooled.get(key).is_some() || r.pooled.refused.iter().any(|f| f.name == key);
    if !known(simulated) && !known(lab) {
        return None;
    }
    // One flow is always fair to itself.
    if key.ends_with(".jain") && simulated.pooled.get(key) == Some(1.0) && lab.pooled.get(key) == Some(1.0) {
        return None;
    }
    let (s, l) = (simulated.measured(key), lab.measured(key));
    let unit = [&s, &l].into_iter().flatten().map(|m| m.unit).next().unwrap_or_default();
    let mut compared = Compared {
        scheme: simulated.name.clone(),
        metric: key.to_owned(),
        title: title.to_owned(),
        unit,
        simulator: s.as_ref().ok().map(|m| m.value).filter(|v| v.is_finite()),
        lab: l.as_ref().ok().map(|m| m.value).filter(|v| v.is_finite()),
        difference: None,
        tolerance,
        holds: None,
        reason: None,
    };
    match (compared.simulator, compared.lab) {
        (Some(a), Some(b)) => {
            let difference = if a == b { 0.0 } else { b / a - 1.0 };
            compared.difference = Some(difference).filter(|d| d.is_finite());
            compared.holds = Some(difference.abs() <= tolerance);
        }
        _ => match s.and(l) {
            Err(few) => compared.reason = Some(few),
            // One has it and the other does not, or both lose it among flows that did not finish.
            Ok(_) => {
                compared.holds = (compared.simulator.is_some() != compared.lab.is_some()).then_some(false);
                compared.reason = Some("falls among unfinished flows".to_owned());
            }
        },
    }
    Some(compared)
}

impl Compared {
    fn percent(&self) -> String {
        self.difference.map_or("-".to_owned(), |d| format!("{:+.1}%", d * 100.0))
    }
    fn allowed(&self) -> String {
        format!("{:.0}%", self.tolerance * 100.0)
    }
    fn value(&self, value: Option<f64>) -> String {
        value.map_or("-".to_owned(), |v| format!("{} {}", number(v), self.unit).trim_end().to_owned())
    }
}

/// For a terminal.
pub(super) fn text(all: &[Compared]) -> String {
    let mut grid = vec![["scheme", "metric", "simulator", "lab", "difference", "allowed", ""].map(str::to_owned)];
    for c in all {
        let verdict = match c.holds {
            Some(true) => "agrees".to_owned(),
            Some(false) => "DISAGREES".to_owned(),
            None => c.reason.clone().unwrap_or_default(),
        };
        let (simulator, lab) = (c.value(c.simulator), c.value(c.lab));
        grid.push([c.scheme.clone(), c.metric.clone(), simulator, lab, c.percent(), c.allowed(), verdict]);
    }
    let width = |column: usize| grid.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut out = String::new();
    for line in &grid {
        let [scheme, metric, simulator, lab, difference, allowed, verdict] = line;
        let shown = format!(
            "{scheme:<0$}  {metric:<1$}  {simulator:>2$}  {lab:>3$}  {difference:>4$}  {allowed:>5$}  {verdict}",
            widths[0], widths[1], widths[2], widths[3], widths[4], widths[5]
        );
        out += shown.trim_end();
        out.push('\n');
    }
    out
}

/// Both reports in one, each scheme twice, headed by the verdicts.
pub(super) fn report(simulated: ReportData, lab: ReportData, all: &[Compared]) -> ReportData {
    let mut merged = crate::figures::beside(simulated, " simulated", lab, " lab");
    merged.compared_with = Some(["Simulator".to_owned(), "Lab".to_owned()]);
    merged.checks = all
        .iter()
        .map(|c| CheckReport {
            id: c.scheme.clone(),
            source: format!("may differ by {}", c.allowed()),
            text: c.title.clone(),
            paper: c.value(c.simulator),
            measured: format!("{} ({})", c.value(c.lab), c.percent()),
            paper_value: c.simulator,
            values: c.lab.map(Cell::from).into_iter().collect(),
            status: match c.holds {
                Some(true) => CheckStatus::Holds,
                Some(false) => CheckStatus::Fails,
                None => CheckStatus::NotRun,
            },
            reason: c.reason.clone(),
            absolute: false,
        })
        .collect();
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Finished;
    use crate::scenario::{Choice, Plan};
    use config::Document;
    use host::outcome::{FlowRecord, Outcome, PortRecord};
    use std::time::Duration;
    use units::Time;

    const SCENARIO: &str = "duration = \"1s\"\nschemes = [\"ecmp\"]\n[topology]\nkind = \"dumbbell\"\npairs = 1\n\
                            [[workload]]\nname = \"w\"\npattern = \"mice\"\nto = \"fixed\"\npairs = [[0, 1]]\n\
                            size = \"1KB\"\nevery = \"10ms\"\n";

    /// Flows that take `fct_ms`, or do not finish, and a busiest queue.
    fn results(fct_ms: &[Option<u64>], queue: f64) -> Results {
        let plan =
            Plan::new(&Document::parse("s.toml", SCENARIO, "docs/scenarios.md").unwrap(), &Choice::default()).unwrap();
        let flow = |(id, fct): (usize, &Option<u64>)| FlowRecord {
            id: id as u32,
            class: 0,
            src: 0,
            dst: 1,
            size: Some(1000),
            start: Time::from_ms(1),
            finish: fct.map(|ms| Time::from_ms(1 + ms)),
            delivered: 1000,
            delivered_measured: 1000,
            ideal: None,
            retransmitted_segments: 0,
            fast_retransmits: 0,
            timeouts: 0,
            out_of_order: 0,
            segments_received: 1,
            paths_used: 0,
            handshake: None,
            request: None,
        };
        let port = PortRecord {
            name: "left-right".to_owned(),
            link: 2,
            forward: true,
            queue_mean_bytes: queue,
            ..PortRecord::default()
        };
        let outcome = Outcome {
            flows: fct_ms.iter().enumerate().map(flow).collect(),
            ports: vec![port],
            measured_until: Time::from_secs(1),
            ended_at: Time::from_secs(1),
            ..Outcome::default()
        };
        Results::new(plan, vec![Finished { scheme: "ecmp".to_owned(), seed: 1, outcome, wall: Duration::default() }])
    }

    fn of<'a>(all: &'a [Compared], metric: &str) -> &'a Compared {
        all.iter().find(|c| c.metric == metric).unwrap_or_else(|| panic!("{metric} in {all:?}"))
    }

    #[test]
    fn what_is_within_its_tolerance_agrees() {
        let all = compare(&results(&[Some(100)], 1000.0), &results(&[Some(114)], 1160.0), &|_| true);
        assert_eq!(of(&all, "w.fct_ms.p50").holds, Some(true), "14% of 15%");
        assert_eq!(of(&all, "queue.mean_kb.max").holds, Some(false), "16% of 15%");
        let p99 = of(&all, "w.fct_ms.p99");
        assert!(p99.holds.is_none() && p99.reason.as_ref().unwrap().contains("samples"), "{p99:?}");
        let shown = text(&all);
        assert!(shown.contains("+16.0%") && shown.contains("DISAGREES"), "{shown}");
    }

    #[test]
    fn what_is_not_modelled_is_shown_and_not_judged() {
        let mut simulated = results(&[Some(100)], 1000.0);
        simulated.schemes.clear();
        let all = compare(&simulated, &results(&[Some(114)], 1160.0), &|_| true);
        let queue = of(&all, "queue.mean_kb.max");
        assert_eq!((queue.simulator, queue.lab, queue.holds), (None, Some(1.16), None));
        assert!(all.iter().all(|c| c.holds.is_none()) && text(&all).contains("not simulated"));
    }

    #[test]
    fn an_unfinished_median_agrees_with_nothing() {
        let (done, lost) = (results(&[Some(5)], 0.0), results(&[None], 0.0));
        assert_eq!(of(&compare(&done, &lost, &|_| true), "w.fct_ms.p50").holds, Some(false));
        assert_eq!(of(&compare(&lost, &lost, &|_| true), "w.fct_ms.p50").holds, None);
        let late = compare(&done, &lost, &|scheme| scheme != "ecmp");
        assert_eq!(of(&late, "w.fct_ms.p50").holds, None, "a machine that was late proves nothing");
        assert_eq!(
            of(&compare(&done, &done, &|_| true), "queue.mean_kb.max").difference,
            Some(0.0),
            "two empty queues"
        );
    }
}
