//! Rate limits: which the configuration means ([`wanted`]), how they are put into the kernel ([`Raise`]), and how they fare
//! ([`tell()`]). What guests send is limited on a pair of devices of the agent's, what a guest gets on its port.
//!
//! What carries our root qdisc's handle is ours: so a new agent finds what an old one left. Where limits are schedules of departure
//! times, an fq stands where HTB does otherwise, or nothing.

use super::attached::Attached;
use super::interfaces::Interfaces;
use super::rows::Rows;
use super::rules::rule_for;
use agent_api::config::{Config, LawKind, Rate, MAX_PORTS};
use edge::limiter::Law;
use kernel::htb::{Class, HANDLE};
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_IN, LIMITER_OUT};
use kernel::Role;
use std::collections::{BTreeMap, BTreeSet};
use units::{BitRate, Time};

mod flush;
mod qdiscs;
mod raise;
mod spread;
mod tell;

pub(crate) use flush::{flush, moved};
pub(crate) use qdiscs::remove_all;
use qdiscs::Pair;
pub(crate) use raise::{lower, Raise};
pub(crate) use tell::tell;

/// Minor numbers of tenants' classes, and of ports'.
const TENANTS: std::ops::Range<u32> = 0x10..0x1000;
const PORTS: std::ops::Range<u32> = 0x1000..0x5000;
/// From a port's class to the one above it and above that of what goes first, and to the latter.
const BOTH: u32 = 0x4000;
const OF_FIRST: u32 = 0x8000;
/// The same of what goes to a port, where the class above both is [`TOP`](kernel::htb::TOP).
const IN_BULK: u32 = HANDLE | 2;
const IN_FIRST: u32 = HANDLE | 3;
/// What may go first at once (`SV_SPARSE_BURST` of datapath/sparse.h), and room for more, so that it never waits.
const FIRST_BURST: (u64, Time) = (64 << 10, Time::from_ms(2));
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
/// Where a law keeps the queue short, it also holds what comes before the law can act, for at most [`BEGINNING`] at the rate: of
/// 64 connections that begin at once the first windows, ten packets each, and two that each sends again while these wait.
const FIRST_WINDOWS: u64 = 64 * (10 + 2) * 1_514;
const BEGINNING: Time = Time::from_secs(1);
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
    /// None: the edge has nothing of the port but this.
    network: Option<u32>,
    kind: LawKind,
    law: Law,
    /// Its packets have no Ethernet header: no law reads them, and none goes first.
    bare: bool,
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
    /// Pairs of devices through which segments go.
    pairs: BTreeSet<Pair>,
    /// Of all our HTBs: device and class.
    kept: BTreeSet<(u32, u32)>,
}

impl Limited {
    /// Are all programs that limit the port there, and is there one?
    pub(crate) fn is_attached(&self, ifindex: u32, attached: &Attached) -> bool {
        let mut roles = self.attach.iter().filter(|at| at.0 == ifindex).peekable();
        roles.peek().is_some() && roles.all(|at| attached.has(*at))
    }

    /// Does what the guest there sends go through a queue?
    pub(crate) fn is_egress(&self, ifindex: u32) -> bool {
        self.classes.keys().any(|key| key.ifindex == ifindex && key.direction == LIMITER_OUT)
    }
}

/// Every limit that the configuration means, by interface and direction.
pub(crate) fn wanted(config: &Config, interfaces: &Interfaces) -> Vec<Wanted> {
    let mut all = Vec::new();
    let ports = interfaces.iter().filter_map(|(ifindex, i)| Some((*ifindex, i, rule_for(config, i)?)));
    for (ifindex, interface, rule) in ports.take(MAX_PORTS) {
        let annotated = config.limits.annotated.get(&interface.name).copied().unwrap_or_default();
        let limits = &rule.limits;
        let egress = annotated.egress.map(Rate::fixed).or(limits.egress);
        let ingress = annotated.ingress.or(limits.ingress).map(Rate::fixed);
        for (direction, rate, tenant) in [(LIMITER_OUT, egress, limits.tenant.clone()), (LIMITER_IN, ingress, None)] {
            let bare = interface.bare;
            all.extend(rate.map(|rate| Wanted {
                key: LimiterKey { ifindex, direction },
                interface: interface.name.clone(),
                rate,
                tenant,
                network: rule.network,
                kind: if bare { LawKind::None } else { limits.law },
                law: if bare {
                    Law::None
                } else {
                    limits.law_for(rate.ceiling, config.limits.sparse_first).holding(config.limits.hold_edge)
                },
                bare,
            }));
        }
    }
    all
}

impl Wanted {
    fn class(&self, id: u32, parent: u32, least: BitRate) -> Class {
        class(id, parent, self.rate, least)
    }

    /// Below `both`, which is [`class`](Wanted::class): the bulk, and what goes first. Each has half, and what the other leaves.
    fn halves(&self, both: &Class, bulk: u32, first: u32) -> [Class; 2] {
        let rate = (both.rate / 2).max(1);
        let burst =
            Time::from_ns(both.burst_ns).max(FIRST_BURST.1).max(BitRate::from_bps(rate * 8).tx_time(FIRST_BURST.0));
        let half = Class { parent: both.id, rate, ..*both };
        [Class { id: bulk, prio: 1, ..half }, Class { id: first, prio: 0, burst_ns: burst.as_ns() / 64 * 64, ..half }]
    }

    fn queue_bytes(&self) -> u32 {
        let begins = if self.law == Law::None { 0 } else { self.rate.ceiling.bytes_in(BEGINNING).min(FIRST_WINDOWS) };
        self.rate.ceiling.bytes_in(QUEUE).clamp(QUEUE_BYTES.0.max(begins), QUEUE_BYTES.1) as u32
    }

    fn row(&self, device: u32, class: u32, idle_ns: u64) -> Limiter {
        Limiter { device, class, law: self.law.to_bytes(), idle_ns, ..Limiter::default() }
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
        prio: 0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use edge::limiter::Spring;

    #[test]
    fn a_queue_holds_what_comes_before_a_law_can_act() {
        let law = Law::Spring(Spring::for_rate(BitRate::from_mbps(20), Time::from_us(200)));
        let bytes = |law, rate| {
            let wanted = Wanted {
                key: LimiterKey { ifindex: 1, direction: LIMITER_OUT },
                interface: "lxc0".into(),
                rate: Rate::fixed(rate),
                tenant: None,
                network: None,
                kind: LawKind::Spring,
                law,
                bare: false,
            };
            u64::from(wanted.queue_bytes())
        };
        // A second's worth, 64 first windows, 100 ms, and no more than the most.
        for (rate, with_law, without) in [
            (BitRate::from_mbps(1), 256 << 10, 256 << 10),
            (BitRate::from_mbps(4), 500_000, 256 << 10),
            (BitRate::from_mbps(20), FIRST_WINDOWS, 256 << 10),
            (BitRate::from_mbps(80), FIRST_WINDOWS, 1_000_000),
            (BitRate::from_gbps(1), 12_500_000, 12_500_000),
            (BitRate::from_gbps(40), 16 << 20, 16 << 20),
        ] {
            assert_eq!([bytes(law, rate), bytes(Law::None, rate)], [with_law, without], "{rate}");
        }
    }
}
