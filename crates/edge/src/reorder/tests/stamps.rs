//! Segments with TCP timestamps: what was sent again, and what guests would drop behind it.

use super::*;
use proptest::prelude::*;

/// Gives packets with their timestamps in one poll and returns what left at its end.
fn poll(receiver: &mut OneFlow, packets: &[(Packet, u32)]) -> Segments {
    for (packet, stamp) in packets {
        let slot = Slot(receiver.next_slot);
        receiver.next_slot += 1;
        assert_eq!(receiver.engine.process(receiver.now, 0, slot, packet, Some(*stamp)), Verdict::Hold);
    }
    receiver.flush()
}

#[test]
fn a_gap_that_fills_with_what_was_under_way_is_hidden() {
    let mut receiver = OneFlow::new();
    assert_eq!(poll(&mut receiver, &[(data(7, 3000, 4000), 11), (data(8, 4000, 5000), 12)]), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(6, 1000, 3000), 10)]), [[2], [0], [1]]);
    assert_eq!(receiver.counters().gaps_filled, 2);
}

#[test]
fn what_is_held_leaves_before_what_was_sent_again() {
    let mut receiver = OneFlow::new();
    assert_eq!(poll(&mut receiver, &[(data(7, 3000, 4000), 11), (data(8, 4000, 5000), 12)]), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(9, 1000, 3000), 20)]), [[0], [1], [2]]);
    assert!(!receiver.engine.is_holding(0));
}

#[test]
fn what_left_after_the_retransmission_still_waits() {
    let mut receiver = OneFlow::new();
    let held = [(data(7, 3000, 4000), 11), (data(10, 6000, 7000), 21)];
    assert_eq!(poll(&mut receiver, &held), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(9, 1000, 3000), 20)]), [[0], [2]]);
    assert!(receiver.engine.is_holding(0));
}

#[test]
fn timestamps_wrap() {
    let mut receiver = OneFlow::new();
    assert_eq!(poll(&mut receiver, &[(data(7, 3000, 4000), u32::MAX)]), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(8, 1000, 3000), 3)]), [[0], [1]]);
}

#[test]
fn segments_without_a_timestamp_leave_in_order() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(7, 3000, 4000), data(8, 4000, 5000)]), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(9, 1000, 3000), 20)]), [[2], [0], [1]]);
}

/// Data of one flowcell is one segment, however long it took to send.
#[test]
fn a_segment_has_several_timestamps() {
    let mut receiver = OneFlow::new();
    let held = [(data(7, 3000, 4000), 11), (data(7, 4000, 5000), 14)];
    assert_eq!(poll(&mut receiver, &held), NOTHING);
    assert_eq!(poll(&mut receiver, &[(data(9, 1000, 3000), 13)]), [vec![0, 1], vec![2]], "the first would be dropped");
}

#[test]
fn excess_leaves_as_it_was_sent() {
    let mut receiver = OneFlow::with(Config { flow_bytes: Bytes(2500), ..Config::default() });
    assert_eq!(poll(&mut receiver, &[(data(8, 3000, 4000), 20), (data(7, 5000, 6000), 11)]), NOTHING);
    let newest = receiver.engine.process(receiver.now, 0, Slot(2), &data(9, 9000, 10_000), Some(21));
    assert_eq!((newest, receiver.released()), (Verdict::Hold, vec![vec![1], vec![0]]));
}

proptest! {
    /// Whoever came first, was sent first and stands behind in the stream leaves first.
    #[test]
    fn nothing_leaves_behind_what_was_sent_again_after_it(
        all in prop::collection::vec((0u32..12, 0u32..3), 1..60),
        in_one_poll in 1usize..5,
    ) {
        let mut receiver = OneFlow::new();
        let (mut came, mut left) = (Vec::new(), Vec::new());
        for some in all.chunks(in_one_poll) {
            let packets: Vec<(Packet, u32)> = some
                .iter()
                .map(|&(at, again)| (at, 20 * again + at))
                .map(|(at, sent)| (data(6 + sent / 3, 1000 + 500 * at, 1500 + 500 * at), sent))
                .collect();
            came.extend_from_slice(&packets);
            left.extend(poll(&mut receiver, &packets).into_iter().flatten());
            receiver.now += Time::from_us(100);
        }
        receiver.now += Time::from_secs(1);
        left.extend(receiver.timeout().into_iter().flatten());
        prop_assert_eq!(left.len(), came.len(), "all leave, once");
        for (n, &early) in left.iter().enumerate() {
            for &late in &left[n + 1..] {
                let ((front, newer), (behind, older)) = (&came[early as usize], &came[late as usize]);
                let overtaken = late < early && older < newer && behind.seq > front.seq;
                prop_assert!(!overtaken, "{late} leaves behind {early}");
            }
        }
    }
}
