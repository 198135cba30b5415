//! How limits fare.

use super::super::attached::Attached;
use super::classes::{IN_BULK, IN_FIRST, OF_FIRST};
use super::limited::Limited;
use super::qdiscs::Pair;
use super::wanted::Wanted;
use agent_api::config::{Config, LawKind, Pacing};
use agent_api::pod::Pod;
use agent_api::protocol;
use edge::delays::{bound, Delays, BUCKETS};
use edge::limiter::Law;
use kernel::htb::{self, Found};
use kernel::state::limiter::LIMITER_OUT;
use kernel::{monotonic_ns, Inside, KernelEdge, Role};
use std::collections::BTreeMap;
use units::{Bytes, Time};

/// `selvedge ctl limits`.
pub(crate) fn tell(config: &Config, edge: &KernelEdge, attached: &Attached, limited: &Limited) -> Vec<protocol::Limit> {
    let mut found: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
    for (device, _) in limited.classes.values() {
        found.entry(*device).or_insert_with(|| htb::classes(*device).unwrap_or_default());
    }
    let pairs = Pair::all().chain([Pair::LOOPBACK]);
    let pairs = pairs.filter_map(|pair| Some((pair.ifindex()?, pair.first()))).collect();
    let kernel = Kernel { edge, found, pairs };
    limited.wanted.iter().map(|w| tell_one(w, config, &kernel, attached, limited)).collect()
}

/// A few packets of a beginning are no reason.
const PAST: Bytes = Bytes(1 << 20);

/// Of a port's guest, what it got past the port; `None` where that is not known, and where all of it goes back.
fn put_past(w: &Wanted, limited: &Limited) -> Option<Bytes> {
    let goes_back = limited.turns.contains(&w.key.ifindex);
    if goes_back || w.network.is_some() {
        None
    } else {
        kernel::put_past(w.key.ifindex).map(Bytes)
    }
}

/// A line for each port past which a network puts packets straight into the guest.
pub(crate) fn past(limited: &Limited) -> Vec<String> {
    let ports: BTreeMap<u32, &Wanted> = limited.wanted.iter().map(|w| (w.key.ifindex, w)).collect();
    let past = ports.values().filter_map(|w| Some((w, put_past(w, limited).filter(|past| *past >= PAST)?)));
    let line = |(w, past): (&&Wanted, Bytes)| {
        format!(
            "port {}: {} MB have got to its guest past its limits since it began, straight from a program of the network's (bpf_redirect_peer); a limit by the CNI plugin \
             with \"straight\": true holds for that, too",
            w.interface,
            past.get() / 1_000_000
        )
    };
    past.map(line).collect()
}

struct Kernel<'a> {
    edge: &'a KernelEdge,
    /// Classes, by device.
    found: BTreeMap<u32, Vec<Found>>,
    /// Names of the devices on which ports' sending is limited.
    pairs: BTreeMap<u32, String>,
}

fn tell_one(
    w: &Wanted,
    config: &Config,
    kernel: &Kernel<'_>,
    attached: &Attached,
    limited: &Limited,
) -> protocol::Limit {
    let Kernel { edge, found, pairs } = kernel;
    let at = limited.classes.get(&w.key);
    let class = at.and_then(|(device, id)| found.get(device)?.iter().find(|found| found.class.id == *id));
    let first = at.and_then(|(device, id)| {
        let id = if *id == IN_BULK { IN_FIRST } else { id + OF_FIRST };
        found.get(device)?.iter().find(|found| found.class.id == id)
    });
    let counts = edge.limiter_counts(&w.key).unwrap_or_default();
    // A queue limits nothing unless the programs send segments there.
    let mut roles = limited.attach.iter().filter(|at| at.0 == w.key.ifindex);
    let attached = roles.all(|at| attached.has(*at));
    let schedule = at.and_then(|_| edge.limiter(&w.key).unwrap_or_default()).filter(|row| row.rate > 0);
    let backlog = match &schedule {
        Some(schedule) => schedule.scheduled(monotonic_ns()),
        None => of_both(class, first, |class| class.backlog),
    };
    let pacing = match (at, &schedule) {
        (None, _) => config.limits.pacing,
        (Some(_), None) => Pacing::Htb,
        (Some((0, _)), Some(_)) => Pacing::Virtual,
        (Some(_), Some(_)) => Pacing::Departure,
    };
    let device = at.and_then(|(device, _)| match *device {
        own if own == w.key.ifindex => Some(w.interface.clone()),
        ours => pairs.get(&ours).cloned(),
    });
    let (kind, law) = if edge.has_laws() { (w.kind, w.law) } else { (LawKind::None, Law::None) };
    let (k1, k2) = match law {
        Law::None => (Bytes(0), Bytes(0)),
        Law::Ecn { k } | Law::Dem { k } => (k, Bytes(0)),
        Law::Spring(s) => (s.k1, s.k2),
    };
    let inside = limited.enters.contains(&w.key.ifindex).then(|| {
        let Inside { program, link } = edge.inside(w.key.ifindex);
        protocol::Inside { program, link, there: edge.is_attached(w.key.ifindex, Role::LimitInside) }
    });
    protocol::Limit {
        interface: w.interface.clone(),
        ifindex: w.key.ifindex,
        direction: if w.key.direction == LIMITER_OUT { "egress" } else { "ingress" }.into(),
        network: w.network,
        tenant: w.tenant.clone().unwrap_or_default(),
        owner: String::new(),
        pod: Pod::default(),
        in_force: attached && (class.is_some() || schedule.is_some()),
        past_bytes: put_past(w, limited).map(Bytes::get),
        inside,
        pacing: pacing.name().into(),
        device: device.unwrap_or_default(),
        rate_bps: w.rate.guarantee.as_bps(),
        ceiling_bps: w.rate.ceiling.as_bps(),
        law: kind.name().into(),
        k1_bytes: k1.get(),
        k2_bytes: k2.get(),
        backlog_bytes: backlog,
        backlog_segments: of_both(class, first, |class| class.segments),
        queue_delay_seconds: backlog as f64 * 8.0 / w.rate.guarantee.as_bps() as f64,
        delays: edge.has_laws().then(|| told(&counts.delays)),
        sent_bytes: schedule.as_ref().map_or(of_both(class, first, |class| class.sent_bytes), |one| one.sent),
        first_bytes: edge.first_bytes(&w.key).unwrap_or_default(),
        dropped_segments: schedule.as_ref().map_or(of_both(class, first, |class| class.dropped), |one| one.dropped),
        marked_segments: counts.marked,
        window_cuts: counts.cuts,
        windows_lowered: counts.lowered,
        acks: counts.acks,
        unread_segments: counts.unread,
        untracked_segments: counts.untracked,
    }
}

fn told(delays: &Delays) -> protocol::LimitDelays {
    let seconds = |time: Time| time.as_ns() as f64 / 1e9;
    let quantile = |share| delays.quantile(share).filter(|time| *time < Time::MAX).map(seconds);
    protocol::LimitDelays {
        bounds_seconds: (0..BUCKETS).filter_map(bound).map(seconds).collect(),
        counts: delays.counts.to_vec(),
        sum_seconds: delays.sum_us as f64 / 1e6,
        p50_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
    }
}

fn of_both(bulk: Option<&Found>, first: Option<&Found>, what: impl Fn(&Found) -> u64) -> u64 {
    bulk.map_or(0, &what) + first.map_or(0, &what)
}
