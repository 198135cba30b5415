//! What the agent counts itself.

use super::reports::Stats;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) reloads: u64,
    pub(super) reload_failures: u64,
    /// Empty if the last reload was taken.
    pub(super) reload_error: String,
    pub(super) refused: u64,
    pub(super) expired: u64,
    pub(super) sent: Sent,
    pub(super) reports: Stats,
    /// Ticks that found no room for events.
    pub(super) full_ticks: u64,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) facks: u64,
    pub(super) window_updates: u64,
    /// Counts of marks, in packets of their own.
    pub(super) marks: u64,
    /// Timeouts inferred that made the guest retransmit.
    pub(super) timeouts: u64,
    pub(super) failures: u64,
}
