//! The agent's configuration file: strict TOML in, a checked [`Config`] out. See docs/agent.md for every key.

use super::addresses::{check_inner, check_outer, check_range};
use crate::balance::{read_beside, BalanceKeys};
use agent_api::config::{
    Config, GuestRule, Mac, PeerRule, Place, PortRule, Prefix, Selector, LEARN_LIMIT, MAX_LEARNED, MAX_NETWORK,
    MAX_PEERS, MAX_PORTS,
};
use config::{within, ConfigError, Document, Faults, Invalid};
use congestion::CongestionTable;
use controller::ControllerTable;
use edge::balance::{Balance, Scheme, AGENTS};
use edge::MAX_LABELS;
use limits::{LawWord, LimitsTable, PodAnnotations, TenantTable};
use parsed::Parsed;
use receive::ReceiveTable;
use serde::de::Deserializer;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use units::{BitRate, Bytes, Time};

#[path = "congestion.rs"]
mod congestion;
#[path = "controller.rs"]
mod controller;
#[path = "limits.rs"]
mod limits;
#[path = "parsed.rs"]
mod parsed;
#[path = "receive.rs"]
mod receive;

/// A longer file is a mistake.
const MAX_FILE: u64 = 4 << 20;
/// First of the labels that a mere number stands for.
const FIRST_LABEL: u16 = 50_000;
/// Longest name of an interface, linux/if.h.
const MAX_NAME: usize = 15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agent: AgentTable,
    uplink: UplinkTable,
    #[serde(default)]
    balance: BalanceTable,
    #[serde(default)]
    receive: ReceiveTable,
    congestion: Option<CongestionTable>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    tenant: Vec<TenantTable>,
    #[serde(default)]
    port: Vec<PortTable>,
    #[serde(default)]
    peer: Vec<PeerTable>,
    controller: Option<ControllerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentTable {
    pins: PathBuf,
    socket: PathBuf,
    metrics: Option<Parsed<SocketAddr>>,
    max_flows: u32,
    max_flows_per_port: Option<u32>,
    max_flows_per_network: Option<u32>,
    flow_idle: Time,
    place: PlaceWord,
    unchecked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlaceWord {
    First,
    #[default]
    Last,
}

/// Where an agent keeps its pins and its socket, unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/selvedge";
pub const SOCKET: &str = "/run/selvedge/ctl.sock";

impl Default for AgentTable {
    fn default() -> AgentTable {
        AgentTable {
            pins: PINS.into(),
            socket: SOCKET.into(),
            metrics: None,
            max_flows: 65_536,
            max_flows_per_port: None,
            max_flows_per_network: None,
            flow_idle: Time::from_secs(300),
            place: PlaceWord::default(),
            unchecked: false,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UplinkTable {
    interface: Option<String>,
    #[serde(default)]
    interfaces: Vec<String>,
    address: Option<Parsed<IpAddr>>,
    #[serde(default = "vxlan_port")]
    udp_port: u16,
    #[serde(default = "yes")]
    gro: bool,
}

fn vxlan_port() -> u16 {
    4789
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default)]
struct BalanceTable {
    keys: BalanceKeys,
    rest: LabelsTable,
}

impl<'de> Deserialize<'de> for BalanceTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BalanceTable, D::Error> {
        read_beside(from, "policy").map(|(keys, rest)| BalanceTable { keys, rest })
    }
}

impl BalanceTable {
    /// The policy, and the word by which the file names it.
    fn policy(&self) -> (&str, &'static Scheme) {
        self.keys.scheme(AGENTS)
    }
}

/// What there is of `[balance]` besides the policy and its parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LabelsTable {
    udp: Option<Spread>,
    labels: Option<Labels>,
}

/// Policy of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Spread {
    Flow,
    #[serde(alias = "flowcell")]
    Policy,
}

/// A number of labels, or the labels.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Labels {
    Count(i64),
    List(Vec<i64>),
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Labels, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of labels such as 8, or a list of ports such as [50000, 50001]")
            }
            fn visit_i64<E>(self, n: i64) -> Result<Labels, E> {
                Ok(Labels::Count(n))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Labels, E> {
                Ok(Labels::Count(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Labels, A::Error> {
                let mut list = Vec::new();
                while let Some(label) = items.next_element()? {
                    list.push(label);
                }
                Ok(Labels::List(list))
            }
        }
        from.deserialize_any(Visitor)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    interface: Option<String>,
    pattern: Option<String>,
    network: u32,
    #[serde(default)]
    addresses: Vec<Parsed<IpAddr>>,
    #[serde(default)]
    learn: Vec<Parsed<Prefix>>,
    learn_limit: Option<u32>,
    mac: Option<Parsed<Mac>>,
    mtu: Option<u32>,
    #[serde(default = "yes")]
    strict: bool,
    #[serde(default = "yes")]
    host: bool,
    egress_rate: Option<BitRate>,
    egress_ceiling: Option<BitRate>,
    ingress_rate: Option<BitRate>,
    tenant: Option<String>,
    law: Option<LawWord>,
    k1: Option<Bytes>,
    k2: Option<Bytes>,
    #[serde(default)]
    annotations: PodAnnotations,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    address: Parsed<IpAddr>,
    #[serde(default)]
    plain_vxlan: bool,
    labels: Option<Labels>,
    #[serde(default)]
    guests: Vec<GuestTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GuestTable {
    network: u32,
    prefix: Parsed<Prefix>,
    mac: Option<Parsed<Mac>>,
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
    let (word, policy) = file.balance.policy();
    let uplink = faults.note(check_uplink(&file.uplink));
    let balance = faults.note(check_balance(&file.balance));
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
    let congestion = faults.note(file.congestion.as_ref().map(CongestionTable::check).transpose());
    let controller = faults.note(file.controller.as_ref().map(|table| table.check((word, policy))).transpose());
    let reorder = faults.note(file.receive.check());
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
            udp_port: file.uplink.udp_port,
            gro: file.uplink.gro,
            balance: balance?,
            tcp_only: file.balance.rest.udp != Some(Spread::Policy),
            labels: labels?,
            reorder: reorder?,
            congestion: congestion?,
            limits: limits?,
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
    let metrics = agent.metrics.map(|at| at.0);
    if let Some(at) = metrics.filter(|at| !at.ip().is_loopback()) {
        let problem = format!("{at} can be reached from outside");
        return Err(Invalid::new("agent.metrics", problem, "give a loopback address such as \"127.0.0.1:9464\""));
    }
    if metrics.is_some_and(|at| at.port() == 0) {
        return Err(Invalid::new("agent.metrics", "port 0 is no port", "give one such as \"127.0.0.1:9464\""));
    }
    Ok(metrics)
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

fn check_balance(table: &BalanceTable) -> Result<Balance, Invalid> {
    let (word, policy) = table.policy();
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

fn check_ports(file: &File, uplinks: &[String]) -> Result<Vec<PortRule>, Invalid> {
    let tables = &file.port;
    at_most("port", tables.len(), MAX_PORTS)?;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rules = Vec::with_capacity(tables.len());
    for (n, table) in tables.iter().enumerate() {
        let at = |key: &str| format!("port.{n}.{key}");
        let (text, selector) = match (&table.interface, &table.pattern) {
            (Some(name), None) => {
                check_name(&at("interface"), name)?;
                if uplinks.contains(name) {
                    let problem = format!("{name:?} is the uplink");
                    return Err(Invalid::new(at("interface"), problem, "name a guest's interface"));
                }
                (name, Selector::Name(name.clone()))
            }
            (None, Some(pattern)) => {
                check_pattern(&at("pattern"), pattern)?;
                (pattern, Selector::Pattern(pattern.clone()))
            }
            (Some(_), Some(_)) => {
                return Err(Invalid::new(at("pattern"), "`interface` is there too", "remove one of them"));
            }
            (None, None) => {
                let remedy = "add `interface = \"veth1\"` or `pattern = \"lxc*\"`";
                return Err(Invalid::new(format!("port.{n}"), "neither `interface` nor `pattern` is there", remedy));
            }
        };
        if seen.insert(text, n).is_some() {
            let key = at(if table.interface.is_some() { "interface" } else { "pattern" });
            return Err(Invalid::new(key, format!("{text:?} has a [[port]] already"), "make them one"));
        }
        check_network(&at("network"), table.network)?;
        let is_pattern = matches!(selector, Selector::Pattern(_));
        for (key, given) in [("addresses", !table.addresses.is_empty()), ("mac", table.mac.is_some())] {
            if is_pattern && given {
                let remedy = "use `learn`, or name the interface";
                return Err(Invalid::new(at(key), "has no meaning with `pattern`, which may match many", remedy));
            }
        }
        if table.addresses.is_empty() && table.learn.is_empty() {
            let (key, example) =
                if is_pattern { ("learn", "[\"10.1.1.0/24\"]") } else { ("addresses", "[\"10.1.1.2\"]") };
            return Err(Invalid::new(format!("port.{n}"), "has no addresses", format!("add `{key} = {example}`")));
        }
        at_most(&at("addresses"), table.addresses.len(), 1024)?;
        at_most(&at("learn"), table.learn.len(), 256)?;
        for (i, addr) in table.addresses.iter().enumerate() {
            check_inner(&format!("port.{n}.addresses.{i}"), addr.0)?;
        }
        for (i, range) in table.learn.iter().enumerate() {
            check_range(&format!("port.{n}.learn.{i}"), range.0)?;
        }
        if let Some(limit) = table.learn_limit {
            if table.learn.is_empty() {
                return Err(Invalid::new(at("learn_limit"), "has no meaning without `learn`", "remove it"));
            }
            within(&at("learn_limit"), limit, 1, MAX_LEARNED)?;
        }
        if let Some(mtu) = table.mtu {
            within(&at("mtu"), mtu, 576, 65_535)?;
        }
        rules.push(PortRule {
            selector,
            network: table.network,
            addresses: table.addresses.iter().map(|a| a.0).collect(),
            learn: table.learn.iter().map(|p| p.0).collect(),
            learn_limit: table.learn_limit.unwrap_or(LEARN_LIMIT),
            mac: table.mac.map(|mac| mac.0),
            mtu: table.mtu,
            strict: table.strict,
            host: table.host,
            limits: limits::check_port(&format!("port.{n}"), table, &file.limits, &file.tenant)?,
        });
    }
    Ok(rules)
}

fn check_peers(
    tables: &[PeerTable],
    own: Option<IpAddr>,
    (word, policy): (&str, &Scheme),
) -> Result<Vec<PeerRule>, Invalid> {
    at_most("peer", tables.len(), MAX_PEERS)?;
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut addresses: BTreeMap<IpAddr, &str> = BTreeMap::new();
    let mut rules = Vec::with_capacity(tables.len());
    for (n, table) in tables.iter().enumerate() {
        let at = |key: &str| format!("peer.{n}.{key}");
        let address = table.address.0;
        if table.name.is_empty() || table.name.len() > 63 || table.name.chars().any(char::is_control) {
            return Err(Invalid::new(at("name"), "is no name", "give 1 to 63 characters"));
        }
        if names.insert(&table.name, n).is_some() {
            return Err(Invalid::new(at("name"), "another peer has it", "give each peer a name of its own"));
        }
        check_outer(&at("address"), address)?;
        if let Some(other) = addresses.insert(address, &table.name) {
            return Err(Invalid::new(at("address"), format!("peer {other:?} has it"), "make them one peer"));
        }
        if own == Some(address) {
            return Err(Invalid::new(at("address"), "is this host's own", "give the other host's"));
        }
        if own.is_some_and(|own| own.is_ipv4() != address.is_ipv4()) {
            let problem = "is of another family than uplink.address";
            return Err(Invalid::new(at("address"), problem, "remove uplink.address, or give one of its family"));
        }
        let labels = match &table.labels {
            Some(_) if !policy.labels => return Err(meaningless(at("labels"), word)),
            Some(labels) => Some(check_labels(&at("labels"), labels)?),
            None => None,
        };
        at_most(&at("guests"), table.guests.len(), 65_536)?;
        let mut guests = Vec::with_capacity(table.guests.len());
        for (i, guest) in table.guests.iter().enumerate() {
            let at = |key: &str| format!("peer.{n}.guests.{i}.{key}");
            check_network(&at("network"), guest.network)?;
            check_range(&at("prefix"), guest.prefix.0)?;
            if guest.mac.is_some() && !guest.prefix.0.is_host() {
                let remedy = "remove it, or give a single address";
                return Err(Invalid::new(at("mac"), format!("{} is a range of addresses", guest.prefix.0), remedy));
            }
            let (prefix, mac) = (guest.prefix.0, guest.mac.map(|mac| mac.0));
            guests.push(GuestRule { network: guest.network, prefix, mac });
        }
        rules.push(PeerRule {
            name: table.name.clone(),
            address,
            plain_vxlan: table.plain_vxlan,
            labels,
            scheduled: None,
            guests,
        });
    }
    Ok(rules)
}

/// An address or range of a network is in one place; a longer range within another's is an exception to it.
fn one_owner_each(ports: &[PortRule], peers: &[PeerRule]) -> Result<(), Invalid> {
    let of_ports = ports.iter().enumerate().flat_map(|(n, port)| {
        let key = move |i| format!("port.{n}.addresses.{i}");
        port.addresses.iter().enumerate().map(move |(i, a)| (port.network, Prefix::host(*a), key(i)))
    });
    let of_peers = peers.iter().enumerate().flat_map(|(n, peer)| {
        let key = move |i| format!("peer.{n}.guests.{i}.prefix");
        peer.guests.iter().enumerate().map(move |(i, g)| (g.network, g.prefix, key(i)))
    });
    let mut owners: BTreeMap<(u32, Prefix), String> = BTreeMap::new();
    for (network, prefix, key) in of_ports.chain(of_peers) {
        if let Some(other) = owners.insert((network, prefix), key.clone()) {
            let problem = format!("{prefix} of network {network} is at {other} already");
            return Err(Invalid::new(key, problem, "keep one of them"));
        }
    }
    let most = 60_000; // of 65,536 rows; the rest is for what is learned
    if owners.len() > most {
        let problem = format!("ports and peers have {} addresses and ranges", owners.len());
        return Err(Invalid::new("peer", problem, format!("join ranges: there is room for {most}")));
    }
    Ok(())
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
#[path = "file_tests.rs"]
mod tests;
