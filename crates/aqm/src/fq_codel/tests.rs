//! The rules of RFC 8290, section 4, and of RFC 8289 within each queue.

use super::*;
use proptest::prelude::*;

const FRAME_BYTES: u64 = 1514;

/// A flow's number as a hash that gives it a queue of its own, of 1024.
fn hash(flow: u32) -> u32 {
    flow << 22
}

fn packet(item: u32, bytes: u64) -> Packet<u32> {
    Packet { item, bytes, mark: false }
}

fn queues() -> Queues<u32> {
    Queues::new(FqCodel::default())
}

/// Sends everything at `now`.
fn order(queues: &mut Queues<u32>, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| queues.dequeue(now)).map(|packet| packet.item).collect()
}

#[test]
fn queues_take_turns_of_a_quantum() {
    let mut q = queues();
    for n in 0..3 {
        q.enqueue(Time::ZERO, hash(1), packet(10 + n, FRAME_BYTES));
    }
    for n in 0..3 {
        q.enqueue(Time::ZERO, hash(2), packet(20 + n, FRAME_BYTES));
    }
    assert_eq!(order(&mut q, Time::ZERO), [10, 20, 11, 21, 12, 22]);
    // By bytes: three packets of 500 are sent while there is credit, and then one.
    let mut q = queues();
    for n in 0..7 {
        q.enqueue(Time::ZERO, hash(1), packet(10 + n, 500));
    }
    for n in 0..2 {
        q.enqueue(Time::ZERO, hash(2), packet(20 + n, FRAME_BYTES));
    }
    assert_eq!(order(&mut q, Time::ZERO), [10, 11, 12, 13, 20, 14, 15, 16, 21]);
}

#[test]
fn a_large_segment_is_paid_for_before_its_queue_sends_again() {
    let mut q = queues();
    for n in 0..2 {
        q.enqueue(Time::ZERO, hash(1), packet(10 + n, 10 * FRAME_BYTES));
    }
    for n in 0..20 {
        q.enqueue(Time::ZERO, hash(2), packet(100 + n, FRAME_BYTES));
    }
    let sent = order(&mut q, Time::ZERO);
    assert_eq!(sent.iter().position(|&item| item == 11), Some(11), "{sent:?}");
}

#[test]
fn a_queue_that_begins_goes_first_and_not_for_ever() {
    let mut q = queues();
    for n in 0..10 {
        q.enqueue(Time::ZERO, hash(1), packet(10 + n, 500));
    }
    let next = |q: &mut Queues<u32>| q.dequeue(Time::ZERO).map(|packet| packet.item);
    // The fifth is of its second turn, which it has among the others.
    (10..15).for_each(|item| assert_eq!(next(&mut q), Some(item)));
    q.enqueue(Time::ZERO, hash(2), packet(20, 100));
    assert_eq!(next(&mut q), Some(20), "new before old");
    // Its queue is empty now, and found so it joins the others' list: a packet that comes then waits for its turn there.
    assert_eq!(next(&mut q), Some(15));
    q.enqueue(Time::ZERO, hash(2), packet(21, 100));
    assert_eq!((q.new.len(), q.old.len()), (0, 2));
    // Found empty there it is forgotten, and then it is new again.
    assert_eq!([next(&mut q), next(&mut q), next(&mut q)], [Some(16), Some(21), Some(17)]);
    assert_eq!(q.old.len(), 1);
    q.enqueue(Time::ZERO, hash(2), packet(22, 100));
    assert_eq!((q.new.len(), next(&mut q)), (1, Some(22)));
}

#[test]
fn the_longest_queue_makes_room_from_its_head() {
    let mut q = Queues::new(FqCodel { limit: 10, ..FqCodel::default() });
    for n in 0..8 {
        q.enqueue(Time::ZERO, hash(1), packet(10 + n, FRAME_BYTES));
    }
    for n in 0..2 {
        q.enqueue(Time::ZERO, hash(2), packet(20 + n, FRAME_BYTES));
    }
    assert_eq!(q.poll_dropped(), None);
    q.enqueue(Time::ZERO, hash(2), packet(22, 60));
    let dropped: Vec<u32> = std::iter::from_fn(|| q.poll_dropped()).collect();
    assert_eq!(dropped, [10, 11, 12, 13], "half of them");
    assert_eq!(q.bytes(), 6 * FRAME_BYTES + 60);
    // No more than 64 at once, and of one packet that one.
    let mut q = Queues::new(FqCodel { limit: 400, ..FqCodel::default() });
    (0..401).for_each(|n| q.enqueue(Time::ZERO, hash(1), packet(n, 100)));
    assert_eq!(std::iter::from_fn(|| q.poll_dropped()).count(), 64);
    let mut q = Queues::new(FqCodel { limit: 0, ..FqCodel::default() });
    q.enqueue(Time::ZERO, hash(1), packet(1, 100));
    assert_eq!((q.poll_dropped(), q.bytes(), q.is_empty()), (Some(1), 0, true));
    assert_eq!(q.dequeue(Time::ZERO), None);
}

/// A flow that has `standing` packets in its queue, one of which leaves each millisecond when another comes. What was picked out, ms.
fn picked(config: FqCodel, mark: bool, standing: u64, until: u64) -> (Vec<u64>, Queues<u32>) {
    let mut q = Queues::new(config);
    let mut picked = Vec::new();
    for ms in 0..until {
        let now = Time::from_ms(ms);
        q.enqueue(now, hash(1), Packet { mark, ..packet(ms as u32, FRAME_BYTES) });
        if ms < standing {
            continue;
        }
        let sent = q.dequeue(now).expect("it is never empty");
        let dropped = std::iter::from_fn(|| q.poll_dropped()).count();
        picked.extend((0..dropped + usize::from(sent.mark)).map(|_| ms));
    }
    (picked, q)
}

#[test]
fn codel_acts_on_a_queue_after_an_interval_and_then_ever_more_often() {
    // The first that has waited too long leaves at 20 ms. Then 100/sqrt(n) ms apart: 120, 220, 290.7, 348.4, 398.4, 443.2, 484.
    let (marked, q) = picked(FqCodel::default(), true, 20, 500);
    assert_eq!(marked, [120, 220, 291, 349, 399, 444, 484]);
    assert_eq!(q.packets, 20, "nothing was dropped");
    let (dropped, q) = picked(FqCodel::default(), false, 40, 300);
    assert_eq!(dropped, [140, 240]);
    assert_eq!(q.packets, 38);
    let no_ecn = FqCodel { ecn: false, ..FqCodel::default() };
    assert_eq!(picked(no_ecn, true, 40, 300).0, [140, 240], "without ECN all are dropped");
    assert!(picked(FqCodel::default(), true, 4, 500).0.is_empty(), "below the target");
}

#[test]
fn codel_looks_at_each_queue_by_itself() {
    let mut q = queues();
    // One flow with a standing queue, and one whose every packet waits long, alone in its queue: of that none is picked out.
    for ms in 0..400 {
        let now = Time::from_ms(ms);
        q.enqueue(now, hash(1), packet(0, FRAME_BYTES));
        q.enqueue(now, hash(1), packet(0, FRAME_BYTES));
        if ms % 10 == 0 {
            q.enqueue(now, hash(2), packet(1, FRAME_BYTES));
        }
        if ms % 10 == 9 {
            (0..10).filter_map(|_| q.dequeue(now)).for_each(|sent| assert!(!sent.mark));
        }
    }
    let dropped: Vec<u32> = std::iter::from_fn(|| q.poll_dropped()).collect();
    assert!(!dropped.is_empty() && dropped.iter().all(|&item| item == 0), "{dropped:?}");
}

#[test]
fn hashes_spread_over_all_queues_and_some_share_one() {
    let mut q = Queues::new(FqCodel { flows: 3, ..FqCodel::default() });
    for hash in [0, u32::MAX / 2, u32::MAX, u32::MAX - 1] {
        q.enqueue(Time::ZERO, hash, packet(hash, FRAME_BYTES));
    }
    assert_eq!(q.flows.iter().map(|flow| flow.packets.len()).collect::<Vec<_>>(), [1, 1, 2]);
    let mut none = Queues::new(FqCodel { flows: 0, ..FqCodel::default() });
    none.enqueue(Time::ZERO, 7, packet(7, 1));
    assert_eq!(order(&mut none, Time::ZERO), [7]);
}

proptest! {
    /// Whatever comes: every packet is sent or dropped once, those of a flow in their order, the counts are right, no more than `limit` wait,
    /// and flows that always have something to send get equal parts.
    #[test]
    fn packets_are_conserved_and_flows_keep_their_order(
        steps in prop::collection::vec((0u64..8_000, 0u32..6, 40u64..70_000, any::<bool>(), 0u32..3), 1..400),
        limit in 1u32..60,
        quantum in 1u64..9_000,
    ) {
        let mut q = Queues::new(FqCodel { limit, quantum: Bytes(quantum), ..FqCodel::default() });
        let (mut now, mut number) = (Time::ZERO, 0u32);
        let (mut gone, mut last) = (Vec::new(), [None; 6]);
        let mut waiting = 0u64;
        let take = |q: &mut Queues<(u32, u32, u64)>, now, gone: &mut Vec<u32>, last: &mut [Option<u32>; 6], waiting: &mut u64| {
            let sent = q.dequeue(now);
            if let Some(sent) = &sent {
                let (flow, number, bytes) = sent.item;
                assert!(last[flow as usize] < Some(number), "order");
                last[flow as usize] = Some(number);
                gone.push(number);
                *waiting -= bytes;
            }
            sent.is_some()
        };
        let drops = |q: &mut Queues<(u32, u32, u64)>, gone: &mut Vec<u32>, waiting: &mut u64| {
            while let Some((_, number, bytes)) = q.poll_dropped() {
                gone.push(number);
                *waiting -= bytes;
            }
        };
        for (pause, flow, bytes, mark, takes) in steps {
            now = now.saturating_add(Time::from_us(pause));
            q.enqueue(now, hash(flow), Packet { item: (flow, number, bytes), bytes, mark });
            (number, waiting) = (number + 1, waiting + bytes);
            drops(&mut q, &mut gone, &mut waiting);
            for _ in 0..takes {
                take(&mut q, now, &mut gone, &mut last, &mut waiting);
                drops(&mut q, &mut gone, &mut waiting);
            }
            prop_assert!(q.packets <= limit as usize);
            prop_assert_eq!(q.bytes(), waiting);
        }
        while take(&mut q, now, &mut gone, &mut last, &mut waiting) {}
        drops(&mut q, &mut gone, &mut waiting);
        prop_assert!(q.is_empty() && q.bytes() == 0);
        gone.sort_unstable();
        prop_assert_eq!(gone, (0..number).collect::<Vec<_>>());
    }

    #[test]
    fn flows_that_always_have_something_get_equal_parts(sizes in prop::collection::vec(60u64..66_000, 2..8)) {
        let codel = Codel { target: Time::from_secs(100), ..Codel::default() };
        let mut q = Queues::new(FqCodel { codel, ..FqCodel::default() });
        let mut sent = vec![0u64; sizes.len()];
        for (flow, &bytes) in sizes.iter().enumerate() {
            (0..2).for_each(|_| q.enqueue(Time::ZERO, hash(flow as u32), packet(flow as u32, bytes)));
        }
        while sent.iter().sum::<u64>() < 40_000_000 {
            let packet = q.dequeue(Time::ZERO).unwrap();
            sent[packet.item as usize] += packet.bytes;
            q.enqueue(Time::ZERO, hash(packet.item), packet);
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        prop_assert!(most - least <= 2 * (66_000 + FRAME_BYTES), "{sent:?}");
    }
}
