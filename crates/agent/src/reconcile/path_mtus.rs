//! MTUs of paths ([`crate::pmtu`]): whose messages count, and rows that follow.

use super::{Agent, Result};
use crate::desired::overhead;
use crate::rows::{row, Rows};
use crate::tables::Changes;
use kernel::monotonic_ns;
use kernel::state::{address, Peer, VERSION_2};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracing::info;

/// A packet that did not fit was sent a moment ago, seconds; the data path notes no more than seconds.
const LATELY: f64 = 15.0;
/// Source ports of packets without a label, by a hash of their flow (docs/wire.md).
const FLOW_PORTS: std::ops::Range<u16> = 0x8000..0xc000;

/// Is a source port one that packets to the peer have now?
fn is_plausible(peer: &Peer, port: u16) -> bool {
    peer.labels().contains(&port) || FLOW_PORTS.contains(&port)
}

impl Agent {
    /// What an earlier agent has learned holds for as long again.
    pub(crate) fn adopt_mtus(&mut self) -> Result<()> {
        let now = monotonic_ns();
        for (_, peer) in self.tables.kept()?.peers {
            self.path_mtus.adopt(address(peer.tunnel.remote), peer.mtu, now);
        }
        Ok(())
    }

    /// Reads what routers say, a number of messages at a time.
    pub(crate) fn hear_mtus(&mut self) -> Result<()> {
        let (heard, now) = (self.path_mtus.hear(), monotonic_ns());
        let udp_port = self.config.udp_port;
        let mut rows: Option<BTreeMap<IpAddr, (u32, Peer)>> = None;
        let (mut have, mut want) = (Rows::new(), Rows::new());
        for (router, quoted) in heard {
            self.path_mtus.stats.ignored += 1;
            let ours = self.resolved.peers.iter().any(|(local, _)| *local == quoted.local);
            if !ours || quoted.udp_port != udp_port {
                continue;
            }
            if rows.is_none() {
                let all = self.edge.peers()?.into_iter();
                rows = Some(all.map(|(id, peer)| (address(peer.tunnel.remote), (id, peer))).collect());
            }
            let Some((id, peer)) = rows.as_ref().and_then(|rows| rows.get(&quoted.remote)).copied() else { continue };
            if address(peer.tunnel.local) != quoted.local || !is_plausible(&peer, quoted.port) {
                continue;
            }
            // Of plain VXLAN peers nobody notes when they were sent something.
            let sent = || Some(self.edge.heard(id).ok()??.sent_seconds(now)? <= LATELY);
            if peer.tunnel.version == VERSION_2 && sent() != Some(true) {
                continue;
            }
            let overhead = overhead(quoted.remote);
            let most = self.interfaces.get(&peer.ifindex).map_or(0, |uplink| uplink.mtu.saturating_sub(overhead));
            if !self.path_mtus.told(quoted.remote, quoted.mtu.saturating_sub(overhead), most, now) {
                continue;
            }
            self.path_mtus.stats.ignored -= 1;
            self.path_mtus.stats.changes += 1;
            let mtu = self.path_mtus.of(quoted.remote).unwrap_or_default();
            have.insert(row(&id), row(&peer));
            want.insert(row(&id), row(&Peer { mtu, ..peer }));
            let known = self.config.peers.iter().find(|known| known.address == quoted.remote);
            let name = known.map_or("?", |known| known.name.as_str());
            let outer = quoted.mtu;
            info!(
                peer = name,
                address = %router,
                "peer {name}: {router} says that packets of {outer} bytes pass: guests' may have {mtu} bytes, for ten minutes"
            );
        }
        self.tables.peers.upsert(&have, &want, &mut Changes::default())
    }

    /// True if a peer's MTU is as large as the uplink's again.
    pub(crate) fn expire_mtus(&mut self) -> bool {
        let peers = &self.config.peers;
        self.path_mtus.expire(monotonic_ns(), |address| peers.iter().any(|peer| peer.address == *address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_of_the_schedule_and_of_hashed_flows_are_plausible() {
        let peer = Peer::default().with_labels(&[50_001, 50_002]);
        let plausible = [50_001, 50_002, 0x8000, 0xbfff].map(|port| is_plausible(&peer, port));
        assert_eq!(plausible, [true; 4]);
        let others = [50_003, 0xc000, 0x7fff, 0].map(|port| is_plausible(&peer, port));
        assert_eq!(others, [false; 4]);
    }
}
