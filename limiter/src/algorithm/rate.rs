//! A count per window as an exact fraction.

use std::time::Duration;

use super::{
    Invalid, Verdict,
    exact::{Wide, div_ceil, mul, nanos},
};

/// Longest window: 366 days, so that a leap year fits.
const WINDOW_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Most tokens of one window: up to there an `f64` counts every one.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// Amounts of work stay below this, so that adding a few of them cannot overflow.
pub(super) const UNITS_MAX: u128 = 1 << 126;

/// `count` tokens per `window`, exactly.
///
/// A rule's count is an `f64`, which is a whole number over a power of two, so tokens per
/// nanosecond are a fraction `p / q` of integers. Algorithms measure work in units of `1 / p`
/// nanoseconds: one token is `q` units, a nanosecond works off `p`, and no division ever rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `p`, below 2^53 + 1; 0 for a count of zero.
    per_ns: u64,
    /// `q`, from 1 to below 2^126.
    per_token: Wide,
}

impl Rate {
    /// `count` (0 ..= 2^53, fractions allowed) tokens per `window` (1 ms ..= 366 days). A count of
    /// zero is valid: nothing ever passes.
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`], [`Invalid::Period`], or [`Invalid::TooSlow`] when a single token takes
    /// longer than a quarter of a million years.
    pub fn new(count: f64, window: Duration) -> Result<Self, Invalid> {
        let count = check_count(count)?;
        let window_ns = check_window(window)?;
        if count == 0.0 {
            return Ok(Self { per_ns: 0, per_token: Wide::new(1) });
        }
        let (odd, twos) = dyadic(count);
        let common = gcd(odd, window_ns);
        let per_token = u128::from(window_ns / common);
        // Either the count is whole and `twos` is zero, or `odd` is odd and shares no two.
        let per_token = per_token
            .checked_shl(twos)
            .filter(|wide| wide >> twos == per_token && *wide < UNITS_MAX)
            .ok_or(Invalid::TooSlow { tokens: 1 })?;
        Ok(Self { per_ns: odd / common, per_token: Wide::new(per_token) })
    }

    /// What `burst` is when a rule names none: the whole tokens of its count, and at least one,
    /// since a bucket smaller than a token never lets one through.
    #[must_use]
    pub fn default_burst(count: f64) -> u64 {
        whole(count).max(1)
    }

    /// Units that a nanosecond works off.
    #[inline]
    pub(super) const fn per_ns(&self) -> u64 {
        self.per_ns
    }

    /// Units of one token.
    #[inline]
    pub(super) const fn per_token(&self) -> u128 {
        self.per_token.get()
    }

    /// Units of `tokens`; `None` when that is too much work to be counted.
    #[inline(always)]
    pub(super) fn units(&self, tokens: u64) -> Option<u128> {
        mul(tokens, self.per_token()).filter(|units| *units < UNITS_MAX)
    }

    /// A refusal until `over` more units are worked off; `None`: for ever. The rate is not zero.
    pub(super) fn refusal(&self, over: Option<u128>) -> Verdict {
        Verdict::Block { retry: over.map(|over| nanos(div_ceil(over, self.per_ns))) }
    }

    /// Units worked off in `time`, which is cut to 2^64 ns.
    #[inline]
    pub(super) fn units_in(&self, time: Duration) -> u128 {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        u128::from(ns) * u128::from(self.per_ns)
    }
}

/// The count itself, if it is one.
pub(super) fn check_count(count: f64) -> Result<f64, Invalid> {
    if (0.0..=COUNT_MAX).contains(&count) { Ok(count) } else { Err(Invalid::Count(count)) }
}

/// The window in nanoseconds, if it is one.
pub(super) fn check_window(window: Duration) -> Result<u64, Invalid> {
    if window < Duration::from_millis(1) || window > WINDOW_MAX {
        return Err(Invalid::Period(window));
    }
    u64::try_from(window.as_nanos()).map_err(|_| Invalid::Period(window))
}

/// The whole tokens of a count: windows count tokens, so a fraction admits nothing more.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; fractions go"
)]
pub(super) fn whole(count: f64) -> u64 {
    count as u64
}

#[expect(clippy::cast_precision_loss, reason = "tokens up to 2^53 are exact, more are many")]
#[inline]
pub(super) const fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}

/// A positive count as `odd / 2^twos`; `odd` is odd unless `twos` is 0.
fn dyadic(count: f64) -> (u64, u32) {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = count.to_bits();
    let exponent = bits >> 52;
    // Subnormal numbers have no hidden bit and the exponent of the smallest normal ones.
    let mantissa = (bits & MANTISSA) | (u64::from(exponent > 0) << 52);
    // 1075 = 1023, the bias, and 52, the digits after the point.
    match 1_075_u64.checked_sub(exponent.max(1)) {
        Some(twos) => {
            let even = u64::from(mantissa.trailing_zeros()).min(twos);
            (mantissa >> even, u32::try_from(twos - even).unwrap_or(u32::MAX))
        }
        // Only 2^53: one digit more before the point than the mantissa holds.
        None => (mantissa << (exponent - 1_075), 0),
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn is_exact(count: f64, window: Duration) -> bool {
        let rate = Rate::new(count, window).unwrap();
        let exact = BigRational::from_float(count).unwrap() / BigInt::from(window.as_nanos());
        exact == BigRational::new(rate.per_ns.into(), rate.per_token().into())
    }

    #[test]
    fn whole_counts_are_reduced() {
        let reduced = |count, window| {
            let rate = Rate::new(count, window).unwrap();
            (rate.per_ns(), rate.per_token())
        };
        assert_eq!(reduced(5.0, SECOND), (1, 200_000_000));
        let hour = Duration::from_secs(3_600);
        assert_eq!(reduced(1e6, hour), (1, 3_600_000));
        assert_eq!(reduced(3.0, SECOND), (3, 1_000_000_000));
    }

    #[test]
    fn the_edges_of_count_and_window_are_exact() {
        for count in [COUNT_MAX, COUNT_MAX - 1.0, 1.0, 0.5, 0.2, 0.1, 2.5, 1e-3, 1_000_000.1, 1e-6]
        {
            for window in [Duration::from_millis(1), SECOND, WINDOW_MAX] {
                assert!(is_exact(count, window), "{count} per {window:?}");
            }
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_by_name() {
        for count in [-1.0, f64::NAN, f64::INFINITY, COUNT_MAX + 2.0] {
            assert!(matches!(Rate::new(count, SECOND), Err(Invalid::Count(_))), "{count}");
        }
        for window in [Duration::ZERO, Duration::from_micros(999), WINDOW_MAX + SECOND] {
            assert_eq!(Rate::new(1.0, window), Err(Invalid::Period(window)));
        }
        for count in [f64::MIN_POSITIVE, 5e-324, 1e-40] {
            assert_eq!(Rate::new(count, SECOND), Err(Invalid::TooSlow { tokens: 1 }));
        }
        assert_eq!(Rate::new(-0.0, SECOND).unwrap().per_ns, 0);
    }

    #[test]
    fn the_default_burst_is_the_whole_count_and_at_least_one() {
        let bursts = [0.0, 0.2, 1.0, 2.5, COUNT_MAX].map(Rate::default_burst);
        assert_eq!(bursts, [1, 1, 1, 2, 1 << 53]);
    }

    proptest! {
        #[test]
        fn every_count_is_converted_exactly(
            count in prop_oneof![0.001..10.0, 1.0..1e6, 1e6..COUNT_MAX],
            window_ns in 1_000_000_u64..=31_622_400_000_000_000,
        ) {
            prop_assert!(is_exact(count, Duration::from_nanos(window_ns)));
        }
    }
}
