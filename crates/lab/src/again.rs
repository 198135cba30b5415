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
        while let Some(Resend { slot: Slot(id), index: number }) = self.hosts[index].edge.poll_resend() {
            let Some(segment) = self.hosts[index].kept.get(&id) else { continue };
            match copy(segment, number, &mut self.pool) {
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

/// A packet of a segment in a frame of its own; `None`: there is no room for one.
fn copy(segment: &Packet, number: u32, pool: &mut Pool) -> Option<Packet> {
    let packet = frame::cut(segment, number);
    let original = pool.header(segment.slot);
    let from = pool.frame(segment.slot);
    let head = frame::head(from, &original, &packet.headers, number as u16, true)?;
    let start = frame::payload_start(from, &packet.headers)? + packet.flow as usize;
    let payload = from.get(start..start + packet.headers.payload as usize)?;
    let bytes = [&head.bytes, payload].concat();
    let slot: FrameId = pool.insert(head.vnet, &bytes)?;
    Some(Packet { slot, flow: 0, again: true, wire_len: frame::wire_len(bytes.len() as u32), ..packet })
}
