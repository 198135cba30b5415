//! From configuration and interfaces to what the kernel should hold: no system calls, nothing kept.

use super::interfaces::{by_name, Interface, Interfaces};
use super::labels::{is_guessed, with_schedule, Learnt};
use super::learned::Learned;
use super::limits::Limited;
use super::rows::{row, Kept, Rows};
use super::rules::rule_for;
use super::shares::{numbers as share_numbers, row_of, Numbers};
use agent_api::config::{Config, Mac, PeerRule, PortRule, Selector, MAX_PORTS};
use kernel::state::quota::{Bounds, TABLE_FASTLANE, TABLE_FLOWS, TABLE_LIMITED, TABLE_PAIRS};
use kernel::state::{
    self, Peer, Port, Route, RouteKey, Tunnel, CONFIG_CONGESTION, CONFIG_DISCOVERS, CONFIG_NOTIFIED, CONFIG_REORDER,
    PORT_CUTTER, PORT_ISOLATED, PORT_LEARN, PORT_LIMITED, PORT_LIMITER, PORT_OWN_MAC, PORT_PEER, PORT_STRICT,
    ROUTE_LOCAL, ROUTE_PEER, VERSION_1, VERSION_2, VERSION_PLAIN,
};
use kernel::{Role, MAX_PAIRS};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What the tunnel adds before a guest's IP packet, bytes: outer IPv4 or IPv6, UDP, VXLAN, inner Ethernet.
const OVERHEAD_V4: u32 = 20 + 8 + 8 + 14;
const OVERHEAD_V6: u32 = 40 + 8 + 8 + 14;
/// The longest that the kernel lets a program make a frame which it will not cut, bytes: `SKB_MAX_ALLOC` with pages of 4 KB.
const LONGEST_FRAME: u32 = 16_064;
/// An Ethernet header, bytes.
const ETHERNET: u32 = 14;
/// What the tunnel to that address adds.
pub(crate) fn overhead(peer: IpAddr) -> u32 {
    if peer.is_ipv4() {
        OVERHEAD_V4
    } else {
        OVERHEAD_V6
    }
}

/// Under which the edge answers for guests elsewhere whose own address is not known: locally administered, the same on
/// all hosts.
pub(crate) const EDGE_MAC: [u8; 6] = [0x02, 0x73, 0x65, 0x6c, 0x76, 0x01];

/// What the configuration's names mean on this host now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// ifindex, name.
    pub(crate) uplinks: Vec<(u32, String)>,
    /// Of the uplinks, names of those that carry nothing now.
    pub(crate) down: Vec<String>,
    /// Outer source address, uplink; one for each peer.
    pub(crate) peers: Vec<(IpAddr, u32)>,
    /// Uplinks by which each peer can be reached, the best first, whether they carry anything now or not.
    pub(crate) ways: Vec<Vec<u32>>,
    /// Of guests whose port has none of its own, bytes.
    pub(crate) guest_mtu: u32,
}

/// The first that carries something; without one, the first.
pub(crate) fn choose(ways: &[u32], interfaces: &Interfaces) -> u32 {
    let up = |ifindex: &&u32| interfaces.get(ifindex).is_some_and(|i| i.up);
    ways.iter().find(up).or(ways.first()).copied().unwrap_or_default()
}

/// `routes`: uplinks by which the host has routes to peers' addresses, the best first.
///
/// # Errors
/// What is missing, in one line.
pub(crate) fn resolve(
    config: &Config,
    interfaces: &Interfaces,
    routes: &BTreeMap<IpAddr, Vec<u32>>,
) -> Result<Resolved, String> {
    let mut uplinks = Vec::new();
    for name in &config.uplinks {
        let (ifindex, interface) = by_name(interfaces, name)
            .ok_or_else(|| format!("uplink {name}: there is no such interface; `ip link` lists them"))?;
        if interface.bare {
            let key = if config.uplinks.len() > 1 { "uplink.interfaces" } else { "uplink.interface" };
            return Err(format!(
                "{key}: packets of {name} have no Ethernet header (a tun device, WireGuard, an IP tunnel), and the edge \
                 encapsulates in Ethernet frames; name the Ethernet interface below it, or an interface with Ethernet \
                 above it, such as a VXLAN or gretap device"
            ));
        }
        uplinks.push((ifindex, interface));
    }
    let own = |family_v4: bool| match config.address {
        Some(address) => Some(address).filter(|a| a.is_ipv4() == family_v4),
        None => uplinks.iter().flat_map(|(_, i)| &i.addresses).find(|a| a.is_ipv4() == family_v4).copied(),
    };
    if let Some(address) = config.address {
        if !interfaces.values().any(|i| i.addresses.contains(&address)) {
            return Err(format!("uplink.address {address} is no address of this host; `ip address` lists them"));
        }
    }
    let (mut peers, mut all_ways) = (Vec::new(), Vec::new());
    for peer in &config.peers {
        let local = own(peer.address.is_ipv4()).ok_or_else(|| {
            let family = if peer.address.is_ipv4() { "IPv4" } else { "IPv6" };
            format!(
                "uplink {} has no {family} address, which peer {} needs; give it one, or set uplink.address",
                config.uplinks.join(", "),
                peer.name
            )
        })?;
        if interfaces.values().any(|i| i.addresses.contains(&peer.address)) {
            return Err(format!("peer {}: {} is this host's own address; remove the peer", peer.name, peer.address));
        }
        let all = || uplinks.iter().map(|(ifindex, _)| *ifindex);
        let routed = routes.get(&peer.address).into_iter().flatten().copied();
        let mut ways: Vec<u32> = routed.filter(|to| all().any(|ifindex| ifindex == *to)).collect();
        let others: Vec<u32> = all().filter(|ifindex| !ways.contains(ifindex)).collect();
        ways.extend(others); // without a route the kernel asks there for the peer itself
        peers.push((local, choose(&ways, interfaces)));
        all_ways.push(ways);
    }
    let overhead = if config.plain {
        0
    } else if config.peers.iter().any(|peer| peer.address.is_ipv6()) {
        OVERHEAD_V6
    } else {
        OVERHEAD_V4
    };
    let mtu = uplinks.iter().map(|(_, i)| i.mtu).min().unwrap_or(1500);
    let mtu = if config.plain { mtu } else { mtu.min(LONGEST_FRAME - ETHERNET) };
    let down = uplinks.iter().filter(|(_, i)| !i.up).map(|(_, i)| i.name.clone()).collect();
    let uplinks = uplinks.into_iter().map(|(ifindex, i)| (ifindex, i.name.clone())).collect();
    Ok(Resolved { uplinks, down, peers, ways: all_ways, guest_mtu: mtu.saturating_sub(overhead) })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    pub(crate) congestion: Rows,
    pub(crate) config: Rows,
    pub(crate) bounds: Rows,
    pub(crate) tenants: Rows,
    /// Of guests' shares.
    pub(crate) shares: Numbers,
    pub(crate) ports: Rows,
    pub(crate) peers: Rows,
    pub(crate) remotes: Rows,
    pub(crate) routes: Rows,
    pub(crate) limiters: Rows,
    pub(crate) attach: BTreeSet<(u32, Role)>,
    /// Of guests' packets, by ifindex of their interfaces, bytes.
    pub(crate) mtus: BTreeMap<u32, u32>,
    /// What of the configuration is not in force, and why.
    pub(crate) problems: Vec<String>,
}

/// What else of the agent's decides ports' rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed<'a> {
    pub(crate) shares: &'a Numbers,
    /// FastLane works: their connections are followed.
    pub(crate) again: bool,
}

pub(crate) fn desired(
    config: &Config,
    learnt: &Learnt,
    resolved: &Resolved,
    interfaces: &Interfaces,
    learned: &Learned,
    limited: &Limited,
    kept: &Kept,
) -> Desired {
    let mut want = Desired::default();
    want.config.insert(row(&0u32), row(&data_path_config(config, kept)));
    let (port, network) = (config.max_flows_per_port, config.max_flows_per_network);
    for table in [TABLE_FLOWS, TABLE_LIMITED, TABLE_FASTLANE] {
        want.bounds.insert(row(&u32::from(table)), row(&Bounds { table: config.max_flows, port, network, pad: 0 }));
    }
    let pairs = Bounds { table: MAX_PAIRS, port: MAX_PAIRS, network: MAX_PAIRS, pad: 0 };
    want.bounds.insert(row(&u32::from(TABLE_PAIRS)), row(&pairs));
    want.shares = share_numbers(config, interfaces, &kept.shares);
    want.tenants.insert(row(&0u32), row(&row_of(config.tenants.as_ref(), &want.shares, kept.waits)));
    if let Some(congestion) = &config.congestion {
        let congestion = congestion.clone().beside_shares(config.tenants.is_some());
        want.congestion.insert(row(&0u32), congestion.as_bytes().to_vec());
    }
    want.attach.extend(resolved.uplinks.iter().map(|(ifindex, _)| (*ifindex, Role::Uplink)));
    let down = |name| format!("uplink {name}: it is down; bring it up, or look at its link's other end");
    want.problems.extend(resolved.down.iter().map(down));
    let shares = want.shares.clone();
    let followed = Followed { shares: &shares, again: kept.again.is_some() };
    add_ports(&mut want, config, resolved, interfaces, learned, limited, followed);
    add_peers(&mut want, config, learnt, resolved, kept);
    add_learned(&mut want, learned, |_| true);
    if let Some([first, second]) = kept.cutter {
        let port = Port { flags: PORT_LIMITER | PORT_CUTTER, ..Port::default() };
        want.ports.insert(row(&second), row(&port));
        want.attach.extend([(first, Role::Nothing), (second, Role::Limiter)]);
    }
    if let Some([first, second]) = kept.again {
        want.ports.insert(row(&second), row(&Port { flags: PORT_LIMITER, ..Port::default() }));
        want.attach.extend([(first, Role::Nothing), (second, Role::Limiter)]);
    }
    want.limiters.clone_from(&limited.rows);
    want.ports.extend(limited.ports.clone());
    want.attach.extend(&limited.attach);
    want
}

/// What of it is these interfaces' own: rows of ports and routes.
pub(crate) fn of_ports(
    config: &Config,
    resolved: &Resolved,
    interfaces: &Interfaces,
    learned: &Learned,
    limited: &Limited,
    followed: Followed<'_>,
) -> Desired {
    let mut want = Desired::default();
    add_ports(&mut want, config, resolved, interfaces, learned, limited, followed);
    add_learned(&mut want, learned, |ifindex| interfaces.contains_key(&ifindex));
    want
}

fn add_learned(want: &mut Desired, learned: &Learned, of: impl Fn(u32) -> bool) {
    for (network, addr, holder) in learned.iter().filter(|(_, _, holder)| of(holder.ifindex)) {
        let route = Route { kind: ROUTE_LOCAL, target: holder.ifindex, mac: holder.mac, ..Route::default() };
        want.routes.insert(row(&RouteKey::new(network, addr, 128)), row(&route));
    }
}

fn data_path_config(config: &Config, kept: &Kept) -> state::Config {
    let balance = config.balance.conf(config.tcp_only);
    let (idle_ns, udp_port) = (config.flow_idle_ns, config.udp_port);
    let (seed, epoch) = (kept.seed, kept.epoch.max(1));
    let parts = [
        (config.congestion.is_some(), CONFIG_CONGESTION),
        (config.reorder.is_some(), CONFIG_REORDER),
        (config.discovery.is_some() || kept.asks, CONFIG_DISCOVERS),
        (config.fastlane.is_some_and(|fastlane| fastlane.notifications), CONFIG_NOTIFIED),
    ];
    let flags = parts.iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
    let cutter = kept.cutter.map_or(0, |[first, _]| first);
    let empty = state::Config::default();
    state::Config { idle_ns, balance, seed, udp_port, flags, mac: EDGE_MAC, epoch, cutter, ..empty }
}

/// A guest's MAC address: as configured, or of the other end of its pair, or as it was seen.
pub(crate) fn guest_mac(rule: &PortRule, ifindex: u32, interface: &Interface, learned: &Learned) -> Option<Mac> {
    rule.mac.or_else(|| interface.peer_mac.or_else(|| learned.mac(ifindex)).map(Mac))
}

fn add_ports(
    want: &mut Desired,
    config: &Config,
    resolved: &Resolved,
    interfaces: &Interfaces,
    learned: &Learned,
    limited: &Limited,
    followed: Followed<'_>,
) {
    for rule in &config.ports {
        if let Selector::Name(name) = &rule.selector {
            let problem = match by_name(interfaces, name) {
                None => "there is no such interface; waiting for it",
                Some((_, interface)) if rule_for(config, interface).is_none() => {
                    "it is no guest's interface; name another"
                }
                Some(_) => continue,
            };
            want.problems.push(format!("port {name}: {problem}"));
        }
    }
    let ports = interfaces.iter().filter_map(|(ifindex, i)| Some((*ifindex, i, rule_for(config, i)?)));
    for (n, (ifindex, interface, rule)) in ports.enumerate() {
        if n == MAX_PORTS {
            want.problems.push(format!("port {}: there is room for {MAX_PORTS} ports only", interface.name));
            break;
        }
        let unfit = interface.unfit();
        if let Some(problem) = unfit.filter(|_| rule.network.is_some() || interface.keeps_marks) {
            want.problems.push(format!("port {}: {problem}", interface.name));
        }
        let Some(network) = rule.network else { continue };
        if unfit.is_some() {
            // Without a program the guest would reach the host's stack.
            want.ports.insert(row(&ifindex), row(&Port::default().closed()));
            want.attach.insert((ifindex, Role::Guest));
            continue;
        }
        let flags = [
            (interface.is_pair_into_namespace() && !followed.again && !limited.whole_way.contains(&ifindex), PORT_PEER),
            (!rule.learn.is_empty(), PORT_LEARN),
            (rule.strict, PORT_STRICT),
            (limited.is_egress(ifindex), PORT_LIMITED),
            // One that was merely seen may be another's, or change.
            (rule.strict && (rule.mac.is_some() || interface.peer_mac.is_some()), PORT_OWN_MAC),
            (!rule.host, PORT_ISOLATED),
        ];
        let flags = flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
        let mac = guest_mac(rule, ifindex, interface, learned);
        if mac.is_none() && interface.other_end.is_none() && !rule.addresses.is_empty() {
            let problem = "the MAC address of its guest is unknown, and a virtual machine takes nothing for another; set port.mac";
            want.problems.push(format!("port {}: {problem}", interface.name));
        }
        let mac = mac.unwrap_or_default().0;
        let mtu = rule.mtu.unwrap_or(resolved.guest_mtu);
        let port_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let port = Port { vni: network, flags, mac, mtu: port_mtu, ..Port::default() };
        let port = followed.shares.get(&ifindex).map_or(port, |number| port.with_share(*number, rule.weight));
        want.ports.insert(row(&ifindex), row(&port));
        want.attach.insert((ifindex, Role::Guest));
        if followed.again {
            want.attach.extend([(ifindex, Role::FastGuest), (ifindex, Role::FastPort)]);
        }
        want.mtus.insert(ifindex, mtu);
        let route = Route { kind: ROUTE_LOCAL, target: ifindex, mac, ..Route::default() };
        for addr in &rule.addresses {
            want.routes.insert(row(&RouteKey::new(network, *addr, 128)), row(&route));
        }
    }
}

fn add_peers(want: &mut Desired, config: &Config, learnt: &Learnt, resolved: &Resolved, kept: &Kept) {
    for (peer, id, &(local, ifindex)) in
        config.peers.iter().zip(numbers(config, kept)).zip(&resolved.peers).map(|((a, b), c)| (a, b, c))
    {
        let version = match (config.plain, peer.plain_vxlan) {
            (true, _) => VERSION_1, // nothing of it is ever written
            (false, true) => VERSION_PLAIN,
            (false, false) => VERSION_2,
        };
        let Some(tunnel) = Tunnel::new(local, peer.address, config.udp_port, version) else { continue };
        let mtu = kept.path_mtus.get(&peer.address).copied().unwrap_or_default();
        let new = Peer { mtu, ..Peer::new(tunnel, ifindex) };
        want.peers.insert(row(&id), row(&with_schedule(new, config, learnt, peer)));
        if is_guessed(config, learnt, peer) {
            let problem =
                "the controller has ordered no labels to it yet; until then they are guessed, and may share paths";
            want.problems.push(format!("peer {}: {problem}", peer.name));
        }
        want.remotes.insert(tunnel.remote.iter().flat_map(|word| word.to_ne_bytes()).collect(), row(&id));
        for guest in &peer.guests {
            let mac = guest.mac.unwrap_or_default().0;
            let route = Route { kind: ROUTE_PEER, target: id, mac, ..Route::default() };
            want.routes
                .insert(row(&RouteKey::new(guest.network, guest.prefix.addr(), guest.prefix.len())), row(&route));
        }
    }
}

/// A number for each peer: the one its address has already, or the lowest that is free.
pub(crate) fn numbers(config: &Config, kept: &Kept) -> Vec<u32> {
    let mut known: BTreeMap<[u32; 4], u32> = kept.peers.iter().map(|(id, peer)| (peer.tunnel.remote, *id)).collect();
    let mut taken: BTreeSet<u32> = known.values().copied().collect();
    let mut free = 1..;
    let number = |peer: &PeerRule| {
        let remote = state::words(peer.address);
        *known.entry(remote).or_insert_with(|| {
            let id = free.by_ref().find(|id| !taken.contains(id)).unwrap_or(u32::MAX);
            taken.insert(id);
            id
        })
    };
    config.peers.iter().map(number).collect()
}

#[cfg(test)]
pub(crate) mod tests;
