//! The tables of docs say of each key what the schema says: doc comments of the types are the source of both.

use crate::text_of;
use selvedge::schema::File;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Tables of a page whose keys stand at some places of the schema.
struct Page {
    file: File,
    path: &'static str,
    /// Heading of a section, and where its keys are: JSON pointers to `properties`.
    sections: &'static [(&'static str, &'static [&'static str])],
}

const SCHEME: &str = "/properties/scheme/additionalProperties/properties";
const SCENARIOS: Page = Page {
    file: File::Scenario,
    path: "docs/scenarios.md",
    sections: &[
        ("The run", &["/properties"]),
        ("`[topology]`", &["/properties/topology/properties"]),
        ("`[switch]`", &["/properties/switch/properties"]),
        ("`switch.notify`", &["/properties/switch/properties/notify/properties"]),
        ("`switch.codel`", &["/properties/switch/properties/codel/properties"]),
        ("`host.server`", &["/properties/host/properties/server/properties"]),
        ("`host.tcp.pfabric`", &["/properties/host/properties/tcp/properties/pfabric/properties"]),
        ("`host.tcp.fastlane`", &["/properties/host/properties/tcp/properties/fastlane/properties"]),
        ("`[host]`", &["/properties/host/properties"]),
        ("`[host.tcp]`", &["/properties/host/properties/tcp/properties"]),
        ("`[record]`", &["/properties/record/properties"]),
        ("`[[workload]]`", &["/properties/workload/items/properties"]),
        ("`[[failure]]`", &["/properties/failure/items/properties"]),
        ("`[scheme.NAME]`", &[SCHEME]),
        ("`[scheme.NAME.congestion]`", &["/properties/scheme/additionalProperties/properties/congestion/properties"]),
        (
            "`[scheme.NAME.limiter]`",
            &[
                "/properties/scheme/additionalProperties/properties/limiter/properties",
                "/properties/scheme/additionalProperties/properties/limiter/properties/class/items/properties",
            ],
        ),
        (
            "`limiter.fq_codel`",
            &["/properties/scheme/additionalProperties/properties/limiter/properties/fq_codel/properties"],
        ),
        ("`[scheme.NAME.tenants]`", &["/properties/scheme/additionalProperties/properties/tenants/properties"]),
        ("`[scheme.NAME.fastlane]`", &["/properties/scheme/additionalProperties/properties/fastlane/properties"]),
    ],
};

/// Keys whose row names them with their table.
const AGENTS: &[(&str, &str)] = &[
    ("agent", "/properties/agent/properties"),
    ("uplink", "/properties/uplink/properties"),
    ("balance", "/properties/balance/properties"),
    ("receive", "/properties/receive/properties"),
    ("paths", "/properties/paths/properties"),
    ("port", "/properties/port/items/properties"),
    ("peer", "/properties/peer/items/properties"),
    ("controller", "/properties/controller/properties"),
    ("congestion", "/properties/congestion/properties"),
    ("congestion.rule", "/properties/congestion/properties/rule/items/properties"),
    ("limits", "/properties/limits/properties"),
    ("tenants", "/properties/tenants/properties"),
    ("fastlane", "/properties/fastlane/properties"),
    ("tenant", "/properties/tenant/items/properties"),
];

/// A key from the table of schemes, which `tests/documents.rs` compares with its own page.
fn is_of_balance(key: &str) -> bool {
    ["balance", "policy"].contains(&key) || edge::balance::Parameter::find(key).is_some()
}

/// One row of a table of keys: its cells by column, in lower case.
type Row = BTreeMap<String, String>;

/// The rows of all tables of keys, with the heading above each and the keys of its first cell.
fn rows(path: &str) -> Vec<(String, Vec<String>, Row)> {
    let text = text_of(path);
    let (mut heading, mut columns) = (String::new(), Vec::new());
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim().to_owned();
        }
        let Some(inner) = line.strip_prefix("| ").and_then(|l| l.strip_suffix('|')) else {
            if !line.starts_with("|---") {
                columns.clear();
            }
            continue;
        };
        let cells: Vec<String> = inner.split(" |").map(|cell| cell.trim().to_owned()).collect();
        if columns.is_empty() {
            columns = cells.iter().map(|cell| cell.to_lowercase()).collect();
        } else if columns[0] == "key" {
            let mut keys: Vec<String> = Vec::new();
            for key in cells[0].split('`').skip(1).step_by(2) {
                let table = keys.first().and_then(|first| first.rsplit_once('.')).map_or("", |(table, _)| table);
                keys.push(if key.starts_with('.') { format!("{table}{key}") } else { key.to_owned() });
            }
            rows.push((heading.clone(), keys, columns.iter().cloned().zip(cells).collect()));
        }
    }
    rows
}

/// Text as it stands in both: without links, line breaks and the range, begun in lower case and without the last stop.
fn plain(text: &str) -> String {
    let text = text.split("\n\nRange: ").next().unwrap_or_default();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[').filter(|(_, link)| link.contains("](")) {
        let Some((name, after)) = link.split_once("](") else { break };
        if name.contains(['[', ' ', ',']) && !after.starts_with('#') {
            plain += before;
            plain.push('[');
            rest = link;
            continue;
        }
        let (to, after) = after.split_once(')').unwrap_or((after, ""));
        match before.strip_suffix(" (").filter(|_| to.starts_with('#')) {
            Some(before) => {
                plain += before;
                rest = after.strip_prefix(')').unwrap_or(after);
            }
            None => {
                plain += before;
                plain += name;
                rest = after;
            }
        }
    }
    plain += rest;
    let words: Vec<&str> = plain.split_whitespace().collect();
    let text = words.join(" ");
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn agrees(key: &str, row: &Row, property: &Json) {
    let meaning = plain(&row["meaning"]);
    if meaning != plain("[Rate limits](#rate-limits)") {
        assert_eq!(meaning, plain(property["description"].as_str().unwrap_or_default()), "meaning of {key}");
    }
    // A default that is one word of code or a number.
    let code = row["default"].strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(&row["default"]);
    let Ok(default) = format!("default = {code}").parse::<toml::Table>() else { return };
    let default = serde_json::to_value(&default["default"]).unwrap();
    let same = property["default"] == default
        || property["default"].as_f64().zip(default.as_f64()).is_some_and(|(a, b)| a == b);
    assert!(same || quantity(&property["default"]) == quantity(&default), "default of {key}: {}", property["default"]);
}

/// The value of a time or size, however it is written.
fn quantity(text: &Json) -> Option<u64> {
    let text = text.as_str()?;
    text.parse().map(units::Time::as_ps).or_else(|_| text.parse().map(units::Bytes::get)).ok()
}

/// Keys that hold plain values, of which a page must speak.
fn leaves(properties: &Json) -> Vec<&String> {
    let table = |p: &Json| p.get("properties").is_some() || p["items"].get("properties").is_some();
    let nested = |p: &Json| table(p) || p["anyOf"].as_array().is_some_and(|any| any.iter().any(table));
    let map = properties.as_object().unwrap().iter();
    map.filter(|(_, p)| !nested(p) && p.get("additionalProperties").is_none()).map(|(key, _)| key).collect()
}

#[test]
fn the_tables_of_scenarios_say_what_the_schema_says() {
    let schema = SCENARIOS.file.schema();
    let rows = rows(SCENARIOS.path);
    for (section, pointers) in SCENARIOS.sections {
        let places: Vec<&Json> = pointers.iter().map(|at| schema.pointer(at).unwrap()).collect();
        let own = || rows.iter().filter(|(heading, ..)| heading == section);
        for (_, keys, row) in own().filter(|(_, _, row)| row.contains_key("default")) {
            for key in keys {
                let property = places.iter().find_map(|place| place.get(key));
                let property = property.unwrap_or_else(|| panic!("{section} has no key {key}"));
                if !is_of_balance(key) {
                    agrees(key, row, property);
                }
            }
        }
        let documented: Vec<&String> = own().flat_map(|(_, keys, _)| keys).collect();
        for key in places.iter().flat_map(|place| leaves(place)) {
            let alias = edge::balance::Parameter::find(key).is_some();
            assert!(alias || documented.contains(&key), "{} does not describe {section} {key}", SCENARIOS.path);
        }
    }
}

#[test]
fn the_tables_of_agents_say_what_the_schema_says() {
    let schema = File::Agent.schema();
    let rows = rows("docs/agent.md");
    let mut seen = 0;
    for (_, keys, row) in &rows {
        for key in keys {
            let (table, name) = key.rsplit_once('.').unwrap();
            let (_, at) = AGENTS.iter().find(|(known, _)| known == &table).unwrap();
            if name == "PARAMETER" {
                continue;
            }
            let property = schema.pointer(at).unwrap().get(name);
            let property = property.unwrap_or_else(|| panic!("there is no key {key}"));
            if table != "controller" && !is_of_balance(name) {
                agrees(key, row, property);
            }
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen} keys");
}
