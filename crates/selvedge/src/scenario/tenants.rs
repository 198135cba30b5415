//! `[scheme.<name>.tenants]`: HyGenICC's fair shares among tenants' guests; and which guests workloads have.

use super::WorkloadTable;
use crate::word::Word;
use config::{closest, within, Invalid, Wrong};
use edge::hygenicc::{Config, Hold, Law, LEAST_ALPHA};
use host::experiment::{EdgeConfig, HostConfig, Tenants, ETHERNET_OVERHEAD, MAX_GUESTS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::{BitRate, Bytes, Time};

/// What marks do to rates.
pub type TenantLawWord = Word<Law>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldWord {
    #[default]
    Drop,
    Delay,
}

/// Fair shares of each host's uplink among its guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TenantsTable {
    /// What marks do to a guest's rate.
    pub law: TenantLawWord,
    /// What becomes of segments that exceed the rate.
    pub hold: HoldWord,
    /// With `delay`: bytes of a guest that may wait; more are dropped.
    #[schemars(extend("x-range" = ["1538B", "1GiB"], "default" = "200KB"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Bytes>,
    /// `{ a = 2 }`: weight of a tenant's guests, 1 to 65535; 1 if it is not named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u16>,
    /// No rate is below, unless the fair rate is.
    #[schemars(extend("x-range" = ["8bps", "1Tbps"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_rate: Option<BitRate>,
    /// Round trip of the fabric, from which the next three follow.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    pub rtt: Time,
    /// Time between changes of rates.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Time>,
    /// With `aiad`: so long without feedback, a rate grows fast.
    #[schemars(extend("x-range" = ["1us", "100s"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Time>,
    /// So long marks wait for a packet to go with.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<Time>,
    /// A guest without a packet for so long has no share; at least `interval`.
    #[schemars(extend("x-range" = ["1ms", "1000s"]))]
    pub inactive: Time,
    /// Least size of a bucket; at least the guests' largest segment, as it is on the wire.
    #[schemars(extend("x-range" = ["1538B", "1GiB"]))]
    pub depth: Bytes,
    /// Intervals at the fair rate that a bucket holds, if that is more than `depth`; several hold 2 MB at most.
    #[schemars(range(min = 0, max = 1000))]
    pub bursts: u32,
    /// `[0.5, 0.25]`: new pairs of guests are refused from the first marked part of a destination on, until it is below
    /// the second; both 0.001 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<(f64, f64)>,
    /// With `alpha`: marks beyond the packets of an interval count in later ones, as in the kernel edge.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_marks: bool,
}

impl Default for TenantsTable {
    fn default() -> TenantsTable {
        TenantsTable {
            law: Word(Law::Aiad),
            hold: HoldWord::Drop,
            backlog: None,
            weights: BTreeMap::new(),
            minimum_rate: None,
            rtt: Time::from_us(100),
            interval: None,
            quiet: None,
            patience: None,
            inactive: Time::from_secs(1),
            depth: Bytes(70_000),
            bursts: 1,
            admission: None,
            keep_marks: false,
        }
    }
}

impl TenantsTable {
    /// `at` is the table's path; `tenants` are those of the workloads; `slowest` is the rate of the slowest uplink.
    pub(crate) fn build(&self, at: &str, tenants: &[String], slowest: BitRate, hosts: u32) -> Result<Tenants, Wrong> {
        let mut wrong = Wrong::new();
        let key = |name: &str| format!("{at}.{name}");
        if hosts > 65_534 {
            let problem = format!("{hosts} hosts are more than 65534");
            let remedy = "make the fabric smaller: guests' addresses name their hosts";
            wrong.add(Invalid::new(at, problem, remedy));
        }
        let rtt = wrong.note(within(&key("rtt"), self.rtt, Time::from_us(1), Time::from_secs(1)));
        wrong.note(within(&key("inactive"), self.inactive, Time::from_ms(1), Time::from_secs(1000)));
        wrong.note(within(&key("depth"), self.depth, Bytes(1538), Bytes(1 << 30)));
        wrong.note(within(&key("bursts"), self.bursts, 0, 1000));
        let second = Time::from_secs(1);
        let optional = [
            ("interval", self.interval, second),
            ("quiet", self.quiet, Time::from_secs(100)),
            ("patience", self.patience, second),
        ];
        for (name, value, most) in optional {
            wrong.note(within(&key(name), value.unwrap_or(Time::from_us(1)), Time::from_us(1), most));
        }
        let auto = Config::new(slowest, rtt.map_or(Time::from_us(100), |()| self.rtt));
        let interval = self.interval.unwrap_or(auto.interval);
        if self.inactive < interval && wrong.is_empty() {
            let problem = format!("{} is less than the interval of {interval}", self.inactive);
            let remedy = "give at least the interval, or guests that send have no share";
            wrong.add(Invalid::new(key("inactive"), problem, remedy));
        }
        let minimum = self.minimum_rate.unwrap_or(auto.minimum);
        wrong.note(within(&key("minimum_rate"), minimum, BitRate::from_bps(8), BitRate::from_gbps(1000)));
        let hold = wrong.note(self.hold(at));
        let admission = wrong.note(self.admission(at));
        let weights = wrong.note(self.weights(at, tenants));
        let made = || {
            Some(Tenants {
                config: Config {
                    law: self.law.0,
                    hold: hold?,
                    minimum,
                    interval,
                    quiet: self.quiet.unwrap_or(auto.quiet),
                    patience: self.patience.unwrap_or(auto.patience),
                    inactive: self.inactive,
                    depth: self.depth,
                    bursts: self.bursts,
                    admission: admission?,
                    keep_marks: self.keep_marks,
                    ..auto
                },
                weights: weights?,
            })
        };
        let made = made();
        wrong.unless(made)
    }

    fn hold(&self, at: &str) -> Result<Hold, Invalid> {
        let key = format!("{at}.backlog");
        match (self.hold, self.backlog) {
            (HoldWord::Drop, None) => Ok(Hold::Drop),
            (HoldWord::Drop, Some(_)) => {
                Err(Invalid::new(key, "has no meaning with hold = \"drop\"", "remove it, or write hold = \"delay\""))
            }
            (HoldWord::Delay, backlog) => {
                let most = backlog.unwrap_or(Bytes(200_000));
                within(&key, most, Bytes(1538), Bytes(1 << 30))?;
                Ok(Hold::Delay(most))
            }
        }
    }

    fn admission(&self, at: &str) -> Result<Option<(f64, f64)>, Invalid> {
        let Some((on, off)) = self.admission else { return Ok(None) };
        if (LEAST_ALPHA..=1.0).contains(&off) && (off..=1.0).contains(&on) {
            return Ok(Some((on, off)));
        }
        let problem = format!("[{on}, {off}] are no parts from which to refuse and below which to admit again");
        let remedy = format!("write two numbers from 1 to {LEAST_ALPHA}, the larger first");
        Err(Invalid::value(format!("{at}.admission"), problem, remedy))
    }

    /// By guest: those without a tenant, then tenants as they are mentioned.
    fn weights(&self, at: &str, tenants: &[String]) -> Result<Vec<u16>, Wrong> {
        let mut wrong = Wrong::new();
        for (name, &weight) in &self.weights {
            let key = format!("{at}.weights.{name}");
            if !tenants.contains(name) {
                let remedy = match closest(name, tenants.iter().map(String::as_str)) {
                    None if tenants.is_empty() => "give a workload `tenant`".to_owned(),
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("name one of {}", tenants.join(", ")),
                };
                wrong.add(Invalid::new(&key, "no workload is of this tenant", remedy));
            }
            wrong.note(within(&key, weight, 1, u16::MAX));
        }
        let weight = |name: &String| self.weights.get(name).copied().unwrap_or(1);
        wrong.or(std::iter::once(1).chain(tenants.iter().map(weight)).collect())
    }
}

/// Can buckets let the guests' largest segments go?
pub(super) fn holds_segments(name: &str, edge: &EdgeConfig, guests: &HostConfig) -> Result<(), Invalid> {
    let Some(tenants) = &edge.tenants else { return Ok(()) };
    let mtu = u64::from(guests.mtu);
    // With the options that data may carry.
    let payload = mtu.saturating_sub(52).max(1);
    let packets = if guests.tso { u64::from(guests.tcp.tso_max).div_ceil(payload) } else { 1 };
    let largest = Bytes(packets * (mtu + ETHERNET_OVERHEAD.get()));
    if tenants.config.depth >= largest {
        return Ok(());
    }
    let problem =
        format!("{} is less than a segment of {packets} packets, {largest} on the wire", tenants.config.depth);
    let remedy = format!("give at least {largest}, or turn off host.tso: a larger segment is never sent");
    Err(Invalid::new(format!("scheme.{name}.tenants.depth"), problem, remedy))
}

/// The tenants that workloads name, in order: the first is guest 1 of each host.
pub(super) fn tenants_of(workloads: &[WorkloadTable]) -> Result<Vec<String>, Invalid> {
    let mut names: Vec<String> = Vec::new();
    for (n, workload) in workloads.iter().enumerate() {
        let Some(name) = workload.tenant.as_ref().filter(|name| !names.contains(name)) else { continue };
        if names.len() + 1 >= MAX_GUESTS {
            let problem = format!("{name:?} is one tenant more than {}", MAX_GUESTS - 1);
            return Err(Invalid::new(format!("workload.{n}.tenant"), problem, "let workloads share tenants"));
        }
        names.push(name.clone());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str) -> Result<Tenants, Wrong> {
        let table: TenantsTable = toml::from_str(text).unwrap();
        table.build("scheme.x.tenants", &["a".into(), "b".into()], BitRate::from_gbps(1), 4)
    }

    #[test]
    fn defaults_follow_rate_and_round_trip() {
        let tenants = built("rtt = \"200us\"").unwrap();
        let c = &tenants.config;
        assert_eq!((c.law, c.hold, c.minimum), (Law::Aiad, Hold::Drop, BitRate::from_mbps(1)));
        assert_eq!((c.interval, c.quiet, c.patience), (Time::from_ms(1), Time::from_ms(10), Time::from_us(400)));
        assert_eq!(tenants.weights, [1, 1, 1]);
    }

    #[test]
    fn tenants_have_weights_in_the_order_of_workloads() {
        assert_eq!(built("weights = { b = 4 }").unwrap().weights, [1, 1, 4]);
        let delayed = built("law = \"alpha\"\nhold = \"delay\"\nadmission = [0.5, 0.25]").unwrap().config;
        assert_eq!((delayed.law, delayed.hold), (Law::Alpha, Hold::Delay(Bytes(200_000))));
        assert_eq!(delayed.admission, Some((0.5, 0.25)));
    }

    #[test]
    fn mistakes_name_their_key() {
        let key = |text: &str| built(text).unwrap_err().faults()[0].key.replacen("scheme.x.tenants.", "", 1);
        assert_eq!(key("weights = { c = 1 }"), "weights.c");
        assert_eq!(key("weights = { a = 0 }"), "weights.a");
        assert_eq!(key("backlog = \"10KB\""), "backlog");
        assert_eq!(key("interval = \"0s\""), "interval");
        assert_eq!(key("rtt = \"2s\""), "rtt");
        assert_eq!(key("depth = \"1KB\""), "depth");
        assert_eq!(key("admission = [0.2, 0.5]"), "admission");
        assert_eq!(key("admission = [0.5, 0.0]"), "admission");
        assert_eq!(key("admission = [0.0001, 0.0001]"), "admission");
        assert_eq!(key("interval = \"10ms\"\ninactive = \"5ms\""), "inactive");
        assert_eq!(key("minimum_rate = \"1bps\""), "minimum_rate");
    }

    #[test]
    fn a_bucket_holds_a_whole_segment() {
        let fits = |text: &str, tso: bool, mtu: u16| {
            let edge = EdgeConfig { tenants: Some(built(text).unwrap()), ..EdgeConfig::default() };
            let guests = HostConfig { tso, mtu, ..HostConfig::default() };
            holds_segments("x", &edge, &guests).map_err(|e| e.key)
        };
        let refused = Err("scheme.x.tenants.depth".to_owned());
        assert_eq!(fits("", true, 1500), Ok(()));
        assert_eq!(fits("depth = \"60KB\"", true, 1500), refused);
        assert_eq!(fits("depth = \"60KB\"", false, 1500), Ok(()));
        assert_eq!(fits("depth = \"60KB\"\nhold = \"delay\"", true, 1500), refused);
        assert_eq!(fits("", true, 576), refused, "smaller packets have more headers");
        assert_eq!(fits("depth = \"2KB\"", false, 9000), refused);
    }
}
