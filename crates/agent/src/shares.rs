//! Guests' shares of the uplink: which row each has, whether segments can wait, and how they stand.

use super::error::Result;
use super::interfaces::Interfaces;
use super::reconcile::Agent;
use super::rules::rule_for;
use agent_api::config::{Config, Shares};
use agent_api::protocol::{TenantGuest, Tenants};
use edge::hygenicc::Law;
use edge::names::Names;
use kernel::state::quota::{TallyKey, TABLE_PAIRS, TALLY_TABLE};
use kernel::state::{self, Port, MAX_SHARES};
use kernel::{htb, MAX_PAIRS};
use std::collections::{BTreeMap, BTreeSet};

/// Of guests' rows, by ifindex of their ports.
pub(crate) type Numbers = BTreeMap<u32, u16>;

/// A number for each guest that is held: the one it has, or the lowest that is free.
pub(crate) fn numbers(config: &Config, interfaces: &Interfaces, kept: &Numbers) -> Numbers {
    if config.tenants.is_none() {
        return Numbers::new();
    }
    let in_network = |i| rule_for(config, i).is_some_and(|rule| rule.network.is_some());
    let guests: Vec<u32> = interfaces.iter().filter(|(_, i)| in_network(i)).map(|(ifindex, _)| *ifindex).collect();
    let mut numbers: Numbers = guests.iter().filter_map(|ifindex| Some((*ifindex, *kept.get(ifindex)?))).collect();
    let taken: BTreeSet<u16> = numbers.values().copied().collect();
    let mut free = (1..=MAX_SHARES).filter(|number| !taken.contains(number));
    for ifindex in guests {
        if let std::collections::btree_map::Entry::Vacant(place) = numbers.entry(ifindex) {
            if let Some(number) = free.next() {
                place.insert(number);
            }
        }
    }
    numbers
}

/// The data path's row. `waits`: is there what keeps to departure times?
pub(crate) fn row_of(shares: Option<&Shares>, numbers: &Numbers, waits: bool) -> state::Tenants {
    let Some(shares) = shares else { return state::Tenants::default() };
    let backlog = if waits { shares.backlog } else { 0 };
    let numbers = numbers.values().max().copied().unwrap_or(0);
    state::Tenants { conf: shares.conf, backlog, numbers: u32::from(numbers), pad: 0 }
}

impl Agent {
    /// Can segments wait for their turn, if they are to? Departure times are kept to by an fq on every uplink.
    pub(super) fn can_wait(&self, problems: &mut Vec<String>) -> bool {
        if self.config.tenants.is_none_or(|shares| shares.backlog == 0) {
            return false;
        }
        let qdiscs = match htb::qdiscs() {
            Ok(qdiscs) => qdiscs,
            Err(e) => {
                problems.push(format!("cannot list qdiscs, so what exceeds a guest's share is dropped: {e}"));
                return false;
            }
        };
        let has_fq = |ifindex: u32| qdiscs.iter().any(|q| q.ifindex == ifindex && q.kind == "fq");
        let without: Vec<&str> =
            self.resolved.uplinks.iter().filter(|(ifindex, _)| !has_fq(*ifindex)).map(|(_, n)| n.as_str()).collect();
        problems.extend(without.iter().map(|name| {
            format!(
                "uplink {name}: no fq there keeps to departure times, so what exceeds a guest's share is dropped; \
                 `tc qdisc replace dev {name} root fq`, or tenants.hold = \"drop\""
            )
        }));
        without.is_empty()
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
            pairs: pairs as u32,
            max_pairs: MAX_PAIRS,
            guests,
        }))
    }
}
