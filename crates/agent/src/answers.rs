//! What the agent tells: on its socket and as metrics.

use super::desired::guest_mac;
use super::error::Result;
use super::interfaces::by_name;
use super::labels::labels_from;
use super::limits;
use super::metrics::Snapshot;
use super::reconcile::Agent;
use super::rules::rule_for;
use super::tally::Tally;
use crate::reordering::{self, ReorderThread, Stats};
use agent_api::config::PeerRule;
use agent_api::protocol::{
    self, Command, CounterValue, Flow, FlowCongestion, Flows, Outcome, Path, Port, Status, Uplink,
};
use edge::names::Names;
use edge::vcc::{Connection, ONE};
use kernel::state::{address, Counter, FlowSlot, FlowSlotKey};
use kernel::{monotonic_ns, Adopted, Role};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use units::Bytes;

const PHASES: [&str; 3] = ["new", "open", "closing"];

impl Agent {
    /// To a command that only asks.
    pub(super) fn tell(&self, command: Command, tally: &Tally) -> Outcome {
        fn json<T: Serialize>(value: &T) -> Outcome {
            serde_json::to_value(value).map_or_else(|e| Outcome::Error(e.to_string()), Outcome::Ok)
        }
        let told = match command {
            Command::Status => self.status(tally).map(|status| json(&status)),
            Command::Ports => Ok(json(&self.ports())),
            Command::Flows { limit } => self.flows(limit).map(|flows| json(&flows)),
            Command::Paths { peer: None } => Ok(json(&self.paths(|_| true))),
            Command::Paths { peer: Some(peer) } => match self.paths(|rule| is_named(rule, &peer)) {
                none if none.is_empty() => {
                    return Outcome::Error(format!("there is no peer {peer:?}; `selvedge ctl paths` lists them"));
                }
                one => Ok(json(&one)),
            },
            Command::Counters => self.counters(tally).map(|counters| json(&counters)),
            Command::Limits => Ok(json(&self.limits())),
            Command::Tenants => self.tenants().map(|tenants| json(&tenants)),
            Command::Requested => {
                let requested: Vec<_> = self.remembered.requested.iter().map(|one| &one.limit).collect();
                Ok(json(&requested))
            }
            Command::Limit(_) | Command::Unlimit { .. } | Command::Reload | Command::Stop => {
                return Outcome::Error("not a question".into())
            }
        };
        told.unwrap_or_else(|e| Outcome::Error(e.to_string()))
    }

    fn status(&self, tally: &Tally) -> Result<Status> {
        let c = &self.config;
        let uplinks = c.uplinks.iter().map(|name| {
            let found = by_name(&self.interfaces, name);
            Uplink {
                interface: name.clone(),
                ifindex: found.map_or(0, |(ifindex, _)| ifindex),
                up: found.is_some_and(|(_, i)| i.up),
                mtu: found.map_or(0, |(_, i)| i.mtu),
                addresses: found
                    .map(|(_, i)| i.addresses.iter().map(ToString::to_string).collect())
                    .unwrap_or_default(),
            }
        });
        Ok(Status {
            agent_version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            pins: c.pins.display().to_string(),
            state_version: kernel::state_version(),
            adopted: self.edge.adopted() == Adopted::Existing,
            uplinks: uplinks.collect(),
            udp_port: c.udp_port,
            guest_mtu: self.resolved.guest_mtu,
            gro: self.gro,
            policy: c.balance.scheme().name.into(),
            policy_parameters: c.balance.values().map(|(p, value)| (p.name.into(), value.to_string())).collect(),
            ports: self.attached.count(Role::Guest),
            peers: c.peers.len(),
            routes: self.tables.routes.rows()?.len(),
            flows: self.swept.kept,
            max_flows: c.max_flows,
            flow_idle_seconds: c.flow_idle_ns as f64 / 1e9,
            receiver: self.reordering.as_ref().map(receiver_status),
            reloads: tally.reloads,
            reload_error: tally.reload_error.clone(),
            other_edges: self.other_edges(),
            problems: self.told_problems(),
        })
    }

    fn told_problems(&self) -> Vec<String> {
        let known = self.problems.iter().chain(&self.controller_lost).chain(self.silent.problems());
        known.cloned().chain(limits::past(&self.limited)).collect()
    }

    /// Of this host, under other pins.
    fn other_edges(&self) -> Vec<String> {
        kernel::other_edges(&self.config.pins).iter().map(|pins| pins.display().to_string()).collect()
    }

    fn uplinks_down(&self) -> usize {
        let works = |name: &&String| by_name(&self.interfaces, name).is_some_and(|(_, interface)| interface.up);
        self.config.uplinks.iter().filter(|name| !works(name)).count()
    }

    fn ports(&self) -> Vec<Port> {
        let mut ports: Vec<Port> = self
            .interfaces
            .iter()
            .filter_map(|(&ifindex, interface)| {
                let rule = rule_for(&self.config, interface)?;
                let learned: Vec<String> = self
                    .learned
                    .iter()
                    .filter(|(_, _, holder)| holder.ifindex == ifindex)
                    .map(|(_, addr, _)| addr.to_string())
                    .collect();
                Some(Port {
                    interface: interface.name.clone(),
                    ifindex,
                    network: rule.network,
                    attached: match rule.network {
                        Some(_) => self.attached.has((ifindex, Role::Guest)),
                        None => self.limited.is_attached(ifindex, &self.attached),
                    },
                    mac: guest_mac(rule, ifindex, interface, &self.learned)
                        .map(|mac| mac.to_string())
                        .unwrap_or_default(),
                    mtu: match rule.network {
                        Some(_) => rule.mtu.unwrap_or(self.resolved.guest_mtu),
                        None => interface.mtu,
                    },
                    learned: learned.len(),
                    addresses: rule.addresses.iter().map(ToString::to_string).chain(learned).collect(),
                })
            })
            .collect();
        ports.sort_by(|a, b| a.interface.cmp(&b.interface));
        ports
    }

    fn flows(&self, limit: u32) -> Result<Flows> {
        let mut all = self.edge.flows()?;
        let total = all.len();
        all.sort_by_key(|(key, slot)| (std::cmp::Reverse(slot.out_bytes + slot.in_bytes), *key));
        all.truncate(limit as usize);
        let now = monotonic_ns();
        Ok(Flows { total, flows: all.iter().map(|(key, slot)| self.flow(key, slot, now)).collect() })
    }

    fn flow(&self, key: &FlowSlotKey, slot: &FlowSlot, now: u64) -> Flow {
        let at = |addr, port| match key.key.proto {
            6 | 17 => SocketAddr::new(address(addr), port).to_string(),
            _ => address(addr).to_string(),
        };
        Flow {
            protocol: match key.key.proto {
                6 => "tcp".into(),
                17 => "udp".into(),
                other => other.to_string(),
            },
            source: at(key.key.saddr, key.key.sport),
            destination: at(key.key.daddr, key.key.dport),
            network: key.vni,
            phase: PHASES.get(slot.flow.phase as usize).copied().unwrap_or("?").into(),
            out_bytes: slot.out_bytes,
            out_segments: slot.out_segments,
            in_bytes: slot.in_bytes,
            in_segments: slot.in_segments,
            cell: slot.balance.cell,
            label: slot.balance.label,
            diverted_segments: slot.divert.bounced.wrapping_sub(slot.divert.drained),
            age_seconds: now.saturating_sub(slot.flow.last_seen) as f64 / 1e9,
            congestion: self.config.congestion.as_ref().and_then(|config| slot.vcc.connection(config)).map(congestion),
        }
    }

    fn paths(&self, of: impl Fn(&PeerRule) -> bool) -> Vec<Path> {
        let ids = self.edge.peers().unwrap_or_default();
        let ids: BTreeMap<_, u32> = ids.into_iter().map(|(id, peer)| (address(peer.tunnel.remote), id)).collect();
        let peers = self.config.peers.iter().zip(&self.resolved.peers);
        peers
            .filter(|(peer, _)| of(peer))
            .map(|(peer, (local, uplink))| {
                let (labels, whose) = labels_from(&self.config, &self.learnt, peer);
                Path {
                    peer: peer.name.clone(),
                    address: peer.address.to_string(),
                    local: local.to_string(),
                    uplink: self.interfaces.get(uplink).map_or_else(|| format!("#{uplink}"), |i| i.name.clone()),
                    plain_vxlan: peer.plain_vxlan,
                    known: self.known_paths(peer, ids.get(&peer.address).copied()),
                    labels,
                    labels_from: whose.into(),
                    wire_version: self.wire_version(peer, ids.get(&peer.address).copied()),
                    mtu: self.path_mtus.of(peer.address),
                    heard_seconds: ids.get(&peer.address).and_then(|id| self.heard_ago(*id)),
                    discovery: self.discovered(peer),
                    guests: peer.guests.iter().map(|guest| format!("{}:{}", guest.network, guest.prefix)).collect(),
                }
            })
            .collect()
    }

    fn peers_heard(&self) -> usize {
        let Ok(peers) = self.edge.peers() else { return 0 };
        let lately = |id: u32| self.heard_ago(id).is_some_and(|seconds| seconds < 60.0);
        peers.iter().filter(|(id, _)| lately(*id)).count()
    }

    fn heard_ago(&self, peer: u32) -> Option<f64> {
        self.edge.heard(peer).ok()??.age_seconds(monotonic_ns())
    }

    fn counters(&self, tally: &Tally) -> Result<Vec<CounterValue>> {
        let counters = self.edge.counters()?;
        let value = |c: &Counter| CounterValue { name: c.name().into(), value: counters.get(*c) };
        let of_fastlane = [self.fastlane_counters(), self.report_counters(&tally.reports)].concat();
        let of_fastlane =
            of_fastlane.iter().map(|(name, _, value)| CounterValue { name: (*name).into(), value: *value });
        Ok(Counter::ALL.iter().map(value).chain(of_fastlane).collect())
    }

    /// OpenMetrics text.
    pub(super) fn metrics(&self, tally: &Tally) -> String {
        let keeps = self.config.balance.keeps().is_some();
        let receiver = self.reordering.as_ref().map(ReorderThread::stats).unwrap_or_default();
        let mtus = self.path_mtus.stats;
        let traced = self.tracer.as_ref().map(|tracer| (tracer.stats, tracer.totals()));
        let (traced, (traced_peers, known_paths)) = traced.unwrap_or((self.traced, (0, 0)));
        let attached = |role| self.attached.count(role) as f64;
        let snapshot = Snapshot {
            counters: self.edge.counters().unwrap_or_default(),
            own_counters: [
                vec![
                    ("reloads", "Configurations taken while running", tally.reloads),
                    ("reload_failures", "Configurations refused while running", tally.reload_failures),
                    ("learned_refused", "Guests' addresses that were not learned", tally.refused),
                    ("flows_expired", "Flows forgotten after their idle time", tally.expired),
                    ("facks_sent", "Reports sent to peers in packets of their own", tally.sent.facks),
                    ("marks_sent", "Counts of marks sent to peers in packets of their own", tally.sent.marks),
                    ("window_updates_sent", "Guests told of a larger window", tally.sent.window_updates),
                    ("timeouts_inferred", "Guests made to retransmit by duplicate ACKs", tally.sent.timeouts),
                    (
                        "full_ticks",
                        "Looks for timeouts that were continued later, for want of room to tell of them",
                        tally.full_ticks,
                    ),
                    ("send_failures", "Packets of the edge's own that could not be sent", tally.sent.failures),
                    ("receiver_held_segments", "Segments that waited behind a gap", receiver.reorder.segments_held),
                    (
                        "receiver_gaps_filled",
                        "Segments released because the gap before them filled",
                        receiver.reorder.gaps_filled,
                    ),
                    ("receiver_timeouts", "Segments released because it did not in time", receiver.reorder.timeouts),
                    (
                        "receiver_overflows",
                        "Times that the receiver was full and released a flow",
                        receiver.reorder.overflows,
                    ),
                    ("receiver_lost_segments", "Segments that the receiver could not give back", receiver.lost),
                    ("probes_sent", "Probes of path discovery sent", traced.probes),
                    ("probe_bytes_sent", "Bytes of these, IP header included", traced.probe_bytes),
                    ("probe_failures", "Probes that the host could not send", traced.failures),
                    ("probe_hops_heard", "Answers of routers to probes", traced.hops),
                    ("probe_replies_heard", "Answers of peers to probes", traced.replies),
                    ("probe_answers_ignored", "Answers that are of no probe sent lately", traced.ignored),
                    ("path_changes", "Times that the paths to a peer changed", traced.changes),
                    ("path_mtu_changes", "Times that the MTU of the path to a peer became smaller", mtus.changes),
                    ("path_mtu_ignored", "ICMP messages of MTUs that changed nothing", mtus.ignored),
                ],
                self.fastlane_counters(),
                self.report_counters(&tally.reports),
            ]
            .concat(),
            gauges: [
                vec![
                    ("flows", "Flows remembered at the last sweep", self.swept.kept as f64),
                    ("flows_limit", "Flows that can be remembered", f64::from(self.config.max_flows)),
                    ("ports", "Guests' interfaces with a program", attached(Role::Guest)),
                    ("uplinks", "Uplinks with a program", attached(Role::Uplink)),
                    ("uplinks_down", "Uplinks whose link is down or that are missing", self.uplinks_down() as f64),
                    ("other_edges", "Edges of this host under other pins", self.other_edges().len() as f64),
                    ("receiver_flows", "Flows that the receiver knows", receiver.flows as f64),
                    ("traced_peers", "Peers whose paths are traced", traced_peers as f64),
                    ("known_paths", "Paths discovered, over all peers", known_paths as f64),
                    (
                        "path_mtus",
                        "Peers to which the path carries less than the uplink",
                        self.path_mtus.all().len() as f64,
                    ),
                    ("peers", "Peers configured", self.config.peers.len() as f64),
                    (
                        "peers_heard",
                        "Peers, plain ones aside, that have sent something in the last minute",
                        self.peers_heard() as f64,
                    ),
                    (
                        "peers_unanswered",
                        "Peers that send nothing although this host sends to them, and answer no probe",
                        self.silent.unanswered() as f64,
                    ),
                    (
                        "peers_without_edge",
                        "Peers that are configured as edges and send plain VXLAN",
                        self.silent.no_edges() as f64,
                    ),
                    ("learned_addresses", "Guests' addresses learned", self.learned.iter().count() as f64),
                    (
                        "problems",
                        "Things that do not work now; selvedge ctl status names them",
                        self.told_problems().len() as f64,
                    ),
                ],
                self.fastlane_gauges(),
            ]
            .concat(),
            limits: self.limits(),
            paths: if keeps { self.paths(|_| true) } else { Vec::new() },
            tenants: self.tenants().ok().flatten(),
        };
        snapshot.text()
    }
}

/// By its name or its address, however that is written.
fn is_named(peer: &PeerRule, word: &str) -> bool {
    peer.name == word || word.parse::<IpAddr>() == Ok(peer.address)
}

fn receiver_status(receiver: &ReorderThread) -> protocol::ReorderStatus {
    let Stats { reorder, flows, lost } = receiver.stats();
    protocol::ReorderStatus {
        interface: reordering::NAME.into(),
        flows,
        segments: reorder.packets,
        held_segments: reorder.segments_held,
        gaps_filled: reorder.gaps_filled,
        timeouts: reorder.timeouts,
        overflows: reorder.overflows,
        lost_segments: lost,
    }
}

fn congestion(c: Connection) -> FlowCongestion {
    FlowCongestion {
        law: Some(c.law).name().into(),
        window_bytes: c.window.map(Bytes::get),
        cwnd_bytes: c.cwnd.get(),
        alpha: f64::from(c.alpha) / f64::from(ONE),
        marked_bytes: c.marked.get(),
        policed_segments: c.policed_segments,
        rtt_seconds: c.srtt.as_ns() as f64 / 1e9,
        peer_reports: c.aware,
    }
}
