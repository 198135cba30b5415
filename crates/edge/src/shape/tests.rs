//! Rates of classes over time, with numbers computed by hand.

use super::*;
use units::Bytes;

const SEGMENT: u64 = 65_226;

fn class(guarantee: u64, ceiling: u64) -> Class {
    Class { ceiling: BitRate::from_gbps(ceiling), ..Class::fixed(BitRate::from_gbps(guarantee)) }
}

fn shaper(total: Option<u64>, classes: &[Class]) -> Htb<u32> {
    Htb::new(&Config { total: total.map(BitRate::from_gbps), classes: classes.to_vec() }).unwrap()
}

/// Queues an item of a class without headers.
fn enqueue<T>(htb: &mut Htb<T>, class: usize, item: T, bytes: u64) -> Result<(), T> {
    htb.enqueue(Time::ZERO, &Standing { class, ..Standing::default() }, item, &wire::Packet::default(), bytes)
}

/// Keeps the classes that are `busy` at a time backlogged with segments, and returns the rate of each in Gbps between two times.
fn rates(htb: &mut Htb<u32>, from: Time, until: Time, bytes: u64, busy: impl Fn(usize, Time) -> bool) -> Vec<f64> {
    let mut sent = vec![0; htb.classes()];
    let mut now = from;
    while now < until {
        for class in 0..htb.classes() {
            while busy(class, now) && htb.backlog(class) < 2 * bytes {
                enqueue(htb, class, 0, bytes).unwrap();
            }
        }
        match htb.dequeue(now) {
            Some(due) => sent[due.class] += due.bytes,
            None => now = htb.poll_timeout(now).unwrap_or(until),
        }
    }
    sent.iter().map(|&bytes| bytes as f64 * 8e-9 / (until - from).as_secs_f64()).collect()
}

fn near(rates: &[f64], expected: &[f64]) {
    let close = rates.iter().zip(expected).all(|(rate, e)| (rate - e).abs() <= 0.01 * e.max(0.01));
    assert!(close, "{rates:?}, not {expected:?}");
}

const SECOND: Time = Time::from_secs(1);

#[test]
fn a_class_alone_gets_its_rate_and_no_more() {
    for bytes in [84, 1514, SEGMENT] {
        let mut htb = shaper(None, &[class(1, 1)]);
        near(&rates(&mut htb, Time::ZERO, SECOND, bytes, |_, _| true), &[1.0]);
    }
}

#[test]
fn what_is_left_is_lent_in_proportion_to_the_guarantees() {
    let busy = |_, _| true;
    let both = |g: [u64; 2]| rates(&mut shaper(Some(10), &g.map(|g| class(g, 10))), Time::ZERO, SECOND, SEGMENT, busy);
    near(&both([2, 3]), &[4.0, 6.0]);
    near(&both([2, 2]), &[5.0, 5.0]);
    near(&both([1, 9]), &[1.0, 9.0]);
    let mut small = shaper(Some(10), &[class(2, 10), class(3, 10)]);
    near(&rates(&mut small, Time::ZERO, SECOND, 1514, busy), &[4.0, 6.0]);
    // With a burst smaller than a segment a class loses the rate that it cannot use the moment its ceiling allows it.
    let deep = |class| Class { burst: Bytes(200_000), ceiling_burst: Bytes(200_000), ..class };
    let mut capped = shaper(Some(10), &[deep(class(2, 3)), deep(class(3, 10))]);
    near(&rates(&mut capped, Time::ZERO, SECOND, SEGMENT, busy), &[3.0, 7.0]);
}

#[test]
fn a_class_may_borrow_all_and_must_give_it_back() {
    let mut htb = shaper(Some(10), &[class(2, 10), class(3, 10)]);
    near(&rates(&mut htb, Time::ZERO, SECOND, SEGMENT, |class, _| class == 0), &[10.0, 0.0]);
    let woken = rates(&mut htb, SECOND, SECOND + Time::from_ms(10), SEGMENT, |_, _| true);
    assert!(woken[1] >= 3.0, "at once: {woken:?}");
    let mut oversold = shaper(Some(4), &[class(2, 10), class(3, 10)]);
    near(&rates(&mut oversold, Time::ZERO, SECOND, SEGMENT, |_, _| true), &[2.0, 3.0]);
}

#[test]
fn a_pause_is_worth_a_burst_and_no_more() {
    let burst = Class { burst: Bytes(100_000), ceiling_burst: Bytes(100_000), ..class(1, 1) };
    let mut htb = shaper(None, &[burst]);
    for _ in 0..400 {
        enqueue(&mut htb, 0, 0, 1000).unwrap();
    }
    let now = Time::from_secs(5);
    let at_once = std::iter::from_fn(|| htb.dequeue(now)).count();
    assert_eq!(at_once, 101, "the burst, and one that begins while a token is left");
    assert_eq!(htb.poll_timeout(now), Some(now + Time::from_us(8)));
    assert_eq!(htb.backlog(0), 299_000);
}

#[test]
fn segments_leave_in_order_and_the_wait_is_exact() {
    let mut htb = shaper(None, &[class(1, 1)]);
    for n in 0..3 {
        enqueue(&mut htb, 0, n, SEGMENT).unwrap();
    }
    assert_eq!(htb.poll_timeout(Time::ZERO), Some(Time::ZERO));
    assert_eq!(htb.dequeue(Time::ZERO).map(|due| due.item), Some(0));
    let next = htb.poll_timeout(Time::ZERO).unwrap();
    assert_eq!(next, BitRate::from_gbps(1).tx_time(SEGMENT - DEFAULT_BURST.get()));
    assert_eq!(htb.dequeue(next - Time::from_ps(1)), None);
    assert_eq!(htb.dequeue(next).map(|due| due.item), Some(1));
    assert_eq!((htb.backlog(0), htb.backlog(7)), (SEGMENT, 0));
}

#[test]
fn what_left_before_its_time_is_still_to_be_waited_for() {
    let mut htb = shaper(None, &[class(1, 1)]);
    for n in 0..2 {
        enqueue(&mut htb, 0, n, SEGMENT).unwrap();
    }
    assert_eq!((htb.unpaid(0, Time::ZERO), htb.unpaid(7, Time::ZERO)), (0, 0));
    htb.dequeue(Time::ZERO).unwrap();
    let debt = SEGMENT - DEFAULT_BURST.get();
    assert_eq!(htb.unpaid(0, Time::ZERO), debt);
    assert_eq!(htb.standing(0, Time::ZERO).backlog, SEGMENT + debt);
    assert_eq!(htb.unpaid(0, Time::from_us(80)), debt - 10_000);
    assert_eq!(htb.unpaid(0, Time::from_secs(1)), 0);
}

#[test]
fn a_full_queue_gives_the_item_back() {
    let mut htb = shaper(None, &[Class { queue: Some(Bytes(3000)), ..class(1, 1) }]);
    assert_eq!(
        [enqueue(&mut htb, 0, 1, 1500), enqueue(&mut htb, 0, 2, 1500), enqueue(&mut htb, 0, 3, 1)],
        [Ok(()), Ok(()), Err(3)]
    );
    assert_eq!((htb.backlog(0), htb.dropped(0)), (3000, 1));
    assert_eq!(enqueue(&mut htb, 9, 4, 1), Err(4));
    assert_eq!(htb.poll_timeout(Time::MAX), Some(Time::MAX));
}

#[test]
fn hierarchies_that_cannot_work_are_refused() {
    let check = |total: Option<u64>, classes: &[Class]| {
        Config { total: total.map(BitRate::from_gbps), classes: classes.to_vec() }.check()
    };
    assert_eq!(check(None, &[]), Err(Invalid::NoClass));
    assert_eq!(check(Some(0), &[class(1, 1)]), Err(Invalid::NoTotal));
    assert_eq!(check(None, &[class(1, 1), class(0, 1)]), Err(Invalid::NoGuarantee(1)));
    assert_eq!(check(None, &[class(2, 1)]), Err(Invalid::LowCeiling(0)));
    assert_eq!(check(None, &[Class { quantum: Some(Bytes(0)), ..class(1, 1) }]), Err(Invalid::NoQuantum(0)));
    assert_eq!(check(Some(1), &[class(1, 2)]), Ok(()));
}

#[test]
fn fair_queues_of_a_class_keep_to_its_rate_and_say_what_they_drop_and_mark() {
    let fq_codel = aqm::FqCodel { limit: 4, ..aqm::FqCodel::default() };
    let mut htb = shaper(None, &[Class { fq_codel: Some(fq_codel), ..class(1, 1) }]);
    let at = Standing::default();
    let segment = |sport, ecn| wire::Packet { sport, ecn, ..wire::Packet::default() };
    for n in 0..4 {
        htb.enqueue(Time::ZERO, &at, n, &segment(1, 0), 1000).unwrap();
    }
    htb.enqueue(Time::ZERO, &at, 4, &segment(2, 0), 1000).unwrap();
    assert_eq!(std::iter::from_fn(|| htb.poll_dropped()).collect::<Vec<_>>(), [0, 1], "half of the longest");
    assert_eq!((htb.backlog(0), htb.dropped(0), htb.marked(0)), (3000, 2, 0));
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    while let Some(at) = htb.poll_timeout(now) {
        now = at;
        sent.extend(htb.dequeue(now).map(|due| (due.item, now)));
    }
    let byte = Time::from_ns(8);
    let after = |bytes: u64| Time::from_ps(byte.as_ps() * bytes);
    assert_eq!(sent, [(2, Time::ZERO), (3, Time::ZERO), (4, after(400))], "a burst of 1600 bytes, then at the rate");
    // What may be marked is marked once packets have waited too long for an interval.
    let mut htb = shaper(None, &[Class { fq_codel: Some(aqm::FqCodel::default()), ..class(1, 1) }]);
    let mut marked = 0;
    for ms in 0..300 {
        let now = Time::from_ms(ms);
        htb.enqueue(now, &at, 0, &segment(1, wire::ecn::ECT0), 1000).unwrap();
        if ms >= 20 {
            marked += u64::from(htb.dequeue(now).is_some_and(|due| due.mark));
        }
    }
    assert_eq!((marked, htb.marked(0), htb.dropped(0)), (3, 3, 0));
}
