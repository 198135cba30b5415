//! Packets that cross a host's link, in both directions.

use fabric::Captured;
use host::experiment::Experiment;
use host::outcome::Outcome;
use units::Time;

/// More packets than a run of these tests has.
const ALL: u32 = 4_000_000;

/// Which way a packet went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Out,
    In,
}

/// A run, and the packets on the link of `host` in order of time. Only one direction is captured at a time; a second run with the same seed
/// is the same.
pub(crate) fn traced(e: &Experiment, host: u32) -> (Outcome, Vec<(Way, Captured)>) {
    let mut e = e.clone();
    let mut run = |way, port| {
        e.record.capture = Some((port, ALL));
        let mut outcome = host::run(&e, &mut |_| {}).unwrap();
        let packets: Vec<_> = std::mem::take(&mut outcome.captured).into_iter().map(|seen| (way, seen)).collect();
        assert!(packets.len() < ALL as usize, "the capture is full");
        (outcome, packets)
    };
    let (outcome, mut packets) = run(Way::Out, 2 * host);
    packets.extend(run(Way::In, 2 * host + 1).1);
    packets.sort_by_key(|(_, seen)| seen.at);
    (outcome, packets)
}

/// Sum of `size` in each window of so long from the first packet on.
pub(crate) fn windows<'a>(
    packets: impl Iterator<Item = &'a (Way, Captured)>,
    from: Time,
    until: Time,
    every: Time,
    size: impl Fn(&Captured) -> u64,
) -> Vec<u64> {
    let mut sums = vec![0; (until.saturating_sub(from).as_ps() / every.as_ps()) as usize];
    for (_, seen) in packets.filter(|(_, seen)| seen.at >= from) {
        if let Some(sum) = sums.get_mut(((seen.at - from).as_ps() / every.as_ps()) as usize) {
            *sum += size(seen);
        }
    }
    sums
}
