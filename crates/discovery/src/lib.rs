//! Path discovery (Clove, section 3.1): which outer source ports take which paths through a fabric that hashes them.
//!
//! A trace sends probes with one source port and rising TTL. Each hop answers with its address, and the destination's edge
//! with a reply. [`Discovery`] decides what to send and what the answers mean. It is sans-IO: `now` is an argument, and its
//! driver (the agent, or the model in the simulator) sends what [`Discovery::poll_transmit`] returns and tells what came back.
//!
//! For each destination with traffic:
//!
//! 1. A **survey** traces many ports at once, groups them by path, and takes the most disjoint paths ([`choose`]).
//! 2. Each period a **check** traces the ports in use and a few others. A path that was not known is added where there is room.
//! 3. If a port in use takes another path than before, or none, all are traced anew: a survey. What is known of a path stays
//!    with the path, and only its port is another ([`Binding`]).
//!
//! A port names its path's index: its low 8 bits ([`index_of`]). So feedback of 8 bits says which path is meant, and a path
//! keeps its index while any of the 64 ports of that index takes it.
//!
//! Answers are not trusted: they count only if they fit a probe that is under way. Destinations and probes are bounded. All that
//! a forged answer can do is to make a path look like another.

mod budget;
mod choose;
mod destination;
mod ports;
mod schedule;
mod trace;

pub use choose::choose;
pub use destination::{Binding, Change, Progress};
pub use ports::index_of;
pub use schedule::{quiet, schedule, Place};
pub use trace::Probe;

use budget::Budget;
use destination::Destination;
use rand_pcg::Pcg32;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use units::Time;

/// What bounds discovery. [`Config::default`] has Clove's values. What is out of range counts as the nearest bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two checks of a destination, at least 1 ms. Default 500 ms (the experiments of Clove).
    pub period: Time,
    /// How long an answer may take, at least 1 ms. A probe without one is sent once more. Default 100 ms.
    pub patience: Time,
    /// Paths of a destination, 1 to 64. Default 8.
    pub paths: usize,
    /// Ports of a survey, 1 to 256. Default 64.
    pub survey_ports: usize,
    /// Ports of a check besides those in use, 0 to 64. Default 4.
    pub spare_ports: usize,
    /// The longest path, hops, 1 to 32. Default 16.
    pub max_hops: u8,
    /// Probes per second, over all destinations. Default 10,000.
    pub probes_per_second: u32,
    /// A destination without traffic for so long is traced no more, and forgotten. Default 60 s.
    pub idle: Time,
    /// Destinations at once. Default 4,096.
    pub destinations: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            period: Time::from_ms(500),
            patience: Time::from_ms(100),
            paths: 8,
            survey_ports: 64,
            spare_ports: 4,
            max_hops: 16,
            probes_per_second: 10_000,
            idle: Time::from_secs(60),
            destinations: 4_096,
        }
    }
}

impl Config {
    fn in_range(self) -> Config {
        let least = Time::from_ms(1);
        Config {
            period: self.period.max(least),
            patience: self.patience.max(least),
            paths: self.paths.clamp(1, 64),
            survey_ports: self.survey_ports.clamp(1, 256),
            spare_ports: self.spare_ports.min(64),
            max_hops: self.max_hops.clamp(1, 32),
            ..self
        }
    }
}

/// Discovery of the paths to all destinations of one edge. See the crate's documentation.
///
/// Each call touches one destination, and those that are due, however many there are.
#[derive(Debug)]
pub struct Discovery {
    config: Config,
    rng: Pcg32,
    budget: Budget,
    destinations: BTreeMap<IpAddr, Destination>,
    /// Destinations with a probe to send.
    ready: BTreeSet<IpAddr>,
    /// When something is to be done for each destination; one entry each.
    due: BTreeSet<(Time, IpAddr)>,
    /// Destinations whose paths have changed.
    changed: BTreeSet<IpAddr>,
    /// Who was served last: the next probe is another's.
    last: Option<IpAddr>,
}

impl Discovery {
    /// `seed` decides which ports are tried.
    pub fn new(config: Config, seed: u64) -> Discovery {
        Discovery {
            budget: Budget::new(config.probes_per_second),
            config: config.in_range(),
            rng: Pcg32::new(seed, 0xd15c),
            destinations: BTreeMap::new(),
            ready: BTreeSet::new(),
            due: BTreeSet::new(),
            changed: BTreeSet::new(),
            last: None,
        }
    }

    /// There is traffic for this destination. False if there is no room for one more.
    pub fn want(&mut self, now: Time, to: IpAddr) -> bool {
        if self.destinations.contains_key(&to) {
            self.touch(to, |destination, _, _| destination.wanted(now));
            return true;
        }
        if self.destinations.len() >= self.config.destinations {
            return false;
        }
        let new = Destination::new(now, &self.config, &mut self.rng);
        self.due.insert((new.due(&self.config), to));
        self.destinations.insert(to, new);
        true
    }

    /// A destination is none any more.
    pub fn forget(&mut self, to: IpAddr) {
        let Some(destination) = self.destinations.remove(&to) else { return };
        self.due.remove(&(destination.due(&self.config), to));
        self.ready.remove(&to);
        self.changed.remove(&to);
    }

    /// Does something for one destination, and notes what is next for it.
    fn touch(&mut self, to: IpAddr, what: impl FnOnce(&mut Destination, &Config, &mut Pcg32)) {
        let Discovery { config, rng, destinations, ready, due, changed, .. } = self;
        let Some(destination) = destinations.get_mut(&to) else { return };
        due.remove(&(destination.due(config), to));
        what(destination, config, rng);
        due.insert((destination.due(config), to));
        let note = |set: &mut BTreeSet<IpAddr>, is| if is { set.insert(to) } else { set.remove(&to) };
        note(ready, destination.has_probe());
        note(changed, destination.has_change());
    }

    /// The next probe to send now, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Probe> {
        if self.ready.is_empty() || !self.budget.has(now) {
            return None;
        }
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let to = *self.ready.range((after, Bound::Unbounded)).next().or(self.ready.first())?;
        let mut probe = None;
        self.touch(to, |destination, _, _| probe = destination.next_probe(now));
        self.last = Some(to);
        self.budget.take();
        probe.map(|(port, ttl)| Probe { to, port, ttl })
    }

    /// When [`Discovery::handle_timeout`], or a further [`Discovery::poll_transmit`], has something to do.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let room = (!self.ready.is_empty()).then(|| self.budget.next(now));
        room.into_iter().chain(self.due.first().map(|(due, _)| *due)).min()
    }

    /// Time passed: rounds begin and end, destinations without traffic are forgotten.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&(due, to)) = self.due.first().filter(|(due, _)| *due <= now) {
            if self.destinations.get(&to).is_none_or(|destination| destination.is_idle(now, &self.config)) {
                self.due.remove(&(due, to));
                self.forget(to);
                continue;
            }
            self.touch(to, |destination, config, rng| destination.handle_timeout(now, config, rng));
        }
    }

    /// A hop says that a probe's TTL ran out there. `hop`: the address that it answers from.
    pub fn time_exceeded(&mut self, now: Time, probe: Probe, hop: IpAddr) {
        self.touch(probe.to, |destination, config, rng| {
            destination.time_exceeded(probe.port, probe.ttl, hop);
            destination.conclude_if_done(now, config, rng);
        });
    }

    /// A probe reached its destination.
    pub fn answered(&mut self, now: Time, probe: Probe) {
        self.touch(probe.to, |destination, config, rng| {
            destination.answered(now, probe.port, probe.ttl);
            destination.conclude_if_done(now, config, rng);
        });
    }

    /// The paths to a destination, by index; empty until a survey has ended, and for unknown destinations.
    pub fn paths(&self, to: IpAddr) -> &[Binding] {
        self.destinations.get(&to).map_or(&[], Destination::bindings)
    }

    /// `None` for unknown destinations.
    pub fn progress(&self, to: IpAddr) -> Option<Progress> {
        self.destinations.get(&to).map(Destination::progress)
    }

    /// Destinations that are traced, and paths known of them.
    pub fn totals(&self) -> (usize, usize) {
        (self.destinations.len(), self.destinations.values().map(|to| to.bindings().len()).sum())
    }

    /// What changed since this was asked last, a destination at a time.
    pub fn poll_change(&mut self) -> Option<(IpAddr, Change)> {
        let to = self.changed.pop_first()?;
        Some((to, self.destinations.get_mut(&to)?.take_change()?))
    }
}
