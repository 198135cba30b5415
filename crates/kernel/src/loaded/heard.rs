//! What peers were heard to understand.

use super::walk::{Walk, CHUNK};
use super::{KernelEdge, Result};
use crate::state::Plain;
use wire::encap::Heard;

impl KernelEdge {
    /// What the peer with that number was heard to understand; `None` for a number that no peer can have.
    pub fn heard(&self, id: u32) -> Result<Option<Heard>> {
        self.lookup("heard", id.as_bytes())
    }

    /// The same of all peers with numbers up to `last`, in their order.
    pub fn all_heard(&self, last: u32) -> Result<Vec<(u32, Heard)>> {
        let map = self.map("heard")?;
        let (mut walk, mut found) = (Walk::default(), Vec::new());
        // An array: from number to number.
        while let Some(entries) = walk.step(&map, last.saturating_add(1).min(CHUNK))? {
            found.extend(entries.filter_map(|(key, value)| u32::from_bytes(key).zip(Heard::from_bytes(value))));
            if found.last().is_some_and(|(id, _)| *id >= last) {
                break;
            }
        }
        found.retain(|(id, _)| *id <= last);
        Ok(found)
    }
}
