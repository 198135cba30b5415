//! Which labels the segments to a peer take. What was learnt of them stands beside the configuration, which stays as it was read.

use super::follow::Followed;
use agent_api::config::{Config, PeerRule};
use kernel::state::{Peer, PEER_DISCOVERED};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Who chose a peer's labels.
const DISCOVERY: &str = "discovery";
const DEFAULT: &str = "default";

/// What others say of the labels to peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// The controller's schedules: they come after a peer's own labels.
    pub(crate) followed: Followed,
    /// Schedules of discovered paths, by the peer's address: they come after both.
    pub(crate) discovered: BTreeMap<IpAddr, Vec<u16>>,
}

impl Learnt {
    /// Another configuration: what was discovered for its peers is in force until something else is.
    pub(crate) fn carry_over(&mut self, to: &Config) {
        let peers: BTreeSet<IpAddr> = to.peers.iter().map(|peer| peer.address).collect();
        self.discovered.retain(|address, _| to.discovery.is_some() && peers.contains(address));
    }

    fn scheduled(&self, config: &Config, peer: &PeerRule) -> Option<&[u16]> {
        config.controller.as_ref().and_then(|_| self.followed.labels(&peer.name))
    }

    fn discovered(&self, config: &Config, peer: &PeerRule) -> Option<&[u16]> {
        config.discovery.as_ref().and_then(|_| self.discovered.get(&peer.address)).map(Vec::as_slice)
    }
}

/// A peer's row with the labels that its traffic takes.
pub(crate) fn with_schedule(row: Peer, config: &Config, learnt: &Learnt, peer: &PeerRule) -> Peer {
    let (labels, whose) = labels_from(config, learnt, peer);
    let flags = if whose == DISCOVERY { PEER_DISCOVERED } else { 0 };
    Peer { flags, ..row.with_labels(&labels) }
}

/// Does the scheme keep states of paths, of which nobody has said yet which labels take them, and only a controller will?
pub(crate) fn is_guessed(config: &Config, learnt: &Learnt, peer: &PeerRule) -> bool {
    let guessed = labels_from(config, learnt, peer).1 == DEFAULT && !peer.plain_vxlan;
    guessed && config.balance.keeps().is_some() && config.discovery.is_none()
}

/// The labels in force, and whose choice they are.
pub(crate) fn labels_from(config: &Config, learnt: &Learnt, peer: &PeerRule) -> (Vec<u16>, &'static str) {
    if !config.balance.scheme().labels {
        return (Vec::new(), "");
    }
    let choices = [
        (peer.labels.as_deref(), "configuration"),
        (learnt.scheduled(config, peer), "controller"),
        (config.labels_listed.then_some(config.labels.as_slice()), "configuration"),
        (learnt.discovered(config, peer), DISCOVERY),
    ];
    let chosen = choices.into_iter().find_map(|(labels, whose)| Some((labels?, whose)));
    let (labels, whose) = chosen.unwrap_or((&config.labels, DEFAULT));
    match config.balance.keeps() {
        Some(_) => (told_apart(labels), whose),
        None => (labels.to_vec(), whose),
    }
}

/// The labels of which feedback can tell the paths apart: each low byte once.
fn told_apart(labels: &[u16]) -> Vec<u16> {
    let mut seen = BTreeSet::new();
    labels.iter().copied().filter(|label| seen.insert(label & 0xff)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::{config, controller};
    use ::controller::{Schedules, Slots};

    /// The controller orders these ports to the first peer.
    fn ordered(config: &Config, ports: &[u16]) -> Followed {
        let slots = Slots { ports: ports.to_vec(), edges: vec![config.peers[0].name.clone()] };
        Followed::new(Schedules { revision: 1, schedules: vec![slots] }, &config.peers)
    }

    #[test]
    fn a_low_byte_names_one_path() {
        assert_eq!(told_apart(&[0xc001, 0xc101, 0xc002, 0xc001]), [0xc001, 0xc002]);
    }

    #[test]
    fn whose_labels_are_in_force() {
        let (mut config, mut learnt) = (config(), Learnt::default());
        let whose = |config: &Config, learnt: &Learnt| labels_from(config, learnt, &config.peers[0]);
        assert_eq!(whose(&config, &learnt), (vec![50_000, 50_001], "default"));
        learnt.discovered.insert(config.peers[0].address, vec![0xc107]);
        assert_eq!(whose(&config, &learnt).1, "default", "while nothing is discovered, what was is old");
        config.discovery = Some(::discovery::Config::default());
        assert_eq!(whose(&config, &learnt), (vec![0xc107], "discovery"));
        config.labels_listed = true;
        assert_eq!(whose(&config, &learnt), (vec![50_000, 50_001], "configuration"));
        learnt.followed = ordered(&config, &[5_003]);
        assert_eq!(whose(&config, &learnt).1, "configuration", "without a controller there are no schedules");
        config.controller = Some(controller());
        assert_eq!(whose(&config, &learnt), (vec![5_003], "controller"));
        learnt.followed = ordered(&config, &[]);
        assert_eq!(whose(&config, &learnt).1, "configuration", "an empty schedule says nothing");
        learnt.followed = ordered(&config, &[5_003]);
        config.peers[0].labels = Some(vec![4]);
        assert_eq!(whose(&config, &learnt), (vec![4], "configuration"));
        config.balance = edge::Balance::new(edge::balance::SCHEMES[0], |_| None);
        assert_eq!(whose(&config, &learnt), (vec![], ""), "ECMP has none");
    }

    #[test]
    fn what_was_discovered_outlives_a_reload_for_peers_that_stay() {
        let mut config = config();
        config.discovery = Some(::discovery::Config::default());
        let [one, two] = [0, 1].map(|n| config.peers[n].address);
        let mut learnt = Learnt { discovered: [(one, vec![0xc001]), (two, vec![0xc002])].into(), ..Learnt::default() };
        config.peers.remove(1);
        learnt.carry_over(&config);
        assert_eq!(learnt.discovered, BTreeMap::from([(one, vec![0xc001])]));
        config.discovery = None;
        learnt.carry_over(&config);
        assert!(learnt.discovered.is_empty(), "who discovers again begins anew");
    }
}
