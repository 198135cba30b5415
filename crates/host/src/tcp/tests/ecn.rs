//! Reaction to marks, end to end.

use super::{config, established};
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::link::{Fate, Pair};
use crate::tcp::{codepoint, flags, CaState, Config, EcnMode, Endpoint, Recovery};
use std::sync::Arc;
use units::{BitRate, Time};

#[test]
fn the_handshake_decides_whether_ecn_is_used() {
    for (client, server, expected) in [
        (EcnMode::Request, EcnMode::Accept, true),
        (EcnMode::Accept, EcnMode::Accept, false),
        (EcnMode::Request, EcnMode::Off, false),
    ] {
        let end = |ecn| Arc::new(Config { ecn, ..config(Algorithm::Cubic, Recovery::Sack) });
        let mut pair = Pair::new(Endpoint::connect(end(client), 1), Endpoint::listen(end(server), 2));
        pair.keep_log = true;
        pair.client().write(5_000);
        assert!(pair.run(Time::from_secs(1)));
        assert_eq!((pair.client().ecn_enabled(), pair.server().ecn_enabled()), (expected, expected));
        for (_, side, segment) in &pair.log {
            let ect = expected && *side == 0 && segment.len > 0;
            assert_eq!(segment.ecn == codepoint::ECT0, ect, "{segment:?}");
        }
    }
}

#[test]
fn a_classic_sender_answers_once_a_round_trip_and_says_so() {
    let mut pair =
        established(Config { ecn: EcnMode::Request, hystart: false, ..config(Algorithm::NewReno, Recovery::Sack) });
    pair.delay = Time::from_ms(5);
    pair.rate = BitRate::from_gbps(10);
    pair.keep_log = true;
    // Packets 30..40 of the third round are all marked.
    let mut count = 0;
    pair.tamper(move |side, segment| {
        count += u64::from(side == 0 && segment.len > 0);
        if side == 0 && (31..=40).contains(&count) {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    pair.client().write(300_000);
    assert!(pair.run(Time::from_secs(2)));
    let counters = pair.client().tx.counters;
    assert_eq!((counters.ecn_reductions, counters.retransmitted_packets), (1, 0));
    assert!(counters.ece_acks > 1);
    let cwr = pair.log.iter().filter(|(_, side, segment)| *side == 0 && segment.has(flags::CWR)).count();
    assert_eq!(cwr, 1);
    assert_eq!(pair.client().tx.ca_state(), CaState::Open);
    let last_ece = pair.log.iter().rev().find(|(_, side, segment)| *side == 1 && segment.has(flags::ECE));
    let cwr_at = pair.log.iter().find(|(_, side, segment)| *side == 0 && segment.has(flags::CWR)).map(|entry| entry.0);
    let heard = cwr_at.map(|at| at + pair.delay + Time::from_ms(1));
    assert!(last_ece.map(|entry| entry.0) < heard, "CWR ends the echo");
}

#[test]
fn retransmissions_are_not_ect_unless_dctcp_sends_them() {
    for (law, expected) in [(Algorithm::NewReno, codepoint::NOT_ECT), (Algorithm::Dctcp, codepoint::ECT0)] {
        let mut pair = established(Config { ecn: EcnMode::Request, ..config(law, Recovery::Sack) });
        pair.keep_log = true;
        pair.drop_data(&[15]);
        pair.client().write(100_000);
        assert!(pair.run(Time::from_secs(1)));
        let again: Vec<u8> =
            pair.log.iter().filter(|entry| entry.2.is_retransmission).map(|entry| entry.2.ecn).collect();
        assert_eq!(again, [expected], "{law:?}");
        let pure = pair.log.iter().find(|entry| entry.1 == 1).map(|entry| entry.2.ecn);
        assert_eq!(pure, Some(expected), "pure ACKs, {law:?}");
    }
}

/// One flow at 10 Gbps and 100 us: (share of the line in the second half, mean alpha, deepest queue in that half).
fn steady(law: Algorithm, mark_above: u64) -> (f64, f64, u64) {
    let mut pair = established(Config { mss: 1460, ecn: EcnMode::Request, ..config(law, Recovery::Sack) });
    pair.rate = BitRate::from_gbps(10);
    pair.delay = Time::from_us(48);
    pair.mark_above = mark_above;
    pair.client().write(1 << 40);
    pair.run(Time::from_ms(50));
    let half = pair.client().tx.acked();
    pair.deepest = 0;
    pair.run(Time::from_ms(150));
    let bytes = pair.client().tx.acked() - half;
    let share = bytes as f64 * (1538.0 / 1460.0) / (10e9 / 8.0 * 0.1);
    assert_eq!(pair.client().tx.counters.retransmitted_packets, 0);
    (share, pair.client().tx.dctcp_alpha().unwrap_or(1.0), pair.deepest)
}

#[test]
fn dctcp_keeps_the_queue_near_the_mark_and_the_line_full() {
    // K = 65 packets, as the DCTCP paper sets it at 10 Gbps.
    let (share, alpha, deepest) = steady(Algorithm::Dctcp, 65 * 1538);
    assert!(share > 0.99, "{share}");
    assert!(alpha > 0.0 && alpha < 0.5, "{alpha}");
    assert!(deepest > 65 * 1538 && deepest < 3 * 65 * 1538, "{deepest}");
}

/// Linux before 4.18: the ACK for what came before a change of the CE state cancels that of the segment which brings it. If that
/// is the last of a window, the sender waits for its timeout.
#[test]
fn an_old_dctcp_receiver_may_leave_the_last_segment_without_an_ack() {
    let run = |dctcp_cancels_ack: bool| {
        let mut pair = established(Config {
            dctcp_cancels_ack,
            quickack: 0,
            ecn: EcnMode::Request,
            ..config(Algorithm::Dctcp, Recovery::Sack)
        });
        pair.delay = Time::from_us(50);
        pair.rate = BitRate::from_gbps(10);
        // The second and last of two packets is marked; the first has an ACK that waits.
        let mut count = 0;
        pair.tamper(move |side, segment| {
            count += u64::from(side == 0 && segment.len > 0);
            if side == 0 && count == 2 {
                Fate::Mark
            } else {
                Fate::Pass
            }
        });
        let size = u64::from(pair.client().config().mss);
        pair.client().write(size);
        pair.run(Time::from_us(10));
        pair.client().write(size);
        pair.run(Time::from_secs(1));
        assert_eq!(pair.client().tx.acked(), 2 * size);
        pair.client().tx.counters.timeouts
    };
    assert_eq!((run(false), run(true)), (0, 1));
}

#[test]
fn classic_ecn_halves_where_dctcp_trims() {
    let (reno, _, _) = steady(Algorithm::NewReno, 30 * 1538);
    let (dctcp, _, _) = steady(Algorithm::Dctcp, 30 * 1538);
    assert!(dctcp > reno, "{dctcp} against {reno}");
}
