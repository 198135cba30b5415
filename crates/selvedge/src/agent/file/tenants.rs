//! The table `[tenants]`: fair shares of the uplink among guests.

use crate::scenario::{HoldWord, TenantLawWord, TenantsTable as Common};
use agent_api::config::Shares;
use config::{within, Invalid, Wrong};
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
    /// Intervals at the fair rate that a bucket holds, if that is more than `depth`; several hold 2 MB at most.
    #[schemars(range(min = 0, max = 1000))]
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
/// What of a rate a bucket keeps for a guest whose packets were dropped: its TCP then waits for a timer of 200 ms at least, and would lose
/// all of its share of that time.
const BURST: Time = Time::from_ms(250);
/// Full packets that the uplink carries in an interval, at least. Each mark takes 1/1000 of the uplink from a rate, and each interval without
/// one gives it back: marks of all packets hold a guest to half a packet an interval, so to a sixteenth of the uplink.
const PACKETS: u64 = 8;
/// As they are on the wire.
const PACKET: u64 = 1538;

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
        let (rtt, inactive) = (self.rtt.unwrap_or(default.rtt), self.inactive.unwrap_or(default.inactive));
        let least = self.uplink_rate.max(BitRate::from_mbps(1)).tx_time(PACKETS * PACKET).min(inactive);
        let rtts = Time::from_ps(rtt.as_ps().saturating_mul(5));
        let slow = (interval.is_none() && least > rtts).then_some(least);
        let interval = interval.or(slow);
        // With `alpha`, a flood that fills such a bucket is marked and not dropped, and few of the marks count (docs/tenants.md).
        let bursts = match (self.hold, self.law.0) {
            (HoldWord::Drop, Law::Aiad) => BURST.as_ps() / interval.unwrap_or(rtts).as_ps().max(1),
            _ => 1,
        };
        let common = Common {
            law: self.law,
            hold: self.hold,
            backlog: self.backlog,
            minimum_rate: self.minimum_rate,
            rtt,
            interval,
            quiet: self.quiet.or_else(|| slow.map(|least| Time::from_ps(10 * least.as_ps()))),
            patience: self.patience,
            inactive,
            depth: self.depth.unwrap_or(DEPTH),
            bursts: self.bursts.unwrap_or(bursts.clamp(1, 1000) as u32),
            admission: self.admission,
            ..default
        };
        if self.minimum_rate.is_some_and(|minimum| minimum > self.uplink_rate) {
            let problem = "is more than the uplink carries (tenants.uplink_rate)";
            wrong.add(Invalid::new("tenants.minimum_rate", problem, "give what a guest with a share has at least"));
        }
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

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn conf(keys: &str) -> edge::hygenicc::Conf {
        let text = format!("[uplink]\ninterface = \"eth0\"\n[tenants]\n{keys}");
        parse("a.toml", &text).unwrap().tenants.expect("a table").conf
    }

    fn bursts(keys: &str) -> u32 {
        conf(&format!("uplink_rate = \"1Gbps\"\n{keys}")).bursts
    }

    #[test]
    fn an_interval_lasts_for_five_round_trips_and_eight_packets() {
        let times = |keys: &str| [conf(keys).interval, conf(keys).quiet].map(|ns| ns / 1000);
        assert_eq!(times("uplink_rate = \"10Gbps\"\nrtt = \"200us\""), [1_000, 10_000]);
        assert_eq!(times("uplink_rate = \"1Gbps\""), [500, 5_000], "as in the report");
        // 8 packets of 1538 B.
        assert_eq!(times("uplink_rate = \"40Mbps\"\nrtt = \"200us\""), [2_460, 24_608]);
        assert_eq!(times("uplink_rate = \"40Mbps\"\nrtt = \"1ms\""), [5_000, 50_000]);
        assert_eq!(times("uplink_rate = \"40Mbps\"\ninterval = \"1ms\""), [1_000, 5_000], "what is given holds");
        assert_eq!(times("uplink_rate = \"40Mbps\"\nquiet = \"1ms\""), [2_460, 1_000]);
        assert_eq!(times("uplink_rate = \"1Mbps\"\ninactive = \"50ms\""), [50_000, 500_000]);
    }

    #[test]
    fn the_least_rate_is_within_the_uplinks() {
        let text = |least: &str| {
            format!("[uplink]\ninterface = \"eth0\"\n[tenants]\nuplink_rate = \"1Gbps\"\nminimum_rate = \"{least}\"\n")
        };
        let wrong = parse("a.toml", &text("2Gbps")).unwrap_err().to_string();
        assert!(wrong.contains("tenants.minimum_rate: is more than the uplink carries"), "{wrong}");
        assert!(parse("a.toml", &text("1Gbps")).is_ok());
    }

    #[test]
    fn what_is_dropped_has_a_bucket_that_outlasts_timers_of_tcp() {
        assert_eq!([bursts(""), bursts("rtt = \"200us\""), bursts("interval = \"4ms\"")], [500, 250, 62]);
        assert_eq!([bursts("rtt = \"1us\""), bursts("interval = \"1s\"")], [1000, 1], "what may be configured");
        assert_eq!([bursts("hold = \"delay\""), bursts("law = \"alpha\""), bursts("bursts = 3")], [1, 1, 3]);
    }
}
