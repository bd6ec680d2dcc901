//! What a flow decided: since its counter was made, and in the last whole second.

use crate::Tick;

const SECOND_NS: u64 = 1_000_000_000;

/// What a flow decided since its counter was made; each only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTotals {
    /// Requests that passed at once.
    pub pass_requests: u64,
    /// Tokens of those requests.
    pub pass_tokens: u64,
    /// Requests that were told to wait.
    pub wait_requests: u64,
    /// Tokens of those requests.
    pub wait_tokens: u64,
    /// Requests that were refused.
    pub block_requests: u64,
    /// Tokens of those requests.
    pub block_tokens: u64,
    /// Requests that passed only because the mode is `shadow`.
    pub shadow_requests: u64,
    /// Tokens of those requests. They were not taken, and are not among those that passed.
    pub shadow_tokens: u64,
}

/// What a flow decided in one second that is aligned to the epoch, each request in the second of
/// its own tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondTotals {
    /// The second, counted from the epoch.
    pub second: u64,
    /// Tokens that passed or were booked.
    pub admitted_tokens: u64,
    /// Tokens that were refused.
    pub blocked_tokens: u64,
}

impl SecondTotals {
    /// Nothing, in the last whole second before `now`.
    pub(crate) fn before(now: Tick) -> Self {
        Self { second: (now.0 / SECOND_NS).saturating_sub(1), ..Self::default() }
    }
}

/// What every pass counts. Apart from the [`Others`], so that it shares a cache line with the
/// window.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Passed {
    /// End of the current second in nanoseconds; 0 before the first tick.
    second_end: u64,
    requests: u64,
    tokens: u64,
}

/// The other totals, and where all stood when the current second began.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) wait_requests: u64,
    pub(crate) wait_tokens: u64,
    pub(crate) block_requests: u64,
    pub(crate) block_tokens: u64,
    pub(crate) shadow_requests: u64,
    pub(crate) shadow_tokens: u64,
    /// Admitted and blocked tokens when the current second began.
    start: (u64, u64),
    /// Admitted and blocked tokens of the second before it.
    last: (u64, u64),
}

impl Passed {
    /// Begins a new second if `now` is in one. Comes before the decision is counted; a tick older
    /// than the last one belongs to the current second.
    #[inline]
    pub(crate) fn advance(&mut self, others: &mut Others, now: Tick) {
        if now.0 >= self.second_end {
            self.begin_second(others, now);
        }
    }

    #[inline(never)]
    fn begin_second(&mut self, others: &mut Others, now: Tick) {
        let admitted = self.tokens + others.wait_tokens + others.shadow_tokens;
        let sums = (admitted, others.block_tokens);
        let second_end = (now.0 / SECOND_NS + 1).saturating_mul(SECOND_NS);
        let follows = second_end == self.second_end.saturating_add(SECOND_NS);
        others.last = if follows { minus(sums, others.start) } else { (0, 0) };
        (others.start, self.second_end) = (sums, second_end);
    }

    #[inline]
    pub(crate) fn add(&mut self, tokens: u64) {
        self.requests += 1;
        self.tokens += tokens;
    }

    /// Tokens that passed without a request of their own: a lease was spent.
    pub(crate) fn add_tokens(&mut self, tokens: u64) {
        self.tokens += tokens;
    }

    pub(crate) fn totals(&self, others: &Others) -> FlowTotals {
        FlowTotals {
            pass_requests: self.requests,
            pass_tokens: self.tokens,
            wait_requests: others.wait_requests,
            wait_tokens: others.wait_tokens,
            block_requests: others.block_requests,
            block_tokens: others.block_tokens,
            shadow_requests: others.shadow_requests,
            shadow_tokens: others.shadow_tokens,
        }
    }

    /// The last whole second before `now`.
    pub(crate) fn last_second(&mut self, others: &mut Others, now: Tick) -> SecondTotals {
        self.advance(others, now);
        let (admitted_tokens, blocked_tokens) = others.last;
        let second = (self.second_end / SECOND_NS).saturating_sub(2);
        SecondTotals { second, admitted_tokens, blocked_tokens }
    }
}

fn minus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 - b.0, a.1 - b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Totals = (Passed, Others);

    fn count((passed, others): &mut Totals, ms: u64, pass: u64, block: u64) {
        passed.advance(others, Tick::from_ms(ms));
        passed.add(pass);
        others.block_tokens += block;
    }

    fn last_second((passed, others): &mut Totals, ms: u64) -> SecondTotals {
        passed.last_second(others, Tick::from_ms(ms))
    }

    #[test]
    fn each_token_is_counted_in_the_second_of_its_tick() {
        let mut totals = Totals::default();
        count(&mut totals, 7_000, 3, 1);
        count(&mut totals, 7_999, 2, 0);
        count(&mut totals, 8_000, 9, 9);
        let last = last_second(&mut totals, 8_500);
        assert_eq!(last, SecondTotals { second: 7, admitted_tokens: 5, blocked_tokens: 1 });
        let last = last_second(&mut totals, 9_000);
        assert_eq!(last, SecondTotals { second: 8, admitted_tokens: 9, blocked_tokens: 9 });
        let last = last_second(&mut totals, 12_000);
        assert_eq!(last, SecondTotals::before(Tick::from_ms(12_000)));
        assert_eq!(last, SecondTotals { second: 11, admitted_tokens: 0, blocked_tokens: 0 });
    }

    #[test]
    fn a_tick_from_the_second_before_counts_in_the_current_one() {
        let mut totals = Totals::default();
        count(&mut totals, 8_000, 1, 0);
        count(&mut totals, 7_999, 1, 0);
        assert_eq!(last_second(&mut totals, 9_000).admitted_tokens, 2);
    }
}
