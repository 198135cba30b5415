//! What edges of the hidden overlay have dropped.

use crate::outcome::Outcome;
use edge::hidden::Counters;

/// Metrics with a count of each reason, also where nothing was dropped; runs without the overlay have none of them.
pub(super) fn drops(outcomes: &[&Outcome]) -> Vec<(&'static str, f64)> {
    let all = || outcomes.iter().flat_map(|o| &o.hosts).map(|h| &h.hidden);
    if all().all(|counters| *counters == Counters::default()) {
        return Vec::new();
    }
    let per_run = |of: fn(&Counters) -> u64| all().map(of).sum::<u64>() as f64 / outcomes.len() as f64;
    vec![
        ("hidden.malformed_packets", per_run(|c| c.malformed_packets)),
        ("hidden.forged_packets", per_run(|c| c.forged_packets)),
        ("hidden.refused_segments", per_run(|c| c.refused_segments)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::HostRecord;

    fn run(hosts: &[Counters]) -> Outcome {
        let host = |hidden: &Counters| HostRecord { hidden: *hidden, ..HostRecord::default() };
        Outcome { hosts: hosts.iter().map(host).collect(), ..Outcome::default() }
    }

    #[test]
    fn each_reason_has_its_count_a_run_and_only_the_hidden_overlay_has_any() {
        let sends = Counters { hidden_segments: 9, ..Counters::default() };
        let meets = Counters { malformed_packets: 3, forged_packets: 4, refused_segments: 5, ..sends };
        let named = |counts: [f64; 3]| {
            let names = ["hidden.malformed_packets", "hidden.forged_packets", "hidden.refused_segments"];
            names.into_iter().zip(counts).collect::<Vec<_>>()
        };
        assert_eq!(drops(&[&run(&[sends])]), named([0.0; 3]));
        assert_eq!(drops(&[&run(&[sends, meets, meets]), &run(&[sends])]), named([3.0, 4.0, 5.0]));
        assert!(drops(&[&run(&[Counters::default()])]).is_empty());
    }
}
