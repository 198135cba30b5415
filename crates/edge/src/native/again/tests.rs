use super::Stamp;
use proptest::prelude::*;
use units::Time;

const MSS: u32 = 1000;

mod stamps {
    use super::*;

    #[test]
    fn what_is_behind_has_it_and_what_is_in_front_has_that_before() {
        let mut stamp = Stamp::default();
        assert_eq!(stamp.needed(0), None);
        stamp.note(3000, 0, 9000, 50);
        assert_eq!((stamp.needed(2000), stamp.needed(3000), stamp.needed(8000)), (None, Some(50), Some(50)));
        // In the same round, further behind: what is between may have been passed by the newer one, too.
        stamp.note(5000, 3000, 9000, 60);
        assert_eq!((stamp.needed(3000), stamp.needed(4000)), (Some(60), Some(60)));
        // What was sent again first has arrived. What is in front of the next is behind that alone.
        stamp.note(6000, 4000, 9000, 70);
        assert_eq!((stamp.needed(5000), stamp.needed(6000)), (Some(60), Some(70)));
        stamp.note(5000, 4000, 9000, 80);
        assert_eq!((stamp.needed(4000), stamp.needed(5000)), (Some(60), Some(80)));
    }

    #[test]
    fn it_ends_with_what_had_left() {
        let mut stamp = Stamp::default();
        stamp.note(3000, 0, 9000, 50);
        stamp.acked(8999);
        assert_eq!(stamp.needed(8999), Some(50));
        stamp.acked(9000);
        assert_eq!(stamp.needed(9000), None);
        // An older one does not come back.
        stamp.note(9000, 9000, 12_000, 90);
        assert_eq!((stamp.needed(8000), stamp.needed(9000)), (None, Some(90)));
    }

    #[test]
    fn numbers_wrap() {
        let mut stamp = Stamp::default();
        stamp.note(u32::MAX - 500, u32::MAX - 1500, 5000, 50);
        assert_eq!((stamp.needed(u32::MAX - 1500), stamp.needed(500)), (None, Some(50)));
        stamp.acked(4000);
        assert_eq!(stamp.needed(4500), Some(50));
        stamp.acked(5000);
        assert_eq!(stamp.needed(5000), None);
    }

    /// What a guest with a clock, its edge and the network do.
    #[derive(Clone, Debug)]
    enum Step {
        Send,
        /// The guest's first copy of the packet that is so far behind the first outstanding one arrives late.
        Late(u32),
        /// The guest sends a packet again; lost or not.
        Again(u32, bool),
        /// The edge sends a packet again, which arrives.
        Edge(u32),
        /// The receiver's ACK of all that it has in order.
        Ack,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Send),
            2 => (0u32..8).prop_map(Step::Late),
            1 => (0u32..8, any::<bool>()).prop_map(|(n, lost)| Step::Again(n, lost)),
            3 => (0u32..8).prop_map(Step::Edge),
            2 => Just(Step::Ack),
        ]
    }

    /// Takes nothing older than what it last got in order (RFC 7323 section 5.3).
    #[derive(Debug, Default)]
    struct Receiver {
        next: u32,
        recent: u32,
        held: std::collections::BTreeSet<u32>,
    }

    impl Receiver {
        /// False: too old.
        fn arrives(&mut self, n: u32, stamp: u32) -> bool {
            if stamp < self.recent {
                return false;
            }
            self.held.insert(n);
            if n == self.next {
                self.recent = stamp;
            }
            while self.held.remove(&self.next) {
                self.next += 1;
            }
            true
        }
    }

    proptest! {
        /// What the edge sends again is never refused as too old. Nor is, because of it, what is in front of all that the guest has sent again
        /// since everything was acknowledged.
        #[test]
        fn nothing_is_too_old_behind_what_the_edge_sends_again(steps in prop::collection::vec(step(), 1..200)) {
            let (mut stamp, mut receiver) = (Stamp::default(), Receiver::default());
            let mut sent: Vec<u32> = Vec::new();
            let (mut una, mut first_again, mut end) = (0, u32::MAX, 0);
            for (clock, step) in (1u32..).zip(steps) {
                let next = sent.len() as u32;
                match step {
                    Step::Send if next - una < 8 => sent.push(clock),
                    // What has arrived does not arrive a second time.
                    Step::Late(n) if n < next - una && una + n >= receiver.next => {
                        let n = una + n;
                        let arrived = receiver.arrives(n, sent[n as usize]);
                        prop_assert!(arrived || n >= first_again, "packet {} of {:?}", n, receiver);
                    }
                    Step::Again(n, lost) if n < next - una => {
                        let n = una + n;
                        stamp.note(n * MSS, una * MSS, next * MSS, clock);
                        (first_again, end) = (first_again.min(n), next);
                        if !lost && n >= receiver.next {
                            prop_assert!(receiver.arrives(n, clock));
                        }
                    }
                    Step::Edge(n) if n < next - una && una + n >= receiver.next => {
                        let n = una + n;
                        let own = sent[n as usize];
                        let with = stamp.needed(n * MSS).map_or(own, |needed| needed.max(own));
                        prop_assert!(receiver.arrives(n, with), "packet {} with {} of {:?}", n, with, receiver);
                    }
                    Step::Ack => {
                        una = receiver.next;
                        stamp.acked(una * MSS);
                        if una >= end {
                            first_again = u32::MAX;
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

mod goes {
    use super::*;

    /// `struct sv_retrans`: a mirror of its size alone.
    #[repr(C)]
    #[derive(Default)]
    struct Retrans([u64; 8]);

    extern "C" {
        fn sv_edge_retrans_note(r: *mut Retrans, seq: u32, end: u32, anew: u32, round_trip: u64, now: u64);
        fn sv_edge_retrans_forget(r: *mut Retrans, seq: u32);
        fn sv_edge_retrans_since(r: *const Retrans, seq: u32, end: u32, dropped: u64) -> u32;
    }

    const RTT: Time = Time::from_us(100);

    impl Retrans {
        /// Packets `from..to`.
        fn note(&mut self, from: u32, to: u32, anew: bool, now: Time) {
            // SAFETY: the pointer comes from a reference that outlives the call, and C's struct has the same size and alignment.
            unsafe { sv_edge_retrans_note(self, from * MSS, to * MSS, anew.into(), RTT.as_ns(), now.as_ns()) }
        }

        fn forget(&mut self, from: u32) {
            // SAFETY: as in `note`.
            unsafe { sv_edge_retrans_forget(self, from * MSS) }
        }

        fn since(&self, n: u32, dropped: Time) -> u32 {
            // SAFETY: as in `note`.
            unsafe { sv_edge_retrans_since(self, n * MSS, (n + 1) * MSS, dropped.as_ns()) }
        }
    }

    fn us(us: u64) -> Time {
        Time::from_us(us)
    }

    #[test]
    fn what_left_after_the_drop_counts_once_a_go() {
        let mut retrans = Retrans::default();
        assert_eq!(retrans.since(3, us(1)), 0);
        retrans.note(3, 4, true, us(1000));
        retrans.note(5, 6, false, us(1050));
        assert_eq!((retrans.since(3, us(900)), retrans.since(5, us(900))), (1, 1));
        assert_eq!(retrans.since(4, us(900)), 1, "a go has what is between, which has arrived");
        assert_eq!((retrans.since(3, us(1000)), retrans.since(6, us(900))), (0, 0), "dropped later, and not of it");
        assert_eq!(retrans.since(3, Time::ZERO), 0, "nobody knows when");
        retrans.note(3, 6, false, us(1200));
        assert_eq!((retrans.since(3, us(900)), retrans.since(3, us(1100))), (2, 1));
    }

    #[test]
    fn a_go_ends_after_a_round_trip_at_an_older_number_and_where_all_had_arrived() {
        for (from, anew, at) in [(6, false, 1101), (3, false, 1050), (6, true, 1050)] {
            let mut retrans = Retrans::default();
            retrans.note(3, 5, true, us(1000));
            retrans.note(from, 8, anew, us(at));
            assert_eq!(retrans.since(6, us(1020)), 1, "a go of its own began later: {from} {anew} {at}");
        }
        let mut retrans = Retrans::default();
        retrans.note(3, 5, true, us(1000));
        retrans.note(6, 8, false, us(1100));
        assert_eq!(retrans.since(6, us(1020)), 0, "the go began before");
    }

    #[test]
    fn four_goes_are_remembered() {
        let mut retrans = Retrans::default();
        for round in 1..=6 {
            retrans.note(3, 4, false, us(1000 * round));
        }
        assert_eq!(retrans.since(3, us(1)), 4);
        assert_eq!(retrans.since(3, us(4500)), 2);
    }

    #[test]
    fn what_was_held_back_has_not_left() {
        let mut retrans = Retrans::default();
        retrans.note(1, 2, true, us(1000));
        retrans.note(3, 4, false, us(1050));
        retrans.forget(3);
        assert_eq!((retrans.since(1, us(900)), retrans.since(3, us(900))), (1, 0));
        retrans.note(5, 6, false, us(1060));
        assert_eq!(retrans.since(4, us(900)), 0, "what follows is of another go");
        retrans.forget(5);
        retrans.note(7, 8, false, us(1070));
        assert_eq!((retrans.since(1, us(900)), retrans.since(5, us(900)), retrans.since(7, us(900))), (1, 0, 1));
    }
}
