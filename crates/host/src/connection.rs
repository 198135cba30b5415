//! A modelled connection, and the conversion between its segments and packets.

use crate::experiment::{guest_address, ETHERNET_OVERHEAD};
use crate::nic::Segment as RxSegment;
use crate::tcp::pfabric::Rank;
use crate::tcp::{Endpoint, Segment};
use crate::workload::FlowSpec;
pub(crate) use fabric::flow_hash;
use fabric::Packet;
use sim::TimerId;
use std::collections::VecDeque;
use wire::{proto, tcp, TcpOptions};

/// Index of a connection; one of its ends is `2 * connection + end`.
pub(crate) type ConnectionId = u32;

/// One end of a connection, as packets name their receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId(pub u32);

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

impl EndId {
    pub(crate) fn new(connection: ConnectionId, end: usize) -> EndId {
        EndId(2 * connection + end as u32)
    }
    pub(crate) fn connection(self) -> usize {
        (self.0 / 2) as usize
    }
    pub(crate) fn end(self) -> usize {
        (self.0 % 2) as usize
    }
    pub(crate) fn peer(self) -> EndId {
        EndId(self.0 ^ 1)
    }
}

/// A connection's place in an MPTCP connection: that one's number, and its own among the subflows.
pub(crate) type Place = (u32, usize);

/// The least [`Packet::flow`] that is no connection's.
pub(crate) const NO_CONNECTION: u32 = TRACE;
/// `Packet::flow` of a probe of path discovery, also of one that a switch turned back.
pub(crate) const TRACE: u32 = u32::MAX - 3;
/// The destination's answer to it.
pub(crate) const REPLY: u32 = u32::MAX - 2;
/// `Packet::flow` of an RTT probe on its way out.
pub(crate) const PROBE: u32 = u32::MAX - 1;
/// The same on its way back.
pub(crate) const ECHO: u32 = u32::MAX;

/// A message of the application, from its first byte written to its completion.
#[derive(Debug)]
pub(crate) struct Message {
    pub spec: FlowSpec,
    /// Index of its flow record.
    pub record: u32,
    /// Where it starts and ends in the client's stream.
    pub begins: u64,
    pub ends: Option<u64>,
    /// How many of its bytes had reached the server's host, in order or not, when that was last noted.
    pub arrived: u64,
    /// Where its reply ends in the server's stream, once the server has written it.
    pub reply_ends: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// Client and server.
    pub hosts: [u32; 2],
    /// Of both hosts: [`crate::workload::Workload::guest`].
    pub guest: u8,
    /// The client's port, new for each connection, so that late packets of a predecessor are recognised.
    pub sport: u16,
    /// The server's.
    pub dport: u16,
    pub ends: [Endpoint; 2],
    pub timers: [TimerId; 2],
    /// Flow hash of the packets that each end sends.
    pub hashes: [u32; 2],
    /// Messages not yet complete, in stream order.
    pub messages: VecDeque<Message>,
    pub written: u64,
    pub replies_written: u64,
    /// Of its workload.
    pub priority: u8,
    /// The server's answer is its flow: see [`FlowSpec::request`].
    pub answers: bool,
    /// Kept for further messages.
    pub persistent: bool,
    /// Path labels used by the client's data since a message last completed, one bit each (labels above 63 share the
    /// last).
    pub labels: u64,
    /// What the ends had counted when a message last completed: what came after belongs to the first of `messages`.
    pub counted: Counted,
    pub live: bool,
    /// It is a subflow of MPTCP.
    pub group: Option<Place>,
}

/// What a flow record tells of its connection: data from the client to the server, or an answer with its request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub retransmitted_segments: u32,
    pub fast_retransmits: u32,
    pub timeouts: u32,
    pub out_of_order: u32,
    pub segments_received: u32,
}

impl Counted {
    pub(crate) fn plus(self, other: Counted) -> Counted {
        Counted {
            retransmitted_segments: self.retransmitted_segments.wrapping_add(other.retransmitted_segments),
            fast_retransmits: self.fast_retransmits.wrapping_add(other.fast_retransmits),
            timeouts: self.timeouts.wrapping_add(other.timeouts),
            out_of_order: self.out_of_order.wrapping_add(other.out_of_order),
            segments_received: self.segments_received.wrapping_add(other.segments_received),
        }
    }
}

/// Octets on the wire of an IPv4 packet with `l4_len` bytes of transport header and payload; Ethernet frames have at
/// least 64 octets, 84 with preamble and gap.
pub(crate) fn wire_len(l4_len: u32) -> u32 {
    (l4_len + 20 + ETHERNET_OVERHEAD.get() as u32).max(84)
}

impl Connection {
    pub(crate) fn count(&self) -> Counted {
        let of = |sender: usize| self.count_of(sender);
        if self.answers {
            let (request, answer) = (of(CLIENT), of(SERVER));
            return Counted { out_of_order: 0, segments_received: 0, ..request }.plus(answer);
        }
        of(CLIENT)
    }

    fn count_of(&self, sender: usize) -> Counted {
        let (tx, rx) = (&self.ends[sender].tx.counters, &self.ends[1 - sender].rx.counters);
        Counted {
            retransmitted_segments: tx.retransmitted_packets as u32,
            fast_retransmits: tx.fast_retransmits,
            timeouts: tx.timeouts,
            out_of_order: rx.out_of_order as u32,
            segments_received: rx.segments as u32,
        }
    }

    /// The packet, or the segment for the NIC to split, that carries what `end` sends.
    pub(crate) fn packet(&self, id: EndId, segment: &Segment) -> Packet {
        let end = id.end();
        let (src, dst) = (self.hosts[end], self.hosts[1 - end]);
        let ports = [self.sport, self.dport];
        let headers = wire::Packet {
            saddr: guest_address(src, self.guest),
            daddr: guest_address(dst, self.guest),
            seq: segment.seq,
            ack: segment.ack,
            payload: segment.len,
            sport: ports[end],
            dport: ports[1 - end],
            segment_size: if segment.len > u32::from(segment.segment_size) { segment.segment_size } else { 0 },
            window: segment.window,
            mss: segment.mss,
            proto: proto::TCP,
            family: 4,
            tcp_flags: segment.flags,
            ecn: segment.ecn,
            wscale: segment.wscale.map_or(0, |shift| shift + 1),
            ip_header_len: 20,
            l4_header_len: segment.header_len() as u8,
            ..wire::Packet::default()
        };
        let options = TcpOptions {
            sack_permitted: segment.sack_permitted,
            timestamps: segment.has_ts.then_some((segment.tsval, segment.tsecr)),
            sack: segment.sack,
            n_sack: segment.n_sack,
            timeouts: segment.timeouts,
            held: segment.held,
            hidden: None,
        };
        let (hash, flow, priority) = (self.hashes[end], id.peer().0, self.priority);
        let probe = if segment.probe { fabric::Probe::Asks } else { fabric::Probe::None };
        let rank = self.rank(end, segment);
        Packet { src, dst, hash, flow, priority, rank, probe, headers, options, ..Packet::default() }
    }

    /// What ranks a segment where switches do: by the message that it belongs to.
    fn rank(&self, end: usize, segment: &Segment) -> u32 {
        let sender = &self.ends[end];
        let Some(options) = sender.config().pfabric.filter(|_| segment.len > 0) else { return 0 };
        let at = sender.tx.offset_of(segment.seq);
        let of = |message: &Message| match end {
            CLIENT => Some((message.begins, message.ends?)),
            _ => message.reply_ends.map(|ends| (ends - message.spec.reply_bytes(), ends)),
        };
        let mut messages = self.messages.iter().filter_map(of);
        let (begins, ends) = messages.find(|(_, ends)| at < *ends).unwrap_or((0, sender.tx.written()));
        let bytes = match options.rank {
            Rank::Size => ends - begins,
            Rank::Remaining => ends.saturating_sub(at),
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// The flow of what `end` sends.
    pub(crate) fn key(&self, end: usize) -> wire::FlowKey {
        let ports = [self.sport, self.dport];
        wire::FlowKey::new(
            guest_address(self.hosts[end], self.guest),
            guest_address(self.hosts[1 - end], self.guest),
            ports[end],
            ports[1 - end],
            proto::TCP,
        )
    }

    /// Whether `id` of this connection, and no predecessor in its slot, has sent a packet.
    pub(crate) fn has_sent(&self, id: EndId, packet: &Packet) -> bool {
        let port = if id.end() == CLIENT { packet.headers.sport } else { packet.headers.dport };
        self.live && port == self.sport
    }

    /// Whether a packet for `id` belongs to this connection and not to a predecessor in its slot.
    pub(crate) fn owns(&self, id: EndId, packet: &Packet) -> bool {
        let port = if id.end() == CLIENT { packet.headers.dport } else { packet.headers.sport };
        self.live && port == self.sport
    }
}

/// What TCP sees of a received segment.
pub(crate) fn received(segment: &RxSegment) -> Segment {
    let (h, o) = (&segment.packet.headers, &segment.packet.options);
    let (tsval, tsecr) = o.timestamps.unwrap_or_default();
    Segment {
        seq: h.seq,
        ack: h.ack,
        len: h.payload,
        flags: h.tcp_flags,
        ecn: h.ecn,
        window: h.window,
        segment_size: if h.segment_size != 0 { h.segment_size } else { h.payload.min(u32::from(u16::MAX)) as u16 },
        mss: h.mss,
        wscale: h.wscale.checked_sub(1),
        sack_permitted: o.sack_permitted,
        sack: o.sack,
        n_sack: o.n_sack,
        has_ts: o.timestamps.is_some(),
        tsval,
        tsecr,
        timeouts: o.timeouts,
        held: o.held,
        probe: segment.packet.probe == fabric::Probe::Answers,
        is_retransmission: false,
    }
}

/// The `i`-th packet that a NIC makes of a segment.
pub(crate) fn split(segment: &Packet, i: u32) -> Packet {
    let mut packet = *segment;
    cut(&mut packet, i);
    packet
}

/// Makes the `i`-th packet of a segment: sequence number, length and flags as TSO sets them.
pub(crate) fn cut(packet: &mut Packet, i: u32) {
    let h = &mut packet.headers;
    let size = u32::from(h.segment_size);
    if size != 0 {
        let offset = i * size;
        let last = offset + size >= h.payload;
        h.seq = h.seq.wrapping_add(offset);
        h.payload = if last { h.payload - offset } else { size };
        h.segment_size = 0;
        if !last {
            h.tcp_flags &= !(tcp::PSH | tcp::FIN);
        }
        if i > 0 {
            h.tcp_flags &= !tcp::CWR;
        }
    }
    packet.wire_len = wire_len(u32::from(h.l4_header_len) + h.payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_segment_keeps_every_byte_and_moves_flags_to_the_edges() {
        let headers = wire::Packet {
            seq: u32::MAX - 1000,
            payload: 3000,
            segment_size: 1460,
            l4_header_len: 20,
            tcp_flags: tcp::ACK | tcp::PSH | tcp::CWR,
            label: 7,
            cell: 9,
            has_cell: 1,
            ..Default::default()
        };
        let segment = Packet { headers, ..Packet::default() };
        let parts: Vec<_> = (0..segment.headers.packet_count()).map(|i| split(&segment, i).headers).collect();
        assert_eq!(parts.iter().map(|h| h.payload).collect::<Vec<_>>(), [1460, 1460, 80]);
        assert_eq!(parts[1].seq, 459);
        assert!(parts.iter().all(|h| (h.label, h.cell, h.has_cell) == (7, 9, 1)));
        let flags: Vec<_> = parts.iter().map(|h| h.tcp_flags & !tcp::ACK).collect();
        assert_eq!(flags, [tcp::CWR, 0, tcp::PSH]);
        assert_eq!(split(&segment, 0).wire_len, 1538);
        assert_eq!(split(&segment, 2).wire_len, 158);
    }

    #[test]
    fn small_packets_fill_a_minimum_frame() {
        assert_eq!(wire_len(20), 84);
        assert_eq!(wire_len(1480), 1538);
    }
}
