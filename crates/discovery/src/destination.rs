//! One destination: rounds of traces, and what they add up to.

use crate::ports::{index_of, Ports};
use crate::trace::{Outcome, Trace};
use crate::{choose, Config};
use rand_core::Rng;
use rand_pcg::Pcg32;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::Time;

/// Hops of a path, destination included, before any is known: a leaf-spine fabric's.
const FIRST_GUESS: u8 = 4;
/// Other ports of a known path's index that a survey tries at most.
const SAME_INDEX: u16 = 8;
/// The longest pause between surveys that find nothing.
const REST: Time = Time::from_secs(60);
/// Rounds in a row without an answer after which a path counts as gone.
const MISSES: u8 = 2;

/// A path in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// By which feedback names it: [`crate::index_of`] its port.
    pub index: u8,
    /// The source port that takes it.
    pub port: u16,
    /// Addresses of the hops, without the destination.
    pub hops: Vec<IpAddr>,
    /// When a trace confirmed it last.
    pub seen: Time,
    /// From a probe to the answer of the destination's edge.
    pub rtt: Option<Time>,
    misses: u8,
}

/// How far discovery has come with a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rounds that have ended, surveys and checks.
    pub rounds: u64,
    /// Ports traced in the last of these, and ports of which every hop and the destination answered.
    pub traced: usize,
    pub complete: usize,
}

/// What became of the paths that were told before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// All paths, by index.
    pub paths: Vec<Binding>,
    /// Indices of paths that were not there.
    pub new: Vec<u8>,
    /// Indices whose path is gone; another path may have the index now.
    pub gone: Vec<u8>,
    /// Paths that have another index than before: the old one, the new one. What is known of them goes along.
    pub moved: Vec<(u8, u8)>,
}

impl Change {
    fn between(before: &[Binding], after: &[Binding]) -> Change {
        let mut change = Change { paths: after.to_vec(), ..Change::default() };
        for old in before {
            match after.iter().find(|new| new.hops == old.hops) {
                None => change.gone.push(old.index),
                Some(new) if new.index != old.index => change.moved.push((old.index, new.index)),
                Some(_) => {}
            }
        }
        let new = after.iter().filter(|new| before.iter().all(|old| old.hops != new.hops));
        change.new = new.map(|new| new.index).collect();
        change
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Survey,
    Check,
}

#[derive(Debug)]
struct Round {
    kind: Kind,
    traces: BTreeMap<u16, Trace>,
}

/// Are the hops that answered those of the path?
fn fits(answered: &[Option<IpAddr>], path: &[IpAddr]) -> bool {
    answered.len() == path.len() && answered.iter().zip(path).all(|(hop, of)| hop.is_none_or(|hop| hop == *of))
}

#[derive(Debug)]
pub(crate) struct Destination {
    /// When there was traffic last.
    used: Time,
    next: Time,
    round: Option<Round>,
    /// By index.
    bindings: Vec<Binding>,
    told: Vec<Binding>,
    /// Hops of the paths, destination included.
    length: u8,
    progress: Progress,
    /// Surveys in a row that found nothing.
    fruitless: u32,
}

impl Destination {
    /// Its first survey begins within a tenth of a period, so that not all begin at once.
    pub(crate) fn new(now: Time, config: &Config, rng: &mut Pcg32) -> Destination {
        let most = config.period.as_ns() / 10;
        let next = now + Time::from_ns(u64::from(rng.next_u32()) % most.max(1));
        let (bindings, told) = (Vec::new(), Vec::new());
        let progress = Progress::default();
        Destination { used: now, next, round: None, bindings, told, length: FIRST_GUESS, progress, fruitless: 0 }
    }

    pub(crate) fn wanted(&mut self, now: Time) {
        self.used = self.used.max(now);
    }

    pub(crate) fn is_idle(&self, now: Time, config: &Config) -> bool {
        now >= self.used + config.idle
    }

    pub(crate) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.traces.values().any(|trace| trace.waiting().is_some()))
    }

    pub(crate) fn next_probe(&mut self, now: Time) -> Option<(u16, u8)> {
        let traces = &mut self.round.as_mut()?.traces;
        let (port, trace) = traces.iter_mut().find(|(_, trace)| trace.waiting().is_some())?;
        let ttl = trace.waiting()?;
        trace.sent(now, ttl);
        Some((*port, ttl))
    }

    /// When [`Destination::handle_timeout`] has something to do, apart from probes that wait for room; after the last round
    /// of a destination without traffic, to forget it.
    pub(crate) fn due(&self, config: &Config) -> Time {
        let answers = self.round.as_ref().and_then(|round| {
            let due = round.traces.values().filter_map(|trace| trace.due(config.patience));
            due.min()
        });
        match (&self.round, answers) {
            (None, _) => self.next,
            (Some(_), Some(due)) => due,
            // Nothing is under way before the first probe leaves.
            (Some(_), None) => self.used + config.idle,
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, config: &Config, rng: &mut Pcg32) {
        match &mut self.round {
            None if now >= self.next => {
                let kind = if self.bindings.is_empty() { Kind::Survey } else { Kind::Check };
                self.begin(kind, config, rng);
            }
            None => {}
            Some(round) => {
                round.traces.values_mut().for_each(|trace| trace.handle_timeout(now, config.patience));
                self.conclude_if_done(now, config, rng);
            }
        }
    }

    pub(crate) fn time_exceeded(&mut self, port: u16, ttl: u8, hop: IpAddr) {
        if let Some(trace) = self.trace(port) {
            trace.time_exceeded(ttl, hop);
        }
    }

    pub(crate) fn answered(&mut self, now: Time, port: u16, ttl: u8) {
        if let Some(trace) = self.trace(port) {
            trace.answered(now, ttl);
        }
    }

    fn trace(&mut self, port: u16) -> Option<&mut Trace> {
        self.round.as_mut()?.traces.get_mut(&port)
    }

    /// Is something else than was told?
    pub(crate) fn has_change(&self) -> bool {
        let same = |a: &Binding, b: &Binding| (a.index, a.port) == (b.index, b.port) && a.hops == b.hops;
        self.told.len() != self.bindings.len() || !self.told.iter().zip(&self.bindings).all(|(a, b)| same(a, b))
    }

    pub(crate) fn take_change(&mut self) -> Option<Change> {
        if !self.has_change() {
            return None;
        }
        let change = Change::between(&self.told, &self.bindings);
        self.told.clone_from(&self.bindings);
        Some(change)
    }

    fn begin(&mut self, kind: Kind, config: &Config, rng: &mut Pcg32) {
        let mut ports = Ports::default();
        let taken: BTreeSet<u8> = self.bindings.iter().map(|binding| binding.index).collect();
        // Half of the ports are for paths that are not known.
        let each = config.survey_ports / 2 / self.bindings.len().max(1);
        let same_index = SAME_INDEX.min(u16::try_from(each).unwrap_or(SAME_INDEX));
        for binding in &self.bindings {
            ports.add(binding.port);
            if kind == Kind::Survey {
                ports.add_of_index(binding.index, same_index, rng);
            }
        }
        let most = match kind {
            Kind::Survey => config.survey_ports.max(ports.iter().count()),
            Kind::Check => self.bindings.len() + config.spare_ports,
        };
        ports.fill(most, &taken, rng);
        let traces = ports.iter().map(|port| (port, Trace::new(self.length, config.max_hops))).collect();
        self.round = Some(Round { kind, traces });
    }

    /// Ends the round once every trace has an outcome.
    pub(crate) fn conclude_if_done(&mut self, now: Time, config: &Config, rng: &mut Pcg32) {
        let Some(round) = &mut self.round else { return };
        let outcomes: Option<BTreeMap<u16, Outcome>> =
            round.traces.iter_mut().map(|(port, trace)| Some((*port, trace.outcome()?))).collect();
        let Some(outcomes) = outcomes else { return };
        let rtts: BTreeMap<u16, Time> =
            round.traces.iter().filter_map(|(port, trace)| Some((*port, trace.rtt()?))).collect();
        let (kind, traced) = (round.kind, round.traces.len());
        self.round = None;
        self.next = now + config.period;
        let (mut found, mut reached) = (BTreeMap::new(), BTreeMap::new());
        for (port, outcome) in outcomes {
            match outcome {
                Outcome::Path(hops) => drop(found.insert(port, hops)),
                Outcome::Reached(hops) => drop(reached.insert(port, hops)),
                Outcome::Lost => {}
            }
        }
        self.progress = Progress { rounds: self.progress.rounds + 1, traced, complete: found.len() };
        // Nobody answers at all: that says nothing of the paths. Surveys go on ever more seldom.
        let Some(longest) = found.values().map(Vec::len).max() else {
            if self.bindings.is_empty() {
                self.next =
                    now + Time::from_ns(config.period.as_ns() << self.fruitless.min(7)).min(REST.max(config.period));
                self.fruitless = self.fruitless.saturating_add(1);
            }
            return;
        };
        self.fruitless = 0;
        self.length = u8::try_from(longest + 1).unwrap_or(config.max_hops);
        for binding in &mut self.bindings {
            let same = match (found.get(&binding.port), reached.get(&binding.port)) {
                (Some(hops), _) => Some(*hops == binding.hops),
                // A router that keeps silent, for it answers so many only, is no path that is gone.
                (None, Some(hops)) => Some(fits(hops, &binding.hops)),
                (None, None) => None,
            };
            match same {
                Some(true) => (binding.seen, binding.misses) = (now, 0),
                Some(false) => binding.misses = MISSES,
                None => binding.misses += 1,
            }
        }
        match kind {
            Kind::Check if self.bindings.iter().any(|binding| binding.misses > 0) => {
                self.begin(Kind::Survey, config, rng)
            }
            Kind::Check if self.would_change(&found, config) => self.begin(Kind::Survey, config, rng),
            Kind::Check => self.add(now, &found, config),
            Kind::Survey => self.choose(now, &found, config),
        }
        for binding in &mut self.bindings {
            binding.rtt = rtts.get(&binding.port).copied().or(binding.rtt);
        }
    }

    /// Is a path among those found that is better than one in use, where there is no room for both?
    fn would_change(&self, found: &BTreeMap<u16, Vec<IpAddr>>, config: &Config) -> bool {
        if self.bindings.len() < config.paths {
            return false;
        }
        let known: Vec<&[IpAddr]> = self.bindings.iter().map(|binding| binding.hops.as_slice()).collect();
        let mut all = known.clone();
        for hops in found.values() {
            if !all.contains(&hops.as_slice()) {
                all.push(hops);
            }
        }
        choose(&all, config.paths).into_iter().any(|place| place >= known.len())
    }

    /// Takes paths that were not known, where there is room.
    fn add(&mut self, now: Time, found: &BTreeMap<u16, Vec<IpAddr>>, config: &Config) {
        for (port, hops) in found {
            let Some(index) = index_of(*port) else { continue };
            let known = self.bindings.iter().any(|binding| binding.hops == *hops || binding.index == index);
            if !known && self.bindings.len() < config.paths {
                self.bindings.push(Binding { index, port: *port, hops: hops.clone(), seen: now, rtt: None, misses: 0 });
            }
        }
        self.bindings.sort_unstable_by_key(|binding| binding.index);
    }

    /// The most disjoint of all that a survey found. Paths that were known come first, and keep their index where a port of
    /// it takes them.
    fn choose(&mut self, now: Time, found: &BTreeMap<u16, Vec<IpAddr>>, config: &Config) {
        let mut by_path: BTreeMap<&[IpAddr], Vec<u16>> = BTreeMap::new();
        for (port, hops) in found {
            by_path.entry(hops).or_default().push(*port);
        }
        let old = std::mem::take(&mut self.bindings);
        let there = |binding: &&Binding| by_path.contains_key(binding.hops.as_slice()) || binding.misses < MISSES;
        let known: Vec<&Binding> = old.iter().filter(there).collect();
        let mut new: Vec<&[IpAddr]> = by_path.keys().copied().collect();
        new.retain(|hops| known.iter().all(|binding| binding.hops != *hops));
        new.sort_unstable_by_key(|hops| by_path[hops][0]); // its lowest port
        let all: Vec<&[IpAddr]> = known.iter().map(|binding| binding.hops.as_slice()).chain(new).collect();
        let mut taken = choose(&all, config.paths);
        taken.sort_unstable(); // known ones first
        let mut used: BTreeSet<u8> = taken.iter().filter_map(|place| Some(known.get(*place)?.index)).collect();
        for place in taken {
            let hops = all[place];
            let ports = by_path.get(hops).map_or(&[][..], Vec::as_slice);
            let old = known.get(place);
            let same = old.filter(|old| ports.is_empty() || ports.contains(&old.port)).map(|old| old.port);
            let of_index = || ports.iter().copied().find(|port| index_of(*port) == old.map(|old| old.index));
            let free =
                || ports.iter().copied().find(|port| index_of(*port).is_some_and(|index| !used.contains(&index)));
            let Some(port) = same.or_else(of_index).or_else(free) else { continue };
            let Some(index) = index_of(port) else { continue };
            used.insert(index);
            let (rtt, misses) = old.map_or((None, 0), |old| (old.rtt, if same.is_some() { old.misses } else { 0 }));
            let seen = if ports.is_empty() { old.map_or(now, |old| old.seen) } else { now };
            self.bindings.push(Binding { index, port, hops: hops.to_vec(), seen, rtt, misses });
        }
        self.bindings.sort_unstable_by_key(|binding| binding.index);
    }
}
