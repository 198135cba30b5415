//! FastLane over the small link: every drop has its notification.

use super::link::{Fate, Pair};
use crate::tcp::cc::Algorithm;
use crate::tcp::fastlane::{Notification, Options};
use crate::tcp::{flags, Config, Endpoint, Recovery, Segment};
use std::sync::Arc;
use units::Time;

fn config(fastlane: bool) -> Config {
    Config {
        mss: 1004,
        congestion: Algorithm::NewReno,
        recovery: Recovery::NewReno,
        tso: false,
        delayed_ack: Time::ZERO,
        rto_min: Time::from_ms(200),
        fastlane: fastlane.then(Options::default),
        ..Config::default()
    }
}

fn pair(config: Config) -> Pair {
    let config = Arc::new(config);
    let client = Endpoint::established(config.clone(), &config, 0xffff_f000, 7, true);
    let server = Endpoint::established(config.clone(), &config, 7, 0xffff_f000, false);
    Pair::new(client, server)
}

fn of(packet: &Segment) -> Notification {
    let Segment { seq, ack, len, flags, timeouts, probe, .. } = *packet;
    Notification { seq, ack, len, flags, timeouts, probe }
}

/// An end with `n` full segments outstanding, which are returned.
fn outstanding(config: Config, n: u64) -> (Endpoint, Vec<Segment>) {
    let config = Arc::new(Config { initial_cwnd: n as u32, ..config });
    let mut end = Endpoint::established(config.clone(), &config, 0, 0, true);
    end.write(n * 1000);
    let sent: Vec<_> = std::iter::from_fn(|| {
        let segment = end.poll_transmit(Time::ZERO, u64::MAX)?;
        end.on_nic_tx_done(u64::from(segment.len));
        Some(segment)
    })
    .collect();
    assert_eq!(sent.len() as u64, n);
    (end, sent)
}

fn ack(end: &mut Endpoint, upto: u32, held: u32) {
    let segment = Segment { ack: upto, seq: 1, flags: flags::ACK, window: 0xffff, held, ..Segment::default() };
    end.on_segment(Time::from_us(100), &segment);
}

fn resent(end: &mut Endpoint) -> Vec<u32> {
    let sent = std::iter::from_fn(|| {
        let segment = end.poll_transmit(Time::from_us(100), u64::MAX)?;
        end.on_nic_tx_done(u64::from(segment.len));
        Some(segment.seq)
    });
    sent.collect()
}

#[test]
fn a_lost_tail_is_repaired_at_once_and_without_a_timeout() {
    let lost = [8u64, 9];
    let run = |fastlane: bool| {
        let mut pair = pair(config(fastlane));
        pair.drop_data(&lost);
        pair.tells = fastlane;
        pair.client().write(10_000);
        assert!(pair.run(Time::from_secs(5)));
        (pair.now, pair.client().tx.counters)
    };
    let (plain_end, plain) = run(false);
    let (end, counters) = run(true);
    assert_eq!((plain.timeouts, counters.timeouts), (1, 0));
    assert_eq!((counters.notifications, counters.retransmitted_packets), (2, 2));
    assert!(end < Time::from_ms(2) && plain_end > Time::from_ms(200), "{end} {plain_end}");
}

#[test]
fn reordering_alone_makes_nobody_send_again() {
    let mut pair = pair(config(true));
    let mut n = 0;
    pair.tamper(move |side, segment| {
        n += u64::from(side == 0 && segment.len > 0);
        if side == 0 && n % 7 == 3 {
            Fate::Late(Time::from_us(400))
        } else {
            Fate::Pass
        }
    });
    pair.client().write(400_000);
    assert!(pair.run(Time::from_secs(5)));
    let counters = pair.client().tx.counters;
    assert!(pair.server().rx.counters.out_of_order > 10);
    assert_eq!((counters.retransmitted_packets, counters.fast_retransmits, counters.timeouts), (0, 0, 0));
}

#[test]
fn syns_of_both_directions_and_acks_are_sent_again_at_once() {
    let config = Arc::new(config(true));
    let mut pair = Pair::new(Endpoint::connect(config.clone(), 1), Endpoint::listen(config, 2));
    pair.tells = true;
    let mut lost = [false; 3];
    pair.tamper(move |side, segment| {
        let which = match (segment.has(flags::SYN), side) {
            (true, side) => side,
            (false, 1) if segment.len == 0 => 2,
            _ => return Fate::Pass,
        };
        if std::mem::replace(&mut lost[which], true) {
            Fate::Pass
        } else {
            Fate::Drop
        }
    });
    pair.client().write(1000);
    assert!(pair.run(Time::from_secs(10)));
    assert_eq!((pair.drops, pair.controls_again), (3, 3));
    assert!(pair.now < Time::from_ms(2), "{}", pair.now);
    let (client, server) = (pair.client().tx.counters, pair.server().tx.counters);
    assert_eq!((client.timeouts, server.timeouts), (0, 0));
}

#[test]
fn during_recovery_no_new_data_leaves_and_afterwards_the_window_is_half() {
    let (mut end, sent) = outstanding(config(true), 20);
    end.write(50_000);
    let before = end.tx.cwnd();
    end.on_notification(&of(&sent[4]));
    assert_eq!(resent(&mut end), [sent[4].seq]);
    ack(&mut end, sent[4].seq, 0);
    assert_eq!(resent(&mut end), [0u32; 0], "the table has an entry");
    ack(&mut end, sent[5].seq, 0);
    assert_eq!(end.tx.cwnd(), before / 2);
    ack(&mut end, sent[19].seq, 0);
    assert!(!resent(&mut end).is_empty(), "new data again");
}

#[test]
fn the_first_outstanding_segment_goes_at_once_and_others_wait_for_room() {
    // Half of a window of 4 is 2 at once.
    let (mut end, sent) = outstanding(config(true), 4);
    for n in [3, 2, 1] {
        end.on_notification(&of(&sent[n]));
    }
    assert_eq!(resent(&mut end), [sent[1].seq, sent[2].seq], "lowest first, two in the network");
    end.on_notification(&of(&sent[0]));
    assert_eq!(resent(&mut end), [sent[0].seq]);
    assert_eq!(resent(&mut end), [0u32; 0]);
    ack(&mut end, sent[2].seq, 0);
    assert_eq!(resent(&mut end), [sent[3].seq]);
}

#[test]
fn notifications_from_before_a_timeout_and_of_what_is_acknowledged_or_was_never_sent_are_ignored() {
    let (mut end, sent) = outstanding(config(true), 10);
    let ignored = |end: &Endpoint| end.tx.counters.notifications_ignored;
    end.on_notification(&Notification { timeouts: 3, ..of(&sent[0]) });
    assert_eq!(ignored(&end), 1);
    ack(&mut end, sent[3].seq, 0);
    resent(&mut end);
    end.on_notification(&of(&sent[2]));
    end.on_notification(&Notification { seq: sent[9].seq.wrapping_add(500), ..of(&sent[9]) });
    end.on_notification(&Notification { seq: sent[9].seq.wrapping_add(50_000), ..of(&sent[9]) });
    assert_eq!((ignored(&end), end.tx.counters.notifications), (4, 0));
    end.handle_timeout(Time::from_secs(10));
    resent(&mut end);
    end.on_notification(&of(&sent[5]));
    assert_eq!(ignored(&end), 5, "sent before the timeout");
}

/// What was dropped before the timeout has been sent again since.
#[test]
fn without_the_timeout_count_a_stale_notification_makes_the_sender_send_again() {
    for (count, again) in [(true, 0), (false, 1)] {
        let options = Options { count, ..Options::default() };
        let (mut end, sent) = outstanding(Config { fastlane: Some(options), ..config(true) }, 10);
        end.handle_timeout(Time::from_secs(10));
        assert_eq!(resent(&mut end), [sent[0].seq]);
        ack(&mut end, sent[1].seq, 0);
        assert_eq!(resent(&mut end), [sent[1].seq, sent[2].seq], "in order");
        end.on_notification(&of(&sent[1]));
        assert_eq!(resent(&mut end), vec![sent[1].seq; again], "count {count}");
        assert_eq!(end.tx.counters.notifications, again as u32);
    }
}

#[test]
fn without_the_option_notifications_do_nothing() {
    let (mut end, sent) = outstanding(config(false), 5);
    end.on_notification(&of(&sent[0]));
    assert_eq!((resent(&mut end).len(), end.tx.counters.notifications), (0, 0));
}

#[test]
fn what_the_receiver_holds_lets_as_much_more_leave() {
    let (mut end, sent) = outstanding(config(true), 10);
    end.write(100_000);
    let first = sent[0].seq;
    let inflation = |end: &mut Endpoint, upto, held| {
        ack(end, upto, held);
        end.tx.reno_sacked
    };
    assert_eq!(inflation(&mut end, sent[1].seq, 4380), 4380);
    assert_eq!(inflation(&mut end, sent[1].seq, 2920), 4380, "a duplicate only raises it");
    assert_eq!(inflation(&mut end, sent[1].seq, 5840), 5840);
    assert_eq!(inflation(&mut end, sent[2].seq, 0), 0);
    assert_ne!(first, sent[2].seq);

    let (mut inflated, _) = outstanding(config(true), 10);
    inflated.write(100_000);
    ack(&mut inflated, first, 3000);
    assert_eq!(resent(&mut inflated).len(), 3);
}

#[test]
fn every_packet_counts_timeouts_and_acks_tell_what_is_held() {
    let mut pair = pair(config(true));
    pair.keep_log = true;
    pair.tells = true;
    pair.drop_data(&[0]);
    pair.client().write(5000);
    assert!(pair.run(Time::from_secs(1)));
    assert!(pair.log.iter().all(|(_, _, s)| s.timeouts == 1 && s.header_len() >= 24));
    assert!(pair.log.iter().any(|(_, side, s)| *side == 1 && s.held == 4000 && s.header_len() == 32));
}
