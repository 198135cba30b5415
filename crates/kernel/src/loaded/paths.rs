//! What is known of the paths to each peer, and what the peer is still to be told: rows that the data path fills.

use super::{Error, KernelEdge, Result};
use crate::monotonic_ns;
use crate::state::{PeerPaths, Plain, PEER_RELAY_BYTES};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::{BTreeMap, BTreeSet};
use units::Time;

/// Where a path of the new schedule was in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `None`: nothing is known of the path.
    pub was: Option<usize>,
    /// The index in its label named another path: feedback that is under way is about that one. For two of these round trips.
    pub quiet: Option<Time>,
}

impl KernelEdge {
    /// These peers have rows afterwards; new rows are empty. `schedules`: their numbers, and those of their schedules.
    pub fn keep_paths(&self, schedules: &BTreeMap<u32, u32>) -> Result<()> {
        let there = self.peers_with_paths()?;
        for (id, &schedule) in schedules.iter().filter(|(id, _)| !there.contains(id)) {
            // Who has the other row is done.
            self.update("relays", id.as_bytes(), &[0; PEER_RELAY_BYTES])?;
            self.update("path_states", id.as_bytes(), PeerPaths { schedule, ..PeerPaths::default() }.as_bytes())?;
        }
        Ok(())
    }

    /// Only these peers have rows.
    pub fn forget_other_paths(&self, ids: &BTreeSet<u32>) -> Result<()> {
        for id in self.peers_with_paths()?.difference(ids) {
            self.delete("path_states", id.as_bytes())?;
            self.delete("relays", id.as_bytes())?;
        }
        Ok(())
    }

    /// Numbers of those that have rows.
    pub fn peers_with_paths(&self) -> Result<BTreeSet<u32>> {
        Ok(self.map("path_states")?.keys().filter_map(|key| u32::from_bytes(&key)).collect())
    }

    /// What is known of the paths to the peer with that number, by place in its schedule; `None`: the scheme keeps nothing.
    pub fn known_paths(&self, id: u32) -> Result<Option<PeerPaths>> {
        let value = self.map("path_states")?.lookup(id.as_bytes(), MapFlags::LOCK);
        let value = value.map_err(|e| Error::Bpf("read a map", e))?;
        Ok(value.and_then(|bytes| PeerPaths::from_bytes(&bytes)))
    }

    /// The number of the schedule that this is of; `None`: nothing is known.
    pub fn paths_of_schedule(&self, id: u32) -> Result<Option<u32>> {
        Ok(self.known_paths(id)?.map(|known| known.schedule))
    }

    /// The schedule of the peer with that number becomes another: what is known of a path goes along with it. To be called just before
    /// the schedule changes; feedback that comes in between is lost. `from`, `to`: numbers of the schedules. What is there of another
    /// schedule than `from` is forgotten.
    pub fn rearrange_paths(&self, id: u32, (from, to): (u32, u32), places: &[Place]) -> Result<()> {
        let Some(old) = self.known_paths(id)? else { return Ok(()) };
        let (mut new, now) = (PeerPaths { schedule: to, ..PeerPaths::default() }, monotonic_ns());
        for (state, place) in new.paths.iter_mut().zip(places) {
            let was = place.was.filter(|_| old.schedule == from).and_then(|was| old.paths.get(was));
            *state = was.copied().unwrap_or_default();
            if let Some(rtt) = place.quiet {
                state.bind(rtt, now);
            }
        }
        let written = self.map("path_states")?.update(id.as_bytes(), new.as_bytes(), MapFlags::EXIST | MapFlags::LOCK);
        written.map_err(|e| Error::Bpf("update a map", e))
    }
}
