//! A fabric for tests of what follows from discovery: one router with up to eight links behind it. Each source port takes one link.

use ::discovery::{Change, Config, Discovery, Probe};
use std::net::IpAddr;
use units::Time;

pub(crate) const TO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 2, 3, 2));

/// Probes that are sent are answered at once.
pub(crate) struct Fabric {
    discovery: Discovery,
    now: Time,
}

impl Fabric {
    /// `seed`: of discovery.
    pub(crate) fn new(seed: u64) -> Fabric {
        Fabric { discovery: Discovery::new(Config::default(), seed), now: Time::ZERO }
    }

    /// What is found in 20 s while the links `up` are there, a bit each. `hash`: odd, and which of these a port takes follows from it.
    pub(crate) fn changes(&mut self, up: u8, hash: u16) -> Vec<Change> {
        let links: Vec<u8> = (0..8).filter(|link| up >> link & 1 == 1).collect();
        let end = self.now + Time::from_secs(20);
        while self.now < end {
            self.discovery.want(self.now, TO);
            while let Some(Probe { port, ttl, .. }) = self.discovery.poll_transmit(self.now) {
                let link = links[usize::from(port.wrapping_mul(hash) >> 4) % links.len()];
                let probe = Probe { to: TO, port, ttl };
                match ttl {
                    1 => self.discovery.time_exceeded(self.now, probe, [10, 0, 0, 1].into()),
                    2 => self.discovery.time_exceeded(self.now, probe, [10, 1, 0, link].into()),
                    _ => self.discovery.answered(self.now, probe),
                }
            }
            self.now += Time::from_ms(5);
            self.discovery.handle_timeout(self.now);
        }
        std::iter::from_fn(|| self.discovery.poll_change()).map(|(_, change)| change).collect()
    }
}
