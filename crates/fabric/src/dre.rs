//! CONGA's discounting rate estimator (Alizadeh et al., SIGCOMM 2014, section 3.2): how busy a port is, in three bits.

use units::{BitRate, Time};

/// `Tdre`: how often the estimate is discounted. The paper prints only tau = `Tdre` / alpha, 160 us; with alpha = 1/8 the
/// discount is a shift.
const PERIOD: Time = Time::from_us(20);
const ALPHA_SHIFT: u32 = 3;

/// Time over which the estimate of a full link counts its octets: tau.
const TAU: Time = Time::from_us(160);
const _: () = assert!(TAU.as_ps() == PERIOD.as_ps() << ALPHA_SHIFT);

/// The largest metric: 3 bits.
pub(crate) const FULL: u8 = 7;

/// The register X: octets sent, of which an eighth is forgotten in each period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dre {
    octets: u64,
    /// Periods that had begun at the last look.
    periods: u64,
}

impl Dre {
    /// `at` must not fall between calls.
    pub(crate) fn sent(&mut self, octets: u64, at: u64) {
        self.discount(at);
        self.octets += octets;
    }

    /// Share of the link's rate in eighths, rounded down, at most [`FULL`].
    pub(crate) fn metric(&self, rate: BitRate, now: u64) -> u8 {
        let mut dre = *self;
        dre.discount(now);
        let eighths = dre.octets * (u64::from(FULL) + 1) / rate.bytes_in(TAU).max(1);
        eighths.min(u64::from(FULL)) as u8
    }

    /// Rounded so that nothing stays for ever: a register of one octet becomes zero.
    fn discount(&mut self, now: u64) {
        let periods = now / PERIOD.as_ps();
        let mut due = periods.saturating_sub(self.periods);
        while due > 0 && self.octets > 0 {
            self.octets -= self.octets.div_ceil(1 << ALPHA_SHIFT);
            due -= 1;
        }
        self.periods = periods.max(self.periods);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate::from_gbps(10);
    /// A packet of 1250 octets takes 1 us.
    const OCTETS: u64 = 1250;

    /// Sends one packet every `every` us for `us`.
    fn load(dre: &mut Dre, every: u64, from: u64, us: u64) -> u64 {
        let us_ps = Time::from_us(1).as_ps();
        (from..from + us).step_by(every as usize).for_each(|t| dre.sent(OCTETS, t * us_ps));
        (from + us) * us_ps - 1
    }

    #[test]
    fn the_register_follows_the_rate_in_eighths() {
        // At the end of a period a share of 1/n has X = C tau / n; within it up to an eighth less.
        for (every, metric) in [(1, 7), (2, 3), (4, 1), (8, 0)] {
            let mut dre = Dre::default();
            let now = load(&mut dre, every, 0, 2000);
            let got = dre.metric(RATE, now);
            assert!(got == metric || got == metric + 1, "one of {every}: {got}");
        }
    }

    #[test]
    fn an_eighth_is_forgotten_in_each_period() {
        let mut dre = Dre::default();
        dre.sent(80_000, 0);
        let at = |periods: u64| PERIOD.as_ps() * periods;
        for (periods, octets) in [(0, 80_000), (1, 70_000), (2, 61_250)] {
            let mut later = dre;
            later.discount(at(periods));
            assert_eq!(later.octets, octets);
        }
        // In steps or at once is the same.
        let (mut steps, mut once) = (dre, dre);
        (1..=50).for_each(|n| steps.discount(at(n)));
        once.discount(at(50));
        assert_eq!(steps.octets, once.octets);
        once.discount(at(10_000));
        assert_eq!(once.octets, 0, "an idle link has no congestion");
    }

    #[test]
    fn reading_changes_nothing() {
        let mut dre = Dre::default();
        dre.sent(200_000, 0);
        assert_eq!(dre.metric(RATE, 0), FULL, "200 KB in 160 us is the whole rate of 10 Gbps");
        assert_eq!(dre.metric(RATE, PERIOD.as_ps() * 8), 2, "0.34 of it");
        assert_eq!(dre.octets, 200_000);
        assert_eq!(dre.metric(BitRate::from_gbps(40), 0), 2, "a quarter of 40 Gbps");
    }
}
