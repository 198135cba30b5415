//! Schema and strict reader agree: the walk changes one key of a whole file at a time, and asks both.

use crate::{faults, validator};
use selvedge::schema::File;
use serde_json::Value as Json;
use toml::{Table, Value};
use units::{BitRate, Bytes, Time};

/// Has every table of a scenario.
const SCENARIO: &str = r#"
duration = "20ms"
seeds = "1..2"
schemes = ["x"]
[topology]
kind = "clos"
[switch]
ecn = { kmin = "50KB", kmax = "100KB", pmax = 0.1 }
[host]
[host.tcp]
reordering = 1
[record]
[[workload]]
name = "w"
pattern = "sequence"
to = "next"
k = 1
size = "50KB"
[[failure]]
at = "15ms"
link = "leaf1-spine2"
[scheme.x]
receiver = "presto"
reorder_timeout = "adaptive"
[scheme.x.switch]
[scheme.x.host]
[scheme.x.host.tcp]
[scheme.x.guests]
[scheme.x.mptcp]
[scheme.x.congestion]
[[scheme.x.congestion.rule]]
hosts = [0]
[scheme.x.limiter]
law = "spring"
[[scheme.x.limiter.class]]
guarantee = "1Gbps"
[[result]]
id = "a"
source = "b"
what = "c"
checks = [{ text = "d", expr = "x.all.flows > 0" }]
[sweep]
name = "s"
point = [{ label = "p", set = {} }]
[mode]
"#;

/// Has every table of an agent's file.
const AGENT: &str = r#"
[agent]
[uplink]
interface = "eth0"
[balance]
[receive]
reorder = true
[paths]
discovery = true
[congestion]
[[congestion.rule]]
[limits]
[tenants]
uplink_rate = "10Gbps"
hold = "delay"
[[tenant]]
name = "blue"
egress_rate = "1Gbps"
[[port]]
interface = "veth1"
network = 100
learn = ["10.1.0.0/16"]
egress_rate = "1Gbps"
[port.annotations]
[[peer]]
name = "host2"
address = "10.0.1.1"
guests = [{ network = 100, prefix = "10.2.0.0/16" }]
[controller]
urls = ["https://10.0.0.9:7443"]
edge = "h0"
ca = "/a"
certificate = "/b"
key = "/c"
"#;

/// Has every key of a controller's file that another does not exclude. `TOPOLOGY` is a file that is there.
const CONTROLLER: &str = r#"
listen = "127.0.0.1:7443"
metrics = "127.0.0.1:9465"
url = "https://127.0.0.1:7443"
topology = "TOPOLOGY"
store = "store.json"
ca = "ca.pem"
certificate = "controller.pem"
key = "controller.key"
operators = ["operator"]
first_port = 50001
prune = "pair"
"#;

pub(crate) fn read_scenario(text: &str) -> Result<(), String> {
    let experiment = selvedge::repro::Experiment::parse("s.toml", text).map_err(|e| e.to_string())?;
    experiment.points(selvedge::repro::Mode::Quick, &|_| true).map(drop).map_err(|e| e.to_string())
}

/// A file of a controller, beside the fabric `fabric.toml`.
pub(crate) fn read_controller(text: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::write(directory.join("fabric.toml"), "[topology]\nkind = \"clos\"\n").unwrap();
    std::fs::write(directory.join("controller.toml"), text).unwrap();
    selvedge::controller::check(&directory.join("controller.toml")).map_err(|e| e.to_string())
}

pub(crate) fn read_agent(text: &str) -> Result<(), String> {
    selvedge::agent::file::parse("a.toml", text).map(drop).map_err(|e| e.to_string())
}

/// A file, the reader of its kind, and its schema.
struct Both {
    base: Table,
    read: fn(&str) -> Result<(), String>,
    validator: jsonschema::Validator,
    keys: usize,
}

impl Both {
    /// With the key at `path` set: what the reader says, and whether the schema refuses.
    fn with(&self, path: &[String], value: Value) -> (String, bool) {
        let mut table = self.base.clone();
        set(&mut table, path, value);
        let said = (self.read)(&table.to_string()).err().unwrap_or_default();
        (said, !faults(&self.validator, &table).is_empty())
    }

    fn walk(&mut self, schema: &Json, path: &[String]) {
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            return self.walk(items, &[path, &["0".to_owned()]].concat());
        }
        if let Some(any) = schema.get("additionalProperties").filter(|any| any.get("properties").is_some()) {
            return self.walk(any, &[path, &["x".to_owned()]].concat());
        }
        let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return };
        if schema["additionalProperties"] == false {
            let key = [path, &["no_such_key".to_owned()]].concat();
            let (said, refused) = self.with(&key, Value::Integer(1));
            assert!(said.contains("unknown key `no_such_key`") && refused, "{key:?}: {said}");
        }
        for (name, property) in properties {
            let key = [path, std::slice::from_ref(name)].concat();
            self.keys += 1;
            let (said, _) = self.with(&key, Value::Datetime("1979-05-27".parse().unwrap()));
            assert!(!said.contains(&format!("unknown key `{name}`")), "the reader does not know {key:?}: {said}");
            self.check_words(property, &key);
            self.check_bounds(property, &key);
            self.check_range(property, &key);
            self.walk(property, &key);
        }
    }

    fn check_words(&self, property: &Json, key: &[String]) {
        let words = words_of(property);
        for word in &words {
            let (said, refused) = self.with(key, Value::String(word.clone()));
            assert!(!said.contains("unknown value") && !refused, "{key:?} = {word}: {said}");
        }
        if property["enum"].is_array() {
            let (said, refused) = self.with(key, Value::String("no-such-word".to_owned()));
            assert!(said.contains("unknown value") && refused, "{key:?}: {said}");
        }
    }

    fn check_bounds(&self, property: &Json, key: &[String]) {
        let name = key.last().unwrap();
        let whole = property["type"] == "integer";
        for (bound, step) in [("minimum", -1), ("maximum", 1)] {
            let Some(bound) = property[bound].as_f64() else { continue };
            let value = |x: f64| if whole { Value::Integer(x as i64) } else { Value::Float(x) };
            let (said, refused) = self.with(key, value(bound));
            assert!(!said.contains(&format!("{name}: {bound} is out of range")) && !refused, "{key:?}: {said}");
            let (said, refused) = self.with(key, value(bound + f64::from(step)));
            assert!(said.contains(name.as_str()) && refused, "{key:?}, beyond {bound}: {said:?}");
        }
    }

    fn check_range(&self, property: &Json, key: &[String]) {
        let Some(range) = property[config::schema::RANGE].as_array() else { return };
        let bounds = [range[0].as_str().unwrap(), range[1].as_str().unwrap()];
        let name = key.last().unwrap();
        for (bound, beyond) in bounds.into_iter().zip(beyond(bounds)) {
            let (said, refused) = self.with(key, Value::String(bound.to_owned()));
            assert!(!said.contains(&format!("{name}: {bound} is out of range")) && !refused, "{key:?}: {said}");
            let Some(beyond) = beyond else { continue };
            let (said, _) = self.with(key, Value::String(beyond.clone()));
            assert!(said.contains(name.as_str()), "{key:?} = {beyond}, beyond {bound}: {said:?}");
        }
    }
}

/// Words that a property allows, if it allows only some.
fn words_of(property: &Json) -> Vec<String> {
    let mut words: Vec<&Json> = property["enum"].as_array().into_iter().flatten().collect();
    for choice in ["oneOf", "anyOf"].into_iter().filter_map(|of| property[of].as_array()).flatten() {
        words.extend(choice.get("const"));
    }
    words.into_iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

/// The quantities next to a range.
fn beyond([least, most]: [&str; 2]) -> [Option<String>; 2] {
    fn next<T: std::str::FromStr + ToString>(
        [least, most]: [&str; 2],
        number: fn(T) -> u64,
        quantity: fn(u64) -> T,
    ) -> Option<[Option<String>; 2]> {
        let (least, most) = (number(least.parse().ok()?), number(most.parse().ok()?));
        Some([least.checked_sub(1), Some(most + 1)].map(|n| n.map(|n| quantity(n).to_string())))
    }
    // The data path counts nanoseconds.
    next([least, most], Time::as_ns, Time::from_ns)
        .or_else(|| next([least, most], Bytes::get, Bytes))
        .or_else(|| next([least, most], BitRate::as_bps, BitRate::from_bps))
        .unwrap()
}

fn set(table: &mut Table, path: &[String], value: Value) {
    let Some((step, rest)) = path.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        table.insert(path[0].clone(), value);
        return;
    };
    match table.entry(step.clone()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(items) => set(items[rest[0].parse::<usize>().unwrap()].as_table_mut().unwrap(), &rest[1..], value),
        other => panic!("{path:?} leads through {other}"),
    }
}

fn agree(file: File, text: &str, read: fn(&str) -> Result<(), String>, least: usize) {
    read(text).unwrap();
    let mut both = Both { base: text.parse().unwrap(), read, validator: validator(file), keys: 0 };
    assert_eq!(faults(&both.validator, &both.base), [""; 0]);
    both.walk(&file.schema(), &[]);
    assert!(both.keys >= least, "{} keys", both.keys);
}

#[test]
fn the_schema_of_scenarios_agrees_with_the_reader() {
    agree(File::Scenario, SCENARIO, read_scenario, 180);
}

#[test]
fn the_schema_of_agents_agrees_with_the_reader() {
    agree(File::Agent, AGENT, read_agent, 80);
}

#[test]
fn the_schema_of_controllers_agrees_with_the_reader() {
    agree(File::Controller, &CONTROLLER.replace("TOPOLOGY", "fabric.toml"), read_controller, 13);
    // What must be there must be there for both.
    let schema = File::Controller.schema();
    let whole: Table = CONTROLLER.replace("TOPOLOGY", "fabric.toml").parse().unwrap();
    let needed: Vec<&str> = schema["required"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    for key in whole.keys() {
        let mut without = whole.clone();
        without.remove(key);
        let said = read_controller(&without.to_string()).err().unwrap_or_default();
        let missing = said.contains(&format!("{key}: `{key}` is missing"));
        assert_eq!(missing, needed.contains(&key.as_str()), "{key}: {said}");
    }
}
