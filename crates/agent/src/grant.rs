//! Grants rate limits that are asked for on the socket, or says why not.

use super::error::Error;
use super::host::look_around;
use super::interfaces::by_name;
use super::limits;
use super::reconcile::Agent;
use super::requested::Granted;
use super::rules::rule_for;
use agent_api::config::{MAX_PORTS, MAX_RATE, MIN_RATE};
use agent_api::protocol::{Limit, RequestedLimit};
use kernel::Role;
use tracing::{error, warn};

/// Longest name of who asks, bytes.
const MAX_OWNER: usize = 512;

/// What is wrong with a request by itself, in one line.
fn check(wanted: &RequestedLimit) -> Result<(), String> {
    let RequestedLimit { interface, owner, egress_bps, ingress_bps, pod, enters: _ } = wanted;
    if owner.is_empty() || owner.len() > MAX_OWNER || owner.chars().any(char::is_control) {
        return Err(format!("the owner of a limit has 1 to {MAX_OWNER} bytes and no control characters"));
    }
    if !pod.is_valid() {
        return Err(format!("{interface}: {:?} is no name of a pod", pod.label()));
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
        // Its number may have been that of a container's that ended a moment ago.
        self.end_requested(Some(ifindex)).map_err(|e| e.to_string())?;
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
            let why = match config.uplinks.contains(&interface) {
                true => "is an uplink: limits are of guests' interfaces",
                false => "is no guest's interface; `selvedge ctl ports` lists them",
            };
            return Err(format!("{interface} {why}"));
        }
        self.config = config;
        self.granting = Some(ifindex);
        let granted = self.grant(ifindex, &wanted).await;
        self.granting = None;
        match granted {
            Ok(granted) => Ok(granted),
            Err(why) => {
                self.remembered.requested = before;
                if let Err(e) = self.follow_requested().await {
                    error!("{e}"); // and again at the next look
                }
                Err(why)
            }
        }
    }

    /// Puts it in force and on disk.
    async fn grant(&mut self, ifindex: u32, wanted: &RequestedLimit) -> Result<Vec<Limit>, String> {
        self.follow_requested().await?;
        let mut all = self.limits();
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

    /// How all limits fare, and who asked for them.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let mut all = limits::tell(&self.config, &self.edge, &self.attached, &self.limited);
        for limit in &mut all {
            let asked = self.remembered.requested.iter().find(|one| one.ifindex == limit.ifindex);
            if let Some(Granted { limit: asked, .. }) = asked {
                limit.owner.clone_from(&asked.owner);
                limit.pod.clone_from(&asked.pod);
            }
        }
        all
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

    /// Forgets limits of interfaces that have ended, of all or of one, whatever has their numbers now: nobody may have told of it yet, or there
    /// was no agent. What others detach looks the same.
    pub(super) fn end_requested(&mut self, only: Option<u32>) -> Result<(), Error> {
        const ROLES: [Role; 2] = [Role::LimitGuest, Role::LimitPort];
        let ended = |one: &Granted| {
            only.is_none_or(|only| only == one.ifindex)
                && ROLES.iter().any(|role| self.edge.has_ended(one.ifindex, *role))
        };
        let (ended, kept): (Vec<Granted>, Vec<Granted>) = self.remembered.requested.iter().cloned().partition(ended);
        if ended.is_empty() {
            return Ok(());
        }
        self.remembered.requested = kept;
        self.remember()?; // before the pins go, which tell that it has ended
        for one in &ended {
            let (interface, owner) = (&one.limit.interface, &one.limit.owner);
            warn!(
                interface,
                owner, "the limit ended with its interface, or with its programs, which somebody took off"
            );
            for role in [Role::LimitInside].into_iter().chain(ROLES) {
                self.edge.detach(one.ifindex, role)?;
            }
            self.attached.forget_interface(one.ifindex);
        }
        self.configured.fill(&mut self.config, &self.remembered.requested);
        self.settled = None;
        Ok(())
    }

    async fn follow_requested(&mut self) -> Result<(), String> {
        self.configured.fill(&mut self.config, &self.remembered.requested);
        self.apply().await.map_err(|e| e.to_string())?;
        self.remember().map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::pod::Pod;

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let (interface, owner) = ("veth1".to_owned(), "test".to_owned());
        let fine = RequestedLimit {
            interface,
            owner,
            egress_bps: Some(1_000),
            ingress_bps: None,
            enters: false,
            pod: Pod::default(),
        };
        assert_eq!(check(&fine), Ok(()));
        for wrong in [
            RequestedLimit { owner: String::new(), ..fine.clone() },
            RequestedLimit { owner: "a\nb".into(), ..fine.clone() },
            RequestedLimit { owner: "a".repeat(513), ..fine.clone() },
            RequestedLimit { egress_bps: None, ..fine.clone() },
            RequestedLimit { egress_bps: Some(999), ..fine.clone() },
            RequestedLimit { ingress_bps: Some(u64::MAX), ..fine.clone() },
            RequestedLimit { pod: Pod { pod: Some("a b".into()), namespace: None }, ..fine.clone() },
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
