//! The packet scripts through the loaded program: it must do what the scripts say, and leave the very bytes that the
//! native edge leaves.
#![cfg(feature = "libbpf")]

mod fabric;
mod packet;
mod world;

use conformance::{Case, Config, Frames, Script, Structs, Verdict, SCRIPTS};
use edge::Direction;
use fabric::in_namespace;
use kernel::state::Counter;
use packet::PacketSocket;
use units::Time;
use world::{counters_differ, difference, place, runnable, World};

/// All but those of schemes that the kernel edge does not have.
fn scripts() -> impl Iterator<Item = (&'static str, Script)> {
    let parse = |(name, text): &(&'static str, &str)| {
        (*name, Script::parse(name, text).unwrap_or_else(|error| panic!("{error}")))
    };
    SCRIPTS.iter().map(parse).filter(|(_, script)| script.config.balance.scheme().is_of_kernel())
}

#[test]
fn the_kernel_does_what_the_scripts_say() {
    for (i, (name, script)) in scripts().enumerate() {
        let Some(world) = World::with_clock(&format!("k{i}"), &script.config) else { return };
        let wrong = in_namespace(&world.fabric.host(0), || run(name, &script, &world));
        assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    }
}

fn run(name: &str, script: &Script, world: &World) -> Vec<String> {
    let tracks = script.config.balance.scheme().labels;
    let (mut structs, mut frames) = (Structs::new(&script.config), Frames::new(&script.config));
    let mut wrong = Vec::new();
    for case in script.cases.iter().filter(|case| runnable(&case.frame) && case.segment_size == 0) {
        let mut differs = |what| wrong.push(format!("{}\n    {what}", place(name, case)));
        world.set_time(case.at);
        let (action, frame) = world.run(case.direction, &case.frame);
        let slot = frames.flow_key(case.direction, &case.frame).and_then(|key| world.flow(key));
        let native = frames.run(case.at, case.direction, &case.frame, 0);
        structs.run(case.at, case);
        difference(&native, action, &frame).into_iter().for_each(&mut differs);
        counters_differ(frames.counts(), &world.counters(), tracks).into_iter().for_each(&mut differs);
        let (Some(slot), Verdict::Forward, true) = (slot, native.verdict, tracks) else { continue };
        let (cell, label) = (case.expected.cell, case.expected.label);
        let as_expected = match case.direction {
            Direction::Egress if cell.is_none() => slot.balance.started == 0,
            Direction::Egress => (cell, label) == (Some(slot.balance.cell), Some(slot.balance.label)),
            Direction::Ingress => case.expected.late || cell.is_none_or(|cell| slot.flow.in_cell == cell),
        };
        if !as_expected {
            differs(format!("kernel: {slot:?}"));
        }
    }
    wrong
}

/// Cases that BPF_PROG_TEST_RUN has no way to express, over real interfaces instead.
fn beyond_test_run(wanted: impl Fn(&Case) -> bool) -> Vec<Case> {
    scripts().flat_map(|(_, script)| script.cases).filter(wanted).collect()
}

#[test]
fn segments_that_offload_left_whole_keep_their_size_and_get_one_label() {
    let cases = scripts().find(|(name, _)| *name == "flowcells.txt").unwrap().1.cases.into_iter();
    let cases: Vec<Case> = cases.filter(|case| case.segment_size != 0 && case.direction == Direction::Egress).collect();
    assert!(cases.len() >= 4);
    let config = Config { balance: edge::Balance::flowcell(units::Bytes::kib(4)), ..Config::default() };
    let Some(world) = World::new("n", &config) else { return };
    world.attach();
    let sender = in_namespace(&world.fabric.guest(0), || open("eth0"));
    let receiver = in_namespace(&world.fabric.host(1), || open("u0"));
    let mut frames = Frames::new(&config);
    for case in cases {
        let native = frames.run(Time::ZERO, case.direction, &case.frame, case.segment_size);
        let ip_end = 14 + u16::from(case.packet.ip_header_len);
        let segment = (ip_end, u16::from(case.packet.l4_header_len), case.segment_size);
        sender.send(&case.frame, Some(segment)).unwrap();
        // The kernel fills in the outer Ethernet addresses, and asks for them first.
        let found = (0..20).filter_map(|_| receiver.receive()).find(|(frame, _)| frame.len() == native.frame.len());
        let (frame, size) = found.unwrap_or_else(|| panic!("nothing came: {}", case.text));
        assert_eq!(frame[12..], native.frame[12..], "{}", case.text);
        assert_eq!(size, case.segment_size, "{}", case.text);
        assert_eq!(native.packet.map(|packet| packet.label), case.expected.label, "{}", case.text);
    }
    assert_eq!(world.counters().get(Counter::DropError), 0);
}

#[test]
fn frames_too_short_for_test_run_pass() {
    // What no Ethernet device carries cannot be sent.
    // On a strict port they are dropped, as the scripts say of all that are runnable.
    let short = |case: &Case| !runnable(&case.frame) && case.frame.len() >= 14;
    let cases = beyond_test_run(|case| short(case) && case.expected.verdict == Verdict::Pass);
    let Some(world) = World::new("o", &Config::default()) else { return };
    world.attach();
    let from_guest = in_namespace(&world.fabric.guest(0), || open("eth0"));
    let from_fabric = in_namespace(&world.fabric.host(1), || open("u0"));
    let mut passed = 0;
    for case in &cases {
        let egress = case.direction == Direction::Egress;
        passed += u64::from(egress);
        let socket = if egress { &from_guest } else { &from_fabric };
        socket.send(&case.frame, None).unwrap_or_else(|error| panic!("{error}: {}", case.text));
    }
    assert!(passed > 100 && passed < cases.len() as u64);
    // Delivery is asynchronous; the guest's stack sends a little of its own, which passes too.
    for _ in 0..100 {
        if world.counters().get(Counter::Passed) >= passed {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let counters = world.counters();
    assert!(counters.get(Counter::Passed) >= passed, "{passed} were sent: {counters:?}");
    for counter in [Counter::OutSegments, Counter::InSegments, Counter::InNoGuest, Counter::DropError] {
        assert_eq!(counters.get(counter), 0, "{counter:?}");
    }
}

fn open(name: &str) -> PacketSocket {
    PacketSocket::open(kernel::ifindex(name).unwrap()).unwrap()
}
