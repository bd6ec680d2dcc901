//! Numbers that differ from one limit to the next, and are the same in every run.

/// SplitMix64: a counter, scrambled. 8 bytes, a few multiplications a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: as even as 64 bits can be, without a division.
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// From 0.5 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(super) const fn half_to_one(&mut self) -> f64 {
        const DIGITS: u64 = 1 << 53;
        0.5 + (self.next() >> 11) as f64 / (2 * DIGITS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_range_and_even() {
        let mut jitter = Jitter::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(jitter.below(10)).unwrap()] += 1;
            assert!((0.5..1.0).contains(&jitter.half_to_one()));
        }
        assert!(seen.iter().all(|n| (900..1_100).contains(n)), "{seen:?}");
        assert_eq!(jitter.below(1), 0);
    }

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The reference program's first numbers for the seed 1234567.
        let mut jitter = Jitter::new(1_234_567);
        let first = [jitter.next(), jitter.next(), jitter.next()];
        let right =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, right);
    }
}
