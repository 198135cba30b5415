//! `[scheme.<name>.fastlane]`: edges that act on switches' notifications for guests that know nothing of them.

use config::{within, Invalid, Wrong};
use edge::fastlane::Config;
use fabric::SwitchConfig;
use host::experiment::HostConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// Drops are repaired by the edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastLaneTable {
    /// What an edge keeps of one guest's outstanding segments, each with 256 bytes for its headers.
    #[schemars(extend("x-range" = ["2KB", "1GB"]))]
    pub store_per_guest: Bytes,
    /// Of all guests of a host; at least `store_per_guest`.
    #[schemars(extend("x-range" = ["2KB", "10GB"]))]
    pub store: Bytes,
}

impl Default for FastLaneTable {
    fn default() -> FastLaneTable {
        let Config { per_guest, in_all } = Config::default();
        FastLaneTable { store_per_guest: per_guest, store: in_all }
    }
}

impl FastLaneTable {
    /// `at` is the table's path.
    pub(super) fn build(&self, at: &str) -> Result<Config, Wrong> {
        let mut wrong = Wrong::new();
        let key = |name: &str| format!("{at}.{name}");
        let (least, most) = (Bytes(2_000), Bytes(10_000_000_000));
        wrong.note(within(&key("store_per_guest"), self.store_per_guest, least, Bytes(1_000_000_000)));
        if wrong.note(within(&key("store"), self.store, least, most)).is_some() && self.store < self.store_per_guest {
            let problem = format!("{} is less than `store_per_guest`, {}", self.store, self.store_per_guest);
            wrong.add(Invalid::new(key("store"), problem, "give at least as much as for one guest"));
        }
        wrong.or(Config { per_guest: self.store_per_guest, in_all: self.store })
    }
}

/// Switches must tell of drops, and only one of edge and guest can act on what they tell.
pub(super) fn suits(
    name: &str,
    config: Option<Config>,
    switches: &SwitchConfig,
    guests: &HostConfig,
) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    let at = format!("scheme.{name}.fastlane");
    if config.is_none() {
        return Ok(());
    }
    if switches.notify.is_none() {
        let problem = "edges with FastLane hear of drops from switches, and these are silent";
        wrong.add(Invalid::new(at.clone(), problem, "add `switch.notify = {}`, or remove it"));
    }
    if guests.tcp.fastlane.is_some() {
        let problem = "guests of this scheme act on notifications themselves, and edges with FastLane take these away";
        wrong.add(Invalid::new(at, problem, "remove it, or `host.tcp.fastlane`"));
    }
    wrong.or(())
}
