//! What must hold for any arrival order.

use edge::{reorder, Config, Direction, Edge, Slot, Verdict};
use proptest::prelude::*;
use units::{Bytes, Time};
use wire::{proto, tcp, Packet};

fn edge(reorder: reorder::Config) -> Edge {
    Edge::new(Config { reorder: Some(reorder), max_flows: 3, ..Config::default() })
}

fn any_timeout() -> impl Strategy<Value = reorder::Timeout> {
    prop_oneof![
        (0u64..2000).prop_map(|us| reorder::Timeout::Fixed(Time::from_us(us))),
        Just(reorder::Timeout::ADAPTIVE),
    ]
}

fn any_config() -> impl Strategy<Value = reorder::Config> {
    (any_timeout(), any::<bool>(), 0u64..20_000, 0usize..40).prop_map(|(timeout, literal, bytes, total_slots)| {
        reorder::Config { timeout, literal, flow_bytes: Bytes(bytes), total_slots }
    })
}

/// Few values, so that they collide, next to the corners of the number space.
fn any_packet() -> impl Strategy<Value = Packet> {
    let near =
        |n: i32| prop_oneof![(-n..n).prop_map(|d| d as u32), (-n..n).prop_map(|d| (1u32 << 31).wrapping_add(d as u32))];
    let flags = prop_oneof![
        8 => Just(tcp::ACK),
        1 => Just(tcp::ACK | tcp::PSH),
        1 => any::<u8>(),
    ];
    let bits = (0u8..8, 0u8..8, 0u8..2, any::<bool>());
    (0u16..5, near(20), near(3), 0u32..12, flags, bits).prop_map(|(sport, seq, cell, payload, tcp_flags, bits)| {
        let (no_cell, truncated, ecn, large) = bits;
        Packet {
            sport,
            seq: seq.wrapping_mul(4),
            cell,
            payload: payload * if large { 500 } else { 4 },
            tcp_flags,
            proto: if sport == 4 { proto::UDP } else { proto::TCP },
            has_cell: u8::from(no_cell != 0),
            truncated: u8::from(truncated == 0),
            ecn,
            ..Packet::default()
        }
    })
}

#[derive(Clone, Debug)]
enum Operation {
    Packet(Packet),
    Wait(Time),
    EndBatch,
    Timeout,
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => any_packet().prop_map(Operation::Packet),
        2 => (0u64..800).prop_map(|us| Operation::Wait(Time::from_us(us))),
        2 => Just(Operation::EndBatch),
        1 => Just(Operation::Timeout),
    ]
}

/// Slots released, asserting that a slot joins another one only if there is one.
fn drain(edge: &mut Edge, now: Time) -> Vec<u32> {
    let mut slots = Vec::new();
    while let Some(release) = edge.poll_release(now) {
        assert_eq!(release.dir, Direction::Ingress);
        assert!(!(release.joins_previous && slots.is_empty()));
        slots.push(release.slot.0);
    }
    slots
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn every_held_slot_is_released_exactly_once(config in any_config(),
                                                operations in proptest::collection::vec(any_operation(), 0..150)) {
        let mut edge = edge(config);
        let mut now = Time::ZERO;
        let (mut held, mut released) = (Vec::new(), Vec::new());
        for (slot, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Packet(mut packet) => {
                    let before = packet;
                    match edge.process(now, Direction::Ingress, Slot(slot as u32), &mut packet) {
                        Verdict::Hold => held.push(slot as u32),
                        verdict => prop_assert_eq!(verdict, Verdict::Forward),
                    }
                    prop_assert_eq!(packet, before);
                }
                Operation::Wait(span) => now += span,
                Operation::EndBatch => edge.end_batch(now),
                Operation::Timeout => edge.handle_timeout(now),
            }
            released.extend(drain(&mut edge, now));
            prop_assert!(held.len() - released.len() <= config.total_slots, "slots held are bounded");
        }
        edge.end_batch(now);
        released.extend(drain(&mut edge, now));
        let overdue = edge.poll_timeout().is_some_and(|due| due > now.saturating_add(Time::from_ms(20)));
        prop_assert!(!overdue, "no deadline beyond what the timeout allows");
        edge.handle_timeout(now.saturating_add(Time::from_secs(5)));
        released.extend(drain(&mut edge, now));
        prop_assert_eq!(edge.poll_timeout(), None);
        released.sort_unstable();
        prop_assert_eq!(released, held);
    }

    /// Flowcells take paths of different delay, but each path keeps order and nothing is lost.
    #[test]
    fn reordering_between_flowcells_is_hidden(first_seq: u32, first_cell: u32,
                                              sizes in proptest::collection::vec((1u32..2000, any::<bool>()), 1..120),
                                              delays in proptest::collection::vec(0usize..60, 120),
                                              poll in 1usize..20, literal: bool) {
        let mut seq = first_seq.wrapping_add(1);
        let mut cell = first_cell;
        let mut arrivals: Vec<(usize, u32, Packet)> = Vec::new();
        let mut path = 0;
        for (i, (payload, opens_cell)) in sizes.iter().enumerate() {
            if *opens_cell {
                cell = cell.wrapping_add(1);
                path = i;
            }
            let packet = Packet { seq, cell, payload: *payload, has_cell: 1, proto: proto::TCP, tcp_flags: tcp::ACK,
                                  ..Packet::default() };
            arrivals.push((i + delays[path], i as u32, packet));
            seq = seq.wrapping_add(*payload);
        }
        arrivals.sort_by_key(|(at, i, _)| (*at, *i));

        let mut edge = edge(reorder::Config { literal, ..reorder::Config::default() });
        let mut syn = Packet { seq: first_seq, cell: first_cell, has_cell: 1, proto: proto::TCP, tcp_flags: tcp::SYN,
                               ..Packet::default() };
        prop_assert_eq!(edge.process(Time::ZERO, Direction::Ingress, Slot(u32::MAX), &mut syn), Verdict::Forward);
        let mut released = Vec::new();
        for batch in arrivals.chunks(poll) {
            for (_, slot, packet) in batch {
                let mut packet = *packet;
                let verdict = edge.process(Time::ZERO, Direction::Ingress, Slot(*slot), &mut packet);
                prop_assert_eq!(verdict, Verdict::Hold);
            }
            edge.end_batch(Time::ZERO);
            released.extend(drain(&mut edge, Time::ZERO));
        }
        let expected: Vec<u32> = (0..sizes.len() as u32).collect();
        prop_assert_eq!(released, expected);
        prop_assert_eq!(edge.poll_timeout(), None);
    }
}
