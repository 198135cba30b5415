//! The holder together with the data path's own C, and the queue between them.

use super::*;
use crate::native::divert::{Divert, DIVERT, FIRST};
use crate::reorder::Timeout;
use proptest::prelude::*;
use wire::{proto, tcp};

fn data(seq: u32, payload: u32, cell: u32) -> Packet {
    Packet { seq, payload, cell, has_cell: 1, proto: proto::TCP, tcp_flags: tcp::ACK, ..Packet::default() }
}

/// One flow: what arrives goes straight on, or into the queue, and comes to the guest.
struct World {
    state: Divert,
    holder: Holder,
    now: Time,
    key: Key,
    queue: VecDeque<(Bounce, Slot, Packet)>,
    packets: Vec<Packet>,
    /// Everything that came until then has been taken from the queue.
    complete: Time,
    /// What the guest got, in its order: sequence numbers.
    delivered: Vec<u32>,
    direct: usize,
}

impl World {
    fn new(config: Config) -> World {
        World {
            state: Divert::default(),
            holder: Holder::new(config),
            now: Time::from_ms(1),
            key: (FlowKey::default(), 7),
            queue: VecDeque::new(),
            packets: Vec::new(),
            complete: Time::ZERO,
            delivered: Vec::new(),
            direct: 0,
        }
    }

    fn clock(&self) -> u32 {
        (self.now.as_ns() >> 20) as u32
    }

    /// True if it is diverted.
    fn arrive(&mut self, packet: Packet) -> bool {
        let (result, place) = self.state.segment(&packet, self.clock(), true);
        if result & DIVERT == 0 {
            self.delivered.push(packet.seq);
            self.direct += 1;
            return false;
        }
        let first = result & FIRST != 0;
        let bounce = Bounce { number: place.number, first, exp: place.exp, cell: place.cell, payload: packet.payload };
        self.queue.push_back((bounce, Slot(self.packets.len() as u32), packet));
        self.packets.push(packet);
        true
    }

    /// The holder takes at most `most` from the queue.
    fn serve(&mut self, most: usize) {
        for _ in 0..most {
            let Some((bounce, slot, packet)) = self.queue.pop_front() else { break };
            self.holder.take(self.now, self.key, &bounce, slot, &packet, None);
        }
        self.end_part();
    }

    fn end_part(&mut self) {
        if self.queue.is_empty() {
            self.complete = self.now;
        }
        self.holder.end_part(self.now, self.complete);
        self.hand_on();
    }

    fn hand_on(&mut self) {
        while let Some(slot) = self.holder.poll_release() {
            self.delivered.push(self.packets[slot.0 as usize].seq);
        }
        while let Some((key, number)) = self.holder.poll_mark(self.complete) {
            assert_eq!(key, self.key);
            self.state.drained(number, self.clock());
        }
    }

    fn pass(&mut self, time: Time) {
        self.now += time;
        self.end_part();
    }

    /// Until nothing is on its way any more.
    fn settle(&mut self) {
        self.serve(usize::MAX);
        for _ in 0..10 {
            self.pass(Time::from_ms(6));
        }
        assert!(!self.holder.is_busy());
    }
}

/// Segments of flowcells whose paths have delays of their own, in order of arrival.
fn arrivals(first_seq: u32, first_cell: u32, sizes: &[(u32, bool)], delays: &[usize]) -> Vec<Packet> {
    let (mut seq, mut cell, mut path) = (first_seq, first_cell, 0);
    let mut arrivals: Vec<(usize, usize, Packet)> = Vec::new();
    for (i, (payload, opens_cell)) in sizes.iter().enumerate() {
        if *opens_cell {
            cell = cell.wrapping_add(1);
            path = i;
        }
        arrivals.push((i + delays[path % delays.len()], i, data(seq, *payload, cell)));
        seq = seq.wrapping_add(*payload);
    }
    arrivals.sort_by_key(|(at, i, _)| (*at, *i));
    arrivals.into_iter().map(|(_, _, packet)| packet).collect()
}

fn patient() -> Config {
    Config { timeout: Timeout::Fixed(Time::from_ms(2)), ..Config::default() }
}

#[test]
fn a_flow_returns_to_the_direct_way_when_all_is_back() {
    let mut world = World::new(patient());
    assert!(!world.arrive(data(0, 10, 0)));
    assert!(world.arrive(data(20, 10, 1)));
    world.serve(9);
    assert_eq!(world.delivered, [0], "held");
    assert!(world.arrive(data(10, 10, 0)), "the gap's filler too");
    assert!(world.arrive(data(30, 10, 1)));
    world.serve(1);
    assert_eq!(world.delivered, [0, 10, 20]);
    assert!(world.arrive(data(40, 10, 1)), "one is still in the queue");
    world.serve(9);
    assert!(!world.arrive(data(50, 10, 2)));
    assert_eq!(world.delivered, [0, 10, 20, 30, 40, 50]);
    assert_eq!(world.holder.counters().gaps_filled, 1);
}

#[test]
fn a_segment_that_is_due_waits_for_what_is_in_the_queue() {
    let mut world = World::new(patient());
    world.arrive(data(0, 10, 0));
    world.arrive(data(1000, 10, 1));
    world.serve(1);
    for seq in (10..1000).step_by(10) {
        world.arrive(data(seq, 10, 0));
    }
    // Nobody served the queue for longer than a segment waits. Then it comes in parts.
    world.now += Time::from_ms(20);
    while !world.queue.is_empty() {
        world.serve(16);
    }
    assert!(world.delivered.iter().copied().eq((0..=1000).step_by(10)), "{:?}", world.delivered);
    assert_eq!((world.holder.counters().timeouts, world.holder.counters().gaps_filled), (0, 1));
    assert!(!world.arrive(data(1010, 10, 2)), "all is back");
}

#[test]
fn a_gap_that_nothing_in_the_queue_fills_is_given_up_once_it_is_empty() {
    let mut world = World::new(patient());
    world.arrive(data(0, 10, 0));
    for i in 0..40 {
        world.arrive(data(20 + 10 * i, 10, 1));
    }
    world.serve(16);
    world.now += Time::from_ms(20);
    world.serve(16);
    assert_eq!((world.delivered.len(), world.holder.counters().timeouts), (1, 0), "the filler may come yet");
    world.serve(16);
    world.pass(Time::ZERO);
    assert_eq!((world.delivered.len(), world.holder.counters().timeouts), (41, 1));
}

#[test]
fn what_the_queue_lost_is_not_waited_for() {
    let mut world = World::new(patient());
    world.arrive(data(0, 10, 0));
    for i in 0..4 {
        world.arrive(data(20 + 10 * i, 10, 1));
    }
    world.queue.remove(2);
    world.queue.remove(1);
    world.arrive(data(10, 10, 0));
    world.serve(9);
    assert!(world.arrive(data(60, 10, 2)), "two may still come from another processor");
    world.settle();
    assert!(!world.state.is_diverted());
    assert!(!world.arrive(data(70, 10, 2)));
    assert_eq!(world.delivered, [0, 10, 20, 50, 60, 70]);
}

#[test]
fn a_segment_that_came_in_parts_is_back_when_all_of_it_is() {
    let mut world = World::new(patient());
    world.arrive(data(0, 10, 0));
    world.arrive(data(10, 10, 0));
    world.arrive(data(40, 20, 2));
    let (bounce, ..) = world.queue.pop_front().unwrap();
    let part = |world: &mut World, seq| {
        let slot = Slot(world.packets.len() as u32);
        world.packets.push(data(seq, 10, 2));
        world.holder.take(world.now, world.key, &bounce, slot, &data(seq, 10, 2), None);
        world.holder.end_part(world.now, world.now);
        world.hand_on();
    };
    part(&mut world, 40);
    world.arrive(data(20, 20, 1));
    world.serve(9);
    assert_eq!(world.delivered, [0, 10, 20, 40]);
    assert!(world.state.is_diverted(), "its other half is still to come");
    part(&mut world, 50);
    assert_eq!(world.delivered, [0, 10, 20, 40, 50]);
    assert!(!world.state.is_diverted());
}

#[test]
fn a_diversion_that_begins_anew_forgets_the_old_one() {
    let mut world = World::new(patient());
    world.arrive(data(0, 10, 0));
    world.arrive(data(20, 10, 1));
    world.serve(9);
    world.state.restart();
    world.arrive(data(1000, 10, 4));
    assert!(world.arrive(data(2000, 10, 6)));
    world.serve(9);
    assert_eq!(world.delivered, [0, 1000, 20], "what was held leaves, what came is held");
    world.arrive(data(1010, 990, 5));
    world.serve(9);
    assert_eq!(world.delivered, [0, 1000, 20, 1010, 2000]);
    assert!(!world.state.is_diverted());
}

#[test]
fn the_data_path_hears_that_somebody_is_at_work() {
    let timeout = Timeout::Fixed(Time::from_secs(2));
    let mut world = World::new(Config { timeout, ..Config::default() });
    world.arrive(data(0, 10, 0));
    world.arrive(data(20, 10, 1));
    for _ in 0..100 {
        world.pass(Time::from_ms(10));
        world.serve(9);
    }
    assert!(world.arrive(data(30, 10, 1)), "after a second, still");
    assert_eq!(world.delivered, [0]);
}

#[test]
fn flows_without_room_are_given_back_as_they_come() {
    let mut holder = Holder::new(patient());
    let bounce = Bounce { number: 1, first: true, exp: 0, cell: 0, payload: 10 };
    let key = |n: u32| (FlowKey::new([0; 4], [0; 4], n as u16, 0, proto::TCP), 7);
    for n in 0..=MAX_FLOWS as u32 {
        holder.take(Time::ZERO, key(n), &bounce, Slot(n), &data(20, 10, 1), None);
    }
    assert_eq!((holder.poll_release(), holder.poll_release()), (Some(Slot(MAX_FLOWS as u32)), None));
    assert_eq!(holder.poll_mark(Time::ZERO), Some((key(MAX_FLOWS as u32), 1)));
    holder.release_all();
    assert_eq!(std::iter::from_fn(|| holder.poll_release()).count(), MAX_FLOWS);
    assert_eq!(std::iter::from_fn(|| holder.poll_mark(Time::ZERO)).count(), MAX_FLOWS);
    let mut now = Time::ZERO;
    for _ in 0..MAX_FLOWS / SWEEP {
        now += Time::from_secs(11);
        holder.end_part(now, now);
    }
    assert_eq!(holder.flow_count(), 0, "idle flows are forgotten");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever the delays, and however late the holder is: the two ways together keep order.
    #[test]
    fn the_change_of_ways_reorders_nothing(first_seq: u32, first_cell: u32,
                                           sizes in proptest::collection::vec((1u32..2000, any::<bool>()), 1..150),
                                           delays in proptest::collection::vec(0usize..40, 1..20),
                                           late in proptest::collection::vec(0usize..6, 1..40)) {
        let mut world = World::new(patient());
        let syn = Packet { payload: 0, tcp_flags: tcp::SYN, ..data(first_seq, 0, first_cell) };
        world.arrive(syn);
        let packets = arrivals(first_seq.wrapping_add(1), first_cell, &sizes, &delays);
        for (i, packet) in packets.iter().enumerate() {
            world.arrive(*packet);
            match late[i % late.len()] {
                0 => {}
                n => world.serve(n - 1),
            }
        }
        world.serve(usize::MAX);
        let mut expected: Vec<u32> = packets.iter().map(|packet| packet.seq).collect();
        expected.sort_by_key(|seq| seq.wrapping_sub(first_seq));
        prop_assert_eq!(&world.delivered[1..], &expected[..]);
        prop_assert!(!world.state.is_diverted());
    }

    /// Losses on the way to the holder, duplicates and retransmissions: what came is handed on once, nothing is held for
    /// ever, and the flow returns.
    #[test]
    fn nothing_is_lost_or_held_for_ever(sizes in proptest::collection::vec((1u32..2000, any::<bool>()), 1..100),
                                        delays in proptest::collection::vec(0usize..40, 1..20),
                                        what in proptest::collection::vec(0u8..20, 1..100)) {
        let mut world = World::new(Config { total_slots: 20, ..patient() });
        let packets = arrivals(u32::MAX - 50_000, u32::MAX - 5, &sizes, &delays);
        let mut expected = Vec::new();
        for (i, packet) in packets.iter().enumerate() {
            let what = what[i % what.len()];
            if what == 0 {
                continue; // lost in the fabric
            }
            let diverted = world.arrive(*packet);
            if what == 1 && diverted {
                world.queue.pop_back(); // no room
                continue;
            }
            expected.push(packet.seq);
            match what {
                2 => {
                    world.arrive(*packet);
                    expected.push(packet.seq);
                }
                3 => {
                    world.arrive(Packet { cell: packet.cell.wrapping_add(3), ..packets[i / 2] });
                    expected.push(packets[i / 2].seq);
                }
                4..=9 => world.serve(usize::from(what) - 3),
                10 => world.pass(Time::from_ms(1)),
                _ => {}
            }
        }
        world.settle();
        prop_assert_eq!(world.holder.poll_timeout(), None);
        // If the last number was lost, the next one tells.
        let (next, cell) = (world.state.exp, world.state.cell);
        world.arrive(data(next, 10, cell));
        expected.push(next);
        world.settle();
        prop_assert!(!world.state.is_diverted());
        let mut delivered = world.delivered.clone();
        delivered.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(delivered, expected);
        prop_assert!(!world.arrive(data(world.state.exp, 10, world.state.cell)));
    }
}
