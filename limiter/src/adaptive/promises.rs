//! What every limit promises alike, whatever its numbers.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    Aimd, AimdSettings, Bounds, Gradient2, Gradient2Settings, LIMIT_MAX, Limit, Sample, Tracked,
    Vegas, VegasSettings, Windowed, WindowedSettings,
};
use crate::Tick;

const SECOND: u64 = 1_000_000_000;

/// Numbers for each limit.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    bounds: Bounds,
    smoothing: f64,
    logs: (u32, u32),
    probe: u32,
    seed: u64,
    long_window: u32,
    queue: u32,
    tolerance: f64,
    backoff: f64,
}

fn numbers(max: u32, smoothing: impl Strategy<Value = f64>) -> impl Strategy<Value = Numbers> {
    let bounds = prop::array::uniform3(1..=max).prop_map(|mut three| {
        three.sort_unstable();
        Bounds { min: three[0], initial: three[1], max: three[2] }
    });
    let vegas = ((0_u32..5, 0_u32..5), 4_u32..9, any::<u64>());
    let others = (1_u32..50, 1_u32..9, 1.0..3.0, 0.5..1.0);
    (bounds, smoothing, vegas, others).prop_map(|(bounds, smoothing, vegas, others)| {
        let ((alpha, more), probe, seed) = vegas;
        let (long_window, queue, tolerance, backoff) = others;
        let logs = (alpha, alpha + more + 1);
        Numbers { bounds, smoothing, logs, probe, seed, long_window, queue, tolerance, backoff }
    })
}

fn limits(numbers: Numbers) -> [Box<dyn Limit>; 5] {
    let Numbers { bounds, smoothing, probe, seed, long_window, queue, tolerance, backoff, .. } =
        numbers;
    let (alpha, beta) = numbers.logs;
    let aimd = AimdSettings { bounds, backoff, timeout: Duration::from_millis(2) };
    let vegas = VegasSettings { bounds, alpha, beta, smoothing, probe, seed };
    let gradient2 = Gradient2Settings { bounds, smoothing, queue, tolerance, long_window };
    let (aimd, vegas) = (Aimd::new(aimd).unwrap(), Vegas::new(vegas).unwrap());
    let gradient2 = Gradient2::new(gradient2).unwrap();
    let tracked = Tracked::Percentile { part: 0.9, kept: 5 };
    let windows = WindowedSettings { samples: 2, tracked, ..WindowedSettings::default() };
    let windowed = Windowed::new(vegas, windows).unwrap();
    let averages = WindowedSettings { samples: 2, ..WindowedSettings::default() };
    let averages = Windowed::new(gradient2, averages).unwrap();
    [Box::new(aimd), Box::new(vegas), Box::new(gradient2), Box::new(windowed), Box::new(averages)]
}

/// Samples in the first ten seconds, or at any time.
fn samples(at: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Sample>> {
    let rtt = prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0_u64..10_000_000).prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_nanos),
    ];
    let in_flight = prop_oneof![Just(u32::MAX), 0_u32..100, any::<u32>()];
    let at = prop_oneof![0..10 * SECOND, at].prop_map(Tick);
    let sample = (at, rtt, in_flight, prop::bool::weighted(0.2))
        .prop_map(|(at, rtt, in_flight, dropped)| Sample { at, rtt, in_flight, dropped });
    prop::collection::vec(sample, 0..200)
}

proptest! {
    #[test]
    fn no_sample_leads_out_of_the_bounds(
        numbers in numbers(LIMIT_MAX, prop_oneof![Just(1.0), Just(1e-9), 0.01..1.0]),
        samples in samples(any::<u64>()),
    ) {
        let Bounds { min, max, .. } = numbers.bounds;
        for mut limit in limits(numbers) {
            for sample in &samples {
                limit.learn(*sample);
                prop_assert!((min..=max).contains(&limit.limit()));
            }
        }
    }

    /// Whatever was learnt before, a limit is not stuck: while calls never take longer, and all that
    /// may be is in flight, it grows to its upper bound (smoothed, it may forever stay a part of a
    /// call below).
    #[test]
    fn every_limit_comes_back(
        numbers in numbers(60, 0.05..1.0),
        samples in samples(0..SECOND),
    ) {
        for (which, mut limit) in limits(numbers).into_iter().enumerate() {
            samples.iter().for_each(|sample| limit.learn(*sample));
            let rtt = Duration::from_millis(1);
            let grows = (0..100_000_u64).any(|i| {
                let at = Tick(10 * SECOND + i * SECOND / 2);
                limit.learn(Sample { at, rtt, in_flight: limit.limit(), dropped: false });
                limit.limit() + 1 >= numbers.bounds.max
            });
            prop_assert!(grows, "limit {which}, at {}", limit.limit());
        }
    }
}
