//! The slow, obvious reference: every admitted token is remembered with its bucket, and each
//! question is answered by counting them again.

use std::collections::BTreeMap;

/// What a check answers, in the words of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: i64,
    pub(crate) remaining: i64,
    pub(crate) wait_ms: i64,
}

pub(crate) const OK: i64 = 0;
pub(crate) const BLOCKED: i64 = 1;
pub(crate) const SHOULD_WAIT: i64 = 2;

impl Answer {
    pub(crate) const fn of(status: i64) -> Self {
        Self { status, remaining: 0, wait_ms: 0 }
    }
}

/// A window and the tokens admitted into it, per bucket since the epoch.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bucket_ms: u64,
    buckets: u64,
    /// Seconds by which a sum is divided before it is compared.
    divisor: f64,
    /// The latest bucket that a clock reading fell into.
    head: u64,
    tokens: BTreeMap<u64, u64>,
}

impl Window {
    pub(crate) fn new(interval_ms: u64, buckets: u64, divisor: f64) -> Self {
        Self {
            bucket_ms: interval_ms / buckets,
            buckets,
            divisor,
            head: 0,
            tokens: BTreeMap::new(),
        }
    }

    pub(crate) fn see(&mut self, now_ms: u64) {
        self.head = self.head.max(now_ms / self.bucket_ms);
    }

    /// Tokens in the window that ends with bucket `end`.
    fn sum(&self, end: u64) -> u64 {
        let start = (end + 1).saturating_sub(self.buckets);
        self.tokens.range(start..=end).map(|(_, tokens)| tokens).sum()
    }

    pub(crate) fn now(&self) -> u64 {
        self.sum(self.head)
    }

    /// The least room that `count` tokens in bucket `at` leave in any window that holds it.
    fn room(&self, at: u64, threshold: f64, count: u64) -> f64 {
        (at..at + self.buckets)
            .map(|end| threshold - self.sum(end) as f64 / self.divisor - count as f64)
            .fold(f64::INFINITY, f64::min)
    }

    fn take(&mut self, at: u64, count: u64) {
        *self.tokens.entry(at).or_default() += count;
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.bucket_ms as f64 * self.buckets as f64 / 1_000.0
    }

    /// Most tokens that any window so far admitted.
    pub(crate) fn fullest(&self) -> u64 {
        self.tokens.keys().map(|&end| self.sum(end)).max().unwrap_or(0)
    }
}

/// A flow rule with its bookings.
pub(crate) fn flow(
    window: &mut Window,
    now_ms: u64,
    count: u64,
    prioritized: bool,
    threshold: f64,
    occupy_ratio: f64,
) -> Answer {
    window.see(now_ms);
    let room = window.room(window.head, threshold, count);
    if room >= 0.0 {
        window.take(window.head, count);
        return Answer { status: OK, remaining: cut(room), wait_ms: 0 };
    }
    let next = window.head + 1;
    let waiting = window.tokens.get(&next).copied().unwrap_or(0) as f64 / window.divisor;
    if prioritized
        && waiting <= occupy_ratio * threshold
        && window.room(next, threshold, count) >= 0.0
    {
        window.take(next, count);
        let wait = next * window.bucket_ms - now_ms;
        return Answer { status: SHOULD_WAIT, remaining: 0, wait_ms: wait as i64 };
    }
    Answer::of(BLOCKED)
}

/// A hot-parameter rule: all values or none, each distinct value asked once for all its tokens.
pub(crate) fn param<K: Ord + Clone>(
    windows: &mut BTreeMap<K, Window>,
    fresh: &Window,
    now_ms: u64,
    count: u64,
    values: &[K],
    threshold: impl Fn(&K) -> f64,
) -> Answer {
    let mut asked: BTreeMap<K, u64> = BTreeMap::new();
    for value in values {
        *asked.entry(value.clone()).or_default() += count;
    }
    let mut least = f64::INFINITY;
    for (value, tokens) in &asked {
        let window = windows.entry(value.clone()).or_insert_with(|| fresh.clone());
        window.see(now_ms);
        least = least.min(window.room(window.head, threshold(value), *tokens));
    }
    if least < 0.0 {
        return Answer::of(BLOCKED);
    }
    for (value, tokens) in asked {
        if let Some(window) = windows.get_mut(&value) {
            window.take(window.head, tokens);
        }
    }
    Answer { status: OK, remaining: if values.len() > 1 { -1 } else { cut(least) }, wait_ms: 0 }
}

/// The namespace guard: requests of the last second.
pub(crate) fn guard(window: &mut Window, now_ms: u64, max_qps: f64) -> bool {
    window.see(now_ms);
    let admitted = window.now() as f64 + 1.0 <= max_qps;
    if admitted {
        window.take(window.head, 1);
    }
    admitted
}

/// Java's cast to int.
fn cut(room: f64) -> i64 {
    i64::from(room as i32)
}
