//! The agent's configuration file: strict TOML in, a checked [`Config`] out. See docs/agent.md for every key.

use super::addresses::check_outer;
use crate::parsed::{on_loopback, Parsed};
use agent_api::config::{Config, PeerRule, Place, MAX_NETWORK};
use config::{within, ConfigError, Document, Faults, Invalid};
use edge::balance::{Balance, Scheme, AGENTS};
use edge::MAX_LABELS;
use fastlane::FastLaneTable;
use ports::{check_peers, check_ports, one_owner_each};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tables::{AgentTable, BalanceTable, File, Labels, PlaceWord, Spread, UplinkTable, VXLAN};
use tenants::TenantsTable;
use units::Time;

mod congestion;
mod controller;
mod fastlane;
mod limits;
mod paths;
mod plain;
mod ports;
mod receive;
mod tables;
mod tenants;

pub(crate) use limits::{kubernetes_bandwidth, EGRESS, INGRESS};
pub use tables::{PINS, SOCKET};

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
    limits::check_kernel(&config, crate::kernel_edge::has_fq).map_err(|invalid| document.error(&invalid))?;
    if let Some(path) = &config.limits.annotations {
        config.limits.annotated = limits::read_annotations(path)?;
    }
    Ok(config)
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
    let file: File = document.read()?;
    let config = check(file, &document)?;
    Ok((document, config))
}

fn check(file: File, document: &Document) -> Result<Config, ConfigError> {
    let mut faults = Faults::of(document);
    faults.note(plain::check(&file));
    let plain = plain::is_plain(&file);
    let (word, policy) = plain::scheme_of(&file);
    let uplink = faults.note(file.uplink.as_ref().map_or_else(|| check_without_uplink(&file), check_uplink));
    let balance = match plain {
        true => Some(Balance::ecmp()),
        false => faults.note(check_balance(&file.balance)),
    };
    let labels = faults.note(match &file.balance.rest.labels {
        Some(labels) => check_labels("balance.labels", labels),
        None if !policy.labels => Ok(Vec::new()),
        None => check_labels("balance.labels", &Labels::Count(8)),
    });
    let limits = faults.note(limits::check(&file.limits, &file.tenant));
    let (uplinks, address) = uplink.unwrap_or_default();
    let ports = faults.note(check_ports(&file, &uplinks));
    let peers = faults.note(check_peers(&file.peer, address, (word, policy)));
    if let (Some(ports), Some(peers)) = (&ports, &peers) {
        faults.note(one_owner_each(ports, peers));
    }
    let metrics = faults.note(check_agent(&file.agent));
    let congestion = faults.note(file.congestion.as_ref().map(congestion::CongestionTable::check).transpose());
    let controller = faults.note(file.controller.as_ref().map(|table| table.check((word, policy))).transpose());
    let tenants = faults.note(file.tenants.as_ref().map(TenantsTable::check).transpose());
    let fastlane = faults.note(file.fastlane.as_ref().map(FastLaneTable::check).transpose());
    let reports = faults.note(file.fastlane.as_ref().map_or(Ok(None), FastLaneTable::check_reports));
    let reorder = faults.note(file.receive.check());
    let discovery = faults.note(file.paths.check((word, policy)));
    if let (Some(peers), Some(labels), Some(found), Some(balance)) = (&peers, &labels, &discovery, &balance) {
        let listed = matches!(file.balance.rest.labels, Some(Labels::List(_)));
        let known = listed || found.is_some() || file.controller.is_some();
        faults.note(check_known_paths((word, balance), peers, if listed { labels } else { &[] }, known));
    }
    let made = || {
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
    };
    let made = made();
    faults.unless(made)
}

fn check_agent(agent: &AgentTable) -> Result<Option<SocketAddr>, Invalid> {
    for (key, path) in [("agent.pins", &agent.pins), ("agent.socket", &agent.socket)] {
        if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Invalid::new(key, format!("{path:?} is not an absolute path"), "begin it with /"));
        }
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(Invalid::new(key, format!("{path:?} goes back up"), "write it without .."));
        }
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Invalid::new(key, format!("{path:?} has no name at its end"), "name one below it"));
        }
    }
    // sun_path of struct sockaddr_un, with its end
    if agent.socket.as_os_str().len() > 107 {
        return Err(Invalid::new("agent.socket", "is longer than 107 bytes", "choose a shorter path"));
    }
    within("agent.max_flows", agent.max_flows, 1, 1 << 20)?;
    for (key, most) in [
        ("agent.max_flows_per_port", agent.max_flows_per_port),
        ("agent.max_flows_per_network", agent.max_flows_per_network),
    ] {
        within(key, most.unwrap_or(1), 1, agent.max_flows)?;
    }
    if agent.flow_idle < Time::from_secs(1) || agent.flow_idle > Time::from_secs(86_400) {
        let problem = format!("{} is out of range", agent.flow_idle);
        return Err(Invalid::new("agent.flow_idle", problem, "give \"1s\" to \"1440min\""));
    }
    on_loopback("agent.metrics", agent.metrics)
}

fn check_uplink(uplink: &UplinkTable) -> Result<(Vec<String>, Option<IpAddr>), Invalid> {
    let names = match (&uplink.interface, uplink.interfaces.as_slice()) {
        (Some(name), []) => {
            check_name("uplink.interface", name)?;
            vec![name.clone()]
        }
        (None, [_, ..]) => {
            for (n, name) in uplink.interfaces.iter().enumerate() {
                let key = format!("uplink.interfaces.{n}");
                check_name(&key, name)?;
                if uplink.interfaces[..n].contains(name) {
                    return Err(Invalid::new(key, format!("{name:?} is there twice"), "name each once"));
                }
            }
            uplink.interfaces.clone()
        }
        (Some(_), _) => {
            return Err(Invalid::new("uplink.interfaces", "`interface` is there too", "remove one of them"));
        }
        (None, []) => {
            return Err(Invalid::new("uplink", "`interface` is missing", "add `interface = \"eth0\"`"));
        }
    };
    if names.len() > 16 {
        return Err(Invalid::new("uplink.interfaces", "there are more than 16", "name fewer"));
    }
    within("uplink.udp_port", uplink.udp_port, 1, u16::MAX)?;
    let address = uplink.address.map(|a| a.0);
    if let Some(address) = address {
        check_outer("uplink.address", address)?;
    }
    Ok((names, address))
}

/// Only where nothing is to be sent through a tunnel.
fn check_without_uplink(file: &File) -> Result<(Vec<String>, Option<IpAddr>), Invalid> {
    let needs = if let Some(n) = file.port.iter().position(|port| port.network.is_some()) {
        Some(("uplink", format!("[[port]] number {} is in a network, which needs an uplink", n + 1)))
    } else if !file.peer.is_empty() {
        Some(("uplink", "[[peer]] needs an uplink".to_owned()))
    } else {
        None
    };
    if let Some((key, problem)) = needs {
        return Err(Invalid::new(key, problem, "add `[uplink]` with `interface = \"eth0\"`"));
    }
    for (key, given) in [
        ("congestion", file.congestion.is_some()),
        ("controller", file.controller.is_some()),
        ("tenants", file.tenants.is_some()),
        ("fastlane", file.fastlane.is_some()),
    ] {
        if given {
            return Err(Invalid::new(key, "has no meaning without an uplink", "remove it, or add `[uplink]`"));
        }
    }
    Ok((Vec::new(), None))
}

fn check_balance(table: &BalanceTable) -> Result<Balance, Invalid> {
    let (word, policy) = table.policy();
    if !policy.is_of_kernel() {
        let problem = format!("no switch tells the kernel edge of its links' utilisation, which {word:?} needs");
        let names = Scheme::of_kernel().map(|scheme| scheme.name);
        return Err(Invalid::new("balance.policy", problem, format!("give {}", names.collect::<Vec<_>>().join(", "))));
    }
    let mut without_meaning: Vec<&str> = table.keys.foreign(policy).collect();
    if !policy.labels {
        let labels = table.rest.labels.is_some().then_some("labels");
        without_meaning.extend(labels.into_iter().chain(table.rest.udp.is_some().then_some("udp")));
    }
    match without_meaning.first() {
        Some(key) => Err(meaningless(format!("balance.{key}"), word)),
        None => table.keys.check("balance", AGENTS),
    }
}

/// A scheme that keeps states of paths must know which labels take which, and tell them apart by their low bytes.
fn check_known_paths(
    (word, balance): (&str, &Balance),
    peers: &[PeerRule],
    listed: &[u16],
    known: bool,
) -> Result<(), Invalid> {
    if balance.keeps().is_none() {
        return Ok(());
    }
    if !known && peers.iter().any(|peer| peer.labels.is_none() && !peer.plain_vxlan) {
        let what = if balance.scheme().keeps.is_some() {
            format!("{word:?}")
        } else {
            format!("{word:?} with flowlet_gap_most")
        };
        let problem = format!("{what} must know which labels take which paths");
        return Err(Invalid::new("balance.policy", problem, "set paths.discovery = true, or list balance.labels"));
    }
    let lists = std::iter::once(("balance.labels".to_owned(), listed));
    let of_peers = peers.iter().filter_map(|p| Some((format!("peer.{}.labels", p.name), p.labels.as_deref()?)));
    for (key, labels) in lists.chain(of_peers) {
        for (n, label) in labels.iter().enumerate() {
            if let Some(other) = labels[..n].iter().find(|other| *other & 0xff == label & 0xff) {
                let problem = format!("{label} has the same low byte as {other}, and so names the same path");
                return Err(Invalid::new(format!("{key}.{n}"), problem, "list ports that differ modulo 256"));
            }
        }
    }
    Ok(())
}

fn meaningless(key: String, policy: &str) -> Invalid {
    Invalid::new(key, format!("has no meaning with policy = {policy:?}"), "remove it")
}

fn check_labels(key: &str, labels: &Labels) -> Result<Vec<u16>, Invalid> {
    let most = MAX_LABELS as i64;
    match labels {
        Labels::Count(n) => {
            within(key, *n, 1, most)?;
            Ok((FIRST_LABEL..).take(*n as usize).collect())
        }
        Labels::List(list) => {
            if list.is_empty() || list.len() > MAX_LABELS {
                let problem = format!("{} labels are listed", list.len());
                return Err(Invalid::new(key, problem, format!("list 1 to {MAX_LABELS}")));
            }
            for (n, label) in list.iter().enumerate() {
                within(&format!("{key}.{n}"), *label, 1024, 65_535)?;
            }
            Ok(list.iter().map(|label| *label as u16).collect())
        }
    }
}

fn at_most(key: &str, n: usize, most: usize) -> Result<(), Invalid> {
    if n <= most {
        return Ok(());
    }
    Err(Invalid::new(key, format!("there are {n}"), format!("give at most {most}")))
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
    Err(Invalid::new(key, format!("{shown:?} is no name of an interface"), remedy))
}

fn check_pattern(key: &str, pattern: &str) -> Result<(), Invalid> {
    check_name(key, pattern)?;
    if pattern.contains(['*', '?']) {
        return Ok(());
    }
    let remedy = format!("write `interface = {pattern:?}`, or \"{pattern}*\"");
    Err(Invalid::new(key, format!("{pattern:?} has neither * nor ?"), remedy))
}

#[cfg(test)]
mod tests;
