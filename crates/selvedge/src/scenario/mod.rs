//! Scenario files: strict TOML in, ready experiments out.
//!
//! [`config::Document`] knows the place of each key, [`Scenario`] is the file with every default filled in, and [`Plan`]
//! holds one [`Experiment`] per scheme. All errors of a file are reported at once, one line each, with place, key and
//! remedy.

mod cautions;
mod congestion;
mod draft;
mod era;
mod fastlane;

mod guests;
mod hidden;
mod hosts;
mod limiter;
mod memory;
mod network;
mod overlay;
mod plan;
mod queues;
mod scheme;
mod scheme_plan;
mod seeds;
mod switch;
mod tenants;
mod traffic;

pub use congestion::{CongestionTable, LawWord, RuleTable};
pub use fastlane::FastLaneTable;

pub use hosts::{HostTable, TcpTable};
pub use limiter::{FqCodelTable, LimiterClassTable, LimiterLawWord, LimiterTable};
pub use memory::Room;
pub(crate) use memory::{planned_bytes, shown as shown_bytes};
pub use network::{fabric, FailureTable, Kind, TopologyTable};
pub use overlay::OverlayWord;
pub use plan::{Choice, Plan};
pub use scheme::{FabricWord, RestTable, SchemeTable, Schemes, Wait, BUILT_IN};
pub use scheme_plan::SchemePlan;
pub use seeds::Seeds;
pub use switch::SwitchTable;
pub use tenants::{HoldWord, TenantLawWord, TenantsTable};
pub use traffic::{PatternWord, TransportWord, WorkloadTable};

use config::{within, Faults, Invalid, Wrong};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Time;

/// A scenario file without the keys that only the reproduction harness reads. See docs/scenarios.md for every key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Heading of table and report.
    #[serde(default)]
    pub title: String,
    /// A sentence for the report.
    #[serde(default)]
    pub description: String,
    /// End of the run; no flow starts later.
    #[schemars(extend("x-range" = ["1ns", "100000s"]))]
    pub duration: Time,
    /// Start of the measurement of rates, queues and RTTs; bounded flows that start earlier do not count.
    #[serde(default)]
    pub warmup: Time,
    /// Extra time after `duration` in which started flows of bounded size may finish.
    #[schemars(extend("x-range" = ["0s", "100000s"]))]
    #[serde(default)]
    pub drain: Time,
    /// Each scheme runs once with each.
    #[serde(default = "one_seed")]
    pub seeds: Seeds,
    /// Schemes to run; the others are compared with the first.
    #[serde(default)]
    pub schemes: Vec<String>,
    pub topology: TopologyTable,
    #[serde(default)]
    pub switch: SwitchTable,
    #[serde(default)]
    pub host: HostTable,
    #[serde(default)]
    pub record: RecordTable,
    pub workload: Vec<WorkloadTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure: Vec<FailureTable>,
    #[serde(default)]
    pub scheme: Schemes,
}

fn one_seed() -> Seeds {
    Seeds(vec![1])
}

/// `[record]`: what to keep beyond flow records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordTable {
    /// Interval of the goodput, queue and utilisation series; `"0s"`: no series.
    #[schemars(extend("x-range" = ["0s", "100000s"]))]
    pub sample_every: Time,
    /// One 64-byte request and its echo per host and interval; `"0s"`: none.
    #[schemars(extend("x-range" = ["0s", "100000s"]))]
    pub probe_every: Time,
    /// Keep every RTT sample of the senders.
    pub rtt_samples: bool,
    /// Count flowcells out of order, and sizes of segments, as TCP sees them.
    pub flowcells: bool,
    /// Packets kept by `--capture`.
    pub capture_packets: u32,
}

impl Default for RecordTable {
    fn default() -> Self {
        RecordTable {
            sample_every: Time::from_ms(1),
            probe_every: Time::ZERO,
            rtt_samples: false,
            flowcells: false,
            capture_packets: 10_000,
        }
    }
}

impl Scenario {
    /// Fills in defaults that depend on other keys, and notes values that cannot be meant together. Says whether all keys of the fabric
    /// make sense.
    fn complete(&mut self, faults: &mut Faults) -> bool {
        let times = self.check_times();
        faults.note(times);
        for (key, every) in
            [("record.sample_every", self.record.sample_every), ("record.probe_every", self.record.probe_every)]
        {
            if every != Time::ZERO {
                faults.note(within(key, every, Time::from_us(1), Time::from_secs(100_000)));
            }
        }
        let fabric = faults.note(self.topology.complete()).is_some() && faults.has_whole("topology");
        let rate = self.topology.rate;
        if self.workload.is_empty() {
            faults.tell(Invalid::new("workload", "is empty", "add a [[workload]]"));
        }
        for n in 0..self.workload.len() {
            faults.note_given(&["topology"], self.workload[n].complete(n, rate));
            let name = self.workload[n].name.clone();
            if self.workload[..n].iter().any(|w| w.name == name) {
                let problem = format!("two workloads are called {name:?}");
                faults.tell(Invalid::value(format!("workload.{n}.name"), problem, "give each a name of its own"));
            }
        }
        fabric
    }

    fn check_times(&self) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        let (least, most) = (Time::from_ns(1), Time::from_secs(100_000));
        if self.duration == Time::ZERO {
            wrong.add(Invalid::value("duration", "is zero", "give a time such as \"1s\""));
        } else {
            wrong.note(within("duration", self.duration, least, most));
        }
        wrong.note(within("drain", self.drain, Time::ZERO, most));
        if self.warmup >= self.duration && self.duration != Time::ZERO {
            let problem = format!("{} is not before the end, duration is {}", self.warmup, self.duration);
            wrong.add(Invalid::new("warmup", problem, "give a shorter time"));
        }
        wrong.or(())
    }
}
