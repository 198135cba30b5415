//! Requests that many hosts answer at once: each is over with the last of its answers.

use super::Samples;
use crate::outcome::{FlowRecord, Outcome};
use std::collections::BTreeMap;
use units::Time;

/// Those of one workload, of all runs.
#[derive(Debug)]
pub(super) struct Requests {
    /// From the start of the first answer to the end of the last one, ms.
    pub(super) times: Samples,
    /// What the receiver would get of requests one after the other: the finished ones' bytes over the sum of their times.
    pub(super) gbps: Option<f64>,
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
struct Request {
    start: Time,
    /// `None`: an answer is missing.
    finish: Option<Time>,
    bytes: f64,
}

/// Of the flows that `which` picks; those that begin before `warmup` are left out. `None` where no flow answers a request.
pub(super) fn requests(outcomes: &[&Outcome], which: &dyn Fn(&FlowRecord) -> bool, warmup: Time) -> Option<Requests> {
    let (mut times, mut unfinished) = (Vec::new(), 0);
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for outcome in outcomes {
        for request in of_run(outcome, which).filter(|request| request.start >= warmup) {
            let Some(finish) = request.finish else {
                unfinished += 1;
                continue;
            };
            let took = finish.saturating_sub(request.start);
            times.push(took.as_ms_f64());
            bytes += request.bytes;
            seconds += took.as_secs_f64();
        }
    }
    if times.is_empty() && unfinished == 0 {
        return None;
    }
    let gbps = (seconds > 0.0).then(|| bytes * 8.0 / seconds / 1e9);
    Some(Requests { times: Samples::new(times, unfinished), gbps })
}

fn of_run(outcome: &Outcome, which: &dyn Fn(&FlowRecord) -> bool) -> impl Iterator<Item = Request> {
    let mut found: BTreeMap<(u16, u32), Request> = BTreeMap::new();
    for flow in outcome.flows.iter().filter(|flow| which(flow)) {
        let (Some(number), Some(size)) = (flow.request, flow.size) else { continue };
        let this = Request { start: flow.start, finish: flow.finish, bytes: size as f64 };
        let all = found.entry((flow.class, number)).or_insert(Request { bytes: 0.0, ..this });
        all.start = all.start.min(this.start);
        all.finish = all.finish.zip(this.finish).map(|(one, other)| one.max(other));
        all.bytes += this.bytes;
    }
    found.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_ms(1);

    fn answer(request: u32, start: u64, finish: Option<u64>) -> FlowRecord {
        let finish = finish.map(|ms| MS * ms);
        FlowRecord { request: Some(request), size: Some(500_000), start: MS * start, finish, ..FlowRecord::endless() }
    }

    fn run(flows: Vec<FlowRecord>) -> Outcome {
        Outcome { flows, ..Outcome::default() }
    }

    #[test]
    fn a_request_takes_as_long_as_its_slowest_answer() {
        // Two runs have requests of one number. The third answer begins late; the one of the warm-up does not count.
        let one = run(vec![
            answer(0, 1, Some(90)),
            answer(1, 10, Some(11)),
            answer(1, 10, Some(12)),
            answer(1, 11, Some(14)),
        ]);
        let other = run(vec![answer(1, 10, Some(20))]);
        let found = requests(&[&one, &other], &|_| true, MS * 5).unwrap();
        assert_eq!((found.times.count(), found.times.unfinished()), (2, 0));
        assert_eq!(found.times.mean_finished(), Some(7.0), "4 and 10 ms");
        // 2 MB in 14 ms.
        assert!((found.gbps.unwrap() - 16.0 / 14.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_request_without_its_last_answer_is_not_finished() {
        let outcome = run(vec![answer(0, 0, Some(1)), answer(0, 0, None), answer(1, 2, Some(4))]);
        let found = requests(&[&outcome], &|_| true, Time::ZERO).unwrap();
        assert_eq!((found.times.count(), found.times.unfinished()), (2, 1));
        assert!((found.gbps.unwrap() - 2.0).abs() < 1e-9, "of the finished one: {found:?}");
        let none = run(vec![answer(0, 0, None)]);
        assert_eq!(requests(&[&none], &|_| true, Time::ZERO).unwrap().gbps, None);
    }

    #[test]
    fn flows_that_answer_nothing_are_no_requests() {
        let outcome = run(vec![FlowRecord { size: Some(1), finish: Some(MS), ..FlowRecord::endless() }]);
        assert!(requests(&[&outcome], &|_| true, Time::ZERO).is_none());
        assert!(requests(&[&run(vec![answer(0, 0, Some(1))])], &|_| false, Time::ZERO).is_none());
    }
}
