//! The timestamps of what is sent again (`datapath/stamp.h`, whose own tests are in `native`).

use super::*;

impl Bench {
    /// A packet of the guest with this timestamp.
    fn data_at(&mut self, n: u32, stamp: u32) -> Verdict {
        self.stamp = Some(stamp);
        self.data(n, 1)
    }

    /// The timestamp that packet `n` is to have, which is dropped and sent again at once.
    fn stamp_of(&mut self, n: u32) -> Option<u32> {
        self.stamps.clear();
        assert_eq!(self.dropped(n), [(at(n), MSS)]);
        self.stamps[0]
    }
}

#[test]
fn a_packet_gets_the_timestamp_of_what_the_guest_sent_again_in_front_of_it() {
    let mut bench = Bench::open();
    for n in 0..8 {
        bench.data_at(n, 10 + n);
    }
    assert_eq!(bench.stamp_of(6), None, "nothing was sent again");
    assert_eq!(bench.data_at(3, 50), Verdict::Forward);
    assert_eq!((bench.stamp_of(2), bench.stamp_of(4)), (None, Some(50)));
    // That goes no further: no receiver gets its timestamp.
    assert_eq!(bench.data_at(4, 60), Verdict::Drop(crate::DropReason::UnderWay));
    assert_eq!(bench.stamp_of(5), Some(50));
    bench.ack(8, 0);
    bench.data_at(8, 70);
    assert_eq!(bench.stamp_of(8), None, "it is later by itself");
}

#[test]
fn what_waits_gets_the_timestamp_of_its_time() {
    let mut bench = Bench::open();
    for n in 0..8 {
        bench.data_at(n, 10 + n);
    }
    assert_eq!(bench.stamp_of(6), None);
    bench.stamps.clear();
    assert_eq!(bench.dropped(6), [], "less than a round trip ago");
    bench.data_at(2, 50);
    assert_eq!(bench.wait(RTT + RTT), [(at(6), MSS)]);
    assert_eq!(bench.stamps, [Some(50)]);
}

/// As everywhere in the simulator.
#[test]
fn without_timestamps_there_is_none() {
    let mut bench = Bench::open();
    bench.data(0, 8);
    bench.data(3, 1);
    bench.stamps.clear();
    assert_eq!(bench.dropped(5), [(at(5), MSS)]);
    assert_eq!(bench.stamps, [None]);
}
