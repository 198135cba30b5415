//! What one host's path discovery keeps.

use crate::experiment::Experiment;
use crate::outcome::Discovered;
use discovery::Discovery;
use rustc_hash::FxHashMap;
use sim::{Purpose, Stream};
use units::Time;

/// One host's discovery.
#[derive(Debug)]
pub(super) struct Discoverer {
    pub(super) discovery: Discovery,
    /// When discovery is to hear of traffic to a host again. Looked up only.
    pub(super) wants: FxHashMap<u32, Time>,
    /// Labels of the hosts whose paths were found. Looked up only.
    pub(super) labels: FxHashMap<u32, Vec<u16>>,
    /// The next wake-up in the event queue.
    pub(super) due: Option<Time>,
    pub(super) log: Vec<Discovered>,
    pub(super) probes: u64,
}

/// Of all hosts, in their order.
pub(super) fn all(experiment: &Experiment, config: &discovery::Config) -> Vec<Discoverer> {
    let seed = |host| Stream::new(experiment.seed, u64::from(host), Purpose::Discovery).next_u64();
    let one = |host| Discoverer {
        discovery: Discovery::new(config.clone(), seed(host)),
        wants: FxHashMap::default(),
        labels: FxHashMap::default(),
        due: None,
        log: Vec::new(),
        probes: 0,
    };
    experiment.topology.hosts().map(one).collect()
}
