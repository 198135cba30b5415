//! What `selvedge ctl` and the agent say to one another: one JSON object each way, on a line of its own.
//!
//! `{"version":1,"command":"flows","limit":50}` is answered by `{"version":1,"ok":{...}}` or
//! `{"version":1,"error":"..."}`, and the connection ends.

use crate::pod::Pod;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where an agent listens, unless its file says otherwise.
pub const SOCKET: &str = "/run/selvedge/ctl.sock";

/// Of the protocol; another one is refused by either side.
pub const VERSION: u32 = 1;
/// Longest request, bytes.
pub const MAX_REQUEST: usize = 2048;
/// Longest answer, bytes: 10,000 flows, or 4096 peers of 256 labels.
pub const MAX_ANSWER: usize = 16 << 20;
/// Most flows in an answer.
pub const MAX_FLOWS: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    #[serde(flatten)]
    pub command: Command,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    Status,
    Ports,
    /// The flows that carried most, at most `limit` of them.
    Flows {
        limit: u32,
    },
    /// The paths to all peers, or to one of them, by its name or address.
    Paths {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<String>,
    },
    Counters,
    /// Rate limits, and how their queues stand.
    Limits,
    /// Guests' shares of the uplink.
    Tenants,
    /// Limit an interface until it ends or the owner takes this back. Answered by its `limits`.
    Limit(RequestedLimit),
    /// End what the owner asked for. Answered by whether there was anything.
    Unlimit {
        owner: String,
    },
    /// What was asked for with `limit`.
    Requested,
    /// Read the configuration again.
    Reload,
    /// Take the edge out of the kernel, and end.
    Stop,
}

/// Rates of an interface, in place of those that the configuration may give it. At least one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedLimit {
    pub interface: String,
    /// Who asks: another owner's limit is not replaced.
    pub owner: String,
    /// Of what the guest there sends, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bps: Option<u64>,
    /// Of what it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_bps: Option<u64>,
    /// Who asks can enter the guest's network namespace, and puts a program on the guest's own end of the interface, where [`Limit::inside`]
    /// says which.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enters: bool,
    /// For whom, if a runtime says so: shown, and of no other effect.
    #[serde(flatten)]
    pub pod: Pod,
}

/// The program for the guest's own end of its interface, which sends back to the host's end what a network put straight into the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// Where it is pinned in the BPF file system.
    pub program: PathBuf,
    /// Where its link to tcx, ingress, in front of all others, is to be pinned.
    pub link: PathBuf,
    /// It is.
    pub there: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub version: u32,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok(serde_json::Value),
    Error(String),
}

/// Reads a request's line.
///
/// # Errors
/// What is wrong with it, in one line, for the one who sent it.
pub fn parse_request(line: &[u8]) -> Result<Command, String> {
    if line.len() > MAX_REQUEST {
        return Err(format!("the request is longer than {MAX_REQUEST} bytes"));
    }
    // The version first: another one may have other commands.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let malformed = |e: serde_json::Error| format!("the request is not understood: {e}");
    let Version { version } = serde_json::from_slice(line).map_err(malformed)?;
    if version != VERSION {
        return Err(format!("this agent speaks version {VERSION} of the protocol, not {version}"));
    }
    let request: Request = serde_json::from_slice(line).map_err(malformed)?;
    match request.command {
        Command::Flows { limit } if !(1..=MAX_FLOWS).contains(&limit) => {
            Err(format!("a limit of {limit} flows is out of range: 1 to {MAX_FLOWS}"))
        }
        command => Ok(command),
    }
}

/// The answer's line, with its end.
pub fn answer_line(outcome: Outcome) -> Vec<u8> {
    let encode = |outcome| serde_json::to_vec(&Answer { version: VERSION, outcome }).unwrap_or_default();
    let mut line = encode(outcome);
    if line.len() >= MAX_ANSWER {
        line = encode(Outcome::Error("the answer is too long; ask for less".into()));
    }
    line.push(b'\n');
    line
}

/// `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Of the agent's program.
    pub agent_version: String,
    pub pid: u32,
    pub pins: String,
    /// Layout of the pinned maps.
    pub state_version: u32,
    /// Did the agent find an edge in the kernel when it started?
    pub adopted: bool,
    pub uplinks: Vec<Uplink>,
    pub udp_port: u16,
    /// Of guests, unless their port says otherwise; bytes.
    pub guest_mtu: u32,
    pub gro: bool,
    pub policy: String,
    /// Of the policy: values with their units.
    #[serde(default)]
    pub policy_parameters: BTreeMap<String, String>,
    pub ports: usize,
    pub peers: usize,
    pub routes: usize,
    /// At the last sweep.
    pub flows: usize,
    pub max_flows: u32,
    pub flow_idle_seconds: f64,
    /// What puts received segments in order; none: they are handed on as they come.
    #[serde(default)]
    pub receiver: Option<ReorderStatus>,
    pub reloads: u64,
    /// The last reload's error; empty if it was taken.
    pub reload_error: String,
    /// Where other edges of this host are pinned.
    #[serde(default)]
    pub other_edges: Vec<String>,
    /// What does not work now, one line each.
    pub problems: Vec<String>,
}

/// Of `status`. What the thread that puts segments in order has done since it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReorderStatus {
    pub interface: String,
    /// Known now.
    pub flows: usize,
    /// Segments that came by, and those of them that waited behind a gap.
    pub segments: u64,
    pub held_segments: u64,
    /// Of those that waited: released because the gap filled, or because it did not in time.
    pub gaps_filled: u64,
    pub timeouts: u64,
    /// Times that a bound was reached and a flow's segments were released.
    pub overflows: u64,
    /// That could not be given back.
    pub lost_segments: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uplink {
    pub interface: String,
    /// 0 while there is none of that name.
    pub ifindex: u32,
    pub up: bool,
    pub mtu: u32,
    pub addresses: Vec<String>,
}

/// One of `ports`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    pub interface: String,
    /// 0 while there is none of that name.
    pub ifindex: u32,
    /// `None`: the port has limits only.
    #[serde(default)]
    pub network: Option<u32>,
    /// Are the programs on the interface?
    pub attached: bool,
    /// The guest's; empty if it is not known.
    pub mac: String,
    /// Of the guest's packets; the interface's own, if the port has limits only.
    pub mtu: u32,
    pub addresses: Vec<String>,
    /// How many of `addresses` were learned.
    pub learned: usize,
}

/// `flows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// Remembered in all.
    pub total: usize,
    pub flows: Vec<Flow>,
}

/// Addresses and ports as in the outgoing direction: the guest of this host is the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    pub protocol: String,
    pub source: String,
    pub destination: String,
    pub network: u32,
    pub phase: String,
    /// Payload.
    pub out_bytes: u64,
    pub out_segments: u64,
    pub in_bytes: u64,
    pub in_segments: u64,
    /// Current outgoing flowcell.
    pub cell: u32,
    /// Outer source port of the current flowcell; 0: chosen by hash.
    pub label: u16,
    /// Received segments that are on their way through the receiver now.
    #[serde(default)]
    pub diverted_segments: u16,
    /// Since the last packet.
    pub age_seconds: f64,
    /// Of what the guest of this host sends; none without congestion control.
    #[serde(default)]
    pub congestion: Option<FlowCongestion>,
}

/// What virtual congestion control has found out of one connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCongestion {
    /// `none`, `dctcp`, `newreno`, `cubic`.
    pub law: String,
    /// The most that the guest may have under way, by law and clamp; none: any.
    pub window_bytes: Option<u64>,
    pub cwnd_bytes: u64,
    /// DCTCP's share of marked bytes, 0 to 1.
    pub alpha: f64,
    /// Payload that the peer's edge reported as marked, modulo 2^32.
    pub marked_bytes: u64,
    /// Segments of the guest that were dropped because they exceeded the window.
    pub policed_segments: u32,
    /// Smoothed; 0 before the first sample.
    pub rtt_seconds: f64,
    /// The peer's edge reports marks: without that, DCTCP has no effect.
    pub peer_reports: bool,
}

/// One of `paths`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    pub peer: String,
    pub address: String,
    pub local: String,
    pub uplink: String,
    pub plain_vxlan: bool,
    /// In the order in which flowcells take them; empty: each flow by its hash.
    pub labels: Vec<u16>,
    /// Whose choice the labels are: `configuration`, `controller`, `discovery`, `default`; empty: there are none.
    #[serde(default)]
    pub labels_from: String,
    /// Version of docs/wire.md that is spoken to the peer now; 0: plain VXLAN.
    #[serde(default)]
    pub wire_version: u8,
    /// Largest packets of guests that the path carries, bytes, where a router told of less than the uplink carries.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// Since it sent something to a guest, to within a second or two; None: never, or it is plain VXLAN.
    #[serde(default)]
    pub heard_seconds: Option<f64>,
    /// In the labels' order: what load balancing that keeps states of paths knows; empty under another policy.
    #[serde(default)]
    pub known: Vec<KnownPath>,
    /// None: no paths are traced to it, for want of traffic, of version 2, or because `paths.discovery` is off.
    #[serde(default)]
    pub discovery: Option<Discovered>,
    pub guests: Vec<String>,
}

/// Of one of `paths`: what is known of one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownPath {
    pub label: u16,
    /// Its share of new flowlets, 0 to 1; all are 0 until the first flowlet.
    pub weight: f64,
    /// Was it marked less than `clove_clear` ago?
    pub congested: bool,
    /// Feedback of marks that counted, modulo 2^32.
    pub marks: u32,
    /// Since the last of these; none: there was none.
    pub marked_seconds: Option<f64>,
    /// How much later its packets arrived than others lately, as the peer told last; none: nothing it told holds.
    #[serde(default)]
    pub late_seconds: Option<f64>,
}

/// Of one of `paths`: what path discovery found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discovered {
    /// Since there was traffic first.
    pub rounds: u64,
    /// Ports traced in the last round, and ports of which every hop and the peer answered.
    pub traced_ports: usize,
    pub answered_ports: usize,
    pub paths: Vec<DiscoveredPath>,
}

/// Of [`Discovered`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredPath {
    /// By which feedback names it: the low byte of its port.
    pub index: u8,
    /// The outer source port that takes it.
    pub port: u16,
    /// Addresses of the hops, without the peer.
    pub hops: Vec<String>,
    /// Since a probe confirmed it last.
    pub seen_seconds: f64,
    /// From a probe to the peer's reply.
    #[serde(default)]
    pub rtt_seconds: Option<f64>,
}

/// One of `counters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterValue {
    pub name: String,
    pub value: u64,
}

/// `tenants`; guests send as they like where the agent answers with nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tenants {
    /// `aiad` or `alpha`.
    pub law: String,
    /// `drop` or `delay`: what becomes now of segments that exceed a rate.
    pub hold: String,
    pub uplink_bps: u64,
    pub minimum_bps: u64,
    pub interval_seconds: f64,
    /// How often rates were set, and how much later than an interval's end on average.
    pub ticks: u64,
    pub mean_late_seconds: f64,
    /// The same of all together; 0 of an older agent.
    #[serde(default)]
    pub late_seconds: f64,
    /// Pairs of guests that are remembered, and that can be.
    pub pairs: u32,
    pub max_pairs: u32,
    /// Parts of a destination's packets that are marked from which on new pairs with it are refused, and below which they are admitted again;
    /// none without admission.
    pub admission: Option<(f64, f64)>,
    pub guests: Vec<TenantGuest>,
}

/// Of [`Tenants`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantGuest {
    pub interface: String,
    pub ifindex: u32,
    pub network: u32,
    pub weight: u16,
    /// Has it sent something lately? Others have no share, and no rates.
    pub active: bool,
    pub rate_bps: u64,
    /// The most that its rate may be.
    pub fair_bps: u64,
    /// Smoothed part of its packets that were marked, 0 to 1.
    pub alpha: f64,
    /// Marks that peers told of.
    pub marks: u64,
    pub segments: u64,
    /// On the wire.
    pub bytes: u64,
    pub dropped_segments: u64,
    pub delayed_segments: u64,
    /// Of new pairs, by admission.
    pub refused_segments: u64,
}

/// How long segments were about to wait in a limit's queue, estimated as each came to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitDelays {
    /// Longest delay of each bucket but the last, which has no bound.
    pub bounds_seconds: Vec<f64>,
    /// Segments by bucket, one more than there are bounds.
    pub counts: Vec<u64>,
    pub sum_seconds: f64,
    /// As Prometheus estimates it from the buckets. None: there were no segments, or it is beyond the last bound.
    pub p50_seconds: Option<f64>,
    pub p99_seconds: Option<f64>,
}

/// One of `limits`: one direction of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    pub interface: String,
    pub ifindex: u32,
    /// As the guest sees it: `egress` or `ingress`.
    pub direction: String,
    /// Of the port; none: it has limits only.
    #[serde(default)]
    pub network: Option<u32>,
    /// Empty: none.
    pub tenant: String,
    /// Who asked for it on the socket; empty: the configuration.
    #[serde(default)]
    pub owner: String,
    #[serde(flatten)]
    pub pod: Pod,
    /// Is what holds segments to it in the kernel?
    pub in_force: bool,
    /// Of the port: bytes that got to its guest past the host's end of its interface, where limits are. None where that is not known, and with
    /// `inside`, where all of it goes back.
    #[serde(default)]
    pub past_bytes: Option<u64>,
    /// None: nobody who asked for the limit can enter the guest's network namespace, or nothing can send back what comes there.
    #[serde(default)]
    pub inside: Option<Inside>,
    /// `htb`, `departure`, `virtual`: what that is.
    #[serde(default)]
    pub pacing: String,
    /// Where that is; empty: nothing holds segments.
    #[serde(default)]
    pub device: String,
    /// Guaranteed.
    pub rate_bps: u64,
    /// With what others leave.
    pub ceiling_bps: u64,
    /// `off`, `mark`, `dem`, `spring`: what acts now.
    pub law: String,
    /// Of the law; 0: it has none.
    pub k1_bytes: u64,
    pub k2_bytes: u64,
    /// What waits now.
    pub backlog_bytes: u64,
    pub backlog_segments: u64,
    /// How long the last of it waits at the guaranteed rate.
    pub queue_delay_seconds: f64,
    /// Of all segments since the limit began, as each found the queue. None where laws cannot act: nothing is known of it then.
    #[serde(default)]
    pub delays: Option<LimitDelays>,
    /// Since the class was made, or the schedule begun.
    pub sent_bytes: u64,
    /// Of these, what went past the queue (`limits.sparse_first`).
    #[serde(default)]
    pub first_bytes: u64,
    pub dropped_segments: u64,
    /// Segments marked, or ACKs that got ECE.
    pub marked_segments: u64,
    /// ACKs with which SPRING's window shrank.
    pub window_cuts: u64,
    /// ACKs whose receive window was lowered.
    pub windows_lowered: u64,
    /// Segments back to the limited sender that the law looked at.
    pub acks: u64,
    /// Segments for which the queue's length could not be read.
    pub unread_segments: u64,
    /// Segments without room for their connection's state: the law leaves these connections alone.
    pub untracked_segments: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_one_line_of_json() {
        let flows = Request { version: VERSION, command: Command::Flows { limit: 7 } };
        let line = serde_json::to_string(&flows).unwrap();
        assert_eq!(line, r#"{"version":1,"command":"flows","limit":7}"#);
        assert_eq!(parse_request(line.as_bytes()), Ok(Command::Flows { limit: 7 }));
        assert_eq!(parse_request(br#"{"version":1,"command":"status"}"#), Ok(Command::Status));
        let paths = |peer| Request { version: VERSION, command: Command::Paths { peer } };
        for (peer, line) in [
            (None, r#"{"version":1,"command":"paths"}"#),
            (Some("host2".to_owned()), r#"{"version":1,"command":"paths","peer":"host2"}"#),
        ] {
            assert_eq!(serde_json::to_string(&paths(peer.clone())).unwrap(), line);
            assert_eq!(parse_request(line.as_bytes()), Ok(Command::Paths { peer }));
        }
    }

    #[test]
    fn limits_are_asked_for_with_a_pod_or_without() {
        let plain = r#"{"version":1,"command":"limit","interface":"veth1","owner":"a","egress_bps":1000}"#;
        let of_pod = plain.replace('}', r#","pod":"web-1","namespace":"shop"}"#);
        let limit = |pod: Option<&str>, namespace: Option<&str>| RequestedLimit {
            interface: "veth1".into(),
            owner: "a".into(),
            egress_bps: Some(1000),
            ingress_bps: None,
            enters: false,
            pod: Pod { pod: pod.map(str::to_owned), namespace: namespace.map(str::to_owned) },
        };
        for (line, limit) in [(plain, limit(None, None)), (&of_pod, limit(Some("web-1"), Some("shop")))] {
            let command = Command::Limit(limit);
            assert_eq!(parse_request(line.as_bytes()), Ok(command.clone()), "{line}");
            assert_eq!(serde_json::to_string(&Request { version: VERSION, command }).unwrap(), line);
        }
    }

    #[test]
    fn a_bad_request_is_told_why() {
        for (line, why) in [
            (r#"{"version":2,"command":"dance"}"#, "speaks version 1"),
            (r#"{"version":1,"command":"dance"}"#, "unknown variant `dance`"),
            (r#"{"version":1}"#, "missing field `command`"),
            (r#"{"version":1,"command":"flows"}"#, "missing field `limit`"),
            (r#"{"version":1,"command":"flows","limit":0}"#, "out of range"),
            (r#"{"version":1,"command":"flows","limit":4294967295}"#, "out of range"),
            (r#"{"version":-1}"#, "not understood"),
            ("", "not understood"),
            ("[[[[[[[[", "not understood"),
        ] {
            let error = parse_request(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
        let long = format!(r#"{{"version":1,"command":"status","x":"{}"}}"#, "x".repeat(MAX_REQUEST));
        assert!(parse_request(long.as_bytes()).unwrap_err().contains("longer"));
        assert!(parse_request(&[b'['; MAX_REQUEST]).is_err(), "nesting is bounded");
    }

    #[test]
    fn answers_carry_a_result_or_an_error() {
        let line = answer_line(Outcome::Error("no".into()));
        assert_eq!(line, b"{\"version\":1,\"error\":\"no\"}\n");
        let ok: Answer = serde_json::from_slice(&answer_line(Outcome::Ok(serde_json::json!([1])))).unwrap();
        assert_eq!(ok.outcome, Outcome::Ok(serde_json::json!([1])));
        let huge = Outcome::Ok(serde_json::Value::String("x".repeat(MAX_ANSWER)));
        assert!(answer_line(huge).len() < 200);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_request(&line);
        }

        #[test]
        fn near_requests_are_answered(
            line in r#"\{("version":(1|2|-1|"1")|"command":"(status|flows|stop|x)"|"limit":-?[0-9]{1,12}|,|:|\}|\[){0,8}\}"#
        ) {
            if let Ok(Command::Flows { limit }) = parse_request(line.as_bytes()) {
                prop_assert!((1..=MAX_FLOWS).contains(&limit));
            }
        }
    }
}
