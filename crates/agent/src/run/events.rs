//! What the programs and guests tell.

use super::budget::SHARE;
use super::wait::{cpu_time, now};
use super::{Runner, MAX_REST, SWEEP_WHEN_FULL};
use crate::log::Limit;
use kernel::monotonic_ns;
use kernel::state::{
    address, Event, EVENT_ADMISSION, EVENT_AGAIN, EVENT_DROPPED, EVENT_EMIT, EVENT_FORGED, EVENT_GUEST, EVENT_LENGTHS,
    EVENT_MAC, EVENT_MARKS, EVENT_NOTIFIED, EVENT_REPLY, EVENT_TABLE_FULL, EVENT_TIMER, EVENT_TUNNEL,
    EVENT_UNKNOWN_PEER, EVENT_UNKNOWN_VERSION, QUOTA_NETWORK, QUOTA_OUTSIDE, QUOTA_PORT,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tracing::{error, info, warn};

impl Runner {
    /// Whose MAC address may be another now. All at once, so that no guest keeps others waiting.
    pub(super) async fn look_up(&mut self) {
        let before = cpu_time();
        let ports = std::mem::take(&mut self.strangers);
        if let Err(e) = self.agent.look_up(ports).await {
            error!("{e}");
            self.look_soon();
        }
        self.next_lookup = now() + (SHARE * cpu_time().saturating_sub(before)).min(MAX_REST);
    }

    pub(super) async fn take_events(&mut self) {
        let events = match self.agent.edge.poll_events(Duration::ZERO) {
            Ok(events) => events,
            Err(e) => return error!("{e}"),
        };
        let mut learned = BTreeSet::new();
        if events.iter().any(|event| event.kind == EVENT_TABLE_FULL) {
            let took = self.sweep.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
            let soon = self.last_sweep + SWEEP_WHEN_FULL + SHARE * took;
            self.next_sweep = self.next_sweep.min(soon);
        }
        let mut interfaces = BTreeMap::new();
        for event in &events {
            match event.kind {
                EVENT_TABLE_FULL
                | EVENT_UNKNOWN_PEER
                | EVENT_UNKNOWN_VERSION
                | EVENT_FORGED
                | EVENT_LENGTHS
                | EVENT_TUNNEL => self.log_event(event),
                EVENT_ADMISSION => self.log_admission(event),
                EVENT_MAC => {
                    self.log_event(event);
                    self.strangers.insert(event.ifindex);
                }
                EVENT_TIMER => self.agent.answer_timer(event, &mut interfaces, &mut self.tally.sent),
                EVENT_GUEST if self.learn(event) => drop(learned.insert(event.ifindex)),
                EVENT_REPLY => match (self.agent.asking.answer(event), &mut self.agent.tracer) {
                    (Some(peer), _) => self.agent.silent.answered(peer, event.time),
                    (None, Some(tracer)) => tracer.reply(event),
                    (None, None) => {}
                },
                EVENT_DROPPED | EVENT_AGAIN => self.agent.hear_peer(event),
                EVENT_NOTIFIED => self.agent.hear_switch(event),
                EVENT_MARKS => self.agent.answer_marks(event, &mut self.uplink, &mut self.tally.sent),
                EVENT_EMIT => self.agent.answer_event(event, &mut self.uplink, &mut self.tally.sent),
                _ => {}
            }
        }
        if events.iter().any(|event| event.kind == EVENT_REPLY) {
            self.follow_paths();
        }
        if !learned.is_empty() && !self.agent.problems.is_empty() {
            self.look_soon(); // one of them may be that the guest was not known
        }
        for ifindex in learned {
            if let Err(e) = self.agent.follow_port(ifindex) {
                error!("{e}");
                self.look_soon();
            }
        }
    }

    pub(super) fn log_event(&mut self, event: &Event) {
        let Some(more) = self.limits.entry(event.kind).or_insert_with(Limit::new).admit(now()) else { return };
        let addr = address(event.addr);
        let interface = self.agent.interfaces.get(&event.ifindex).map(|interface| interface.name.as_str());
        let network = (event.kind == EVENT_FORGED).then_some(event.value);
        let text = match event.kind {
            EVENT_TABLE_FULL => {
                let port = interface.unwrap_or("?");
                let (why, key) = match event.value {
                    QUOTA_PORT => (format!("port {port} holds as many flows as it may"), "agent.max_flows_per_port"),
                    QUOTA_NETWORK => {
                        (format!("the network of port {port} holds as many flows as it may"), "agent.max_flows_per_network")
                    }
                    QUOTA_OUTSIDE => {
                        (format!("port {port} holds as many flows as may begin from outside"), "agent.max_flows_per_port")
                    }
                    _ => ("the flow table is full".into(), "agent.max_flows"),
                };
                format!(
                    "{why}: a segment for {addr} was forwarded without state; raise {key} or agent.max_flows if that is no \
                     attack"
                )
            }
            EVENT_UNKNOWN_PEER => {
                format!("{addr} sends encapsulated segments but is no peer: dropped; add a [[peer]] if it should be one")
            }
            EVENT_FORGED => format!(
                "peer {addr} sends a segment of network {} from {}, which is not routed to it: dropped; its guests' ranges \
                 must have every address that they use",
                event.value,
                address(event.packet.saddr)
            ),
            EVENT_LENGTHS => format!("{addr} sends encapsulated segments whose outer lengths are wrong: dropped"),
            EVENT_MAC => {
                let port = interface.unwrap_or_default();
                format!("port {port}: {addr} speaks under another MAC address than the port's: dropped")
            }
            EVENT_TUNNEL => {
                let port = interface.unwrap_or("?");
                let udp_port = self.agent.config.udp_port;
                format!(
                    "port {port}: a datagram for UDP port {udp_port} of {addr}, which is no guest of its network: dropped, because \
                     the overlay's own arrive there; set uplink.udp_port to another port, the same on all hosts, if guests need \
                     this one"
                )
            }
            _ => format!(
                "{addr} speaks version {} of the encapsulation, which this agent does not know: its metadata is ignored",
                event.value
            ),
        };
        warn!(address = %addr, interface, network, "{text}{more}");
    }

    /// One line for each change, as far as there are not many: both changes have their own limit, or the second would be held back.
    fn log_admission(&mut self, event: &Event) {
        let refused = event.value != 0;
        let key = EVENT_ADMISSION << 1 | u32::from(refused);
        let Some(more) = self.limits.entry(key).or_insert_with(Limit::new).admit(now()) else { return };
        let addr = address(event.addr);
        let interface = self.agent.interfaces.get(&event.ifindex).map(|interface| interface.name.as_str());
        let port = interface.unwrap_or("?");
        if refused {
            warn!(
                address = %addr,
                interface,
                "too many of the packets to {addr} are marked: new pairs with it are refused, that of port {port} too{more}"
            );
        } else {
            info!(address = %addr, interface, "few of the packets to {addr} are marked: new pairs with it are admitted again{more}");
        }
    }

    /// Whoever holds an address that another claims, or was not heard of for long, is asked, or forgotten.
    pub(super) async fn ask_holders(&mut self) {
        self.last_ask = now();
        let (questions, gone) = self.agent.learned.ask(monotonic_ns());
        for question in questions {
            if let Err(e) = question.send() {
                if let Some(more) = self.refusals.admit(now()) {
                    warn!(address = %question.addr, "cannot ask for {} at its port: {e}{more}", question.addr);
                }
            }
        }
        for (addr, holder) in &gone {
            if let Some(more) = self.forgotten.admit(now()) {
                let port = holder.interface.as_str();
                info!(port, address = %addr, "port {port}: {addr} does not answer: forgotten{more}");
            }
        }
        if !gone.is_empty() {
            self.look_soon();
        }
    }

    /// True if something was learned.
    pub(super) fn learn(&mut self, event: &Event) -> bool {
        let agent = &mut self.agent;
        let addr = address(event.addr);
        let name =
            agent.interfaces.get(&event.ifindex).map_or_else(|| format!("#{}", event.ifindex), |i| i.name.clone());
        let holder = (event.ifindex, event.mac);
        match agent.learned.offer(&agent.config, &agent.interfaces, holder, addr, monotonic_ns()) {
            Ok(news) => {
                if news {
                    info!(port = name, address = %addr, "port {name}: learned {addr}");
                }
                news
            }
            Err(refused) => {
                self.tally.refused += 1;
                if let Some(more) = self.refusals.admit(now()) {
                    let why = refused.reason();
                    warn!(port = name, address = %addr, "port {name}: {addr} is not learned: {why}{more}");
                }
                false
            }
        }
    }
}
