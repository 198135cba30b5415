//! What the agent does for FastLane, and says of it: the programs of ports, the devices by which segments come again, and the thread
//! ([`super::fastlane`]). Whoever knows of a drop that this host did not see calls [`Agent::report_drop`].

use super::desired::guest_mac;
use super::fastlane::{counters, gauges, Error, FastLane, FromPeer, Reported, Said, Settings};
use super::reconcile::Agent;
use super::rules::rule_for;
use agent_api::config::FastLane as Config;
use agent_api::lacking::FASTLANE;
use agent_api::release::too_old_for_fastlane;
use kernel::state::fastlane::{FastCall, FastKey};
use kernel::state::{address, Event, Route, EVENT_DROPPED, ROUTE_LOCAL};
use kernel::{again, drop_reasons, Attachment, Role};
use tracing::info;
use wire::{FlowKey, Packet};

impl Agent {
    /// Somebody knows that a packet of a guest of this host was dropped: `packet` as the guest sent it, in its network. The guest's
    /// TCP is told where that is truthful. False if it is no guest's of this host, FastLane is off, or too many reports wait.
    pub(super) fn report_drop(&self, network: u32, packet: &Packet) -> bool {
        let Some(fastlane) = &self.fastlane else { return false };
        let route = self.edge.route(network, address(packet.saddr)).ok().flatten();
        let Some(Route { target: port, .. }) = route.filter(|route| route.kind == ROUTE_LOCAL) else { return false };
        let Some(interface) = self.interfaces.get(&port) else { return false };
        let guest = rule_for(&self.config, interface).and_then(|rule| guest_mac(rule, port, interface, &self.learned));
        let key = FlowKey::new(packet.saddr, packet.daddr, packet.sport, packet.dport, packet.proto);
        let Packet { seq, ack, payload, tcp_flags, .. } = *packet;
        let call = FastCall { key: FastKey { key, port }, seq, ack, payload, tcp_flags, ..FastCall::default() };
        fastlane.say(Said::Reported(Reported { call, guest: guest.unwrap_or_default().0 }))
    }

    /// A switch notifies of a dropped packet: the data path has checked that it is between a guest of this host and one of a peer's.
    pub(super) fn hear_switch(&self, event: &Event) {
        // If too many wait, the guest's timeout is what is left.
        let _ = self.report_drop(event.value, &event.packet);
    }

    /// A peer says something of dropped packets: the data path has checked that they are between a guest of this host and one of that peer's.
    pub(super) fn hear_peer(&self, event: &Event) {
        let (Some(fastlane), packet) = (&self.fastlane, event.packet) else { return };
        let Some(interface) = self.interfaces.get(&event.ifindex) else { return };
        let rule = rule_for(&self.config, interface);
        let guest =
            rule.and_then(|rule| guest_mac(rule, event.ifindex, interface, &self.learned)).unwrap_or_default().0;
        let of_here = event.kind == EVENT_DROPPED;
        let key = if of_here { packet.flow_key() } else { packet.flow_key().reversed() };
        let key = FastKey { key, port: event.ifindex };
        let (peer, detail) = (event.value & 0xffff, (event.value >> 16) as u8);
        let from = FromPeer { peer, key, guest, detail, time: event.time, packet };
        // If too many wait, the sender's timeout is what is left.
        let _ = fastlane.say(if of_here { Said::Dropped(from) } else { Said::Again(from) });
    }

    /// Returns both ends of the pair of devices by which segments come again, if FastLane works.
    pub(super) fn follow_fastlane(&mut self, problems: &mut Vec<String>) -> Option<[u32; 2]> {
        let Some(config) = self.config.fastlane else {
            if self.fastlane.take().is_some() {
                info!("FastLane: ended");
            }
            // An earlier agent that had no time to end may have left it.
            if kernel::ifindex(again::FIRST).is_ok() {
                let _ = again::remove(); // it does no harm
            }
            return None;
        };
        match self.ready_fastlane(config) {
            Ok(devices) => Some(devices),
            Err(e) => {
                self.fastlane = None;
                problems.push(format!("{}: {e}; remove [fastlane] to do without", FASTLANE.without));
                None
            }
        }
    }

    fn ready_fastlane(&mut self, config: Config) -> Result<[u32; 2], Error> {
        drop_reasons().map_err(Error::Host)?;
        if let Err(e) = self.edge.open_fastlane(self.config.max_flows) {
            // Its verifier's words would lead nowhere.
            return Err(too_old_for_fastlane().map_or(Error::Kernel(e), Error::Host));
        }
        again::add().map_err(|e| Error::System("add the devices svagain0 and svagain1", e))?;
        let find = |name| kernel::ifindex(name).map_err(|e| Error::System("find the devices svagain0 and svagain1", e));
        let devices = [find(again::FIRST)?, find(again::SECOND)?];
        if self.fastlane.is_none() && self.edge.attach(devices[0], Role::Nothing)? == Attachment::Clsact {
            let _ = again::remove(); // it does no harm
            return Err(Error::Host(
                "the kernel has no tcx, which keeps programs in order: run Linux 6.6 or newer".into(),
            ));
        }
        for (ifindex, name, role) in
            [(devices[0], again::FIRST, Role::Nothing), (devices[1], again::SECOND, Role::Limiter)]
        {
            self.attached.ensure(&self.edge, (ifindex, role), name)?;
        }
        again::up().map_err(|e| Error::System("set the devices svagain0 and svagain1 up", e))?;
        let settings = Settings { config, devices };
        if self.fastlane.as_ref().is_some_and(|old| old.is_running() && old.settings == settings) {
            return Ok(devices);
        }
        self.fastlane = None;
        self.fastlane = Some(FastLane::start(&self.edge, settings)?);
        info!("FastLane: what this host drops is sent again");
        Ok(devices)
    }

    /// Name, help and value of all that is counted; nothing where FastLane was never on.
    pub(super) fn fastlane_counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        if !self.edge.has_fastlane() {
            return Vec::new();
        }
        let counts = self.edge.fast_counts().unwrap_or_default();
        let stats = self.fastlane.as_ref().map(FastLane::stats).unwrap_or_default();
        counters(&counts, &stats)
    }

    /// Name, help and value of what is now; nothing where FastLane is off.
    pub(super) fn fastlane_gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        self.fastlane.as_ref().map(|fastlane| gauges(&fastlane.stats())).unwrap_or_default()
    }
}
