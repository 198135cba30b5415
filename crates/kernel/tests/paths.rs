//! States of paths in the loaded program: what a peer says moves weights towards that peer alone, and what is known goes where its path
//! goes. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;
mod world;

use conformance::{Script, PEERS, PORT};
use edge::{Direction, PathState};
use fabric::in_namespace;
use kernel::state::{Counter, PeerPaths};
use kernel::{PathPlace, Role, Segment};
use std::collections::{BTreeMap, BTreeSet};
use units::Time;
use wire::encap::read_outer;
use world::World;

const TC_ACT_SHOT: u32 = 2;
const CONFIG: &str = "config balance=clove,flowlet_gap=1ms,clove_relay=100us,clove_clear=5ms";

fn id(name: &str) -> u32 {
    1 + PEERS.iter().position(|peer| peer.name == name).unwrap() as u32
}

fn known(world: &World, name: &str) -> PeerPaths {
    world.edge().known_paths(id(name)).unwrap().unwrap()
}

fn weights(world: &World, name: &str) -> Vec<u32> {
    known(world, name).paths[..4].iter().map(|path| path.weight).collect()
}

/// Runs the lines of a script, whose verdicts must be right.
fn run(world: &World, lines: &str) {
    let script = Script::parse("lines", &format!("{CONFIG}\n{lines}")).unwrap_or_else(|error| panic!("{error}"));
    in_namespace(&world.fabric.host(0), || {
        for case in &script.cases {
            let (action, _) = world.run(case.direction, &case.frame);
            assert_eq!(action, case.expected.verdict.action(), "{}", case.text);
        }
    });
}

fn world(name: &str, clock: bool) -> Option<World> {
    let config = Script::parse("lines", CONFIG).unwrap().config;
    let world = if clock { World::with_clock(name, &config) } else { World::new(name, &config) }?;
    if clock {
        world.set_time(Time::from_ms(1));
    }
    run(
        &world,
        "ingress tcp4 from=two of=two ports=80>1000 flags=S speaks2 version=1 => forward label=50001\n\
         egress tcp4 to=two ports=1000>80 flags=SA => forward label=50001 cell=0 two=2\n\
         egress tcp4 ports=1000>80 flags=S => forward label=50001 cell=0",
    );
    Some(world)
}

#[test]
fn forged_feedback_of_one_peer_moves_nothing_towards_another() {
    let Some(world) = world("pa", true) else { return };
    let even = vec![16_384; 4];
    assert_eq!((weights(&world, "two"), weights(&world, "peer")), (even.clone(), even.clone()));
    let before = known(&world, "two");
    // A host that is no peer, and a peer that speaks for the guest of another.
    let feedback = "ports=80>1000 flags=A feedback=1:81:0";
    run(&world, &format!("ingress tcp4 from=stranger {feedback} => drop-stranger"));
    run(&world, &format!("ingress tcp4 from=peer of=two {feedback} => drop-forged"));
    assert_eq!(known(&world, "two"), before);
    // A peer says all that can be said, of all paths, again and again.
    for round in 0..20 {
        world.set_time(Time::from_ms(2 + round));
        for kind in [1, 2] {
            for path in (0..=255).step_by(3).chain(81..=84) {
                run(
                    &world,
                    &format!("ingress tcp4 ports=80>1000 flags=A feedback={kind}:{path}:{path} => forward label=50001"),
                );
            }
        }
        let (moved, at) = (weights(&world, "peer"), known(&world, "peer"));
        assert_eq!(moved.iter().sum::<u32>(), 65_536, "{moved:?}");
        assert!(moved.iter().all(|weight| *weight >= 655), "{moved:?}");
        assert!(at.paths[4..].iter().all(|path| *path == PathState::default()), "no path is there");
    }
    assert!(known(&world, "peer").paths[0].marks >= 20);
    assert_eq!(known(&world, "two"), before, "no other peer's paths");
    // What is said of the other peer's paths by that peer counts.
    run(&world, &format!("ingress tcp4 from=two of=two version=2 {feedback} => forward label=50001"));
    assert!(weights(&world, "two")[0] < even[0]);
}

#[test]
fn what_is_known_goes_where_its_path_goes() {
    let Some(world) = world("pb", false) else { return };
    let (edge, two) = (world.edge(), id("two"));
    let feedback = "ports=80>1000 flags=A version=2 feedback=1:82:0";
    run(&world, &format!("ingress tcp4 from=two of=two {feedback} => forward label=50001"));
    let old = known(&world, "two").paths;
    assert_eq!(old[1].marks, 1);
    let quiet = Some(Time::from_ms(1));
    let places = [
        PathPlace { was: Some(1), quiet },
        PathPlace { was: None, quiet: None },
        PathPlace { was: Some(0), quiet: None },
    ];
    // In between, nothing is known of the schedule in force, and nothing that is said moves what is known of the other one.
    let peer = edge.peer(two).unwrap().unwrap();
    let other = peer.with_labels(&[50_002, 50_099, 50_001, 50_098]);
    assert_ne!(other.schedule, peer.schedule);
    edge.rearrange_paths(two, (peer.schedule, other.schedule), &places).unwrap();
    let between = known(&world, "two");
    run(&world, &format!("ingress tcp4 from=two of=two {feedback} => forward label=50001"));
    run(&world, "egress tcp4 to=two ports=1003>80 flags=S => forward label=50001 cell=0");
    assert_eq!(known(&world, "two"), between);
    edge.set_peer(two, &other).unwrap();
    let new = known(&world, "two").paths;
    assert_eq!(new[0], PathState { bound: new[0].bound, quiet: new[0].quiet, ..old[1] });
    assert!((1954..=1956).contains(&new[0].quiet), "two round trips in ticks: {}", new[0].quiet);
    assert_eq!((new[1], new[2], new[3]), (PathState::default(), old[0], PathState::default()));
    // Shares are right again with the next flowlet.
    run(&world, "egress tcp4 to=two ports=1001>80 flags=S => forward label=50001 cell=0");
    let after = weights(&world, "two");
    assert!(after.iter().sum::<u32>() == 65_536 && after.iter().all(|weight| *weight >= 655), "{after:?}");
    // Rows of whom nothing is to be known go, and come back empty.
    edge.forget_other_paths(&BTreeSet::new()).unwrap();
    assert_eq!(edge.known_paths(two).unwrap(), None);
    run(&world, &format!("ingress tcp4 from=two of=two {feedback} => forward label=50001"));
    run(&world, "egress tcp4 to=two ports=1002>80 flags=S => forward label=50001 cell=0");
    edge.keep_paths(&BTreeMap::from([(two, other.schedule)])).unwrap();
    assert_eq!(known(&world, "two"), PeerPaths { schedule: other.schedule, ..PeerPaths::default() });
    // What is there of another schedule is no more to be told from it.
    run(&world, &format!("ingress tcp4 from=two of=two {feedback} => forward label=50001"));
    assert_eq!(known(&world, "two").paths[0].marks, 1);
    edge.rearrange_paths(two, (peer.schedule, other.schedule), &[PathPlace { was: Some(0), quiet: None }]).unwrap();
    assert_eq!(known(&world, "two"), PeerPaths { schedule: other.schedule, ..PeerPaths::default() });
    assert_eq!(world.counters().get(Counter::DropError), 0);
}

/// The only frame of a script.
fn frame(line: &str) -> Vec<u8> {
    Script::parse("line", &format!("{CONFIG}\n{line}")).unwrap().cases.remove(0).frame
}

#[test]
fn no_flowlet_takes_a_path_that_is_gone_and_the_rest_share_what_it_had() {
    let Some(world) = world("pg", true) else { return };
    let (edge, two) = (world.edge(), id("two"));
    let peer = edge.peer(two).unwrap().unwrap();
    let left = peer.with_labels(&[50_001, 50_002, 50_004]);
    let stays = |was| PathPlace { was: Some(was), quiet: None };
    edge.rearrange_paths(two, (peer.schedule, left.schedule), &[stays(0), stays(1), stays(3)]).unwrap();
    edge.set_peer(two, &left).unwrap();
    let data = frame("egress tcp4 to=two ports=1000>80 flags=A payload=1400 => forward label=50001");
    let mut taken = BTreeMap::new();
    in_namespace(&world.fabric.host(0), || {
        for flowlet in 0..30 {
            world.set_time(Time::from_ms(10 + 2 * flowlet));
            let (_, out) = world.run(Direction::Egress, &data);
            *taken.entry(read_outer(&out, PORT).unwrap().sport).or_insert(0) += 1;
        }
    });
    assert_eq!(taken, BTreeMap::from([(50_001, 10), (50_002, 10), (50_004, 10)]));
    let weights: Vec<u32> = known(&world, "two").paths[..4].iter().map(|path| path.weight).collect();
    assert_eq!((weights.iter().sum::<u32>(), weights[3]), (65_536, 0), "{weights:?}");
}

#[test]
fn what_a_segment_was_to_tell_is_told_by_the_next_if_it_does_not_leave() {
    let Some(world) = world("pc", false) else { return };
    run(
        &world,
        "ingress tcp4 from=two of=two ports=80>1000 flags=A version=2 label=50003 oecn=3 => forward label=50003",
    );
    // A segment of which nobody can know how to cut it: it has been through all stages when that shows.
    let data = frame("egress tcp4 to=two ports=1000>80 flags=A payload=2800 => forward label=50001");
    let whole = Segment { ifindex: world.port, gso_size: 1400, gso_segs: 2, ..Segment::default() };
    let feedback = |frame: &[u8]| {
        let said = read_outer(frame, PORT).unwrap().encap;
        (said.feedback, said.path)
    };
    in_namespace(&world.fabric.host(0), || {
        let (verdict, _) = world.edge().test_run_segment(Role::Guest, &data, whole).unwrap();
        assert_eq!((verdict, world.counters().get(Counter::FeedbackSent)), (TC_ACT_SHOT, 0));
        let next = |n| {
            let (_, out) = world.run(Direction::Egress, &data);
            assert_eq!(world.counters().get(Counter::FeedbackSent), n);
            feedback(&out)
        };
        assert_eq!([next(1), next(1)], [(1, 83), (0, 0)]);
    });
}
