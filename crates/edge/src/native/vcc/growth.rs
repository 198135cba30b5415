//! Growth of the window by the part that the guest used.

use super::tests::{opened, segment, MSS};
use crate::vcc::{Class, Config};
use wire::tcp;

#[test]
fn slow_start_doubles_what_the_guest_uses() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    edge.ack(1 + 10 * MSS, 60_000);
    assert_eq!(edge.vcc.law.cwnd, 20 * MSS);
    // The guest goes on with a tenth of that: no growth.
    for n in 0..50 {
        let seq = 1 + (10 + 2 * n) * MSS;
        edge.out(segment(tcp::ACK, seq, 1001, 2 * MSS));
        edge.ack(seq + 2 * MSS, 60_000);
    }
    assert_eq!(edge.vcc.law.cwnd, 20 * MSS);
}

/// Congestion avoidance of a guest that has `flight` bytes outstanding in each of `rounds` round trips, and a window of
/// `cwnd` at first.
fn avoided(class: Class, flight: u32, cwnd: u32, rounds: u32) -> u32 {
    let mut edge = opened(&Config::new(class));
    (edge.vcc.law.cwnd, edge.vcc.law.ssthresh) = (cwnd, cwnd);
    for _ in 0..rounds {
        edge.out(segment(tcp::ACK, edge.vcc.conn.snd_nxt, 1001, flight));
        edge.ack(edge.vcc.conn.snd_nxt, 60_000);
    }
    edge.vcc.law.cwnd
}

/// Linux leaves up to a third of the window unused in wait for a larger segment: that is no want of data.
#[test]
fn a_window_grows_of_which_a_third_is_unused() {
    let held = Class::default();
    assert_eq!(avoided(held, 6 * MSS + 1, 9 * MSS, 1), 9 * MSS + MSS * (6 * MSS + 1) / (9 * MSS));
    assert_eq!(avoided(held, 6 * MSS - 200, 9 * MSS, 100), 9 * MSS, "a third and the window's unit are the most");
    assert_eq!(avoided(held, MSS, 2 * MSS, 1), 2 * MSS + MSS / 2, "a segment, where that is more");
    assert_eq!(avoided(held, MSS, 3 * MSS, 100), 3 * MSS);
}

#[test]
fn a_guest_that_is_not_held_to_the_window_has_no_reason_to_leave_more_than_a_segment_of_it() {
    let observed = Class { observe: true, ..Class::default() };
    assert_eq!(avoided(observed, 7 * MSS, 9 * MSS, 100), 9 * MSS);
    assert!(avoided(observed, 8 * MSS, 9 * MSS, 1) > 9 * MSS);
}

#[test]
fn a_guest_with_little_to_send_gets_half_again_what_it_uses() {
    for flight in [MSS, 7 * MSS, 9 * MSS] {
        let most = (flight + MSS).max((flight + 128) * 3 / 2) + MSS;
        let window = avoided(Class::default(), flight, flight, 1000);
        assert!(window >= flight * 3 / 2 && window <= most, "{window} for {flight}, at most {most}");
    }
}
