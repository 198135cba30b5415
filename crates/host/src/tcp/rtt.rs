//! Round-trip time estimation and the retransmission timeout (RFC 6298).

use units::Time;

/// Smoothed RTT, its variation, the smallest sample, and the exponential back-off.
///
/// RTO = max(minimum, SRTT + 4 RTTVAR). The clock counts picoseconds, so the granularity G of rule 2.3 vanishes.
/// Linux bounds 4 RTTVAR instead of the sum from below, which gives RTT more: 200 ms or 200.1 ms, of no effect here.
#[derive(Clone, Debug, Default)]
pub(crate) struct RttEstimator {
    srtt: Option<Time>,
    rttvar: Time,
    min: Option<Time>,
    backoff: u8,
}

impl RttEstimator {
    /// Takes a sample of a segment that was sent once (Karn's rule is the caller's); ends the back-off.
    pub(crate) fn sample(&mut self, rtt: Time) {
        self.backoff = 0;
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            Some(srtt) => {
                let error = if srtt > rtt { srtt - rtt } else { rtt - srtt };
                self.rttvar = Time::from_ps(self.rttvar.as_ps() - self.rttvar.as_ps() / 4 + error.as_ps() / 4);
                self.srtt = Some(Time::from_ps(srtt.as_ps() - srtt.as_ps() / 8 + rtt.as_ps() / 8));
            }
        }
    }

    pub(crate) fn srtt(&self) -> Option<Time> {
        self.srtt
    }

    /// Smallest sample of the connection.
    pub(crate) fn min(&self) -> Option<Time> {
        self.min
    }

    /// Doubles the timeout from now on (rule 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The timeout in force, between `min` and `max`; `initial` before the first sample.
    pub(crate) fn rto(&self, initial: Time, min: Time, max: Time) -> Time {
        let base = match self.srtt {
            None => initial,
            Some(srtt) => srtt.saturating_add(Time::from_ps(self.rttvar.as_ps().saturating_mul(4))).max(min),
        };
        Time::from_ps(base.as_ps().saturating_mul(1 << self.backoff)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rto_of(rtt: &RttEstimator) -> Time {
        rtt.rto(Time::from_secs(1), Time::from_ms(200), Time::from_secs(120))
    }

    #[test]
    fn follows_the_rfc_by_hand() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rto_of(&rtt), Time::from_secs(1), "rule 2.1 with the second of RFC 6298");
        rtt.sample(Time::from_ms(100));
        assert_eq!(rtt.srtt(), Some(Time::from_ms(100)));
        assert_eq!(rto_of(&rtt), Time::from_ms(300), "100 + 4 * 50");
        rtt.sample(Time::from_ms(180));
        // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(rtt.srtt(), Some(Time::from_ms(110)));
        assert_eq!(rto_of(&rtt), Time::from_ms(340));
        assert_eq!(rtt.min(), Some(Time::from_ms(100)));
    }

    #[test]
    fn the_minimum_bounds_short_paths() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Time::from_us(100));
        assert_eq!(rto_of(&rtt), Time::from_ms(200));
        assert_eq!(rtt.rto(Time::from_secs(1), Time::from_ms(10), Time::from_secs(120)), Time::from_ms(10));
    }

    #[test]
    fn backs_off_to_the_maximum_and_recovers_on_a_sample() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Time::from_us(100));
        let table: Vec<u64> = (0..12)
            .map(|_| {
                let rto = rto_of(&rtt).as_ps() / 1_000_000_000;
                rtt.back_off();
                rto
            })
            .collect();
        assert_eq!(table, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 120_000, 120_000]);
        for _ in 0..300 {
            rtt.back_off();
        }
        assert_eq!(rto_of(&rtt), Time::from_secs(120));
        rtt.sample(Time::from_us(100));
        assert_eq!(rto_of(&rtt), Time::from_ms(200));
    }
}
