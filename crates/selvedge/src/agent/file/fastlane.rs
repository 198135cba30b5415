//! The table `[fastlane]`: what this host drops of its guests' TCP is sent again.

use agent_api::config::FastLane;
use config::{within, Invalid};
use schemars::JsonSchema;
use serde::Deserialize;
use units::{BitRate, Bytes};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FastLaneTable {
    /// Of one guest's dropped frames, so much is looked at. What exceeds it is left to the guest.
    #[schemars(extend("x-range" = ["1Mbps", "1Tbps"]))]
    rate: BitRate,
    /// Bytes of one guest that may wait to be sent again, because they were dropped more than once.
    #[schemars(extend("x-range" = ["2KB", "1GB"]))]
    store_per_guest: Bytes,
    /// The same of all guests; at least `store_per_guest`.
    #[schemars(extend("x-range" = ["2KB", "10GB"]))]
    store: Bytes,
}

impl Default for FastLaneTable {
    fn default() -> FastLaneTable {
        FastLaneTable { rate: BitRate::from_gbps(1), store_per_guest: Bytes(4_000_000), store: Bytes(64_000_000) }
    }
}

impl FastLaneTable {
    pub(super) fn check(&self) -> Result<FastLane, Invalid> {
        within("fastlane.rate", self.rate, BitRate::from_mbps(1), BitRate::from_gbps(1000))?;
        within("fastlane.store_per_guest", self.store_per_guest, Bytes(2_000), Bytes(1_000_000_000))?;
        within("fastlane.store", self.store, Bytes(2_000), Bytes(10_000_000_000))?;
        if self.store < self.store_per_guest {
            let problem = format!("{} is less than `store_per_guest`, {}", self.store, self.store_per_guest);
            return Err(Invalid::new("fastlane.store", problem, "give at least as much as for one guest"));
        }
        Ok(FastLane { rate: self.rate, store_per_guest: self.store_per_guest, store: self.store })
    }
}
