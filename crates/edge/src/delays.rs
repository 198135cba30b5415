//! How long segments wait in a limiter's queue, as a histogram: `datapath/delay.h`.

use crate::native::limiter::sv_edge_delay_count;
pub use crate::native::limiter::{Delays, BUCKETS};
use units::Time;

const LEAST: Time = Time::from_us(16);

/// The longest delay of a bucket; `None`: it has no bound.
pub fn bound(bucket: usize) -> Option<Time> {
    (bucket + 1 < BUCKETS).then(|| Time::from_ns(LEAST.as_ns() << bucket))
}

impl Delays {
    /// One more that took so long.
    pub fn note(&mut self, delay: Time) {
        // SAFETY: changes one struct, which asserts the layout.
        unsafe { sv_edge_delay_count(self, delay.as_ns()) }
    }

    pub fn add(&mut self, other: &Delays) {
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, n)| *sum = sum.wrapping_add(n));
    }

    /// All segments.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The delay that `share` of the segments do not exceed, as Prometheus' `histogram_quantile` estimates it: evenly spread within
    /// a bucket. `None` without segments; [`Time::MAX`] where it is beyond the last bound.
    pub fn quantile(&self, share: f64) -> Option<Time> {
        let rank = share * self.count() as f64;
        let (mut below, mut least) = (0.0, Time::ZERO);
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                let Some(most) = bound(bucket) else { return Some(Time::MAX) };
                let within = (most.as_ns() - least.as_ns()) as f64 * ((rank - below) / count).clamp(0.0, 1.0);
                return Some(Time::from_ns(least.as_ns() + within as u64));
            }
            below += count;
            least = bound(bucket).unwrap_or(least);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::limiter::sv_edge_delay_ns;
    use proptest::prelude::*;

    fn counted(ns: u64) -> Delays {
        let mut delays = Delays::default();
        // SAFETY: changes one struct, which asserts the layout.
        unsafe { sv_edge_delay_count(&mut delays, ns) }
        delays
    }

    fn bucket(ns: u64) -> usize {
        counted(ns).counts.iter().position(|count| *count == 1).unwrap()
    }

    #[test]
    fn bounds_double_and_belong_to_their_bucket() {
        assert_eq!(bucket(0), 0);
        for n in 0..BUCKETS - 1 {
            let most = bound(n).unwrap().as_ns();
            assert_eq!((bucket(most - 1), bucket(most), bucket(most + 1)), (n, n, n + 1), "{most} ns");
        }
        assert_eq!((bound(0), bound(13), bound(14)), (Some(LEAST), Some(Time::from_us(131_072)), None));
        assert_eq!((bucket(60_000_000_000), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
        assert_eq!([499, 500, 16_000].map(|ns| counted(ns).sum_us), [0, 1, 16]);
        let mut both = counted(20_000);
        both.add(&counted(30_000));
        assert_eq!((both.count(), both.counts[1], both.sum_us), (2, 2, 50));
    }

    #[test]
    fn delays_are_bytes_over_rate() {
        // SAFETY: integers only.
        let delay = |bytes, rate| unsafe { sv_edge_delay_ns(bytes, rate) };
        assert_eq!((delay(1_500, 12_500_000), delay(0, 1), delay(1, 0)), (120_000, 0, 0));
        assert_eq!((delay(1 << 34, 1), delay(1 << 34, u64::MAX)), (60_000_000_000, 0));
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile(0.5), None);
        delays.counts[0] = 50;
        delays.counts[3] = 49;
        delays.counts[14] = 1;
        let at = |share| delays.quantile(share).unwrap();
        assert_eq!((at(0.25), at(0.5)), (Time::from_us(8), Time::from_us(16)));
        assert_eq!((at(0.99), at(0.999)), (Time::from_us(128), Time::MAX));
    }

    proptest! {
        #[test]
        fn every_delay_is_within_its_bounds(ns in any::<u64>(), shift in 0u32..64) {
            let ns = ns >> shift;
            let found = bucket(ns);
            prop_assert!(bound(found).is_none_or(|most| ns <= most.as_ns()));
            prop_assert!(found == 0 || ns > bound(found - 1).unwrap().as_ns());
        }

        #[test]
        fn quantiles_rise_with_their_share(counts in prop::array::uniform15(0u64..100), a in 0.0..1.0, b in 0.0..1.0) {
            let delays = Delays { counts, ..Delays::default() };
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(delays.quantile(a) <= delays.quantile(b));
        }
    }
}
