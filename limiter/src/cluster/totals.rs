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

/// The totals, and where they stood when the current second began.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) all: FlowTotals,
    /// End of the current second in nanoseconds; 0 before the first tick.
    second_end: u64,
    /// Admitted and blocked tokens when the current second began.
    start: (u64, u64),
    /// Admitted and blocked tokens of the second before it.
    last: (u64, u64),
}

impl Totals {
    /// Begins a new second if `now` is in one. Comes before the decision is counted; a tick older
    /// than the last one belongs to the current second.
    #[inline]
    pub(crate) fn advance(&mut self, now: Tick) {
        if now.0 >= self.second_end {
            self.begin_second(now);
        }
    }

    #[inline(never)]
    fn begin_second(&mut self, now: Tick) {
        let sums = self.sums();
        let second_end = (now.0 / SECOND_NS + 1).saturating_mul(SECOND_NS);
        let follows = second_end == self.second_end.saturating_add(SECOND_NS);
        self.last = if follows { minus(sums, self.start) } else { (0, 0) };
        (self.start, self.second_end) = (sums, second_end);
    }

    /// The last whole second before `now`.
    pub(crate) fn last_second(&mut self, now: Tick) -> SecondTotals {
        self.advance(now);
        let (admitted_tokens, blocked_tokens) = self.last;
        let second = (self.second_end / SECOND_NS).saturating_sub(2);
        SecondTotals { second, admitted_tokens, blocked_tokens }
    }

    fn sums(&self) -> (u64, u64) {
        (self.all.pass_tokens + self.all.wait_tokens, self.all.block_tokens)
    }
}

fn minus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 - b.0, a.1 - b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(totals: &mut Totals, ms: u64, pass: u64, block: u64) {
        totals.advance(Tick::from_ms(ms));
        totals.all.pass_tokens += pass;
        totals.all.block_tokens += block;
    }

    #[test]
    fn each_token_is_counted_in_the_second_of_its_tick() {
        let mut totals = Totals::default();
        count(&mut totals, 7_000, 3, 1);
        count(&mut totals, 7_999, 2, 0);
        count(&mut totals, 8_000, 9, 9);
        let last = totals.last_second(Tick::from_ms(8_500));
        assert_eq!(last, SecondTotals { second: 7, admitted_tokens: 5, blocked_tokens: 1 });
        let last = totals.last_second(Tick::from_ms(9_000));
        assert_eq!(last, SecondTotals { second: 8, admitted_tokens: 9, blocked_tokens: 9 });
        let last = totals.last_second(Tick::from_ms(12_000));
        assert_eq!(last, SecondTotals { second: 11, admitted_tokens: 0, blocked_tokens: 0 });
    }

    #[test]
    fn a_tick_from_the_second_before_counts_in_the_current_one() {
        let mut totals = Totals::default();
        count(&mut totals, 8_000, 1, 0);
        count(&mut totals, 7_999, 1, 0);
        assert_eq!(totals.last_second(Tick::from_ms(9_000)).admitted_tokens, 2);
    }
}
