//! How a rule counts: window, unit, algorithm, and which of them go together.

use std::sync::Arc;

use super::cluster::Of;
use crate::{
    BUCKETS_MAX, INTERVAL_MS_MAX, WindowShape,
    algorithm::{Calendar, Unit},
    rule::{
        Algorithm, Burst, COUNT_MAX, ControlBehavior, ThresholdUnit, object::Object, report::Report,
    },
};

const BUCKETS: u32 = 10;
const INTERVAL_MS: u64 = 1_000;

/// What the fields come to; the defaults stand where they are wrong (said in the report).
pub(super) struct Counting {
    pub(super) window: WindowShape,
    pub(super) unit: ThresholdUnit,
    pub(super) algorithm: Algorithm,
}

/// What `algorithm` may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    SlidingWindow,
    FixedWindow,
    SlidingLog,
    TokenBucket,
    LeakyBucket,
    Gcra,
}

/// The fields as they stand there.
struct Fields {
    buckets: u32,
    interval_ms: u64,
    unit: ThresholdUnit,
    /// `None` when absent or wrong.
    named: Option<Named>,
    burst: Option<Burst>,
    period: Option<Unit>,
    calendar: Option<Calendar>,
}

impl Counting {
    pub(super) fn read(c: &mut Object<'_>, report: &mut Report<'_>, of: Of) -> Self {
        let fields = Fields::read(c, report);
        if of == Of::Concurrency {
            fields.refuse(c, report, "calls in progress are not counted over time; needs grade 1");
            return Self {
                window: fields.window(c, report, true),
                unit: fields.unit,
                algorithm: Algorithm::SlidingWindow,
            };
        }
        if of.behavior() != ControlBehavior::Reject {
            fields.check_behavior(c, report, of.behavior());
        } else if fields.burst.is_some() && !fields.is_bucket() && !fields.is_unknown(c) {
            c.error(report, "burst", "needs algorithm tokenBucket, leakyBucket or gcra");
        }
        if let (Some(period), Some(calendar)) = (fields.period, &fields.calendar) {
            fields.check_calendar(c, report);
            return Self {
                window: longest(period),
                unit: ThresholdUnit::Window,
                algorithm: Algorithm::Calendar(Arc::new(calendar.clone())),
            };
        }
        fields.check_use(c, report, of.behavior());
        Self {
            window: fields.window(c, report, fields.is_sliding() && !fields.is_unknown(c)),
            unit: fields.unit,
            algorithm: fields.algorithm(),
        }
    }
}

impl Fields {
    fn read(c: &mut Object<'_>, report: &mut Report<'_>) -> Self {
        let before = report.errors.len();
        let buckets = c.int(report, "sampleCount", BUCKETS.into(), (1, BUCKETS_MAX.into()));
        let interval_max = i64::try_from(INTERVAL_MS_MAX).unwrap_or(i64::MAX);
        let interval = c.int(report, "windowIntervalMs", 1_000, (1, interval_max));
        let is_window = report.errors.len() == before;
        let (sentinel, window) = (ThresholdUnit::Sentinel, ThresholdUnit::Window);
        let units = [("sentinel", sentinel), ("window", window)];
        let unit = c.choice(report, "thresholdUnit", sentinel, &units);
        let named = [
            ("slidingWindow", Named::SlidingWindow),
            ("fixedWindow", Named::FixedWindow),
            ("slidingLog", Named::SlidingLog),
            ("tokenBucket", Named::TokenBucket),
            ("leakyBucket", Named::LeakyBucket),
            ("gcra", Named::Gcra),
        ];
        let named = c.choice(report, "algorithm", None, &named.map(|(name, a)| (name, Some(a))));
        #[expect(clippy::cast_possible_truncation, reason = "2^53 is a whole number")]
        let burst = c.whole(report, "burst", (0, COUNT_MAX as i64));
        let (period, calendar) = calendar(c, report);
        Self {
            buckets: u32::try_from(buckets).ok().filter(|_| is_window).unwrap_or(BUCKETS),
            interval_ms: if is_window { interval.unsigned_abs() } else { INTERVAL_MS },
            unit,
            named,
            burst: burst.map(|tokens| Burst::tokens(tokens.unsigned_abs())),
            period,
            calendar,
        }
    }

    /// Whether the window is cut into buckets.
    fn is_sliding(&self) -> bool {
        matches!(self.named, None | Some(Named::SlidingWindow))
    }

    /// Whether `algorithm` names none, which was reported.
    fn is_unknown(&self, c: &Object<'_>) -> bool {
        self.named.is_none() && c.gives("algorithm")
    }

    fn is_bucket(&self) -> bool {
        matches!(self.named, Some(Named::TokenBucket | Named::LeakyBucket | Named::Gcra))
    }

    /// Refuses all of our fields that say how to count.
    fn refuse(&self, c: &Object<'_>, report: &mut Report<'_>, why: &str) {
        for (name, is_there) in [
            ("algorithm", !self.is_sliding()),
            ("burst", self.burst.is_some()),
            ("calendar", self.period.is_some()),
        ] {
            if is_there {
                c.error(report, name, why);
            }
        }
    }

    /// What paces or warms up has its own way to count.
    fn check_behavior(&self, c: &Object<'_>, report: &mut Report<'_>, behavior: ControlBehavior) {
        let why = "pacing and warm-up count in their own way; needs controlBehavior 0";
        self.refuse(c, report, why);
        let is_second = self.unit == ThresholdUnit::Sentinel || self.interval_ms == INTERVAL_MS;
        if behavior != ControlBehavior::Pacing && !is_second && self.period.is_none() {
            let remedy = "a warm-up is per second: must be sentinel, or windowIntervalMs 1000";
            c.error(report, "thresholdUnit", remedy);
        }
    }

    fn check_calendar(&self, c: &Object<'_>, report: &mut Report<'_>) {
        if self.unit == ThresholdUnit::Sentinel && c.gives("thresholdUnit") {
            let remedy = "the count is per calendar period: must be window, or left out";
            c.error(report, "thresholdUnit", remedy);
        }
        if self.named.is_some_and(|named| named != Named::FixedWindow) {
            c.error(report, "algorithm", "calendar needs fixedWindow; leave one of them out");
        }
        let instead = "calendar is the window";
        c.idle(report, "windowIntervalMs", self.interval_ms != INTERVAL_MS, instead);
        c.idle(report, "sampleCount", self.buckets != BUCKETS, instead);
    }

    /// Warns of what the algorithm does not look at.
    fn check_use(&self, c: &Object<'_>, report: &mut Report<'_>, behavior: ControlBehavior) {
        let is_paced = matches!(behavior, ControlBehavior::Pacing | ControlBehavior::WarmUpPacing);
        let has_rate = is_paced || self.is_bucket();
        let per_second = self.unit == ThresholdUnit::Sentinel && self.interval_ms != INTERVAL_MS;
        let instead = "the count is per second; thresholdUnit window makes it per window";
        c.idle(report, "windowIntervalMs", has_rate && per_second, instead);
        let has_no_buckets = is_paced || !self.is_sliding();
        let instead = "only slidingWindow counts in buckets";
        c.idle(report, "sampleCount", has_no_buckets && self.buckets != BUCKETS, instead);
    }

    fn window(&self, c: &Object<'_>, report: &mut Report<'_>, has_buckets: bool) -> WindowShape {
        if let Some(shape) = WindowShape::new(self.interval_ms, self.buckets) {
            return shape;
        }
        if has_buckets {
            let remedy = format!("must be a multiple of sampleCount ({})", self.buckets);
            c.error(report, "windowIntervalMs", &remedy);
        }
        WindowShape::new(self.interval_ms, 1).unwrap_or(WindowShape::SECOND)
    }

    fn algorithm(&self) -> Algorithm {
        let burst = self.burst.unwrap_or(Burst::COUNT);
        match self.named {
            None | Some(Named::SlidingWindow) => Algorithm::SlidingWindow,
            Some(Named::FixedWindow) => Algorithm::FixedWindow,
            Some(Named::SlidingLog) => Algorithm::SlidingLog,
            Some(Named::TokenBucket) => Algorithm::TokenBucket { burst },
            Some(Named::LeakyBucket) => Algorithm::LeakyBucket { burst },
            Some(Named::Gcra) => Algorithm::Gcra { burst },
        }
    }
}

/// `calendar` and `timeZone`.
fn calendar(c: &mut Object<'_>, report: &mut Report<'_>) -> (Option<Unit>, Option<Calendar>) {
    let periods = [
        ("minute", Unit::Minute),
        ("hour", Unit::Hour),
        ("day", Unit::Day),
        ("month", Unit::Month),
    ];
    let periods = periods.map(|(name, unit)| (name, Some(unit)));
    let period = c.choice(report, "calendar", None, &periods);
    let zone = c.text(report, "timeZone").filter(|zone| !zone.trim().is_empty());
    if zone.is_some() && !c.gives("calendar") {
        c.error(report, "timeZone", "needs calendar: minute, hour, day or month");
    }
    if zone.is_none() && period.is_none() {
        return (None, None);
    }
    let zone = zone.as_deref().unwrap_or("UTC");
    // Unicode's name for no zone at all, which would be taken for UTC.
    let is_none = zone.eq_ignore_ascii_case("Etc/Unknown");
    let calendar = Calendar::new(period.unwrap_or(Unit::Day), zone).ok().filter(|_| !is_none);
    if calendar.is_none() {
        let remedy = "unknown; must be a name of the IANA database, such as Europe/Berlin or UTC";
        c.error(report, "timeZone", remedy);
    }
    (period, calendar)
}

/// The longest period without a change of clocks, for whoever needs one length.
fn longest(period: Unit) -> WindowShape {
    let minutes = match period {
        Unit::Minute => 1,
        Unit::Hour => 60,
        Unit::Day => 24 * 60,
        Unit::Month => 31 * 24 * 60,
    };
    WindowShape::new(minutes * 60_000, BUCKETS).unwrap_or(WindowShape::SECOND)
}
