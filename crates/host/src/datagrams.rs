//! Datagrams: a workload that sends at a constant rate, whatever becomes of them.

use crate::connection::{flow_hash, wire_len};
use crate::experiment::{guest_address, SERVER_PORT};
use crate::workload::{Datagrams, FlowSpec};
use fabric::Packet;
use sim::{Purpose, Stream};
use units::Time;
use wire::proto;

/// `Packet::flow` of datagrams: this, and the number of their sender. Ends of connections are below, probes above all senders.
pub(crate) const DATAGRAM: u32 = 1 << 31;

/// Senders at once: their numbers stay below those of probes.
pub(crate) const MAX_SENDERS: usize = 1 << 30;

/// A socket's send buffer, bytes of payload (Linux: `net.core.wmem_default`). What does not fit is not sent.
const SEND_BUFFER: u64 = 212_992;

const HEADERS: u16 = 28;

#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) record: u32,
    pub(crate) src: u32,
    pub(crate) live: bool,
    packet: Packet,
    /// Between datagrams, on average.
    gap: Time,
    random: Stream,
    /// Payload in the host's queues.
    queued: u64,
    sent: u32,
}

impl Sender {
    /// Datagrams of a flow as large as an `mtu` allows.
    pub(crate) fn new(
        (seed, number): (u64, usize),
        spec: &FlowSpec,
        record: u32,
        kind: Datagrams,
        guest: u8,
        mtu: u16,
        priority: u8,
    ) -> Sender {
        let payload = u32::from(mtu.saturating_sub(HEADERS)).max(1);
        let headers = wire::Packet {
            saddr: guest_address(spec.src, guest),
            daddr: guest_address(spec.dst, guest),
            payload,
            sport: 10_000 + (number % 50_000) as u16,
            dport: SERVER_PORT,
            proto: proto::UDP,
            family: 4,
            ip_header_len: 20,
            l4_header_len: 8,
            ..wire::Packet::default()
        };
        let packet = Packet {
            src: spec.src,
            dst: spec.dst,
            hash: flow_hash(&headers),
            flow: DATAGRAM + number as u32,
            wire_len: wire_len(8 + payload),
            priority,
            headers,
            ..Packet::default()
        };
        let random = Stream::new(seed, number as u64, Purpose::Datagrams);
        let gap = kind.rate.tx_time(u64::from(payload)).max(Time::from_ns(1));
        Sender { record, src: spec.src, live: true, packet, gap, random, queued: 0, sent: 0 }
    }

    /// The next datagram, if the socket has room for it; and when the one after it is due.
    pub(crate) fn next(&mut self, now: Time) -> (Option<Packet>, Time) {
        let payload = u64::from(self.packet.headers.payload);
        let fits = self.queued + payload <= SEND_BUFFER;
        let mut packet = self.packet;
        packet.headers.seq = self.sent;
        self.sent = self.sent.wrapping_add(1);
        if fits {
            self.queued += payload;
        }
        // Half to one and a half times the mean gap: senders at a constant rate fall into step, and one of them loses everything.
        let gap = self.gap.as_ps() / 2 + self.random.below(self.gap.as_ps().max(1));
        (fits.then_some(packet), now.saturating_add(Time::from_ps(gap)))
    }

    /// Payload has left the host, or was dropped there.
    pub(crate) fn left(&mut self, bytes: u64) {
        self.queued = self.queued.saturating_sub(bytes);
    }
}
