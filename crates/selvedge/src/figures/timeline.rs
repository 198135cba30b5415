//! What happened when: failures of links, and flows that did not finish.

use crate::report::{LinkEvent, ReportData, Timeline, UnfinishedFlow};
use crate::results::{Results, SchemeResults};
use crate::unfinished::unfinished;

/// Flows of a scheme that are drawn; the table counts all.
const SHOWN: usize = 100;

/// `None` if nothing failed and everything finished.
pub(super) fn timeline(results: &Results) -> Option<Timeline> {
    let scenario = &results.plan.scenario;
    let event = |failure: &crate::scenario::FailureTable| LinkEvent {
        point: String::new(),
        at_ms: failure.at.as_ms_f64(),
        link: failure.link.clone(),
        up: failure.up,
    };
    let links: Vec<LinkEvent> = scenario.failure.iter().map(event).collect();
    let quiet = links.is_empty() && results.schemes.iter().all(|scheme| scheme.unfinished() == 0);
    let ends_ms = scenario.duration.saturating_add(scenario.drain).as_ms_f64();
    (!quiet).then_some(Timeline { points: Vec::new(), ends_ms, links })
}

/// Names the point of a sweep that a report is of.
pub(super) fn name(part: &mut ReportData, point: &str) {
    if let Some(timeline) = &mut part.timeline {
        timeline.points = vec![point.to_owned()];
        timeline.links.iter_mut().for_each(|event| event.point = point.to_owned());
    }
    let flows = part.schemes.iter_mut().flat_map(|scheme| &mut scheme.unfinished_flows);
    flows.for_each(|flow| flow.point = point.to_owned());
}

/// The timelines of two points, on one axis. A failure that both have is told once, for both.
pub(super) fn join(all: &mut Option<Timeline>, part: Option<Timeline>) {
    let Some(mut part) = part else { return };
    let Some(all) = all else {
        *all = Some(part);
        return;
    };
    all.ends_ms = all.ends_ms.max(part.ends_ms);
    all.points.append(&mut part.points);
    for event in part.links {
        let same = |known: &&mut LinkEvent| {
            (known.link == event.link) && known.up == event.up && known.at_ms.total_cmp(&event.at_ms).is_eq()
        };
        match all.links.iter_mut().find(same) {
            Some(known) => known.point = format!("{}, {}", known.point, event.point),
            None => all.links.push(event),
        }
    }
}

/// The first flows of each seed that had not finished.
pub(super) fn flows(results: &Results, scheme: &SchemeResults) -> Vec<UnfinishedFlow> {
    let share = SHOWN.div_ceil(scheme.runs.len().max(1));
    let mut all = Vec::new();
    for run in &scheme.runs {
        for (flow, cause) in unfinished(&run.outcome).take(share) {
            let workload = results.plan.scenario.workload.get(usize::from(flow.class)).map_or("", |w| &w.name);
            all.push(UnfinishedFlow {
                point: String::new(),
                flow: format!("{workload} {}, {} to {}, seed {}", flow.id, flow.src, flow.dst, run.seed),
                from_ms: flow.start.as_ms_f64(),
                to_ms: run.outcome.ended_at.as_ms_f64(),
                delivered: flow.size.map_or(0.0, |size| flow.delivered as f64 / size.max(1) as f64),
                cause: cause.words().to_owned(),
            });
        }
    }
    all
}
