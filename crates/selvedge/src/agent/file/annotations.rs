//! Kubernetes' annotations of bandwidth: those of `[[port]]`, and the file that `limits.annotations` names.

use super::limits::check_rate;
use crate::parsed::{Parsed, Shape};
use agent_api::config::{Annotated, MAX_RATE};
use config::{ConfigError, Fault, Invalid};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use units::BitRate;

/// A longer file of annotations is a mistake.
const MAX_ANNOTATIONS: u64 = 16 << 20;
pub(crate) const EGRESS: &str = "kubernetes.io/egress-bandwidth";
pub(crate) const INGRESS: &str = "kubernetes.io/ingress-bandwidth";

/// Those of a pod that are about bandwidth.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PodAnnotations {
    #[serde(rename = "kubernetes.io/egress-bandwidth")]
    pub(super) egress: Option<Parsed<Bandwidth>>,
    #[serde(rename = "kubernetes.io/ingress-bandwidth")]
    pub(super) ingress: Option<Parsed<Bandwidth>>,
}

impl PodAnnotations {
    /// Do they say a rate?
    pub(super) fn have_rate(&self) -> bool {
        self.egress.is_some() || self.ingress.is_some()
    }
}

/// A bandwidth as Kubernetes writes it: a quantity of bits per second, such as `10M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bandwidth(pub(super) BitRate);

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
    use super::super::load;
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "[uplink]\ninterface = \"eth0\"\n";

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
