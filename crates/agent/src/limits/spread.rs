//! Which pair of devices each port's sending goes through. Each pair has one queue discipline, whose lock CPUs wait for.

use super::wanted::Wanted;
use kernel::state::limiter::LimiterKey;
use std::collections::BTreeMap;

/// A pair of `pairs` for each port: the one that it has (`known`), else the one with the fewest ports. A tenant's ports share what they
/// are given, so they are on one: that of the first of them.
pub(super) fn spread(ports: &[Wanted], known: &BTreeMap<LimiterKey, u32>, pairs: u32) -> BTreeMap<LimiterKey, u32> {
    let (has_place, new): (Vec<&Wanted>, Vec<&Wanted>) =
        ports.iter().partition(|w| known.get(&w.key).is_some_and(|pair| *pair < pairs));
    let mut load = vec![0usize; pairs.max(1) as usize];
    let mut tenants: BTreeMap<&str, u32> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for w in has_place.into_iter().chain(new) {
        let own = known.get(&w.key).copied().filter(|pair| *pair < pairs);
        let of_tenant = w.tenant.as_deref().and_then(|tenant| tenants.get(tenant)).copied();
        let emptiest = || (0..).zip(&load).min_by_key(|(_, ports)| **ports).map_or(0, |(pair, _)| pair);
        let pair = of_tenant.or(own).unwrap_or_else(emptiest);
        if let Some(ports) = load.get_mut(pair as usize) {
            *ports += 1;
        }
        if let Some(tenant) = &w.tenant {
            tenants.insert(tenant, pair);
        }
        found.insert(w.key, pair);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::config::Rate;
    use units::BitRate;

    fn port(ifindex: u32, tenant: Option<&str>) -> Wanted {
        Wanted::egress(ifindex, tenant, Rate::fixed(BitRate::from_mbps(20)))
    }

    fn pairs(of: &BTreeMap<LimiterKey, u32>) -> Vec<u32> {
        of.values().copied().collect()
    }

    #[test]
    fn ports_are_spread_and_stay_where_they_are() {
        let ports: Vec<Wanted> = (1..=5).map(|n| port(n, None)).collect();
        let first = spread(&ports, &BTreeMap::new(), 2);
        assert_eq!(pairs(&first), [0, 1, 0, 1, 0]);
        // Two of the first pair end; who is new takes their room, and nobody else moves.
        let later: Vec<Wanted> = [2, 4, 5, 6, 7].map(|n| port(n, None)).into();
        assert_eq!(pairs(&spread(&later, &first, 2)), [1, 1, 0, 0, 0]);
        // Fewer pairs: only those of the others move.
        assert_eq!(pairs(&spread(&ports, &first, 1)), [0; 5]);
        assert_eq!(pairs(&spread(&ports, &BTreeMap::new(), 0)), [0; 5]);
    }

    #[test]
    fn a_tenants_ports_are_together() {
        let ports = [port(1, None), port(2, Some("blue")), port(3, Some("red")), port(4, Some("blue")), port(5, None)];
        let first = spread(&ports, &BTreeMap::new(), 3);
        assert_eq!(pairs(&first), [0, 1, 2, 1, 0]);
        // A port becomes a tenant's that others are already.
        let joined = [port(1, Some("blue")), port(2, Some("blue")), port(4, Some("blue"))];
        let together = spread(&joined, &first, 3);
        assert_eq!(pairs(&together), [0; 3]);
    }
}
