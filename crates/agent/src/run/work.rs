//! What is done again and again, and takes no more than its share of the time.

use super::budget::SHARE;
use super::wait::{cpu_time, now};
use super::{Runner, MAX_PAUSE, SWEEP_STEP};
use agent_api::config::PeerRule;
use kernel::state::address;
use kernel::{monotonic_ns, Ticked};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use tracing::error;

impl Runner {
    /// Forgets idle flows, a step at a time, so that with the ticks it takes no more than its share of the time. At the end, looks whether
    /// everything is still as it should be: netlink can lose messages.
    pub(super) async fn sweep(&mut self) {
        let before = cpu_time();
        let (mut sweep, mut took) = self.sweep.take().unwrap_or_else(|| {
            self.last_sweep = now();
            self.budget.begin_sweep();
            Default::default()
        });
        let congestion = self.agent.config.congestion.as_ref();
        let done = self.agent.edge.sweep_on(&mut sweep, monotonic_ns(), SWEEP_STEP, congestion);
        let (end, step) = (now(), cpu_time().saturating_sub(before));
        let rest = self.budget.swept(step);
        took += step;
        match done {
            Ok(None) => {
                self.sweep = Some((sweep, took));
                self.next_sweep = end + rest;
                return;
            }
            Ok(Some(swept)) => {
                self.tally.expired += swept.expired as u64;
                self.agent.swept = swept;
            }
            Err(e) => error!("{e}"),
        }
        let idle = Duration::from_nanos(self.agent.config.flow_idle_ns);
        let pause = (idle / 8).clamp(Duration::from_secs(1), MAX_PAUSE).max(SHARE * took).max(rest);
        self.next_sweep = end + pause;
        self.look_at_peers();
        if self.agent.expire_mtus() {
            self.look_soon();
        }
        if end >= self.next_look {
            self.agent.netlink.forget(); // guests' own ends change without a word
            self.look_soon();
            self.next_look = end + (idle / 8).clamp(Duration::from_secs(1), Duration::from_secs(30));
        }
    }

    /// Who of the peers does not answer now, or is no edge.
    fn look_at_peers(&mut self) {
        let agent = &mut self.agent;
        let follows = agent.config.controller.is_some() && agent.learnt.followed.revision > 0;
        let unknown = |peer: &&PeerRule| follows && !peer.plain_vxlan && !agent.learnt.followed.names(&peer.name);
        agent.silent.look_for_strangers(agent.config.peers.iter().filter(unknown));
        if agent.config.plain {
            return;
        }
        let Ok(ids) = agent.edge.peers() else { return };
        let ids: BTreeMap<IpAddr, u32> = ids.into_iter().map(|(id, peer)| (address(peer.tunnel.remote), id)).collect();
        let heard = |peer: &PeerRule| agent.edge.heard(*ids.get(&peer.address)?).ok().flatten();
        let edges = agent.config.peers.iter().filter(|peer| !peer.plain_vxlan);
        let doubted = agent.silent.look(edges.filter_map(|peer| Some((peer, heard(peer)?))), monotonic_ns());
        if let Err(e) = agent.ask_peers(&doubted) {
            error!("{e}");
        }
    }

    /// Looks for connections whose guests are to hear something. Takes at most its share of the time.
    pub(super) async fn tick(&mut self) {
        let (start, at, before) = (now(), monotonic_ns(), cpu_time());
        let ticked = self.agent.edge.tick();
        let pause = self.budget.ticked(cpu_time().saturating_sub(before));
        self.next_tick = start + ticked.as_ref().map_or(Ticked::MOST, |ticked| ticked.pause(at)).max(pause);
        match ticked {
            Ok(ticked) if ticked.full => {
                // What was not looked at is still due.
                self.tally.full_ticks += 1;
                self.take_events().await;
                self.next_tick = start + pause;
            }
            Ok(_) => {}
            Err(e) => error!("{e}"),
        }
    }
}
