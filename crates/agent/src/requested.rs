//! Rate limits that are asked for on the socket, as `selvedge ctl limit` and the CNI plugin do. They come before what the
//! configuration says of their interface, outlive agents, and end with the interface.

use super::interfaces::Interfaces;
use agent_api::config::{Annotated, Config, PortLimits, PortRule, Selector, LEARN_LIMIT};
use agent_api::protocol::RequestedLimit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::BitRate;

/// One that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Granted {
    /// The interface, whatever its name.
    pub(super) ifindex: u32,
    #[serde(flatten)]
    pub(super) limit: RequestedLimit,
}

/// What the configuration says of ports, without what was asked for.
#[derive(Clone, Debug)]
pub(super) struct Configured {
    ports: Vec<PortRule>,
    annotated: BTreeMap<String, Annotated>,
}

impl Configured {
    pub(super) fn of(config: &Config) -> Configured {
        Configured { ports: config.ports.clone(), annotated: config.limits.annotated.clone() }
    }

    /// Has the configuration say what was granted, and of that no more than this.
    pub(super) fn fill(&self, config: &mut Config, granted: &[Granted]) {
        config.ports.clone_from(&self.ports);
        config.limits.annotated.clone_from(&self.annotated);
        for Granted { limit, .. } in granted {
            let rate = |bps: Option<u64>| bps.map(BitRate::from_bps);
            let rates = Annotated { egress: rate(limit.egress_bps), ingress: rate(limit.ingress_bps) };
            config.limits.annotated.insert(limit.interface.clone(), rates);
            if !self.ports.iter().any(|rule| rule.selector.matches(&limit.interface)) {
                config.ports.push(limits_only(&limit.interface, config));
            }
        }
    }
}

fn limits_only(interface: &str, config: &Config) -> PortRule {
    PortRule {
        selector: Selector::Name(interface.to_owned()),
        network: None,
        addresses: Vec::new(),
        learn: Vec::new(),
        learn_limit: LEARN_LIMIT,
        mac: None,
        mtu: None,
        strict: true,
        host: true,
        weight: 1,
        limits: PortLimits { law: config.limits.law, ..PortLimits::default() },
    }
}

/// Interfaces may have ended, or have other names. True if something changed.
pub(super) fn revise(requested: &mut Vec<Granted>, interfaces: &Interfaces) -> bool {
    let before = requested.clone();
    requested.retain_mut(|one| match interfaces.get(&one.ifindex) {
        Some(interface) => {
            one.limit.interface.clone_from(&interface.name);
            true
        }
        None => false,
    });
    *requested != before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::{config, interfaces};
    use agent_api::pod::Pod;

    fn granted(ifindex: u32, interface: &str, egress_bps: Option<u64>) -> Granted {
        let owner = format!("test {interface}");
        let (interface, pod) = (interface.to_owned(), Pod::default());
        Granted {
            ifindex,
            limit: RequestedLimit { interface, owner, egress_bps, ingress_bps: None, enters: false, pod },
        }
    }

    #[test]
    fn what_is_asked_for_comes_first_and_leaves_no_trace() {
        let mut config = config();
        let (before, configured) = (config.clone(), Configured::of(&config));
        let named = config.ports[0].selector.to_string();
        configured.fill(&mut config, &[granted(7, "new0", Some(5_000_000)), granted(8, &named, Some(1_000_000))]);
        assert_eq!(config.ports.len(), before.ports.len() + 1, "a port of the file keeps its rule");
        assert_eq!(config.ports.last().unwrap().network, None);
        assert_eq!(config.limits.annotated[&named].egress, Some(BitRate::from_mbps(1)));
        configured.fill(&mut config, &[]);
        assert_eq!(config, before);
    }

    #[test]
    fn limits_follow_their_interface_and_end_with_it() {
        let interfaces = interfaces();
        let (ifindex, interface) = interfaces.iter().next().unwrap();
        let mut all = vec![granted(*ifindex, "old", Some(1_000)), granted(9_999, "gone", Some(1_000))];
        assert!(revise(&mut all, &interfaces));
        assert_eq!((all.len(), &all[0].limit.interface), (1, &interface.name));
        assert!(!revise(&mut all, &interfaces));
    }
}
