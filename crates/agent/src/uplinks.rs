//! Peers leave uplinks that have failed for others that have not.

use super::desired::{choose, Resolved};
use super::error::Result;
use super::interfaces::Interfaces;
use super::reconcile::Agent;
use super::rows::{row, Rows};
use super::tables::Changes;
use kernel::state::{address, Peer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tracing::warn;

impl Resolved {
    /// Chooses uplinks anew, after some of them have failed or come back.
    pub(super) fn avoid_down(&mut self, interfaces: &Interfaces) {
        for (peer, ways) in self.peers.iter_mut().zip(&self.ways) {
            peer.1 = choose(ways, interfaces);
        }
    }
}

impl Agent {
    /// Of these interfaces nothing passes any more: their peers get other uplinks, at once and without a look at anything else. Flows
    /// follow with their next packet, because the data path looks up a peer's row for each.
    pub(super) fn leave(&mut self, failed: &BTreeSet<u32>) -> Result<()> {
        for ifindex in failed {
            if let Some(interface) = self.interfaces.get_mut(ifindex) {
                interface.up = false;
            }
        }
        self.settled = None; // or a link that comes back at once would leave things as they are now
        self.resolved.avoid_down(&self.interfaces);
        let chosen: BTreeMap<IpAddr, u32> = self
            .config
            .peers
            .iter()
            .zip(&self.resolved.peers)
            .map(|(peer, (_, ifindex))| (peer.address, *ifindex))
            .collect();
        let (mut have, mut want) = (Rows::new(), Rows::new());
        for (id, peer) in self.edge.peers()?.into_iter().filter(|(_, peer)| failed.contains(&peer.ifindex)) {
            let ifindex = chosen.get(&address(peer.tunnel.remote)).copied().unwrap_or(peer.ifindex);
            have.insert(row(&id), row(&peer));
            want.insert(row(&id), row(&Peer { ifindex, ..peer }));
        }
        let mut changes = Changes::default();
        self.tables.peers.upsert(&have, &want, &mut changes)?;
        let name = |ifindex: &u32| self.interfaces.get(ifindex).map_or("?", |i| i.name.as_str());
        let names = failed.iter().map(name).collect::<Vec<_>>().join(", ");
        let moved = changes.changed;
        warn!(moved, "uplink {names}: it has failed; {moved} of its {} peers have another now", have.len());
        Ok(())
    }

    /// Failures of the uplinks that there are now are to be told at once; of a single one there is nothing that could follow.
    pub(super) fn watch_uplinks(&mut self, problems: &mut Vec<String>) {
        let uplinks: BTreeSet<u32> = self.resolved.uplinks.iter().map(|(ifindex, _)| *ifindex).collect();
        let uplinks = if uplinks.len() > 1 { uplinks } else { BTreeSet::new() };
        if let Err(e) = self.carriers.follow(uplinks) {
            problems.push(format!("failures of uplinks are noticed late: cannot watch them: {e}"));
        }
    }
}
