//! Integer arithmetic that does not lose anything on the way.

use std::time::Duration;

/// A `u128` that does not force its owner to an alignment, and so to a size, of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wide {
    high: u64,
    low: u64,
}

impl Wide {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    #[inline]
    pub(super) const fn new(value: u128) -> Self {
        Self { high: (value >> 64) as u64, low: value as u64 }
    }

    #[inline]
    pub(super) const fn get(self) -> u128 {
        ((self.high as u128) << 64) | self.low as u128
    }
}

/// ⌊a / b⌋, which the caller knows to fit. Nearly always both are small, and a division of
/// 64 bits is several times cheaper than one of 128.
#[inline(always)]
pub(super) fn div_floor(a: u128, b: u128) -> u64 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => a / b,
        _ => u64::try_from(a / b).unwrap_or(u64::MAX),
    }
}

/// ⌈a / b⌉.
#[inline(always)]
pub(super) fn div_ceil(a: u128, b: u64) -> u128 {
    match u64::try_from(a) {
        Ok(a) => u128::from(a.div_ceil(b)),
        Err(_) => a.div_ceil(u128::from(b)),
    }
}

/// Tokens in `units`, rounded up.
pub(super) fn tokens_in(units: u128, per_token: u128) -> u64 {
    u64::try_from(units.div_ceil(per_token)).unwrap_or(u64::MAX)
}

/// a × b, if it fits. Nearly always `b` is small, too, and then it does.
#[inline(always)]
pub(super) fn mul(a: u64, b: u128) -> Option<u128> {
    match u64::try_from(b) {
        Ok(b) => Some(u128::from(a) * u128::from(b)),
        Err(_) => b.checked_mul(a.into()),
    }
}

/// ⌈a × b / c⌉ without overflow on the way; `u128::MAX` when the result does not fit. `c` is not
/// zero and below 2^127.
#[inline(always)]
pub(super) fn mul_div_ceil(a: u128, b: u128, c: u128) -> u128 {
    if let (Ok(a), Ok(c)) = (u64::try_from(a), u64::try_from(c))
        && let Some(product) = mul(a, b)
    {
        return div_ceil(product, c);
    }
    mul_div_ceil_wide(a, b, c)
}

#[inline(never)]
fn mul_div_ceil_wide(a: u128, b: u128, c: u128) -> u128 {
    if let Some(product) = a.checked_mul(b) {
        return product.div_ceil(c);
    }
    let (mut rest, mut low) = mul_wide(a, b);
    if rest >= c {
        return u128::MAX;
    }
    // Long division, a bit at a time: `rest` stays below `c`, so doubling it cannot overflow, and
    // the bits of the quotient follow those of `low` out.
    for _ in 0..128 {
        rest = (rest << 1) | (low >> 127);
        low <<= 1;
        if rest >= c {
            rest -= c;
            low |= 1;
        }
    }
    low.saturating_add(u128::from(rest > 0))
}

/// `units` of time at `from` units a nanosecond as units at `to`, rounded up to one of them. Times
/// that ticks cannot hold may be cut, to one that they cannot hold either; 0 if there was no unit.
pub(super) fn convert(units: u128, from: u64, to: u64) -> u128 {
    match from {
        0 => 0,
        from => mul_div_ceil(units, to.into(), from.into()).min(super::rate::UNITS_MAX),
    }
}

/// The 256 bits of a × b, high half first.
const fn mul_wide(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let (low, high) = (a0 * b0, a1 * b1);
    let (x, y) = (a1 * b0, a0 * b1);
    let middle = (low >> 64) + (x & LOW) + (y & LOW);
    ((x >> 64) + (y >> 64) + (middle >> 64) + high, (middle << 64) | (low & LOW))
}

/// A time of `ns` nanoseconds, however long.
#[inline(always)]
pub(super) fn nanos(ns: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    match u64::try_from(ns) {
        Ok(ns) => Duration::from_nanos(ns),
        Err(_) => Duration::from_secs(u64::try_from(ns / SECOND).unwrap_or(u64::MAX))
            .saturating_add(Duration::from_nanos(u64::try_from(ns % SECOND).unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wide_number_is_sixteen_bytes_with_the_alignment_of_eight() {
        assert_eq!((size_of::<Wide>(), align_of::<Wide>()), (16, 8));
        for value in [0, 1, u128::from(u64::MAX), 1 << 64, u128::MAX] {
            assert_eq!(Wide::new(value).get(), value);
        }
    }

    #[test]
    fn long_times_keep_their_nanoseconds() {
        assert_eq!(nanos(1 << 74), Duration::new(18_889_465_931_478, 580_854_784));
        assert_eq!(nanos(7), Duration::from_nanos(7));
    }

    proptest! {
        #[test]
        fn products_of_any_size_divide_exactly(
            a: u128, b: u128, c: u128, shifts in (0_u32..128, 0_u32..128, 1_u32..127),
        ) {
            let (a, b, c) = (a >> shifts.0, b >> shifts.1, (c >> shifts.2).max(1));
            let product = BigUint::from(a) * BigUint::from(b);
            let right = (product + (c - 1)) / c;
            prop_assert_eq!(mul_div_ceil(a, b, c), u128::try_from(right).unwrap_or(u128::MAX));
        }

        #[test]
        fn small_and_wide_division_agree(a: u128, b in 1_u64.., shift in 0_u32..128) {
            let a = a >> shift;
            prop_assert_eq!(div_ceil(a, b), a.div_ceil(u128::from(b)));
            let right = u64::try_from(a / u128::from(b)).unwrap_or(u64::MAX);
            prop_assert_eq!(div_floor(a, u128::from(b)), right);
        }
    }
}
