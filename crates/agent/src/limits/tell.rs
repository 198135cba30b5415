//! How limits fare.

use super::super::attached::Attached;
use super::{Limited, Wanted};
use agent_api::config::{Config, LawKind, Pacing};
use agent_api::protocol;
use edge::limiter::Law;
use kernel::htb::{self, Found};
use kernel::state::limiter::LIMITER_OUT;
use kernel::{monotonic_ns, KernelEdge};
use std::collections::BTreeMap;
use units::Bytes;

/// `selvedge ctl limits`.
pub(crate) fn tell(config: &Config, edge: &KernelEdge, attached: &Attached, limited: &Limited) -> Vec<protocol::Limit> {
    let mut found: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
    for (device, _) in limited.classes.values() {
        found.entry(*device).or_insert_with(|| htb::classes(*device).unwrap_or_default());
    }
    limited.wanted.iter().map(|w| tell_one(w, config, edge, attached, limited, &found)).collect()
}

fn tell_one(
    w: &Wanted,
    config: &Config,
    edge: &KernelEdge,
    attached: &Attached,
    limited: &Limited,
    found: &BTreeMap<u32, Vec<Found>>,
) -> protocol::Limit {
    let at = limited.classes.get(&w.key);
    let class = at.and_then(|(device, id)| found.get(device)?.iter().find(|found| found.class.id == *id));
    let counts = edge.limiter_counts(&w.key).unwrap_or_default();
    // A queue limits nothing unless the programs send segments there.
    let mut roles = limited.attach.iter().filter(|at| at.0 == w.key.ifindex);
    let attached = roles.all(|at| attached.has(*at));
    let schedule = at.and_then(|_| edge.limiter(&w.key).unwrap_or_default()).filter(|row| row.rate > 0);
    let backlog = match &schedule {
        Some(schedule) => schedule.scheduled(monotonic_ns()),
        None => class.map_or(0, |class| class.backlog),
    };
    let pacing = if at.is_some() && schedule.is_none() { Pacing::Htb } else { config.limits.pacing };
    let (k1, k2) = match w.law {
        Law::None => (Bytes(0), Bytes(0)),
        Law::Ecn { k } | Law::Dem { k } => (k, Bytes(0)),
        Law::Spring(s) => (s.k1, s.k2),
    };
    let kind = if edge.lawless().is_some() { LawKind::None } else { w.kind };
    protocol::Limit {
        interface: w.interface.clone(),
        ifindex: w.key.ifindex,
        direction: if w.key.direction == LIMITER_OUT { "egress" } else { "ingress" }.into(),
        tenant: w.tenant.clone().unwrap_or_default(),
        in_force: attached && (class.is_some() || schedule.is_some()),
        pacing: pacing.name().into(),
        rate_bps: w.rate.guarantee.as_bps(),
        ceiling_bps: w.rate.ceiling.as_bps(),
        law: kind.name().into(),
        k1_bytes: k1.get(),
        k2_bytes: k2.get(),
        backlog_bytes: backlog,
        backlog_segments: class.map_or(0, |class| class.segments),
        queue_delay_seconds: backlog as f64 * 8.0 / w.rate.guarantee.as_bps() as f64,
        sent_bytes: schedule.as_ref().map_or(class.map_or(0, |class| class.sent_bytes), |schedule| schedule.sent),
        dropped_segments: schedule.as_ref().map_or(class.map_or(0, |class| class.dropped), |schedule| schedule.dropped),
        marked_segments: counts.marked,
        window_cuts: counts.cuts,
        windows_lowered: counts.lowered,
        acks: counts.acks,
        unread_segments: counts.unread,
        untracked_segments: counts.untracked,
    }
}
