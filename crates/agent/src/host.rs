//! What of the host matters to the edge.

use super::desired::{resolve, Resolved};
use super::error::Result;
use super::interfaces::{Interface, Interfaces, Netlink};
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
    pub(super) fn new(config: &Config, interfaces: &Interfaces, routes: &BTreeMap<IpAddr, u32>) -> Seen {
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

/// Interfaces, and where the host's routes lead for the peers.
pub(super) async fn look_around(config: &Config, netlink: &mut Netlink) -> Result<(Interfaces, BTreeMap<IpAddr, u32>)> {
    let mut interfaces = netlink.interfaces().await?;
    for (ifindex, interface) in &mut interfaces {
        let Some(unknown) = rule_for(config, interface).map(|rule| rule.mac.is_none()) else { continue };
        if let Some(peer) = interface.veth_peer {
            let found = netlink.peer(*ifindex, peer).await;
            interface.peer_mac = found.filter(|_| unknown).map(|(mac, _)| mac);
            interface.peer_mtu = found.map(|(_, mtu)| mtu);
        }
    }
    let mut routes = BTreeMap::new();
    if config.uplinks.len() > 1 {
        for peer in &config.peers {
            routes.extend(netlink.route(peer.address).await.map(|ifindex| (peer.address, ifindex)));
        }
    }
    Ok((interfaces, routes))
}
