//! Algorithm 2 case by case. Most tests begin with last = 5, exp = 1000.

mod stamps;

use super::*;
use units::Bytes;

const WAIT: Time = Time::from_us(500);

/// One flow through an engine. Slots are numbered by arrival.
struct OneFlow {
    engine: Engine,
    now: Time,
    next_slot: u32,
}

/// What `flush` and `timeout` returned: slots by segment.
type Segments = Vec<Vec<u32>>;

impl OneFlow {
    /// No state yet.
    fn fresh(config: Config) -> OneFlow {
        OneFlow { engine: Engine::new(config), now: Time::ZERO, next_slot: 0 }
    }

    fn at(config: Config, last: u32, exp: u32) -> OneFlow {
        let mut receiver = OneFlow::fresh(config);
        assert_eq!(receiver.give(data(last, exp.wrapping_sub(1), exp)), Verdict::Hold);
        assert_eq!(receiver.flush(), [[0]]);
        receiver.next_slot = 0;
        receiver.expect(last, exp);
        receiver
    }

    fn new() -> OneFlow {
        OneFlow::at(Config::default(), 5, 1000)
    }

    fn with(config: Config) -> OneFlow {
        OneFlow::at(config, 5, 1000)
    }

    fn give(&mut self, packet: Packet) -> Verdict {
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        self.engine.process(self.now, 0, slot, &packet, None)
    }

    /// Gives packets in one poll and returns what left at its end.
    fn poll(&mut self, packets: &[Packet]) -> Segments {
        for packet in packets {
            assert_eq!(self.give(*packet), Verdict::Hold);
        }
        self.flush()
    }

    fn flush(&mut self) -> Segments {
        self.engine.end_batch(self.now);
        self.released()
    }

    fn timeout(&mut self) -> Segments {
        self.engine.handle_timeout(self.now);
        self.released()
    }

    fn released(&mut self) -> Segments {
        let mut segments = Segments::new();
        while let Some((slot, joins_previous)) = self.engine.poll_release() {
            match segments.last_mut() {
                Some(segment) if joins_previous => segment.push(slot.0),
                _ => segments.push(vec![slot.0]),
            }
        }
        segments
    }

    #[track_caller]
    fn expect(&self, last: u32, exp: u32) {
        assert_eq!(self.engine.flows[0].position(), (last, exp));
    }

    fn counters(&self) -> Counters {
        *self.engine.counters()
    }
}

fn data(cell: u32, start: u32, end: u32) -> Packet {
    Packet {
        proto: proto::TCP,
        tcp_flags: tcp::ACK,
        seq: start,
        payload: end.wrapping_sub(start),
        cell,
        has_cell: 1,
        ..Packet::default()
    }
}

fn flagged(packet: Packet, flags: u8) -> Packet {
    Packet { tcp_flags: packet.tcp_flags | flags, ..packet }
}

const NOTHING: Segments = Segments::new();

#[test]
fn case_1_same_cell_is_pushed_whatever_is_missing() {
    let pushed = |start, end| {
        let mut receiver = OneFlow::new();
        assert_eq!(receiver.poll(&[data(5, start, end)]), [[0]]);
        receiver
    };
    pushed(1000, 2000).expect(5, 2000);
    pushed(3000, 4000).expect(5, 4000);
    pushed(500, 900).expect(5, 1000);
}

#[test]
fn case_2a_next_cell_in_order() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(6, 1000, 2000)]), [[0]]);
    receiver.expect(6, 2000);
    assert_eq!(receiver.counters().gaps_filled, 0, "it was not held");
}

#[test]
fn case_2d_a_gap_before_a_new_cell_is_held_until_filled() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    receiver.expect(5, 1000);
    receiver.now += Time::from_us(100);
    assert_eq!(receiver.poll(&[data(5, 1000, 3000)]), [[1], [0]]);
    receiver.expect(6, 4000);
    assert_eq!(receiver.counters().gaps_filled, 1);
    assert_eq!(receiver.counters().timeouts, 0);
    assert_eq!(receiver.engine.poll_timeout(), None);
}

#[test]
fn case_2b_a_retransmission_with_a_newer_cell() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(6, 500, 900)]), [[0]]);
    receiver.expect(6, 1000);
    let overlapping = |literal| {
        let mut receiver = OneFlow::with(Config { literal, ..Config::default() });
        assert_eq!(receiver.poll(&[data(6, 500, 1500)]), [[0]]);
        receiver
    };
    overlapping(false).expect(6, 1500);
    overlapping(true).expect(6, 1000);
}

#[test]
fn case_3_a_stale_cell() {
    let stale = |literal| {
        let mut receiver = OneFlow::with(Config { literal, ..Config::default() });
        assert_eq!(receiver.poll(&[data(4, 1000, 1500)]), [[0]]);
        receiver
    };
    stale(true).expect(5, 1000);
    stale(false).expect(5, 1500);
    let mut beyond = OneFlow::new();
    assert_eq!(beyond.poll(&[data(4, 2000, 2500)]), [[0]]);
    beyond.expect(5, 1000);
}

#[test]
fn fixed_timeout_counts_from_the_first_flush_that_held() {
    let mut receiver = OneFlow::new();
    receiver.now = Time::from_us(10);
    assert_eq!(receiver.give(data(6, 3000, 4000)), Verdict::Hold);
    receiver.now = Time::from_us(20);
    assert_eq!(receiver.flush(), NOTHING);
    assert_eq!(receiver.engine.poll_timeout(), Some(Time::from_us(20) + WAIT));
    receiver.now = Time::from_us(20) + WAIT - Time::from_ps(1);
    assert_eq!(receiver.timeout(), NOTHING);
    receiver.now += Time::from_ps(1);
    assert_eq!(receiver.timeout(), [[0]], "no further packet is needed");
    receiver.expect(6, 4000);
    assert_eq!((receiver.counters().timeouts, receiver.counters().gaps_filled), (1, 0));
    assert_eq!(receiver.engine.poll_timeout(), None);
}

#[test]
fn both_of_two_contiguous_segments_leave_when_the_first_expires() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    receiver.now += WAIT / 2;
    assert_eq!(receiver.poll(&[data(7, 4000, 5000)]), NOTHING);
    receiver.now += WAIT / 2;
    assert_eq!(receiver.flush(), [[0], [1]]);
    receiver.expect(7, 5000);
    assert_eq!((receiver.counters().timeouts, receiver.counters().gaps_filled), (1, 0), "no sample after a timeout");
}

#[test]
fn what_precedes_an_expired_segment_leaves_first() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(7, 5000, 6000)]), NOTHING);
    receiver.now += WAIT / 2;
    assert_eq!(receiver.poll(&[data(6, 3000, 4000), data(8, 7000, 8000)]), NOTHING);
    receiver.now += WAIT / 2;
    assert_eq!(receiver.timeout(), [[1], [0]], "6 is younger but earlier; 8 still waits");
    receiver.expect(7, 6000);
    receiver.now += WAIT / 2;
    assert_eq!(receiver.timeout(), [[2]]);
}

fn adaptive() -> OneFlow {
    OneFlow::with(Config { timeout: Timeout::ADAPTIVE, ..Config::default() })
}

#[test]
fn adaptive_timeout_fires_at_alpha_times_the_average() {
    let mut receiver = adaptive();
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    assert_eq!(receiver.engine.poll_timeout(), Some(Time::from_us(1000)));
    receiver.now = Time::from_us(1000) - Time::from_ps(1);
    assert_eq!(receiver.timeout(), NOTHING);
    receiver.now = Time::from_us(1000);
    assert_eq!(receiver.timeout(), [[0]]);
    receiver.expect(6, 4000);
    assert_eq!(receiver.counters().gaps_filled, 0);
    assert_eq!(receiver.engine.flows[0].average(), None, "a timeout is no sample");
}

#[test]
fn adaptive_timeout_waits_while_packets_still_merge() {
    let merged_before_alpha = |ago| {
        let mut receiver = adaptive();
        assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
        receiver.now = Time::from_us(1000) - ago;
        assert_eq!(receiver.poll(&[data(6, 4000, 5000)]), NOTHING);
        receiver.now = Time::from_us(1000);
        (receiver.timeout(), receiver.engine.poll_timeout())
    };
    // 0.4 and 0.6 of the average of 500 us.
    let due = Time::from_us(1000 - 200 + 250);
    assert_eq!(merged_before_alpha(Time::from_us(200)), (NOTHING, Some(due)));
    assert_eq!(merged_before_alpha(Time::from_us(300)), (vec![vec![0, 1]], None));
}

#[test]
fn adaptive_timeout_learns_from_gaps_that_fill() {
    let mut receiver = adaptive();
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    receiver.now = Time::from_us(100);
    assert_eq!(receiver.poll(&[data(5, 1000, 3000)]), [[1], [0]]);
    // 500 - 500 / 8 + 100 / 8
    assert_eq!(receiver.engine.flows[0].average(), Some(Time::from_us(450)));
}

#[test]
fn gaps_that_fill_late_are_learned_from_where_that_is_asked() {
    for (late, average) in [(false, None), (true, Some(Time::from_ps(687_500_000)))] {
        let Timeout::Adaptive { start, min, max, alpha, beta, .. } = Timeout::ADAPTIVE else { unreachable!() };
        let timeout = Timeout::Adaptive { start, min, max, alpha, beta, late };
        let mut receiver = OneFlow::with(Config { timeout, ..Config::default() });
        assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
        receiver.now = Time::from_us(1000);
        assert_eq!(receiver.timeout(), [[0]]);
        receiver.now = Time::from_us(1500);
        assert_eq!(receiver.poll(&[data(5, 1000, 2000)]), [[1]], "the first half fills nothing yet");
        assert_eq!(receiver.engine.flows[0].average(), None);
        receiver.now = Time::from_us(2000);
        assert_eq!(receiver.poll(&[data(5, 2000, 3000)]), [[2]]);
        // 500 - 500 / 8 + 2000 / 8
        assert_eq!(receiver.engine.flows[0].average(), average, "late {late}");
        // Once: a duplicate is no sample.
        receiver.now = Time::from_us(9000);
        assert_eq!(receiver.poll(&[data(5, 2000, 3000)]), [[3]]);
        assert_eq!(receiver.engine.flows[0].average(), average);
        assert_eq!(receiver.counters().gaps_filled, 0);
    }
}

/// It is in the flowcell that was the newest then, and may be overtaken by a newer one.
#[test]
fn what_was_sent_again_is_no_late_gap() {
    let Timeout::Adaptive { start, min, max, alpha, beta, .. } = Timeout::ADAPTIVE else { unreachable!() };
    let timeout = Timeout::Adaptive { start, min, max, alpha, beta, late: true };
    let mut receiver = OneFlow::with(Config { timeout, ..Config::default() });
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    receiver.now = Time::from_us(1000);
    assert_eq!(receiver.timeout(), [[0]]);
    assert_eq!(receiver.poll(&[data(8, 4000, 5000)]), [[1]]);
    receiver.now = Time::from_us(9000);
    assert_eq!(receiver.poll(&[data(7, 2000, 3000)]), [[2]]);
    assert_eq!(receiver.engine.flows[0].average(), None);
}

#[test]
fn adaptive_average_stays_within_its_bounds() {
    let mut receiver = adaptive();
    let mut start = 1000;
    for cell in 6..206 {
        assert_eq!(receiver.poll(&[data(cell, start + 100, start + 200)]), NOTHING);
        assert_eq!(receiver.poll(&[data(cell - 1, start, start + 100)]).len(), 2);
        start += 200;
    }
    assert_eq!(receiver.counters().gaps_filled, 200);
    assert_eq!(receiver.engine.flows[0].average(), Some(Time::from_us(50)));
}

#[test]
fn sequence_numbers_and_cells_wrap() {
    let mut receiver = OneFlow::at(Config::default(), 5, 0xffff_ff00);
    assert_eq!(receiver.poll(&[data(6, 0xffff_ff00, 0x100)]), [[0]]);
    receiver.expect(6, 0x100);

    let mut receiver = OneFlow::at(Config::default(), 5, 0xffff_ff00);
    assert_eq!(receiver.poll(&[data(5, 0x10, 0x20), data(5, 0xffff_fff0, 0x08)]), [[1], [0]]);
    receiver.expect(5, 0x20);

    let mut receiver = OneFlow::at(Config::default(), u32::MAX, 1000);
    assert_eq!(receiver.poll(&[data(0, 2000, 3000)]), NOTHING, "0 is newer than 2^32 - 1, so its gap is held");
    assert_eq!(receiver.poll(&[data(u32::MAX, 1000, 2000)]), [[1], [0]]);
    receiver.expect(0, 3000);
}

#[test]
fn packets_of_one_cell_merge_into_two_segments() {
    let packet = |i: u32| data(5, 1000 + 100 * i, 1100 + 100 * i);
    let order = [0, 1, 2, 5, 3, 6, 4, 7, 8];
    let mut receiver = OneFlow::new();
    let segments = receiver.poll(&order.map(packet));
    let numbers: Vec<Vec<u32>> =
        segments.iter().map(|s| s.iter().map(|slot| order[*slot as usize]).collect()).collect();
    assert_eq!(numbers, [vec![0, 1, 2, 3, 4], vec![5, 6, 7, 8]]);
    receiver.expect(5, 1900);
}

#[test]
fn unlike_packets_do_not_merge() {
    let segments_with = |change: &dyn Fn(Packet) -> Packet| {
        let (first, second) = (data(5, 1000, 1100), change(data(5, 1100, 1200)));
        OneFlow::new().poll(&[first, second]).len()
    };
    assert_eq!(segments_with(&|p| p), 1);
    assert_eq!(segments_with(&|p| Packet { cell: 6, ..p }), 2);
    assert_eq!(segments_with(&|p| Packet { ecn: 3, ..p }), 2);
    assert_eq!(segments_with(&|p| Packet { ack: 1, ..p }), 2);
    assert_eq!(segments_with(&|p| flagged(p, tcp::ECE)), 2);
    assert_eq!(segments_with(&|p| Packet { seq: 1101, ..p }), 2);
    assert_eq!(segments_with(&|p| flagged(p, tcp::PSH)), 1, "PSH ends a segment, but belongs to it");
    assert_eq!(OneFlow::new().poll(&[flagged(data(5, 1000, 1100), tcp::PSH), data(5, 1100, 1200)]).len(), 2);
}

#[test]
fn segments_stop_at_64_kib() {
    let mut receiver = OneFlow::new();
    let packets = [data(5, 1000, 34_000), data(5, 34_000, 66_536), data(5, 66_536, 66_537)];
    assert_eq!(receiver.poll(&packets), [vec![0, 1], vec![2]]);
}

#[test]
fn duplicates_are_pushed_once_each_and_never_join() {
    let mut receiver = OneFlow::new();
    let packet = data(5, 1000, 1100);
    assert_eq!(receiver.poll(&[packet, packet, packet]), [[0], [1], [2]]);
    receiver.expect(5, 1100);
    let mut receiver = OneFlow::new();
    let held = data(6, 3000, 3100);
    assert_eq!(receiver.poll(&[held, held]), NOTHING);
    assert_eq!(receiver.poll(&[data(5, 1000, 3000)]), [[2], [0], [1]]);
}

#[test]
fn what_cannot_be_reordered_is_forwarded() {
    let packet = data(6, 3000, 4000);
    for unrepairable in [
        Packet { has_cell: 0, ..packet },
        Packet { proto: proto::UDP, ..packet },
        Packet { payload: 0, ..packet },
        Packet { truncated: 1, ..packet },
    ] {
        let mut receiver = OneFlow::new();
        assert_eq!(receiver.give(unrepairable), Verdict::Forward);
        assert_eq!(receiver.flush(), NOTHING);
        receiver.expect(5, 1000);
    }
}

#[test]
fn a_segment_around_the_number_space_is_survived() {
    // "End before start": more payload than half of the sequence numbers.
    let mut receiver = OneFlow::with(Config { flow_bytes: Bytes(u64::MAX), ..Config::default() });
    assert_eq!(receiver.poll(&[data(6, 1000, 999)]), [[0]]);
    assert!(!receiver.engine.is_holding(0));
}

#[test]
fn a_flow_begins_with_the_first_segment_seen() {
    let mut receiver = OneFlow::fresh(Config::default());
    assert_eq!(receiver.poll(&[data(9, 7000, 8000)]), [[0]]);
    receiver.expect(9, 8000);
}

fn syn(seq: u32, cell: u32) -> Packet {
    Packet { tcp_flags: tcp::SYN, ..data(cell, seq, seq) }
}

#[test]
fn a_syn_sets_what_is_expected() {
    let mut receiver = OneFlow::fresh(Config::default());
    assert_eq!(receiver.give(syn(u32::MAX, 3)), Verdict::Forward);
    receiver.expect(3, 0);
    assert_eq!(receiver.poll(&[data(4, 1000, 2000)]), NOTHING);
    assert_eq!(receiver.poll(&[data(3, 0, 1000)]), [[2], [1]]);
    receiver.give(syn(u32::MAX, 3));
    receiver.expect(4, 2000);
    assert_eq!(receiver.poll(&[data(6, 5000, 6000)]), NOTHING);
    assert_eq!(receiver.give(syn(77, 0)), Verdict::Hold, "a new connection: what was held goes first");
    assert_eq!(receiver.released(), [[4], [5]]);
    receiver.expect(0, 78);
}

#[test]
fn urgent_packets_leave_at_once_after_what_is_in_order() {
    for flag in [tcp::FIN, tcp::RST, tcp::URG] {
        let mut receiver = OneFlow::new();
        receiver.give(data(5, 1000, 1100));
        receiver.give(data(6, 3000, 3100));
        assert_eq!(receiver.give(flagged(data(5, 1100, 1200), flag)), Verdict::Hold);
        assert_eq!(receiver.released(), [[0], [2]], "the gap is still held");
        receiver.expect(5, 1200 + u32::from(flag == tcp::FIN));
    }
    let mut receiver = OneFlow::new();
    receiver.give(data(5, 1000, 1100));
    assert_eq!(receiver.give(data(5, 1100, 1100)), Verdict::Hold, "a pure ACK");
    assert_eq!(receiver.released(), [[0], [1]]);
    assert_eq!(receiver.give(data(5, 1100, 1100)), Verdict::Forward, "nothing to wait for");
}

#[test]
fn an_urgent_packet_in_order_counts_and_one_beyond_a_gap_does_not() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.give(flagged(data(6, 1000, 2000), tcp::URG)), Verdict::Forward);
    receiver.expect(6, 2000);
    assert_eq!(receiver.give(flagged(data(8, 5000, 6000), tcp::FIN)), Verdict::Forward);
    receiver.expect(6, 2000);
    assert_eq!(receiver.poll(&[data(7, 2000, 5000)]), [[2]], "still in order");
}

#[test]
fn excess_of_one_flow_is_pushed_in_order() {
    let mut receiver = OneFlow::with(Config { flow_bytes: Bytes(2500), ..Config::default() });
    assert_eq!(receiver.poll(&[data(7, 5000, 6000), data(6, 3000, 4000)]), NOTHING);
    assert_eq!(receiver.give(data(8, 8000, 9000)), Verdict::Hold);
    assert_eq!(receiver.released(), [[1], [0]]);
    receiver.expect(7, 6000);
    assert_eq!(receiver.counters().overflows, 1);
    assert_eq!(receiver.flush(), NOTHING, "the newcomer is held as usual");
    let larger = receiver.give(data(6, 1000, 4000));
    assert_eq!((larger, receiver.released()), (Verdict::Hold, vec![vec![2], vec![3]]), "never fits");
}

#[test]
fn in_order_data_of_a_long_poll_is_no_excess() {
    let mut receiver = OneFlow::with(Config { flow_bytes: Bytes(2500), ..Config::default() });
    assert_eq!(receiver.poll(&[data(7, 5000, 6000)]), NOTHING);
    for start in [1000, 2000, 3000] {
        receiver.give(data(5, start, start + 1000));
    }
    assert_eq!(receiver.flush(), [[1], [2], [3]]);
    receiver.expect(5, 4000);
    assert_eq!(receiver.counters().overflows, 0);
    assert!(receiver.engine.is_holding(0));
}

#[test]
fn slots_are_bounded_over_all_flows() {
    let mut engine = Engine::new(Config { total_slots: 2, ..Config::default() });
    let mut give = |flow, slot, packet| engine.process(Time::ZERO, flow, Slot(slot), &packet, None);
    assert_eq!(give(0, 0, data(5, 0, 10)), Verdict::Hold);
    assert_eq!(give(1, 1, data(5, 0, 10)), Verdict::Hold);
    assert_eq!(give(2, 2, data(5, 0, 10)), Verdict::Forward, "this flow has nothing to give up");
    assert_eq!(give(0, 3, data(5, 10, 20)), Verdict::Hold);
    assert_eq!(engine.poll_release(), Some((Slot(0), false)));
    assert_eq!(engine.poll_release(), None);
}

#[test]
fn segments_per_flow_are_bounded() {
    let mut receiver = OneFlow::new();
    for i in 0..Config::MAX_SEGMENTS as u32 {
        receiver.give(data(6, 3000 + 2 * i, 3001 + 2 * i));
    }
    assert_eq!(receiver.flush(), NOTHING);
    receiver.give(data(6, 2000, 2001));
    assert_eq!(receiver.released().len(), Config::MAX_SEGMENTS);
}

#[test]
fn restart_releases_and_forgets() {
    let mut receiver = OneFlow::new();
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    receiver.engine.restart(0);
    assert_eq!(receiver.released(), [[0]]);
    assert_eq!(receiver.poll(&[data(1, 50, 60)]), [[1]]);
    receiver.expect(1, 60);
    receiver.now += WAIT;
    assert_eq!(receiver.timeout(), NOTHING);
    assert_eq!(receiver.engine.poll_timeout(), None);
}

#[test]
fn a_deadline_is_known_even_amid_a_poll() {
    let mut receiver = OneFlow::new();
    receiver.give(data(6, 3000, 4000));
    receiver.give(data(5, 1000, 1000));
    assert_eq!(receiver.engine.poll_timeout(), Some(WAIT));
}

#[test]
fn a_zero_timeout_releases_at_the_next_call() {
    let mut receiver = OneFlow::with(Config { timeout: Timeout::Fixed(Time::ZERO), ..Config::default() });
    assert_eq!(receiver.poll(&[data(6, 3000, 4000)]), NOTHING);
    assert_eq!(receiver.engine.poll_timeout(), Some(Time::ZERO));
    assert_eq!(receiver.timeout(), [[0]]);
}

/// Several flows of one engine; `held` ones wait behind a gap.
fn with_held(flows: &[u32]) -> Engine {
    let mut engine = Engine::new(Config::default());
    for &flow in flows {
        engine.process(Time::ZERO, flow, Slot(0), &syn(999, 5), None);
        assert_eq!(engine.process(Time::ZERO, flow, Slot(10 * flow), &data(6, 3000, 4000), None), Verdict::Hold);
    }
    engine.end_batch(Time::ZERO);
    assert_eq!(engine.poll_release(), None);
    engine
}

fn slots(engine: &mut Engine) -> Vec<u32> {
    std::iter::from_fn(|| engine.poll_release()).map(|(slot, _)| slot.0).collect()
}

#[test]
fn flows_leave_in_the_order_in_which_they_began_to_hold() {
    let mut engine = with_held(&[3, 1, 2]);
    let filler = data(5, 1000, 3000);
    for flow in [2, 0, 3] {
        assert_eq!(engine.process(Time::from_us(1), flow, Slot(10 * flow + 1), &filler, None), Verdict::Hold);
    }
    engine.end_batch(Time::from_us(1));
    assert_eq!(slots(&mut engine), [31, 30, 21, 20, 1]);
    assert_eq!(engine.poll_timeout(), Some(WAIT), "the other one's");
    engine.end_batch(WAIT);
    assert_eq!((slots(&mut engine), engine.poll_timeout()), (vec![10], None));
}

#[test]
fn a_flow_emptied_amid_a_poll_keeps_its_turn_until_the_poll_ends() {
    let mut engine = with_held(&[1, 2]);
    let (filler, next) = (data(5, 1000, 3000), data(6, 4000, 5000));
    engine.process(Time::ZERO, 2, Slot(21), &filler, None);
    engine.process(Time::ZERO, 1, Slot(11), &filler, None);
    assert_eq!(engine.process(Time::ZERO, 1, Slot(12), &data(6, 4000, 4000), None), Verdict::Hold, "a pure ACK");
    engine.process(Time::ZERO, 2, Slot(22), &next, None);
    engine.process(Time::ZERO, 1, Slot(13), &next, None);
    engine.end_batch(Time::ZERO);
    assert_eq!(slots(&mut engine), [11, 10, 12, 13, 21, 20, 22]);
    let next = data(6, 5000, 6000);
    engine.process(Time::ZERO, 2, Slot(23), &next, None);
    engine.process(Time::ZERO, 1, Slot(14), &next, None);
    engine.end_batch(Time::ZERO);
    assert_eq!(slots(&mut engine), [23, 14], "and begins anew");
}

/// Whatever comes, the deadline after a poll is the earliest of all flows', and nothing is overdue.
#[test]
fn the_deadline_is_the_earliest_of_many_flows() {
    for timeout in [Timeout::Fixed(WAIT), Timeout::ADAPTIVE] {
        let mut engine = Engine::new(Config { timeout, ..Config::default() });
        let (mut state, mut now, mut holding) = (1u32, Time::ZERO, 0);
        for round in 0..4000u32 {
            let mut draw = |n: u32| {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                (state >> 16) % n
            };
            for _ in 0..draw(4) {
                let (flow, cell, start) = (draw(40), round / 8 + draw(3), 1000 * (round + draw(9)));
                engine.process(now, flow, Slot(round), &data(cell, start, start + 500), None);
            }
            now += Time::from_us(u64::from(draw(120)));
            match draw(5) {
                0 => engine.handle_timeout(now),
                _ => {
                    engine.end_batch(now);
                    assert!(engine.flows.iter().all(|flow| !flow.is_touched() && !flow.listed));
                }
            }
            let earliest = engine.flows.iter().filter_map(Flow::deadline).min();
            assert_eq!(engine.poll_timeout(), earliest, "round {round}");
            assert!(earliest.is_none_or(|due| due > now));
            holding += engine.flows.iter().filter(|flow| flow.deadline().is_some()).count();
            while engine.poll_release().is_some() {}
        }
        assert!(holding > 4000, "more than one flow at a time: {holding}");
    }
}
