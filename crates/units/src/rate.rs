//! [`BitRate`]: bits per second.

use crate::parse::{self, ParseError, Unit};
use crate::Time;
use std::fmt;
use std::str::FromStr;

/// A bit rate in bits per second, 1 to 2^64 - 1 where a link is meant; zero means "no capacity".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(u64);

impl BitRate {
    pub const fn from_bps(bps: u64) -> BitRate {
        BitRate(bps)
    }
    pub const fn from_mbps(mbps: u64) -> BitRate {
        BitRate(mbps * 1_000_000)
    }
    pub const fn from_gbps(gbps: u64) -> BitRate {
        BitRate(gbps * 1_000_000_000)
    }
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    pub fn as_gbps_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long `bytes` octets take to serialise, rounded up to a picosecond; exact for rates that divide 8 Tbps.
    ///
    /// # Panics
    /// If the rate is zero.
    pub const fn tx_time(self, bytes: u64) -> Time {
        const PS_BITS_PER_BYTE: u64 = 8 * 1_000_000_000_000;
        // 2 MB is far above any frame; larger amounts take the wide path.
        if bytes < 2_000_000 {
            Time::from_ps((bytes * PS_BITS_PER_BYTE).div_ceil(self.0))
        } else {
            let ps = (bytes as u128 * PS_BITS_PER_BYTE as u128).div_ceil(self.0 as u128);
            Time::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
        }
    }

    /// Whole bytes that fit in `span` at this rate, rounded down.
    pub const fn bytes_in(self, span: Time) -> u64 {
        (self.0 as u128 * span.as_ps() as u128 / 8_000_000_000_000) as u64
    }
}

pub(crate) const UNITS: &[Unit] =
    &[("bps", 1), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];

impl FromStr for BitRate {
    type Err = ParseError;
    /// `"10Gbps"`, `"2.5Gbps"`, `"200Mbps"`: always bits per second. Units: bps, Kbps, Mbps, Gbps, Tbps.
    fn from_str(text: &str) -> Result<BitRate, ParseError> {
        parse::quantity(text, "a bit rate", "\"10Gbps\"", UNITS).map(BitRate)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&parse::shortest(self.0, UNITS))
    }
}
impl fmt::Debug for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
