//! Why flows had not finished when their run ended.

use host::outcome::{FlowRecord, Outcome};
use std::collections::BTreeMap;
use units::Time;

/// The first of these that is true of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// Its end came sooner than its bytes could have crossed an idle network.
    TooLate,
    /// Its sender waited for retransmission timeouts, and its receiver has nothing.
    NothingArrived,
    /// Its receiver has nothing, and no timeout has passed: it has just begun, or its SYN was lost and waits for `host.tcp.rto_initial`, a second by default.
    Silent,
    /// Its sender waited for retransmission timeouts.
    Timeouts,
    /// Its sender retransmitted.
    Losses,
    /// Nothing but the time that it had.
    Slow,
}

impl Cause {
    /// Of a flow that had not finished at `ended`.
    pub(crate) fn of(flow: &FlowRecord, ended: Time) -> Cause {
        match flow {
            _ if flow.ideal.is_some_and(|ideal| flow.start.saturating_add(ideal) > ended) => Cause::TooLate,
            _ if flow.timeouts > 0 && flow.delivered == 0 => Cause::NothingArrived,
            _ if flow.timeouts == 0 && flow.delivered == 0 && flow.segments_received == 0 => Cause::Silent,
            _ if flow.timeouts > 0 => Cause::Timeouts,
            _ if flow.retransmitted_segments > 0 => Cause::Losses,
            _ => Cause::Slow,
        }
    }

    /// Completes "flows that ...".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Cause::TooLate => "began too late to finish even on an idle network",
            Cause::NothingArrived => "lost their first packets and waited for timeouts",
            Cause::Silent => "had delivered nothing: just begun, or the SYN was lost",
            Cause::Timeouts => "lost packets and waited for timeouts",
            Cause::Losses => "lost packets",
            Cause::Slow => "were still sending",
        }
    }
}

/// Flows of bounded size that have no end, with their cause.
pub(crate) fn unfinished(outcome: &Outcome) -> impl Iterator<Item = (&FlowRecord, Cause)> {
    let flows = outcome.flows.iter().filter(|flow| flow.size.is_some() && flow.finish.is_none());
    flows.map(|flow| (flow, Cause::of(flow, outcome.ended_at)))
}

/// "3 were still sending; 1 lost packets", the most frequent cause first.
pub(crate) fn counted(causes: impl Iterator<Item = Cause>) -> String {
    let mut counts: BTreeMap<Cause, usize> = BTreeMap::new();
    causes.for_each(|cause| *counts.entry(cause).or_default() += 1);
    let mut counts: Vec<(Cause, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(cause, n)| (std::cmp::Reverse(n), cause));
    let words: Vec<String> = counts.into_iter().map(|(cause, n)| format!("{n} {}", cause.words())).collect();
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_counts() {
        let flow = FlowRecord {
            id: 0,
            class: 0,
            src: 0,
            dst: 1,
            size: Some(1000),
            start: Time::from_ms(5),
            finish: None,
            delivered: 0,
            delivered_measured: 0,
            ideal: Some(Time::from_ms(1)),
            retransmitted_segments: 0,
            fast_retransmits: 0,
            timeouts: 0,
            out_of_order: 0,
            segments_received: 0,
            paths_used: 1,
            handshake: None,
            request: None,
        };
        let ended = Time::from_ms(10);
        let of = |change: &dyn Fn(&mut FlowRecord)| {
            let mut flow = flow.clone();
            change(&mut flow);
            Cause::of(&flow, ended)
        };
        assert_eq!(of(&|_| ()), Cause::Silent);
        assert_eq!(of(&|f| f.segments_received = 1), Cause::Slow);
        assert_eq!(of(&|f| (f.retransmitted_segments, f.segments_received) = (1, 1)), Cause::Losses);
        assert_eq!(of(&|f| (f.timeouts, f.delivered) = (1, 5)), Cause::Timeouts);
        assert_eq!(of(&|f| (f.timeouts, f.retransmitted_segments) = (1, 1)), Cause::NothingArrived);
        assert_eq!(of(&|f| (f.timeouts, f.ideal) = (1, Some(Time::from_ms(6)))), Cause::TooLate);
        let some = [Cause::TooLate, Cause::Slow, Cause::Slow];
        let told = "2 were still sending; 1 began too late to finish even on an idle network";
        assert_eq!(counted(some.into_iter()), told);
    }
}
