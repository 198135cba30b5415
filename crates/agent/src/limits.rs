//! Rate limits in the kernel: HTB qdiscs and classes, the device on which what guests send is limited, and what the
//! programs of limits need to know. What a guest gets is limited on its port.
//!
//! What carries our root qdisc's handle is ours: so a new agent finds what an old one left. Where limits are schedules of departure
//! times, an fq stands where HTB does otherwise, or nothing.

use super::desired::{rule_for, Rows};
use super::interfaces::Interfaces;
use super::reconcile::Agent;
use agent_api::config::{Config, LawKind, Pacing, Rate};
use agent_api::protocol;
use edge::limiter::Law;
use kernel::htb::{self, Class, Found, Qdisc, HANDLE, TOP};
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_BOTH, LIMITER_IN, LIMITER_OUT};
use kernel::state::{Plain, Port, PORT_LIMITER};
use kernel::{monotonic_ns, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use units::{BitRate, Bytes, Time};

/// Start of the names of the pair of devices through which what is limited goes.
pub(crate) const NAME: &str = "svlimit";
const FIRST: &str = "svlimit0";
const SECOND: &str = "svlimit1";

/// Minor numbers of tenants' classes, and of ports'.
const TENANTS: std::ops::Range<u32> = 0x10..0x1000;
const PORTS: std::ops::Range<u32> = 0x1000..0xffff;
/// A queue has its class's number, and that of the root is taken.
const TAKEN: u32 = HANDLE >> 16;
/// The class above all others where nobody limits all together.
const UNLIMITED: BitRate = BitRate::from_gbps(1_000);
/// What may go at once after idleness: more than a late timer lets pass, and at least a packet or two.
const BURST: Time = Time::from_ms(1);
const LEAST_BURST_BYTES: u64 = 4_096;
/// What HTB holds for a guest that knows no restraint: so long at its rate, within bounds.
const QUEUE: Time = Time::from_ms(100);
const QUEUE_BYTES: (u64, u64) = (256 << 10, 16 << 20);
/// Of a schedule: as much as [`QUEUE`] allows, and no more than the data path counts.
const HORIZON: Time = Time::from_secs(1);
/// A whole segment with its headers: who has less of a turn than that takes no less.
const TURN: u64 = 66_000;
/// Turns of siblings differ by at most so much.
const MAX_TURNS: u64 = 64;

/// One direction of a port that is to be limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    key: LimiterKey,
    interface: String,
    rate: Rate,
    tenant: Option<String>,
    kind: LawKind,
    law: Law,
}

/// What of it is in force, and what else of the agent must follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited {
    /// Of the map `limiters`.
    pub(crate) rows: Rows,
    pub(crate) attach: BTreeSet<(u32, Role)>,
    /// Rows of `ports` besides those of guests.
    pub(crate) ports: Rows,
    /// Ports to which segments must go through their queues and programs.
    pub(crate) whole_way: BTreeSet<u32>,
    /// Class and where it is, of each that is in force.
    pub(crate) classes: BTreeMap<LimiterKey, (u32, u32)>,
    pub(crate) wanted: Vec<Wanted>,
    /// Of all our HTBs: device and class.
    kept: BTreeSet<(u32, u32)>,
}

impl Limited {
    /// Does what the guest there sends go through a queue?
    pub(crate) fn is_egress(&self, ifindex: u32) -> bool {
        self.classes.keys().any(|key| key.ifindex == ifindex && key.direction == LIMITER_OUT)
    }
}

/// Every limit that the configuration means, by interface and direction.
pub(crate) fn wanted(config: &Config, interfaces: &Interfaces) -> Vec<Wanted> {
    let mut all = Vec::new();
    for (&ifindex, interface) in interfaces {
        let Some(rule) = rule_for(config, interface) else { continue };
        let annotated = config.limits.annotated.get(&interface.name).copied().unwrap_or_default();
        let limits = &rule.limits;
        let egress = annotated.egress.map(Rate::fixed).or(limits.egress);
        let ingress = annotated.ingress.or(limits.ingress).map(Rate::fixed);
        for (direction, rate, tenant) in [(LIMITER_OUT, egress, limits.tenant.clone()), (LIMITER_IN, ingress, None)] {
            all.extend(rate.map(|rate| Wanted {
                key: LimiterKey { ifindex, direction },
                interface: interface.name.clone(),
                rate,
                tenant,
                kind: limits.law,
                law: limits.law_for(rate.ceiling),
            }));
        }
    }
    all
}

impl Wanted {
    fn class(&self, id: u32, parent: u32, least: BitRate) -> Class {
        class(id, parent, self.rate, least)
    }

    fn queue_bytes(&self) -> u32 {
        self.rate.ceiling.bytes_in(QUEUE).clamp(QUEUE_BYTES.0, QUEUE_BYTES.1) as u32
    }

    fn row(&self, device: u32, class: u32, lawless: bool, idle_ns: u64) -> Limiter {
        let law = if lawless { Law::None } else { self.law };
        Limiter { device, class, law: law.to_bytes(), idle_ns, ..Limiter::default() }
    }

    /// The row of a schedule.
    fn scheduled(&self, row: Limiter) -> Limiter {
        let horizon = self.rate.ceiling.tx_time(self.queue_bytes().into()).min(HORIZON);
        Limiter { rate: bytes_per_second(self.rate.ceiling), horizon_ns: horizon.as_ns(), ..row }
    }
}

fn bytes_per_second(rate: BitRate) -> u64 {
    (rate.as_bps() / 8).max(1)
}

/// `least`: the smallest guarantee among the siblings.
fn class(id: u32, parent: u32, rate: Rate, least: BitRate) -> Class {
    let burst = BURST.max(rate.guarantee.tx_time(LEAST_BURST_BYTES)).as_ns();
    let turns = (rate.guarantee.as_bps() / least.as_bps().max(1)).clamp(1, MAX_TURNS);
    Class {
        id,
        parent,
        rate: bytes_per_second(rate.guarantee),
        ceil: bytes_per_second(rate.ceiling),
        burst_ns: burst / 64 * 64,
        quantum: (TURN * turns) as u32,
    }
}

/// A number within `range` for each of `wanted`: the one that it has already, or the lowest that is free.
fn numbers<K: Ord + Clone>(range: std::ops::Range<u32>, known: &BTreeMap<K, u32>, wanted: &[K]) -> BTreeMap<K, u32> {
    let mut taken: BTreeSet<u32> = wanted.iter().filter_map(|key| known.get(key).copied()).collect();
    let mut found = BTreeMap::new();
    for key in wanted {
        let old = known.get(key).copied().filter(|number| range.contains(number) && *number != TAKEN);
        let number = old.or_else(|| range.clone().find(|number| !taken.contains(number) && *number != TAKEN));
        if let Some(number) = number {
            taken.insert(number);
            found.insert(key.clone(), number);
        }
    }
    found
}

impl Agent {
    /// Puts in place what limits need before anything sends segments there.
    pub(crate) fn raise_limits(&mut self, problems: &mut Vec<String>) -> Limited {
        let mut limited = Limited { wanted: wanted(&self.config, &self.interfaces), ..Limited::default() };
        if limited.wanted.is_empty() {
            return limited;
        }
        if let Err(e) = self.edge.open_limits(self.config.max_flows) {
            problems.push(format!("no rate limit is in force: {e}; selvedge doctor says what is missing"));
            return limited;
        }
        let pacing = self.config.limits.pacing;
        if let Some(why) = self.edge.lawless() {
            if pacing != Pacing::Htb {
                problems.push(format!(
                    "no rate limit is in force: limits.pacing = {:?} is a matter of programs that this kernel refuses; set it to \
                     \"htb\": {why}",
                    pacing.name()
                ));
                return limited;
            }
            if limited.wanted.iter().any(|w| w.kind != LawKind::Off) {
                problems.push(format!("rate limits are plain HTB, whose queues nothing keeps short: {why}"));
            }
        }
        let qdiscs = match htb::qdiscs() {
            Ok(qdiscs) => qdiscs,
            Err(e) => {
                problems.push(format!("no rate limit is in force: cannot list qdiscs: {e}"));
                return limited;
            }
        };
        if limited.wanted.iter().any(|w| w.key.direction == LIMITER_OUT) {
            let raised = match pacing {
                Pacing::Htb => self.raise_egress(&mut limited, &qdiscs),
                Pacing::Departure | Pacing::Virtual => self.schedule_egress(&mut limited, &qdiscs),
            };
            if let Err(e) = raised {
                problems.push(format!("no egress limit is in force: {e}"));
            }
        }
        for w in limited.wanted.clone().iter().filter(|w| w.key.direction == LIMITER_IN) {
            match raise_ingress(w, pacing, &qdiscs) {
                Ok((device, class)) => self.note_limit(&mut limited, w, device, class),
                Err(why) => problems.push(format!("port {}: no ingress limit is in force: {why}", w.interface)),
            }
        }
        limited
    }

    fn note_limit(&self, limited: &mut Limited, w: &Wanted, device: u32, class: u32) {
        let lawless = self.edge.lawless().is_some();
        let mut row = w.row(device, class, lawless, self.config.flow_idle_ns);
        let scheduled = self.config.limits.pacing != Pacing::Htb;
        if scheduled {
            row = w.scheduled(row);
        }
        if limited.wanted.iter().any(|other| other.key.ifindex == w.key.ifindex && other.key != w.key) {
            row.flags |= LIMITER_BOTH;
        }
        limited.rows.insert(w.key.as_bytes().to_vec(), row.as_bytes().to_vec());
        limited.classes.insert(w.key, (device, class));
        if device != 0 {
            limited.kept.insert((device, class));
        }
        let law = !lawless && w.law != Law::None;
        if w.key.direction == LIMITER_OUT || law {
            limited.attach.insert((w.key.ifindex, Role::LimitGuest));
        }
        // Without a law too: it takes off what would lead past the queue.
        if law || (w.key.direction == LIMITER_IN && (scheduled || !lawless)) {
            limited.attach.insert((w.key.ifindex, Role::LimitPort));
        }
        if law || w.key.direction == LIMITER_IN {
            limited.whole_way.insert(w.key.ifindex);
        }
    }

    /// The pair of devices, with a root qdisc on its first. Returns the number of that.
    fn raise_pair(
        &mut self,
        limited: &mut Limited,
        qdiscs: &[Qdisc],
        kind: &str,
        add: impl FnOnce(u32) -> io::Result<()>,
    ) -> Result<u32, Box<dyn std::error::Error>> {
        htb::add_pair(FIRST, SECOND)?;
        let [device, out] = [kernel::ifindex(FIRST)?, kernel::ifindex(SECOND)?];
        for (at, name) in [((device, Role::Nothing), FIRST), ((out, Role::Limiter), SECOND)] {
            if self.attached.get(&at).map(String::as_str) != Some(name) {
                self.edge.attach(at.0, at.1)?;
                self.attached.insert(at, name.to_owned());
            }
            limited.attach.insert(at);
        }
        let port = Port { flags: PORT_LIMITER, ..Port::default() };
        limited.ports.insert(out.as_bytes().to_vec(), port.as_bytes().to_vec());
        // The pair stays, and with it what was put there.
        if let Some(other) = qdiscs.iter().find(|q| q.ifindex == device && q.is_anothers()) {
            return Err(occupied(FIRST, other).into());
        }
        set_root(device, qdiscs, kind, add)?;
        htb::set_up(FIRST)?;
        htb::set_up(SECOND)?;
        Ok(device)
    }

    /// A schedule for each port; an fq on the first of the pair of devices keeps to them, if anything is to.
    fn schedule_egress(&mut self, limited: &mut Limited, qdiscs: &[Qdisc]) -> Result<(), Box<dyn std::error::Error>> {
        let device = match self.config.limits.pacing {
            Pacing::Departure => self.raise_pair(limited, qdiscs, "fq", add_fq)?,
            Pacing::Htb | Pacing::Virtual => 0,
        };
        for w in limited.wanted.clone().iter().filter(|w| w.key.direction == LIMITER_OUT) {
            self.note_limit(limited, w, device, 0);
        }
        Ok(())
    }

    /// The pair of devices, and a class for each port on its first.
    fn raise_egress(&mut self, limited: &mut Limited, qdiscs: &[Qdisc]) -> Result<(), Box<dyn std::error::Error>> {
        let device = self.raise_pair(limited, qdiscs, "htb", |device| htb::add_root(device, 0))?;
        let have = htb::classes(device)?;
        let total = Rate::fixed(self.config.limits.total.unwrap_or(UNLIMITED));
        set(device, &have, &class(TOP, HANDLE, total, total.guarantee))?;
        limited.kept.insert((device, TOP));
        let tenants = self.raise_tenants(limited, device, &have)?;
        let ports: Vec<Wanted> = limited.wanted.iter().filter(|w| w.key.direction == LIMITER_OUT).cloned().collect();
        let keys: Vec<LimiterKey> = ports.iter().map(|w| w.key).collect();
        let minors = numbers(PORTS, &self.known_classes()?, &keys);
        for w in &ports {
            let Some(minor) = minors.get(&w.key) else { continue };
            let parent = w.tenant.as_ref().and_then(|tenant| tenants.get(tenant)).map_or(TOP, |minor| HANDLE | minor);
            let siblings = ports.iter().filter(|other| other.tenant == w.tenant);
            let least = siblings.map(|other| other.rate.guarantee).min().unwrap_or(w.rate.guarantee);
            let class = w.class(HANDLE | minor, parent, least);
            set(device, &have, &class)?;
            let kept = have.iter().any(|found| found.class.id == class.id && found.class.parent == class.parent);
            set_queue(device, class.id, w.queue_bytes(), qdiscs, !kept)?;
            self.note_limit(limited, w, device, class.id);
        }
        Ok(())
    }

    /// Returns minor numbers by name.
    fn raise_tenants(
        &mut self,
        limited: &mut Limited,
        device: u32,
        have: &[Found],
    ) -> io::Result<BTreeMap<String, u32>> {
        let tenants = &self.config.limits.tenants;
        let names: Vec<String> = tenants.iter().map(|tenant| tenant.name.clone()).collect();
        let minors = numbers(TENANTS, &self.remembered.tenants, &names);
        self.remembered.tenants.clone_from(&minors);
        let least = tenants.iter().map(|tenant| tenant.egress.guarantee).min();
        for tenant in tenants {
            let Some(minor) = minors.get(&tenant.name) else { continue };
            let class = class(HANDLE | minor, TOP, tenant.egress, least.unwrap_or(tenant.egress.guarantee));
            set(device, have, &class)?;
            limited.kept.insert((device, class.id));
        }
        Ok(minors)
    }

    /// Minor numbers that ports have already.
    fn known_classes(&self) -> Result<BTreeMap<LimiterKey, u32>, super::error::Error> {
        let rows = match self.tables.limiters() {
            Some(table) => table.rows()?,
            None => Rows::new(),
        };
        let read = rows.iter().filter_map(|(k, v)| Some((LimiterKey::from_bytes(k)?, Limiter::from_bytes(v)?)));
        Ok(read.map(|(key, limiter)| (key, limiter.class & 0xffff)).collect())
    }

    /// Takes away what nothing sends segments to any more, with what waits there.
    pub(crate) fn lower_limits(&self, limited: &Limited) -> io::Result<()> {
        let devices: BTreeSet<u32> = limited.kept.iter().map(|(device, _)| *device).collect();
        for qdisc in htb::qdiscs()?.iter().filter(|q| q.is_ours() && !devices.contains(&q.ifindex)) {
            htb::remove_root(qdisc.ifindex)?;
        }
        for &device in &devices {
            let mut gone: Vec<u32> = htb::classes(device)?.iter().map(|found| found.class.id).collect();
            gone.retain(|id| !limited.kept.contains(&(device, *id)));
            gone.sort_unstable_by_key(|id| std::cmp::Reverse(*id)); // ports before tenants
            gone.into_iter().try_for_each(|id| htb::remove_class(device, id))?;
        }
        if !limited.ports.is_empty() {
            return Ok(());
        }
        htb::remove_pair(FIRST)
    }

    /// `selvedge ctl limits`.
    pub(crate) fn tell_limits(&self) -> Vec<protocol::Limit> {
        let mut found: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
        for (device, _) in self.limited.classes.values() {
            found.entry(*device).or_insert_with(|| htb::classes(*device).unwrap_or_default());
        }
        self.limited.wanted.iter().map(|w| self.tell_limit(w, &found)).collect()
    }

    fn tell_limit(&self, w: &Wanted, found: &BTreeMap<u32, Vec<Found>>) -> protocol::Limit {
        let at = self.limited.classes.get(&w.key);
        let class = at.and_then(|(device, id)| found.get(device)?.iter().find(|found| found.class.id == *id));
        let counts = self.edge.limiter_counts(&w.key).unwrap_or_default();
        // A queue limits nothing unless the programs send segments there.
        let mut roles = self.limited.attach.iter().filter(|at| at.0 == w.key.ifindex);
        let attached = roles.all(|at| self.attached.contains_key(at));
        let schedule = at.and_then(|_| self.edge.limiter(&w.key).unwrap_or_default()).filter(|row| row.rate > 0);
        let backlog = match &schedule {
            Some(schedule) => schedule.scheduled(monotonic_ns()),
            None => class.map_or(0, |class| class.backlog),
        };
        let pacing = if at.is_some() && schedule.is_none() { Pacing::Htb } else { self.config.limits.pacing };
        let (k1, k2) = match w.law {
            Law::None => (Bytes(0), Bytes(0)),
            Law::Ecn { k } | Law::Dem { k } => (k, Bytes(0)),
            Law::Spring(s) => (s.k1, s.k2),
        };
        let kind = if self.edge.lawless().is_some() { LawKind::Off } else { w.kind };
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
            dropped_segments: schedule
                .as_ref()
                .map_or(class.map_or(0, |class| class.dropped), |schedule| schedule.dropped),
            marked_segments: counts.marked,
            window_cuts: counts.cuts,
            windows_lowered: counts.lowered,
            acks: counts.acks,
            unread_segments: counts.unread,
            untracked_segments: counts.untracked,
        }
    }
}

/// What holds what goes to a port: an HTB with one class for all of it, or an fq. Returns where the queue is.
fn raise_ingress(w: &Wanted, pacing: Pacing, qdiscs: &[Qdisc]) -> Result<(u32, u32), String> {
    let device = w.key.ifindex;
    let failed = |e: io::Error| e.to_string();
    if pacing == Pacing::Virtual {
        return Ok((0, 0));
    }
    if let Some(other) = qdiscs.iter().find(|q| q.ifindex == device && q.is_anothers()) {
        return Err(occupied(&w.interface, other));
    }
    if pacing == Pacing::Departure {
        set_root(device, qdiscs, "fq", add_fq).map_err(failed)?;
        return Ok((device, 0));
    }
    set_root(device, qdiscs, "htb", |device| htb::add_root(device, TOP & 0xffff)).map_err(failed)?;
    let have = htb::classes(device).map_err(failed)?;
    set(device, &have, &w.class(TOP, HANDLE, w.rate.guarantee)).map_err(failed)?;
    let new = !have.iter().any(|found| found.class.id == TOP);
    set_queue(device, TOP, w.queue_bytes(), qdiscs, new).map_err(failed)?;
    Ok((device, TOP))
}

/// The queue of a leaf, unless somebody has put another qdisc there, which stays; in a class that is new nobody has.
fn set_queue(device: u32, class: u32, limit: u32, qdiscs: &[Qdisc], new: bool) -> io::Result<()> {
    match qdiscs.iter().find(|q| q.ifindex == device && q.parent == class && q.handle != 0).filter(|_| !new) {
        Some(queue) if !queue.is_our_queue() || queue.limit == limit => Ok(()),
        _ => htb::set_queue(device, class, limit),
    }
}

fn occupied(interface: &str, other: &Qdisc) -> String {
    let shown = other.shown();
    format!(
        "{interface} has a root qdisc that somebody set ({shown}); remove it with `tc qdisc del dev {interface} root`"
    )
}

/// Which an agent without the right to try it beforehand finds missing only here.
fn add_fq(device: u32) -> io::Result<()> {
    htb::add_fq(device).map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ENOENT) => {
            io::Error::other("this kernel has no fq, which keeps to departure times; set limits.pacing = \"htb\"")
        }
        _ => e,
    })
}

/// Our root qdisc of that kind, in place of ours of another.
fn set_root(device: u32, qdiscs: &[Qdisc], kind: &str, add: impl FnOnce(u32) -> io::Result<()>) -> io::Result<()> {
    match qdiscs.iter().find(|q| q.ifindex == device && q.is_ours()) {
        Some(ours) if ours.kind == kind => return Ok(()),
        Some(_) => htb::remove_root(device)?,
        None => {}
    }
    add(device)
}

/// Only if it is not there like that. One that is below another parent is made anew.
fn set(device: u32, have: &[Found], class: &Class) -> io::Result<()> {
    match have.iter().find(|found| found.class.id == class.id) {
        Some(found) if found.class == *class => return Ok(()),
        Some(found) if found.class.parent != class.parent => htb::remove_class(device, class.id)?,
        _ => {}
    }
    htb::set_class(device, class)
}

/// Without an agent: everything of ours on any device.
pub(crate) fn remove_all() -> io::Result<()> {
    let ours = htb::qdiscs()?;
    let pair = kernel::ifindex(FIRST).unwrap_or(0);
    ours.iter().filter(|q| q.is_ours() && q.ifindex != pair).try_for_each(|q| htb::remove_root(q.ifindex))?;
    htb::remove_pair(FIRST)
}
