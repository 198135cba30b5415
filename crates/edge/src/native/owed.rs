//! Mirrors of `datapath/owed.h`, and its tests.

use super::Relay;
use proptest::prelude::*;
use wire::feedback::{Feedback, CE, UTILISATION};
use wire::{version, Packet};

/// `struct sv_owed_marks`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Marks {
    count: u16,
    told: u16,
}

/// `struct sv_told`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Told {
    count: u16,
    known: u8,
    pad: u8,
}

extern "C" {
    fn sv_edge_owed_count(m: *mut Marks, marked: u32);
    fn sv_edge_owed_pay(r: *mut Relay, m: *mut Marks, least: u32, tick: u32, p: *mut Packet);
    fn sv_edge_told_new(t: *mut Told, count: u16, sent: u32) -> u32;
}

/// `SV_FEEDBACK_MARKS`
const MARKS: u8 = 3;

/// Kind, path, value of what the next packet in that version carries.
fn pay(relay: &mut Relay, marks: &mut Marks, wire: u8) -> (u8, u8, u8) {
    let mut p = Packet { wire, ..Packet::default() };
    // SAFETY: writes three structs, whose mirrors assert the layouts.
    unsafe { sv_edge_owed_pay(relay, marks, 0, 1, &mut p) };
    (p.feedback, p.feedback_path, p.feedback_value)
}

impl Marks {
    fn count(&mut self, marked: u32) {
        // SAFETY: as above.
        unsafe { sv_edge_owed_count(self, marked) }
    }
}

impl Told {
    fn hear(&mut self, count: u16, sent: u32) -> u32 {
        // SAFETY: as above.
        unsafe { sv_edge_told_new(self, count, sent) }
    }
}

#[test]
fn paths_and_counts_take_turns() {
    let (mut relay, mut marks) = (Relay::default(), Marks::default());
    assert_eq!(pay(&mut relay, &mut marks, version::TWO), (0, 0, 0), "nothing is owed");
    marks.count(0x0102);
    relay.note(Feedback { kind: CE, path: 7, value: 0 });
    relay.note(Feedback { kind: UTILISATION, path: 9, value: 200 });
    assert_eq!(pay(&mut relay, &mut marks, version::TWO), (MARKS, 1, 2));
    marks.count(1);
    let paid = [0; 4].map(|_| pay(&mut relay, &mut marks, version::TWO));
    assert_eq!(paid, [(CE, 7, 0), (MARKS, 1, 3), (UTILISATION, 9, 200), (0, 0, 0)]);
    marks.count(1);
    relay.note(Feedback { kind: CE, path: 1, value: 0 });
    assert_eq!(pay(&mut relay, &mut marks, version::ONE).0, CE, "version 1 has no counts");
    assert_eq!(pay(&mut relay, &mut marks, version::ONE).0, 0);
    assert_eq!(pay(&mut relay, &mut marks, version::TWO), (MARKS, 1, 4));
}

#[test]
fn a_restarted_count_is_no_mark() {
    let mut told = Told::default();
    let heard = [told.hear(500, 1000), told.hear(520, 1000), told.hear(520, 1000)];
    assert_eq!(heard, [0, 20, 0], "the first is where it begins");
    assert_eq!([told.hear(3, 1000), told.hear(5, 1000)], [0, 2], "a peer that restarted");
    assert_eq!([told.hear(65_530, 1000), told.hear(4, 1000)], [0, 10], "and the count wraps");
}

proptest! {
    /// Whatever feedback is lost on its way, what arrives last says all.
    #[test]
    fn all_marks_are_accounted_for(
        steps in proptest::collection::vec((0u32..20, 0u32..20, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let (mut relay, mut marks, mut told) = (Relay::default(), Marks::default(), Told::default());
        let (mut counted, mut heard, mut unanswered) = (0, 0, 0);
        told.hear(0, 0);
        for (sent, marked, lost, path) in &steps {
            let marked = (*marked).min(*sent);
            unanswered += sent;
            counted += marked;
            marks.count(marked);
            if *path {
                relay.note(Feedback { kind: CE, path: marked as u8, value: 0 });
            }
            let (kind, high, low) = pay(&mut relay, &mut marks, version::TWO);
            if kind == MARKS && !lost {
                heard += told.hear(u16::from_be_bytes([high, low]), unanswered);
                unanswered = 0;
            }
        }
        // One more mark, and nothing is lost any more: at most one path goes first.
        unanswered += 1;
        counted += 1;
        marks.count(1);
        for _ in 0..2 {
            let (kind, high, low) = pay(&mut relay, &mut marks, version::TWO);
            if kind == MARKS {
                heard += told.hear(u16::from_be_bytes([high, low]), unanswered);
            }
        }
        prop_assert_eq!(heard, counted);
    }

    #[test]
    fn forged_counts_cost_no_more_than_was_sent(counts in proptest::collection::vec((any::<u16>(), 0u32..100), 1..100)) {
        let mut told = Told::default();
        for (count, sent) in counts {
            prop_assert!(told.hear(count, sent) <= sent);
        }
    }
}
