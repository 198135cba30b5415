//! `[scheme.<name>.limiter]`: rate limiters between edge and NIC.

use crate::word::{in_range, with_settings, Word};
use config::{check, within, within_others, Invalid, Key, OrOff, Role, Wrong};
use edge::limiter::{self, Kind, Law, Spring};
use edge::names::{Amount, Names, Setting};
use edge::shape::{self, Class, DEFAULT_BURST};
use host::experiment::{Limiter, LimiterClass};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes, Time};

/// A law, without its thresholds.
pub type LimiterLawWord = Word<Kind>;

/// The limiter of some hosts, and what keeps its queues short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = with_ranges)]
pub struct LimiterTable {
    /// Hosts with a limiter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<u32>>,
    /// One class of that rate for everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Rate of all classes together; the part that guarantees leave is lent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<BitRate>,
    /// Law that acts on the backlog.
    pub law: LimiterLawWord,
    /// With `ecn` and `dem`: backlog above which outgoing segments, or incoming ACKs, are marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<Bytes>,
    /// With `spring`: below `k1` windows grow, above `k2` they are cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k1: Option<Bytes>,
    /// With `spring`: below `k1` windows grow, above `k2` they are cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k2: Option<Bytes>,
    /// Round trip without the limiter, for automatic thresholds.
    #[schemars(extend("x-range" = ["1us", "1s"], "default" = "100us"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Time>,
    /// With `spring`: share of the newest change in the gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// With `spring`: strength of cuts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<f64>,
    /// With `spring`: what a guest may send up to moves in steps of half its window, at most 64 KB, so that it sends fewer and larger segments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hold_edge: bool,
    /// Bytes that leave at once after a pause, of guarantee and ceiling alike.
    #[schemars(extend("x-range" = ["1B", "1GiB"]))]
    pub burst: Bytes,
    /// Largest queue of a class; further segments are dropped.
    #[schemars(extend("x-range" = ["1538B", "1024GiB"]))]
    pub queue: OrOff<Bytes>,
    /// Flows that send little go past the queue of their class, and SPRING fills it over long paths, too.
    pub sparse_first: bool,
    /// With `fq_codel`: its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fq_codel: Option<FqCodelTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<LimiterClassTable>,
}

/// From the table of laws.
fn with_ranges(table: &mut Schema) {
    with_settings::<Kind>(table, |setting| Some(setting.name));
}

/// One class of a limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimiterClassTable {
    /// Destination hosts of its segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<u32>>,
    /// Rate that it gets whatever the others send.
    pub guarantee: BitRate,
    /// Largest rate, borrowed rate included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<BitRate>,
    /// Bytes of borrowing per turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
}

/// Parameters of fq_codel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelTable {
    /// Bytes that a flow may send in its turn.
    #[schemars(extend("x-range" = ["64B", "1GiB"]))]
    pub quantum: Bytes,
    /// Waiting that is acceptable as a standing queue.
    #[schemars(extend("x-range" = ["1us", "1s"]))]
    pub target: Time,
    /// Longer waiting is tolerated for so long.
    #[schemars(extend("x-range" = ["1us", "10s"]))]
    pub interval: Time,
    /// Segments in the queues of a class.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub limit: u32,
    /// Queues, to which flows are assigned by hash.
    #[schemars(range(min = 1, max = 65_536))]
    pub flows: u32,
    /// ECN-capable segments are marked instead of dropped.
    pub ecn: bool,
}

impl Default for FqCodelTable {
    fn default() -> FqCodelTable {
        let aqm::FqCodel { quantum, limit, flows, codel, ecn } = aqm::FqCodel::default();
        FqCodelTable { quantum, target: codel.target, interval: codel.interval, limit, flows, ecn }
    }
}

impl FqCodelTable {
    fn build(&self, at: &str) -> Result<aqm::FqCodel, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within(&format!("{at}.quantum"), self.quantum, Bytes(64), Bytes(1 << 30)));
        wrong.note(within(&format!("{at}.target"), self.target, Time::from_us(1), Time::from_secs(1)));
        wrong.note(within(&format!("{at}.interval"), self.interval, Time::from_us(1), Time::from_secs(10)));
        wrong.note(within(&format!("{at}.limit"), self.limit, 1, 10_000_000));
        wrong.note(within(&format!("{at}.flows"), self.flows, 1, 65_536));
        let codel = aqm::Codel { target: self.target, interval: self.interval, ..aqm::FqCodel::default().codel };
        let &FqCodelTable { quantum, limit, flows, ecn, .. } = self;
        wrong.or(aqm::FqCodel { quantum, limit, flows, codel, ecn })
    }
}

impl Default for LimiterTable {
    fn default() -> LimiterTable {
        LimiterTable {
            hosts: None,
            rate: None,
            total: None,
            law: Word(Kind::None),
            k: None,
            k1: None,
            k2: None,
            rtt: None,
            alpha: None,
            beta: None,
            hold_edge: false,
            burst: DEFAULT_BURST,
            queue: OrOff(None),
            sparse_first: false,
            fq_codel: None,
            class: Vec::new(),
        }
    }
}

impl LimiterTable {
    /// `at` is the table's path.
    pub(super) fn build(&self, at: &str, hosts: u32) -> Result<Limiter, Wrong> {
        let mut wrong = Wrong::new();
        let fq = wrong.note(self.fq_codel.clone().unwrap_or_default().build(&format!("{at}.fq_codel")));
        wrong.note(self.check_keys(at));
        wrong.note(within(&format!("{at}.burst"), self.burst, Bytes(1), Bytes(1 << 30)));
        if let Some(queue) = self.queue.0 {
            wrong.note(within(&format!("{at}.queue"), queue, Bytes(1538), Bytes(1 << 40)));
        }
        wrong.note(listed(&format!("{at}.hosts"), self.hosts.as_deref(), hosts));
        wrong.note(self.check_shares(at));
        let single = |rate| LimiterClassTable { to: None, guarantee: rate, ceiling: None, quantum: None };
        let tables = self.rate.map_or_else(|| self.class.clone(), |rate| vec![single(rate)]);
        let fq_codel = fq.filter(|_| self.law.0 == Kind::FqCodel);
        let mut classes = Vec::new();
        for (n, table) in tables.iter().enumerate() {
            let at_class = if self.rate.is_some() { at.to_owned() } else { format!("{at}.class.{n}") };
            wrong.note(listed(&format!("{at_class}.to"), table.to.as_deref(), hosts));
            let ceiling = table.ceiling.unwrap_or(table.guarantee);
            let class = Class {
                guarantee: table.guarantee,
                ceiling,
                burst: self.burst,
                ceiling_burst: self.burst,
                quantum: table.quantum,
                queue: self.queue.0,
                sparse_first: self.sparse_first,
                fq_codel,
            };
            // Each class has the thresholds of the table: one fault is enough.
            if wrong.is_empty() {
                let law = wrong.note(self.law(at, self.total.map_or(ceiling, |total| ceiling.min(total))));
                classes.extend(law.map(|law| LimiterClass { to: table.to.clone(), class, law }));
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let limiter = Limiter { hosts: self.hosts.clone(), total: self.total, classes };
        limiter.shaper().check().map_err(|error| {
            let key = match error {
                shape::Invalid::NoClass => format!("{at}.class"),
                shape::Invalid::NoTotal => format!("{at}.total"),
                shape::Invalid::NoGuarantee(_) if self.rate.is_some() => format!("{at}.rate"),
                shape::Invalid::NoGuarantee(n) => format!("{at}.class.{n}.guarantee"),
                shape::Invalid::LowCeiling(n) => format!("{at}.class.{n}.ceiling"),
                shape::Invalid::NoQuantum(n) => format!("{at}.class.{n}.quantum"),
            };
            split(key, &error.to_string())
        })?;
        Ok(limiter)
    }

    /// What the table says of each setting that laws have.
    fn settings(&self) -> [(&'static Setting, Option<Amount>); 5] {
        let bytes = |size: Option<Bytes>| size.map(Amount::Bytes);
        let share = |share: Option<f64>| share.map(Amount::Share);
        [
            (&limiter::K, bytes(self.k)),
            (&limiter::K1, bytes(self.k1)),
            (&limiter::K2, bytes(self.k2)),
            (&limiter::ALPHA, share(self.alpha)),
            (&limiter::BETA, share(self.beta)),
        ]
    }

    /// Ranges of what is the same for all classes.
    fn check_shares(&self, at: &str) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        let rtt = self.rtt.unwrap_or(limiter::DEFAULT_RTT);
        wrong.note(within(&format!("{at}.rtt"), rtt, Time::from_us(1), Time::from_secs(1)));
        for (setting, value) in self.settings() {
            if let Some(value) = value {
                wrong.note(in_range(format!("{at}.{}", setting.name), setting, value));
            }
        }
        wrong.or(())
    }

    fn check_keys(&self, at: &str) -> Result<(), Wrong> {
        let mut wrong = Wrong::new();
        let optional = |is: bool| if is { Role::Optional } else { Role::Meaningless };
        let key = |name, given, role| Key { name, given, role };
        let classed = !self.class.is_empty();
        let (choice, rate) = if classed { ("classes", Role::Meaningless) } else { ("no [[class]]", Role::Needed) };
        let keys = [
            key("rate", self.rate.is_some(), rate),
            key("total", self.total.is_some(), optional(classed)),
            key("class", classed, Role::Optional),
        ];
        wrong.note(check(at, choice, &keys));
        let word = serde_json::to_string(&self.law).unwrap_or_default();
        let law = self.law.0;
        let fair = law == Kind::FqCodel;
        let given =
            |setting: &Setting| self.settings().iter().any(|(known, value)| *known == setting && value.is_some());
        let thresholds = [&limiter::K, &limiter::K1, &limiter::K2];
        // SPRING's one threshold without the other would be compared with an automatic one that nobody sees.
        let role = |setting: &Setting| match setting {
            _ if !law.has(setting) => Role::Meaningless,
            _ if *setting == limiter::K1 && given(&limiter::K2) => Role::Needed,
            _ if *setting == limiter::K2 && given(&limiter::K1) => Role::Needed,
            _ => Role::Optional,
        };
        let none = law.settings().is_empty();
        let automatic = !none && !thresholds.iter().any(|threshold| law.has(threshold) && given(threshold));
        let choice = format!("law = {word}{}", if automatic || none { "" } else { " and thresholds" });
        let mut keys: Vec<Key> =
            self.settings().iter().map(|(s, value)| key(s.name, value.is_some(), role(s))).collect();
        keys.extend([
            key("rtt", self.rtt.is_some(), optional(automatic)),
            key("hold_edge", self.hold_edge, optional(law == Kind::Spring)),
            key("queue", self.queue.0.is_some(), optional(!fair)),
            key("sparse_first", self.sparse_first, optional(!fair)),
            key("fq_codel", self.fq_codel.is_some(), optional(fair)),
        ]);
        wrong.note(check(at, &choice, &keys));
        wrong.or(())
    }

    /// What is done about a class that sends at up to `rate`.
    fn law(&self, at: &str, rate: BitRate) -> Result<Law, Invalid> {
        let rtt = self.rtt.unwrap_or(limiter::DEFAULT_RTT);
        let share = |given: Option<f64>, default| given.map_or(default, limiter::units_of);
        let law = match self.law.0.for_rate(rate, rtt, self.sparse_first) {
            Law::None => Law::None,
            Law::Ecn { k } => Law::Ecn { k: self.k.unwrap_or(k) },
            Law::Dem { k } => Law::Dem { k: self.k.unwrap_or(k) },
            Law::Spring(auto) => Law::Spring(Spring {
                k1: self.k1.unwrap_or(auto.k1),
                k2: self.k2.unwrap_or(auto.k2),
                alpha: share(self.alpha, auto.alpha),
                beta: share(self.beta, auto.beta),
                hold_edge: self.hold_edge,
            }),
        };
        law.check().map_err(|error| {
            let key = match error {
                limiter::Invalid::Range(setting, _) => setting.name,
                limiter::Invalid::Order(..) => limiter::K1.name,
            };
            split(format!("{at}.{key}"), &error.to_string())
        })?;
        Ok(law)
    }
}

/// Errors of the layers below have problem and remedy.
fn split(key: String, text: &str) -> Invalid {
    let (problem, remedy) = text.split_once("; ").unwrap_or((text, ""));
    Invalid::new(key, problem, remedy)
}

fn listed(key: &str, listed: Option<&[u32]>, hosts: u32) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    if listed.is_some_and(<[u32]>::is_empty) {
        wrong.add(Invalid::value(key, "names no host", "name some, or leave it out for all"));
    }
    for &host in listed.unwrap_or_default() {
        wrong.note(within_others(key, host, 0, hosts.saturating_sub(1)));
    }
    wrong.or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str) -> Result<Limiter, Wrong> {
        let table: LimiterTable = toml::from_str(text).unwrap();
        table.build("scheme.x.limiter", 4)
    }

    #[test]
    fn one_rate_is_one_class() {
        let limiter = built("rate = \"1Gbps\"").unwrap();
        let class = Class::fixed(BitRate::from_gbps(1));
        assert_eq!(limiter.classes, [LimiterClass { to: None, class, law: Law::None }]);
        assert_eq!((limiter.total, limiter.hosts), (None, None));
    }

    #[test]
    fn classes_borrow_up_to_their_ceilings_and_thresholds_follow_these() {
        let text =
            "total = \"5Gbps\"\nlaw = \"spring\"\n[[class]]\nto = [1]\nguarantee = \"2Gbps\"\nceiling = \"10Gbps\"\n\
                    [[class]]\nguarantee = \"1Gbps\"";
        let limiter = built(text).unwrap();
        let rate = BitRate::from_gbps;
        assert_eq!(limiter.total, Some(rate(5)));
        let classes: Vec<_> = limiter.classes.iter().map(|c| (c.class.guarantee, c.class.ceiling, c.law)).collect();
        let law = |gbps| Law::Spring(Spring::for_rate(rate(gbps), limiter::DEFAULT_RTT));
        assert_eq!(classes, [(rate(2), rate(10), law(5)), (rate(1), rate(1), law(1))]);
    }

    #[test]
    fn thresholds_and_shares_may_be_given() {
        let law = |text: &str| built(&format!("rate = \"1Gbps\"\n{text}")).unwrap().classes[0].law;
        assert_eq!(law("law = \"dem\"\nk = \"60KB\""), Law::Dem { k: Bytes(60_000) });
        assert_eq!(law("law = \"ecn\"\nk = \"20KB\""), Law::Ecn { k: Bytes(20_000) });
        let spring = Spring { k1: Bytes(20_000), k2: Bytes(30_000), alpha: 256, beta: 1024, hold_edge: true };
        assert_eq!(
            law("law = \"spring\"\nk1 = \"20KB\"\nk2 = \"30KB\"\nalpha = 0.25\nbeta = 1.0\nhold_edge = true"),
            Law::Spring(spring)
        );
    }

    #[test]
    fn fq_codel_is_a_queue_and_no_law() {
        let class =
            |text: &str| built(&format!("rate = \"1Gbps\"\nlaw = \"fq_codel\"\n{text}")).unwrap().classes[0].clone();
        let plain = class("");
        assert_eq!((plain.law, plain.class.fq_codel), (Law::None, Some(aqm::FqCodel::default())));
        let given = class("[fq_codel]\nquantum = \"300B\"\ntarget = \"1ms\"\ninterval = \"20ms\"\nlimit = 100\nflows = 16\necn = false");
        let fq = given.class.fq_codel.unwrap();
        assert_eq!((fq.quantum, fq.limit, fq.flows, fq.ecn), (Bytes(300), 100, 16, false));
        assert_eq!((fq.codel.target, fq.codel.interval), (Time::from_ms(1), Time::from_ms(20)));
    }

    #[test]
    fn mistakes_name_their_key() {
        let key = |text: &str| built(text).unwrap_err().faults()[0].key.replacen("scheme.x.limiter.", "", 1);
        let one = |text: &str| key(&format!("rate = \"1Gbps\"\n{text}"));
        assert_eq!(key(""), "rate");
        assert_eq!(key("rate = \"0bps\""), "rate");
        assert_eq!(one("hosts = [4]"), "hosts");
        assert_eq!(one("total = \"2Gbps\""), "total");
        assert_eq!(one("[[class]]\nguarantee = \"1Gbps\""), "rate");
        assert_eq!(one("k = \"20KB\""), "k");
        assert_eq!(one("law = \"spring\"\nk = \"20KB\""), "k");
        assert_eq!(one("law = \"spring\"\nk1 = \"20KB\""), "k2");
        assert_eq!(one("law = \"spring\"\nk1 = \"30KB\"\nk2 = \"30KB\""), "k1");
        assert_eq!(one("law = \"spring\"\nbeta = 1.5"), "beta");
        assert_eq!(one("law = \"dem\"\nk = \"20KB\"\nrtt = \"50us\""), "rtt");
        assert_eq!(one("queue = \"1KB\""), "queue");
        let fair = |text: &str| one(&format!("law = \"fq_codel\"\n{text}"));
        assert_eq!(one("fq_codel = {}"), "fq_codel");
        assert_eq!(fair("queue = \"1MB\""), "queue");
        assert_eq!(fair("sparse_first = true"), "sparse_first");
        assert_eq!(fair("rtt = \"1ms\""), "rtt");
        assert_eq!(fair("fq_codel = { quantum = \"1B\" }"), "fq_codel.quantum");
        assert_eq!(fair("fq_codel = { target = \"2s\" }"), "fq_codel.target");
        assert_eq!(fair("fq_codel = { interval = \"0us\" }"), "fq_codel.interval");
        assert_eq!(fair("fq_codel = { limit = 0 }"), "fq_codel.limit");
        assert_eq!(fair("fq_codel = { flows = 70000 }"), "fq_codel.flows");
        let class = |text: &str| key(&format!("[[class]]\nguarantee = \"2Gbps\"\n{text}"));
        assert_eq!(class("ceiling = \"1Gbps\""), "class.0.ceiling");
        assert_eq!(class("to = []"), "class.0.to");
        assert_eq!(class("to = [9]"), "class.0.to");
        assert_eq!(class("quantum = \"0B\""), "class.0.quantum");
    }
}
