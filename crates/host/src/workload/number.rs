//! Numbers in files of other tools, which carry no units.

use units::Time;

/// A finite decimal number.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|v| v.is_finite())
}

/// A non-negative whole number, possibly written like 2e6 or 15.0.
pub(super) fn whole(text: &str) -> Option<u64> {
    if let Ok(exact) = text.parse() {
        return Some(exact);
    }
    finite(text).filter(|v| (0.0..9e15).contains(v) && v.fract() == 0.0).map(|v| v as u64)
}

/// Seconds to picoseconds: exact for plain decimals, digits beyond the twelfth dropped.
pub(super) fn seconds(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !whole.is_empty() && digits(whole) && digits(fraction) {
        let ps: u64 = format!("{:0<12}", &fraction[..fraction.len().min(12)]).parse().ok()?;
        return whole.parse::<u64>().ok()?.checked_mul(1_000_000_000_000)?.checked_add(ps).map(Time::from_ps);
    }
    finite(text).filter(|s| (0.0..18e6).contains(s)).map(Time::from_secs_f64)
}

/// Picoseconds, possibly with a fraction, which is rounded.
pub(super) fn picoseconds(text: &str) -> Option<Time> {
    if let Ok(exact) = text.parse() {
        return Some(Time::from_ps(exact));
    }
    finite(text).filter(|ps| (0.0..18e18).contains(ps)).map(|ps| Time::from_ps(libm::round(ps) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        assert_eq!(seconds("2.000000123"), Some(Time::from_ps(2_000_000_123_000)));
        assert_eq!(seconds("0.0000000000019"), Some(Time::from_ps(1)));
        assert_eq!(seconds("1e-6"), Some(Time::from_us(1)));
        assert_eq!(seconds("3"), Some(Time::from_secs(3)));
        for bad in ["", "-1", "nan", "inf", "99999999999", "1.2.3", "1s", "18446745"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers() {
        assert_eq!((whole("2e6"), whole("15.0"), whole("1.5"), whole("-1")), (Some(2_000_000), Some(15), None, None));
        assert_eq!((picoseconds("0.0"), picoseconds("1.5e6")), (Some(Time::ZERO), Some(Time::from_ps(1_500_000))));
    }
}
