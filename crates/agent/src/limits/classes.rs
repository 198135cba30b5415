//! Classes of HTB: their numbers, rates and turns.

use agent_api::config::Rate;
use kernel::htb::{Class, HANDLE};
use std::collections::{BTreeMap, BTreeSet};
use units::{BitRate, Time};

/// Minor numbers of tenants' classes, and of ports'.
pub(super) const TENANTS: std::ops::Range<u32> = 0x10..0x1000;
pub(super) const PORTS: std::ops::Range<u32> = 0x1000..0x5000;
/// From a port's class to the one above it and above that of what goes first, and to the latter.
pub(super) const BOTH: u32 = 0x4000;
pub(super) const OF_FIRST: u32 = 0x8000;
/// The same of what goes to a port, where the class above both is [`TOP`](kernel::htb::TOP).
pub(super) const IN_BULK: u32 = HANDLE | 2;
pub(super) const IN_FIRST: u32 = HANDLE | 3;
/// A queue has its class's number, and that of the root is taken.
const TAKEN: u32 = HANDLE >> 16;
/// The class above all others where nobody limits all together.
pub(super) const UNLIMITED: BitRate = BitRate::from_gbps(1_000);
/// What may go at once after idleness: more than a late timer lets pass, and at least a packet or two.
const BURST: Time = Time::from_ms(1);
const LEAST_BURST_BYTES: u64 = 4_096;
/// A whole segment with its headers: who has less of a turn than that takes no less.
const TURN: u64 = 66_000;
/// Turns of siblings differ by at most so much.
const MAX_TURNS: u64 = 64;

pub(super) fn bytes_per_second(rate: BitRate) -> u64 {
    (rate.as_bps() / 8).max(1)
}

/// As a burst, in ns: the kernel has 32 bits of 64 ns.
pub(super) fn longest(time: Time) -> u64 {
    (time.as_ns() / 64).min(u32::MAX.into()) * 64
}

/// `least`: the smallest guarantee among the siblings.
pub(super) fn class(id: u32, parent: u32, rate: Rate, least: BitRate) -> Class {
    let burst = |rate: BitRate| longest(BURST.max(rate.tx_time(LEAST_BURST_BYTES)));
    let turns = (rate.guarantee.as_bps() / least.as_bps().max(1)).clamp(1, MAX_TURNS);
    Class {
        id,
        parent,
        rate: bytes_per_second(rate.guarantee),
        ceil: bytes_per_second(rate.ceiling),
        burst_ns: burst(rate.guarantee),
        ceil_burst_ns: burst(rate.ceiling),
        quantum: (TURN * turns) as u32,
        prio: 0,
    }
}

/// A number within `range` for each of `wanted`: the one that it has already, or the lowest that is free. What waits under a number that nobody
/// wants any more is still on its way: others get it only where there is no other.
pub(super) fn numbers<K: Ord + Clone>(
    range: std::ops::Range<u32>,
    known: &BTreeMap<K, u32>,
    wanted: &[K],
) -> BTreeMap<K, u32> {
    renumbered(range, known, wanted, &BTreeSet::new())
}

/// The same, but `anew` get others than they have.
pub(super) fn renumbered<K: Ord + Clone>(
    range: std::ops::Range<u32>,
    known: &BTreeMap<K, u32>,
    wanted: &[K],
    anew: &BTreeSet<K>,
) -> BTreeMap<K, u32> {
    let kept = |key: &K| known.get(key).copied().filter(|_| !anew.contains(key));
    let mut taken: BTreeSet<u32> = wanted.iter().filter_map(kept).collect();
    let waits: BTreeSet<u32> = known.values().copied().collect();
    let mut found = BTreeMap::new();
    for key in wanted {
        let old = kept(key).filter(|number| range.contains(number) && *number != TAKEN);
        let free = |number: &u32| !taken.contains(number) && *number != TAKEN;
        let number = old.or_else(|| range.clone().find(|number| free(number) && !waits.contains(number)));
        let number = number.or_else(|| range.clone().find(free));
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

    #[test]
    fn numbers_stay_and_wait_for_those_who_have_just_ended() {
        let known = BTreeMap::from([("a", 1), ("b", 2), ("ended", 3)]);
        let of = |range, wanted: &[&'static str]| numbers(range, &known, wanted).into_values().collect::<Vec<u32>>();
        assert_eq!(of(1..9, &["a", "b", "new"]), [1, 2, 4], "what waits under 3 is another's");
        assert_eq!(of(1..9, &["b", "new"]), [2, 4]);
        assert_eq!(
            of(1..4, &["b", "new", "other", "third"]),
            [2, 1, 3],
            "where there is no other, and no more than there are"
        );
    }

    #[test]
    fn who_is_to_move_gets_a_number_that_nobody_has() {
        let known = BTreeMap::from([("a", 1), ("b", 2), ("c", 3)]);
        let of = |range, anew: &[&'static str]| {
            let anew = anew.iter().copied().collect();
            renumbered(range, &known, &["a", "b", "c"], &anew).into_values().collect::<Vec<u32>>()
        };
        assert_eq!(of(1..9, &["a", "c"]), [4, 2, 5]);
        assert_eq!(of(1..5, &["a", "c"]), [4, 2, 1], "or that one which another leaves");
        assert_eq!(of(1..4, &["b"]), [1, 2, 3], "or keeps its own where there is no other");
    }
}
