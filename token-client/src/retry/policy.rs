//! What is sent again, and when.

use std::{fmt, sync::Arc, time::Duration};

use http::{Method, StatusCode};
use limiter::{Clock, MonotonicClock};
use tower_layer::Layer;

use super::{Budget, Retry, after::retry_after};
use crate::exchange::Response;

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most times that one call is sent again; 2.
    pub retries_max: u32,
    /// The longest wait before one of them; 30 s. Who is asked to wait longer gets the answer as it
    /// is, at once, and so does not hold its caller.
    pub wait_max: Duration,
    /// Ceiling of the first random wait, which doubles with each retry up to `wait_max`; 100 ms.
    pub backoff: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let (wait_max, backoff) = (Duration::from_secs(30), Duration::from_millis(100));
        Self { retries_max: 2, wait_max, backoff }
    }
}

/// How a call went, for [`RetryLayer::again_if`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seen<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// What was answered; `None` when no answer came.
    pub status: Option<StatusCode>,
    /// How long the answer asks to wait.
    pub retry_after: Option<Duration>,
}

impl Seen<'_> {
    /// Whether the server refused to do it, and says when it would.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let refuses = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        self.retry_after.is_some() && self.status.is_some_and(|status| refuses.contains(&status))
    }

    /// Whether it failed for now: no answer, or 429, 502, 503 or 504.
    #[must_use]
    pub fn is_passing_failure(&self) -> bool {
        self.status.is_none_or(|status| matches!(status.as_u16(), 429 | 502 | 503 | 504))
    }

    /// What is sent again by default: what was refused, and what failed and may be done twice.
    #[must_use]
    pub fn is_worth_a_retry(&self) -> bool {
        self.is_refused() || (self.method.is_idempotent() && self.is_passing_failure())
    }
}

type AgainIf = dyn Fn(&Seen<'_>) -> bool + Send + Sync;
type Random = dyn Fn() -> f64 + Send + Sync;

/// Sends refused and failed requests again. See [the module](super).
///
/// Clones and all services that are made by them share one [`Budget`].
#[derive(Clone)]
pub struct RetryLayer {
    settings: Settings,
    budget: Budget,
    again_if: Arc<AgainIf>,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
}

impl RetryLayer {
    /// A layer with these numbers and the default budget.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            budget: Budget::default(),
            again_if: Arc::new(|seen| seen.is_worth_a_retry()),
            clock: Arc::new(MonotonicClock::start()),
            random: Arc::new(fastrand::f64),
        }
    }

    /// Takes retries from this budget, which may be that of other layers too.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Decides what is sent again. The budget and the bounds of [`Settings`] hold all the same.
    #[must_use]
    pub fn again_if(mut self, again: impl Fn(&Seen<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.again_if = Arc::new(again);
        self
    }

    /// Reads wall time from here, for a `Retry-After` that is a date in an answer without `Date`.
    /// Waits are slept on the runtime's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Draws from here, each time a number from 0 to below 1.
    #[must_use]
    pub fn random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(random);
        self
    }

    /// Counts a call.
    pub(super) fn begin(&self) {
        self.budget.call();
    }

    /// How long to wait before it is sent again, `None` if it is not. `retries` were made already.
    pub(super) fn again_in(
        &self,
        method: &Method,
        response: Option<&impl Response>,
        retries: u32,
    ) -> Option<Duration> {
        if retries >= self.settings.retries_max {
            return None;
        }
        let status = response.map(Response::status);
        let retry_after = response.and_then(|it| retry_after(it.headers(), self.clock.wall()));
        if !(self.again_if)(&Seen { method, status, retry_after }) {
            return None;
        }
        let wait = self.wait(retry_after.unwrap_or_default(), retries)?;
        // Last, since it is not given back.
        self.budget.take().then_some(wait)
    }

    fn wait(&self, after: Duration, retries: u32) -> Option<Duration> {
        let Settings { wait_max, backoff, .. } = self.settings;
        let room = wait_max.checked_sub(after)?;
        let ceiling = backoff.saturating_mul(2_u32.saturating_pow(retries)).max(after / 2);
        let drawn = (self.random)();
        let part = if drawn.is_finite() { drawn.clamp(0.0, 1.0) } else { 0.5 };
        Some(after + ceiling.min(room).mul_f64(part))
    }
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, budget, .. } = self;
        let mut debug = f.debug_struct("RetryLayer");
        debug.field("settings", settings).field("budget", budget).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, layer: self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use http::{Response, header::RETRY_AFTER};

    use super::{super::BudgetSettings, *};

    const MS: Duration = Duration::from_millis(1);

    fn generous() -> RetryLayer {
        let settings = BudgetSettings { reserve: 1_000_000, ..Default::default() };
        RetryLayer::default().budget(Budget::new(settings)).random(|| 0.5)
    }

    fn answer(status: u16, after: Option<&str>) -> Response<()> {
        let mut response = Response::builder().status(status);
        if let Some(after) = after {
            response = response.header(RETRY_AFTER, after);
        }
        response.body(()).unwrap()
    }

    fn again(layer: &RetryLayer, method: &Method, status: u16, after: Option<&str>) -> bool {
        layer.again_in(method, Some(&answer(status, after)), 0).is_some()
    }

    #[test]
    fn what_was_refused_is_sent_again_and_else_only_what_may_be_done_twice() {
        let layer = generous();
        for status in (100..600).filter(|status| ![429, 502, 503, 504].contains(status)) {
            assert!(!again(&layer, &Method::GET, status, Some("1")), "{status}");
        }
        for (method, twice) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::OPTIONS, true),
            (Method::PUT, true),
            (Method::DELETE, true),
            (Method::POST, false),
            (Method::PATCH, false),
        ] {
            for status in [429, 503] {
                assert!(again(&layer, &method, status, Some("1")), "{method} {status}");
                assert_eq!(again(&layer, &method, status, None), twice, "{method} {status}");
                assert_eq!(again(&layer, &method, status, Some("?")), twice, "{method} {status}");
            }
            for status in [502, 504] {
                assert_eq!(again(&layer, &method, status, Some("1")), twice, "{method} {status}");
            }
            let lost = layer.again_in(&method, None::<&Response<()>>, 0);
            assert_eq!(lost.is_some(), twice, "{method}");
        }
    }

    #[test]
    fn nobody_comes_back_before_the_time_and_not_all_at_it() {
        let waits = |random: f64, after: Option<&str>, retries| {
            generous().random(move || random).again_in(
                &Method::GET,
                Some(&answer(503, after)),
                retries,
            )
        };
        for (random, wait) in [(0.0, 4_000), (0.5, 5_000), (1.0, 6_000), (-7.0, 4_000)] {
            assert_eq!(waits(random, Some("4"), 0), Some(wait * MS), "{random}");
        }
        assert_eq!(waits(f64::NAN, Some("4"), 0), Some(5_000 * MS));
        // Without a time, or with none to wait: below a ceiling that doubles.
        for after in [None, Some("0")] {
            assert_eq!(waits(1.0, after, 0), Some(100 * MS));
            assert_eq!(waits(1.0, after, 1), Some(200 * MS));
            assert_eq!(waits(0.0, after, 1), Some(Duration::ZERO));
        }
    }

    #[test]
    fn a_wait_over_the_longest_is_none_and_takes_nothing_from_the_budget() {
        let layer = generous().random(|| 1.0);
        let longest = layer.again_in(&Method::GET, Some(&answer(429, Some("30"))), 0);
        assert_eq!(longest, Some(Duration::from_secs(30)), "not later by chance");
        assert_eq!(layer.again_in(&Method::GET, Some(&answer(429, Some("31"))), 0), None);
        let never = answer(429, Some("99999999999999999999"));
        assert_eq!(layer.again_in(&Method::GET, Some(&never), 0), None);
        assert_eq!((layer.budget.retries(), layer.budget.denied()), (1, 0));
    }

    #[test]
    fn a_call_is_sent_again_only_so_often() {
        let layer = generous();
        let refused = answer(429, Some("1"));
        let again = |retries| layer.again_in(&Method::GET, Some(&refused), retries).is_some();
        assert_eq!([0, 1, 2, u32::MAX].map(again), [true, true, false, false]);
    }

    #[test]
    fn the_caller_s_own_rule_decides_within_the_budget() {
        let layer = RetryLayer::default().again_if(|seen| seen.status == Some(StatusCode::CREATED));
        assert!(!again(&layer, &Method::POST, 201, None), "nothing was paid in");
        (0..10).for_each(|_| layer.begin());
        assert!(!again(&layer, &Method::GET, 503, Some("1")));
        assert!(again(&layer, &Method::POST, 201, None));
    }
}
