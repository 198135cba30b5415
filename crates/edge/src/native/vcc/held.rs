//! Held edges (`sv_bound_hold`): what a guest may send up to moves in large steps, or not at all.

use super::super::*;
use super::tests::{segment, Guarded, MSS};
use crate::vcc::{Class, Config};
use proptest::prelude::*;
use wire::tcp;

const SCALE: u8 = 7;
/// What the peer announces, far more than any bound.
const PEER: u16 = 60_000;
/// Bytes at a connection's beginning in which the handshake's window counts.
const BEGINNING: u32 = 65_536;
const STEP: u32 = 65_536;

/// A guest that sends whatever it may in whole packets, a receiver, and SPRING between them with a window that the test sets.
struct Talk {
    edge: Guarded,
    /// Numbers: what the receiver has acknowledged, what the guest has sent, and up to which it may.
    una: u32,
    nxt: u32,
    may: u32,
}

/// One ACK: what it let the guest send up to, and what it would have without a held edge.
struct Told {
    may: u32,
    unheld: u32,
}

impl Talk {
    fn new(isn: u32) -> Talk {
        let mut edge = Guarded::new(&Config::new(Class::OFF));
        edge.limit = Some(of(LIMIT_HOLD));
        edge.open(isn, Some(SCALE));
        let mut talk = Talk { edge, una: isn, nxt: isn, may: isn.wrapping_add(10 * MSS) };
        // Past the beginning.
        while talk.nxt.wrapping_sub(isn) <= BEGINNING + 10 * MSS {
            talk.send();
            talk.ack(talk.nxt, 10 * MSS, PEER);
        }
        talk
    }

    /// All whole packets that the guest may send, as one segment.
    fn send(&mut self) -> u32 {
        let payload = self.may.wrapping_sub(self.nxt) / MSS * MSS;
        assert!(payload <= 1 << 25, "the guest may send {payload}");
        if payload > 0 {
            self.edge.out(segment(tcp::ACK, self.nxt, 1001, payload));
            self.nxt = self.nxt.wrapping_add(payload);
        }
        payload
    }

    fn out(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    /// The receiver acknowledges up to `ack` and announces `field`; the bound is `window`.
    fn ack(&mut self, ack: u32, window: u32, field: u16) -> Told {
        let up_to = |talk: &mut Talk, flags| {
            talk.edge.limit = Some(of(flags));
            talk.edge.vcc.bound.spring = window;
            ack.wrapping_add(u32::from(talk.edge.ack(ack, field).window) << SCALE)
        };
        let before = (self.edge.flow, self.edge.vcc, self.edge.queue);
        let unheld = up_to(self, 0);
        (self.edge.flow, self.edge.vcc, self.edge.queue) = before;
        let may = up_to(self, LIMIT_HOLD);
        if after(ack, self.una) >= 0 {
            (self.una, self.may) = (ack, may);
        }
        Told { may, unheld }
    }
}

/// SPRING that leaves a window as it is.
fn of(flags: u8) -> Limit {
    Limit { backlog: 1 << 20, k1: 1, k2: 2, beta: 0, law: LIMIT_SPRING, flags, ..Limit::default() }
}

fn after(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

#[test]
fn an_edge_moves_by_half_of_the_window() {
    const WINDOW: u32 = 16 * MSS;
    let mut talk = Talk::new(1);
    talk.ack(talk.nxt, WINDOW, PEER);
    assert_eq!(talk.send(), WINDOW);
    // Two packets at a time, until it is more than half of sixteen: eight are not quite, because fields are rounded up.
    let mut sent = Vec::new();
    for _ in 0..16 {
        talk.ack(talk.una.wrapping_add(2 * MSS), WINDOW, PEER);
        sent.push(talk.send() / MSS);
    }
    assert_eq!(sent, [0, 0, 0, 0, 10, 0, 0, 0, 0, 10, 0, 0, 0, 0, 10, 0]);
}

#[test]
fn of_a_large_window_an_edge_moves_by_64_kb() {
    const WINDOW: u32 = 400 * MSS;
    let mut talk = Talk::new(1);
    talk.ack(talk.nxt, WINDOW, PEER);
    talk.send();
    let sent: Vec<u32> = (0..20)
        .map(|_| {
            talk.ack(talk.una.wrapping_add(10 * MSS), WINDOW, PEER);
            talk.send() / MSS
        })
        .filter(|packets| *packets > 0)
        .collect();
    assert!(sent.iter().all(|packets| (46..=51).contains(packets)) && sent.len() == 4, "{sent:?}");
}

#[test]
fn an_edge_is_not_held_while_less_than_two_packets_are_under_way() {
    const WINDOW: u32 = 16 * MSS;
    let mut talk = Talk::new(1);
    talk.ack(talk.nxt, WINDOW, PEER);
    // Five of sixteen packets: an ACK of the last opens the window again, though by less than half of it.
    talk.edge.out(segment(tcp::ACK, talk.nxt, 1001, 5 * MSS));
    talk.nxt = talk.nxt.wrapping_add(5 * MSS);
    for (left, held) in [(3, true), (2, true), (1, false), (0, false)] {
        let told = talk.ack(talk.nxt.wrapping_sub(left * MSS), WINDOW, PEER);
        assert_eq!(after(told.unheld, told.may) > 0, held, "{left} packets left");
    }
}

#[test]
fn what_the_receiver_says_itself_is_never_held_nor_widened() {
    let mut talk = Talk::new(1);
    talk.ack(talk.nxt, 40 * MSS, PEER);
    talk.send();
    let ack = talk.una.wrapping_add(2 * MSS);
    // The peer's own window is smaller than the bound, and leads less far than before.
    let told = talk.ack(ack, 40 * MSS, 10);
    assert_eq!(told.may, ack.wrapping_add(10 << SCALE));
    assert_eq!(talk.ack(ack, 40 * MSS, 0).may, ack, "closed");
    // A cut does not take back what was granted, but the peer's word is the last.
    let mut talk = Talk::new(1);
    talk.ack(talk.nxt, 40 * MSS, PEER);
    let granted = talk.may;
    let ack = talk.una;
    talk.send();
    let told = talk.ack(ack.wrapping_add(2 * MSS), 4 * MSS, PEER);
    assert!((0..128).contains(&after(told.may, granted)) && after(told.unheld, granted) < 0);
    let told = talk.ack(ack.wrapping_add(4 * MSS), 4 * MSS, 100);
    assert_eq!(told.may, ack.wrapping_add(4 * MSS + (100 << SCALE)));
}

#[test]
fn the_window_of_the_handshake_is_taken_back() {
    let mut edge = Guarded::new(&Config::new(Class::OFF));
    edge.limit = Some(of(LIMIT_HOLD));
    edge.open(1, Some(SCALE));
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    edge.vcc.bound.spring = 10 * MSS;
    assert_eq!(u32::from(edge.ack(1 + 2 * MSS, PEER).window), (10 * MSS) >> SCALE, "nobody has lowered that one");
}

#[derive(Clone, Debug)]
enum Step {
    /// The guest sends what it may, or a part of it.
    Send(bool),
    /// The receiver acknowledges so many packets of those under way, while the bound is so many bytes.
    Ack(u32, u32),
    /// Again, so many packets back.
    Old(u32),
    /// The same as the last, as after a loss.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let window = prop_oneof![2 * MSS..20 * MSS, 2 * MSS..2_000_000];
    prop_oneof![
        3 => any::<bool>().prop_map(Step::Send),
        5 => (1u32..60, window).prop_map(|(packets, window)| Step::Ack(packets, window)),
        1 => (0u32..20).prop_map(Step::Old),
        1 => Just(Step::Again),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever bounds and ACKs come: an edge never moves back, and is held back by less than half of the window and 64 KB, and by nothing
    /// where no other ACK is sure to come.
    #[test]
    fn an_edge_moves_one_way_and_is_never_far_behind(isn: u32, steps in proptest::collection::vec(step(), 1..150)) {
        let mut talk = Talk::new(isn);
        let mut furthest = talk.may;
        for step in steps {
            let (ack, window) = match step {
                Step::Send(all) => {
                    let may = talk.may;
                    if !all {
                        talk.may = talk.nxt.wrapping_add(after(may, talk.nxt).max(0) as u32 / 2);
                    }
                    if after(talk.may, talk.nxt) > 0 {
                        talk.send();
                    }
                    talk.may = may;
                    continue;
                }
                Step::Ack(packets, window) => (talk.una.wrapping_add((packets * MSS).min(talk.out())), window),
                Step::Old(packets) => (talk.una.wrapping_sub(packets * MSS), talk.edge.vcc.bound.spring),
                Step::Again => (talk.una, talk.edge.vcc.bound.spring),
            };
            let news = after(ack, talk.una) >= 0;
            let told = talk.ack(ack, window, PEER);
            prop_assert!(!news || after(told.may, furthest) >= 0, "back by {}", after(furthest, told.may));
            prop_assert!(after(told.may, ack) >= 0);
            furthest = if after(told.may, furthest) > 0 { told.may } else { furthest };
            let (behind, whole) = (after(told.unheld, told.may).max(0) as u32, told.unheld.wrapping_sub(ack));
            prop_assert!(behind == 0 || behind < (whole / 2).min(STEP), "{behind} of {whole} held back");
            prop_assert!(behind == 0 || talk.nxt.wrapping_sub(ack) >= 2 * MSS, "and nobody will acknowledge anything");
        }
    }

    /// A guest that sends whole packets only is never stuck with a receiver that acknowledges every second one at once and lets a single one wait.
    #[test]
    fn nobody_waits_for_a_timer(isn: u32, windows in proptest::collection::vec((2 * MSS + 128..100_000u32, 2u32..40), 1..100)) {
        let mut talk = Talk::new(isn);
        // Its window is a receiver's that waits for nobody.
        talk.ack(talk.nxt, 4 * MSS, PEER);
        for (window, packets) in windows {
            talk.send();
            prop_assert!(talk.out() >= 2 * MSS, "{} bytes under way, of {window}", talk.out());
            talk.ack(talk.una.wrapping_add((packets * MSS).min(talk.out())), window, PEER);
        }
    }
}
