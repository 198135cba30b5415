//! `[paths]`: path discovery.

use config::{within, within_time, Invalid, Wrong};
use edge::balance::{Scheme, AGENTS};
use schemars::JsonSchema;
use serde::Deserialize;
use units::Time;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PathsTable {
    /// Find out which source ports lead to which paths to each peer. They become its labels, unless the configuration lists labels
    /// or a controller orders some.
    discovery: bool,
    /// Between two checks of the paths to a peer.
    #[schemars(extend("x-range" = ["100ms", "60s"], "default" = "500ms"))]
    period: Option<Time>,
    /// Longest wait for an answer. A probe without one is sent once more.
    #[schemars(extend("x-range" = ["10ms", "1s"], "default" = "100ms"))]
    patience: Option<Time>,
    /// Most paths to a peer: those that share the fewest hops.
    #[schemars(range(min = 1, max = 64), extend("default" = 8))]
    count: Option<u32>,
    /// Ports that are tried when a peer's paths are searched.
    #[schemars(range(min = 1, max = 256), extend("default" = 64))]
    survey_ports: Option<u32>,
    /// Longest path, hops, the peer included.
    #[schemars(range(min = 2, max = 32), extend("default" = 16))]
    max_hops: Option<u32>,
    /// Most probes per second, to all peers together.
    #[schemars(range(min = 10, max = 100_000), extend("default" = 10_000))]
    probes_per_second: Option<u32>,
    /// A peer that has sent nothing for so long is no longer traced; its labels stay.
    #[schemars(extend("x-range" = ["1s", "3600s"], "default" = "60s"))]
    idle: Option<Time>,
}

impl PathsTable {
    pub(super) fn is_on(&self) -> bool {
        self.discovery
    }

    /// What it means; `None`: nothing is traced. `policy`: the scheme, and the word by which the file names it.
    pub(super) fn check(&self, (word, policy): (&str, &Scheme)) -> Result<Option<discovery::Config>, Wrong> {
        let mut wrong = Wrong::new();
        let PathsTable { discovery: on, period, patience, count, survey_ports, max_hops, probes_per_second, idle } =
            self.clone();
        let without_meaning = [
            ("period", period.is_some()),
            ("patience", patience.is_some()),
            ("count", count.is_some()),
            ("survey_ports", survey_ports.is_some()),
            ("max_hops", max_hops.is_some()),
            ("probes_per_second", probes_per_second.is_some()),
            ("idle", idle.is_some()),
        ];
        for (key, _) in without_meaning.iter().filter(|(_, given)| *given && !on) {
            let problem = "has no meaning without discovery = true";
            wrong.add(Invalid::new(format!("paths.{key}"), problem, "add that, or remove this"));
        }
        for (key, value, shortest, longest) in [
            ("period", period, Time::from_ms(100), Time::from_secs(60)),
            ("patience", patience, Time::from_ms(10), Time::from_secs(1)),
            ("idle", idle, Time::from_secs(1), Time::from_secs(3600)),
        ] {
            wrong.note(within_time(&format!("paths.{key}"), value.unwrap_or(shortest), shortest, longest));
        }
        for (key, value, least, most) in [
            ("count", count, 1, 64),
            ("survey_ports", survey_ports, 1, 256),
            ("max_hops", max_hops, 2, 32),
            ("probes_per_second", probes_per_second, 10, 100_000),
        ] {
            wrong.note(within(&format!("paths.{key}"), value.unwrap_or(least), least, most));
        }
        if on && !policy.labels {
            let remedy = format!("remove it, or let balance.policy be {:?}", AGENTS.name);
            wrong.add(Invalid::new("paths.discovery", format!("the policy {word:?} takes no labels"), remedy));
        }
        let known = discovery::Config::default();
        let config = discovery::Config {
            period: period.unwrap_or(known.period),
            patience: patience.unwrap_or(known.patience),
            paths: count.map_or(known.paths, |n| n as usize),
            survey_ports: survey_ports.map_or(known.survey_ports, |n| n as usize),
            max_hops: max_hops.map_or(known.max_hops, |n| n as u8),
            probes_per_second: probes_per_second.unwrap_or(known.probes_per_second),
            idle: idle.unwrap_or(known.idle),
            ..known
        };
        if config.paths > config.survey_ports && wrong.is_empty() {
            let problem = format!("{} ports cannot lead to {} paths", config.survey_ports, config.paths);
            wrong.add(Invalid::new("paths.survey_ports", problem, "give at least as many as paths.count"));
        }
        wrong.or(on.then_some(config))
    }
}
