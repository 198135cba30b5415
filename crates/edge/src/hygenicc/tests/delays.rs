//! Segments that wait for their turn.

use super::edges::{config, datagram, edge, A, B};
use crate::hygenicc::{Config, Hold};
use crate::{Direction, DropReason, Edge, Slot, Verdict};
use proptest::prelude::*;
use units::{BitRate, Bytes, Time};
use wire::v4;

/// Bytes on the wire of a datagram.
const SIZE: u64 = 1066;

fn delaying(guests: &[[u32; 4]], backlog: u64) -> Edge {
    let guests = guests.iter().map(|&guest| (guest, 1)).collect();
    let (depth, bursts) = (Bytes(SIZE), 0);
    edge(Config { hold: Hold::Delay(Bytes(backlog)), guests, depth, bursts, ..config(A) })
}

fn send(edge: &mut Edge, from: [u32; 4], slot: u32, now: Time) -> Verdict {
    edge.process(now, Direction::Egress, Slot(slot), &mut datagram(from, B))
}

/// What leaves until then, and when.
fn departures(edge: &mut Edge, until: Time) -> Vec<(Time, u32)> {
    let mut left = Vec::new();
    while let Some(at) = edge.poll_timeout().filter(|&at| at <= until) {
        edge.handle_timeout(at);
        left.extend(std::iter::from_fn(|| edge.poll_departure(at)).map(|Slot(slot)| (at, slot)));
    }
    left
}

#[test]
fn what_waits_leaves_at_the_rate_and_in_order() {
    let mut a = delaying(&[A], 3 * SIZE);
    let now = Time::from_ms(1);
    let verdicts: Vec<Verdict> = (0..5).map(|n| send(&mut a, A, n, now)).collect();
    let over = Verdict::Drop(DropReason::OverRate);
    assert_eq!(verdicts, [Verdict::Forward, Verdict::Hold, Verdict::Hold, Verdict::Hold, over]);
    let gap = Time::from_ns(8528);
    let expected: Vec<_> = (1..4).map(|n: u32| (now + gap * u64::from(n), n)).collect();
    assert_eq!(departures(&mut a, Time::from_ms(2)), expected);
    let counters = a.counters().hygenicc;
    assert_eq!((counters.delayed_segments, counters.dropped_segments), (3, 1));
}

#[test]
fn guests_wait_for_their_own_buckets() {
    let other = v4([10, 0, 0, 7]);
    let mut a = delaying(&[A, other], 10 * SIZE);
    let now = Time::from_ms(1);
    let held = (0..4).filter(|&n| send(&mut a, A, n, now) == Verdict::Hold).count();
    assert_eq!(held, 3);
    assert_eq!(send(&mut a, other, 100, now), Verdict::Forward);
    assert_eq!(send(&mut a, v4([10, 0, 0, 9]), 101, now), Verdict::Forward, "a stranger is not held");
    assert_eq!(send(&mut a, other, 102, now), Verdict::Hold);
    let order: Vec<u32> = departures(&mut a, Time::from_ms(2)).into_iter().map(|(_, slot)| slot).collect();
    assert_eq!(order, [1, 2, 102, 3], "the newcomer has half of the uplink, the other one all until the interval ends");
}

proptest! {
    /// Whatever marks do to the rate, segments leave in order, once, and no more of them wait than may.
    #[test]
    fn segments_leave_in_order_whatever_the_rate_does(
        steps in proptest::collection::vec((0u64..200, any::<u16>()), 1..300),
    ) {
        let backlog = 8 * SIZE;
        let mut a = edge(Config {
            hold: Hold::Delay(Bytes(backlog)),
            depth: Bytes(SIZE),
            bursts: 0,
            quiet: Time::from_ms(1),
            ..Config::new(BitRate::from_mbps(100), Time::from_us(20))
        });
        a = match a.config().hygenicc.clone() {
            Some(hygenicc) => edge(Config { guests: vec![(A, 1)], ..hygenicc }),
            None => a,
        };
        let (mut held, mut left) = (Vec::new(), Vec::new());
        let mut now = Time::from_ms(1);
        for (n, (pause, count)) in steps.into_iter().enumerate() {
            now += Time::from_us(pause);
            left.extend(departures(&mut a, now).into_iter().map(|(_, slot)| slot));
            if send(&mut a, A, n as u32, now) == Verdict::Hold {
                held.push(n as u32);
            }
            prop_assert!((held.len() - left.len()) as u64 * SIZE <= backlog);
            let [path, value] = count.to_be_bytes();
            let told = wire::feedback::Feedback { kind: wire::feedback::MARKS, path, value };
            a.hear(now, &datagram(B, A), 0, None, told);
        }
        left.extend(departures(&mut a, now + Time::from_ms(900)).into_iter().map(|(_, slot)| slot));
        prop_assert_eq!(left, held);
    }
}
