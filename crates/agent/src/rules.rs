//! Which interfaces are guests' ports, by the configuration's rules, and which are devices that the agent itself makes.

use super::interfaces::Interface;
use super::reordering;
use agent_api::config::{Config, PortRule, Selector};
use kernel::{again, cut};

/// Start of the names of the pairs of devices through which what is limited goes.
pub(crate) const LIMIT_NAME: &str = "svlimit";
/// Start of the names of our GRO devices.
pub(crate) const GRO_NAME: &str = "svgro";

/// Of a device that the agent makes.
pub(crate) fn is_ours(name: &str) -> bool {
    [GRO_NAME, LIMIT_NAME, reordering::NAME, cut::NAME, again::NAME].iter().any(|start| name.starts_with(start))
}

/// The rule that an interface falls under: names come before patterns, earlier rules before later ones.
pub(crate) fn rule_for<'a>(config: &'a Config, interface: &Interface) -> Option<&'a PortRule> {
    let name = interface.name.as_str();
    if interface.loopback || is_ours(name) || config.uplinks.iter().any(|uplink| uplink == name) {
        return None;
    }
    let named = config.ports.iter().find(|p| matches!(p.selector, Selector::Name(_)) && p.selector.matches(name));
    named.or_else(|| config.ports.iter().find(|p| p.selector.matches(name)))
}

/// GRO devices: name, outer IPv6.
pub(crate) fn gro_devices(config: &Config) -> Vec<(String, bool)> {
    let mut wanted: Vec<bool> = config.peers.iter().map(|peer| peer.address.is_ipv6()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.retain(|_| config.gro);
    wanted.into_iter().map(|v6| (format!("{GRO_NAME}{}{}", config.udp_port, if v6 { "v6" } else { "" }), v6)).collect()
}
