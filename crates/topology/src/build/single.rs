//! Builder of the single non-blocking switch.

use super::{at_least, check_wire, Draft, Size};
use crate::error::TopologyError;
use crate::graph::Topology;
use units::{BitRate, Time};

/// All hosts on one switch, `switch1`: the non-blocking fabric that papers call "optimal".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleSwitch {
    pub hosts: u32,
    pub host_rate: BitRate,
    pub host_delay: Time,
}

impl SingleSwitch {
    /// # Errors
    /// No host or too many of them; a rate or delay out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        at_least("hosts", self.hosts, 1)?;
        check_wire(("host_rate", self.host_rate), ("host_delay", self.host_delay))?;
        let hosts = u64::from(self.hosts);
        Size { hosts, switches: 1, leaves: 1, links: hosts, fields: "hosts" }.check()?;
        let mut draft = Draft::with_hosts(hosts, self.host_rate, self.host_delay, |_| self.hosts);
        draft.switch("switch1".into(), 0);
        Ok(draft.finish())
    }
}
