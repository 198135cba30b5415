//! Rate limits: `[limits]`, `[[tenant]]`, the limits of `[[port]]`, and Kubernetes' annotations.

use super::at_most;
use super::tables::PortTable;
use crate::parsed::{Parsed, Shape};
use crate::word::{in_range, Word};
use agent_api::config::{
    Annotated, Config, LawKind, Limits, Pacing, PortLimits, Rate, Tenant, MAX_PAIRS, MAX_RATE, MAX_TENANTS, MIN_RATE,
};
use config::{ConfigError, Fault, Invalid, Wrong};
use edge::names::{Named, Names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;
use units::BitRate;

/// A longer file of annotations is a mistake.
const MAX_ANNOTATIONS: u64 = 16 << 20;
pub(crate) const EGRESS: &str = "kubernetes.io/egress-bandwidth";
pub(crate) const INGRESS: &str = "kubernetes.io/ingress-bandwidth";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    /// Limit of all ports with an egress limit together.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    total: Option<BitRate>,
    /// Law of ports that name none.
    law: LawWord,
    /// What holds segments: classes of HTB; departure times, which need a kernel with `fq`; or nothing, see
    /// limiters.md. The latter two exclude `egress_ceiling`, tenants and `limits.total`.
    pacing: PacingWord,
    /// Flows that send little go past the queue of all others of their port, in each direction: see limiters.md. Needs what
    /// laws need of the kernel.
    sparse_first: bool,
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
    annotations: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PacingWord {
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

impl PortTable {
    pub(super) fn has_rate(&self) -> bool {
        let annotated = self.annotations.egress.is_some() || self.annotations.ingress.is_some();
        annotated || self.egress_rate.is_some() || self.ingress_rate.is_some()
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
    fn shares(self, key: String, given: bool) -> Result<(), Invalid> {
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
pub(super) struct Law(LawKind);

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
    name: String,
    /// Guaranteed to the guest's sending, or to the tenant's guests together; also the limit, unless there is a
    /// ceiling.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    egress_rate: BitRate,
    /// Limit with what others leave, which is shared in proportion to the rates.
    #[schemars(extend("x-range" = ["1Kbps", "1Tbps"]))]
    egress_ceiling: Option<BitRate>,
}

/// Those of a pod that are about bandwidth.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PodAnnotations {
    #[serde(rename = "kubernetes.io/egress-bandwidth")]
    egress: Option<Parsed<Bandwidth>>,
    #[serde(rename = "kubernetes.io/ingress-bandwidth")]
    ingress: Option<Parsed<Bandwidth>>,
}

/// A bandwidth as Kubernetes writes it: a quantity of bits per second, such as `10M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bandwidth(BitRate);

/// # Errors
/// What is wrong with the text, and an example.
pub(crate) fn kubernetes_bandwidth(text: &str) -> Result<BitRate, String> {
    text.parse().map(|Bandwidth(rate)| rate)
}

impl Shape for Bandwidth {
    const WANTED: &'static str = "a bandwidth such as \"10M\"";
}

impl FromStr for Bandwidth {
    type Err = String;
    /// A number with one of Kubernetes' suffixes, or with an exponent of ten; from 1k to 1P as there.
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let shown: String = text.chars().take(40).collect();
        let fail = |why: &str| format!("{shown:?} {why}: write a bandwidth such as \"10M\"");
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(split);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || number == "." || fraction.contains('.') || number.len() > 24 {
            return Err(fail("is no quantity of Kubernetes"));
        }
        let scale = scale(suffix).ok_or_else(|| fail("has a suffix that Kubernetes does not know"))?;
        let digits = format!("{whole}{fraction}").parse::<u128>().map_err(|_| fail("is no quantity of Kubernetes"))?;
        let denominator = 10u128.pow(fraction.len() as u32);
        let bps = digits.checked_mul(scale).map(|bps| bps / denominator);
        let (least, most) = (1_000, 1_000_000_000_000_000);
        match bps.filter(|bps| (least..=most).contains(bps)) {
            // No interface is as fast as Kubernetes permits.
            Some(bps) => Ok(Bandwidth(BitRate::from_bps(bps as u64).min(MAX_RATE))),
            None => Err(fail("is not within 1k and 1P")),
        }
    }
}

fn scale(suffix: &str) -> Option<u128> {
    let decimal = ["", "k", "M", "G", "T", "P", "E"].iter().position(|s| *s == suffix);
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix);
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|e| e.strip_prefix('+').unwrap_or(e).parse::<u32>().ok());
    match (decimal, binary, exponent) {
        (Some(n), _, _) => Some(1000u128.pow(n as u32)),
        (_, Some(n), _) => Some(1024u128.pow(n as u32 + 1)),
        (_, _, Some(e)) if e <= 15 => Some(10u128.pow(e)),
        _ => None,
    }
}

fn check_rate(key: String, rate: BitRate) -> Result<BitRate, Invalid> {
    if rate < MIN_RATE || rate > MAX_RATE {
        let remedy = format!("give \"{MIN_RATE}\" to \"{MAX_RATE}\"");
        return Err(Invalid::value(key, format!("{rate} is out of range"), remedy));
    }
    Ok(rate)
}

fn check_ceiling(at: &str, rate: BitRate, ceiling: Option<BitRate>) -> Result<Rate, Wrong> {
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
    let problem = "this kernel has no fq, the qdisc that keeps to departure times";
    Err(Invalid::new("limits.pacing", problem, "set it to \"htb\", or boot a kernel with CONFIG_NET_SCH_FQ"))
}

/// What one `[[port]]` says, which stands at key `at`.
pub(super) fn check_port(
    at: &str,
    keys: &PortTable,
    table: &LimitsTable,
    tenants: &[TenantTable],
) -> Result<PortLimits, Wrong> {
    let mut wrong = Wrong::new();
    let mut fail = |key: &str, problem: String, remedy: &str| {
        wrong.add(Invalid::new(format!("{at}.{key}"), problem, remedy));
    };
    let annotated = |one: Option<Parsed<Bandwidth>>| one.map(|one| one.0 .0);
    let (egress, ingress) = (annotated(keys.annotations.egress), annotated(keys.annotations.ingress));
    for (key, both) in [
        ("egress_rate", egress.is_some() && keys.egress_rate.is_some()),
        ("ingress_rate", ingress.is_some() && keys.ingress_rate.is_some()),
    ] {
        if both {
            fail(key, "an annotation says it too".into(), "remove one of them");
        }
    }
    let has_egress = egress.is_some() || keys.egress_rate.is_some();
    let has_rate = has_egress || ingress.is_some() || keys.ingress_rate.is_some() || table.annotations.is_some();
    for (key, given) in [("law", keys.law.is_some()), ("k1", keys.k1.is_some()), ("k2", keys.k2.is_some())] {
        if given && !has_rate {
            let remedy = "add `egress_rate` or `ingress_rate`, or remove it";
            fail(key, "has no meaning without a rate".into(), remedy);
        }
    }
    if keys.egress_ceiling.is_some() && keys.egress_rate.is_none() {
        fail("egress_ceiling", "there is no egress_rate".into(), "add `egress_rate`, which is guaranteed");
    }
    if let Some(tenant) = &keys.tenant {
        if !tenants.iter().any(|known| known.name == *tenant) {
            let shown: String = tenant.chars().take(63).collect();
            fail("tenant", format!("there is no tenant {shown:?}"), "add a [[tenant]] of that name");
        }
        if !has_egress && table.annotations.is_none() {
            fail("tenant", "the port has no egress_rate".into(), "add `egress_rate`");
        }
    }
    wrong.note(table.pacing.shares(format!("{at}.egress_ceiling"), keys.egress_ceiling.is_some()));
    let own = wrong.note(keys.egress_rate.map(|rate| check_ceiling(at, rate, keys.egress_ceiling)).transpose());
    let mut rate = |key: &str, rate: Option<BitRate>| {
        wrong.note(rate.map(|rate| check_rate(format!("{at}.{key}"), rate)).transpose()).flatten()
    };
    let egress = rate("annotations", egress).map(Rate::fixed);
    let annotated = rate("annotations", ingress);
    let limits = PortLimits {
        egress: own.flatten().or(egress),
        ingress: annotated.or(rate("ingress_rate", keys.ingress_rate)),
        tenant: keys.tenant.clone(),
        law: keys.law.unwrap_or(table.law).0 .0,
        k1: keys.k1,
        k2: keys.k2,
    };
    if has_rate {
        wrong.note(check_thresholds(at, &limits, table.sparse_first));
    }
    wrong.or(limits)
}

fn check_thresholds(at: &str, limits: &PortLimits, sparse_first: bool) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    let settings = limits.law.settings();
    for (key, given) in [("k1", limits.k1), ("k2", limits.k2)] {
        let (Some(size), path) = (given, format!("{at}.{key}")) else { continue };
        match settings.iter().find(|setting| setting.of_port == Some(key)) {
            Some(setting) => _ = wrong.note(in_range(path, setting, size)),
            None if settings.is_empty() => wrong.add(Invalid::new(path, "has no meaning without a law", "remove it")),
            None => {
                let has = |choice: &&Named<LawKind>| choice.settings.iter().any(|s| s.of_port == Some(key));
                let laws: Vec<String> =
                    LawKind::table().iter().filter(has).map(|choice| format!("{:?}", choice.name)).collect();
                let problem = format!("has no meaning with any law but {}", laws.join(", "));
                wrong.add(Invalid::new(path, problem, "remove it"));
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let rates = [limits.egress.map(|rate| rate.ceiling), limits.ingress];
    for rate in rates.into_iter().flatten() {
        let checked = limits.law_for(rate, sparse_first).check().map_err(|error| {
            let text = error.to_string();
            let (problem, remedy) = text.split_once("; ").unwrap_or((&text, "correct it"));
            let key = if limits.k2.is_some() { "k2" } else { "k1" };
            Invalid::new(format!("{at}.{key}"), problem, remedy)
        });
        // Once for both directions.
        if wrong.note(checked).is_none() {
            break;
        }
    }
    wrong.or(())
}

/// The text of the file of annotations.
///
/// # Errors
/// A file that cannot be read, of which the key is told that names it.
pub(super) fn read_annotations(path: &Path) -> Result<String, Invalid> {
    files::read_regular_text(path, MAX_ANNOTATIONS).map_err(|e| {
        let problem = format!("{} cannot be read: {e}", path.display());
        Invalid::value("limits.annotations", problem, "give the path of a file, relative to this one")
    })
}

/// What that text says: a JSON object from interfaces to their pods' annotations.
///
/// # Errors
/// All annotations that are wrong.
pub(super) fn parse_annotations(path: &Path, text: &str) -> Result<BTreeMap<String, Annotated>, ConfigError> {
    let fault = |key: String, problem: String, remedy: &str| {
        ConfigError::from(Fault { place: path.display().to_string(), key, problem, remedy: remedy.to_owned() })
    };
    let fail = |problem: String, remedy: &str| fault(String::new(), problem, remedy);
    let example = "write {\"veth1\": {\"kubernetes.io/egress-bandwidth\": \"10M\"}}";
    let all: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
        serde_json::from_str(text).map_err(|e| fail(format!("is no JSON object of annotations: {e}"), example))?;
    let mut found = BTreeMap::new();
    let mut wrong: Option<ConfigError> = None;
    for (interface, annotations) in all {
        let mut one = |name: &str| -> Option<BitRate> {
            let key = format!("{interface}.{name}");
            let error = match annotated_rate(key.clone(), annotations.get(name)?, example) {
                Ok(rate) => return Some(rate),
                Err(invalid) => fault(key, invalid.problem, &invalid.remedy),
            };
            match &mut wrong {
                Some(all) => all.extend(error),
                none => *none = Some(error),
            }
            None
        };
        let annotated = Annotated { egress: one(EGRESS), ingress: one(INGRESS) };
        if annotated != Annotated::default() {
            found.insert(interface, annotated);
        }
    }
    wrong.map_or(Ok(found), Err)
}

fn annotated_rate(key: String, value: &serde_json::Value, example: &str) -> Result<BitRate, Invalid> {
    let Some(text) = value.as_str() else {
        return Err(Invalid::value(key, format!("{value} is no string"), example));
    };
    let bandwidth = text.parse::<Bandwidth>().map_err(|why| {
        let (problem, remedy) = why.rsplit_once(": ").unwrap_or((&why, example));
        Invalid::value(key.clone(), problem, remedy)
    })?;
    check_rate(key, bandwidth.0)
}

#[cfg(test)]
mod tests {
    use super::super::{load, parse};
    use super::*;
    use agent_api::config::Config;
    use proptest::prelude::*;

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

    #[test]
    fn bandwidths_are_quantities_of_kubernetes() {
        for (text, bps) in [
            ("10M", 10_000_000),
            ("1G", 1_000_000_000),
            ("1.5G", 1_500_000_000),
            ("1Ki", 1024),
            ("2Mi", 2 << 20),
            ("1e6", 1_000_000),
            ("1E+9", 1_000_000_000),
            ("5000", 5000),
            ("1P", 1_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bandwidth(BitRate::from_bps(bps))), "{text}");
        }
        for text in ["", "M", "-1M", "1m", "10 M", "1.2.3M", "10Mbps", "10kbit", "1", "2P", "1e-3", "1e99", "0"] {
            let error = text.parse::<Bandwidth>().unwrap_err();
            assert!(error.contains("write a bandwidth such as \"10M\""), "{error}");
        }
    }

    #[test]
    fn annotations_come_from_a_file_by_interface() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (config, pods) = (dir.join("agent.toml"), dir.join("pods.json"));
        std::fs::write(&config, format!("{HEAD}[limits]\nannotations = {pods:?}\n")).unwrap();
        let of = |text: &str| {
            std::fs::write(&pods, text).unwrap();
            load(&config).map_err(|e| e.to_string())
        };
        let good = of("{\"lxc1\": {\"kubernetes.io/egress-bandwidth\": \"10M\", \"other\": 3}, \"lxc2\": {}}").unwrap();
        let only = Annotated { egress: Some(BitRate::from_mbps(10)), ingress: None };
        assert_eq!(good.limits.annotated, BTreeMap::from([("lxc1".to_owned(), only)]));
        // Relative to the file that names it.
        std::fs::write(&config, format!("{HEAD}[limits]\nannotations = \"pods.json\"\n")).unwrap();
        let same = of("{\"lxc1\": {\"kubernetes.io/egress-bandwidth\": \"10M\"}}").unwrap();
        assert_eq!((same.limits.annotated, same.limits.annotations), (good.limits.annotated, Some(pods.clone())));
        for (text, says) in [
            ("[]", "is no JSON object of annotations"),
            (
                "{\"lxc1\": {\"kubernetes.io/ingress-bandwidth\": 10}}",
                "lxc1.kubernetes.io/ingress-bandwidth: 10 is no string",
            ),
            ("{\"lxc1\": {\"kubernetes.io/ingress-bandwidth\": \"10X\"}}", "such as \"10M\""),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(says) && error.contains("pods.json") && error.lines().count() == 1, "{error}");
        }
        std::fs::remove_file(&pods).unwrap();
        std::fs::create_dir(&pods).unwrap();
        let at = format!("{}:4: limits.annotations: {} cannot be read: ", config.display(), pods.display());
        let error = load(&config).unwrap_err().to_string();
        assert!(error.starts_with(&at) && error.contains("it is no regular file"), "{error}");
        std::fs::remove_dir(&pods).unwrap();
        let error = load(&config).unwrap_err().to_string();
        assert!(error.starts_with(&at) && error.contains("relative to this one"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bandwidth_is_taken_or_refused(text in "[0-9.eEkMGTPi+ -]{0,12}|\\PC{0,20}") {
            let _ = text.parse::<Bandwidth>();
        }
    }
}
