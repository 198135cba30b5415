//! [`Bytes`]: octets.

use crate::parse::{self, ParseError, Unit};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// A number of octets, 0 to 2^64 - 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);

    pub const fn kib(n: u64) -> Bytes {
        Bytes(n * 1024)
    }
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(all: I) -> Bytes {
        Bytes(all.map(|b| b.0).sum())
    }
}

pub(crate) const UNITS: &[Unit] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

impl FromStr for Bytes {
    type Err = ParseError;
    /// `"1500B"`, `"50KB"` (50,000), `"64KiB"` (65,536). Units: B, KB, MB, GB (powers of 1000), KiB, MiB, GiB.
    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        parse::quantity(text, "a size", "\"64KiB\"", UNITS).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = self.0 != 0 && self.0 % 1024 == 0 && self.0 % 1000 != 0;
        let units = if binary { &UNITS[4..] } else { &UNITS[..4] };
        f.write_str(&parse::shortest(self.0, units))
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
