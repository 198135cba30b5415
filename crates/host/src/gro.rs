//! Stock generic receive offload: merges packets as Linux does in one NAPI poll.

use fabric::Packet;
use wire::tcp;

/// What the driver hands up: one packet, or several of one flow merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RxSegment {
    /// Headers of the first packet with the payload of all; options of the first.
    pub packet: Packet,
    pub packets: u32,
}

impl RxSegment {
    pub(crate) fn new(packet: Packet) -> RxSegment {
        RxSegment { packet, packets: 1 }
    }

    /// Appends the next packet of the same flow. Its PSH and ACK-side news survive, as in Linux.
    pub(crate) fn append(&mut self, next: &Packet) {
        let h = &mut self.packet.headers;
        if h.segment_size == 0 {
            h.segment_size = h.payload.min(u32::from(u16::MAX)) as u16;
        }
        h.payload += next.headers.payload;
        h.tcp_flags |= next.headers.tcp_flags & (tcp::PSH | tcp::FIN);
        h.window = next.headers.window;
        self.packets += 1;
    }
}

/// Segments being built in the current poll: one per flow, as the kernel keeps one.
#[derive(Debug, Default)]
pub(crate) struct Gro {
    open: Vec<RxSegment>,
}

/// The kernel's bound on flows merged at once (`MAX_GRO_SKBS`, per hash bucket there).
const MAX_FLOWS: usize = 8;
/// Payload of a merged segment must fit an IP packet.
const MAX_SEGMENT: u32 = 65_535 - 60;

impl Gro {
    /// Takes a packet; segments that it completes or evicts go to `up` in order.
    pub(crate) fn receive(&mut self, packet: Packet, up: &mut Vec<RxSegment>) {
        let same_flow = |s: &RxSegment| s.packet.flow == packet.flow;
        let found = self.open.iter().position(same_flow);
        let h = &packet.headers;
        let mergeable = h.payload > 0
            && h.proto == wire::proto::TCP
            && h.tcp_flags & (tcp::SYN | tcp::FIN | tcp::RST | tcp::URG | tcp::CWR) == 0;
        if let Some(i) = found {
            if mergeable && fits(&self.open[i], &packet) {
                self.open[i].append(&packet);
                // PSH, or a packet shorter than the others, ends the segment.
                let first_len = u32::from(self.open[i].packet.headers.segment_size);
                if h.tcp_flags & tcp::PSH != 0 || h.payload < first_len {
                    up.push(self.open.remove(i));
                }
                return;
            }
            up.push(self.open.remove(i));
        }
        if !mergeable || h.tcp_flags & tcp::PSH != 0 {
            up.push(RxSegment::new(packet));
            return;
        }
        if self.open.len() == MAX_FLOWS {
            up.push(self.open.remove(0));
        }
        self.open.push(RxSegment::new(packet));
    }

    /// The poll ended: everything goes up.
    pub(crate) fn flush(&mut self, up: &mut Vec<RxSegment>) {
        up.append(&mut self.open);
    }
}

/// Contiguous, with the same headers: label and flowcell number sit in the Ethernet header, which the kernel
/// compares too.
fn fits(open: &RxSegment, packet: &Packet) -> bool {
    let (a, b) = (&open.packet.headers, &packet.headers);
    let size = if a.segment_size == 0 { a.payload } else { u32::from(a.segment_size) };
    a.seq.wrapping_add(a.payload) == b.seq
        && b.payload <= size
        && a.payload + b.payload <= MAX_SEGMENT
        && a.ack == b.ack
        && a.ecn == b.ecn
        && a.tcp_reserved == b.tcp_reserved
        && (a.tcp_flags ^ b.tcp_flags) & !(tcp::PSH | tcp::FIN) == 0
        && (a.label, a.cell) == (b.label, b.cell)
        && open.packet.options == packet.options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32, seq: u32, len: u32) -> Packet {
        let headers = wire::Packet {
            seq,
            payload: len,
            proto: wire::proto::TCP,
            tcp_flags: tcp::ACK,
            ecn: wire::ecn::ECT0,
            ..wire::Packet::default()
        };
        Packet { flow, headers, ..Packet::default() }
    }

    /// (seq, payload, packets) of everything that one poll pushes up.
    fn poll(packets: &[Packet]) -> Vec<(u32, u32, u32)> {
        let (mut gro, mut up) = (Gro::default(), Vec::new());
        packets.iter().for_each(|&p| gro.receive(p, &mut up));
        gro.flush(&mut up);
        up.iter().map(|s| (s.packet.headers.seq, s.packet.headers.payload, s.packets)).collect()
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
