//! Stock generic receive offload: merges packets as Linux does in one NAPI poll.

use super::segment::{is_mergeable, same_flow, Frames, Part, Segment};
use fabric::Packet;
use std::collections::VecDeque;
use wire::tcp;

/// Segments being built in the current poll: one per flow, as the kernel keeps one.
#[derive(Debug)]
pub(super) struct Gro<P> {
    open: Vec<Segment<P>>,
}

impl<P> Default for Gro<P> {
    fn default() -> Gro<P> {
        Gro { open: Vec::new() }
    }
}

/// The kernel's bound on flows merged at once (`MAX_GRO_SKBS`, per hash bucket there).
const MAX_FLOWS: usize = 8;

impl<P: Part> Gro<P> {
    /// Takes a packet; segments that it completes or evicts go to `up` in order.
    pub(super) fn receive<F: Frames<Part = P>>(&mut self, packet: &Packet, frames: &F, up: &mut VecDeque<Segment<P>>) {
        let h = &packet.headers;
        let found = self.open.iter().position(|s| same_flow(&s.packet.headers, h));
        let mergeable = is_mergeable(packet, frames);
        if let Some(i) = found {
            if mergeable && self.open[i].accepts(packet, frames) {
                self.open[i].append(packet);
                // PSH, or a packet shorter than the others, ends the segment.
                if h.tcp_flags & tcp::PSH != 0 || h.payload < self.open[i].size() {
                    up.push_back(self.open.remove(i));
                }
                return;
            }
            up.push_back(self.open.remove(i));
        }
        if !mergeable || h.tcp_flags & tcp::PSH != 0 {
            up.push_back(Segment::new(*packet));
            return;
        }
        if self.open.len() == MAX_FLOWS {
            up.push_back(self.open.remove(0));
        }
        self.open.push(Segment::new(*packet));
    }

    /// The poll ended: everything goes up.
    pub(super) fn flush(&mut self, up: &mut VecDeque<Segment<P>>) {
        while !self.open.is_empty() {
            up.push_back(self.open.remove(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::Modelled;
    use super::*;

    fn packet(sport: u16, seq: u32, len: u32) -> Packet {
        let headers = wire::Packet {
            sport,
            seq,
            payload: len,
            proto: wire::proto::TCP,
            tcp_flags: tcp::ACK,
            ecn: wire::ecn::ECT0,
            ..wire::Packet::default()
        };
        Packet { headers, ..Packet::default() }
    }

    /// (seq, payload, packets) of everything that one poll pushes up.
    fn poll(packets: &[Packet]) -> Vec<(u32, u32, usize)> {
        let (mut gro, mut up) = (Gro::default(), VecDeque::new());
        packets.iter().for_each(|p| gro.receive(p, &Modelled, &mut up));
        gro.flush(&mut up);
        up.iter().map(|s| (s.packet.headers.seq, s.packet.headers.payload, s.parts.len())).collect()
    }

    #[test]
    fn merges_in_order_packets_of_a_flow() {
        let train: Vec<_> = (0..4).map(|i| packet(1, i * 1460, 1460)).collect();
        assert_eq!(poll(&train), [(0, 5840, 4)]);
    }

    /// Presto's example: P0 P1 P2 P5 P3 P6 P4 P7 P8 leaves stock GRO as six segments.
    #[test]
    fn reordering_breaks_segments() {
        let train: Vec<_> = [0, 1, 2, 5, 3, 6, 4, 7, 8].map(|i| packet(1, i * 1460, 1460)).to_vec();
        assert_eq!(poll(&train).len(), 6);
    }

    #[test]
    fn never_mixes_codepoints_cells_or_flows() {
        let ce = |mut p: Packet| {
            p.headers.ecn = wire::ecn::CE;
            p
        };
        let cell = |mut p: Packet| {
            p.headers.cell = 1;
            p
        };
        assert_eq!(poll(&[packet(1, 0, 1460), ce(packet(1, 1460, 1460))]).len(), 2);
        assert_eq!(poll(&[packet(1, 0, 1460), cell(packet(1, 1460, 1460))]).len(), 2);
        assert_eq!(poll(&[packet(1, 0, 1460), packet(2, 0, 1460), packet(1, 1460, 1460)]).len(), 2);
    }

    #[test]
    fn push_and_short_packets_end_a_segment() {
        let mut last = packet(1, 1460, 1460);
        last.headers.tcp_flags |= tcp::PSH;
        assert_eq!(poll(&[packet(1, 0, 1460), last, packet(1, 2920, 1460)]), [(0, 2920, 2), (2920, 1460, 1)]);
        assert_eq!(
            poll(&[packet(1, 0, 1460), packet(1, 1460, 10), packet(1, 1470, 10)]),
            [(0, 1470, 2), (1470, 10, 1)]
        );
    }

    #[test]
    fn pure_acks_pass_after_what_their_flow_holds() {
        let mut ack = packet(1, 1460, 0);
        ack.headers.ack = 7;
        assert_eq!(poll(&[packet(1, 0, 1460), ack]), [(0, 1460, 1), (1460, 0, 1)]);
    }

    #[test]
    fn a_segment_fits_an_ip_packet() {
        let train: Vec<_> = (0..50).map(|i| packet(1, i * 1460, 1460)).collect();
        let sizes = poll(&train);
        assert!(sizes.iter().all(|s| s.1 <= 65_475) && sizes.len() == 2, "{sizes:?}");
    }
}
