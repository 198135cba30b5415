//! A fabric in one line, and scenario files without workloads, as documents from which a plan is made.

use crate::input;
use config::{closest, ConfigError, Document};
use units::Time;

const KINDS: [&str; 5] = ["clos", "fat-tree", "single-switch", "dumbbell", "parking-lot"];
/// Keys that go as they are into `[topology]`.
const TOPOLOGY: [&str; 12] = [
    "leaves",
    "spines",
    "parallel",
    "hosts_per_leaf",
    "k",
    "hosts_per_edge",
    "oversubscription",
    "pairs",
    "hops",
    "rate",
    "delay",
    "fabric_rate",
];
/// Key, and where it goes.
const ELSEWHERE: [(&str, &str); 6] = [
    ("fabric_delay", "topology.fabric_delay"),
    ("buffer", "switch.buffer"),
    ("ecn", "switch.ecn.k"),
    ("mtu", "host.mtu"),
    ("congestion", "host.tcp.congestion"),
    ("tcp_ecn", "host.tcp.ecn"),
];
/// The round trip of a one-line fabric that names neither `rtt` nor `delay`: long enough for most machines to keep up.
const RTT: Time = Time::from_ms(2);

fn error(problem: impl Into<String>, remedy: impl Into<String>) -> ConfigError {
    ConfigError::new("--topo", problem.into(), remedy.into())
}

/// `clos,leaves=2,spines=2,hosts=8,rate=200Mbps` as a scenario.
///
/// # Errors
/// An unknown kind or key; a number of hosts that the fabric cannot have.
pub(super) fn one_line(text: &str) -> Result<Document, ConfigError> {
    one_line_with(text, WORKLOAD)
}

/// The same with a `[[workload]]` that can be run.
///
/// # Errors
/// As [`one_line`].
pub(super) fn one_line_with(text: &str, workload: &str) -> Result<Document, ConfigError> {
    let mut words = text.split(',').map(str::trim);
    let kind = words.next().unwrap_or_default();
    if !KINDS.contains(&kind) {
        let near = closest(kind, KINDS).map(|k| format!("did you mean {k}? ")).unwrap_or_default();
        return Err(error(format!("{kind:?} is no kind of fabric"), format!("{near}there are {}", KINDS.join(", "))));
    }
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for word in words.filter(|w| !w.is_empty()) {
        let pair = word.split_once('=').ok_or_else(|| error(format!("{word:?} has no `=`"), "write key=value"))?;
        keys.push((pair.0.trim(), pair.1.trim()));
    }
    say_once(&keys)?;
    let number = |key: &str, default: u32| match keys.iter().find(|(k, _)| *k == key) {
        None => Ok(default),
        Some((_, v)) => v.parse().map_err(|_| error(format!("{key}={v} is not a number"), "give a whole number")),
    };
    let mut document = Document::parse("--topo", &bare(kind, workload), "docs/scenarios.md")?;
    let mut set = |from: &str, key: &str, value: &str| document.set_at(from, &format!("{key}={value}"));
    let mut delay_given = false;
    let mut rtt = RTT;
    for &(key, value) in &keys {
        let from = format!("--topo {key}={value}");
        if TOPOLOGY.contains(&key) {
            delay_given |= key == "delay";
            set(&from, &format!("topology.{key}"), value)?;
        } else if let Some((_, to)) = ELSEWHERE.iter().find(|(k, _)| *k == key) {
            set(&from, to, value)?;
        } else if key == "hosts" {
            let (to, value) = hosts(kind, value, number("leaves", 4)?)?;
            set(&from, to, &value)?;
        } else if key == "rtt" {
            rtt = value.parse().map_err(|e| error(format!("rtt={value}: {e}"), "write rtt=2ms"))?;
            if rtt == Time::ZERO {
                return Err(error("rtt=0 is no round trip", "write rtt=2ms"));
            }
        } else {
            let known = TOPOLOGY.into_iter().chain(ELSEWHERE.map(|e| e.0)).chain(["hosts", "rtt"]);
            let near = closest(key, known.clone()).map(|k| format!("did you mean {k}? ")).unwrap_or_default();
            let list: Vec<&str> = known.collect();
            return Err(error(format!("unknown key {key:?}"), format!("{near}there are {}", list.join(", "))));
        }
    }
    if !delay_given {
        let links = match kind {
            "clos" if number("leaves", 4)? > 1 => 4,
            "fat-tree" => 6,
            "dumbbell" => 3,
            "parking-lot" => u64::from(number("hops", 1)?) + 2,
            _ => 2,
        };
        set("--topo", "topology.delay", &Time::from_ns(rtt.as_ns() / (2 * links)).to_string())?;
    }
    Ok(document)
}

/// No key twice, and none beside another that says the same.
fn say_once(keys: &[(&str, &str)]) -> Result<(), ConfigError> {
    for (n, (key, _)) in keys.iter().enumerate() {
        if keys[..n].iter().any(|(other, _)| other == key) {
            return Err(error(format!("{key} is given twice"), "give it once"));
        }
    }
    let given = |key: &str| keys.iter().any(|(k, _)| *k == key);
    for (one, other) in
        [("hosts", "hosts_per_leaf"), ("hosts", "pairs"), ("hosts_per_edge", "oversubscription"), ("rtt", "delay")]
    {
        if given(one) && given(other) {
            return Err(error(format!("{one} and {other} are both given"), "leave one of them out"));
        }
    }
    Ok(())
}

/// `hosts=` counts all hosts, whatever the kind calls them: key and value of the scenario.
fn hosts(kind: &str, value: &str, leaves: u32) -> Result<(&'static str, String), ConfigError> {
    let wrong = |why: &str| error(format!("hosts={value}: {why}"), "choose another number");
    let n: u32 = value.parse().map_err(|_| wrong("not a number"))?;
    let share = |parts: u32, what: &str| match n.checked_rem(parts) {
        _ if n == 0 => Err(wrong("a fabric has at least one")),
        Some(0) => Ok((n / parts).to_string()),
        _ => Err(wrong(what)),
    };
    match kind {
        "clos" => Ok(("topology.hosts_per_leaf", share(leaves, "does not divide by the number of leaves")?)),
        "single-switch" => Ok(("topology.hosts", share(1, "a switch has at least one")?)),
        "dumbbell" => Ok(("topology.pairs", share(2, "a dumbbell has pairs of them")?)),
        _ => Err(error(format!("hosts= means nothing to {kind}"), "use k= or hops=")),
    }
}

/// A scenario with nothing but its kind of fabric and a workload: a scenario has to have one, also if it is never run.
fn bare(kind: &str, workload: &str) -> String {
    format!("title = \"{kind}\"\nduration = \"1s\"\n[topology]\nkind = \"{kind}\"\n[record]\nsample_every = \"0s\"\n{workload}")
}

const WORKLOAD: &str = "\n[[workload]]\nname = \"none\"\npattern = \"long\"\npairs = [[0, 1]]\n";

/// A scenario file for a lab may do without what only a run needs.
///
/// # Errors
/// Text that is not TOML.
pub(super) fn file(name: &str, text: &str) -> Result<Document, ConfigError> {
    let mut document = input::scenario_text(name, text)?;
    if !document.table().contains_key("workload") {
        document = input::scenario_text(name, &format!("{text}{WORKLOAD}"))?;
    }
    if !document.table().contains_key("duration") {
        document.set("duration=1s")?;
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Choice, Plan};

    fn plan(text: &str) -> Result<Plan, ConfigError> {
        Plan::new(&one_line(text)?, &Choice { schemes: vec!["ecmp".to_owned()], seeds: None })
    }

    #[test]
    fn one_line_makes_a_fabric() {
        let plan = plan("clos,leaves=2,spines=2,hosts=8,rate=200Mbps,ecn=30KB").unwrap();
        let e = plan.schemes[0].template();
        assert_eq!((e.topology.n_hosts(), e.topology.n_switches()), (8, 4));
        assert_eq!(e.topology.links[0].rate.as_bps(), 200_000_000);
        assert_eq!(e.topology.links[0].delay, Time::from_us(250), "2 ms over 4 links there and back");
        assert!(e.switches.aqm.is_some());
    }

    #[test]
    fn every_kind_can_be_had() {
        for text in [
            "fat-tree,k=4",
            "fat-tree,k=4,oversubscription=2",
            "single-switch,hosts=3",
            "dumbbell,hosts=4,rtt=6ms",
            "parking-lot,hops=2",
        ] {
            assert!(plan(text).is_ok(), "{text}: {:?}", plan(text).err());
        }
        let dumbbell = plan("dumbbell,hosts=4,rtt=6ms").unwrap();
        assert_eq!(dumbbell.schemes[0].template().topology.links[0].delay, Time::from_ms(1));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, what) in [
            ("cloos,leaves=2", "did you mean clos"),
            ("clos,leafs=2", "did you mean leaves"),
            ("clos,leaves=2,hosts=3", "does not divide"),
            ("clos,hosts=0", "hosts=0: a fabric has at least one; choose another number"),
            ("clos,leaves", "no `=`"),
            ("clos,rate=200", "rate"),
            ("fat-tree,k=4,hosts=16", "means nothing"),
            ("clos,hosts=8,hosts=16", "hosts is given twice"),
            ("dumbbell,pairs=1,hosts=4", "hosts and pairs are both given"),
            ("clos,rtt=2ms,delay=1ms", "rtt and delay are both given"),
            ("clos,rtt=0ms", "no round trip"),
            ("clos,rate=0bps", "--topo rate=0bps: "),
        ] {
            let error = plan(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_may_do_without_a_workload() {
        let document = file("lab.toml", "[topology]\nkind = \"dumbbell\"\npairs = 1\n").unwrap();
        Plan::new(&document, &Choice { schemes: vec!["presto".to_owned()], seeds: None }).unwrap();
    }
}
