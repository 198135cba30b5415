//! SPRING over long paths, where some flows go past the queue: numbers computed by hand.

use super::super::*;
use super::tests::{segment, syn, Guarded, MSS};
use crate::vcc::{Class, Config};
use units::Time;
use wire::tcp;

/// 1 Gb/s.
const RATE: u32 = 125_000;
/// 20 ms in units of 2^14 ns, and what a limit of 1 Gb/s sends in it, with 64 KiB.
const FAR: u16 = 1220;
const FAR_BYTES: u32 = 2_564_096;
/// What a lone connection that begins may have in the queue: three shares, all of K2.
const YOUNG: u32 = 30_000;

fn limit(backlog: u32, flows: u16) -> Limit {
    let rate = if flows > 0 { RATE } else { 0 };
    Limit { backlog, k1: 20_000, k2: 30_000, alpha: 512, beta: 512, law: LIMIT_SPRING, flows, rate, ..Limit::default() }
}

/// The guest connects: so long to the SYN-ACK, and from there to its ACK with 60,000 bytes.
fn opened(flows: u16, to_peer: Time, to_guest: Time) -> Guarded {
    let mut edge = Guarded::new(&Config::new(Class::OFF));
    edge.limit = Some(limit(0, flows));
    edge.now = Time::from_ms(5);
    edge.out(syn(tcp::SYN, 0, 0, Some(7)));
    edge.now += to_peer;
    edge.hear(syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)));
    edge.now += to_guest;
    edge.out(segment(tcp::ACK, 1, 1001, 60_000));
    edge
}

/// The window after an ACK of everything, which announces 7.68 MB and finds that backlog.
fn window(edge: &mut Guarded, backlog: u32) -> u32 {
    edge.limit = Some(Limit { backlog, ..edge.limit.unwrap() });
    let ack = edge.vcc.conn.snd_nxt;
    edge.come(Packet { window: 60_000, ..segment(tcp::ACK, 1001, ack, 0) });
    edge.vcc.bound.spring
}

#[test]
fn a_long_path_adds_what_it_holds() {
    let mut edge = opened(1, Time::from_ms(20), Time::ZERO);
    assert_eq!((edge.vcc.bound.spring_since, edge.vcc.bound.spring_path), (0, FAR));
    assert_eq!(window(&mut edge, 0), FAR_BYTES + YOUNG);
    assert!(window(&mut edge, 1 << 20) >= FAR_BYTES, "a queue of a burst does not cut below it");
    edge.come(Packet { window: 1000, ..segment(tcp::ACK, 1001, edge.vcc.conn.snd_una, 0) });
    assert_eq!(edge.vcc.bound.spring, 128_000, "never more than the peer announces");
}

#[test]
fn both_sides_of_the_limit_count() {
    let edge = opened(1, Time::from_ms(5), Time::from_ms(15));
    assert_eq!(edge.vcc.bound.spring_path, FAR);
}

#[test]
fn of_a_path_that_is_not_much_longer_than_a_near_one_a_part_counts() {
    let mut edge = opened(1, Time::from_us(328), Time::ZERO);
    assert_eq!(edge.vcc.bound.spring_path, 20, "77,680 ns beyond 250 us count twice, and as 20,363 bytes of a segment");
    assert_eq!(window(&mut edge, 0), 39_783 + YOUNG + MSS);
}

#[test]
fn flows_share_what_the_path_holds() {
    assert_eq!(window(&mut opened(4, Time::from_ms(20), Time::ZERO), 0), FAR_BYTES / 4 + 3 * (YOUNG / 4));
}

/// Where fewer than before share the limit, or the sender is not seen to have much under way, as where it is beyond the limit.
#[test]
fn a_flow_gets_its_share_whatever_it_has_under_way() {
    let mut edge = opened(8, Time::from_ms(20), Time::ZERO);
    let of_eight = window(&mut edge, 0);
    assert!(of_eight < FAR_BYTES / 7 && edge.vcc.conn.flight <= 60_000);
    edge.limit = Some(limit(0, 1));
    assert!(window(&mut edge, 0) >= FAR_BYTES);
}

#[test]
fn near_paths_and_the_law_as_printed_stay_as_they_are() {
    for (flows, took, path) in [(1, Time::from_us(240), 14), (0, Time::from_ms(20), 0)] {
        let mut edge = opened(flows, took, Time::ZERO);
        assert_eq!(edge.vcc.bound.spring_path, path);
        let share = if flows > 0 { YOUNG } else { 10 * MSS };
        assert!((share..=share + MSS).contains(&window(&mut edge, 0)), "{}", edge.vcc.bound.spring);
    }
}

#[test]
fn what_follows_the_handshake_changes_nothing() {
    let mut edge = opened(1, Time::from_ms(20), Time::ZERO);
    edge.now += Time::from_ms(500);
    for flags in [tcp::ACK, tcp::SYN | tcp::ACK, tcp::SYN, tcp::RST] {
        edge.come(Packet { window: 60_000, ..segment(flags, 1001, 1, 0) });
    }
    assert_eq!((edge.vcc.bound.spring_since, edge.vcc.bound.spring_path), (0, FAR));
}

#[test]
fn of_what_is_sent_again_the_last_counts() {
    let mut edge = Guarded::new(&Config::new(Class::OFF));
    edge.limit = Some(limit(0, 1));
    for ms in [5, 700] {
        edge.now = Time::from_ms(ms);
        edge.out(syn(tcp::SYN, 0, 0, Some(7)));
    }
    for _ in 0..2 {
        edge.now += Time::from_ms(20);
        edge.hear(syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)));
    }
    edge.out(segment(tcp::ACK, 1, 1001, 0));
    assert!((FAR..=FAR + 1).contains(&edge.vcc.bound.spring_path), "{}", edge.vcc.bound.spring_path);
}
