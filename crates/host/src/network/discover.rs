//! Path discovery in a modelled network: the crate [`discovery`] decides what to probe, as in the agent; here are the probes, the
//! switches' answers, and the schedules that follow.
//!
//! Probes wait in the host's NIC queue like its data. Every switch answers every probe at once, and hosts' edges answer without
//! waiting for a poll, as a program in the kernel does.

use super::Network;
use crate::clock::Event;
use crate::connection::{REPLY, TRACE};
use crate::experiment::address;
use crate::outcome::Discovered;
use crate::ports::{self, GUESSED};
use discovery::{Binding, Probe};
use edge::Rebound;
use fabric::{Packet, PacketId, PortId, PORT_LABELS};
use std::net::{IpAddr, Ipv4Addr};
use units::Time;
use wire::{hidden, proto};

/// The port of tunnels (VXLAN's).
const TUNNEL_PORT: u16 = 4789;
/// Bytes of a probe behind UDP's header: VXLAN, shim and an inner Ethernet header (docs/wire.md).
const PROBE_PAYLOAD: u32 = 8 + 8 + 14;
/// Between two looks at a destination's traffic, as a part of the period.
const LOOKS: u64 = 4;

/// What switches hash of a packet: its tunnel's ports where its label is one of them, or else what they hash already.
pub(super) fn outer_hash(packet: &Packet) -> u32 {
    match packet.label {
        port @ PORT_LABELS.. => fabric::flow_hash(&outer(packet.src, packet.dst, port, false)),
        _ => packet.hash,
    }
}

/// The headers of a tunnel between the edges of two hosts, or of a probe of the hidden overlay: an option, and nothing in it.
fn outer(src: u32, dst: u32, port: u16, hidden: bool) -> wire::Packet {
    if hidden {
        let l4_header_len = (20 + hidden::LEN) as u8;
        return wire::Packet { ip_header_len: 20, l4_header_len, ..ports::headers(src, dst, port) };
    }
    wire::Packet {
        saddr: address(src),
        daddr: address(dst),
        sport: port,
        dport: TUNNEL_PORT,
        proto: proto::UDP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 8,
        payload: PROBE_PAYLOAD,
        ..wire::Packet::default()
    }
}

/// A probe, or the answer to one. `ttl` travels where TCP has its sequence number, the probe's port stays the source port.
fn probe(src: u32, dst: u32, port: u16, ttl: u8, flow: u32, hidden: bool) -> Packet {
    let headers = wire::Packet { seq: ttl.into(), ..outer(src, dst, port, hidden) };
    let ttl = if flow == TRACE { ttl } else { 0 };
    Packet { src, dst, hash: fabric::flow_hash(&headers), flow, ttl, headers, ..Packet::default() }
}

/// 10.0.0.1, see [`address`].
const FIRST_HOST: u32 = 0x0a00_0001;
/// 172.16.0.0
const FIRST_HOP: u32 = 0xac10_0000;

/// A host as discovery names it, and a hop: the port by which a switch got a packet, as routers answer with the address of theirs.
fn name_of(host: u32) -> IpAddr {
    Ipv4Addr::from(FIRST_HOST + host).into()
}
fn host_of(name: IpAddr) -> Option<u32> {
    let IpAddr::V4(name) = name else { return None };
    u32::from(name).checked_sub(FIRST_HOST)
}
fn hop_of(port: PortId) -> IpAddr {
    Ipv4Addr::from(FIRST_HOP + port).into()
}
fn port_of(hop: IpAddr) -> Option<PortId> {
    let IpAddr::V4(hop) = hop else { return None };
    u32::from(hop).checked_sub(FIRST_HOP)
}

impl Network<'_> {
    /// There is a segment from one host to another.
    pub(super) fn wants_paths(&mut self, host: u32, to: u32) {
        let (Some(all), Some(config)) = (&mut self.discoverers, &self.experiment.edge.discovery) else { return };
        let plain = &self.experiment.hosts.plain;
        let (now, one) = (self.clock.now(), &mut all[host as usize]);
        let again = one.wants.entry(to).or_default();
        if now < *again || plain.contains(&host) || plain.contains(&to) {
            return;
        }
        *again = now + config.period / LOOKS;
        one.discovery.want(now, name_of(to));
        self.discover(host);
    }

    /// Does what is due of a host's discovery, and sees to it that it is woken when more is.
    pub(crate) fn discover(&mut self, host: u32) {
        let now = self.clock.now();
        let Some(one) = self.discoverers.as_mut().and_then(|all| all.get_mut(host as usize)) else { return };
        one.discovery.handle_timeout(now);
        let mut probes = Vec::new();
        while let Some(Probe { to, port, ttl }) = one.discovery.poll_transmit(now) {
            one.probes += 1;
            probes.extend(host_of(to).map(|to| probe(host, to, port, ttl, TRACE, self.experiment.edge.hidden)));
        }
        while let Some((to, change)) = one.discovery.poll_change() {
            let Some(to) = host_of(to) else { continue };
            let hops = |path: &Binding| path.hops.iter().copied().filter_map(port_of).collect();
            let paths = change.paths.iter().map(|path| (path.port, hops(path))).collect();
            one.log.push(Discovered { at: now, host, to, paths });
            let old = one.labels.get(&to).map_or(&GUESSED[..], Vec::as_slice);
            let places = discovery::schedule(old, &change, edge::MAX_LABELS);
            if places.is_empty() {
                continue; // Nothing better is known than what was.
            }
            let labels: Vec<u16> = places.iter().map(|place| place.port).collect();
            let edge = &mut self.hosts[host as usize].edge;
            let held = edge.relay();
            let rtt = |port| change.paths.iter().find(|path| path.port == port)?.rtt;
            let rebound = |place: &discovery::Place| Rebound {
                kept: place.kept,
                quiet: discovery::quiet(old, place.port, place.was, rtt(place.port), held),
            };
            edge.rebind_schedule(address(to), &labels, |n| places.get(n).map(rebound).unwrap_or_default(), now);
            one.labels.insert(to, labels);
        }
        if one.due.is_some_and(|due| due <= now) {
            one.due = None;
        }
        if let Some(next) = one.discovery.poll_timeout(now) {
            let next = next.max(now + Time::from_us(1));
            if one.due.is_none_or(|due| next < due) {
                one.due = Some(next);
                self.clock.schedule(next, host, Event::Discover);
            }
        }
        probes.into_iter().for_each(|probe| self.send_own(probe));
    }

    /// What was found, host by host, and how many probes that took.
    pub(crate) fn discovered(&self) -> (Vec<Discovered>, u64) {
        let all = self.discoverers.as_deref().unwrap_or_default();
        (all.iter().flat_map(|one| one.log.iter().cloned()).collect(), all.iter().map(|one| one.probes).sum())
    }

    /// Takes a packet of discovery that reached a host. False: it is none.
    #[inline(never)]
    pub(super) fn take_probe(&mut self, host: u32, id: PacketId) -> bool {
        let flow = self.fabric.packets.body(id).flow;
        if flow != TRACE && flow != REPLY {
            return false;
        }
        let now = self.clock.now();
        let packet = self.fabric.packets.take(id);
        let (port, ttl) = (packet.headers.sport, packet.headers.seq as u8);
        // A probe that was turned back bears the name of the host that it was sent to.
        let sent = Probe { to: name_of(packet.src), port, ttl };
        let one = self.discoverers.as_mut().and_then(|all| all.get_mut(host as usize));
        match (packet.turned_at, flow, one) {
            (Some(at), _, Some(one)) => one.discovery.time_exceeded(now, sent, hop_of(at.get() - 1)),
            (None, REPLY, Some(one)) => one.discovery.answered(now, sent),
            _ => {
                self.send_own(probe(host, packet.src, port, ttl, REPLY, self.experiment.edge.hidden));
                return true;
            }
        }
        self.discover(host);
        true
    }
}
