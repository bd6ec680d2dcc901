//! Sentinel's warm-up curve: the threshold that is in force while a cold service warms up.
//!
//! ```text
//!  seconds per token
//!   cold/count ┤                    ╱
//!              │                 ╱
//!              │              ╱
//!      1/count ┼───────────╱
//!              └───────────┬─────────┬── stored tokens
//!                       warning     max
//! ```

use std::time::Duration;

use super::{
    Invalid, SavedReserve,
    exact::{Wide, mul_div_ceil},
    rate::{as_f64, check_count, check_window, whole},
    saved::back_by_windows,
};
use crate::Tick;

/// Largest reserve, so that the curve is computed with whole numbers exactly.
const TOKENS_MAX: f64 = 9_007_199_254_740_992.0;

/// The curve of one rule.
///
/// *Formula* (`WarmUpController.java`): a reserve of tokens fills at `count` a second while the
/// service idles and each pass drains it; `warning = ⌊period × count⌋ / (cold - 1)`,
/// `max = warning + ⌊2 × period × count / (1 + cold)⌋`. Up to `warning` the threshold is `count`;
/// above, the seconds per token rise evenly until the threshold is `count / cold` at `max`.
///
/// Three things of Sentinel's are mended here, all for small counts. A threshold below the tokens
/// of one call let nothing pass and so nothing drain, for ever: the first call of a second now
/// passes if `count` allows it ([`Self::admits`]). A reserve at exactly `warning`, and a count
/// below the cold factor, never filled up again: an idle second now always fills. The fractions of
/// a token that a second brings are carried on rather than dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct WarmUpCurve {
    /// First what [`Self::stretch`] looks at: the rest is needed once a second.
    warning: u64,
    max: u64,
    cold: u32,
    count: f64,
    slope: f64,
    /// Seconds a token when warm.
    interval: f64,
    /// Length of the window in which the owner counts, in seconds.
    window: f64,
    /// How often the reserve is brought up to date: a second, or the window of who counts in
    /// longer ones.
    step_ns: u64,
    /// The reserve above `warning` fills only after a step with fewer passes than this.
    fills_below: u64,
    /// `count` times the step, as a fixed-point number with 64 binary places.
    fill: Wide,
}

/// The reserve of one key: 24 bytes. Full, so cold, before the first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// End of the second it was brought to; 0 before the first. A tick before it, however old,
    /// counts as one in that second.
    end: Tick,
    tokens: u64,
    /// The fraction of a token that belongs to it, times 2^64.
    fraction: u64,
}

impl WarmUpCurve {
    /// `count` tokens a second, reached about `period` (1 ms ..= 366 days) after a cold start at
    /// `count / cold`; Sentinel's `cold` is 3.
    ///
    /// # Errors
    ///
    /// [`Invalid::Count`], [`Invalid::Period`], [`Invalid::ColdFactor`] outside of 2 ..= 100,
    /// [`Invalid::WarmUpTooLong`].
    pub fn new(count: f64, period: Duration, cold: u32) -> Result<Self, Invalid> {
        Self::over(count, period, cold, Duration::from_secs(1))
    }

    /// As [`Self::new`], for an owner who counts in windows of this length. If they are longer than
    /// a second, they take its place: a service of which the whole cold threshold was used at the
    /// start of a window does not cool down for the rest of it.
    pub(super) fn over(
        count: f64,
        period: Duration,
        cold: u32,
        window: Duration,
    ) -> Result<Self, Invalid> {
        let step = window.max(Duration::from_secs(1));
        let count = check_count(count)?;
        check_window(period)?;
        if !(2..=100).contains(&cold) {
            return Err(Invalid::ColdFactor(cold));
        }
        let (seconds, factor) = (period.as_secs_f64(), f64::from(cold));
        if seconds * count > TOKENS_MAX {
            return Err(Invalid::WarmUpTooLong { count, warm_up: period });
        }
        let warning = whole(seconds * count) / u64::from(cold - 1);
        let span = whole(2.0 * seconds * count / (1.0 + factor));
        let a_step = step.as_secs_f64() * count;
        Ok(Self {
            count,
            cold,
            warning,
            max: warning + span,
            slope: (factor - 1.0) / count / as_f64(span),
            interval: 1.0 / count,
            window: window.as_secs_f64(),
            step_ns: check_window(step)?,
            fills_below: (whole(a_step) / u64::from(cold)).max(1),
            fill: Wide::new(fixed(a_step)),
        })
    }

    /// Stored tokens above which the service is cold.
    #[must_use]
    pub const fn warning(&self) -> u64 {
        self.warning
    }

    /// Most tokens that are stored.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Seconds a token by which each stored token above [`Self::warning`] slows down; not a number
    /// or infinite where there are none.
    #[must_use]
    pub const fn slope(&self) -> f64 {
        self.slope
    }

    /// Brings the reserve to the second of `now`; `previous` are the tokens that passed in the
    /// second before that. Must come before [`Self::threshold`], and does nothing more than once
    /// a second.
    pub fn advance(&self, reserve: &mut Reserve, now: Tick, previous: u64) {
        if reserve.holds(now) {
            return;
        }
        let after = now.0 - reserve.end.0;
        // A division takes longer than all the rest, and nearly always it is the next second.
        let seconds = if after < self.step_ns { 1 } else { after / self.step_ns + 1 };
        if reserve.end == Tick(0) {
            (reserve.tokens, reserve.fraction) = (self.max, 0);
        } else if reserve.tokens < self.warning || previous < self.fills_below {
            self.fill(reserve, seconds);
        }
        reserve.end = Tick(reserve.end.0.saturating_add(seconds.saturating_mul(self.step_ns)));
        reserve.tokens = reserve.tokens.saturating_sub(previous);
    }

    /// Tokens that passed in the second before that of `now`, which is not that of the reserve, if
    /// `passed` did in that.
    pub(super) const fn previous(&self, reserve: &Reserve, now: Tick, passed: u64) -> u64 {
        let is_next = now.0.saturating_sub(reserve.end.0) < self.step_ns;
        if is_next { passed } else { 0 }
    }

    /// The end of the second after that of the reserve, if it is sure that the service is warm in
    /// that; `passed` tokens passed in that of the reserve. Cheap, unlike [`Self::advance`].
    #[inline]
    pub(super) fn stays_warm(&self, reserve: &Reserve, passed: u64) -> Option<Tick> {
        let most = u128::from(reserve.tokens) + (self.fill.get() >> 64) + 1;
        let is_warm = most.saturating_sub(passed.into()) < u128::from(self.warning);
        is_warm.then(|| Tick(reserve.end.0.saturating_add(self.step_ns)))
    }

    /// Whether the second of the reserve had begun at `since`.
    pub(super) const fn had_begun(&self, reserve: &Reserve, since: Tick) -> bool {
        since.0 >= reserve.end.0.saturating_sub(self.step_ns)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the fraction")]
    fn fill(&self, reserve: &mut Reserve, seconds: u64) {
        let tokens = u128::from(reserve.tokens) << 64 | u128::from(reserve.fraction);
        let new = self.fill.get();
        let new = if seconds == 1 { new } else { new.saturating_mul(u128::from(seconds)) };
        let tokens = tokens.saturating_add(new);
        let full = u128::from(self.max) << 64;
        (reserve.tokens, reserve.fraction) =
            if tokens >= full { (self.max, 0) } else { ((tokens >> 64) as u64, tokens as u64) };
    }

    /// Tokens a second that may pass with this reserve: `count`, or less while it is cold.
    #[must_use]
    pub fn threshold(&self, reserve: &Reserve) -> f64 {
        match self.above(reserve) {
            0 if reserve.tokens < self.warning || self.max == self.warning => self.count,
            above => (1.0 / (as_f64(above) * self.slope + self.interval)).next_up(),
        }
    }

    /// Whole tokens that may pass in a window with this reserve; when warm no fewer than the owner
    /// allows, whose count may be more exact than one a second.
    pub(super) fn limit(&self, reserve: &Reserve) -> u64 {
        let threshold = self.threshold(reserve);
        if threshold >= self.count { u64::MAX } else { whole(threshold * self.window) }
    }

    /// Whether `n` more tokens may pass in a second in which `passed` have, under `threshold`.
    #[must_use]
    pub fn admits(&self, threshold: f64, passed: u64, n: u64) -> bool {
        as_f64(passed.saturating_add(n)) <= threshold || (passed == 0 && as_f64(n) <= self.count)
    }

    /// `cost` at full rate, stretched by what a token costs more with this reserve; rounded up.
    #[inline(always)]
    pub(super) fn stretch(&self, reserve: &Reserve, cost: u128) -> u128 {
        let (above, span) = (self.above(reserve), self.max - self.warning);
        if above == 0 {
            return cost;
        }
        let longer = u128::from(span) + u128::from(self.cold - 1) * u128::from(above);
        mul_div_ceil(cost, longer, u128::from(span))
    }

    /// The most that [`Self::stretch`] makes of `cost`.
    pub(super) const fn coldest(&self, cost: u128) -> u128 {
        cost.saturating_mul(self.cold as u128)
    }

    /// Whether the service is as cold as before its first call.
    pub(crate) const fn is_cold(&self, reserve: &Reserve) -> bool {
        reserve.end.0 == 0 || reserve.tokens == self.max
    }

    /// How cold the service is: 1 as before its first call, 0 when nothing is stored.
    pub(crate) fn coldness(&self, reserve: &Reserve) -> f64 {
        if self.is_cold(reserve) { 1.0 } else { as_f64(reserve.tokens) / as_f64(self.max) }
    }

    /// A service that was half warm under `old` is half warm under this curve; and cold if `old`
    /// stored nothing, as that of a count of zero.
    pub(crate) fn adopt(&self, reserve: &mut Reserve, old: &Self) {
        self.fit(reserve, old.max);
    }

    /// Brings a reserve that held at most `max` tokens to what it holds here.
    fn fit(&self, reserve: &mut Reserve, max: u64) {
        // Before its first call it has no tokens, and is cold.
        reserve.tokens = match (u128::from(max), reserve.end) {
            (_, Tick(0)) => 0,
            (0, _) => self.max,
            (max, _) => {
                let tokens = mul_div_ceil(reserve.tokens.into(), self.max.into(), max);
                u64::try_from(tokens).unwrap_or(self.max).min(self.max)
            }
        };
        if max != self.max {
            reserve.fraction = 0;
        }
    }

    pub(super) const fn save(&self, reserve: &Reserve) -> SavedReserve {
        let Reserve { end: Tick(end), tokens, fraction } = *reserve;
        SavedReserve { max: self.max, end, tokens, fraction }
    }

    pub(super) fn restore(&self, saved: &SavedReserve, behind: Duration) -> Reserve {
        let SavedReserve { max, end, tokens, fraction } = *saved;
        let mut reserve = Reserve { end: Tick(end), tokens, fraction };
        if let Some(last) = end.checked_sub(1) {
            let start = back_by_windows(last - last % self.step_ns, self.step_ns, behind);
            reserve.end = Tick(start.0.saturating_add(self.step_ns));
        }
        self.fit(&mut reserve, max);
        reserve
    }

    const fn above(&self, reserve: &Reserve) -> u64 {
        reserve.tokens.saturating_sub(self.warning)
    }
}

impl Reserve {
    /// Stored tokens: the more, the colder.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether `now` lies in the second of the reserve or before it. The last second ever does not
    /// end.
    #[inline]
    pub(super) const fn holds(&self, now: Tick) -> bool {
        now.0 < self.end.0 || self.end.0 == u64::MAX
    }

    /// Time from `now` to the end of the second of the reserve.
    pub(super) const fn until_next(&self, now: Tick) -> Duration {
        self.end.since(now)
    }

    /// The end of the second of the reserve.
    pub(super) const fn end(&self) -> Tick {
        self.end
    }
}

/// A count with 64 binary places: exact from 2^-11, and to 2^-64 of a token below that.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 ..= 2^117")]
const fn fixed(count: f64) -> u128 {
    (count * 18_446_744_073_709_551_616.0) as u128
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::suite::{SECOND, at};

    fn curve(count: f64, seconds: u32, cold: u32) -> WarmUpCurve {
        WarmUpCurve::new(count, SECOND * seconds, cold).unwrap()
    }

    fn reserve(tokens: u64) -> Reserve {
        Reserve { end: at(1_000), tokens, fraction: 0 }
    }

    #[test]
    fn the_reserve_is_24_bytes() {
        assert_eq!(size_of::<Reserve>(), 24);
    }

    #[test]
    fn constants_are_those_of_sentinel() {
        let hundred = curve(100.0, 10, 3);
        assert_eq!((hundred.warning, hundred.max, hundred.slope), (500, 1_000, 4e-5));
        let one = curve(1.0, 10, 3);
        assert_eq!((one.warning, one.max, one.slope), (5, 10, 0.4));
        let some = curve(2.5, 3, 3);
        assert_eq!((some.warning, some.max, some.slope), (3, 6, 0.266_666_666_666_666_66));
    }

    #[test]
    fn the_threshold_follows_the_stored_tokens() {
        let curve = curve(100.0, 10, 3);
        let right =
            [(1_000, 33.33), (900, 38.46), (750, 50.0), (600, 71.43), (500, 100.0), (9, 100.0)];
        for (tokens, threshold) in right {
            assert!((curve.threshold(&reserve(tokens)) - threshold).abs() < 0.005, "{tokens}");
        }
    }

    #[test]
    fn a_cold_reserve_fills_only_after_a_slow_second() {
        // B04: 33 a second drain it, 32 do not.
        let curve = curve(100.0, 10, 3);
        let mut state = Reserve::default();
        curve.advance(&mut state, at(0), 0);
        let passes = [33, 33, 33, 33, 33, 33, 32, 32, 32, 32, 32];
        let tokens = passes.into_iter().zip(1_u64..).map(|(passed, second)| {
            curve.advance(&mut state, at(second * 1_000), passed);
            state.tokens()
        });
        let right = [967, 934, 901, 868, 835, 802, 870, 938, 968, 968, 968];
        assert_eq!(tokens.collect::<Vec<_>>(), right);
    }

    #[test]
    fn a_reserve_at_the_warning_line_fills_up_again() {
        // B09, where Sentinel's stays at 500 for ever.
        let (curve, mut state) = (curve(100.0, 10, 3), reserve(500));
        curve.advance(&mut state, at(525_000), 0);
        assert_eq!(state.tokens(), 1_000);
        let (small, mut state) = (self::curve(2.0, 10, 3), reserve(11));
        small.advance(&mut state, at(2_000), 0);
        assert_eq!(state.tokens(), 15, "a count below the cold factor fills too");
    }

    #[test]
    fn fractions_of_a_token_are_carried_on() {
        let (curve, mut state) = (curve(2.5, 100, 3), reserve(0));
        for second in 1..=20 {
            curve.advance(&mut state, at(second * 1_000), 0);
        }
        assert_eq!(state.tokens(), 50);
        let mut tenths = reserve(0);
        let curve = self::curve(0.1, 1_000, 3);
        for second in 1..=400 {
            curve.advance(&mut tenths, at(second * 1_000), 0);
        }
        assert_eq!(tenths.tokens(), 40, "an f64 of 0.1 is a little more than a tenth");
    }

    #[test]
    fn the_same_second_and_an_older_one_change_nothing() {
        let (curve, mut state) = (curve(100.0, 10, 3), reserve(700));
        for tick in [at(0), at(999), Tick(at(1_000).0 - 1), Tick(0)] {
            curve.advance(&mut state, tick, 50);
            assert_eq!(state, reserve(700));
        }
        curve.advance(&mut state, at(1_000), 50);
        assert_eq!(state.tokens(), 650);
    }

    #[test]
    fn who_stored_nothing_is_cold_under_a_curve_that_stores_something() {
        let (none, hundred) = (curve(0.0, 10, 3), curve(100.0, 10, 3));
        let mut state = reserve(200);
        none.adopt(&mut state, &hundred);
        assert_eq!(state.tokens(), 0);
        hundred.adopt(&mut state, &none);
        assert_eq!(state.tokens(), 1_000);
        let saved = none.save(&reserve(0));
        assert_eq!(hundred.restore(&saved, Duration::ZERO).tokens(), 1_000);
        let mut unused = Reserve::default();
        hundred.adopt(&mut unused, &none);
        assert_eq!(unused, Reserve::default());
    }

    #[test]
    fn what_is_no_curve_is_refused_by_name() {
        let refused = |count, period, cold| WarmUpCurve::new(count, period, cold).unwrap_err();
        assert_eq!(refused(1.0, SECOND, 1), Invalid::ColdFactor(1));
        assert_eq!(refused(1.0, SECOND, 101), Invalid::ColdFactor(101));
        assert_eq!(refused(1.0, Duration::ZERO, 3), Invalid::Period(Duration::ZERO));
        assert_eq!(refused(-1.0, SECOND, 3), Invalid::Count(-1.0));
        let (count, warm_up) = (TOKENS_MAX, SECOND * 10);
        assert_eq!(refused(count, warm_up, 3), Invalid::WarmUpTooLong { count, warm_up });
        assert!(WarmUpCurve::new(TOKENS_MAX, SECOND, 3).is_ok());
    }

    proptest! {
        /// `count / cold` at the most, `count` at the least, and never less for fewer tokens.
        #[test]
        fn the_threshold_falls_from_count_to_count_over_cold(
            count in 1.0..1e6, seconds in 1_u32..1_000, cold in 2_u32..20, part in 0.0..1.0,
        ) {
            let curve = curve(count, seconds, cold);
            let tokens = whole(as_f64(curve.max) * part);
            let here = curve.threshold(&reserve(tokens));
            let coldest = count / f64::from(cold);
            prop_assert!(here >= coldest * (1.0 - 1e-12) && here <= count * (1.0 + 1e-12));
            prop_assert!(curve.threshold(&reserve(tokens + 1)) <= here);
            // What pacing makes of it is the same curve, in whole numbers.
            let cost = curve.stretch(&reserve(tokens.min(curve.max)), 1_000_000_000_000);
            let right = 1e12 * count / here;
            prop_assert!((f64::from(u32::try_from(cost / 100_000).unwrap()) * 1e5 - right).abs() < 1e6 + right * 1e-6);
        }
    }
}
