//! How long hosts take for received packets, where they are modelled as servers.

/// Delays by whole microseconds, rounded up; what takes longer than the last is counted there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    counts: Vec<u64>,
}

/// Microseconds that are told apart.
const MOST_US: usize = 100_000;

impl Delays {
    pub(crate) fn add(&mut self, delay: units::Time) {
        let us = (delay.as_ps().div_ceil(1_000_000) as usize).min(MOST_US);
        if self.counts.len() <= us {
            self.counts.resize(us + 1, 0);
        }
        self.counts[us] += 1;
    }

    pub(crate) fn join(&mut self, other: &Delays) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// The least delay that a share of packets does not exceed, microseconds; `None` with fewer than ten packets beyond it.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().sum();
        if (total as f64) * (1.0 - share) < 10.0 {
            return None;
        }
        let mut below = 0;
        let rank = (share * total as f64).ceil() as u64;
        let at = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        at.map(|us| us as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    #[test]
    fn quantiles_are_those_of_the_delays_rounded_up() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile(0.5), None);
        (1..=1000).for_each(|n| delays.add(Time::from_ns(n * 100)));
        assert_eq!((delays.quantile(0.5), delays.quantile(0.99), delays.quantile(0.999)), (Some(50), Some(99), None));
        let mut both = Delays::default();
        both.join(&delays);
        delays.add(Time::from_secs(1));
        both.join(&delays);
        assert_eq!(both.quantile(0.5), Some(51));
    }
}
