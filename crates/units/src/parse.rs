//! Parsing and printing of quantities, exact and in integers.

use std::fmt;

/// A unit's suffix and how many base units it stands for.
pub(crate) type Unit = (&'static str, u64);

/// Why a text is not a quantity. The message has the expected form and an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for ParseError {}

/// Parses `<digits>[.<digits>]<unit>` exactly, in integers: a fraction that is not a whole number of base units is
/// an error rather than a rounding.
pub(crate) fn quantity(text: &str, what: &str, example: &str, units: &[Unit]) -> Result<u64, ParseError> {
    let fail = |why: &str| {
        let names: Vec<&str> = units.iter().map(|u| u.0).collect();
        let shown: String = text.chars().take(40).collect();
        ParseError { message: format!("{shown:?} is not {what}: {why}; write {example} (units: {})", names.join(", ")) }
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, suffix) = (&trimmed[..split], trimmed[split..].trim_start());
    if number.is_empty() {
        return Err(fail("it does not start with a number"));
    }
    if suffix.is_empty() {
        return Err(fail("the unit is missing"));
    }
    let Some(&(_, scale)) = units.iter().find(|u| u.0 == suffix) else {
        let shown: String = suffix.chars().take(20).collect();
        return Err(fail(&format!("unknown unit {shown:?}")));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return Err(fail("the number is malformed"));
    }
    let too_large = || fail("it is too large");
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let mut total = whole.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
    if !fraction.is_empty() {
        if fraction.len() > 18 {
            return Err(fail("it has more than 18 decimals"));
        }
        let decimals: u128 = fraction.parse().map_err(|_| fail("the number is malformed"))?;
        let denominator = 10u128.pow(fraction.len() as u32);
        let scaled = decimals * u128::from(scale);
        if scaled % denominator != 0 {
            return Err(fail("it is finer than the smallest unit"));
        }
        total += scaled / denominator;
    }
    u64::try_from(total).map_err(|_| too_large())
}

/// The largest unit in which `value` has at most three decimals, so that printing and parsing round-trip.
pub(crate) fn shortest(value: u64, units: &[Unit]) -> String {
    for &(name, scale) in units.iter().rev() {
        if value < scale && scale != units[0].1 {
            continue;
        }
        let thousandths = u128::from(value) * 1000;
        if thousandths % u128::from(scale) == 0 {
            let t = thousandths / u128::from(scale);
            let (whole, fraction) = (t / 1000, t % 1000);
            if fraction == 0 {
                return format!("{whole}{name}");
            }
            return format!("{whole}.{}{name}", format!("{fraction:03}").trim_end_matches('0'));
        }
    }
    // A value with many significant digits: whole base units, written without a fraction.
    format!("{}{}", u128::from(value) / u128::from(units[0].1), units[0].0)
}

#[cfg(test)]
mod tests {
    use crate::{BitRate, Bytes, Time};

    #[test]
    fn quantities_parse_exactly() {
        assert_eq!("3us".parse(), Ok(Time::from_us(3)));
        assert_eq!("1.5 ms".parse(), Ok(Time::from_us(1500)));
        assert_eq!("2.5Gbps".parse(), Ok(BitRate::from_mbps(2500)));
        assert_eq!("64KiB".parse(), Ok(Bytes(65_536)));
        assert_eq!("64KB".parse(), Ok(Bytes(64_000)));
        assert_eq!("0s".parse(), Ok(Time::ZERO));
    }

    #[test]
    fn a_bad_quantity_names_the_remedy() {
        for bad in
            ["10", "", "Gbps", "-3us", "1e3us", "3 parsecs", "1.2.3us", ".5us", "5.us", "0.1ps", "99999999999min"]
        {
            let error = bad.parse::<Time>().unwrap_err().to_string();
            assert!(error.contains("write \"3us\""), "{bad}: {error}");
        }
        assert!("10gbps".parse::<BitRate>().is_err(), "units are case-sensitive");
    }

    #[test]
    fn display_round_trips() {
        for ps in [0, 1, 999, 1_000, 1_500, 1_234_567, 3_000_000, 86_400_000_000_000_000, u64::MAX] {
            let time = Time::from_ps(ps);
            assert_eq!(time.to_string().parse(), Ok(time), "{time}");
        }
        for b in [0, 1, 1000, 1024, 1536, 65_536, 9_000_000, 1_048_576, 7_777_777] {
            assert_eq!(Bytes(b).to_string().parse(), Ok(Bytes(b)), "{}", Bytes(b));
        }
        assert_eq!(Bytes(65_536).to_string(), "64KiB");
        assert_eq!(BitRate::from_mbps(2500).to_string(), "2.5Gbps");
    }

    #[test]
    fn serialisation_time_is_exact_or_rounded_up() {
        assert_eq!(BitRate::from_gbps(10).tx_time(1538), Time::from_ps(1538 * 800));
        assert_eq!(BitRate::from_gbps(3).tx_time(1), Time::from_ps(2667));
        assert_eq!(BitRate::from_bps(8).tx_time(5_000_000), Time::from_secs(5_000_000));
        assert_eq!(BitRate::from_gbps(10).bytes_in(Time::from_us(1)), 1250);
    }
}
