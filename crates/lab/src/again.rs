//! What an edge sends again: packets that the fabric has dropped, from the frames of its host's kernel.

use super::driver::Driver;
use super::frame;
use edge::fastlane::Resend;
use edge::{Slot, Verdict};
use fabric::Packet;
use port::{FrameId, Pool};
use units::Time;

/// Frames of the pool that are not for keeping.
const RESERVED: usize = 1024;

impl Driver {
    /// After a segment has passed its edge: keeps its frame if the edge wants it, and the segment as it was `before`.
    pub(super) fn keep(&mut self, host: u32, before: &Packet) {
        let h = &mut self.hosts[host as usize];
        let Some(Slot(id)) = h.edge.poll_kept() else { return };
        // Frames under way come first.
        if self.pool.available() > RESERVED {
            self.pool.share(id, 1);
            h.kept.insert(id, *before);
        } else {
            h.edge.cannot_keep(Slot(id));
        }
    }

    /// Sends what the host's edge sends again, and lets go what it need not keep.
    pub(super) fn send_again(&mut self, host: u32) {
        let now = self.scheduler.now();
        let index = host as usize;
        while let Some(resend) = self.hosts[index].edge.poll_resend() {
            let Slot(id) = resend.slot;
            let Some(segment) = self.hosts[index].kept.get(&id) else { continue };
            match copy(segment, &resend, &mut self.pool) {
                Some(packet) => self.transmit_again(now, host, packet),
                None => self.pool_exhausted += 1,
            }
        }
        while let Some(Slot(id)) = self.hosts[index].edge.poll_forgotten() {
            if self.hosts[index].kept.remove(&id).is_some() {
                self.pool.release(id);
            }
        }
    }

    fn transmit_again(&mut self, now: Time, host: u32, mut packet: Packet) {
        let id = packet.slot;
        match self.egress(now, host, id, &mut packet) {
            Verdict::Forward => self.depart(now, host, id, packet),
            Verdict::Hold => drop(self.hosts[host as usize].held.insert(id, packet)),
            Verdict::Consume | Verdict::Drop(_) => self.pool.release(id),
        }
    }
}

/// A packet of a segment in a frame of its own, with the timestamp that it needs; `None`: there is no room for one.
fn copy(segment: &Packet, resend: &Resend, pool: &mut Pool) -> Option<Packet> {
    let packet = frame::cut(segment, resend.index);
    let original = pool.header(segment.slot);
    let from = pool.frame(segment.slot);
    let mut head = frame::head(from, &original, &packet.headers, resend.index as u16, true)?;
    let start = frame::payload_start(from, &packet.headers)? + packet.flow as usize;
    let payload = from.get(start..start + packet.headers.payload as usize)?;
    if let Some(stamp) = resend.stamp {
        let tcp = frame::l4_start(&head.bytes, &packet.headers)?;
        wire::set_later_timestamp(head.bytes.get_mut(tcp..)?, stamp, !head.vnet.needs_csum());
    }
    let bytes = [&head.bytes, payload].concat();
    let slot: FrameId = pool.insert(head.vnet, &bytes)?;
    Some(Packet { slot, flow: 0, again: true, wire_len: frame::wire_len(bytes.len() as u32), ..packet })
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::tests::{sent, tcp_headers};
    use port::VnetHeader;

    /// Each packet of a segment, cut or not, with a timestamp that is later than its own, which is 1; the rest of it is as it was.
    #[test]
    fn a_packet_is_sent_again_with_the_timestamp_that_it_needs() {
        for (payload, size, index) in [(3000, 1448, 0), (3000, 1448, 2), (100, 0, 0)] {
            let mut pool = Pool::new(4);
            let (frame, vnet) = sent(&tcp_headers(payload), size);
            let slot = pool.insert(vnet, &frame).unwrap();
            let segment = frame::read(&frame, &vnet, 0, 2, slot).unwrap();
            let mut copy = |stamp| {
                let packet = copy(&segment, &Resend { slot: Slot(slot), index, stamp }, &mut pool).unwrap();
                let bytes = pool.frame(packet.slot).to_vec();
                let header: VnetHeader = pool.header(packet.slot);
                pool.release(packet.slot);
                (wire::timestamp(&bytes, &packet.headers), bytes, header)
            };
            let (own, before, header) = copy(None);
            assert_eq!((own, copy(Some(u32::MAX)).0), (Some(1), Some(1)), "that is older");
            let (later, mut after, same) = copy(Some(0x1_0203));
            assert_eq!((later, same), (Some(0x1_0203), header));
            assert!(header.needs_csum(), "the receiving kernel sums it up");
            after[58..62].copy_from_slice(&before[58..62]);
            assert_eq!(after, before);
        }
    }
}
