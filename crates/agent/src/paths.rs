//! What is known of the paths to each peer: rows that the data path fills, which follow the peers' schedules.

use super::desired::labels;
use super::discovery::index_of;
use super::error::Result;
use super::reconcile::Agent;
use super::rows::Rows;
use ::discovery::Change;
use agent_api::config::{Config, PeerRule};
use agent_api::protocol::KnownPath;
use edge::balance::Quantity;
use edge::WEIGHT_ONE;
use kernel::state::{Peer, Plain};
use kernel::{monotonic_ns, PathPlace};
use std::collections::BTreeSet;
use units::Time;

/// Of feedback that is under way, where nothing is known of the round trip: as long as a path can be deaf.
const LONG: Time = Time::from_ms(33);

/// Numbers of the peers in `peers` that need states of paths: all or, where the scheme keeps none, nobody.
fn wanted(config: &Config, peers: &Rows) -> BTreeSet<u32> {
    match config.balance.scheme().keeps {
        Some(_) => peers.keys().filter_map(|key| u32::from_bytes(key)).collect(),
        None => BTreeSet::new(),
    }
}

/// Where the paths of a new schedule were in the old one. `was`: the label that the path of a label had.
fn places(
    old: &[u16],
    new: &[u16],
    was: impl Fn(u16) -> Option<u16>,
    rtt: impl Fn(u16) -> Option<Time>,
) -> Vec<PathPlace> {
    let place = |label: &u16| {
        let before = was(*label);
        let other = old.iter().any(|old| old & 0xff == label & 0xff && Some(*old) != before);
        let quiet = other.then(|| rtt(*label).unwrap_or(LONG));
        PathPlace { was: before.and_then(|before| old.iter().position(|old| *old == before)), quiet }
    };
    new.iter().map(place).collect()
}

/// Does each place name the path that it named before? Equal labels do not say so: another path may have taken a dead one's port.
fn all_stay(places: &[PathPlace]) -> bool {
    places.iter().enumerate().all(|(n, place)| place.was == Some(n) && place.quiet.is_none())
}

/// The label that a path had before a change: the same path may have another port, and another index.
fn label_before(old: &[u16], change: &Change, label: u16) -> Option<u16> {
    let path = change.paths.iter().find(|path| path.port == label && !change.new.contains(&path.index))?;
    let moved = change.moved.iter().find(|(_, to)| *to == path.index);
    let index = moved.map_or(path.index, |(from, _)| *from);
    old.iter().copied().find(|old| index_of(*old) == Some(index))
}

impl Agent {
    /// Every peer has a row before the data path looks for one. Peers whose schedule will change, not by discovery, keep what is known of
    /// labels that stay.
    pub(super) fn prepare_paths(&self, have: &Rows, want: &Rows) -> Result<()> {
        let ids = wanted(&self.config, want);
        if ids.is_empty() {
            return Ok(());
        }
        self.edge.keep_paths(&ids)?;
        for (key, value) in want {
            let old = have.get(key).and_then(|old| Peer::from_bytes(old));
            let (Some(id), Some(old), Some(new)) = (u32::from_bytes(key), old, Peer::from_bytes(value)) else {
                continue;
            };
            let (before, after) = (schedule_of(&old), schedule_of(&new));
            let same_host = old.tunnel.remote == new.tunnel.remote;
            if !same_host || before != after {
                let was = |label| (same_host && before.contains(&label)).then_some(label);
                self.edge.rearrange_paths(id, &places(before, after, was, |_| None))?;
            }
        }
        Ok(())
    }

    /// Rows of peers that are none any more, or of a scheme that is not in force, go.
    pub(super) fn forget_paths(&self, peers: &Rows) -> Result<()> {
        Ok(self.edge.forget_other_paths(&wanted(&self.config, peers))?)
    }

    /// Discovery has found other paths to a peer: what is known stays with each path.
    pub(super) fn move_paths(&self, id: u32, peer: &Peer, labels: &[u16], change: &Change) -> Result<()> {
        if self.config.balance.scheme().keeps.is_none() {
            return Ok(());
        }
        let before = schedule_of(peer);
        let rtt = |label| change.paths.iter().find(|path| path.port == label)?.rtt;
        let places = places(before, labels, |label| label_before(before, change, label), rtt);
        if before == labels && all_stay(&places) {
            return Ok(());
        }
        Ok(self.edge.rearrange_paths(id, &places)?)
    }

    /// For `ctl paths` and metrics, in the order of the schedule.
    pub(super) fn known_paths(&self, peer: &PeerRule, id: Option<u32>) -> Vec<KnownPath> {
        let Some(known) = id.and_then(|id| self.edge.known_paths(id).ok().flatten()) else { return Vec::new() };
        let clear = self.config.balance.values().find_map(|(parameter, value)| match value {
            Quantity::Time(time) if parameter.name == "clove_clear" => Some(time),
            _ => None,
        });
        let now = monotonic_ns();
        let path = |(label, state): (u16, &edge::PathState)| KnownPath {
            label,
            weight: f64::from(state.weight) / f64::from(WEIGHT_ONE),
            congested: state.is_congested(clear.unwrap_or_default(), now),
            marks: state.marks,
            marked_seconds: state.age(now).filter(|_| state.marks > 0).map(|age| age.as_secs_f64()),
        };
        labels(&self.config, peer).into_iter().zip(&known.paths).map(path).collect()
    }
}

fn schedule_of(peer: &Peer) -> &[u16] {
    peer.labels.get(..peer.n_labels as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::discovery::{Config as Discovering, Discovery, Probe};
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    #[test]
    fn what_is_known_stays_with_labels_that_stay() {
        let was = |label| [7, 8, 9].contains(&label).then_some(label);
        let place = |was| PathPlace { was, quiet: None };
        assert_eq!(places(&[7, 8, 9], &[9, 7, 5], was, |_| None), [place(Some(2)), place(Some(0)), place(None)]);
        // The same low byte, but another path's until now.
        let anew = PathPlace { was: None, quiet: Some(LONG) };
        assert_eq!(places(&[7, 8, 9], &[0x107, 8], was, |_| None), [anew, place(Some(1))]);
    }

    #[test]
    fn a_path_that_took_a_dead_ones_port_begins_anew() {
        let stay = places(&[7, 8], &[7, 8], Some, |_| None);
        assert!(all_stay(&stay));
        let taken = places(&[7, 8], &[7, 8], |label| (label == 8).then_some(8), |_| None);
        assert!(!all_stay(&taken));
        assert_eq!(taken[0], PathPlace { was: None, quiet: Some(LONG) });
    }

    /// Paths come, go and get other ports, as discovery itself has it: states go where their paths go.
    #[test]
    fn what_is_known_stays_with_the_path_whatever_port_it_has() {
        let to: IpAddr = [10, 2, 3, 2].into();
        let mut discovery = Discovery::new(Discovering::default(), 5);
        let (mut now, mut labels) = (Time::ZERO, vec![50_000, 50_001]);
        let mut hops: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
        let (mut followed, mut moved) = (0, 0);
        for (step, up) in [0b1111u8, 0b1011, 0b1111, 0b0110, 0b1111].into_iter().enumerate() {
            let links: Vec<u8> = (0..8).filter(|link| up >> link & 1 == 1).collect();
            let end = now + Time::from_secs(20);
            while now < end {
                discovery.want(now, to);
                while let Some(Probe { port, ttl, .. }) = discovery.poll_transmit(now) {
                    // Another hash after each step: a path has other ports than before.
                    let hash = port.wrapping_mul(40_503 + 2 * step as u16) >> 4;
                    let link = links[usize::from(hash) % links.len()];
                    let probe = Probe { to, port, ttl };
                    match ttl {
                        1 => discovery.time_exceeded(now, probe, [10, 0, 0, 1].into()),
                        2 => discovery.time_exceeded(now, probe, [10, 1, 0, link].into()),
                        _ => discovery.answered(now, probe),
                    }
                }
                now += Time::from_ms(5);
                discovery.handle_timeout(now);
            }
            while let Some((_, change)) = discovery.poll_change() {
                let new = crate::discovery::schedule(&labels, &change);
                let found = places(&labels, &new, |label| label_before(&labels, &change, label), |_| None);
                let now: BTreeMap<u16, Vec<IpAddr>> =
                    change.paths.iter().map(|path| (path.port, path.hops.clone())).collect();
                for (label, place) in new.iter().zip(found) {
                    let before = labels.iter().position(|old| hops.get(old).is_some_and(|old| *old == now[label]));
                    assert_eq!(place.was, before, "{label} in {new:?} after {labels:?}: {change:?}");
                    followed += usize::from(before.is_some());
                    moved += usize::from(before.is_some_and(|before| labels[before] != *label));
                }
                (labels, hops) = (new, now);
            }
        }
        assert!(followed > 5 && moved > 2, "{followed} followed, {moved} moved");
    }
}
