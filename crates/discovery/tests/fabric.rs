//! Discovery over a modelled leaf-spine fabric: two spines, two links to each, that hash source ports.

use discovery::{index_of, Binding, Config, Discovery, Probe, Progress};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::Time;

const RTT: Time = Time::from_us(200);

/// What becomes of probes.
struct Fabric {
    /// Uplinks of the first leaf that are up, of four.
    up: BTreeSet<u8>,
    /// So many links lead to one spine.
    per_spine: u8,
    /// The hop that tells nobody that a TTL ran out; 0: none.
    silent: u8,
    /// Every so many answers are lost; 0: none.
    lose: u64,
    salt: u64,
    answers: u64,
    sent: u64,
}

impl Fabric {
    fn new() -> Fabric {
        Fabric { up: (0..4).collect(), per_spine: 1, silent: 0, lose: 0, salt: 1, answers: 0, sent: 0 }
    }

    fn path(&self, port: u16) -> Vec<IpAddr> {
        let hash = (u64::from(port) ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let Some(link) = self.up.iter().nth(hash as usize % self.up.len().max(1)) else { return Vec::new() };
        vec![
            IpAddr::from([10, 0, 0, 1]),
            IpAddr::from([10, 1, 0, *link / self.per_spine]),
            IpAddr::from([10, 2, 0, *link]),
        ]
    }

    /// Runs until `end`; what changes the fabric in between is the caller's.
    fn run(&mut self, discovery: &mut Discovery, now: &mut Time, end: Time) {
        let mut under_way: BTreeMap<(Time, u64), (Probe, Option<IpAddr>)> = BTreeMap::new();
        while *now < end {
            while let Some(probe) = discovery.poll_transmit(*now) {
                self.sent += 1;
                let path = self.path(probe.port);
                if path.is_empty() || (probe.ttl == self.silent && usize::from(probe.ttl) <= path.len()) {
                    continue;
                }
                self.answers += 1;
                if self.lose > 0 && self.answers % self.lose == 0 {
                    continue;
                }
                let hop = path.get(usize::from(probe.ttl) - 1).copied();
                under_way.insert((*now + RTT, self.answers), (probe, hop));
            }
            let next = under_way.keys().next().map(|(at, _)| *at);
            *now = next.into_iter().chain(discovery.poll_timeout(*now)).min().unwrap_or(end).min(end).max(*now);
            while let Some(entry) = under_way.first_entry().filter(|entry| entry.key().0 <= *now) {
                match entry.remove() {
                    (probe, Some(hop)) => discovery.time_exceeded(*now, probe, hop),
                    (probe, None) => discovery.answered(*now, probe),
                }
            }
            discovery.handle_timeout(*now);
        }
    }
}

fn destination() -> IpAddr {
    IpAddr::from([10, 9, 0, 1])
}

/// There is traffic for one destination.
fn begun(config: Config) -> (Fabric, Discovery, Time) {
    let mut discovery = Discovery::new(config, 7);
    assert!(discovery.want(Time::ZERO, destination()));
    (Fabric::new(), discovery, Time::ZERO)
}

fn links(paths: &[Binding]) -> BTreeSet<IpAddr> {
    paths.iter().map(|binding| binding.hops[1]).collect()
}

/// What must hold of any list of paths.
fn check(paths: &[Binding], most: usize) {
    let indices: BTreeSet<u8> = paths.iter().map(|binding| binding.index).collect();
    let hops: BTreeSet<&[IpAddr]> = paths.iter().map(|binding| binding.hops.as_slice()).collect();
    assert!(paths.len() <= most && indices.len() == paths.len() && hops.len() == paths.len(), "{paths:?}");
    assert!(paths.iter().all(|binding| index_of(binding.port) == Some(binding.index)), "{paths:?}");
}

#[test]
fn one_round_finds_all_disjoint_paths() {
    let (mut fabric, mut now) = (Fabric::new(), Time::ZERO);
    let mut discovery = Discovery::new(Config::default(), 7);
    assert!(discovery.want(now, destination()));
    fabric.run(&mut discovery, &mut now, Time::from_ms(490));
    let paths = discovery.paths(destination());
    check(paths, 8);
    assert_eq!((paths.len(), links(paths).len()), (4, 4));
    assert!(paths.iter().all(|binding| fabric.path(binding.port) == binding.hops && binding.rtt == Some(RTT)));
    assert_eq!(fabric.sent, 64 * 4, "64 ports, three hops and the destination");
    assert_eq!(discovery.progress(destination()), Some(Progress { rounds: 1, traced: 64, complete: 64 }));
    assert_eq!(discovery.totals(), (1, 4));
    let (_, change) = discovery.poll_change().unwrap();
    assert_eq!((change.new.len(), change.gone.len(), change.moved.len()), (4, 0, 0));
    assert_eq!(discovery.poll_change(), None);
}

#[test]
fn a_check_costs_only_the_ports_in_use_and_some_others() {
    let (mut fabric, mut discovery, mut now) = begun(Config::default());
    fabric.run(&mut discovery, &mut now, Time::from_ms(500));
    let before = fabric.sent;
    fabric.run(&mut discovery, &mut now, Time::from_ms(1020));
    assert_eq!(fabric.sent - before, (4 + 4) * 4);
}

#[test]
fn a_failed_link_is_gone_within_two_periods_and_what_is_left_stays_itself() {
    let (mut fabric, mut discovery, mut now) = begun(Config::default());
    fabric.run(&mut discovery, &mut now, Time::from_secs(3));
    discovery.poll_change();
    let before = discovery.paths(destination()).to_vec();
    fabric.up.remove(&2);
    fabric.run(&mut discovery, &mut now, Time::from_secs(4));
    let after = discovery.paths(destination()).to_vec();
    check(&after, 8);
    assert_eq!(links(&after).len(), 3);
    assert!(after.iter().all(|binding| fabric.path(binding.port) == binding.hops), "{after:?}");
    let (_, change) = discovery.poll_change().unwrap();
    assert_eq!((change.new.len(), change.gone.len()), (0, 1));
    // Rehashed ports lead elsewhere; paths keep their index as far as one of its ports takes them.
    for old in before.iter().filter(|old| old.hops[1] != IpAddr::from([10, 1, 0, 2])) {
        let new = after.iter().find(|new| new.hops == old.hops).unwrap();
        assert!(new.index == old.index || change.moved.contains(&(old.index, new.index)), "{old:?} {new:?}");
    }
    // It comes back: some check's other ports take it.
    fabric.up.insert(2);
    fabric.run(&mut discovery, &mut now, Time::from_secs(20));
    assert_eq!(links(discovery.paths(destination())).len(), 4);
}

#[test]
fn lost_answers_do_not_lose_paths() {
    let (mut fabric, mut now) = (Fabric { lose: 7, ..Fabric::new() }, Time::ZERO);
    let mut discovery = Discovery::new(Config::default(), 11);
    discovery.want(now, destination());
    for second in 1..30 {
        fabric.run(&mut discovery, &mut now, Time::from_secs(second));
        assert_eq!(links(discovery.paths(destination())).len(), 4, "after {second} s");
    }
}

#[test]
fn a_fabric_that_answers_nothing_changes_nothing() {
    let (mut fabric, mut discovery, mut now) = begun(Config::default());
    fabric.run(&mut discovery, &mut now, Time::from_secs(1));
    discovery.poll_change();
    fabric.up.clear();
    fabric.run(&mut discovery, &mut now, Time::from_secs(9));
    assert_eq!(discovery.paths(destination()).len(), 4);
    assert_eq!(discovery.poll_change(), None);
}

#[test]
fn destinations_are_bounded_and_forgotten_and_probes_are_paced() {
    let (mut fabric, mut now) = (Fabric::new(), Time::ZERO);
    let config = Config { destinations: 3, probes_per_second: 100, idle: Time::from_secs(5), ..Config::default() };
    let mut discovery = Discovery::new(config, 7);
    let to = |n| IpAddr::from([10, 9, 0, n]);
    assert_eq!([1, 2, 3, 4].map(|n| discovery.want(now, to(n))), [true, true, true, false]);
    fabric.run(&mut discovery, &mut now, Time::from_secs(4));
    assert!((400..=464).contains(&fabric.sent), "{}", fabric.sent);
    discovery.want(now, to(1));
    fabric.run(&mut discovery, &mut now, Time::from_secs(6));
    assert!(discovery.want(now, to(4)), "others were forgotten");
    fabric.run(&mut discovery, &mut now, Time::from_secs(60));
    assert_eq!(discovery.poll_timeout(now), None, "nothing is done for nobody");
}

#[test]
fn a_router_that_falls_silent_takes_no_path_away() {
    let (mut fabric, mut discovery, mut now) = begun(Config::default());
    fabric.run(&mut discovery, &mut now, Time::from_ms(500));
    let before: Vec<(u8, u16)> = discovery.paths(destination()).iter().map(|path| (path.index, path.port)).collect();
    assert_eq!(before.len(), 4);
    fabric.silent = 2;
    fabric.run(&mut discovery, &mut now, Time::from_secs(6));
    let after: Vec<(u8, u16)> = discovery.paths(destination()).iter().map(|path| (path.index, path.port)).collect();
    assert_eq!(before, after, "the destination answers to every port");
    // A path that is really gone is gone, although the router keeps silent.
    fabric.up.remove(&2);
    fabric.silent = 0;
    fabric.run(&mut discovery, &mut now, Time::from_secs(9));
    assert_eq!(links(discovery.paths(destination())).len(), 3);
}

#[test]
fn spines_that_recover_are_used_again_where_there_is_no_room_for_more_paths() {
    let (mut fabric, mut now) = (Fabric::new(), Time::ZERO);
    (fabric.per_spine, fabric.up) = (4, (0..8).collect());
    let mut discovery = Discovery::new(Config { paths: 4, ..Config::default() }, 7);
    discovery.want(now, destination());
    fabric.run(&mut discovery, &mut now, Time::from_secs(2));
    check(discovery.paths(destination()), 4);
    assert_eq!(links(discovery.paths(destination())).len(), 2);
    fabric.up = (0..16).collect();
    fabric.run(&mut discovery, &mut now, Time::from_secs(20));
    check(discovery.paths(destination()), 4);
    assert_eq!(links(discovery.paths(destination())).len(), 4);
}

#[test]
fn surveys_that_find_nothing_become_rare() {
    let (mut fabric, mut now) = (Fabric::new(), Time::ZERO);
    fabric.silent = 2;
    let mut discovery = Discovery::new(Config { idle: Time::from_secs(1000), ..Config::default() }, 7);
    discovery.want(now, destination());
    fabric.run(&mut discovery, &mut now, Time::from_secs(60));
    let (minute, begun) = (fabric.sent, discovery.progress(destination()).unwrap().rounds);
    fabric.run(&mut discovery, &mut now, Time::from_secs(240));
    let later = fabric.sent - minute;
    assert!(begun > 3 && later < minute, "{minute} probes in the first minute, {later} in the next three");
    fabric.silent = 0;
    fabric.run(&mut discovery, &mut now, Time::from_secs(320));
    assert_eq!(links(discovery.paths(destination())).len(), 4);
}

#[test]
fn who_is_forgotten_is_found_anew() {
    let (mut fabric, mut discovery, mut now) = begun(Config::default());
    fabric.run(&mut discovery, &mut now, Time::from_ms(500));
    assert!(discovery.poll_change().is_some());
    discovery.forget(destination());
    assert_eq!((discovery.poll_timeout(now), discovery.paths(destination())), (None, &[][..]));
    discovery.want(now, destination());
    fabric.run(&mut discovery, &mut now, Time::from_secs(1));
    assert_eq!(discovery.poll_change().map(|(_, change)| change.new.len()), Some(4));
}

#[test]
fn bounds_that_make_no_sense_end_no_run() {
    let zero = Time::ZERO;
    let config = Config {
        period: zero,
        patience: zero,
        paths: 0,
        survey_ports: 0,
        spare_ports: 999,
        max_hops: 0,
        ..Config::default()
    };
    let (mut fabric, mut now) = (Fabric::new(), zero);
    let mut discovery = Discovery::new(config, 7);
    discovery.want(now, destination());
    fabric.run(&mut discovery, &mut now, Time::from_secs(1));
    assert_eq!(discovery.paths(destination()), [], "one hop does not reach the destination");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Forged, late and repeated answers in any order: the list of paths is always sound, and work is bounded.
    #[test]
    fn any_answers_leave_sound_paths(seed: u64, steps in proptest::collection::vec((0u8..4, any::<u8>(), 0u8..20, 0u8..8), 1..300)) {
        let mut discovery = Discovery::new(Config { paths: 5, ..Config::default() }, seed);
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        discovery.want(now, destination());
        for (what, pick, ttl, hop) in steps {
            now += Time::from_ms(u64::from(pick) / 4);
            discovery.handle_timeout(now);
            sent.extend(std::iter::from_fn(|| discovery.poll_transmit(now)));
            let probe = sent.get(usize::from(pick) % sent.len().max(1)).copied();
            let probe = probe.unwrap_or(Probe { to: destination(), port: 0xC000 | u16::from(pick), ttl });
            match what {
                0 => discovery.time_exceeded(now, Probe { ttl, ..probe }, IpAddr::from([10, 0, 0, hop])),
                1 => discovery.answered(now, Probe { ttl, ..probe }),
                2 => sent.iter().for_each(|probe| match probe.ttl {
                    1..=3 => discovery.time_exceeded(now, *probe, IpAddr::from([10, probe.ttl, 0, probe.port as u8 % (hop + 1)])),
                    _ => discovery.answered(now, *probe),
                }),
                _ => {}
            }
            check(discovery.paths(destination()), 5);
            prop_assert!(discovery.poll_timeout(now).is_some());
            sent.drain(..sent.len().saturating_sub(2000));
        }
    }
}
