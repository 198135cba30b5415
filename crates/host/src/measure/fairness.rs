//! Jain's fairness index.

/// Jain's fairness index, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything (Jain, Chiu and Hawe
/// 1984). `None` if there is no value or none is positive.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if !(largest > 0.0 && largest.is_finite()) {
        return None;
    }
    // Scaled, so that squares neither overflow nor vanish.
    let (sum, squares) = shares.iter().map(|x| x / largest).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    Some(sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn by_hand() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[1e-200, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 2 + 3)^2 / (3 x 14)
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (None, None));
    }
}
