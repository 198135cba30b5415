//! [`Time`]: picoseconds.

use crate::parse::{self, ParseError, Unit};
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

/// A point in virtual time, or a span of it, in whole picoseconds since the start of the run.
///
/// Range: 0 to 2^64 - 1 ps, about 213 days. One byte at 400 Gbps takes 20 ps, so serialisation times of common
/// link rates are exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Time = Time(0);
    pub const MAX: Time = Time(u64::MAX);

    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * 1_000_000_000)
    }
    pub const fn from_secs(s: u64) -> Time {
        Time(s * 1_000_000_000_000)
    }
    /// The nearest picosecond to `s` seconds; negative and NaN give zero, values beyond the range give [`Time::MAX`].
    pub fn from_secs_f64(s: f64) -> Time {
        Time((s * 1e12 + 0.5) as u64)
    }

    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down: the clock that `datapath/` sees.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
    pub const fn checked_sub(self, other: Time) -> Option<Time> {
        match self.0.checked_sub(other.0) {
            Some(ps) => Some(Time(ps)),
            None => None,
        }
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}
impl SubAssign for Time {
    fn sub_assign(&mut self, other: Time) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, n: u64) -> Time {
        Time(self.0 * n)
    }
}
impl Div<u64> for Time {
    type Output = Time;
    fn div(self, n: u64) -> Time {
        Time(self.0 / n)
    }
}

pub(crate) const UNITS: &[Unit] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
];

impl FromStr for Time {
    type Err = ParseError;
    /// `"3us"`, `"1.5ms"`, `"0s"`. Units: ps, ns, us, ms, s, min.
    fn from_str(text: &str) -> Result<Time, ParseError> {
        parse::quantity(text, "a time", "\"3us\"", UNITS).map(Time)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&parse::shortest(self.0, &UNITS[..5]))
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
