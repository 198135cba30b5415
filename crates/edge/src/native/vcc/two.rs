//! The least window beside shares (`sv_bound_two`): two segments.

use super::tests::{report, segment, Guarded, MSS};
use crate::vcc::{Class, Config};
use wire::tcp;

/// What a guest may send, where all of its packets are marked and so much is on its way when an ACK comes.
fn window(cwnd: u32, scale: u8, config: Config) -> u32 {
    let mut edge = Guarded::new(&config);
    edge.open(1, Some(scale));
    edge.out(segment(tcp::ACK, 1, 1001, 3 * MSS));
    (edge.vcc.law.cwnd, edge.vcc.law.ssthresh, edge.vcc.law.cut_end) = (cwnd, cwnd, 1 << 20);
    let mut told = report(segment(tcp::ACK, 1001, 1 + 2 * MSS, 0), 2 * MSS, 2 * MSS);
    told.window = 60_000;
    u32::from(edge.hear(told).1.window) << scale
}

#[test]
fn beside_shares_two_segments_fit_into_the_least_window() {
    for scale in [0, 7, 10] {
        let beside = |cwnd, shares| window(cwnd, scale, Config::new(Class::default()).beside_shares(shares));
        for cwnd in [1, MSS, 2 * MSS - 1] {
            assert!(beside(cwnd, true) >= 2 * MSS, "{}", beside(cwnd, true));
            assert!(beside(cwnd, true) < 2 * MSS + (1 << scale), "no more than the next unit");
            assert!(beside(cwnd, false) < 2 * MSS || scale == 10, "{}", beside(cwnd, false));
        }
        let cwnd = 3 * MSS + 1000;
        assert_eq!(beside(cwnd, true), beside(cwnd, false), "larger ones are the law's");
    }
}

#[test]
fn who_is_left_alone_stays_so_beside_shares() {
    for class in [Class { observe: true, ..Class::default() }, Class::OFF] {
        assert_eq!(window(MSS, 0, Config::new(class).beside_shares(true)), 60_000);
    }
}
