//! Guarantees that exceed what they are part of.
//!
//! HTB lets a class send what it is guaranteed, whatever the class above may. Guarantees of ports could lift the limit of their
//! tenant, or of all. Each has its proportion instead, and up to its ceiling of what others leave.

use super::wanted::Wanted;
use agent_api::config::{Limits, Rate, Tenant};
use kernel::state::limiter::LIMITER_OUT;
use units::BitRate;

/// `rate` where all that it is part of is `of`, and there is only `whole`.
fn portion(rate: Rate, whole: BitRate, of: u128) -> Rate {
    let bps = u128::from(rate.guarantee.as_bps()) * u128::from(whole.as_bps()) / of.max(1);
    Rate { guarantee: rate.guarantee.min(BitRate::from_bps((bps as u64).max(8))), ..rate }
}

/// Is it a part of the total?
fn sends(w: &Wanted) -> bool {
    w.key.direction == LIMITER_OUT
}

/// What these ports are guaranteed, bits per second.
fn all<'a>(ports: impl Iterator<Item = &'a Wanted>) -> u128 {
    ports.map(|w| u128::from(w.rate.guarantee.as_bps())).sum()
}

/// Tenants that have any of the ports, with their guarantees as they are in force. `ports` have theirs as configured, and leave with those
/// in force.
pub(super) fn give(limits: &Limits, ports: &mut [Wanted]) -> Vec<Tenant> {
    let is_of = |w: &Wanted, tenant: Option<&str>| sends(w) && w.tenant.as_deref() == tenant;
    let mut tenants: Vec<Tenant> =
        limits.tenants.iter().filter(|t| ports.iter().any(|w| is_of(w, Some(&t.name)))).cloned().collect();
    if let Some(total) = limits.total {
        let of_tenants: u128 = tenants.iter().map(|t| u128::from(t.egress.guarantee.as_bps())).sum();
        let of = (of_tenants + all(ports.iter().filter(|w| is_of(w, None)))).max(total.as_bps().into());
        tenants.iter_mut().for_each(|t| t.egress = portion(t.egress, total, of));
        ports.iter_mut().filter(|w| is_of(w, None)).for_each(|w| w.rate = portion(w.rate, total, of));
    }
    for tenant in &tenants {
        let whole = tenant.egress.guarantee;
        let of = all(ports.iter().filter(|w| is_of(w, Some(&tenant.name)))).max(whole.as_bps().into());
        ports.iter_mut().filter(|w| is_of(w, Some(&tenant.name))).for_each(|w| w.rate = portion(w.rate, whole, of));
    }
    tenants
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::state::limiter::LIMITER_IN;

    fn mbps(rate: u64) -> BitRate {
        BitRate::from_mbps(rate)
    }

    fn port(n: u32, tenant: Option<&str>, guarantee: u64) -> Wanted {
        Wanted::egress(n, tenant, Rate { guarantee: mbps(guarantee), ceiling: mbps(100) })
    }

    fn given(total: Option<u64>, tenants: &[(&str, u64)], mut ports: Vec<Wanted>) -> (Vec<u64>, Vec<u64>) {
        let tenant = |&(name, guarantee): &(&str, u64)| Tenant {
            name: name.to_owned(),
            egress: Rate { guarantee: mbps(guarantee), ceiling: mbps(100) },
        };
        let tenants = tenants.iter().map(tenant).collect();
        let limits = Limits { total: total.map(mbps), tenants, ..Limits::default() };
        let tenants = give(&limits, &mut ports);
        assert!(ports.iter().all(|w| w.rate.ceiling == mbps(100)), "ceilings stay");
        let bits = |rate: Rate| rate.guarantee.as_bps() / 1_000_000;
        (tenants.iter().map(|t| bits(t.egress)).collect(), ports.iter().map(|w| bits(w.rate)).collect())
    }

    #[test]
    fn what_exceeds_the_total_or_its_tenant_gets_its_proportion() {
        let alone = |rates: &[u64]| (1..).zip(rates).map(|(n, rate)| port(n, None, *rate)).collect::<Vec<_>>();
        assert_eq!(given(None, &[], alone(&[50, 50])).1, [50, 50], "nothing is above");
        assert_eq!(given(Some(10), &[], alone(&[4, 4])).1, [4, 4], "it is enough");
        assert_eq!(given(Some(10), &[], alone(&[50, 50])).1, [5, 5]);
        assert_eq!(given(Some(10), &[], alone(&[10, 40])).1, [2, 8]);
        let of_blue = vec![port(1, Some("blue"), 50), port(2, Some("blue"), 50), port(3, None, 30)];
        assert_eq!(given(None, &[("blue", 10)], of_blue.clone()), (vec![10], vec![5, 5, 30]));
        assert_eq!(given(Some(20), &[("blue", 10), ("of nobody", 90)], of_blue), (vec![5], vec![2, 2, 15]));
    }

    #[test]
    fn what_a_guest_receives_is_no_part_of_it() {
        let mut receives = port(1, None, 50);
        receives.key.direction = LIMITER_IN;
        assert_eq!(given(Some(10), &[], vec![receives, port(1, None, 10)]).1, [50, 10]);
    }

    #[test]
    fn nothing_becomes_nothing() {
        let mut ports = vec![port(1, None, 1), port(2, None, 1_000_000)];
        give(&Limits { total: Some(BitRate::from_bps(1_000)), ..Limits::default() }, &mut ports);
        assert_eq!(ports[0].rate.guarantee, BitRate::from_bps(8));
    }
}
