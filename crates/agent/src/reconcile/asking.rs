//! Peers of whom nothing is heard are asked ([`crate::asking`]).

use super::{Agent, Result};
use crate::asking::TTL;
use crate::labels::labels_from;
use kernel::monotonic_ns;
use kernel::probes::{self, Sending};
use kernel::state::{Config, CONFIG_DISCOVERS};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

impl Agent {
    /// One question to each. What cannot be sent has no answer. Others' replies wake the agent only while somebody is asked.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn ask_peers(&mut self, peers: &BTreeSet<IpAddr>) -> Result<()> {
        let hears = self.config.discovery.is_some() || self.silent.asks();
        let config = self.edge.config()?;
        if hears != (config.flags & CONFIG_DISCOVERS != 0) {
            self.edge.set_config(&Config { flags: config.flags ^ CONFIG_DISCOVERS, ..config })?;
        }
        if peers.is_empty() {
            return Ok(());
        }
        self.asking.round = self.asking.round.wrapping_add(1);
        let Ok(sending) = Sending::open() else { return Ok(()) };
        for (peer, &(local, ifindex)) in self.config.peers.iter().zip(&self.resolved.peers) {
            if peers.contains(&peer.address) {
                let port = self.asking.port(&labels_from(&self.config, &self.learnt, peer).0);
                let _ = self.ask(&sending, (local, peer.address), ifindex, port);
            }
        }
        Ok(())
    }

    fn ask(&self, sending: &Sending, (local, remote): (IpAddr, IpAddr), ifindex: u32, port: u16) -> io::Result<usize> {
        let (now, udp_port) = (monotonic_ns(), self.config.udp_port);
        let id = self.asking.id(remote, port, now);
        let probe = probes::Probe { local, remote, udp_port, port, ttl: TTL, id, time: (now >> 6) as u32 };
        sending.send(&probe, ifindex)
    }
}
