//! Many samples as one, so that a limit moves at the pace of the server and not of its callers.

use std::time::Duration;

use super::{Invalid, Limit, Sample, Tracked, rtts::Rtts};
use crate::Tick;

/// A limit that learns from windows of samples.
///
/// *Formula*: a window begins with a sample and is `2 × shortest RTT` long, within `min ..= max`. With
/// the first sample after its end the limit learns from it as from one call: the average or a
/// percentile of the RTTs, the most in flight, and dropped if any was. What a few calls say is
/// chance, so a window stays open until it has `samples`, however long that takes: a limit that has
/// become low lets few calls through, and must learn from these that it may rise again. Calls
/// shorter than `rtt_min` are not looked at at all, unless they were dropped; the RTT of a dropped
/// one is in no average. A sample that is older than the window is in it.
///
/// *Defaults*: see [`WindowedSettings`]. *Memory*: 208 bytes and the limit's, and 16 bytes for each
/// RTT kept for a percentile. *Cost*: a few comparisons and an addition a sample; a division, or a
/// selection in linear time, a window. Nothing is allocated after [`Self::new`].
///
/// In `concurrency-limits` (`WindowedLimit`) the sample after the end is in the window that it ends,
/// the first sample of all is a window of its own, and a window of fewer than `samples` is thrown
/// away: once `limit / RTT` is fewer than that, nothing is learned ever again.
#[derive(Debug)]
pub struct Windowed<L> {
    limit: L,
    settings: WindowedSettings,
    rtts: Rtts,
    start: Tick,
    last: Tick,
    /// In the window; 0 when it has not begun.
    samples: u32,
    in_flight: u32,
    dropped: bool,
}

/// The numbers of [`Windowed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowedSettings {
    /// The shortest window, from 1 ms; 1 s (`WindowedLimit`).
    pub min: Duration,
    /// The longest, up to an hour; 1 s (`WindowedLimit`).
    pub max: Duration,
    /// Fewest samples that say something; 10 (`WindowedLimit`). 0 is 1.
    pub samples: u32,
    /// Shorter calls say nothing; 100 µs (`WindowedLimit`). A server that is faster needs less.
    pub rtt_min: Duration,
    /// The average (`WindowedLimit`).
    pub tracked: Tracked,
}

impl Default for WindowedSettings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            min: second,
            max: second,
            samples: 10,
            rtt_min: Duration::from_micros(100),
            tracked: Tracked::Average,
        }
    }
}

impl<L: Limit> Windowed<L> {
    /// A limit that learns from windows.
    ///
    /// # Errors
    ///
    /// [`Invalid::Window`]; [`Invalid::Number`] for a percentile that is none.
    pub fn new(limit: L, settings: WindowedSettings) -> Result<Self, Invalid> {
        let WindowedSettings { min, max, tracked, .. } = settings;
        if min < Duration::from_millis(1) || max < min || max > Duration::from_secs(3_600) {
            return Err(Invalid::Window { min, max });
        }
        tracked.check()?;
        Ok(Self::start(limit, settings))
    }

    /// A limit that learns from the averages of a second: with the default settings.
    pub fn averages(limit: L) -> Self {
        Self::start(limit, WindowedSettings::default())
    }

    fn start(limit: L, settings: WindowedSettings) -> Self {
        Self {
            limit,
            rtts: Rtts::new(settings.tracked),
            settings,
            start: Tick::default(),
            last: Tick::default(),
            samples: 0,
            in_flight: 0,
            dropped: false,
        }
    }

    /// The limit that learns.
    pub const fn inner(&self) -> &L {
        &self.limit
    }

    /// How long the window is, as far as is known.
    fn len(&self) -> Duration {
        let shortest = self.rtts.min().unwrap_or_default();
        shortest.saturating_mul(2).clamp(self.settings.min, self.settings.max)
    }

    fn close(&mut self) {
        let rtt = self.rtts.take().unwrap_or_default();
        let Self { last: at, in_flight, dropped, .. } = *self;
        self.limit.learn(Sample { at, rtt, in_flight, dropped });
        (self.samples, self.in_flight, self.dropped) = (0, 0, false);
    }
}

impl<L: Limit> Limit for Windowed<L> {
    fn limit(&self) -> u32 {
        self.limit.limit()
    }

    fn learn(&mut self, sample: Sample) {
        if !sample.dropped && sample.rtt < self.settings.rtt_min {
            return;
        }
        let has_enough = self.samples >= self.settings.samples.max(1);
        if has_enough && sample.at.since(self.start) >= self.len() {
            self.close();
        }
        if self.samples == 0 {
            self.start = sample.at;
        }
        self.last = self.last.max(sample.at);
        self.samples = self.samples.saturating_add(1);
        self.in_flight = self.in_flight.max(sample.in_flight);
        self.dropped |= sample.dropped;
        if !sample.dropped {
            self.rtts.add(sample.rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Vegas, *};

    /// Remembers what it is told.
    #[derive(Debug, Default)]
    struct Listener(Vec<Sample>);

    impl Limit for Listener {
        fn limit(&self) -> u32 {
            1
        }

        fn learn(&mut self, sample: Sample) {
            self.0.push(sample);
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sample(at: u64, rtt: u64) -> Sample {
        Sample { at: Tick::from_ms(at), rtt: ms(rtt), in_flight: 3, dropped: false }
    }

    fn three(min: u64, max: u64) -> Windowed<Listener> {
        let default = WindowedSettings::default();
        let settings = WindowedSettings { min: ms(min), max: ms(max), samples: 3, ..default };
        Windowed::new(Listener::default(), settings).unwrap()
    }

    #[test]
    fn a_window_is_one_sample_to_the_limit() {
        let mut windowed = three(1_000, 1_000);
        windowed.learn(sample(500, 10));
        windowed.learn(Sample { in_flight: 9, ..sample(700, 20) });
        windowed.learn(sample(1_499, 60));
        assert!(windowed.inner().0.is_empty(), "a nanosecond before its end it has not ended");
        windowed.learn(sample(1_500, 500));
        let right = Sample { at: Tick::from_ms(1_499), rtt: ms(30), in_flight: 9, dropped: false };
        assert_eq!(windowed.inner().0, [right]);
        assert_eq!(windowed.limit(), 1);
    }

    #[test]
    fn a_window_of_too_few_goes_on_until_it_has_enough() {
        let mut windowed = three(100, 100);
        [sample(0, 10), sample(1_000, 20), sample(90_000, 30)]
            .into_iter()
            .for_each(|s| windowed.learn(s));
        assert!(windowed.inner().0.is_empty(), "the third is the last that it needs");
        windowed.learn(sample(90_001, 500));
        assert_eq!(windowed.inner().0, [sample(90_000, 20)]);
    }

    #[test]
    fn a_limit_that_has_become_low_comes_back_when_calls_take_a_second() {
        let mut windowed = Windowed::averages(Vegas::default());
        // As many calls as the limit lets through, all of them in progress for a second.
        let mut run = |seconds: std::ops::Range<u64>, dropped| {
            for second in seconds {
                let in_flight = windowed.limit();
                for call in 0..u64::from(in_flight) {
                    let at = Tick::from_ms(second * 1_000 + call);
                    windowed.learn(Sample { at, rtt: ms(1_000), in_flight, dropped });
                }
            }
            windowed.limit()
        };
        let before = run(0..60, false);
        let low = run(60..2_000, true);
        assert!(low < 10, "{low} calls a second are too few for a window of one second");
        let after = run(2_000..5_600, false);
        assert!(after >= before, "{before}, {low}, {after}");
    }

    #[test]
    fn a_window_lasts_twice_the_shortest_call_within_its_bounds() {
        for (rtt, end) in [(10, 100), (75, 150), (500, 400)] {
            let mut windowed = three(100, 400);
            (0..end).for_each(|t| windowed.learn(sample(t, rtt + t % 2)));
            assert!(windowed.inner().0.is_empty(), "{rtt}");
            windowed.learn(sample(end, rtt));
            assert_eq!(windowed.inner().0.len(), 1, "{rtt}");
        }
    }

    #[test]
    fn a_drop_marks_its_window_and_is_in_no_average() {
        let mut windowed = three(100, 100);
        let mut dropped = sample(2, 9_000);
        dropped.dropped = true;
        [sample(0, 10), sample(1, 30), dropped, sample(100, 10)]
            .into_iter()
            .for_each(|s| windowed.learn(s));
        assert_eq!((windowed.inner().0[0].rtt, windowed.inner().0[0].dropped), (ms(20), true));
        [sample(101, 10), sample(102, 10), sample(200, 10)]
            .into_iter()
            .for_each(|s| windowed.learn(s));
        assert!(!windowed.inner().0[1].dropped, "the next one is not marked");
    }

    #[test]
    fn a_window_of_drops_alone_is_told_however_fast_they_were() {
        let mut windowed = three(100, 100);
        let drop = |at| Sample { dropped: true, ..sample(at, 0) };
        [drop(0), drop(1), drop(2), drop(100)].into_iter().for_each(|s| windowed.learn(s));
        assert_eq!(windowed.inner().0, [Sample { at: Tick::from_ms(2), ..drop(0) }]);
    }

    #[test]
    fn very_short_calls_are_not_looked_at() {
        let mut windowed = three(100, 100);
        (0..1_000).for_each(|t| windowed.learn(sample(t, 0)));
        assert!(windowed.inner().0.is_empty());
    }

    #[test]
    fn a_pause_ends_a_window_and_an_older_time_does_not() {
        let mut windowed = three(100, 100);
        [sample(1_000, 10), sample(1_001, 10), sample(0, 10)]
            .into_iter()
            .for_each(|s| windowed.learn(s));
        windowed.learn(sample(1_000_000, 10));
        assert_eq!(windowed.inner().0[0].at, Tick::from_ms(1_001));
        windowed.learn(sample(1_000_001, 10));
        assert_eq!(windowed.inner().0.len(), 1, "the next began after the pause");
    }

    #[test]
    fn a_percentile_can_be_told_instead() {
        let tracked = Tracked::Percentile { part: 0.5, kept: 100 };
        let settings = WindowedSettings { tracked, ..WindowedSettings::default() };
        let mut windowed = Windowed::new(Listener::default(), settings).unwrap();
        (0..99).for_each(|t| windowed.learn(sample(t, 1 + t * t)));
        windowed.learn(sample(1_000, 10));
        assert_eq!(windowed.inner().0[0].rtt, ms(1 + 49 * 49));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        let default = WindowedSettings::default();
        for (min, max) in [(0, 1), (2, 1), (1, 3_600_001)] {
            let settings = WindowedSettings { min: ms(min), max: ms(max), ..default };
            let refused = Windowed::new(Listener::default(), settings).unwrap_err();
            assert_eq!(refused, Invalid::Window { min: ms(min), max: ms(max) });
        }
    }
}
