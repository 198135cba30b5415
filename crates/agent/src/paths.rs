//! What is known of the paths to each peer: rows that the data path fills, which follow the peers' schedules.

use super::discovery::index_of;
use super::error::Result;
use super::labels::labels_from;
use super::reconcile::Agent;
use super::rows::Rows;
use ::discovery::Change;
use agent_api::config::PeerRule;
use agent_api::protocol::KnownPath;
use edge::WEIGHT_ONE;
use kernel::state::{Peer, Plain};
use kernel::{monotonic_ns, PathPlace};
use std::collections::{BTreeMap, BTreeSet};
use units::Time;

/// The peers of `rows` by their numbers.
fn peers(rows: &Rows) -> BTreeMap<u32, Peer> {
    rows.iter().filter_map(|(key, value)| Some((u32::from_bytes(key)?, Peer::from_bytes(value)?))).collect()
}

/// Where the paths of a new schedule were in the old one. `was`: the label that the path of a label had. `rtt`: of the path of a label;
/// `held`: so long the peer may keep what it has to tell.
fn places(
    old: &[u16],
    new: &[u16],
    was: impl Fn(u16) -> Option<u16>,
    rtt: impl Fn(u16) -> Option<Time>,
    held: Time,
) -> Vec<PathPlace> {
    let place = |label: &u16| {
        let before = was(*label);
        let quiet = ::discovery::quiet(old, *label, before, rtt(*label), held);
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
    /// labels that stay. `have`: the peers' rows as they are, if there are to be states of paths.
    pub(super) fn prepare_paths(&self, have: impl FnOnce() -> Result<Rows>, want: &Rows) -> Result<()> {
        if self.config.balance.keeps().is_none() {
            return Ok(());
        }
        let (have, want) = (peers(&have()?), peers(want));
        // What an agent left that was killed is of a peer that is none, and no other's. A scheme does not read what another one wrote.
        let stays = self.edge.config()?.balance.is_scheme_of(&self.config.balance.conf(self.config.tcp_only));
        self.edge.forget_other_paths(&have.keys().copied().filter(|_| stays).collect())?;
        self.edge.keep_paths(&want.iter().map(|(id, peer)| (*id, peer.schedule)).collect())?;
        for (id, new) in want {
            let Some(old) = have.get(&id) else { continue };
            let known = self.edge.paths_of_schedule(id)?;
            if known.is_some_and(|known| known != new.schedule) {
                let was = |label| old.labels().contains(&label).then_some(label);
                let places = places(old.labels(), new.labels(), was, |_| None, self.held());
                self.edge.rearrange_paths(id, (old.schedule, new.schedule), &places)?;
            }
        }
        Ok(())
    }

    /// Rows of peers that are none any more, or of a scheme that is not in force, go.
    pub(super) fn forget_paths(&self, peers: &Rows) -> Result<()> {
        let ids = match self.config.balance.keeps() {
            Some(_) => peers.keys().filter_map(|key| u32::from_bytes(key)).collect(),
            None => BTreeSet::new(),
        };
        Ok(self.edge.forget_other_paths(&ids)?)
    }

    /// So long a peer may keep what it has to tell of a path, if it is configured as this edge is.
    fn held(&self) -> Time {
        self.config.balance.conf(self.config.tcp_only).relay()
    }

    /// Discovery has found other paths to a peer: what is known stays with each path.
    pub(super) fn move_paths(&self, id: u32, old: &Peer, new: &Peer, change: &Change) -> Result<()> {
        if self.config.balance.keeps().is_none() {
            return Ok(());
        }
        let (before, after) = (old.labels(), new.labels());
        let rtt = |label| change.paths.iter().find(|path| path.port == label)?.rtt;
        let places = places(before, after, |label| label_before(before, change, label), rtt, self.held());
        if before == after && all_stay(&places) {
            return Ok(());
        }
        Ok(self.edge.rearrange_paths(id, (old.schedule, new.schedule), &places)?)
    }

    /// For `ctl paths` and metrics, in the order of the schedule: the paths that the scheme takes.
    pub(super) fn known_paths(&self, peer: &PeerRule, id: Option<u32>) -> Vec<KnownPath> {
        let labels = Peer::default().with_labels(&labels_from(&self.config, &self.learnt, peer).0);
        let known = id.and_then(|id| self.edge.known_paths(id).ok().flatten());
        let Some(known) = known.filter(|known| known.schedule == labels.schedule) else { return Vec::new() };
        let (conf, now) = (self.config.balance.conf(self.config.tcp_only), monotonic_ns());
        let path = |(label, state): (&u16, &edge::PathState)| KnownPath {
            label: *label,
            weight: f64::from(state.weight) / f64::from(WEIGHT_ONE),
            congested: state.is_congested(&conf, now),
            marks: state.marks,
            marked_seconds: state.age(now).filter(|_| state.marks > 0).map(|age| age.as_secs_f64()),
            late_seconds: state.late().map(|late| late.as_secs_f64()),
        };
        labels.labels().iter().zip(&known.paths).take(conf.takes()).map(path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::fabric::Fabric;
    use std::net::IpAddr;

    /// Of feedback where nothing is known of the round trip.
    const LONG: Time = Time::from_ms(33);

    #[test]
    fn what_is_known_stays_with_labels_that_stay() {
        let was = |label| [7, 8, 9].contains(&label).then_some(label);
        let place = |was| PathPlace { was, quiet: None };
        assert_eq!(
            places(&[7, 8, 9], &[9, 7, 5], was, |_| None, Time::ZERO),
            [place(Some(2)), place(Some(0)), place(None)]
        );
        // The same low byte, but another path's until now.
        let anew = PathPlace { was: None, quiet: Some(LONG) };
        assert_eq!(places(&[7, 8, 9], &[0x107, 8], was, |_| None, Time::ZERO), [anew, place(Some(1))]);
    }

    #[test]
    fn a_path_is_quiet_for_as_long_as_the_peer_may_hold_what_it_heard_of_another() {
        let quiet = |rtt: Time, held| {
            let places = places(&[7, 8], &[0x107, 8], |label| (label == 8).then_some(8), |_| Some(rtt), held);
            (places[0].quiet, places[1].quiet)
        };
        let (short, long) = (Time::from_us(50), Time::from_ms(2));
        assert_eq!([quiet(short, long), quiet(long, short)], [(Some(long), None); 2]);
    }

    #[test]
    fn a_path_that_took_a_dead_ones_port_begins_anew() {
        let stay = places(&[7, 8], &[7, 8], Some, |_| None, Time::ZERO);
        assert!(all_stay(&stay));
        let taken = places(&[7, 8], &[7, 8], |label| (label == 8).then_some(8), |_| None, Time::ZERO);
        assert!(!all_stay(&taken));
        assert_eq!(taken[0], PathPlace { was: None, quiet: Some(LONG) });
    }

    /// Paths come, go and get other ports, as discovery itself has it: states go where their paths go.
    #[test]
    fn what_is_known_stays_with_the_path_whatever_port_it_has() {
        let (mut fabric, mut labels) = (Fabric::new(5), vec![50_000, 50_001]);
        let mut hops: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
        let (mut followed, mut moved) = (0, 0);
        for (step, up) in [0b1111u8, 0b1011, 0b1111, 0b0110, 0b1111].into_iter().enumerate() {
            // Another hash after each step: a path has other ports than before.
            for change in fabric.changes(up, 40_503 + 2 * step as u16) {
                let new = crate::discovery::schedule(&labels, &change);
                let found = places(&labels, &new, |label| label_before(&labels, &change, label), |_| None, Time::ZERO);
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
