//! How many flows of a list are open at a time, and between how many pairs they go.

use super::FlowSpec;
use units::{BitRate, Time};

/// What a flow takes of a link besides its bytes: handshake, headers, acknowledgements.
pub(super) const OVERHEAD: f64 = 200.0;
/// The least time from one flow of a closed loop to its next: what a flow of no size takes.
pub(super) const TURN: Time = Time::from_us(5);

/// Parts of a list's time: a flow that ends within a part counts as open until the part's end.
const PARTS: u64 = 1 << 20;

/// Those of a list that start before `end`, and the most of them that are open at a time. A host's link takes them one after
/// another, at `rate`, and a flow is open until both its hosts' links have had it. Slow starts, and fabrics that carry less
/// than their hosts send, keep more of them open; they are not known here.
pub(super) fn of_list(flows: &[FlowSpec], end: Time, hosts: usize, rate: BitRate) -> (u64, u64) {
    let mut order: Vec<u32> = (0..).zip(flows).filter(|(_, flow)| flow.start < end).map(|(n, _)| n).collect();
    order.sort_by_key(|&n| flows[n as usize].start);
    let (Some(&first), Some(&last)) = (order.first(), order.last()) else { return (0, 0) };
    let (begin, last) = (flows[first as usize].start.as_ps(), flows[last as usize].start.as_ps());
    let length = (last - begin) / PARTS + 1;
    let part = |at: u64| ((at - begin) / length) as usize;
    let hosts = hosts.max(1);
    let mut free = vec![[0u64; 2]; hosts];
    let mut closed = vec![0u32; part(last) + 2];
    let (mut open, mut most, mut so_far) = (0u64, 0u64, 0);
    for &n in &order {
        let flow = &flows[n as usize];
        let at = flow.start.as_ps();
        // What has ended in earlier parts.
        while so_far < part(at) {
            so_far += 1;
            open -= u64::from(closed[so_far]);
        }
        let (src, dst) = (flow.src as usize % hosts, flow.dst as usize % hosts);
        let takes = flow.size.map_or(u64::MAX / 4, |bytes| sending(bytes, rate));
        let mut carried = 0;
        for (host, way) in [(src, 0), (dst, 1)] {
            let link = &mut free[host][way];
            let gone = at.max(*link).saturating_add(takes);
            // One that never ends shares the link with the others.
            *link = if flow.size.is_some() { gone } else { *link };
            carried = gone.max(carried);
        }
        open += 1;
        most = most.max(open);
        if let Some(closed) = closed.get_mut(part(carried.saturating_add(TURN.as_ps())) + 1) {
            *closed += 1;
        }
    }
    (order.len() as u64, most)
}

fn sending(bytes: u64, rate: BitRate) -> u64 {
    ((bytes as f64 + OVERHEAD) * 8e12 / rate.as_bps().max(1) as f64).min((u64::MAX / 4) as f64) as u64
}

/// Pairs of hosts between which flows of a list go that start before `end`.
pub(super) fn pairs(flows: &[FlowSpec], end: Time) -> u64 {
    let started = flows.iter().filter(|flow| flow.start < end);
    let mut pairs: Vec<u64> = started.map(|flow| u64::from(flow.src) << 32 | u64::from(flow.dst)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Connection;

    const RATE: BitRate = BitRate::from_gbps(10);

    /// From host to host, microseconds, kilobytes.
    fn list(flows: &[(u32, u32, u64, u64)]) -> Vec<FlowSpec> {
        let spec = |&(src, dst, us, kb): &(u32, u32, u64, u64)| FlowSpec {
            start: Time::from_us(us),
            src,
            dst,
            size: (kb > 0).then_some(kb * 1000),
            class: 0,
            reply: false,
            request: None,
            connection: Connection::Fresh,
            tag: 0,
        };
        flows.iter().map(spec).collect()
    }

    #[test]
    fn what_links_have_not_carried_is_open() {
        let most = |flows: &[(u32, u32, u64, u64)]| of_list(&list(flows), Time::from_ms(100), 8, RATE).1;
        // 1 MB takes 800 us.
        assert_eq!(most(&[(0, 1, 0, 1000), (2, 3, 1000, 1000), (0, 1, 3000, 1000)]), 1);
        assert_eq!(
            most(&[(0, 1, 0, 1000), (2, 1, 0, 1000), (4, 1, 0, 1000), (6, 1, 1700, 1000)]),
            3,
            "at its receiver"
        );
        assert_eq!(most(&[(0, 1, 0, 1000), (0, 3, 0, 1000), (0, 5, 500, 1000)]), 3, "at its sender");
        assert_eq!(most(&[(0, 1, 0, 0), (0, 1, 0, 1), (0, 1, 9000, 1)]), 2, "one without an end stays open");
        assert_eq!(most(&[(0, 1, 5000, 1000), (0, 1, 0, 1000)]), 1, "in whatever order the list is");
        let many: Vec<_> = (0..10_000).map(|n| (n % 4, 4 + n % 4, 0, 1)).collect();
        assert_eq!(most(&many), 10_000);
    }

    #[test]
    fn what_starts_too_late_counts_for_nothing() {
        let flows = list(&[(0, 1, 0, 1), (1, 0, 10, 1), (0, 1, 20, 1), (3, 4, 30, 1)]);
        let before = |us| (of_list(&flows, Time::from_us(us), 8, RATE), pairs(&flows, Time::from_us(us)));
        assert_eq!(before(0), ((0, 0), 0));
        assert_eq!(before(25), ((3, 1), 2));
        assert_eq!(before(99), ((4, 1), 3));
    }
}
