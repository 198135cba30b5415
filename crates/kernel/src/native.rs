//! What the loader shares with the data path's C.

use crate::state::limiter::Limiter;
use crate::state::Flow;

extern "C" {
    fn sv_kernel_flow_expired(flow: *const Flow, idle: u64, now: u64) -> std::ffi::c_int;
    fn sv_kernel_pacer_backlog(next: u64, rate: u64, now: u64) -> u32;
    fn sv_kernel_state_version() -> u32;
    fn sv_kernel_pair_own(seed: u64, own: *const u32) -> u32;
    #[cfg(test)]
    fn sv_kernel_counters() -> u32;
}

/// Has the flow, idle since its last packet, reached its end? Times in ns on the same clock.
pub(crate) fn flow_expired(flow: &Flow, idle: u64, now: u64) -> bool {
    // SAFETY: reads one valid struct, the mirror of struct sv_flow.
    unsafe { sv_kernel_flow_expired(flow, idle, now) != 0 }
}

/// Bytes that wait in a schedule by which the next segment may leave at `next`. Times in ns on the same clock, `rate` in bytes
/// per second.
pub(crate) fn pacer_backlog(next: u64, rate: u64, now: u64) -> u32 {
    // SAFETY: integers only.
    unsafe { sv_kernel_pacer_backlog(next, rate, now) }
}

impl Limiter {
    /// Bytes that wait in the schedule at `now`, ns of CLOCK_MONOTONIC.
    pub fn scheduled(&self, now: u64) -> u64 {
        pacer_backlog(self.next_ns, self.rate, now).into()
    }
}

/// What stands for a guest's own address in the key of its pairs.
pub(crate) fn pair_own(seed: u64, own: &[u32; 4]) -> u32 {
    // SAFETY: reads the four words of a valid array.
    unsafe { sv_kernel_pair_own(seed, own.as_ptr()) }
}

/// The version of the maps' layout: state that another version pinned cannot be adopted.
pub fn state_version() -> u32 {
    // SAFETY: a function without arguments that returns a constant.
    unsafe { sv_kernel_state_version() }
}

#[cfg(test)]
mod answers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Counter;

    #[test]
    fn every_counter_has_a_name() {
        // SAFETY: a function without arguments that returns a constant.
        assert_eq!(Counter::ALL.len() as u32, unsafe { sv_kernel_counters() });
    }

    #[test]
    fn expiry_is_the_data_paths() {
        let flow = Flow { last_seen: 1000, phase: 1, ..Flow::default() };
        assert!(!flow_expired(&flow, 500, 1500));
        assert!(flow_expired(&flow, 500, 1501));
    }
}
