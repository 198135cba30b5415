//! Limits that the configuration means.

use super::classes::{bytes_per_second, class, longest};
use crate::interfaces::Interfaces;
use crate::rules::rule_for;
use agent_api::config::{Config, LawKind, Rate, MAX_PORTS};
use edge::limiter::Law;
use kernel::htb::Class;
use kernel::state::limiter::{Limiter, LimiterKey, LIMITER_IN, LIMITER_OUT};
use units::{BitRate, Time};

/// What may go first at once (`SV_SPARSE_BURST` of datapath/sparse.h), and room for more, so that it never waits.
const FIRST_BURST: (u64, Time) = (64 << 10, Time::from_ms(2));
/// What HTB holds for a guest that knows no restraint: so long at its rate, within bounds.
const QUEUE: Time = Time::from_ms(100);
const QUEUE_BYTES: (u64, u64) = (256 << 10, 16 << 20);
/// Where a law keeps the queue short, it also holds what comes before the law can act, for at most [`BEGINNING`] at the rate: of
/// 64 connections that begin at once the first windows, ten packets each, and two that each sends again while these wait.
const FIRST_WINDOWS: u64 = 64 * (10 + 2) * 1_514;
const BEGINNING: Time = Time::from_secs(1);
/// Of a schedule: as much as [`QUEUE`] allows, and no more than the data path counts.
const HORIZON: Time = Time::from_secs(1);

/// One direction of a port that is to be limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(super) key: LimiterKey,
    pub(super) interface: String,
    pub(super) rate: Rate,
    pub(super) tenant: Option<String>,
    /// None: the edge has nothing of the port but this.
    pub(super) network: Option<u32>,
    pub(super) kind: LawKind,
    pub(super) law: Law,
    /// Its packets have no Ethernet header: no law reads them, and none goes first.
    pub(super) bare: bool,
    /// The guest's own end has a program, or is to have it: all that the guest gets goes through a queue on a pair of devices, too.
    pub(super) inside: bool,
}

/// Every limit that the configuration means, by interface and direction.
pub(super) fn wanted(config: &Config, interfaces: &Interfaces) -> Vec<Wanted> {
    let mut all = Vec::new();
    let ports = interfaces.iter().filter_map(|(ifindex, i)| Some((*ifindex, i, rule_for(config, i)?)));
    for (ifindex, interface, rule) in ports.take(MAX_PORTS) {
        let annotated = config.limits.annotated.get(&interface.name).copied().unwrap_or_default();
        let limits = &rule.limits;
        let egress = annotated.egress.map(Rate::fixed).or(limits.egress);
        let ingress = annotated.ingress.or(limits.ingress).map(Rate::fixed);
        for (direction, rate, tenant) in [(LIMITER_OUT, egress, limits.tenant.clone()), (LIMITER_IN, ingress, None)] {
            let bare = interface.bare;
            let above =
                tenant.as_deref().and_then(|name| config.limits.tenant(name)).map(|tenant| tenant.egress.ceiling);
            let above = above.into_iter().chain(config.limits.total.filter(|_| direction == LIMITER_OUT));
            let most = |rate: Rate| above.fold(rate.ceiling, BitRate::min);
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
                    limits.law_for(most(rate), config.limits.sparse_first).holding(config.limits.hold_edge)
                },
                bare,
                inside: false,
            }));
        }
    }
    all
}

#[cfg(test)]
impl Wanted {
    /// What a port of a tenant or of none sends, without a law.
    pub(super) fn egress(ifindex: u32, tenant: Option<&str>, rate: Rate) -> Wanted {
        Wanted {
            key: LimiterKey { ifindex, direction: LIMITER_OUT },
            interface: format!("veth{ifindex}"),
            rate,
            tenant: tenant.map(str::to_owned),
            network: None,
            kind: LawKind::None,
            law: Law::None,
            bare: false,
            inside: false,
        }
    }
}

impl Wanted {
    /// Is its queue on a pair of devices?
    pub(super) fn on_pair(&self) -> bool {
        self.key.direction == LIMITER_OUT || self.inside
    }

    pub(super) fn class(&self, id: u32, parent: u32, least: BitRate) -> Class {
        class(id, parent, self.rate, least)
    }

    /// Below `both`, which is [`class`](Wanted::class): the bulk, and what goes first. Each has half, and what the other leaves.
    pub(super) fn halves(&self, both: &Class, bulk: u32, first: u32) -> [Class; 2] {
        let rate = (both.rate / 2).max(1);
        let burst = |bytes_per_second: u64| {
            longest(FIRST_BURST.1.max(BitRate::from_bps(bytes_per_second.saturating_mul(8)).tx_time(FIRST_BURST.0)))
        };
        let (burst_ns, ceil_burst_ns) =
            (both.burst_ns.max(burst(rate)), both.ceil_burst_ns.max(burst((both.ceil / 2).max(1))));
        let half = Class { parent: both.id, rate, ..*both };
        [Class { id: bulk, prio: 1, ..half }, Class { id: first, prio: 0, burst_ns, ceil_burst_ns, ..half }]
    }

    pub(super) fn queue_bytes(&self) -> u32 {
        let begins = if self.law == Law::None { 0 } else { self.rate.ceiling.bytes_in(BEGINNING).min(FIRST_WINDOWS) };
        self.rate.ceiling.bytes_in(QUEUE).clamp(QUEUE_BYTES.0.max(begins), QUEUE_BYTES.1) as u32
    }

    pub(super) fn row(&self, device: u32, class: u32, idle_ns: u64) -> Limiter {
        Limiter { device, class, law: self.law.to_bytes(), idle_ns, ..Limiter::default() }
    }

    /// The row of a schedule.
    pub(super) fn scheduled(&self, row: Limiter) -> Limiter {
        let horizon = self.rate.ceiling.tx_time(self.queue_bytes().into()).min(HORIZON);
        Limiter { rate: bytes_per_second(self.rate.ceiling), horizon_ns: horizon.as_ns(), ..row }
    }
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
                inside: false,
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
