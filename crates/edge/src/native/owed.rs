//! Mirrors of `datapath/owed.h`, and its tests.

use super::Relay;
use proptest::prelude::*;
use units::Time;
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
    heard: u16,
}

extern "C" {
    fn sv_edge_owed_count(m: *mut Marks, marked: u32);
    fn sv_edge_owed_pay(r: *mut Relay, m: *mut Marks, least: u32, stamps: u32, tick: u32, p: *mut Packet);
    fn sv_edge_told_new(t: *mut Told, count: u16, sent: u32, now: u64) -> u32;
}

/// `SV_FEEDBACK_MARKS`
const MARKS: u8 = 3;

/// Kind, path, value of what the next packet in that version carries.
fn pay(relay: &mut Relay, marks: &mut Marks, wire: u8) -> (u8, u8, u8) {
    let mut p = Packet { wire, ..Packet::default() };
    // SAFETY: writes three structs, whose mirrors assert the layouts.
    unsafe { sv_edge_owed_pay(relay, marks, 0, 0, 1, &mut p) };
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
        self.hear_at(count, sent, Time::ZERO)
    }

    fn hear_at(&mut self, count: u16, sent: u32, now: Time) -> u32 {
        // SAFETY: as above.
        unsafe { sv_edge_told_new(self, count, sent, now.as_ns()) }
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
    let later = Time::from_ms(100);
    let restarted = [told.hear_at(3, 1000, later), told.hear_at(5, 1000, later)];
    assert_eq!(restarted, [0, 2], "behind what was heard long ago");
    assert_eq!(told.hear_at(30_000, 1000, later), 0, "further ahead than what was sent");
    assert_eq!(told.hear_at(30_010, 1000, later), 10, "and in step again");
}

#[test]
fn a_count_that_was_overtaken_says_nothing() {
    let mut told = Told::default();
    told.hear(90, 0);
    let heard = [told.hear(103, 65_535), told.hear(100, 65_535), told.hear(104, 65_535), told.hear(104, 65_535)];
    assert_eq!(heard, [13, 0, 1, 0]);
    told.hear_at(65_530, 65_535, Time::from_secs(1));
    let wrapped = [65_534, 2, 65_533, 4].map(|count| told.hear_at(count, 100, Time::from_secs(1)));
    assert_eq!(wrapped, [4, 4, 0, 2], "the count wraps");
}

#[test]
fn no_count_grows_so_far_that_it_looks_old() {
    let (mut relay, mut marks, mut told) = (Relay::default(), Marks::default(), Told::default());
    told.hear(0, 0);
    marks.count(70_000);
    let (_, high, low) = pay(&mut relay, &mut marks, version::TWO);
    assert_eq!(told.hear(u16::from_be_bytes([high, low]), 70_000), 32_767);
    marks.count(9);
    let (_, high, low) = pay(&mut relay, &mut marks, version::TWO);
    assert_eq!(told.hear(u16::from_be_bytes([high, low]), 9), 9, "there is room again");
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
