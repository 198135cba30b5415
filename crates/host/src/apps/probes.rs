//! RTT probes: datagrams that every host sends beside the bulk traffic, and their echoes.

use super::Apps;
use crate::clock::Event;
use crate::connection::{flow_hash, wire_len, ECHO, PROBE};
use crate::experiment::guest_address;
use crate::nic::Segment;
use fabric::Packet;
use wire::proto;

/// Bytes.
const PROBE_PAYLOAD: u32 = 64;

impl Apps<'_> {
    /// One probe from every host, to the receiver of its first unbounded flow if it has one.
    pub(crate) fn probe_event(&mut self) {
        let now = self.now();
        let n = self.transport.net.hosts.len() as u32;
        let mut partner: Vec<u32> = (0..n).map(|h| (h + n / 2) % n).collect();
        for flow in self.flows.iter().rev().filter(|f| f.size.is_none()) {
            partner[flow.src as usize] = flow.dst;
        }
        for src in 0..n {
            if partner[src as usize] == src {
                continue;
            }
            let number = self.probes.sent.len() as u32;
            self.probes.sent.push((now, src, None));
            let guest = self.transport.net.experiment.prober();
            self.transport.transmit(probe((src, partner[src as usize]), guest, number, PROBE));
        }
        let next = now + self.transport.net.experiment.record.probe_every;
        if next <= self.transport.net.experiment.duration {
            self.transport.net.schedule_control(next, Event::Probe);
        }
    }

    #[inline(never)]
    pub(super) fn probe_arrived(&mut self, host: u32, segment: &Segment) {
        let (now, number) = (self.now(), segment.packet.headers.seq);
        if segment.packet.flow == PROBE {
            let guest = self.transport.net.experiment.prober();
            self.transport.transmit(probe((host, segment.packet.src), guest, number, ECHO));
        } else if let Some(sent) = self.probes.sent.get_mut(number as usize) {
            sent.2 = Some(now - sent.0);
        }
    }
}

/// A UDP datagram of 64 bytes; `number` travels where TCP has its sequence number.
fn probe((src, dst): (u32, u32), guest: u8, number: u32, flow: u32) -> Packet {
    let headers = wire::Packet {
        saddr: guest_address(src, guest),
        daddr: guest_address(dst, guest),
        seq: number,
        payload: PROBE_PAYLOAD,
        sport: 7,
        dport: 7,
        proto: proto::UDP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 8,
        ..wire::Packet::default()
    };
    let wire_len = wire_len(8 + PROBE_PAYLOAD);
    Packet { src, dst, hash: flow_hash(&headers), flow, wire_len, headers, ..Packet::default() }
}
