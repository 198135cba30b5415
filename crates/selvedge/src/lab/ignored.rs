//! Keys of a scenario that a lab cannot honour; `lab run` names them.

use host::experiment::Experiment;
use host::tcp::{Config, Recovery};
use units::Time;

/// Keys that are not at their defaults and change nothing in a lab. docs/lab.md lists them.
pub(super) fn without_effect(experiment: &Experiment) -> Vec<String> {
    let (asked, default) = (&experiment.hosts.tcp, Config::default());
    let mut keys: Vec<String> = [
        ("rto_initial", asked.rto_initial != default.rto_initial),
        ("delayed_ack", asked.delayed_ack != default.delayed_ack && asked.delayed_ack != Time::ZERO),
        ("quickack", asked.quickack != default.quickack),
        ("tso_defer", asked.tso_defer != default.tso_defer),
        ("tso_defer_near", asked.tso_defer_near != default.tso_defer_near),
        ("tsq_truesize", asked.tsq_truesize != default.tsq_truesize),
        ("tsq_floor", asked.tsq_floor != default.tsq_floor),
        ("tso_autosize", asked.tso_autosize != default.tso_autosize),
        ("tso_rtt_log", asked.tso_rtt_log != default.tso_rtt_log),
        ("pacing", asked.pacing != default.pacing),
        ("nagle", asked.nagle != default.nagle),
        ("prr", asked.prr != default.prr),
        ("adaptive_reordering", asked.adaptive_reordering != default.adaptive_reordering),
        ("undo", asked.undo != default.undo),
        ("hystart", asked.hystart != default.hystart),
        ("hystart_ticks", asked.hystart_ticks != default.hystart_ticks),
        ("dctcp_cancels_ack", asked.dctcp_cancels_ack != default.dctcp_cancels_ack),
    ]
    .into_iter()
    .filter(|(_, changed)| *changed)
    .map(|(key, _)| format!("host.tcp.{key}"))
    .collect();
    if experiment.hosts.cpu.is_some() {
        keys.push("host.cpu".to_owned());
    }
    if experiment.record.flowcells {
        keys.push("record.flowcells".to_owned());
    }
    for workload in &experiment.workloads {
        if workload.priority > 0 {
            keys.push(format!("workload {}'s priority", workload.name));
        }
    }
    keys
}

/// Linux 6.17 and later have no RFC 6675 any more: `tcp_recovery` says nothing there, and who speaks SACK has RACK.
pub(super) fn rack_all_the_same(experiment: &Experiment, release: &str) -> Option<String> {
    let version = agent_api::release::version_of(release)?;
    (experiment.hosts.tcp.recovery == Recovery::Sack && version >= (6, 17)).then(|| {
        format!(
            "Linux {} has RACK with SACK, always: host.tcp.recovery = \"sack\" is \"rack\" with tail_loss_probe = false here",
            release.trim()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::topo::file;
    use crate::scenario::{Choice, Plan};

    #[test]
    fn what_linux_has_no_setting_for_is_named() {
        let ignored = |host: &str| {
            let document = file("s.toml", &format!("[topology]\nkind = \"dumbbell\"\npairs = 1\n{host}")).unwrap();
            let plan = Plan::new(&document, &Choice { schemes: vec!["ecmp".to_owned()], seeds: None }).unwrap();
            without_effect(plan.schemes[0].template())
        };
        assert_eq!(ignored(""), [""; 0]);
        assert_eq!(
            ignored("[host.tcp]\nrto_min = \"10ms\"\npacing = true\nprr = false\n"),
            ["host.tcp.pacing", "host.tcp.prr"]
        );
        assert_eq!(ignored("[host]\ncpu = \"presto-testbed\"\n"), ["host.cpu"]);
    }

    #[test]
    fn recovery_without_rack_is_had_before_linux_6_17_alone() {
        let note = |recovery: &str, release: &str| {
            let text = format!("[topology]\nkind = \"dumbbell\"\npairs = 1\n[host.tcp]\nrecovery = \"{recovery}\"\n");
            let document = file("s.toml", &text).unwrap();
            let plan = Plan::new(&document, &Choice { schemes: vec!["ecmp".to_owned()], seeds: None }).unwrap();
            rack_all_the_same(plan.schemes[0].template(), release)
        };
        assert!(note("sack", "6.18.44\n").unwrap().starts_with("Linux 6.18.44 has RACK"));
        for (recovery, release) in [("sack", "6.12.1-amd64"), ("rack", "6.18.44"), ("newreno", "7.0"), ("sack", "?")] {
            assert_eq!(note(recovery, release), None, "{recovery} on {release}");
        }
    }
}
