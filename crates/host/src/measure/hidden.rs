//! What edges of the hidden overlay have dropped.

use super::summary::Summary;
use crate::outcome::Outcome;
use edge::hidden::Counters;

/// Puts a count of each reason, also where nothing was dropped; runs without the overlay have none of them.
pub(super) fn put(summary: &mut Summary, outcomes: &[&Outcome]) {
    let all = || outcomes.iter().flat_map(|o| &o.hosts).map(|h| &h.hidden);
    if all().all(|counters| *counters == Counters::default()) {
        return;
    }
    let per_run = |of: fn(&Counters) -> u64| all().map(of).sum::<u64>() as f64 / outcomes.len() as f64;
    summary.put("hidden.malformed_packets", per_run(|c| c.malformed_packets), "count");
    summary.put("hidden.forged_packets", per_run(|c| c.forged_packets), "count");
    summary.put("hidden.refused_segments", per_run(|c| c.refused_segments), "count");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::HostRecord;

    fn run(hosts: &[Counters]) -> Outcome {
        let host = |hidden: &Counters| HostRecord { hidden: *hidden, ..HostRecord::default() };
        Outcome { hosts: hosts.iter().map(host).collect(), ..Outcome::default() }
    }

    fn drops(outcomes: &[&Outcome]) -> Vec<(String, f64)> {
        let mut summary = Summary::default();
        put(&mut summary, outcomes);
        summary.metrics.into_iter().map(|metric| (metric.name, metric.value)).collect()
    }

    #[test]
    fn each_reason_has_its_count_a_run_and_only_the_hidden_overlay_has_any() {
        let sends = Counters { hidden_segments: 9, ..Counters::default() };
        let meets = Counters { malformed_packets: 3, forged_packets: 4, refused_segments: 5, ..sends };
        let named = |counts: [f64; 3]| {
            let names = ["hidden.malformed_packets", "hidden.forged_packets", "hidden.refused_segments"];
            names.map(str::to_owned).into_iter().zip(counts).collect::<Vec<_>>()
        };
        assert_eq!(drops(&[&run(&[sends])]), named([0.0; 3]));
        assert_eq!(drops(&[&run(&[sends, meets, meets]), &run(&[sends])]), named([3.0, 4.0, 5.0]));
        assert!(drops(&[&run(&[Counters::default()])]).is_empty());
    }
}
