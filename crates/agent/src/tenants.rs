//! What the agent does for guests' shares of the uplink, and says of them.

use super::error::Result;
use super::reconcile::Agent;
use agent_api::config::{Config, Shares};
use agent_api::protocol::{TenantGuest, Tenants};
use edge::hygenicc::Law;
use edge::names::Names;
use kernel::state::quota::{TallyKey, TABLE_PAIRS, TALLY_TABLE};
use kernel::state::Port;
use kernel::{htb, MAX_PAIRS};

/// Uplinks, by ifindex and name, where what exceeds a share cannot wait although it is to: why, and the remedy.
pub(super) fn cannot_wait(config: &Config, uplinks: &[(u32, String)]) -> Vec<String> {
    if config.tenants.is_none_or(|shares| shares.backlog == 0) {
        return Vec::new();
    }
    let qdiscs = match htb::qdiscs() {
        Ok(qdiscs) => qdiscs,
        Err(e) => return vec![format!("cannot list qdiscs, so what exceeds a guest's share is dropped: {e}")],
    };
    let has_fq = |ifindex: u32| qdiscs.iter().any(|q| q.ifindex == ifindex && q.kind == "fq");
    let without = uplinks.iter().filter(|(ifindex, _)| !has_fq(*ifindex));
    let told = without.map(|(_, name)| {
        format!(
            "uplink {name}: no fq there keeps to departure times, so what exceeds a guest's share is dropped; \
             `tc qdisc replace dev {name} root fq`, or tenants.hold = \"drop\""
        )
    });
    told.collect()
}

impl Agent {
    /// Can segments wait for their turn, if they are to? Departure times are kept to by an fq on every uplink.
    pub(super) fn can_wait(&self, problems: &mut Vec<String>) -> bool {
        if self.config.tenants.is_none_or(|shares| shares.backlog == 0) {
            return false;
        }
        let without = cannot_wait(&self.config, &self.resolved.uplinks);
        let all_can = without.is_empty();
        problems.extend(without);
        all_can
    }

    /// Has the data path's timer set rates; also where it did, and does no more.
    pub(super) fn keep_shares(&mut self) -> Result<()> {
        if self.config.tenants.is_none() {
            self.ticks = None;
            return Ok(());
        }
        let ticks = self.edge.sharing()?.ticks;
        if self.ticks.is_none_or(|last| last == ticks) {
            self.edge.begin_shares()?;
        }
        self.ticks = Some(ticks);
        Ok(())
    }

    /// `tenants`; `None` where guests send as they like.
    pub(super) fn tenants(&self) -> Result<Option<Tenants>> {
        let Some(Shares { conf, .. }) = self.config.tenants else { return Ok(None) };
        let bps = |rate: u64| rate.saturating_mul(8);
        let mut guests = Vec::new();
        for (&ifindex, &number) in &self.shares {
            let Some(interface) = self.interfaces.get(&ifindex) else { continue };
            let port: Port = self.edge.port(ifindex)?.unwrap_or_default();
            let share = self.edge.share(number)?.filter(|share| share.ifindex == ifindex).unwrap_or_default();
            let b = share.bucket;
            guests.push(TenantGuest {
                interface: interface.name.clone(),
                ifindex,
                network: port.vni,
                weight: (port.share >> 16) as u16,
                active: b.active != 0,
                rate_bps: if b.active != 0 { bps(b.rate) } else { 0 },
                fair_bps: if b.active != 0 { bps(b.fair) } else { 0 },
                alpha: f64::from(b.alpha) / 65_536.0,
                marks: share.marks,
                segments: share.segments,
                bytes: share.bytes,
                dropped_segments: share.dropped,
                delayed_segments: share.delayed,
                refused_segments: share.refused,
            });
        }
        guests.sort_by(|a, b| a.interface.cmp(&b.interface));
        let sharing = self.edge.sharing()?;
        let pairs = self.edge.tallies()?.get(&TallyKey::new(TABLE_PAIRS, TALLY_TABLE, 0)).map_or(0, |t| t.flows.max(0));
        let law = Law::table().iter().find(|law| law.value.number() == conf.law).map_or("?", |law| law.name);
        Ok(Some(Tenants {
            law: law.into(),
            hold: if self.waits { "delay" } else { "drop" }.into(),
            uplink_bps: bps(conf.uplink),
            minimum_bps: bps(conf.least),
            interval_seconds: conf.interval as f64 / 1e9,
            ticks: sharing.ticks,
            mean_late_seconds: sharing.late_ns as f64 / sharing.ticks.max(1) as f64 / 1e9,
            late_seconds: sharing.late_ns as f64 / 1e9,
            pairs: pairs as u32,
            max_pairs: MAX_PAIRS,
            admission: (conf.refuse != 0)
                .then_some((f64::from(conf.refuse) / 65_536.0, f64::from(conf.admit) / 65_536.0)),
            guests,
        }))
    }
}
