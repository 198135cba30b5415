//! The table `[tenants]`: fair shares of the uplink among guests.

use crate::scenario::{HoldWord, TenantLawWord, TenantsTable as Common};
use agent_api::config::Shares;
use config::{within, Wrong};
use edge::hygenicc::{Hold, Law};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes, Time};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantsTable {
    /// What guests share: the rate of the host's link to the fabric.
    #[schemars(extend("x-range" = ["1Mbps", "1Tbps"]))]
    uplink_rate: BitRate,
    /// What marks do to a guest's rate.
    #[serde(default = "law")]
    law: TenantLawWord,
    /// What becomes of segments that exceed the rate. `delay` needs an fq on every uplink.
    #[serde(default)]
    hold: HoldWord,
    /// With `delay`: bytes of a guest that may wait; more are dropped.
    #[schemars(extend("x-range" = ["1538B", "1GiB"], "default" = "200KB"))]
    backlog: Option<Bytes>,
    /// No rate is below, unless the fair rate is.
    #[schemars(extend("x-range" = ["8bps", "1Tbps"]))]
    minimum_rate: Option<BitRate>,
    /// Round trip of the fabric, from which the next three follow.
    #[schemars(extend("x-range" = ["1us", "1s"], "default" = "100us"))]
    rtt: Option<Time>,
    /// Time between changes of rates.
    #[schemars(extend("x-range" = ["100us", "1s"]))]
    interval: Option<Time>,
    /// With `aiad`: so long without feedback, a rate grows fast.
    #[schemars(extend("x-range" = ["1us", "100s"]))]
    quiet: Option<Time>,
    /// So long marks wait for a packet to go with.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    patience: Option<Time>,
    /// A guest without a packet for so long has no share; at least `interval`.
    #[schemars(extend("x-range" = ["1ms", "1000s"], "default" = "1s"))]
    inactive: Option<Time>,
    /// Least size of a bucket. A larger segment takes all of it, and later ones pay for the rest.
    #[schemars(extend("x-range" = ["1538B", "1GiB"], "default" = "80KB"))]
    depth: Option<Bytes>,
    /// Intervals at the fair rate that a bucket holds, if that is more than `depth`.
    #[schemars(range(min = 0, max = 1000), extend("default" = 1))]
    bursts: Option<u32>,
    /// `[0.5, 0.25]`: new pairs of guests are refused from the first marked part of a destination's packets on, until it is below the second;
    /// both 0.001 to 1.
    pub(super) admission: Option<(f64, f64)>,
    /// On a plain uplink, what guests see of ECN: `carry` keeps what they sent one another, with ECT(1) for Not-ECT on the way. Do not give
    /// it where queues take ECT(1) for L4S.
    #[schemars(extend("default" = "overwrite"))]
    pub(super) ecn: Option<EcnWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EcnWord {
    Overwrite,
    Carry,
}

/// A segment of 64 KB with the headers of its packets.
const DEPTH: Bytes = Bytes(80_000);

fn law() -> TenantLawWord {
    crate::word::Word(Law::Aiad)
}

impl TenantsTable {
    pub(super) fn check(&self) -> Result<Shares, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("tenants.uplink_rate", self.uplink_rate, BitRate::from_mbps(1), BitRate::from_gbps(1000)));
        // Its range is narrower here than in scenarios.
        let shortest = Time::from_us(100);
        let interval = self.interval.filter(|&interval| {
            wrong.note(within("tenants.interval", interval, shortest, Time::from_secs(1))).is_some()
        });
        let default = Common::default();
        let common = Common {
            law: self.law,
            hold: self.hold,
            backlog: self.backlog,
            minimum_rate: self.minimum_rate,
            rtt: self.rtt.unwrap_or(default.rtt),
            interval,
            quiet: self.quiet,
            patience: self.patience,
            inactive: self.inactive.unwrap_or(default.inactive),
            depth: self.depth.unwrap_or(DEPTH),
            bursts: self.bursts.unwrap_or(default.bursts),
            admission: self.admission,
            ..default
        };
        let built = wrong.note(common.build("tenants", &[], self.uplink_rate, 1));
        let mut config = wrong.unless(built)?.config;
        config.carry = self.ecn == Some(EcnWord::Carry);
        // Here an agent sends feedback that nothing flows back with, a while after the marks.
        config.keep_marks = true;
        let backlog = match config.hold {
            Hold::Drop => 0,
            Hold::Delay(most) => most.get(),
        };
        Ok(Shares { conf: config.conf(), backlog })
    }
}
