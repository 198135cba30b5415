//! Checks of `[[port]]` and `[[peer]]`, and of who has which address.

use super::super::addresses::{check_inner, check_outer, check_range};
use super::tables::{File, PeerTable, PortTable};
use super::{at_most, check_labels, check_name, check_network, check_pattern, meaningless, port_limits};
use agent_api::config::{
    GuestRule, PeerRule, PortRule, Prefix, Selector, LEARN_LIMIT, MAX_CONFIGURED, MAX_LEARNED, MAX_PEERS, MAX_PORTS,
};
use config::{within, Invalid, Wrong};
use edge::balance::Scheme;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) fn check_ports(file: &File, uplinks: &[String]) -> Result<Vec<PortRule>, Wrong> {
    let mut wrong = Wrong::new();
    wrong.note(at_most("port", file.port.len(), MAX_PORTS));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rules = Vec::with_capacity(file.port.len());
    for (n, table) in file.port.iter().enumerate() {
        rules.extend(wrong.note(check_port(file, n, uplinks)));
        let text = table.interface.as_ref().xor(table.pattern.as_ref());
        if text.is_some_and(|text| seen.insert(text, n).is_some()) {
            let key = if table.interface.is_some() { "interface" } else { "pattern" };
            let problem = format!("{:?} has a [[port]] already", text.map_or("", String::as_str));
            wrong.add(Invalid::value(format!("port.{n}.{key}"), problem, "make them one"));
        }
    }
    wrong.or(rules)
}

fn check_selector(n: usize, table: &PortTable, uplinks: &[String]) -> Result<Selector, Invalid> {
    let at = |key: &str| format!("port.{n}.{key}");
    match (&table.interface, &table.pattern) {
        (Some(name), None) => {
            check_name(&at("interface"), name)?;
            if name.contains(['*', '?']) {
                let problem = format!("{name:?} is one name, and no interface is called so");
                return Err(Invalid::value(at("interface"), problem, format!("write `pattern = {name:?}`")));
            }
            if uplinks.contains(name) {
                let problem = format!("{name:?} is the uplink");
                return Err(Invalid::value(at("interface"), problem, "name a guest's interface"));
            }
            Ok(Selector::Name(name.clone()))
        }
        (None, Some(pattern)) => {
            check_pattern(&at("pattern"), pattern)?;
            Ok(Selector::Pattern(pattern.clone()))
        }
        (Some(_), Some(_)) => Err(Invalid::value(at("pattern"), "`interface` is there too", "remove one of them")),
        (None, None) => {
            let remedy = "add `interface = \"veth1\"` or `pattern = \"lxc*\"`";
            Err(Invalid::new(format!("port.{n}"), "neither `interface` nor `pattern` is there", remedy))
        }
    }
}

fn check_port(file: &File, n: usize, uplinks: &[String]) -> Result<PortRule, Wrong> {
    let mut wrong = Wrong::new();
    let table = &file.port[n];
    let at = |key: &str| format!("port.{n}.{key}");
    let selector = wrong.note(check_selector(n, table, uplinks));
    wrong.note(table.network.map_or(Ok(()), |network| check_network(&at("network"), network)));
    let is_pattern = table.pattern.is_some() && table.interface.is_none();
    for (key, given) in [("addresses", !table.addresses.is_empty()), ("mac", table.mac.is_some())] {
        if is_pattern && given {
            let remedy = "use `learn`, or name the interface";
            wrong.add(Invalid::new(at(key), "has no meaning with `pattern`, which may match many", remedy));
        }
    }
    if table.network.is_none() {
        wrong.note(check_limits_only(n, table, file.limits.has_annotations()));
    } else if table.addresses.is_empty() && table.learn.is_empty() {
        let (key, example) = if is_pattern { ("learn", "[\"10.1.1.0/24\"]") } else { ("addresses", "[\"10.1.1.2\"]") };
        wrong.add(Invalid::new(format!("port.{n}"), "has no addresses", format!("add `{key} = {example}`")));
    }
    wrong.note(at_most(&at("addresses"), table.addresses.len(), 1024));
    wrong.note(at_most(&at("learn"), table.learn.len(), 256));
    for (i, addr) in table.addresses.iter().enumerate() {
        wrong.note(check_inner(&format!("port.{n}.addresses.{i}"), addr.0));
    }
    for (i, range) in table.learn.iter().enumerate() {
        wrong.note(check_range(&format!("port.{n}.learn.{i}"), range.0));
    }
    if let Some(limit) = table.learn_limit {
        if table.learn.is_empty() {
            wrong.add(Invalid::new(at("learn_limit"), "has no meaning without `learn`", "remove it"));
        }
        wrong.note(within(&at("learn_limit"), limit, 1, MAX_LEARNED));
    }
    if let Some(weight) = table.weight {
        if file.tenants.is_none() && table.network.is_some() {
            let remedy = "add `[tenants]` with `uplink_rate`, or remove it";
            wrong.add(Invalid::new(at("weight"), "has no meaning without `[tenants]`", remedy));
        }
        wrong.note(within(&at("weight"), weight, 1, u16::MAX));
    }
    if let Some(mtu) = table.mtu {
        wrong.note(within(&at("mtu"), mtu, 576, 65_535));
    }
    let limits = wrong.note(port_limits::check_port(&format!("port.{n}"), table, &file.limits, &file.tenant));
    let made = || {
        Some(PortRule {
            selector: selector?,
            network: table.network,
            addresses: table.addresses.iter().map(|a| a.0).collect(),
            learn: table.learn.iter().map(|p| p.0).collect(),
            learn_limit: table.learn_limit.unwrap_or(LEARN_LIMIT),
            mac: table.mac.map(|mac| mac.0),
            mtu: table.mtu,
            strict: table.strict,
            host: table.host,
            weight: table.weight.unwrap_or(1),
            limits: limits?,
        })
    };
    let made = made();
    wrong.unless(made)
}

/// A port without a network: what is of the overlay means nothing there.
fn check_limits_only(n: usize, table: &PortTable, annotated: bool) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    for (key, given) in [
        ("addresses", !table.addresses.is_empty()),
        ("learn", !table.learn.is_empty()),
        ("mac", table.mac.is_some()),
        ("mtu", table.mtu.is_some()),
        ("weight", table.weight.is_some()),
        ("strict", !table.strict),
        ("host", !table.host),
    ] {
        if given {
            let remedy = "remove it for a port with limits only, or add `network`";
            wrong.add(Invalid::new(format!("port.{n}.{key}"), "has no meaning without `network`", remedy));
        }
    }
    // With keys of the overlay its network is what is missing.
    if wrong.is_empty() && !annotated && !table.has_rate() {
        let remedy = "add `egress_rate` or `ingress_rate`, or for a port of the overlay `network`";
        wrong.add(Invalid::new(format!("port.{n}"), "has neither a network nor a rate", remedy));
    }
    wrong.or(())
}

pub(super) fn check_peers(
    tables: &[PeerTable],
    own: Option<IpAddr>,
    (word, policy): (&str, &Scheme),
) -> Result<Vec<PeerRule>, Wrong> {
    let mut wrong = Wrong::new();
    wrong.note(at_most("peer", tables.len(), MAX_PEERS));
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut addresses: BTreeMap<IpAddr, &str> = BTreeMap::new();
    let mut rules = Vec::with_capacity(tables.len());
    for (n, table) in tables.iter().enumerate() {
        let at = |key: &str| format!("peer.{n}.{key}");
        let address = table.address.0;
        if table.name.is_empty() || table.name.len() > 63 || table.name.chars().any(char::is_control) {
            wrong.add(Invalid::value(at("name"), "is no name", "give 1 to 63 characters"));
        } else if names.insert(&table.name, n).is_some() {
            wrong.add(Invalid::value(at("name"), "another peer has it", "give each peer a name of its own"));
        }
        wrong.note(check_outer(&at("address"), address));
        if let Some(other) = addresses.insert(address, &table.name) {
            wrong.add(Invalid::value(at("address"), format!("peer {other:?} has it"), "make them one peer"));
        }
        if own == Some(address) {
            wrong.add(Invalid::new(at("address"), "is this host's own", "give the other host's"));
        }
        if own.is_some_and(|own| own.is_ipv4() != address.is_ipv4()) {
            let problem = "is of another family than uplink.address";
            wrong.add(Invalid::new(at("address"), problem, "remove uplink.address, or give one of its family"));
        }
        if table.labels.is_some() && !policy.labels {
            wrong.add(meaningless(at("labels"), word));
        }
        let labels = table.labels.as_ref().map(|labels| check_labels(&at("labels"), labels));
        let labels = wrong.note(labels.transpose()).flatten();
        wrong.note(at_most(&at("guests"), table.guests.len(), 65_536));
        let mut guests = Vec::with_capacity(table.guests.len());
        for (i, guest) in table.guests.iter().enumerate() {
            let at = |key: &str| format!("peer.{n}.guests.{i}.{key}");
            wrong.note(check_network(&at("network"), guest.network));
            wrong.note(check_range(&at("prefix"), guest.prefix.0));
            if guest.mac.is_some() && !guest.prefix.0.is_host() {
                let remedy = "remove it, or give a single address";
                wrong.add(Invalid::value(at("mac"), format!("{} is a range of addresses", guest.prefix.0), remedy));
            }
            let (prefix, mac) = (guest.prefix.0, guest.mac.map(|mac| mac.0));
            guests.push(GuestRule { network: guest.network, prefix, mac });
        }
        rules.push(PeerRule { name: table.name.clone(), address, plain_vxlan: table.plain_vxlan, labels, guests });
    }
    wrong.or(rules)
}

/// An address or range of a network is in one place; a longer range within another's is an exception to it.
pub(super) fn one_owner_each(ports: &[PortRule], peers: &[PeerRule]) -> Result<(), Wrong> {
    let mut wrong = Wrong::new();
    let of_ports = ports.iter().enumerate().flat_map(|(n, port)| {
        let key = move |i| format!("port.{n}.addresses.{i}");
        let network = port.network.unwrap_or_default(); // without one it has no addresses
        port.addresses.iter().enumerate().map(move |(i, a)| (network, Prefix::host(*a), key(i)))
    });
    let of_peers = peers.iter().enumerate().flat_map(|(n, peer)| {
        let key = move |i| format!("peer.{n}.guests.{i}.prefix");
        peer.guests.iter().enumerate().map(move |(i, g)| (g.network, g.prefix, key(i)))
    });
    let mut owners: BTreeMap<(u32, Prefix), String> = BTreeMap::new();
    for (network, prefix, key) in of_ports.chain(of_peers) {
        if let Some(other) = owners.insert((network, prefix), key.clone()) {
            let problem = format!("{prefix} of network {network} is at {other} already");
            wrong.add(Invalid::new(key, problem, "keep one of them"));
        }
    }
    if owners.len() > MAX_CONFIGURED {
        let problem = format!("ports and peers have {} addresses and ranges", owners.len());
        wrong.add(Invalid::new("peer", problem, format!("join ranges: there is room for {MAX_CONFIGURED}")));
    }
    wrong.or(())
}
