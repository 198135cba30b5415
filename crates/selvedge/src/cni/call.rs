//! What a runtime asks for: the environment, and the network's configuration.

use super::{CniError, INCOMPATIBLE, INVALID, MAX_BYTES, NOT_DECODED, VERSIONS, WRONG_ENVIRONMENT};
use crate::agent::file::{kubernetes_bandwidth, EGRESS, INGRESS, SOCKET};
use agent_api::pod::Pod;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Call {
    /// Of the specification.
    pub(super) version: String,
    /// The network's name.
    pub(super) network: String,
    pub(super) verb: Verb,
    /// What the plugins before this one have made.
    pub(super) previous: Option<Value>,
    pub(super) rates: Rates,
    /// The agent's.
    pub(super) socket: PathBuf,
    /// How long ADD asks for an agent that is being started anew.
    pub(super) wait: Duration,
    /// How long the largest segment of the container takes at its egress rate, ms; `None`: segments stay as large as they are.
    pub(super) segment_ms: Option<u64>,
    /// The network puts packets straight into containers, past the host's ends of their interfaces.
    pub(super) straight: bool,
}

#[derive(Debug)]
pub(super) enum Verb {
    Add(Attachment),
    Del(Attachment),
    Check(Attachment),
    Status,
    /// Owners of the limits that are to stay.
    Gc {
        valid: Vec<String>,
    },
}

/// A container's interface.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Of its limit, among all that the agent knows.
    pub(super) owner: String,
    /// In the container.
    pub(super) ifname: String,
    /// Empty where the runtime knows none.
    pub(super) netns: String,
    /// Of Kubernetes, whose it is.
    pub(super) pod: Pod,
}

/// Bits per second; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    pub(super) egress_bps: Option<u64>,
    pub(super) ingress_bps: Option<u64>,
}

impl Rates {
    pub(super) fn is_none(self) -> bool {
        self == Rates::default()
    }
}

/// Seconds that ADD waits for an agent, unless the network says otherwise; and at most: runtimes give up, too.
const WAIT: u64 = 10;
const MAX_WAIT: u64 = 120;
/// Of `maxSegmentMs`.
const MAX_SEGMENT_MS: u64 = 100;

/// Keys of others are theirs. Runtimes in Go write `null` for an empty map or list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    cni_version: String,
    name: String,
    prev_result: Option<Value>,
    #[serde(default, deserialize_with = "null_is_empty")]
    runtime_config: RuntimeConfig,
    /// Of all containers of the network, unless the runtime says otherwise.
    #[serde(flatten)]
    bandwidth: Bandwidth,
    socket: Option<PathBuf>,
    wait: Option<u64>,
    max_segment_ms: Option<u64>,
    straight: Option<bool>,
    #[serde(default, rename = "cni.dev/valid-attachments", deserialize_with = "null_is_none_valid")]
    valid: Option<Vec<Valid>>,
    /// The same key of earlier drafts of GC.
    #[serde(default, rename = "cni.dev/attachments", deserialize_with = "null_is_none_valid")]
    attachments: Option<Vec<Valid>>,
}

#[derive(Default, Deserialize)]
struct RuntimeConfig {
    bandwidth: Option<Bandwidth>,
    /// Of the pod, from runtimes that pass them.
    #[serde(default, rename = "io.kubernetes.cri.pod-annotations", deserialize_with = "null_is_empty")]
    annotations: BTreeMap<String, String>,
}

/// Bits per second, 0: no limit. The bursts that come with them are not used: the agent chooses its own. containerd begins the keys
/// with capitals.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bandwidth {
    #[serde(alias = "IngressRate")]
    ingress_rate: Option<u64>,
    #[serde(alias = "EgressRate")]
    egress_rate: Option<u64>,
}

#[derive(Deserialize)]
struct Valid {
    #[serde(rename = "containerID")]
    container: String,
    ifname: String,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// The key is there: a list without it is another thing, from which nothing follows.
fn null_is_none_valid<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<Valid>>, D::Error> {
    null_is_empty(input).map(Some)
}

/// Of a container's limit. Names have no slash.
pub(super) fn owner(network: &str, container: &str, ifname: &str) -> String {
    match container {
        "" => format!("cni/{network}/"),
        _ => format!("cni/{network}/{container}/{ifname}"),
    }
}

impl Call {
    /// # Errors
    /// With the configuration's version, if that could be read.
    pub(super) fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        input: &[u8],
    ) -> Result<Call, (Option<String>, CniError)> {
        if input.len() as u64 > MAX_BYTES {
            let msg = format!("the configuration is longer than {MAX_BYTES} bytes");
            return Err((None, CniError::new(NOT_DECODED, msg)));
        }
        // The version first: another one may have other keys.
        let version =
            serde_json::from_slice::<Value>(input).ok().and_then(|v| Some(v["cniVersion"].as_str()?.to_owned()));
        let fail = |error| (version.clone().filter(|v| VERSIONS.contains(&v.as_str())), error);
        if let Some(version) = version.as_ref().filter(|version| !VERSIONS.contains(&version.as_str())) {
            let msg = format!("cniVersion {version:?} is none of {}", VERSIONS.join(", "));
            return Err(fail(CniError::new(INCOMPATIBLE, msg)));
        }
        let config: Configuration = serde_json::from_slice(input)
            .map_err(|e| fail(CniError::new(NOT_DECODED, format!("the configuration is not understood: {e}"))))?;
        Call::checked(variable, config).map_err(fail)
    }

    fn checked(variable: &dyn Fn(&str) -> Option<String>, config: Configuration) -> Result<Call, CniError> {
        if !is_name(&config.name) {
            return Err(CniError::new(INVALID, format!("{:?} cannot name a network", config.name)));
        }
        let attachment = || attachment(variable, &config.name);
        let verb = match variable("CNI_COMMAND").unwrap_or_default().as_str() {
            "ADD" => Verb::Add(attachment()?),
            "DEL" => Verb::Del(attachment()?),
            "CHECK" => Verb::Check(attachment()?),
            "STATUS" => Verb::Status,
            "GC" => {
                if config.valid.is_none() && config.attachments.is_none() {
                    let msg = "there is no cni.dev/valid-attachments: nothing says which containers are left";
                    return Err(CniError::new(INVALID, msg));
                }
                let valid = config.valid.iter().chain(&config.attachments).flatten();
                Verb::Gc { valid: valid.map(|one| owner(&config.name, &one.container, &one.ifname)).collect() }
            }
            other => {
                let msg = format!("CNI_COMMAND is {other:?}: ADD, DEL, CHECK, STATUS, GC and VERSION are known");
                return Err(CniError::new(WRONG_ENVIRONMENT, msg));
            }
        };
        let rates = rates(&config)?;
        let wait = config.wait.unwrap_or(WAIT);
        if wait > MAX_WAIT {
            let msg = format!("wait is {wait}: give a number of seconds, 0 to {MAX_WAIT}");
            return Err(CniError::new(INVALID, msg));
        }
        let segment_ms = config.max_segment_ms;
        if let Some(ms) = segment_ms.filter(|ms| !(1..=MAX_SEGMENT_MS).contains(ms)) {
            let msg =
                format!("maxSegmentMs is {ms}: give a number of milliseconds, 1 to {MAX_SEGMENT_MS}, or leave it out");
            return Err(CniError::new(INVALID, msg));
        }
        Ok(Call {
            version: config.cni_version,
            network: config.name,
            verb,
            previous: config.prev_result.filter(|previous| !previous.is_null()),
            rates,
            socket: config.socket.unwrap_or_else(|| SOCKET.into()),
            wait: Duration::from_secs(wait),
            segment_ms,
            straight: config.straight.unwrap_or(false),
        })
    }
}

/// Each direction by itself: the runtime's bandwidth, then the pod's annotations, then the network's own.
fn rates(config: &Configuration) -> Result<Rates, CniError> {
    let annotated = |name: &str| -> Result<Option<u64>, CniError> {
        let Some(text) = config.runtime_config.annotations.get(name) else { return Ok(None) };
        let rate = kubernetes_bandwidth(text).map_err(|why| CniError::new(INVALID, format!("{name}: {why}")))?;
        Ok(Some(rate.as_bps()))
    };
    let given = config.runtime_config.bandwidth.unwrap_or_default();
    let own = config.bandwidth;
    let limit = |rate: Option<u64>| rate.filter(|rate| *rate > 0);
    Ok(Rates {
        egress_bps: limit(given.egress_rate).or(annotated(EGRESS)?).or(limit(own.egress_rate)),
        ingress_bps: limit(given.ingress_rate).or(annotated(INGRESS)?).or(limit(own.ingress_rate)),
    })
}

fn attachment(variable: &dyn Fn(&str) -> Option<String>, network: &str) -> Result<Attachment, CniError> {
    let needed = |name: &str| {
        let missing = || CniError::new(WRONG_ENVIRONMENT, format!("{name} is not set"));
        variable(name).filter(|value| !value.is_empty()).ok_or_else(missing)
    };
    let (container, ifname) = (needed("CNI_CONTAINERID")?, needed("CNI_IFNAME")?);
    if !is_name(&container) || container.len() > 256 {
        return Err(CniError::new(
            WRONG_ENVIRONMENT,
            format!("CNI_CONTAINERID {container:?} is no name of a container"),
        ));
    }
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    if ifname.len() > 15 || ifname == "." || ifname == ".." || !ifname.chars().all(fits) {
        return Err(CniError::new(WRONG_ENVIRONMENT, format!("CNI_IFNAME {ifname:?} is no name of an interface")));
    }
    let owner = owner(network, &container, &ifname);
    let pod = pod(&variable("CNI_ARGS").unwrap_or_default());
    Ok(Attachment { owner, ifname, netns: variable("CNI_NETNS").unwrap_or_default(), pod })
}

/// What runtimes of Kubernetes say of it in `CNI_ARGS`, which is `KEY=VALUE;KEY=VALUE`. It is shown only, so that nothing in it is a
/// reason to refuse.
fn pod(arguments: &str) -> Pod {
    let value = |key: &str| {
        let mut pairs = arguments.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
    };
    Pod::checked(value("K8S_POD_NAME"), value("K8S_POD_NAMESPACE"))
}

/// As the specification has them: letters and digits first, then also `_`, `.` and `-`.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        && text.len() <= 200
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extra: &str) -> Result<Call, CniError> {
        let variable = |name: &str| {
            let set = [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "c-1"), ("CNI_IFNAME", "eth0")];
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let text = format!(r#"{{"cniVersion": "1.0.0", "name": "net.1", "type": "x", "other": [1]{extra}}}"#);
        Call::read(&variable, text.as_bytes()).map_err(|(_, error)| error)
    }

    #[test]
    fn rates_come_from_the_runtime_then_from_annotations_then_from_the_network() {
        let both = |egress_bps, ingress_bps| Rates { egress_bps, ingress_bps };
        let network = r#", "ingressRate": 7000, "egressRate": 8000"#;
        let annotations = r#""io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "1M", "a": "b"}"#;
        let bandwidth = r#""bandwidth": {"ingressRate": 5000, "ingressBurst": 1, "egressRate": 0}"#;
        for (extra, rates) in [
            (String::new(), both(None, None)),
            (network.to_owned(), both(Some(8000), Some(7000))),
            (format!(r#", "runtimeConfig": {{{annotations}}}"#), both(Some(1_000_000), None)),
            (
                format!(r#"{network}, "runtimeConfig": {{{bandwidth}, {annotations}}}"#),
                both(Some(1_000_000), Some(5000)),
            ),
            (format!(r#"{network}, "runtimeConfig": {{{bandwidth}}}"#), both(Some(8000), Some(5000))),
            // As containerd 1.6 writes it.
            (
                r#", "runtimeConfig": {"bandwidth": {"IngressRate": 5000, "IngressBurst": 1, "EgressRate": 6000, "EgressBurst": 1}}"#.to_owned(),
                both(Some(6000), Some(5000)),
            ),
            (format!(r#"{network}, "runtimeConfig": null"#), both(Some(8000), Some(7000))),
            (
                format!(
                    r#"{network}, "prevResult": null, "cni.dev/valid-attachments": null,
                    "runtimeConfig": {{"bandwidth": null, "io.kubernetes.cri.pod-annotations": null}}"#
                ),
                both(Some(8000), Some(7000)),
            ),
        ] {
            assert_eq!(read(&extra).map(|call| call.rates), Ok(rates), "{extra}");
        }
        let wrong =
            r#", "runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "fast"}}"#;
        assert!(read(wrong).map(drop).unwrap_err().msg.contains("kubernetes.io/egress-bandwidth"));
    }

    #[test]
    fn an_agent_is_waited_for_ten_seconds_unless_the_network_says_otherwise() {
        for (extra, seconds) in [("", 10), (r#", "wait": 0"#, 0), (r#", "wait": 120"#, 120)] {
            assert_eq!(read(extra).map(|call| call.wait), Ok(Duration::from_secs(seconds)), "{extra}");
        }
        for wrong in [r#", "wait": 121"#, r#", "wait": -1"#, r#", "wait": "long""#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn segments_stay_as_they_are_unless_the_network_says_otherwise() {
        for (extra, ms) in [("", None), (r#", "maxSegmentMs": null"#, None), (r#", "maxSegmentMs": 2"#, Some(2))] {
            assert_eq!(read(extra).map(|call| call.segment_ms), Ok(ms), "{extra}");
        }
        for wrong in [r#", "maxSegmentMs": 0"#, r#", "maxSegmentMs": 101"#, r#", "maxSegmentMs": "short""#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_come_by_the_host_unless_the_network_says_otherwise() {
        for (extra, straight) in [("", false), (r#", "straight": null"#, false), (r#", "straight": true"#, true)] {
            assert_eq!(read(extra).map(|call| call.straight), Ok(straight), "{extra}");
        }
        assert!(read(r#", "straight": "yes""#).is_err());
    }

    #[test]
    fn pods_come_from_the_arguments_and_what_is_none_is_left_out() {
        let of = |arguments: &str| {
            let Pod { namespace, pod } = pod(arguments);
            (namespace.unwrap_or_default(), pod.unwrap_or_default())
        };
        let both = |namespace: &str, pod: &str| (namespace.to_owned(), pod.to_owned());
        let long = format!("K8S_POD_NAME={};K8S_POD_NAMESPACE={}", "a".repeat(254), "a".repeat(63));
        for (arguments, found) in [
            // As containerd and CRI-O write it.
            (
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-7d4.x;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u",
                both("shop", "web-7d4.x"),
            ),
            ("K8S_POD_NAME=web", both("", "web")),
            ("K8S_POD_NAME=Web/../x;K8S_POD_NAMESPACE=a.b", both("", "")),
            (&long, both(&"a".repeat(63), "")),
            ("", both("", "")),
            (";;=;K8S_POD_NAME", both("", "")),
            ("K8S_POD_NAME=a=b;K8S_POD_NAMESPACE=", both("", "")),
        ] {
            assert_eq!(of(arguments), found, "{arguments}");
        }
    }

    #[test]
    fn owners_name_network_container_and_interface() {
        let Ok(Call { verb: Verb::Add(attachment), socket, .. }) = read("") else { panic!("it is an ADD") };
        assert_eq!((attachment.owner.as_str(), attachment.netns.as_str()), ("cni/net.1/c-1/eth0", ""));
        assert_eq!(socket, PathBuf::from(SOCKET));
        assert!(attachment.owner.starts_with(&owner("net.1", "", "")));
        for (wrong, right) in [("", false), ("a/b", false), ("-a", false), ("a b", false), ("a_b.c-1", true)] {
            assert_eq!(is_name(wrong), right, "{wrong:?}");
        }
    }
}
