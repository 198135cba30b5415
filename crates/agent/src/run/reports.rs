//! Switches' reports of drops, as far as they wait for something.

use super::{cpu_time, now, Runner};
use crate::error::{Error, Result};
use crate::reports::Reports;
use agent_api::config::Config;
use std::time::Instant;

/// Who sends reports keeps the agent busy for no more than a fifth of the time.
const REST: u32 = 4;

/// Listens, where the configuration says so.
pub(super) fn bind(config: &Config) -> Result<Option<Reports>> {
    let Some(wanted) = &config.reports else { return Ok(None) };
    Reports::bind(wanted, now()).map(Some).map_err(|e| {
        let remedy = "give fastlane.reports a port that nobody has";
        Error::Unresolved(format!("cannot listen for drop reports at {}: {e}; {remedy}", wanted.at))
    })
}

/// Until there are some, not before `time`.
pub(super) async fn there(reports: &Option<Reports>, time: Instant) {
    let Some(reports) = reports else { return std::future::pending().await };
    tokio::time::sleep_until(time.into()).await;
    reports.readable().await;
}

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
