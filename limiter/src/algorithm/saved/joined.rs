//! One state for several, when there is no room for each.

use super::Saved;
use crate::{
    algorithm::exact::{convert, mul_div_ceil},
    window::SavedRing,
};

impl Saved {
    /// Makes do with no memory beside itself: what is listed counts as if all of it had been used
    /// when the last of it was. So nothing is forgotten early, and it counts for longer by less than
    /// a window.
    pub(crate) fn condense(&mut self) {
        match self {
            Self::SlidingWindow(ring) | Self::SlidingWarmUp { ring, .. } => {
                ring.tokens = newest(0, sum(ring));
            }
            Self::SlidingLog { over, taken, .. } => {
                let tokens = taken.iter().fold(*over, |sum, (_, n)| sum.saturating_add(*n));
                let last = taken.iter().map(|(at, _)| *at).max();
                (*over, *taken) = (0, last.map_or_else(Vec::new, |last| newest(last, tokens)));
            }
            _ => {}
        }
    }

    /// Makes it say at least as much as it did and as `other` does, which is of a value of the same
    /// rule: what decides by it refuses whatever either would have refused.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.condense();
        other.condense();
        match (&mut *self, other) {
            (Self::SlidingWindow(a), Self::SlidingWindow(b))
                if (a.interval_ms, a.buckets) == (b.interval_ms, b.buckets) =>
            {
                a.tokens = newest(0, sum(a).max(sum(&b)));
                a.head_end = a.head_end.max(b.head_end);
                a.booked = a.booked.max(b.booked);
            }
            (
                Self::FixedWindow { window_ns, start, used },
                Self::FixedWindow { window_ns: window, start: its_start, used: its },
            ) if *window_ns == window => {
                (*start, *used) = ((*start).max(its_start), (*used).max(its));
            }
            (
                Self::CalendarWindow { start, end, used },
                Self::CalendarWindow { start: its_start, end: its_end, used: its },
            ) => {
                (*start, *end) = ((*start).max(its_start), (*end).max(its_end));
                *used = (*used).max(its);
            }
            (
                Self::SlidingLog { window_ns, last, taken, .. },
                Self::SlidingLog { window_ns: window, last: its_last, taken: its, .. },
            ) if *window_ns == window => {
                let both = || taken.iter().chain(&its);
                let at = both().map(|(at, _)| *at).max().unwrap_or(0);
                *taken = newest(at, both().map(|(_, n)| *n).max().unwrap_or(0));
                *last = (*last).max(its_last);
            }
            (
                Self::Bucket { per_token, last, units },
                Self::Bucket { per_token: its_token, last: its_last, units: its },
            ) => {
                *units = (*units).max(mul_div_ceil(its, *per_token, its_token.max(1)));
                *last = (*last).max(its_last);
            }
            (Self::LeakyQueue(a), Self::LeakyQueue(b)) => {
                let turn = b.turn.map(|turn| convert(turn, b.per_ns.max(1), a.per_ns.max(1)));
                (a.turn, a.seen) = (a.turn.max(turn), a.seen.max(b.seen));
            }
            // Of no value, or of another rule: the later one means something still.
            (one, other) => {
                if other.seen() > one.seen() {
                    *one = other;
                }
            }
        }
    }
}

/// All tokens of a window.
fn sum(ring: &SavedRing) -> u64 {
    ring.tokens.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
}

/// `n` tokens, all at one place; nothing for none.
fn newest<P>(place: P, n: u64) -> Vec<(P, u64)> {
    if n > 0 { vec![(place, n)] } else { Vec::new() }
}
