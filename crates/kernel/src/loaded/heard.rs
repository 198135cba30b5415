//! What peers were heard to understand.

use super::{KernelEdge, Result};
use crate::state::Plain;
use wire::encap::Heard;

impl KernelEdge {
    /// What the peer with that number was heard to understand; `None` for a number that no peer can have.
    pub fn heard(&self, id: u32) -> Result<Option<Heard>> {
        self.lookup("heard", id.as_bytes())
    }

    /// The same of all numbers that a peer can have.
    pub fn all_heard(&self) -> Result<Vec<(u32, Heard)>> {
        self.entries("heard")
    }
}
