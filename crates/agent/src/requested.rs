//! Rate limits that are asked for on the socket, as `selvedge ctl limit` and the CNI plugin do. They come before what the
//! configuration says of their interface, outlive agents, and end with the interface.

use super::host::look_around;
use super::interfaces::{by_name, Interfaces};
use super::limits;
use super::reconcile::Agent;
use super::rules::rule_for;
use agent_api::config::{
    Annotated, Config, PortLimits, PortRule, Selector, LEARN_LIMIT, MAX_PORTS, MAX_RATE, MIN_RATE,
};
use agent_api::protocol::{Limit, RequestedLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::BitRate;

/// Longest name of who asks, bytes.
const MAX_OWNER: usize = 512;

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
        limits: PortLimits { law: config.limits.law, ..PortLimits::default() },
    }
}

/// What is wrong with a request by itself, in one line.
fn check(wanted: &RequestedLimit) -> Result<(), String> {
    let RequestedLimit { interface, owner, egress_bps, ingress_bps } = wanted;
    if owner.is_empty() || owner.len() > MAX_OWNER || owner.chars().any(char::is_control) {
        return Err(format!("the owner of a limit has 1 to {MAX_OWNER} bytes and no control characters"));
    }
    if egress_bps.is_none() && ingress_bps.is_none() {
        return Err(format!("{interface}: no rate is given; give one for egress, ingress or both"));
    }
    for bps in egress_bps.iter().chain(ingress_bps) {
        if !(MIN_RATE.as_bps()..=MAX_RATE.as_bps()).contains(bps) {
            return Err(format!("{interface}: {bps} bit/s is out of range: give {MIN_RATE} to {MAX_RATE}"));
        }
    }
    Ok(())
}

impl Agent {
    /// Limits an interface as asked. What the owner had before is replaced.
    ///
    /// # Errors
    /// Why not, in one line; then all is as before.
    pub(super) async fn limit(&mut self, wanted: RequestedLimit) -> Result<Vec<Limit>, String> {
        check(&wanted)?;
        let interface = wanted.interface.clone();
        let (interfaces, _) = look_around(&self.config, &mut self.netlink).await.map_err(|e| e.to_string())?;
        let Some((ifindex, found)) = by_name(&interfaces, &interface) else {
            return Err(format!("there is no interface {interface:?} in the agent's network namespace"));
        };
        let before = self.remembered.requested.clone();
        if let Some(other) = before.iter().find(|one| one.ifindex == ifindex && one.limit.owner != wanted.owner) {
            return Err(format!("{interface} is limited for {:?} already", other.limit.owner));
        }
        let requested = &mut self.remembered.requested;
        requested.retain(|one| one.limit.owner != wanted.owner);
        if requested.len() >= MAX_PORTS {
            self.remembered.requested = before;
            return Err(format!("{MAX_PORTS} limits were asked for already"));
        }
        requested.push(Granted { ifindex, limit: wanted.clone() });
        let mut config = self.config.clone();
        self.configured.fill(&mut config, &self.remembered.requested);
        if rule_for(&config, found).is_none() {
            self.remembered.requested = before;
            return Err(format!("{interface} is no guest's interface"));
        }
        self.config = config;
        match self.grant(ifindex, &wanted).await {
            Ok(granted) => Ok(granted),
            Err(why) => {
                self.remembered.requested = before;
                if let Err(e) = self.follow_requested().await {
                    self.log.error(e); // and again at the next look
                }
                Err(why)
            }
        }
    }

    /// Puts it in force and on disk.
    async fn grant(&mut self, ifindex: u32, wanted: &RequestedLimit) -> Result<Vec<Limit>, String> {
        self.follow_requested().await?;
        let mut all = limits::tell(&self.config, &self.edge, &self.attached, &self.limited);
        all.retain(|limit| limit.ifindex == ifindex);
        for (direction, rate) in [("egress", wanted.egress_bps), ("ingress", wanted.ingress_bps)] {
            let Some(rate) = rate else { continue };
            let there = |limit: &Limit| limit.direction == direction && limit.in_force && limit.rate_bps == rate;
            if !all.iter().any(there) {
                let why = self.problems.iter().find(|problem| problem.contains("limit")).cloned();
                let why = why.unwrap_or_else(|| "`selvedge ctl limits` shows what is".to_owned());
                return Err(format!("{}: the {direction} limit cannot be put in force: {why}", wanted.interface));
            }
        }
        Ok(all)
    }

    /// Ends what the owner asked for. False if that was nothing, or ended with its interface.
    ///
    /// # Errors
    /// What the kernel or the file system says, in one line.
    pub(super) async fn unlimit(&mut self, owner: &str) -> Result<bool, String> {
        let before = self.remembered.requested.len();
        self.remembered.requested.retain(|one| one.limit.owner != owner);
        let ended = self.remembered.requested.len() < before;
        if ended {
            self.follow_requested().await?;
        }
        Ok(ended)
    }

    async fn follow_requested(&mut self) -> Result<(), String> {
        self.configured.fill(&mut self.config, &self.remembered.requested);
        self.apply().await.map_err(|e| e.to_string())?;
        self.remember().map_err(|e| e.to_string())
    }

    /// Interfaces may have ended, or have other names.
    pub(super) fn revise_requested(&mut self) {
        if revise(&mut self.remembered.requested, &self.interfaces) {
            self.configured.fill(&mut self.config, &self.remembered.requested);
        }
    }
}

/// True if something changed.
fn revise(requested: &mut Vec<Granted>, interfaces: &Interfaces) -> bool {
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

    fn granted(ifindex: u32, interface: &str, egress_bps: Option<u64>) -> Granted {
        let owner = format!("test {interface}");
        Granted { ifindex, limit: RequestedLimit { interface: interface.into(), owner, egress_bps, ingress_bps: None } }
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

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let fine = granted(1, "veth1", Some(1_000)).limit;
        assert_eq!(check(&fine), Ok(()));
        for wrong in [
            RequestedLimit { owner: String::new(), ..fine.clone() },
            RequestedLimit { owner: "a\nb".into(), ..fine.clone() },
            RequestedLimit { owner: "a".repeat(513), ..fine.clone() },
            RequestedLimit { egress_bps: None, ..fine.clone() },
            RequestedLimit { egress_bps: Some(999), ..fine.clone() },
            RequestedLimit { ingress_bps: Some(u64::MAX), ..fine.clone() },
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
