//! Guests' shares of the uplink in the loaded program: what is held, what is counted, what is told. Root only; says why where it is
//! skipped.
#![cfg(feature = "libbpf")]

mod arrivals;
mod fabric;
mod world;

use conformance::Script;
use edge::hygenicc::{Bucket, Config, Hold, Law};
use edge::Direction;
use fabric::in_namespace;
use kernel::state::quota::{Bounds, Tally, TallyKey, TABLE_PAIRS, TALLY_NETWORK, TALLY_PORT, TALLY_TABLE};
use kernel::state::{address, Counter, Share, Tenants, EVENT_MARKS, MARKS_BEGIN};
use kernel::{Role, Segment};
use units::{BitRate, Bytes, Time};
use wire::encap::read_outer;
use world::World;

const TC_ACT_SHOT: u32 = 2;
const PORT: u16 = conformance::PORT;
/// Of the guest's share.
const NUMBER: u16 = 3;

/// A host whose guest shares 100 Mb/s; the clock stands at 1 s.
fn world(name: &str, weight: u16, change: impl FnOnce(&mut Config)) -> Option<World> {
    world_of(name, "config balance=hash", weight, change)
}

fn world_of(name: &str, script: &str, weight: u16, change: impl FnOnce(&mut Config)) -> Option<World> {
    let world = World::with_clock(name, &Script::parse("lines", script).unwrap().config)?;
    let mut config = Config::new(BitRate::from_mbps(100), Time::from_us(100));
    config.depth = Bytes(20_000);
    change(&mut config);
    let backlog = if let Hold::Delay(most) = config.hold { most.get() } else { 0 };
    let edge = world.edge();
    edge.set_tenants(&Tenants { conf: config.conf(), backlog, numbers: NUMBER.into(), pad: 0 }).unwrap();
    let port = edge.port(world.port).unwrap().unwrap();
    edge.set_port(world.port, &port.with_share(NUMBER, weight)).unwrap();
    world.set_time(Time::from_secs(1));
    Some(world)
}

/// Verdicts and frames of a script's lines, whatever it expects of them.
fn run(world: &World, lines: &str) -> Vec<(u32, Vec<u8>)> {
    let script = Script::parse("lines", &format!("config balance=hash\n{lines}")).unwrap_or_else(|e| panic!("{e}"));
    in_namespace(&world.fabric.host(0), || {
        script.cases.iter().map(|case| world.run(case.direction, &case.frame)).collect()
    })
}

const DATAGRAM: &str = "egress udp4 to=two ports=1000>80 payload=1000 => forward";

fn count(world: &World, counter: Counter) -> u64 {
    world.counters().get(counter)
}

#[test]
fn what_exceeds_the_share_is_dropped_and_leaves_no_state() {
    let Some(world) = world("ta", 1, |_| {}) else { return };
    // 1000 B of payload, 28 of headers, 38 of framing, 50 of the tunnel: 17 of them are 18,972 B of 20,000.
    let verdicts: Vec<u32> = run(&world, &vec![DATAGRAM; 20].join("\n")).iter().map(|(verdict, _)| *verdict).collect();
    let passed = verdicts.iter().filter(|verdict| **verdict != TC_ACT_SHOT).count();
    assert_eq!(passed, 17, "{verdicts:?}");
    assert_eq!(count(&world, Counter::DropOverRate), 3);
    let share = world.edge().share(NUMBER).unwrap().unwrap();
    assert_eq!((share.segments, share.bytes, share.dropped), (17, 17 * 1116, 3));
    assert_eq!((share.bucket.rate, share.bucket.fair), (12_500_000, 12_500_000), "alone it has the uplink");
    // Another flow finds nothing, and leaves nothing.
    let flows = world.edge().flows().unwrap().len();
    run(&world, "egress udp4 to=two ports=1001>80 payload=1000 => forward");
    assert_eq!(world.edge().flows().unwrap().len(), flows);
    // 1116 B take 89.28 us at 100 Mb/s; 1028 B are left.
    world.set_time(Time::from_ms(1000) + Time::from_us(10));
    assert_ne!(run(&world, DATAGRAM)[0].0, TC_ACT_SHOT);
    assert_eq!(run(&world, DATAGRAM)[0].0, TC_ACT_SHOT);
}

#[test]
fn what_no_stage_sees_is_held_too() {
    let Some(world) = world("tb", 1, |_| {}) else { return };
    let ping = "egress ip4 to=two payload=1000 => carry transport";
    let Ok(script) = Script::parse("lines", &format!("config balance=hash\n{ping}")) else { return };
    let frame = &script.cases[0].frame;
    in_namespace(&world.fabric.host(0), || {
        let passed = (0..30).filter(|_| world.run(Direction::Egress, frame).0 != TC_ACT_SHOT).count();
        let bytes = frame.len() as u64 - 14 + 38 + 50;
        assert_eq!(passed as u64, 20_000 / bytes);
    });
}

/// The feedback in the outer header of a frame: kind, and the count.
fn feedback(frame: &[u8]) -> (u8, u16) {
    let outer = read_outer(frame, PORT).expect("encapsulated");
    (outer.encap.feedback, u16::from_be_bytes([outer.encap.path, outer.encap.value]))
}

#[test]
fn marks_are_counted_told_and_hidden() {
    let Some(world) = world("tc", 1, |c| c.patience = Time::from_ms(1)) else { return };
    // The peer must be known to speak version 2.
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    let (_, first) = run(&world, DATAGRAM).remove(0);
    assert_eq!(feedback(&first), (3, 0), "where the count begins");
    assert_eq!(first[15] & 3, 2, "ECT in the outer header only");
    // Three of these were marked on their way: the guest sees none of it.
    let marked = "ingress udp4 from=two of=two ports=80>1000 version=2 oecn=3 payload=100 => forward";
    for (_, frame) in run(&world, &[marked; 3].join("\n")) {
        assert_eq!(frame[15] & 3, 0);
    }
    assert_eq!(count(&world, Counter::MarksCounted), 3);
    let (_, next) = run(&world, DATAGRAM).remove(0);
    assert_eq!(feedback(&next), (3, 3));
    let (_, after) = run(&world, DATAGRAM).remove(0);
    assert_eq!(feedback(&after).0, 0, "once");
    // One-way traffic: after the patience the agent is asked to tell.
    run(&world, marked);
    world.set_time(Time::from_ms(1002));
    run(&world, marked);
    let events = world.edge().poll_events(std::time::Duration::ZERO).unwrap();
    let told: Vec<_> = events.iter().filter(|event| event.kind == EVENT_MARKS).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].value, told[0].packet.proto), (5, edge::hygenicc::PROTO), "it knows where the count begins");
    let two = conformance::PEERS.iter().find(|peer| peer.name == "two").unwrap();
    assert_eq!(address(told[0].packet.daddr), address(two.guest.v4));
    assert_eq!(told[0].value & MARKS_BEGIN, 0);
}

#[test]
fn counts_take_turns_with_feedback_on_paths() {
    let clove = "config balance=clove,flowlet_gap=1ms,clove_relay=100us,clove_clear=5ms";
    let Some(world) = world_of("tw", clove, 1, |c| c.patience = Time::from_ms(100)) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    assert_eq!(feedback(&run(&world, DATAGRAM)[0].1), (3, 0), "where the count begins");
    for label in 50_001..50_004 {
        let line = format!("ingress udp4 from=two of=two ports=80>1000 version=2 oecn=3 label={label} => forward");
        run(&world, &line);
    }
    let told: Vec<_> = run(&world, &[DATAGRAM; 5].join("\n")).iter().map(|(_, frame)| feedback(frame)).collect();
    assert_eq!(told.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 3, 1, 1, 0], "{told:?}");
    assert_eq!(told[1].1, 3);
}

#[test]
fn nothing_is_lost_between_cpus() {
    let Some(world) = world("tx", 1, |c| (c.depth, c.patience) = (Bytes(1 << 30), Time::from_secs(1))) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    assert_eq!(feedback(&run(&world, DATAGRAM)[0].1), (3, 0), "where the count begins");
    let marked = "ingress udp4 from=two of=two ports=80>1000 version=2 oecn=3 payload=100 => forward";
    let lines = [marked, DATAGRAM].join("\n");
    let (world, lines) = (&world, &vec![lines.as_str(); 250].join("\n"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || run(world, lines));
        }
    });
    let share = share(world);
    assert_eq!((share.segments, share.bytes, share.bucket.weight), (1001, 1001 * 1116, 1));
    assert_eq!(count(world, Counter::MarksCounted), 1000);
    run(world, marked);
    assert_eq!(feedback(&run(world, DATAGRAM)[0].1), (3, 1001));
}

/// Of the guest behind `two`: it tells that so many packets were marked in all.
fn told(count: u16) -> String {
    let [high, low] = count.to_be_bytes();
    format!("ingress udp4 from=two of=two ports=80>1000 version=2 feedback=3:{high}:{low} => forward")
}

#[test]
fn what_peers_tell_is_believed_up_to_what_was_sent() {
    let Some(world) = world("td", 1, |c| c.depth = Bytes(1 << 20)) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    run(&world, &[DATAGRAM; 100].join("\n"));
    let marks = || share(&world).marks;
    run(&world, &told(7));
    assert_eq!(marks(), 0, "the first count is where it begins");
    run(&world, &told(17));
    assert_eq!((marks(), count(&world, Counter::MarksHeard)), (10, 10));
    run(&world, &told(17));
    run(&world, &told(16));
    assert_eq!(marks(), 10, "what was overtaken says nothing");
    run(&world, &told(30_000));
    assert_eq!(marks(), 10, "more than was sent is a restart");
    // What another peer says of this guest is another pair's.
    run(&world, "ingress udp4 ports=80>1000 version=2 feedback=3:0:99 => forward");
    assert_eq!(marks(), 10);
}

#[test]
fn no_feedback_sets_a_rate_above_the_fair_one_or_below_the_minimum() {
    const FAIR: u64 = 12_500_000;
    const LEAST: u64 = 250_000;
    for (name, law) in [("tv", Law::Aiad), ("tz", Law::Alpha)] {
        let Some(world) = world(name, 1, |c| {
            (c.law, c.minimum, c.depth) = (law, BitRate::from_mbps(2), Bytes(1 << 30));
            c.interval = Time::from_ms(1);
        }) else {
            return;
        };
        run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
        let (mut ms, mut before) = (1000, FAIR);
        let mut interval = |feedback: &[u16]| {
            ms += 1;
            world.set_time(Time::from_ms(ms));
            run(&world, &[DATAGRAM; 40].join("\n"));
            let marks = share(&world).marks;
            run(&world, &feedback.iter().map(|count| told(*count)).collect::<Vec<_>>().join("\n"));
            let marks = share(&world).marks - marks;
            world.edge().set_rates().unwrap();
            let bucket = share(&world).bucket;
            assert_eq!(bucket.fair, FAIR);
            assert!((LEAST..=FAIR).contains(&bucket.rate), "{law:?}: {bucket:?}");
            if law == Law::Aiad && marks > 0 {
                assert_eq!(bucket.rate, before.saturating_sub(marks * FAIR / 1000).max(LEAST), "a thousandth a mark");
            }
            before = bucket.rate;
            (marks, bucket.rate)
        };
        // The truth, that all were marked, then whatever comes to mind.
        assert_eq!(interval(&[0]).0, 0);
        assert_eq!(interval(&[40]).0, 40);
        let mut forged = 40u16;
        for n in 0u16..60 {
            forged = forged.wrapping_mul(25_173).wrapping_add(13_849 + n);
            interval(&[forged, forged.wrapping_add(40), forged.wrapping_add(40_000), forged.wrapping_add(41)]);
        }
        let all_marked = |n: u16| forged.wrapping_add(40_041 + 40 * n);
        for n in 0..200 {
            interval(&[all_marked(n)]);
        }
        assert_eq!(interval(&[all_marked(200)]).1, LEAST, "{law:?}");
        for _ in 0..400 {
            interval(&[]);
        }
        assert!(interval(&[]).1 > FAIR / 100 * 99, "{law:?}: it grows again");
    }
}

#[test]
fn counts_in_packets_of_their_own_reach_no_guest() {
    let Some(world) = world("te", 1, |_| {}) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    run(&world, DATAGRAM);
    let alone = "ingress ip4 from=two of=two proto=253 payload=0 version=2 feedback=3:0:5 => carry transport";
    assert_eq!(run(&world, alone)[0].0, TC_ACT_SHOT);
    assert_eq!(count(&world, Counter::MarksConsumed), 1);
    // Without feedback it is a guest's own.
    let own = "ingress ip4 from=two of=two proto=253 payload=0 version=2 => carry transport";
    assert_ne!(run(&world, own)[0].0, TC_ACT_SHOT);
    // One that leaves carries no feedback, and arrives at the other end as what it is.
    let (verdict, sent) = run(&world, "egress ip4 to=two proto=253 payload=0 => carry transport").remove(0);
    assert_ne!(verdict, TC_ACT_SHOT);
    assert_eq!(feedback(&sent).0, 0);
}

#[test]
fn segments_wait_for_their_turn_up_to_the_backlog() {
    let Some(world) = world("tf", 1, |c| c.hold = Hold::Delay(Bytes(5_000))) else { return };
    let verdicts: Vec<u32> = run(&world, &vec![DATAGRAM; 30].join("\n")).iter().map(|(verdict, _)| *verdict).collect();
    // 17 at once; then as many as 5,000 B wait in front of.
    let passed = verdicts.iter().filter(|verdict| **verdict != TC_ACT_SHOT).count();
    assert_eq!(passed, 17 + 5, "{verdicts:?}");
    assert_eq!((count(&world, Counter::Delayed), count(&world, Counter::DropOverRate)), (5, 8));
}

fn share(world: &World) -> Share {
    world.edge().share(NUMBER).unwrap().unwrap()
}

/// False if its share drops it.
fn send_whole(world: &World, lines: &str, gso_size: u16) -> bool {
    let script = Script::parse("lines", &format!("config balance=hash\n{lines}")).unwrap();
    send_frame(world, &script.cases[0].frame, gso_size)
}

fn send_frame(world: &World, frame: &[u8], gso_size: u16) -> bool {
    let segment = Segment { ifindex: world.port, gso_size, ..Segment::default() };
    let before = count(world, Counter::DropOverRate);
    in_namespace(&world.fabric.host(0), || {
        // The kernel will not put headers in front of a segment that no socket has made.
        world.edge().test_run_segment(Role::Guest, frame, segment).unwrap()
    });
    count(world, Counter::DropOverRate) == before
}

const SEGMENT: &str = "egress tcp4 to=two ports=1000>80 flags=A payload=3000 => forward";

#[test]
fn whole_segments_take_what_their_packets_take() {
    // The bucket holds an interval of 500 us, which is more than the depth.
    let Some(world) = world("tj", 1, |c| c.depth = Bytes(2000)) else { return };
    let passed: Vec<bool> = (0..3).map(|_| send_whole(&world, SEGMENT, 1000)).collect();
    assert_eq!((passed, share(&world).bytes), (vec![true, false, false], 3000 + 3 * (38 + 40 + 50)));
    assert_eq!(share(&world).bucket.level, (6250 - 3384) * 1_000_000_000);
}

#[test]
fn what_a_segment_takes_beyond_the_bucket_is_owed() {
    let Some(world) = world("tk", 1, |c| (c.depth, c.bursts) = (Bytes(2000), 0)) else { return };
    assert!(send_whole(&world, SEGMENT, 1000), "or it would never leave");
    assert_eq!((share(&world).bytes, share(&world).bucket.debt), (3384, 1384));
    // 1384 and 1116 B take 200 us.
    let sent = |us: u64| {
        world.set_time(Time::from_secs(1) + Time::from_us(us));
        run(&world, DATAGRAM)[0].0 != TC_ACT_SHOT
    };
    assert_eq!([sent(100), sent(199), sent(200)], [false, false, true]);
}

#[test]
fn segments_of_other_transports_take_what_their_packets_take() {
    let Some(world) = world("tl", 1, |_| {}) else { return };
    assert!(send_whole(&world, "egress ip4 to=two payload=3000 => carry transport", 1000));
    // 3028 B are 4 packets, which repeat headers of 60 B.
    assert_eq!(share(&world).bytes, 3028 + 4 * (38 + 50) + 3 * 60);
}

/// Or a guest could send as much as it likes, as long as the lengths in its headers are small.
#[test]
fn what_is_behind_the_end_of_a_packet_counts() {
    let Some(world) = world("tr", 1, |_| {}) else { return };
    let script =
        Script::parse("lines", "config balance=hash\negress udp4 to=two ports=1>2 payload=10 => forward").unwrap();
    let frame = [&script.cases[0].frame[..], &[0; 1000]].concat();
    in_namespace(&world.fabric.host(0), || {
        let (verdict, sent) = world.run(Direction::Egress, &frame);
        assert!(verdict != TC_ACT_SHOT && sent.len() >= frame.len());
    });
    assert_eq!(share(&world).bytes, 20 + 8 + 10 + 1000 + 38 + 50);
}

/// The kernel cuts a virtual machine's segment by its real length, and marks come back of all its packets.
#[test]
fn what_a_segment_says_of_its_length_counts_for_nothing() {
    let Some(world) = world("tu", 1, |_| {}) else { return };
    let script = Script::parse("lines", &format!("config balance=hash\n{SEGMENT}")).unwrap();
    let mut frame = script.cases[0].frame.clone();
    frame[16..18].copy_from_slice(&40u16.to_be_bytes());
    assert!(send_frame(&world, &frame, 1000));
    let flow = world.edge().flows().unwrap().remove(0).1;
    assert_eq!((share(&world).bytes, flow.out_bytes), (3000 + 3 * (38 + 40 + 50), 3000));
}

#[test]
fn what_waits_for_those_before_it_is_within_the_backlog() {
    let Some(world) = world("tm", 1, |c| c.hold = Hold::Delay(Bytes(5_000))) else { return };
    run(&world, &vec![DATAGRAM; 17].join("\n"));
    let set_rate = |rate| {
        let now = share(&world);
        world
            .edge()
            .set_share(NUMBER, &Share { bucket: edge::hygenicc::Bucket { rate, ..now.bucket }, ..now })
            .unwrap();
    };
    set_rate(100_000);
    run(&world, &[DATAGRAM; 2].join("\n"));
    let last = share(&world).last_ns;
    assert!(last > 1_010_000_000, "{last}");
    set_rate(12_500_000);
    let mut passed = 0;
    for us in (1000..9000).step_by(100) {
        world.set_time(Time::from_secs(1) + Time::from_us(us));
        passed += u64::from(run(&world, DATAGRAM)[0].0 != TC_ACT_SHOT);
    }
    assert_eq!((passed, share(&world).last_ns), (4, last), "the backlog leaves with the last one");
    world.set_time(Time::from_ms(1030));
    assert_ne!(run(&world, DATAGRAM)[0].0, TC_ACT_SHOT);
}

#[test]
fn a_pair_in_use_is_kept_by_a_sweep_that_began_before() {
    let Some(world) = world("tn", 1, |_| {}) else { return };
    world.set_time(Time::from_secs(100));
    run(&world, &[DATAGRAM, ANSWER, DATAGRAM].join("\n"));
    assert_eq!([99_990, 159_000, 161_000].map(|ms| left_at(&world, ms)), [1, 1, 0]);
}

const ANSWER: &str = "ingress udp4 from=two of=two ports=80>1000 version=2 oecn=3 payload=100 => forward";

/// Pairs that a sweep at that time leaves.
fn left_at(world: &World, ms: u64) -> usize {
    world.edge().sweep(Time::from_ms(ms).as_ns()).unwrap();
    world.edge().pairs().unwrap().len()
}

#[test]
fn a_pairs_network_pays_for_it_until_it_is_forgotten() {
    let Some(world) = world("t1", 1, |_| {}) else { return };
    world.set_time(Time::from_secs(100));
    let held = || {
        let mut tallies = world.edge().tallies().unwrap();
        tallies.retain(|key, _| key.table == TABLE_PAIRS && key.kind != TALLY_TABLE);
        let of = |kind| tallies.iter().find(|(key, _)| key.kind == kind).map(|(_, t)| (t.flows, t.unsettled));
        [of(TALLY_PORT), of(TALLY_NETWORK)]
    };
    for (line, unsettled) in [(ANSWER, 1), (DATAGRAM, 1), (ANSWER, 0)] {
        run(&world, line);
        assert_eq!(held(), [Some((1, unsettled)), Some((1, 0))]);
    }
    assert_eq!((left_at(&world, 161_000), held()), (0, [Some((0, 0)); 2]));
}

/// Guests and strangers begin pairs at will: what is not settled stays no longer than such a flow.
#[test]
fn pairs_that_are_not_settled_are_forgotten_soon() {
    let cases = [
        ("nobody answered", vec![DATAGRAM; 3]),
        ("begun outside", vec![ANSWER; 3]),
        ("answered once", vec![DATAGRAM, ANSWER]),
    ];
    for (what, lines) in cases {
        let Some(world) = world("t2", 1, |_| {}) else { return };
        world.set_time(Time::from_secs(100));
        run(&world, &lines.join("\n"));
        assert_eq!([99_990, 109_900, 110_100].map(|ms| left_at(&world, ms)), [1, 1, 0], "{what}");
        let held = world.edge().tallies().unwrap();
        let left = held.get(&TallyKey::new(TABLE_PAIRS, TALLY_PORT, world.port)).copied().unwrap_or_default();
        assert_eq!(left, Tally::default(), "{what}");
    }
}

/// Else a guest could choose addresses whose marks hide one another's.
#[test]
fn each_address_of_a_guest_has_its_own_pairs() {
    let Some(world) = world("to", 1, |_| {}) else { return };
    let script = Script::parse("lines", "config balance=hash\negress udp6 to=two ports=1000>80 => forward").unwrap();
    let frame = &script.cases[0].frame;
    // The same words in another order.
    let other = [&frame[..22], &frame[26..38], &frame[22..26], &frame[38..]].concat();
    in_namespace(&world.fabric.host(0), || {
        for frame in [frame, &other, frame] {
            assert_ne!(world.run(Direction::Egress, frame).0, TC_ACT_SHOT);
        }
    });
    assert_eq!(world.edge().pairs().unwrap().len(), 2);
}

/// A port may have half of what is free, whoever it says it is and whomever it writes to.
#[test]
fn one_guests_pairs_leave_the_others_room() {
    const ROOM: u32 = 200;
    let Some(world) = world("tq", 1, |c| c.depth = Bytes(1 << 30)) else { return };
    let bounds = Bounds { table: ROOM, port: ROOM, network: ROOM, pad: 0 };
    world.edge().set_bounds(TABLE_PAIRS, &bounds).unwrap();
    let script = Script::parse("lines", "config balance=hash\negress udp6 to=two ports=1000>80 => forward").unwrap();
    let mut frame = script.cases[0].frame.clone();
    in_namespace(&world.fabric.host(0), || {
        for n in 0..5 * ROOM as u16 {
            frame[36..38].copy_from_slice(&n.to_be_bytes()); // the last bits of the source address
            assert_ne!(world.run(Direction::Egress, &frame).0, TC_ACT_SHOT, "held as one that has no pair");
        }
    });
    let pairs = world.edge().pairs().unwrap().len() as u32;
    assert!(pairs <= ROOM / 2 && pairs > ROOM / 3, "{pairs}: the last part of its half is for what it surely began");
    assert_eq!(count(&world, Counter::PairsFull), u64::from(5 * ROOM - pairs));
    let held = world.edge().tallies().unwrap();
    assert_eq!(held[&TallyKey::new(TABLE_PAIRS, TALLY_PORT, world.port)].flows, pairs as i32);
}

/// Nothing passes any more that could show that it is time.
#[test]
fn marks_that_wait_when_traffic_ends_are_told_by_a_sweep() {
    let Some(world) = world("tt", 1, |c| c.patience = Time::from_ms(5)) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    let asked = |ms: u64| {
        world.set_time(Time::from_ms(ms));
        world.edge().sweep(Time::from_ms(ms).as_ns()).unwrap();
        let mut events = world.edge().poll_events(std::time::Duration::ZERO).unwrap();
        events.retain(|event| event.kind == EVENT_MARKS);
        events
    };
    let kinds = ["udp4", "tcp4", "udp6", "tcp6"];
    for (n, kind) in kinds.into_iter().enumerate() {
        let flags = if kind.starts_with("tcp") { " flags=A" } else { "" };
        let marked =
            format!("ingress {kind} from=two of=two ports=80>1000{flags} version=2 oecn=3 payload=100 => forward");
        run(&world, &vec![marked.as_str(); n + 2].join("\n"));
    }
    let two = conformance::PEERS.iter().find(|peer| peer.name == "two").unwrap();
    assert_eq!(asked(1900).len(), 0, "it may only pause");
    let told = asked(2100);
    // One pair of IPv4 addresses and one of IPv6, whatever the transport.
    let mut counts: Vec<(u8, u32)> = told.iter().map(|event| (event.packet.family, event.value)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(4, MARKS_BEGIN | 5), (6, MARKS_BEGIN | 9)]);
    for event in &told {
        let to = if event.packet.family == 4 { two.guest.v4 } else { two.guest.v6 };
        assert_eq!((address(event.packet.daddr), event.packet.proto), (address(to), edge::hygenicc::PROTO));
        assert_eq!((event.ifindex, event.packet.wire), (world.port, wire::version::TWO));
    }
    // That packet may be lost: what the sweep asks for is asked for twice more, and then no more.
    assert_eq!([8, 13, 18].map(|s| asked(s * 1000).len()), [2, 2, 0]);
}

/// Without an agent nobody sends the packets that are asked for.
#[test]
fn marks_that_nobody_tells_go_with_the_next_packet_of_the_pair() {
    let Some(world) = world("tp", 1, |c| c.patience = Time::from_ms(1)) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    assert_eq!(feedback(&run(&world, DATAGRAM)[0].1), (3, 0), "where the count begins");
    let asked = || {
        world.edge().poll_events(std::time::Duration::ZERO).unwrap().iter().filter(|e| e.kind == EVENT_MARKS).count()
    };
    let from_two = |ecn: u8| {
        run(&world, &format!("ingress udp4 from=two of=two ports=80>1000 version=2 oecn={ecn} payload=100 => forward"));
    };
    from_two(3);
    world.set_time(Time::from_ms(1002));
    assert_eq!(asked(), 0);
    from_two(2);
    assert_eq!(asked(), 1, "any packet of the pair shows that it is time");
    from_two(2);
    assert_eq!(asked(), 0, "once");
    assert_eq!(feedback(&run(&world, DATAGRAM)[0].1), (3, 1));
    assert_eq!(feedback(&run(&world, DATAGRAM)[0].1).0, 0);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "waits for the kernel's own timer")]
fn rates_are_set_by_the_kernels_own_timer() {
    let Some(world) = world("tg", 1, |c| c.interval = Time::from_ms(1)) else { return };
    world.edge().begin_shares().unwrap();
    world.edge().begin_shares().unwrap(); // as another agent does
    for _ in 0..600 {
        if world.edge().sharing().unwrap().ticks >= 10 {
            // It ends with the configuration.
            world.edge().set_tenants(&Tenants::default()).unwrap();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{:?}", world.edge().sharing().unwrap());
}

/// Between two runs of the timer's program its CPU handles packets; all guests have the rates of one interval.
#[test]
fn rates_of_thousands_of_guests_are_set_in_runs() {
    let Some(world) = world("tr", 1, |_| {}) else { return };
    let (edge, all) = (world.edge(), kernel::state::MAX_SHARES);
    let conf = Config::new(BitRate::from_gbps(10), Time::from_us(100)).conf();
    for guests in [2048, all] {
        edge.set_tenants(&Tenants { conf, backlog: 0, numbers: guests.into(), pad: 0 }).unwrap();
        for number in 1..=guests {
            let bucket = Bucket { weight: 1, active: 1, last: 1_000_000_000, ..Bucket::default() };
            edge.set_share(number, &Share { bucket, ifindex: 1_000_000 + u32::from(number), ..Share::default() })
                .unwrap();
        }
        assert_eq!(edge.set_rates().unwrap().len(), usize::from(guests.div_ceil(2048)));
        let rates: Vec<u64> = (1..=guests).map(|number| edge.share(number).unwrap().unwrap().bucket.rate).collect();
        assert!(rates[0] > 0 && rates.iter().all(|rate| *rate == rates[0]), "{rates:?}");
    }
}

/// Rows that share one hold of the lock end an interval each for itself: who has its rate, who is marked, who fell silent, and who never was.
#[test]
fn what_a_row_is_at_an_intervals_end_is_not_its_neighbours() {
    let Some(world) = world("tn", 1, |_| {}) else { return };
    let (edge, all) = (world.edge(), kernel::state::MAX_SHARES);
    let mut config = Config::new(BitRate::from_mbps(800), Time::from_us(100));
    config.inactive = Time::from_ms(100);
    edge.set_tenants(&Tenants { conf: config.conf(), backlog: 0, numbers: all.into(), pad: 0 }).unwrap();
    const NOW: u64 = 1_000_000_000;
    // Every kind beside every other in fours, in the first, middle and last words.
    let rows: Vec<u16> = (1..=70).chain(2040..=2060).chain(all - 70..=all).collect();
    let kind = |row: u16| (row / 4 + row % 4 * (row / 16 + 1)) % 4;
    let lasting: Vec<u16> = rows.iter().copied().filter(|row| kind(*row) < 2).collect();
    let weights = lasting.len() as u64;
    let fair = 100_000_000 / weights;
    for row in &rows {
        let bucket = match kind(*row) {
            0 => Bucket { active: 1, last: NOW, rate: fair, fair, ..Bucket::default() },
            1 => Bucket { active: 1, last: NOW, rate: fair, fair, marks: 2, ..Bucket::default() },
            2 => Bucket { active: 1, last: NOW - 200_000_000, rate: fair, fair, ..Bucket::default() },
            _ => continue,
        };
        let bucket = Bucket { weight: 1, filled: NOW, heard: NOW, ..bucket };
        edge.set_share(*row, &Share { bucket, ifindex: 1_000_000 + u32::from(*row), ..Share::default() }).unwrap();
    }
    edge.set_rates().unwrap();
    let sharing = edge.sharing().unwrap();
    assert_eq!(sharing.weights, weights);
    let words = sharing.active.concat();
    for row in 1..=all {
        let bit = words[usize::from((row - 1) / 64)] >> ((row - 1) % 64) & 1 == 1;
        assert_eq!(bit, lasting.contains(&row), "row {row}");
    }
    for row in rows {
        let bucket = edge.share(row).unwrap().unwrap_or_default().bucket;
        let expected = match kind(row) {
            0 => (1, fair, fair, 0),
            1 => (1, fair - 2 * 100_000, fair, 0),
            2 => (0, fair, fair, 0),
            _ => (0, 0, 0, 0),
        };
        assert_eq!((bucket.active, bucket.rate, bucket.fair, bucket.marks), expected, "row {row}");
    }
}

/// The same by the timer itself, which ends with the configuration and begins again.
#[test]
#[allow(clippy::disallowed_methods, reason = "waits for the kernel's own timer")]
fn the_timer_sets_rates_of_thousands_in_runs_and_counts_an_interval_once() {
    const INTERVAL_NS: u64 = 5_000_000;
    let Some(world) = world("tt", 1, |_| {}) else { return };
    let (edge, all) = (world.edge(), kernel::state::MAX_SHARES);
    let mut config = Config::new(BitRate::from_gbps(10), Time::from_us(100));
    (config.interval, config.inactive) = (Time::from_ns(INTERVAL_NS), Time::from_secs(1000));
    let tenants = Tenants { conf: config.conf(), backlog: 0, numbers: all.into(), pad: 0 };
    let ticks = || edge.sharing().unwrap().ticks;
    let eventually = |what: &str, test: &dyn Fn() -> bool| {
        (0..600).find(|_| test() || (std::thread::sleep(std::time::Duration::from_millis(50)), false).1).expect(what)
    };
    for _ in 0..2 {
        edge.set_tenants(&tenants).unwrap();
        for number in [1, 2048, 2049, all] {
            let bucket = Bucket { weight: 1, active: 1, last: kernel::monotonic_ns(), ..Bucket::default() };
            edge.set_share(number, &Share { bucket, ifindex: 1_000_000, ..Share::default() }).unwrap();
        }
        let (before, begun) = (ticks(), kernel::monotonic_ns());
        edge.begin_shares().unwrap();
        let rate = |number| edge.share(number).unwrap().unwrap().bucket.rate;
        eventually("rates of both runs", &|| [1, 2048, 2049, all].iter().all(|number| rate(*number) > 0));
        eventually("a second interval", &|| ticks() >= before + 2);
        let counted = ticks() - before;
        assert!(counted <= (kernel::monotonic_ns() - begun) / INTERVAL_NS + 2, "{counted} intervals: a run is none");
        edge.set_tenants(&Tenants::default()).unwrap();
        eventually("it ends", &|| {
            let now = ticks();
            std::thread::sleep(std::time::Duration::from_nanos(4 * INTERVAL_NS));
            ticks() == now
        });
    }
}

#[test]
fn intervals_that_were_missed_count_as_late() {
    let Some(world) = world("tq", 1, |c| c.interval = Time::from_ms(1)) else { return };
    let sharing = || world.edge().sharing().unwrap();
    let late_ns = |us: u64| {
        let before = sharing().late_ns;
        world.set_time(Time::from_secs(1) + Time::from_us(us));
        world.edge().set_rates().unwrap();
        sharing().late_ns - before
    };
    late_ns(0);
    assert_eq!([late_ns(1000), late_ns(20_300)], [0, 18_300_000], "at 2 ms it was due");
    assert_eq!(sharing().ticks, 3);
}

#[test]
fn a_port_without_a_share_is_not_held() {
    let Some(world) = world("th", 1, |_| {}) else { return };
    let port = world.edge().port(world.port).unwrap().unwrap();
    world.edge().set_port(world.port, &kernel::state::Port { share: 0, ..port }).unwrap();
    assert!(run(&world, &vec![DATAGRAM; 100].join("\n")).iter().all(|(verdict, _)| *verdict != TC_ACT_SHOT));
    assert!(world.edge().attachments().iter().all(|(_, role)| *role != Role::Guest));
}

/// What the data path knows of the guest's one pair: packets that left in this interval, and those that were not reported yet.
fn of_pair(world: &World) -> [u32; 2] {
    let pairs = world.edge().pairs().unwrap();
    assert_eq!(pairs.len(), 1);
    let pair = pairs[0].1.pair;
    [pair[1], pair[6] & 0xffff]
}

#[test]
fn a_thousand_connections_of_one_pair_are_one_entry() {
    let Some(world) = world("ct", 1, |c| c.depth = Bytes(1 << 21)) else { return };
    let lines = |of| (of..of + 250).map(|port| DATAGRAM.replace("1000>", &format!("{port}>"))).collect::<Vec<_>>();
    (0..4).for_each(|n| drop(run(&world, &lines(1000 + 250 * n).join("\n"))));
    assert_eq!((of_pair(&world), world.edge().flows().unwrap().len()), ([1000, 1000], 1000));
}

#[test]
fn a_segment_that_goes_through_the_cutter_counts_once() {
    let Some(world) = world("cu", 1, |_| {}) else { return };
    let config = world.edge().config().unwrap();
    world.edge().set_config(&kernel::state::Config { cutter: 1, ..config }).unwrap();
    run(&world, DATAGRAM);
    assert_eq!(of_pair(&world), [1, 1]);
    // The kernel does not encapsulate segments of UDP, and the first of a flow is found to be one late.
    let segment = "egress udp4 to=two ports=1001>80 payload=3000 => forward";
    assert!(send_whole(&world, segment, 1000));
    assert_eq!((count(&world, Counter::Cut), of_pair(&world)), (1, [1, 1]), "three packets, which will come back");
    assert!(send_whole(&world, segment, 1000));
    assert_eq!((count(&world, Counter::Cut), of_pair(&world)), (2, [1, 1]));
    assert_eq!(share(&world).segments, 3, "held when it came from the guest");
}

#[test]
fn rates_are_set_of_those_that_send() {
    let Some(world) = world("ac", 1, |_| {}) else { return };
    let active = || world.edge().sharing().unwrap().active.concat();
    let expected = |bits: u64| [vec![bits], vec![0; 63]].concat();
    assert_eq!(active(), expected(0));
    run(&world, DATAGRAM);
    assert_eq!(active(), expected(1 << (NUMBER - 1)));
    world.set_time(Time::from_secs(2));
    world.edge().set_rates().unwrap();
    assert_eq!((active(), share(&world).bucket.active), (expected(0), 0));
    run(&world, DATAGRAM);
    assert_eq!((active(), share(&world).bucket.active), (expected(1 << (NUMBER - 1)), 1));
}

#[test]
fn new_pairs_with_a_destination_that_is_marked_too_often_are_refused_until_it_is_well() {
    let admission = |c: &mut Config| {
        (c.law, c.gain, c.admission, c.depth) = (Law::Alpha, 0, Some((0.5, 0.25)), Bytes(1 << 20));
    };
    let Some(world) = world("ad", 1, admission) else { return };
    run(&world, "ingress udp4 from=two of=two ports=80>1000 speaks2 version=1 => forward");
    run(&world, &[DATAGRAM; 10].join("\n"));
    for told in [7, 15] {
        run(&world, &format!("ingress udp4 from=two of=two ports=80>1000 version=2 feedback=3:0:{told} => forward"));
    }
    assert_eq!(share(&world).marks, 8);
    let other = "egress udp4 of=neighbour to=two ports=7>80 => forward";
    let elsewhere = "egress udp4 of=neighbour ports=7>80 => forward";
    let sent = |us: u64, line: &str| {
        world.set_time(Time::from_secs(1) + Time::from_us(us));
        run(&world, line)[0].0 != TC_ACT_SHOT
    };
    // The interval in which eight of ten were marked is over: others are refused, and nothing is left of them.
    let pairs = world.edge().pairs().unwrap().len();
    assert!(!sent(500, other) && !sent(500, other));
    assert_eq!((count(&world, Counter::Refused), share(&world).refused), (2, 2));
    assert_eq!((world.edge().pairs().unwrap().len(), count(&world, Counter::DropOverRate)), (pairs, 0));
    assert!(sent(500, elsewhere), "another destination is well");
    // Intervals without a packet are free of marks.
    assert!(sent(1500, other));
    assert_eq!(share(&world).refused, 2);
}
