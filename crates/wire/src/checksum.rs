//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Ones' complement sum of big-endian 16-bit words, not yet folded.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes that begin at an even offset; an odd last byte is padded with zero.
    #[must_use]
    pub fn bytes(mut self, data: &[u8]) -> Sum {
        let mut words = data.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// Adds a 32-bit quantity.
    #[must_use]
    pub fn word(mut self, value: u32) -> Sum {
        self.0 += u64::from(value >> 16) + u64::from(value & 0xffff);
        self
    }

    /// The checksum field's value: the complement of the folded sum.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// The checksum after one aligned 16-bit word changed from `old` to `new` (RFC 1624 equation 3).
pub fn update(check: u16, old: u16, new: u16) -> u16 {
    let mut sum = u32::from(!check) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_1071_example() {
        // Section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn odd_byte_is_the_high_half() {
        assert_eq!(Sum::default().bytes(&[0x12, 0x34, 0x56]).finish(), !(0x1234 + 0x5600));
    }

    #[test]
    fn rfc_1624_example() {
        // Section 4: the corner case in which RFC 1141's formula gives FFFF.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn update_equals_recomputation(mut words in proptest::collection::vec(any::<u16>(), 2..40),
                                       at in any::<prop::sample::Index>(), new: u16) {
            let checksum = |words: &[u16]| words.iter().fold(Sum::default(), |s, w| s.word(u32::from(*w))).finish();
            // A header is never all zero; with that, both forms have one representation of zero.
            words[0] |= 0x4000;
            let at = 1 + at.index(words.len() - 1);
            let before = checksum(&words);
            let old = std::mem::replace(&mut words[at], new);
            prop_assert_eq!(update(before, old, new), checksum(&words));
        }
    }
}
