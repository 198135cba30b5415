//! Hostile guests, peers and networks against the loaded program. `SELVEDGE_FRAMES` says how many damaged frames are run;
//! `make fuzz` runs ten million.
#![cfg(feature = "libbpf")]

mod fabric;
mod packet;
mod world;

use conformance::{Config, Congestion, Frames, Script, GUEST, LABELS, PEERS, SCRIPTS};
use edge::balance::Scheme;
use edge::vcc::Law;
use edge::{Balance, Direction};
use fabric::in_namespace;
use fuzz_drivers::Mutator;
use kernel::state::Counter;
use kernel::{Role, Segment};
use packet::PacketSocket;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use units::{Bytes, Time};
use wire::{emit, encap, proto, tcp, Packet, TcpOptions};
use world::{counters_differ, difference, kernel_config, runnable, World};

const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;
/// So many damaged frames meet one flow table, which they do not fill.
const ROUND: usize = 25_000;

fn config() -> Config {
    Config { balance: Balance::flowcell(Bytes::kib(4)), max_flows: 1 << 17, ..Config::default() }
}

/// All schemes that the kernel edge has in turn; as an agent configures guests' ports, every other time.
fn config_of(round: usize) -> Config {
    let schemes: Vec<_> = Scheme::of_kernel().collect();
    let scheme = schemes[round / 2 % schemes.len()];
    // So that cells of all kinds end often.
    let balance = Balance::new(scheme, |parameter| Some(parameter.nearest(4096)));
    let config = Config { balance, tcp_only: round % 4 == 3, ..config() };
    match round % 2 {
        0 => config,
        _ => Config {
            mtu: 1400,
            strict: round % 4 == 3,
            answers: true,
            any_peer: true,
            congestion: Some(Congestion { law: Law::Dctcp, clamp: Some(Bytes::kib(30)) }),
            ..config
        },
    }
}

fn corpus() -> (Vec<Vec<u8>>, Vec<Direction>) {
    let scripts = SCRIPTS.iter().map(|(name, text)| Script::parse(name, text).unwrap());
    scripts.flat_map(|script| script.cases).map(|case| (case.frame, case.direction)).unzip()
}

/// What the kernel logs from now on; nothing where its log cannot be read.
struct KernelLog(Option<std::fs::File>);

impl KernelLog {
    fn open() -> KernelLog {
        let options = std::fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg");
        KernelLog(options.ok().filter(|mut log| log.seek(SeekFrom::End(0)).is_ok()))
    }

    /// Warnings and worse since it was opened.
    fn warnings(mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut record = [0; 8192];
        let Some(log) = &mut self.0 else { return found };
        // One record a read; EPIPE tells that some were overwritten meanwhile.
        loop {
            match log.read(&mut record) {
                Ok(n) => found.push(String::from_utf8_lossy(&record[..n]).into_owned()),
                Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        found.retain(|text| ["WARNING:", "BUG:", "Oops", "bad offload"].iter().any(|bad| text.contains(bad)));
        found
    }
}

#[test]
fn damaged_frames_get_what_the_native_edge_gives_them() {
    let frames: usize = std::env::var("SELVEDGE_FRAMES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2 * ROUND * Scheme::of_kernel().count());
    let log = KernelLog::open();
    let (corpus, directions) = corpus();
    let mut mutator = Mutator::new(2, corpus);
    for round in 0..frames.div_ceil(ROUND) {
        let config = config_of(round);
        let Some(world) = World::new(&format!("m{}", round % 10), &config) else { return };
        in_namespace(&world.fabric.host(0), || {
            let mut native = Frames::new(&config);
            let mut now = Time::ZERO; // as far as the kernel's clock is known
            for i in 0..ROUND {
                let (frame, from) = mutator.frame();
                if !runnable(&frame) || frame.len() > 3000 {
                    continue;
                }
                let direction = from.map_or([Direction::Egress, Direction::Ingress][i % 2], |from| directions[from]);
                let (action, out) = world.run(direction, &frame);
                let slot = native.flow_key(direction, &frame).and_then(|key| world.flow(key));
                now = now.max(Time::from_ns(slot.map_or(0, |slot| slot.flow.last_seen)));
                let outcome = native.run(now, direction, &frame, 0);
                if let Some(what) = difference(&outcome, action, &out) {
                    panic!("round {round}, frame {i}, {direction:?} {frame:02x?}\n{what}");
                }
            }
            // Without labels, the native edge remembers no flows that it could count.
            let flows = config.balance.scheme().labels;
            assert_eq!(counters_differ(native.counts(), &world.counters(), flows), None);
            let counters = world.counters();
            for counter in [Counter::OutSegments, Counter::InSegments, Counter::Passed, Counter::InNoGuest] {
                assert!(counters.get(counter) > ROUND as u64 / 100, "{counter:?} of {counters:?}");
            }
        });
    }
    assert_eq!(log.warnings(), [""; 0]);
}

fn segment(saddr: [u32; 4], sport: u16, flags: u8, payload: u32) -> Vec<u8> {
    let packet = Packet {
        saddr,
        daddr: PEERS[0].guest.v4,
        sport,
        dport: 80,
        tcp_flags: flags,
        payload,
        proto: proto::TCP,
        family: 4,
        ..Packet::default()
    };
    emit(&packet, &TcpOptions::default()).unwrap()
}

/// Label and cell of what left, which must hold the whole frame.
fn sent(world: &World, frame: &[u8]) -> (u16, Option<u8>) {
    let (action, out) = world.run(Direction::Egress, frame);
    assert_eq!(action, TC_ACT_REDIRECT);
    let outer = encap::read_outer(&out, conformance::PORT).unwrap();
    assert_eq!(&out[usize::from(outer.add_len)..], frame, "passes unmodified");
    (outer.sport, (outer.encap.has_cell == 1).then_some(outer.encap.cell))
}

#[test]
fn a_flood_of_syns_costs_new_flows_their_cells_and_old_ones_nothing() {
    const FLOWS: usize = 1024;
    const FLOOD: u32 = 100_000;
    let config = Config { max_flows: FLOWS, ..config() };
    let Some(world) = World::new("s", &config) else { return };
    in_namespace(&world.fabric.host(0), || {
        let (first, cell) = sent(&world, &segment(GUEST.v4, 40_000, tcp::SYN, 0));
        assert_eq!(cell, Some(0));
        let data = segment(GUEST.v4, 40_000, tcp::ACK, 1400);
        let start = LABELS.iter().position(|label| *label == first).unwrap();
        for i in 0..FLOOD {
            // Spoofed sources: what is no address of the guest's is no reason for the edge to remember less.
            let frame = segment(wire::v4([10, 7, (i >> 16) as u8 + 1, 1]), i as u16, tcp::SYN, 0);
            let (label, cell) = sent(&world, &frame);
            assert!(LABELS.contains(&label));
            assert_eq!(cell.is_none(), i as usize + 1 >= FLOWS, "{i} others before");
            if i % 1000 == 999 {
                // Two segments of 1400 fill a cell of 4096.
                let n = (i / 1000) as usize;
                let expected = (LABELS[(start + n / 2) % LABELS.len()], Some((n / 2) as u8));
                assert_eq!(sent(&world, &data), expected, "the old flow after {n} segments");
            }
        }
        let refused = u64::from(FLOOD) + 1 - FLOWS as u64;
        assert_eq!(world.counters().get(Counter::FlowTableFull), refused);
        assert_eq!(world.edge().flows().unwrap().len(), FLOWS);
        let events = world.edge().poll_events(std::time::Duration::from_millis(10)).unwrap();
        let told = events.iter().filter(|event| event.kind == kernel::state::EVENT_TABLE_FULL).count();
        assert!((1..1000).contains(&told), "{told} events: told, and not of each");

        // The sweep takes what is idle and leaves what is not.
        std::thread::sleep(std::time::Duration::from_millis(60));
        sent(&world, &data);
        let old = world.edge().flows().unwrap().into_iter().max_by_key(|(_, slot)| slot.flow.last_seen).unwrap();
        assert_eq!(old.0.key.sport, 40_000);
        let kernel = kernel::state::Config { idle_ns: 50_000_000, ..kernel_config(&config) };
        world.edge().set_config(&kernel).unwrap();
        let swept = world.edge().sweep(old.1.flow.last_seen + 1).unwrap();
        assert_eq!((swept.kept, swept.expired), (1, FLOWS - 1));
        world.edge().set_config(&kernel_config(&config)).unwrap();
        let (_, cell) = sent(&world, &segment(GUEST.v4, 41_000, tcp::SYN, 0));
        assert_eq!(cell, Some(0), "there is room again");
        assert_eq!(world.counters().get(Counter::FlowTableFull), refused);
    });
}

/// Frames from the fabric that carry every kind of feedback about every path, and any cell.
fn forged(host: &str) -> Vec<Vec<u8>> {
    let lines = (0..2000).map(|i| {
        let (kind, path, value, cell) = (1 + i % 3, i % 256, i / 7 % 256, i * 37 % 256);
        let feedback = format!("feedback={kind}:{path}:{value}");
        format!("ingress tcp4 ports=80>40000 flags=A from={host} cell={cell} {feedback} => drop-stranger\n")
    });
    let script = Script::parse("forged", &lines.collect::<String>()).unwrap();
    script.cases.into_iter().map(|case| case.frame).collect()
}

#[test]
fn forged_feedback_is_counted_and_changes_nothing() {
    let Some(world) = World::new("f", &config()) else { return };
    let data = segment(GUEST.v4, 40_000, tcp::ACK, 1400);
    in_namespace(&world.fabric.host(0), || {
        let run = |frames: &[Vec<u8>]| -> Vec<u32> {
            frames.iter().map(|frame| world.run(Direction::Ingress, frame).0).collect()
        };
        let (first, _) = sent(&world, &data);
        let key = world.edge().flows().unwrap()[0].0.key;
        let before = world.flow(key).unwrap();

        // A stranger's is not even delivered: no flow hears of it.
        assert!(run(&forged("stranger")).iter().all(|action| *action == TC_ACT_SHOT));
        let counters = world.counters();
        assert_eq!(counters.get(Counter::UnknownPeer), 2000);
        assert_eq!(counters.get(Counter::FeedbackIgnored), 1334, "kind 3 is none");
        assert_eq!((counters.get(Counter::Feedback), counters.get(Counter::InSegments)), (0, 0));
        assert_eq!(world.flow(key).unwrap(), before);

        // Where strangers' packets are to be delivered, their metadata still means nothing.
        let any = kernel::state::Config { flags: kernel::state::CONFIG_ANY_PEER, ..kernel_config(&config()) };
        world.edge().set_config(&any).unwrap();
        assert!(run(&forged("stranger")).iter().all(|action| *action == TC_ACT_REDIRECT));
        world.edge().set_config(&kernel_config(&config())).unwrap();
        let after = world.flow(key).unwrap();
        assert_eq!((after.flow.in_cell, after.flow.has_in_cell, after.in_segments), (0, 0, 2000));
        assert_eq!(world.counters().get(Counter::Feedback), 0);

        // A peer's is counted; what the guest sends goes on as if there had been none.
        assert!(run(&forged("peer")).iter().all(|action| *action == TC_ACT_REDIRECT));
        assert_eq!(world.counters().get(Counter::Feedback), 1334);
        let after = world.flow(key).unwrap();
        assert_eq!((after.balance, after.out_segments), (before.balance, before.out_segments));
        let start = LABELS.iter().position(|label| *label == first).unwrap();
        for n in 1..40 {
            let expected = (LABELS[(start + n / 2) % LABELS.len()], Some((n / 2) as u8));
            assert_eq!(sent(&world, &data), expected);
        }
        assert_eq!(world.edge().flows().unwrap().len(), 1);
    });
}

#[test]
fn what_a_test_run_claims_of_offload_is_refused_or_obeyed() {
    let Some(world) = World::new("g", &config()) else { return };
    let log = KernelLog::open();
    let frame = segment(GUEST.v4, 40_000, tcp::ACK, 2800);
    in_namespace(&world.fabric.host(0), || {
        for (gso_size, gso_segs) in [(1400, 2), (1, 2800), (65_535, 1), (1400, 65_535), (0, 7), (3000, 2)] {
            let segment = Segment { ifindex: world.port, gso_size, gso_segs, ..Segment::default() };
            let before = world.counters().get(Counter::DropError);
            // An error: the kernel takes no such claim from anybody.
            let Ok((action, out)) = world.edge().test_run_segment(Role::Guest, &frame, segment) else { continue };
            match action {
                TC_ACT_REDIRECT => assert_eq!(out[50..], frame, "{segment:?}"),
                TC_ACT_SHOT => assert_eq!(world.counters().get(Counter::DropError), before + 1, "{segment:?}"),
                other => panic!("{segment:?}: action {other}"),
            }
        }
    });
    assert_eq!(log.warnings(), [""; 0]);
}

#[test]
fn a_guest_that_lies_about_offload_harms_nobody() {
    let Some(world) = World::new("l", &config()) else { return };
    world.attach();
    let log = KernelLog::open();
    let guest = in_namespace(&world.fabric.guest(0), || PacketSocket::open(kernel::ifindex("eth0").unwrap()));
    let guest = guest.unwrap();
    let fabric = in_namespace(&world.fabric.host(1), || PacketSocket::open(kernel::ifindex("u0").unwrap()));
    let fabric = fabric.unwrap();
    let (corpus, directions) = corpus();
    let own = corpus.into_iter().zip(directions).filter(|(_, direction)| *direction == Direction::Egress);
    let mut mutator = Mutator::new(3, own.map(|(frame, _)| frame).collect());
    let mut taken = 0;
    for i in 0..20_000u32 {
        let (frame, _) = mutator.frame();
        if frame.len() < 40 {
            continue;
        }
        let claim = [(34, 20, 1400), (54, 20, 1), (34, 20, 8), (34, 60, 100), (i as u16 % 100 + 20, 20, 65_535)];
        // The kernel refuses what it sees to be wrong.
        taken += u32::from(guest.send(&frame, Some(claim[i as usize % claim.len()])).is_ok());
    }
    assert!(taken > 500, "{taken} lies were believed");
    // Everything still works, once what the lies left in the queue is gone.
    while fabric.receive().is_some() {}
    let frame = segment(GUEST.v4, 40_000, tcp::SYN, 0);
    guest.send(&frame, None).unwrap();
    let arrived = std::iter::from_fn(|| fabric.receive()).take(1000).any(|(out, _)| out.ends_with(&frame));
    assert!(arrived, "{:?}", world.counters());
    assert_eq!(log.warnings(), [""; 0]);
}
