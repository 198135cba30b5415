//! Switches' reports of drops, as far as they wait for something.

use super::wait::{cpu_time, now};
use super::Runner;

/// Who sends reports keeps the agent busy for no more than a fifth of the time.
const REST: u32 = 4;

impl Runner {
    pub(super) fn hear_reports(&mut self) {
        let before = cpu_time();
        let agent = &self.agent;
        if let Some(reports) = &mut self.reports {
            reports.hear(now(), agent.config.udp_port, &mut self.tally.reports, |found| agent.hear_of_drop(found));
        }
        self.next_report = now() + REST * cpu_time().saturating_sub(before);
    }
}
