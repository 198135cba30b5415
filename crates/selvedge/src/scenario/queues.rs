//! `switch.codel`: queue management by waiting time.

use config::{within, Wrong};
use fabric::Codel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Time;

/// `codel = {}` or `codel = {target = "20us", interval = "200us"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelTable {
    /// Waiting that is acceptable as a standing queue; the default is for the Internet.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    pub target: Time,
    /// Packets may wait longer for so long: about a round trip of the slowest flow.
    #[schemars(extend("x-range" = ["1us", "10s"]))]
    pub interval: Time,
    /// Packets that cannot be marked are dropped, as in the RFC; otherwise they pass.
    pub drop: bool,
}

impl Default for CodelTable {
    fn default() -> Self {
        let Codel { target, interval, drop } = Codel::default();
        CodelTable { target, interval, drop }
    }
}

impl CodelTable {
    pub(super) fn build(&self) -> Result<Codel, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("switch.codel.target", self.target, Time::from_us(1), Time::from_secs(1)));
        wrong.note(within("switch.codel.interval", self.interval, Time::from_us(1), Time::from_secs(10)));
        wrong.or(Codel { target: self.target, interval: self.interval, drop: self.drop })
    }
}
