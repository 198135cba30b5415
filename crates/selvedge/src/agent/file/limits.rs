//! Rate limits: `[limits]` and `[[tenant]]`.

use super::at_most;
use crate::word::Word;
use agent_api::config::{Config, LawKind, Limits, Pacing, Rate, Tenant, MAX_PAIRS, MAX_RATE, MAX_TENANTS, MIN_RATE};
use agent_api::lacking::FQ;
use config::{Invalid, Wrong};
use edge::names::{Named, Names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use units::BitRate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    /// Limit of all ports with an egress limit together.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    total: Option<BitRate>,
    /// Law of ports that name none.
    pub(super) law: LawWord,
    /// What holds segments: classes of HTB; departure times, which need a kernel with `fq`; or nothing, see
    /// limiters.md. The latter two exclude `egress_ceiling`, tenants and `limits.total`.
    pub(super) pacing: PacingWord,
    /// Flows that send little go past the queue of all others of their port, in each direction: see limiters.md. Needs what
    /// laws need of the kernel.
    pub(super) sparse_first: bool,
    /// SPRING lets what a guest may send up to move in steps of half its window, at most 64 KB, so that it sends fewer and larger segments:
    /// see limiters.md.
    hold_edge: bool,
    /// Most pairs of devices (`svlimit0` and `svlimit1`, `svlimit2` and so on) among which ports with an egress limit are spread, so that CPUs
    /// seldom wait for one another. Ports of one tenant share a pair, and with `limits.total` all do. Unless given, one for two
    /// CPUs.
    #[schemars(range(min = 1, max = 8))]
    devices: Option<u32>,
    /// File of pods' annotations, relative to this file: a JSON object from interfaces of this host to their pods' annotations, such as
    /// `{"lxc1a2b": {"kubernetes.io/egress-bandwidth": "10M"}}`. It takes precedence over the port's own keys. Other
    /// annotations are ignored. The agent reads it again at each reload.
    pub(super) annotations: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum PacingWord {
    #[default]
    Htb,
    Departure,
    Virtual,
}

impl Default for LimitsTable {
    fn default() -> LimitsTable {
        let (law, pacing) = (LawWord::default(), PacingWord::default());
        LimitsTable { total: None, law, pacing, sparse_first: true, hold_edge: false, devices: None, annotations: None }
    }
}

impl LimitsTable {
    /// May a port have rates that this file does not say?
    pub(super) fn has_annotations(&self) -> bool {
        self.annotations.is_some()
    }
}

impl PacingWord {
    fn kind(self) -> Pacing {
        match self {
            PacingWord::Htb => Pacing::Htb,
            PacingWord::Departure => Pacing::Departure,
            PacingWord::Virtual => Pacing::Virtual,
        }
    }

    /// What classes can and schedules cannot.
    pub(super) fn shares(self, key: String, given: bool) -> Result<(), Invalid> {
        if self == PacingWord::Htb || !given {
            return Ok(());
        }
        let problem = format!(
            "limits.pacing = {:?} gives each port a schedule of its own: nothing is shared",
            self.kind().name()
        );
        Err(Invalid::new(key, problem, "remove it, or set limits.pacing = \"htb\""))
    }
}

/// A law that the kernel edge has, without its thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Law(pub(super) LawKind);

impl Names for Law {
    fn table() -> &'static [Named<Law>] {
        static TABLE: LazyLock<Vec<Named<Law>>> = LazyLock::new(|| {
            let kinds = LawKind::table().iter().filter(|choice| choice.value.is_for_kernels());
            kinds
                .map(|&Named { value, name, aliases, about, settings }| {
                    let value = Law(value);
                    Named { value, name, aliases, about, settings }
                })
                .collect()
        });
        &TABLE
    }
}

pub(super) type LawWord = Word<Law>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantTable {
    #[schemars(length(min = 1, max = 63))]
    pub(super) name: String,
    /// Guaranteed to the guest's sending, or to the tenant's guests together; also the limit, unless there is a
    /// ceiling.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    egress_rate: BitRate,
    /// Limit with what others leave, which is shared in proportion to the rates.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    egress_ceiling: Option<BitRate>,
}

pub(super) fn check_rate(key: String, rate: BitRate) -> Result<BitRate, Invalid> {
    if rate < MIN_RATE || rate > MAX_RATE {
        let remedy = format!("give \"{MIN_RATE}\" to \"{MAX_RATE}\"");
        return Err(Invalid::value(key, format!("{rate} is out of range"), remedy));
    }
    Ok(rate)
}

pub(super) fn check_ceiling(at: &str, rate: BitRate, ceiling: Option<BitRate>) -> Result<Rate, Wrong> {
    let mut wrong = Wrong::new();
    wrong.note(check_rate(format!("{at}.egress_rate"), rate));
    wrong.note(ceiling.map(|ceiling| check_rate(format!("{at}.egress_ceiling"), ceiling)).transpose());
    let (guarantee, ceiling) = (rate, ceiling.unwrap_or(rate));
    if ceiling < guarantee {
        let problem = format!("{ceiling} is less than the egress_rate of {guarantee}, which is guaranteed");
        wrong.add(Invalid::new(format!("{at}.egress_ceiling"), problem, "raise it, or remove it"));
    }
    wrong.or(Rate { guarantee, ceiling })
}

/// What is common to all ports; annotations are not read yet.
pub(super) fn check(table: &LimitsTable, tenants: &[TenantTable]) -> Result<Limits, Wrong> {
    let mut wrong = Wrong::new();
    wrong.note(table.total.map(|total| check_rate("limits.total".into(), total)).transpose());
    if let Some(devices) = table.devices.filter(|devices| !(1..=MAX_PAIRS).contains(devices)) {
        let problem = format!("{devices} is out of range");
        wrong.add(Invalid::value("limits.devices", problem, format!("give 1 to {MAX_PAIRS}, or remove it")));
    }
    wrong.note(table.pacing.shares("limits.total".into(), table.total.is_some()));
    wrong.note(table.pacing.shares("tenant.0".into(), !tenants.is_empty()));
    wrong.note(at_most("tenant", tenants.len(), MAX_TENANTS));
    let mut checked: Vec<Tenant> = Vec::with_capacity(tenants.len());
    for (n, tenant) in tenants.iter().enumerate() {
        let at = format!("tenant.{n}");
        if tenant.name.is_empty() || tenant.name.len() > 63 || tenant.name.chars().any(char::is_control) {
            wrong.add(Invalid::value(format!("{at}.name"), "is no name", "give 1 to 63 characters"));
        } else if tenants[..n].iter().any(|other| other.name == tenant.name) {
            let remedy = "give each tenant a name of its own";
            wrong.add(Invalid::value(format!("{at}.name"), "another tenant has it", remedy));
        }
        if let Some(egress) = wrong.note(check_ceiling(&at, tenant.egress_rate, tenant.egress_ceiling)) {
            checked.push(Tenant { name: tenant.name.clone(), egress });
        }
    }
    let (pacing, annotations) = (table.pacing.kind(), table.annotations.clone());
    let sparse_first = table.sparse_first;
    wrong.or(Limits {
        pacing,
        sparse_first,
        hold_edge: table.hold_edge,
        pairs: table.devices,
        law: table.law.0 .0,
        total: table.total,
        tenants: checked,
        annotated: BTreeMap::new(),
        annotations,
    })
}

/// What only the running kernel can say. `fq`: whether it has one, if that is known.
pub(super) fn check_kernel(config: &Config, fq: impl FnOnce() -> Option<bool>) -> Result<(), Invalid> {
    if config.limits.pacing != Pacing::Departure || fq() != Some(false) {
        return Ok(());
    }
    let (problem, remedy) = FQ.told();
    let remedy = format!("set it to \"htb\", {remedy}, or boot a kernel with {}", FQ.setting);
    Err(Invalid::new("limits.pacing", format!("{problem}, the qdisc that keeps to departure times"), remedy))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use agent_api::config::PortLimits;

    const HEAD: &str = "[uplink]\ninterface = \"eth0\"\n";
    const PORT: &str = "[[port]]\ninterface = \"veth1\"\nnetwork = 1\naddresses = [\"10.0.0.2\"]\n";

    fn read(text: &str) -> Result<Config, String> {
        parse("a.toml", &format!("{HEAD}{text}")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_rate_is_guarantee_and_ceiling_unless_a_ceiling_is_given() {
        let text = format!("{PORT}egress_rate = \"1Gbps\"\ningress_rate = \"500Mbps\"\n");
        let limits = read(&text).unwrap().ports.remove(0).limits;
        assert_eq!(limits.egress, Some(Rate::fixed(BitRate::from_gbps(1))));
        assert_eq!((limits.ingress, limits.law), (Some(BitRate::from_mbps(500)), LawKind::Spring));
        let text = format!(
            "[limits]\ntotal = \"10Gbps\"\nlaw = \"dem\"\n[[tenant]]\nname = \"blue\"\negress_rate = \"2Gbps\"\n\
             {PORT}tenant = \"blue\"\negress_rate = \"1Gbps\"\negress_ceiling = \"2Gbps\"\n"
        );
        let config = read(&text).unwrap();
        assert_eq!((config.limits.total, config.limits.tenants.len()), (Some(BitRate::from_gbps(10)), 1));
        let limits = &config.ports[0].limits;
        let rate = Rate { guarantee: BitRate::from_gbps(1), ceiling: BitRate::from_gbps(2) };
        assert_eq!((limits.egress, limits.law, limits.tenant.as_deref()), (Some(rate), LawKind::Dem, Some("blue")));
        assert_eq!(read(PORT).unwrap().ports[0].limits, PortLimits::default());
        for (word, law) in
            [("ecn", LawKind::Ecn), ("mark", LawKind::Ecn), ("none", LawKind::None), ("off", LawKind::None)]
        {
            let text = format!("{PORT}egress_rate = \"1Gbps\"\nlaw = \"{word}\"\n");
            assert_eq!(read(&text).unwrap().ports[0].limits.law, law, "{word}");
        }
    }

    #[test]
    fn mistakes_name_line_key_and_remedy() {
        for (text, says) in [
            ("egress_rate = \"10M\"", "Mbps"),
            ("egress_rate = 1000", "unit"),
            ("egress_rate = \"1bps\"", "give \"1Kbps\" to \"1Tbps\""),
            ("egress_ceiling = \"1Gbps\"", "add `egress_rate`"),
            ("k1 = \"30KB\"", "has no meaning without a rate; add `egress_rate` or `ingress_rate`, or remove it"),
            ("law = \"dem\"", "has no meaning without a rate"),
            ("egress_rate = \"1Gbps\"\negress_ceiling = \"1Mbps\"", "raise it, or remove it"),
            ("egress_rate = \"1Gbps\"\ntenant = \"blue\"", "add a [[tenant]] of that name"),
            ("egress_rate = \"1Gbps\"\nlaw = \"codel\"", "known: spring, dem, ecn, mark, none, off"),
            ("egress_rate = \"1Gbps\"\nlaw = \"off\"\nk1 = \"1KB\"", "has no meaning without a law; remove it"),
            ("egress_rate = \"1Gbps\"\nlaw = \"dem\"\nk2 = \"1KB\"", "with any law but \"spring\"; remove it"),
            ("egress_rate = \"1Gbps\"\nk1 = \"30KB\"\nk2 = \"20KB\"", "raise K2"),
            ("egress_rat = \"1Gbps\"", "did you mean `egress_rate`?"),
            ("annotations = { \"kubernetes.io/egress-bandwidth\" = \"10m\" }", "such as \"10M\""),
            ("egress_rate = \"1Gbps\"\nannotations = { \"kubernetes.io/egress-bandwidth\" = \"1M\" }", "remove one"),
            ("[limits]\ntotal = \"0Gbps\"", "out of range"),
            ("[limits]\npacing = \"edt\"", "known: htb, departure, virtual"),
            ("[limits]\npacing = \"virtual\"\ntotal = \"1Gbps\"", "set limits.pacing = \"htb\""),
            (
                "egress_rate = \"1Gbps\"\negress_ceiling = \"2Gbps\"\n[limits]\npacing = \"departure\"",
                "port.0.egress_ceiling: limits.pacing = \"departure\" gives each port a schedule of its own",
            ),
            ("[limits]\npacing = \"virtual\"\n[[tenant]]\nname = \"a\"\negress_rate = \"1Gbps\"", "nothing is shared"),
            ("[[tenant]]\nname = \"a\"", "egress_rate"),
            ("[[tenant]]\nname = \"\"\negress_rate = \"1Gbps\"", "1 to 63 characters"),
        ] {
            let error = read(&format!("{PORT}{text}\n")).unwrap_err();
            assert!(
                error.contains(says) && error.starts_with("a.toml:") && error.lines().count() == 1,
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn departure_times_are_for_kernels_that_keep_to_them() {
        let config = read("[limits]\npacing = \"departure\"\n").unwrap();
        let error = check_kernel(&config, || Some(false)).unwrap_err();
        assert_eq!(error.key, "limits.pacing");
        assert!(error.problem.contains("no fq") && error.remedy.contains("CONFIG_NET_SCH_FQ"), "{error:?}");
        assert!(check_kernel(&config, || Some(true)).is_ok() && check_kernel(&config, || None).is_ok());
        let config = read("[limits]\npacing = \"virtual\"\n").unwrap();
        assert!(check_kernel(&config, || Some(false)).is_ok() && config.limits.pacing == Pacing::Virtual);
    }
}
