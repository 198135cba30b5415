//! Drops that concern another edge (docs/wire.md).
//!
//! This host keeps what it drops on the way from a sender elsewhere to a guest here, and tells the sender's edge. When that edge
//! asks for a packet, this host puts it into the queue again that has dropped it.
//!
//! A drop that a peer tells of is decided like one of this host's own. But the peer has the bytes, so this host asks the peer for them.

use super::held;
use super::said::FromPeer;
use super::segment::{part, Segment};
use super::waiting::{Packet, Sends};
use super::work::Worker;
use edge::fastlane::Decision;
use kernel::emit::Uplink;
use kernel::monotonic_ns;
use kernel::state::fastlane::{FastCall, FAST_DROPPED, FAST_DUE, FAST_ELSEWHERE};
use wire::dropped::{age, at, Dropped};
use wire::encap::Shim;
use wire::{proto, FlowKey};

/// Of drops: no room in a queue.
const QUEUE: u8 = 1;
/// Of packets that are to be sent again: TCP's ACK field is a timestamp, which those get that have an older one.
const STAMPED: u8 = 1;
/// Outer source ports of packets without a label (docs/wire.md).
const PORTS: u16 = 0x8000;
const PORT_MASK: u16 = 0x3fff;

impl Worker {
    /// This host has dropped a segment of a guest elsewhere: as much of it as there is room for is kept, and its edge hears of that.
    pub(super) fn tell_peer(&mut self, segment: &Segment<'_>) {
        let drop = &segment.drop;
        let now = monotonic_ns();
        let Ok(Some(port)) = self.watch.port(drop.key.port) else { return };
        let mut kept = 0;
        while kept < segment.packets() {
            let Some(frame) = segment.frame(kept, 1) else {
                self.stats.unreadable += 1;
                break;
            };
            let packet = held::Packet { peer: drop.peer, network: port.vni, way: queue_of(segment), frame };
            if !self.held.put(drop.key, segment.call(kept, FAST_DROPPED).seq, packet, now) {
                self.stats.full += 1;
                break;
            }
            kept += 1;
        }
        if kept == 0 {
            return;
        }
        let call = segment.call(0, FAST_DROPPED);
        let packet = wire::Packet {
            window: age(monotonic_ns().saturating_sub(drop.time)),
            segment_size: if kept > 1 { drop.segment_size } else { 0 },
            tcp_flags: segment.flags(0, kept),
            payload: segment.range(0, kept).1,
            ..sent_by(&drop.key.key.reversed(), &call)
        };
        if self.say(drop.peer, drop.key.port, &Dropped { kind: Shim::DROP, detail: QUEUE, packet }) {
            self.stats.told_peers += u64::from(kept);
        }
    }

    /// A peer has dropped packets of a guest of this host.
    pub(super) fn peer_dropped(&mut self, from: &FromPeer) {
        let p = &from.packet;
        let (packets, size) = (p.packet_count(), if p.segment_size == 0 { p.payload } else { p.segment_size.into() });
        if packets > Dropped::MAX_PACKETS || !self.quota.admits(from.key.port, p.payload, packets, monotonic_ns()) {
            self.stats.peers_withheld += u64::from(packets);
            return;
        }
        let mut asked: Option<FastCall> = None;
        for n in 0..packets {
            let start = n * size;
            let mut call = FastCall {
                key: from.key,
                seq: p.seq.wrapping_add(start),
                ack: p.ack,
                payload: size.min(p.payload - start),
                tcp_flags: part(p.tcp_flags, n, 1, packets),
                what: FAST_ELSEWHERE,
                dropped: at(p.window, from.time),
                ..FastCall::default()
            };
            let decision = self.watch.decide(&mut call).unwrap_or(Decision::Untracked);
            self.stats.note_peers(decision);
            let together = asked.filter(|before| (before.stamped, before.stamp) == (call.stamped, call.stamp));
            if let (Decision::Resend, Some(before)) = (decision, together) {
                asked = Some(FastCall {
                    payload: before.payload + call.payload,
                    tcp_flags: before.tcp_flags | call.tcp_flags,
                    ..before
                });
                continue;
            }
            if let Some(before) = asked.take() {
                self.ask_peer(from.peer, &before);
            }
            match decision {
                Decision::Resend => asked = Some(call),
                Decision::Later => self.keep_for_peer(from.peer, call),
                Decision::Tell => self.tell(&call, from.guest),
                _ => {}
            }
        }
        if let Some(call) = asked {
            self.ask_peer(from.peer, &call);
        }
    }

    fn keep_for_peer(&mut self, peer: u32, call: FastCall) {
        let packet = Packet { call: FastCall { what: FAST_DUE, ..call }, sends: Sends::Peer(peer) };
        if !self.waiting.put(call.due, packet) {
            self.stats.full += 1;
            self.give_up(call);
        }
    }

    /// The peer that has dropped these bytes is to send them again. Of the guest's timestamps it knows less than this edge.
    pub(super) fn ask_peer(&mut self, peer: u32, call: &FastCall) {
        let packet = sent_by(&call.key.key, call);
        let (detail, ack) = if call.stamped != 0 { (STAMPED, call.stamp) } else { (0, packet.ack) };
        let packet = wire::Packet { ack, ..packet };
        if self.say(peer, call.key.port, &Dropped { kind: Shim::AGAIN, detail, packet }) {
            self.stats.asked_peers += 1;
        }
    }

    /// A peer asks for what this host has dropped of its guest.
    pub(super) fn send_for_peer(&mut self, from: &FromPeer) {
        let Ok(Some(port)) = self.watch.port(from.key.port) else { return };
        let numbers = from.packet.end_seq().wrapping_sub(from.packet.seq);
        let mut sent = 0;
        let (key, seq, now) = (from.key, from.packet.seq, monotonic_ns());
        let sent_before = self.held.is_gone(key, seq, numbers, now);
        for packet in self.held.take_range(key, seq, numbers, now) {
            // Numbers of peers and networks of ports may change meanwhile.
            if packet.peer != from.peer || packet.network != port.vni {
                continue;
            }
            let mut frame = packet.frame;
            if from.detail == STAMPED {
                frame.stamp(from.packet.ack);
            }
            sent += u64::from(self.enter(packet.way, &frame));
        }
        self.stats.resent_for_peers += sent;
        if sent == 0 {
            self.stats.unheld += 1;
            self.stats.unheld_sent += u64::from(sent_before);
        }
    }

    /// False: it could not be said. The sender's timeout is what is left then.
    fn say(&mut self, peer: u32, port: u32, said: &Dropped) -> bool {
        let (Ok(Some(peer)), Ok(Some(port))) = (self.watch.peer(peer), self.watch.port(port)) else { return false };
        if self.uplink.is_none() {
            self.uplink = Uplink::open().ok();
        }
        let Some(uplink) = &self.uplink else { return false };
        let label = PORTS | ((said.packet.sport ^ said.packet.dport) & PORT_MASK);
        let done =
            said.frame().is_ok_and(|(shim, frame)| uplink.send_shim(&peer, port.vni, label, shim, &frame).is_ok());
        self.stats.failures += u64::from(!done);
        done
    }
}

/// That which has dropped it.
fn queue_of(segment: &Segment<'_>) -> kernel::again::Way {
    let drop = &segment.drop;
    kernel::again::Way { device: drop.device, mark: drop.mark, priority: drop.priority }
}

fn sent_by(key: &FlowKey, call: &FastCall) -> wire::Packet {
    let FlowKey { saddr, daddr, sport, dport, .. } = *key;
    let FastCall { seq, ack, payload, tcp_flags, .. } = *call;
    let (proto, family) = (proto::TCP, if wire::address(saddr).is_ipv4() { 4 } else { 6 });
    wire::Packet { saddr, daddr, sport, dport, proto, family, seq, ack, payload, tcp_flags, ..Default::default() }
}
