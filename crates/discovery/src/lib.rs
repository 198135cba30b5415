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
//! Answers are not trusted: they count only if they fit a probe that is under way, destinations and probes are bounded, and all
//! that a forged answer can do is to make a path look like another.

mod budget;
mod choose;
mod destination;
mod ports;
mod trace;

pub use choose::choose;
pub use destination::{Binding, Change};
pub use ports::{index_of, Ports};
pub use trace::Probe;

use budget::Budget;
use destination::Destination;
use rand_pcg::Pcg32;
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::Time;

/// What bounds discovery. [`Config::default`] has Clove's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two checks of a destination. Default 500 ms (the experiments of Clove).
    pub period: Time,
    /// How long an answer may take. A probe without one is sent once more. Default 100 ms.
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

/// Discovery of the paths to all destinations of one edge. See the crate's documentation.
#[derive(Debug)]
pub struct Discovery {
    config: Config,
    rng: Pcg32,
    budget: Budget,
    destinations: BTreeMap<IpAddr, Destination>,
    /// Who was served last: the next probe is another's.
    last: Option<IpAddr>,
}

impl Discovery {
    /// `seed` decides which ports are tried.
    pub fn new(config: Config, seed: u64) -> Discovery {
        let budget = Budget::new(config.probes_per_second);
        Discovery { config, rng: Pcg32::new(seed, 0xd15c), budget, destinations: BTreeMap::new(), last: None }
    }

    /// There is traffic for this destination. False if there is no room for one more.
    pub fn want(&mut self, now: Time, to: IpAddr) -> bool {
        if let Some(known) = self.destinations.get_mut(&to) {
            known.wanted(now);
            return true;
        }
        if self.destinations.len() >= self.config.destinations {
            return false;
        }
        let new = Destination::new(now, &self.config, &mut self.rng);
        self.destinations.insert(to, new);
        true
    }

    /// The next probe to send now, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Probe> {
        if !self.budget.has(now) {
            return None;
        }
        let after = self.last.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let later = self.destinations.range((after, std::ops::Bound::Unbounded)).map(|(to, _)| *to);
        let all = self.destinations.keys().copied();
        let to = later.chain(all).find(|to| self.destinations[to].has_probe())?;
        let (port, ttl) = self.destinations.get_mut(&to)?.next_probe(now)?;
        self.last = Some(to);
        self.budget.take();
        Some(Probe { to, port, ttl })
    }

    /// When [`Discovery::handle_timeout`], or a further [`Discovery::poll_transmit`], has something to do.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let waiting = self.destinations.values().any(Destination::has_probe);
        let room = waiting.then(|| self.budget.next(now));
        room.into_iter().chain(self.destinations.values().filter_map(|destination| destination.due(&self.config))).min()
    }

    /// Time passed: rounds begin and end, destinations without traffic are forgotten.
    pub fn handle_timeout(&mut self, now: Time) {
        let Discovery { config, rng, destinations, .. } = self;
        destinations.retain(|_, destination| !destination.is_idle(now, config));
        destinations.values_mut().for_each(|destination| destination.handle_timeout(now, config, rng));
    }

    /// A hop says that a probe's TTL ran out there. `hop`: the address that it answers from.
    pub fn time_exceeded(&mut self, now: Time, probe: Probe, hop: IpAddr) {
        if let Some(destination) = self.destinations.get_mut(&probe.to) {
            destination.time_exceeded(probe.port, probe.ttl, hop);
            destination.conclude_if_done(now, &self.config, &mut self.rng);
        }
    }

    /// A probe reached its destination.
    pub fn answered(&mut self, now: Time, probe: Probe) {
        if let Some(destination) = self.destinations.get_mut(&probe.to) {
            destination.answered(now, probe.port, probe.ttl);
            destination.conclude_if_done(now, &self.config, &mut self.rng);
        }
    }

    /// The paths to a destination, by index; empty until a survey has ended, and for unknown destinations.
    pub fn paths(&self, to: IpAddr) -> &[Binding] {
        self.destinations.get(&to).map_or(&[], Destination::bindings)
    }

    /// What changed since this was asked last, a destination at a time.
    pub fn poll_change(&mut self) -> Option<(IpAddr, Change)> {
        self.destinations.iter_mut().find_map(|(to, destination)| Some((*to, destination.take_change()?)))
    }
}
