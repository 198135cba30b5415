//! Paths to peers ([`crate::discovery`]): whom to trace, and schedules that follow what is found.

use super::{Agent, Result};
use crate::desired::numbers;
use crate::discovery::{schedule, Target, Tracer};
use crate::labels::with_schedule;
use crate::log::Limit;
use crate::rows::{row, Kept, Rows};
use crate::tables::Changes;
use ::discovery::{Change, Config};
use agent_api::config::PeerRule;
use agent_api::protocol::{Discovered, DiscoveredPath};
use kernel::monotonic_ns;
use kernel::state::{PEER_DISCOVERED, VERSION_2, VERSION_PLAIN};
use std::net::IpAddr;
use std::time::Instant;
use tracing::info;

/// A peer counts as heard lately for so many ticks of 1.07 s after the last frame.
const LATELY: u32 = 2;

impl Agent {
    /// Begins to trace, goes on, or ends, as the configuration says.
    pub(crate) fn follow_tracer(&mut self, kept: &Kept, problems: &mut Vec<String>) {
        let wanted: Option<&Config> = self.config.discovery.as_ref();
        if let Some(old) = self.tracer.take_if(|tracer| Some(tracer.config()) != wanted) {
            self.traced = old.stats;
        }
        if let (None, Some(config)) = (&self.tracer, wanted) {
            match Tracer::start(config, monotonic_ns(), self.traced) {
                Ok(tracer) => self.tracer = Some(tracer),
                Err(e) => problems.push(format!(
                    "paths are not discovered: raw sockets: {e}; give the agent CAP_NET_RAW, or set paths.discovery = false"
                )),
            }
        }
        let Some(tracer) = &mut self.tracer else { return };
        let peers = self.config.peers.iter().zip(numbers(&self.config, kept)).zip(&self.resolved.peers);
        let speaks = peers.filter(|((peer, _), _)| !peer.plain_vxlan);
        let udp_port = self.config.udp_port;
        tracer.set_targets(
            speaks
                .map(|((peer, id), &(local, ifindex))| (peer.address, Target { id, local, udp_port, ifindex }))
                .collect(),
        );
    }

    /// What an earlier agent had discovered stays until paths are discovered anew.
    pub(crate) fn adopt_paths(&mut self) -> Result<()> {
        if self.config.discovery.is_none() {
            return Ok(());
        }
        let kept = self.tables.kept()?;
        let found = kept.peers.iter().map(|(_, peer)| peer).filter(|peer| peer.flags & PEER_DISCOVERED != 0);
        self.learnt.discovered =
            found.map(|peer| (kernel::state::address(peer.tunnel.remote), peer.labels().to_vec())).collect();
        self.learnt.carry_over(&self.config);
        Ok(())
    }

    /// Peers that were heard lately are to be traced.
    pub(crate) fn look_who_was_heard(&mut self) -> Result<()> {
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let now = monotonic_ns();
        let Some(last) = tracer.targets().map(|(_, target)| target.id).max() else { return Ok(()) };
        let mut heard = self.edge.all_heard(last)?;
        heard.retain(|(_, heard)| heard.version(VERSION_2, now) == VERSION_2 && heard.age_ticks(now) <= LATELY);
        let is_heard = |target: &Target| heard.binary_search_by_key(&target.id, |(id, _)| *id).is_ok();
        let wanted: Vec<IpAddr> =
            tracer.targets().filter(|(_, target)| is_heard(target)).map(|(peer, _)| peer).collect();
        wanted.into_iter().for_each(|peer| tracer.want(now, peer));
        Ok(())
    }

    /// The schedules of peers whose paths have changed follow, at once and without a look at anything else.
    pub(crate) fn follow_paths(&mut self, lines: &mut Limit, now: Instant) -> Result<()> {
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let mut changed = Vec::new();
        while let Some((address, change)) = tracer.change() {
            let Some(place) = self.config.peers.iter().position(|peer| peer.address == address) else { continue };
            let old = self.learnt.discovered.get(&address);
            let new = schedule(old.unwrap_or(&self.config.labels), &change);
            if !new.is_empty() {
                self.learnt.discovered.insert(address, new);
            }
            if let Some(more) = lines.admit(now) {
                let peer = self.config.peers[place].name.as_str();
                info!(peer, "{}{more}", line(peer, &change));
            }
            changed.extend(tracer.target(address).map(|target| (place, target.id, change)));
        }
        let (mut want, mut changes) = (Rows::new(), Changes::default());
        for (place, id, change) in changed {
            let Some(peer) = self.edge.peer(id)? else { continue };
            let new = with_schedule(peer, &self.config, &self.learnt, &self.config.peers[place]);
            self.move_paths(id, &peer, &new, &change)?;
            want.insert(row(&id), row(&new));
        }
        self.tables.peers.upsert(&self.tables.peers.rows_of(&want)?, &want, &mut changes)
    }

    /// For `ctl paths`.
    pub(crate) fn discovered(&self, peer: &PeerRule) -> Option<Discovered> {
        let tracer = self.tracer.as_ref()?;
        let progress = tracer.progress(peer.address)?;
        let now = monotonic_ns();
        let paths = tracer.paths(peer.address).iter().map(|path| DiscoveredPath {
            index: path.index,
            port: path.port,
            hops: path.hops.iter().map(ToString::to_string).collect(),
            seen_seconds: tracer.age(now, path.seen).as_secs_f64(),
            rtt_seconds: path.rtt.map(|rtt| rtt.as_secs_f64()),
        });
        Some(Discovered {
            rounds: progress.rounds,
            traced_ports: progress.traced,
            answered_ports: progress.complete,
            paths: paths.collect(),
        })
    }

    /// The version that is spoken to the peer with that number now.
    pub(crate) fn wire_version(&self, peer: &PeerRule, id: Option<u32>) -> u8 {
        let most = if peer.plain_vxlan { VERSION_PLAIN } else { VERSION_2 };
        let heard = id.and_then(|id| self.edge.heard(id).ok().flatten());
        heard.map_or(most.min(1), |heard| heard.version(most, monotonic_ns()))
    }
}

/// Of one change, for the log.
fn line(name: &str, change: &Change) -> String {
    let Change { paths, new, gone, moved } = change;
    let mut line = format!("paths to peer {name}: {}", paths.len());
    for (n, what) in [(new.len(), "new"), (gone.len(), "gone"), (moved.len(), "under another index")] {
        if n > 0 {
            line += &format!(", {n} {what}");
        }
    }
    line
}
