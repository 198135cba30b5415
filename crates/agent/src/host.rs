//! What of the host matters to the edge.

use super::desired::{resolve, Resolved};
use super::error::Result;
use super::interfaces::{by_name, Interface, Interfaces, Netlink};
use super::rules::{is_ours, rule_for};
use agent_api::config::Config;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What of the host decides what the tables hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) resolved: std::result::Result<Resolved, String>,
    pub(super) interfaces: Interfaces,
}

impl Seen {
    pub(super) fn new(config: &Config, interfaces: &Interfaces, routes: &BTreeMap<IpAddr, Vec<u32>>) -> Seen {
        let matters = |interface: &Interface| {
            rule_for(config, interface).is_some()
                || config.uplinks.contains(&interface.name)
                || is_ours(&interface.name)
        };
        // Addresses, and whether it is up, count in `resolved`.
        let part = |interface: &Interface| Interface { up: false, addresses: Vec::new(), ..interface.clone() };
        let resolved = resolve(config, interfaces, routes);
        let interfaces =
            interfaces.iter().filter(|(_, i)| matters(i)).map(|(ifindex, i)| (*ifindex, part(i))).collect();
        Seen { resolved, interfaces }
    }
}

/// Interfaces, and of several uplinks those by which the host has routes to each peer, the best first.
pub(super) async fn look_around(
    config: &Config,
    netlink: &mut Netlink,
) -> Result<(Interfaces, BTreeMap<IpAddr, Vec<u32>>)> {
    let mut interfaces = netlink.interfaces().await?;
    for (ifindex, interface) in &mut interfaces {
        let Some(unknown) = rule_for(config, interface).map(|rule| rule.mac.is_none()) else { continue };
        if let Some(peer) = interface.other_end {
            let found = netlink.peer(*ifindex, peer).await;
            interface.peer_mac = found.filter(|_| unknown).map(|(mac, _)| mac);
            interface.peer_mtu = found.map(|(_, mtu)| mtu);
        }
    }
    let mut routes = BTreeMap::new();
    if config.uplinks.len() > 1 {
        let uplinks: Vec<u32> =
            config.uplinks.iter().filter_map(|name| by_name(&interfaces, name)).map(|(ifindex, _)| ifindex).collect();
        for peer in &config.peers {
            let mut ways: Vec<u32> = netlink.route(peer.address).await.into_iter().collect();
            for &uplink in &uplinks {
                if !ways.contains(&uplink) && netlink.has_route(peer.address, uplink).await {
                    ways.push(uplink);
                }
            }
            routes.insert(peer.address, ways);
        }
    }
    Ok((interfaces, routes))
}
