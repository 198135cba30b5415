//! The agent's configuration file: strict TOML in, a checked [`Config`] out. See docs/agent.md for every key.

use super::addresses::check_outer;
use crate::parsed::{on_loopback, Parsed};
use agent_api::config::{Config, PeerRule, Place, MAX_NETWORK};
use config::{within, within_others, ConfigError, Document, Faults, Invalid, Wrong};
use edge::balance::{Balance, Scheme, AGENTS};
use edge::MAX_LABELS;
use fastlane::FastLaneTable;
use ports::{check_peers, check_ports, one_owner_each};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use tables::{AgentTable, BalanceTable, File, Labels, PlaceWord, Spread, UplinkTable, VXLAN};
use tenants::TenantsTable;
use units::Time;

mod annotations;
mod congestion;
mod controller;
mod fastlane;
mod limits;
mod paths;
mod plain;
mod port_limits;
mod ports;
mod receive;
mod tables;
mod tenants;

pub use agent_api::protocol::SOCKET;
pub(crate) use annotations::{kubernetes_bandwidth, EGRESS, INGRESS};
pub use tables::PINS;

/// A longer file is a mistake.
const MAX_FILE: u64 = 4 << 20;
/// First of the labels that a mere number stands for.
const FIRST_LABEL: u16 = 50_000;
/// Longest name of an interface, linux/if.h.
const MAX_NAME: usize = 15;

/// The schema of agents' files.
pub fn schema() -> serde_json::Value {
    config::schema::of::<File>("Configuration of `selvedge agent`; see docs/agent.md")
}

/// Reads and checks a file.
///
/// # Errors
/// All that is wrong, with file, line, key and remedy.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    checked(path, &crate::input::read_configuration(path, MAX_FILE)?)
}

/// As [`load`], for a command that a person waits for: a pipe may stand for the file.
///
/// # Errors
/// As [`load`].
pub fn load_from_any(path: &Path) -> Result<Config, ConfigError> {
    checked(path, &crate::input::read(path, MAX_FILE, "name a file with --config")?)
}

fn checked(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let (document, mut config) = read_document(&path.display().to_string(), text)?;
    let mut faults = Faults::of(&document);
    faults.note(limits::check_kernel(&config, crate::kernel_edge::has_fq));
    make_absolute(path, &mut config);
    if let Some(path) = &config.limits.annotations {
        let text = faults.note(annotations::read_annotations(path));
        let parsed = text.and_then(|text| faults.add(annotations::parse_annotations(path, &text)));
        config.limits.annotated = parsed.unwrap_or_default();
    }
    faults.unless(Some(config))
}

/// Files that the configuration names are relative to its own, as those of a controller's are.
fn make_absolute(file: &Path, config: &mut Config) {
    let mut named: Vec<&mut PathBuf> = config.limits.annotations.iter_mut().collect();
    if let Some(controller) = &mut config.controller {
        named.extend([&mut controller.ca, &mut controller.certificate, &mut controller.key]);
    }
    for path in named {
        let beside = file.parent().unwrap_or(Path::new("")).join(&*path);
        *path = std::path::absolute(&beside).unwrap_or(beside); // fails for none that is not empty
    }
}

/// As [`load`], of a text that `name` stands for in messages; the file of annotations that it names is not read.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<Config, ConfigError> {
    read_document(name, text).map(|(_, config)| config)
}

fn read_document(name: &str, text: &str) -> Result<(Document, Config), ConfigError> {
    let document = Document::parse(name, text, "docs/agent.md")?;
    // What cannot be read hides nothing that is wrong elsewhere.
    let (file, mut faults) = document.read_what_can_be::<File>();
    let made = file.and_then(|file| check(file, &mut faults));
    let config = faults.unless(made)?;
    Ok((document, config))
}

fn check(file: File, faults: &mut Faults<'_>) -> Option<Config> {
    faults.note_given(&["uplink"], plain::check(&file));
    let plain = plain::is_plain(&file);
    let (word, policy) = plain::scheme_of(&file);
    let uplink = match &file.uplink {
        Some(table) => faults.note(check_uplink(table)),
        None => faults.note_given(&["uplink"], check_without_uplink(&file)),
    };
    let balance = match plain {
        true => Some(Balance::ecmp()),
        false => faults.note(check_balance(&file.balance)),
    };
    let labels = faults.note(match &file.balance.rest.labels {
        Some(labels) => check_labels("balance.labels", labels),
        None if !policy.labels => Ok(Vec::new()),
        None => check_labels("balance.labels", &Labels::Count(8)),
    });
    let limits = faults.note_given(&["limits"], limits::check(&file.limits, &file.tenant));
    let (uplinks, address) = uplink.unwrap_or_default();
    let ports = faults.note_given(&["uplink", "limits", "tenant", "tenants"], check_ports(&file, &uplinks));
    let peers = faults.note_given(&["uplink", "balance"], check_peers(&file.peer, address, (word, policy)));
    if let (Some(ports), Some(peers)) = (&ports, &peers) {
        faults.note_given(&["port", "peer"], one_owner_each(ports, peers));
    }
    let metrics = faults.note(check_agent(&file.agent));
    let congestion = faults.note(file.congestion.as_ref().map(congestion::CongestionTable::check).transpose());
    let of_policy = file.controller.as_ref().map(|table| table.check((word, policy))).transpose();
    let controller = faults.note_given(&["balance"], of_policy);
    let tenants = faults.note(file.tenants.as_ref().map(TenantsTable::check).transpose());
    let fastlane = faults.note(file.fastlane.as_ref().map(FastLaneTable::check).transpose());
    let reports = faults.note(file.fastlane.as_ref().map_or(Ok(None), FastLaneTable::check_reports));
    let reorder = faults.note(file.receive.check());
    let discovery = faults.note_given(&["balance"], file.paths.check((word, policy)));
    if let (Some(peers), Some(labels), Some(found), Some(balance)) = (&peers, &labels, &discovery, &balance) {
        let listed = matches!(file.balance.rest.labels, Some(Labels::List(_)));
        let known = listed || found.is_some() || file.controller.is_some();
        let labels: &[u16] = if listed { labels } else { &[] };
        let known = check_known_paths((word, balance), peers, labels, known);
        faults.note_given(&["balance", "peer", "paths", "controller"], known);
    }
    Some(Config {
        pins: file.agent.pins,
        socket: file.agent.socket,
        metrics: metrics?,
        max_flows: file.agent.max_flows,
        max_flows_per_port: file.agent.max_flows_per_port.unwrap_or(file.agent.max_flows),
        max_flows_per_network: file.agent.max_flows_per_network.unwrap_or(file.agent.max_flows),
        flow_idle_ns: file.agent.flow_idle.as_ns(),
        place: match file.agent.place {
            PlaceWord::First => Place::First,
            PlaceWord::Last => Place::Last,
        },
        unchecked: file.agent.unchecked,
        uplinks,
        address,
        plain,
        udp_port: if plain { 0 } else { file.uplink.as_ref().map_or(VXLAN, |uplink| uplink.udp_port) },
        gro: !plain && file.uplink.as_ref().is_none_or(|uplink| uplink.gro),
        balance: balance?,
        tcp_only: file.balance.rest.udp != Some(Spread::Policy),
        labels: labels?,
        labels_listed: matches!(file.balance.rest.labels, Some(Labels::List(_))),
        discovery: discovery?,
        reorder: reorder?,
        congestion: congestion?,
        limits: limits?,
        tenants: tenants?,
        fastlane: fastlane?,
        reports: reports?,
        ports: ports?,
        peers: peers?,
        controller: controller?,
    })
}

fn check_agent(agent: &AgentTable) -> Result<Option<SocketAddr>, Wrong> {
    let mut wrong = Wrong::new();
    for (key, path) in [("agent.pins", &agent.pins), ("agent.socket", &agent.socket)] {
        wrong.note(check_path(key, path));
    }
    // sun_path of struct sockaddr_un, with its end
    if agent.socket.as_os_str().len() > 107 {
        wrong.add(Invalid::value("agent.socket", "is longer than 107 bytes", "choose a shorter path"));
    }
    let flows = wrong.note(within("agent.max_flows", agent.max_flows, 1, 1 << 20));
    for (key, most) in [
        ("agent.max_flows_per_port", agent.max_flows_per_port),
        ("agent.max_flows_per_network", agent.max_flows_per_network),
    ] {
        if flows.is_some() {
            wrong.note(within_others(key, most.unwrap_or(1), 1, agent.max_flows));
        }
    }
    if agent.flow_idle < Time::from_secs(1) || agent.flow_idle > Time::from_secs(86_400) {
        let problem = format!("{} is out of range", agent.flow_idle);
        wrong.add(Invalid::value("agent.flow_idle", problem, "give \"1s\" to \"1440min\""));
    }
    let metrics = wrong.note(on_loopback("agent.metrics", agent.metrics));
    wrong.unless(metrics)
}

fn check_path(key: &str, path: &Path) -> Result<(), Invalid> {
    if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Invalid::value(key, format!("{path:?} is not an absolute path"), "begin it with /"));
    }
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Invalid::value(key, format!("{path:?} goes back up"), "write it without .."));
    }
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Invalid::value(key, format!("{path:?} has no name at its end"), "name one below it"));
    }
    Ok(())
}

fn check_uplink(uplink: &UplinkTable) -> Result<(Vec<String>, Option<IpAddr>), Wrong> {
    let mut wrong = Wrong::new();
    match (&uplink.interface, uplink.interfaces.as_slice()) {
        (Some(_), [_, ..]) => {
            wrong.add(Invalid::value("uplink.interfaces", "`interface` is there too", "remove one of them"));
        }
        (None, []) => wrong.add(Invalid::new("uplink", "`interface` is missing", "add `interface = \"eth0\"`")),
        _ => {}
    }
    if let Some(name) = &uplink.interface {
        wrong.note(check_name("uplink.interface", name));
    }
    for (n, name) in uplink.interfaces.iter().enumerate() {
        let key = format!("uplink.interfaces.{n}");
        wrong.note(check_name(&key, name));
        if uplink.interfaces[..n].contains(name) {
            wrong.add(Invalid::value(key, format!("{name:?} is there twice"), "name each once"));
        }
    }
    if uplink.interfaces.len() > 16 {
        wrong.add(Invalid::value("uplink.interfaces", "there are more than 16", "name fewer"));
    }
    wrong.note(within("uplink.udp_port", uplink.udp_port, 1, u16::MAX));
    let address = uplink.address.map(|a| a.0);
    if let Some(address) = address {
        wrong.note(check_outer("uplink.address", address));
    }
    wrong.or((uplink.interface.iter().chain(&uplink.interfaces).cloned().collect(), address))
}

/// Only where nothing is to be sent through a tunnel.
fn check_without_uplink(file: &File) -> Result<(Vec<String>, Option<IpAddr>), Wrong> {
    let mut wrong = Wrong::new();
    let mut needs = |problem: String| {
        wrong.add(Invalid::new("uplink", problem, "add `[uplink]` with `interface = \"eth0\"`"));
    };
    if let Some(n) = file.port.iter().position(|port| port.network.is_some()) {
        needs(format!("[[port]] number {} is in a network, which needs an uplink", n + 1));
    }
    if !file.peer.is_empty() {
        needs("[[peer]] needs an uplink".to_owned());
    }
    for (key, given) in [
        ("congestion", file.congestion.is_some()),
        ("controller", file.controller.is_some()),
        ("tenants", file.tenants.is_some()),
        ("fastlane", file.fastlane.is_some()),
        ("receive.reorder", file.receive.is_on()),
        ("paths.discovery", file.paths.is_on()),
    ] {
        if given {
            wrong.add(Invalid::new(key, "has no meaning without an uplink", "remove it, or add `[uplink]`"));
        }
    }
    wrong.or((Vec::new(), None))
}

fn check_balance(table: &BalanceTable) -> Result<Balance, Wrong> {
    let mut wrong = Wrong::new();
    let (word, policy) = table.policy();
    if !policy.is_of_kernel() {
        let problem = format!(
            "no switch tells the kernel edge of its links' utilisation, and it runs no ticks: {word:?} needs one of them"
        );
        let names = Scheme::of_kernel().map(|scheme| scheme.name);
        let remedy = format!("give {}", names.collect::<Vec<_>>().join(", "));
        wrong.add(Invalid::value("balance.policy", problem, remedy));
    }
    let mut without_meaning: Vec<&str> = table.keys.foreign(policy).collect();
    if !policy.labels {
        let labels = table.rest.labels.is_some().then_some("labels");
        without_meaning.extend(labels.into_iter().chain(table.rest.udp.is_some().then_some("udp")));
    }
    for key in without_meaning {
        wrong.add(meaningless(format!("balance.{key}"), word));
    }
    let balance = wrong.note(table.keys.check("balance", AGENTS));
    wrong.unless(balance)
}

/// A scheme that keeps states of paths must know which labels take which, and tell them apart by their low bytes.
fn check_known_paths(
    (word, balance): (&str, &Balance),
    peers: &[PeerRule],
    listed: &[u16],
    known: bool,
) -> Result<(), Wrong> {
    if balance.keeps().is_none() {
        return Ok(());
    }
    let mut wrong = Wrong::new();
    if !known && peers.iter().any(|peer| peer.labels.is_none() && !peer.plain_vxlan) {
        let with = balance.keeps_by().map_or(String::new(), |parameter| format!(" with {}", parameter.name));
        let problem = format!("{word:?}{with} must know which labels take which paths");
        let remedy = "set paths.discovery = true, or list balance.labels";
        wrong.add(Invalid::new("balance.policy", problem, remedy));
    }
    let lists = std::iter::once(("balance.labels".to_owned(), listed));
    let of_peers = peers.iter().filter_map(|p| Some((format!("peer.{}.labels", p.name), p.labels.as_deref()?)));
    for (key, labels) in lists.chain(of_peers) {
        let mut names: [Option<u16>; 256] = [None; 256];
        for (n, label) in labels.iter().enumerate() {
            if let Some(other) = names[usize::from(label & 0xff)].replace(*label) {
                let problem = format!("{label} has the same low byte as {other}, and so names the same path");
                wrong.add(Invalid::new(format!("{key}.{n}"), problem, "list ports that differ modulo 256"));
            }
        }
    }
    wrong.or(())
}

fn meaningless(key: String, policy: &str) -> Invalid {
    Invalid::new(key, format!("has no meaning with policy = {policy:?}"), "remove it")
}

fn check_labels(key: &str, labels: &Labels) -> Result<Vec<u16>, Wrong> {
    let most = MAX_LABELS as i64;
    match labels {
        Labels::Count(n) => {
            within(key, *n, 1, most)?;
            Ok((FIRST_LABEL..).take(*n as usize).collect())
        }
        Labels::List(list) => {
            let mut wrong = Wrong::new();
            if list.is_empty() || list.len() > MAX_LABELS {
                let problem = format!("{} labels are listed", list.len());
                wrong.add(Invalid::value(key, problem, format!("list 1 to {MAX_LABELS}")));
            }
            for (n, label) in list.iter().enumerate() {
                wrong.note(within(&format!("{key}.{n}"), *label, 1024, 65_535));
            }
            wrong.or(list.iter().map(|label| *label as u16).collect())
        }
    }
}

fn at_most(key: &str, n: usize, most: usize) -> Result<(), Invalid> {
    if n <= most {
        return Ok(());
    }
    Err(Invalid::value(key, format!("there are {n}"), format!("give at most {most}")))
}

fn check_network(key: &str, network: u32) -> Result<(), Invalid> {
    within(key, network, 0, MAX_NETWORK)
}

fn check_name(key: &str, name: &str) -> Result<(), Invalid> {
    let legal = |c: char| !(c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(legal) && name != "." && name != ".." {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    let remedy = "give 1 to 15 characters, such as \"eth0\"";
    Err(Invalid::value(key, format!("{shown:?} is no name of an interface"), remedy))
}

fn check_pattern(key: &str, pattern: &str) -> Result<(), Invalid> {
    check_name(key, pattern)?;
    if pattern.contains(['*', '?']) {
        return Ok(());
    }
    let remedy = format!("write `interface = {pattern:?}`, or \"{pattern}*\"");
    Err(Invalid::value(key, format!("{pattern:?} has neither * nor ?"), remedy))
}

#[cfg(test)]
mod tests;
