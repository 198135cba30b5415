//! Identifiers of probes: the TTL and a number. Only somebody who has seen the probe knows the number. An answer counts only if it
//! names the probe's source port and its identifier.

use discovery::Probe;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use units::Time;

/// Bits of the TTL; the number has the others.
const TTL: u16 = 6;
/// Answers are taken for one to two ages of 2^32 ns (4.3 s).
const AGE: u32 = 32;

/// Keyed with random numbers of this process.
#[derive(Debug, Default)]
pub(crate) struct Ids(RandomState);

impl Ids {
    /// Never 0.
    pub(crate) fn id(&self, probe: &Probe, now: Time) -> u16 {
        self.of_age(probe, now.as_ns() >> AGE)
    }

    fn of_age(&self, probe: &Probe, age: u64) -> u16 {
        let number = self.0.hash_one((probe.to, probe.port, probe.ttl, age));
        (number as u16) << TTL | u16::from(probe.ttl) & ((1 << TTL) - 1)
    }

    /// The probe with that source port and identifier, if there can have been one lately.
    pub(crate) fn probe(&self, to: IpAddr, port: u16, id: u16, now: Time) -> Option<Probe> {
        let probe = Probe { to, port, ttl: (id & ((1 << TTL) - 1)) as u8 };
        let age = now.as_ns() >> AGE;
        (self.of_age(&probe, age) == id || self.of_age(&probe, age.wrapping_sub(1)) == id).then_some(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 2, 3, 2));

    #[test]
    fn an_identifier_is_of_one_port_and_ttl_and_grows_old() {
        let (ids, now) = (Ids::default(), Time::from_secs(100));
        let probe = Probe { to: TO, port: 0xc107, ttl: 3 };
        let id = ids.id(&probe, now);
        assert_ne!(id, 0);
        assert_eq!(ids.probe(TO, probe.port, id, now), Some(probe));
        assert_eq!(ids.probe(TO, probe.port, id, now + Time::from_secs(4)), Some(probe));
        let others = (1..64u16).filter(|bits| ids.probe(TO, probe.port, id ^ bits, now).is_some()).count();
        assert!(others <= 8, "{others} of 63 other TTLs have the same number; 1 in 512 may");
        let later = (9..60).filter(|s| ids.probe(TO, probe.port, id, now + Time::from_secs(*s)).is_some()).count();
        // One age in 1024 has the same number by chance, and answers for nine seconds: three of thirteen hardly ever do.
        assert!(later <= 18, "{later} of 51 seconds");
    }

    /// Somebody who knows the port and the TTL, but has not seen the probe.
    #[test]
    fn a_guess_is_right_once_in_a_thousand() {
        let (ids, now) = (Ids::default(), Time::from_secs(100));
        let right = |ttl: u16| (0..1024).filter(|n| ids.probe(TO, 0xc107, n << TTL | ttl, now).is_some()).count();
        for ttl in 1..=32 {
            assert!((1..=2).contains(&right(ttl)), "of this age and the one before");
        }
    }
}
