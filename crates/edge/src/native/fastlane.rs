//! Mirrors of `datapath/fastlane.h`.

use super::vcc::{Bound, Conn, SND};
use std::ffi::c_int;
use units::Time;
use wire::{FlowKey, Packet};

/// `SV_FASTLANE_ANEW`
pub(crate) const ANEW: u32 = 0x1;
/// `SV_FASTLANE_BEYOND`
pub(crate) const BEYOND: u32 = 0x2;

/// What to do about a packet that was dropped: `SV_FASTLANE_*` of `datapath/fastlane.h`, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Decision {
    Resend = 1,
    Tell,
    Leave,
    Later,
    Untracked,
    Empty,
    Acked,
    Outside,
    Stale,
    Repeated,
    Unkept,
}

impl Decision {
    pub const ALL: [Decision; 11] = {
        use Decision as D;
        [
            D::Resend,
            D::Tell,
            D::Leave,
            D::Later,
            D::Untracked,
            D::Empty,
            D::Acked,
            D::Outside,
            D::Stale,
            D::Repeated,
            D::Unkept,
        ]
    };

    /// The one with the number that C knows it by; [`Decision::Untracked`] for others.
    pub fn of(number: u32) -> Decision {
        Self::ALL.get(number.wrapping_sub(1) as usize).copied().unwrap_or(Self::Untracked)
    }
}

/// `struct sv_fastlane`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FastLane {
    pub(crate) conn: Conn,
    pub(crate) bound: Bound,
    cut_end: u32,
    before: u32,
    rest: u32,
    flags: u32,
}
const _: () = assert!(size_of::<FastLane>() == 104);

/// `struct sv_fastlane_copy`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Copies {
    pub(crate) sent_ns: u64,
    pub(crate) seq: u32,
    pub(crate) end: u32,
    pub(crate) copies: u16,
    pub(crate) dropped: u16,
    pub(crate) own: u16,
    pub(crate) waits: u16,
}
const _: () = assert!(size_of::<Copies>() == 24);

extern "C" {
    fn sv_edge_fastlane_out(f: *mut FastLane, p: *mut Packet, now: u64) -> u32;
    fn sv_edge_fastlane_in(f: *mut FastLane, p: *mut Packet, now: u64) -> u32;
    fn sv_edge_fastlane_notified(f: *mut FastLane, c: *mut Copies, p: *const Packet, dropped: u64, now: u64) -> u32;
    #[cfg(test)]
    fn sv_edge_fastlane_reported(f: *mut FastLane, c: *mut Copies, p: *const Packet, now: u64) -> u32;
    fn sv_edge_fastlane_due_at(f: *const FastLane, c: *const Copies) -> u64;
    fn sv_edge_fastlane_due(f: *mut FastLane, c: *mut Copies, now: u64) -> u32;
    fn sv_edge_fastlane_again(f: *const FastLane, c: *mut Copies, now: u64) -> c_int;
    fn sv_edge_fastlane_ack(f: *const FastLane, k: *const FlowKey, p: *mut Packet);
}

impl FastLane {
    /// The number after the newest byte that the guest has sent.
    pub(crate) fn sent_before(&self) -> Option<u32> {
        (self.conn.flags & SND != 0).then_some(self.conn.snd_nxt)
    }

    /// `sv_fastlane_out`. Returns [`ANEW`] and [`BEYOND`] bits.
    pub(crate) fn outgoing(&mut self, packet: &mut Packet, now: Time) -> u32 {
        // SAFETY: both pointers come from references that outlive the call; the mirrors assert the layouts.
        unsafe { sv_edge_fastlane_out(self, packet, now.as_ns()) }
    }

    /// `sv_fastlane_in`. Returns [`ANEW`] or 0.
    pub(crate) fn incoming(&mut self, packet: &mut Packet, now: Time) -> u32 {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_in(self, packet, now.as_ns()) }
    }

    /// `sv_fastlane_notified`
    pub(crate) fn notified(&mut self, copies: Option<&mut Copies>, packet: &Packet, now: Time) -> Decision {
        let copies = copies.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: as in `outgoing`; C tests `copies` for null before it reads it.
        Decision::of(unsafe { sv_edge_fastlane_notified(self, copies, packet, 0, now.as_ns()) })
    }

    /// The same where it is known when the packet was dropped, as in the kernel edge.
    #[cfg(test)]
    fn dropped_at(&mut self, copies: &mut Copies, packet: &Packet, dropped: Time, now: Time) -> Decision {
        // SAFETY: as in `outgoing`.
        Decision::of(unsafe { sv_edge_fastlane_notified(self, copies, packet, dropped.as_ns(), now.as_ns()) })
    }

    /// `sv_fastlane_reported`, which only the kernel edge calls
    #[cfg(test)]
    fn reported(&mut self, copies: &mut Copies, packet: &Packet, now: Time) -> Decision {
        // SAFETY: as in `outgoing`.
        Decision::of(unsafe { sv_edge_fastlane_reported(self, copies, packet, now.as_ns()) })
    }

    /// `sv_fastlane_due_at`, ns
    pub(crate) fn due_at(&self, copies: &Copies) -> u64 {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_due_at(self, copies) }
    }

    /// `sv_fastlane_due`
    pub(crate) fn due(&mut self, copies: &mut Copies, now: Time) -> Decision {
        // SAFETY: as in `outgoing`.
        Decision::of(unsafe { sv_edge_fastlane_due(self, copies, now.as_ns()) })
    }

    /// `sv_fastlane_again`: true if the guest's retransmission need not leave.
    pub(crate) fn again(&self, copies: &mut Copies, now: Time) -> bool {
        // SAFETY: as in `outgoing`.
        unsafe { sv_edge_fastlane_again(self, copies, now.as_ns()) != 0 }
    }

    /// `sv_fastlane_ack`: `key` is that of the guest's direction.
    pub(crate) fn ack(&self, key: &FlowKey) -> Packet {
        let mut packet = Packet::default();
        // SAFETY: as in `outgoing`; writes the packet only.
        unsafe { sv_edge_fastlane_ack(self, key, &mut packet) };
        packet
    }
}

#[cfg(test)]
mod tests {
    //! What the kernel edge does about a packet that a switch reports as dropped, and of which it has only the headers.

    use super::*;
    use proptest::prelude::*;
    use wire::{proto, tcp, v4};

    const MSS: u32 = 1000;
    const ISS: u32 = 7000;
    const IRS: u32 = 500;
    /// `SV_FASTLANE_ASK_NS`
    const ASKED: Time = Time::from_ms(10);
    const RTT: Time = Time::from_us(100);

    fn outgoing(seq: u32, payload: u32, tcp_flags: u8) -> Packet {
        let (saddr, daddr) = (v4([10, 0, 0, 1]), v4([10, 0, 0, 2]));
        let ports = Packet { saddr, daddr, sport: 1, dport: 2, ..Packet::default() };
        let ack = if tcp_flags & tcp::ACK == 0 { 0 } else { IRS + 1 };
        Packet { seq, ack, payload, tcp_flags, proto: proto::TCP, family: 4, l4_header_len: 20, window: 1000, ..ports }
    }

    /// From the peer; `blocks`: it has SACK blocks.
    fn incoming(seq: u32, ack: u32, tcp_flags: u8, blocks: bool) -> Packet {
        let there = outgoing(seq, 0, tcp_flags);
        let (saddr, daddr, l4_header_len) = (there.daddr, there.saddr, if blocks { 32 } else { 20 });
        Packet { saddr, daddr, sport: 2, dport: 1, ack, window: 60_000, l4_header_len, ..there }
    }

    /// With so many segments outstanding, and the time.
    fn sent(segments: u32) -> (FastLane, Time) {
        let (mut lane, now) = (FastLane::default(), Time::from_ms(1));
        lane.outgoing(&mut Packet { mss: MSS as u16, ..outgoing(ISS, 0, tcp::SYN) }, now);
        let mut answer = Packet { mss: MSS as u16, ..incoming(IRS, ISS + 1, tcp::SYN | tcp::ACK, false) };
        lane.incoming(&mut answer, now + RTT);
        for n in 0..segments {
            lane.outgoing(&mut segment(n), now + RTT);
        }
        (lane, now + RTT)
    }

    fn segment(n: u32) -> Packet {
        outgoing(ISS + 1 + n * MSS, MSS, tcp::ACK)
    }

    fn copies_of(n: u32) -> Copies {
        let packet = segment(n);
        Copies { seq: packet.seq, end: packet.seq + MSS, copies: 1, ..Copies::default() }
    }

    fn acked(lane: &mut FastLane, n: u32, blocks: bool, now: Time) {
        lane.incoming(&mut incoming(IRS + 1, ISS + 1 + n * MSS, tcp::ACK, blocks), now);
    }

    #[test]
    fn a_guest_is_told_once_a_duplicate_ack_has_come() {
        let (mut lane, now) = sent(6);
        let mut copies = copies_of(0);
        assert_eq!(lane.reported(&mut copies, &segment(0), now), Decision::Later, "its ACK is under way");
        assert_eq!(lane.due(&mut Copies { ..copies }, now), Decision::Stale, "nobody has the bytes");
        assert_eq!(lane.reported(&mut copies, &segment(0), now + RTT / 2), Decision::Later);
        acked(&mut lane, 0, false, now + RTT);
        assert_eq!(lane.reported(&mut copies, &segment(0), now + RTT), Decision::Tell);
        assert_eq!(lane.reported(&mut copies, &segment(0), now + RTT), Decision::Repeated);
        assert_eq!(lane.bound, Bound::default(), "it lowers its own window");
    }

    #[test]
    fn a_hole_in_the_middle_waits_for_the_acks_before_it() {
        let (mut lane, now) = sent(8);
        let mut copies = copies_of(2);
        assert_eq!(lane.reported(&mut copies, &segment(2), now), Decision::Later);
        acked(&mut lane, 2, false, now + RTT);
        acked(&mut lane, 2, false, now + RTT);
        assert_eq!(lane.reported(&mut copies, &segment(2), now + RTT), Decision::Tell);
    }

    #[test]
    fn nobody_waits_for_ever_and_sack_and_tails_get_nothing() {
        let (mut lane, now) = sent(6);
        let mut copies = copies_of(0);
        assert_eq!(lane.reported(&mut copies, &segment(0), now), Decision::Later);
        assert_eq!(lane.reported(&mut copies, &segment(0), now + ASKED), Decision::Unkept);
        let (mut lane, now) = sent(6);
        acked(&mut lane, 0, true, now);
        assert_eq!(lane.reported(&mut copies_of(0), &segment(0), now), Decision::Unkept, "it counts blocks");
        let (mut lane, now) = sent(3);
        acked(&mut lane, 0, false, now);
        assert_eq!(lane.reported(&mut copies_of(0), &segment(0), now), Decision::Unkept, "three are too few");
    }

    #[test]
    fn a_copy_of_the_guests_own_ends_it() {
        let (mut lane, now) = sent(6);
        let mut copies = copies_of(0);
        assert_eq!(lane.reported(&mut copies, &segment(0), now), Decision::Later);
        assert!(!lane.again(&mut copies, now));
        acked(&mut lane, 0, false, now + RTT);
        assert_eq!(lane.reported(&mut copies, &segment(0), now + RTT), Decision::Stale);
    }

    #[test]
    fn what_was_dropped_before_the_edges_copy_left_is_not_that_copy() {
        let (mut lane, now) = sent(8);
        // Both of the guest's were dropped. That the first was, is told last.
        let mut copies = Copies { copies: 2, dropped: 1, ..copies_of(3) };
        let left = now + RTT + RTT;
        assert_eq!(lane.dropped_at(&mut copies, &segment(3), now + RTT, left), Decision::Resend);
        assert_eq!(lane.dropped_at(&mut copies, &segment(3), now, left + RTT), Decision::Repeated);
        assert_eq!((copies.copies, copies.dropped), (3, 2), "the edge's own is under way");
        for dropped in [Time::ZERO, left] {
            let mut copies = copies;
            assert_eq!(lane.dropped_at(&mut copies, &segment(3), dropped, left + RTT), Decision::Resend, "{dropped:?}");
        }
    }

    proptest! {
        /// Whatever is said: no resend without bytes, no window lowered, at most one telling for each hole, and no waiting that does not end.
        #[test]
        fn forged_reports_have_little_effect(
            said in prop::collection::vec((0u32..12, 0u32..3, any::<bool>(), any::<bool>(), 0u64..60), 1..60)
        ) {
            let (mut lane, mut now) = sent(8);
            let mut copies: Vec<Copies> = (0..8).map(copies_of).collect();
            let (mut acknowledged, mut told) = (0, [0; 8]);
            for (n, advance, blocks, ack, us) in said {
                now += Time::from_us(us);
                if ack {
                    acknowledged = (acknowledged + advance).min(8);
                    acked(&mut lane, acknowledged, blocks, now);
                }
                let packet = segment(n);
                let at = (n as usize).min(7);
                match lane.reported(&mut copies[at], &packet, now) {
                    Decision::Tell => told[at] += 1,
                    Decision::Later => {
                        let longest = Time::from_ns(4 * u64::from(lane.conn.srtt_ns)).max(ASKED);
                        prop_assert!(now < Time::from_ns(copies[at].sent_ns) + longest);
                    }
                    Decision::Resend => prop_assert!(false, "it has no bytes"),
                    _ => {}
                }
                prop_assert_eq!(lane.bound, Bound::default());
            }
            prop_assert!(told.iter().all(|times| *times <= 1), "{:?}", told);
        }
    }
}
