//! Guests' shares of the uplink: which row each has, and how they are held.

use super::interfaces::Interfaces;
use super::rules::rule_for;
use agent_api::config::{Config, Shares};
use kernel::state::{self, MAX_SHARES};
use std::collections::btree_map::Entry;
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
        if let Entry::Vacant(place) = numbers.entry(ifindex) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::{config, interfaces};

    #[test]
    fn numbers_stay_as_they_are_and_the_lowest_that_is_free_is_next() {
        let (mut config, interfaces) = (config(), interfaces());
        assert!(numbers(&config, &interfaces, &Numbers::new()).is_empty(), "nobody is held");
        config.tenants = Some(Shares { conf: Default::default(), backlog: 200_000 });
        let first = numbers(&config, &interfaces, &Numbers::new());
        assert!(!first.is_empty() && first.values().copied().eq(1..=first.len() as u16), "{first:?}");
        let one = *first.keys().last().unwrap();
        let kept = numbers(&config, &interfaces, &Numbers::from([(one, 1), (4_000_000, 2)]));
        assert_eq!(kept.get(&one), Some(&1));
        assert_eq!(kept.len(), first.len(), "one that is gone has none");
        assert_eq!(kept.values().collect::<BTreeSet<_>>().len(), kept.len());
        let row = row_of(config.tenants.as_ref(), &kept, true);
        assert_eq!((row.backlog, row.numbers as usize), (200_000, kept.len()));
        assert_eq!(row_of(config.tenants.as_ref(), &kept, false).backlog, 0, "nothing keeps to departure times");
        assert_eq!(row_of(None, &kept, true), state::Tenants::default());
    }

    #[test]
    fn congestion_control_is_told_of_shares() {
        let (mut config, interfaces) = (config(), interfaces());
        let congestion = edge::vcc::Config::default();
        config.congestion = Some(congestion.clone());
        let row = |config: &Config| {
            let resolved = crate::desired::resolve(config, &interfaces, &Default::default()).unwrap();
            let want = crate::desired::desired(
                config,
                &Default::default(),
                &resolved,
                &interfaces,
                &Default::default(),
                &Default::default(),
                &Default::default(),
            );
            want.congestion.into_values().next().expect("a row")
        };
        assert_eq!(row(&config), congestion.as_bytes());
        config.tenants = Some(Shares { conf: Default::default(), backlog: 0 });
        assert_eq!(row(&config), congestion.beside_shares(true).as_bytes());
    }
}
