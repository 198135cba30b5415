//! What is known of the paths to each peer, and what the peer is still to be told: rows that the data path fills.

use super::{Error, KernelEdge, Result};
use crate::monotonic_ns;
use crate::state::{PeerPaths, Plain, PEER_RELAY_BYTES};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeSet;
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
    /// These peers have rows afterwards; new rows are empty.
    pub fn keep_paths(&self, ids: &BTreeSet<u32>) -> Result<()> {
        let there = self.peers_with_paths()?;
        for id in ids.difference(&there) {
            self.update("path_states", id.as_bytes(), PeerPaths::default().as_bytes())?;
            self.update("relays", id.as_bytes(), &[0; PEER_RELAY_BYTES])?;
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

    fn peers_with_paths(&self) -> Result<BTreeSet<u32>> {
        Ok(self.map("path_states")?.keys().filter_map(|key| u32::from_bytes(&key)).collect())
    }

    /// What is known of the paths to the peer with that number, by place in its schedule; `None`: the scheme keeps nothing.
    pub fn known_paths(&self, id: u32) -> Result<Option<PeerPaths>> {
        let value = self.map("path_states")?.lookup(id.as_bytes(), MapFlags::LOCK);
        let value = value.map_err(|e| Error::Bpf("read a map", e))?;
        Ok(value.and_then(|bytes| PeerPaths::from_bytes(&bytes)))
    }

    /// The schedule of the peer with that number becomes another: what is known of a path goes along with it, and feedback that comes
    /// meanwhile may be lost. To be called just before the schedule changes.
    pub fn rearrange_paths(&self, id: u32, places: &[Place]) -> Result<()> {
        let Some(old) = self.known_paths(id)? else { return Ok(()) };
        let (mut new, now) = (PeerPaths::default(), monotonic_ns());
        for (state, place) in new.paths.iter_mut().zip(places) {
            *state = place.was.and_then(|was| old.paths.get(was)).copied().unwrap_or_default();
            if let Some(rtt) = place.quiet {
                state.bind(rtt, now);
            }
        }
        let written = self.map("path_states")?.update(id.as_bytes(), new.as_bytes(), MapFlags::EXIST | MapFlags::LOCK);
        written.map_err(|e| Error::Bpf("update a map", e))
    }
}
