//! FastLane's calls of an [`Edge`].

use super::Edge;
use crate::fastlane::{dropped_key, Resend};
use crate::{limiter, Direction, Slot, Transmit, Verdict};
use units::Time;
use wire::Packet;

impl Edge {
    /// Does the edge act on notifications? If not, they are for guests that understand them.
    pub fn acts_on_notifications(&self) -> bool {
        self.fastlane.is_some()
    }

    /// A switch's notification of a packet that it dropped, for the edge of the packet's source: the headers of that packet with its
    /// addresses swapped. No guest gets it. Then drain [`poll_resend`](Edge::poll_resend) and [`poll_transmit`](Edge::poll_transmit).
    pub fn notified(&mut self, now: Time, notification: &Packet) {
        let Some(fastlane) = &mut self.fastlane else { return };
        let key = dropped_key(notification);
        for packet in fastlane.notified(now, self.table.id_of(&key), &key, notification) {
            self.transmit.push_back(Transmit { dir: Direction::Ingress, packet });
        }
    }

    /// After [`process`](Edge::process) of a guest's segment: the driver is to keep that, as it was before, until
    /// [`poll_forgotten`](Edge::poll_forgotten) names its slot.
    pub fn poll_kept(&mut self) -> Option<Slot> {
        self.fastlane.as_mut()?.poll_kept()
    }

    /// Instead of keeping the segment that [`poll_kept`](Edge::poll_kept) has just named: the driver has no room for it.
    pub fn cannot_keep(&mut self, slot: Slot) {
        if let Some(fastlane) = &mut self.fastlane {
            fastlane.cannot_keep(slot);
        }
    }

    /// The next packet to send again. It passes [`process_resent`](Edge::process_resent).
    pub fn poll_resend(&mut self) -> Option<Resend> {
        self.fastlane.as_mut()?.poll_resend()
    }

    /// The next segment that need not be kept. Drain [`poll_resend`](Edge::poll_resend) before.
    pub fn poll_forgotten(&mut self) -> Option<Slot> {
        self.fastlane.as_mut()?.poll_forgotten()
    }

    /// As [`process_limited`](Edge::process_limited), for a packet to the fabric that the edge sends again.
    pub fn process_resent(
        &mut self,
        now: Time,
        slot: Slot,
        pkt: &mut Packet,
        standing: Option<limiter::Standing>,
    ) -> Verdict {
        self.resending = true;
        let verdict = self.process_limited(now, Direction::Egress, slot, pkt, standing);
        self.resending = false;
        verdict
    }
}
