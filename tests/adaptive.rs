//! Netflix' real adaptive limits beside ours: the same samples lead to the same limit.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use limiter::{
    Tick,
    adaptive::{
        AdaptiveLimiter, Aimd, AimdSettings, Bounds, Gradient2, Gradient2Settings, Limit, Outcome,
        Sample, Shares, Vegas, VegasSettings,
    },
};
use support::{Oracle, java_class_path};

fn netflix(class_path: &str) -> Oracle {
    Oracle::start(class_path, "peer.Limits")
}

/// Feeds both with samples of a server that is now fast and now slow.
///
/// `drops` is how many samples of a hundred are dropped ones; they take as long as the longest.
fn walk(netflix: &mut Oracle, create: &str, ours: &mut impl Limit, seed: u64, drops: u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    netflix.ask(create);
    let mut load = 1_000_000;
    let mut limits = BTreeSet::new();
    for i in 0..500 {
        if random.u32(..20) == 0 {
            load = [1_000_000, 3_000_000, 20_000_000, 100_000_000][random.usize(..4)];
        }
        let dropped = random.u32(..100) < drops;
        let rtt = if dropped { 300_000_000 } else { load + random.u64(..load / 2) };
        let most = [ours.limit() / 2, ours.limit() + 1, ours.limit() + 10][random.usize(..3)];
        let in_flight = random.u32(1..=most.max(1));
        let theirs = netflix.ask(&format!("sample {rtt} {in_flight} {dropped}"));
        let rtt = Duration::from_nanos(rtt);
        ours.learn(Sample { at: Tick::from_ms(i), rtt, in_flight, dropped });
        assert_eq!(ours.limit().to_string(), theirs, "{create}, seed {seed}, sample {i}");
        limits.insert(theirs);
    }
    assert!(limits.len() > 8, "a walk that leads nowhere: {create}, {limits:?}");
}

#[test]
fn aimd_is_as_netflix_s() {
    let Some(class_path) = java_class_path() else { return };
    let mut netflix = netflix(class_path);
    for (seed, (min, initial, max, backoff)) in
        [(1, 1, 10, 0.5), (20, 20, 200, 0.9), (3, 50, 1_000, 0.77)].into_iter().enumerate()
    {
        let timeout = Duration::from_millis(50);
        let settings = AimdSettings { bounds: Bounds { min, initial, max }, backoff, timeout };
        let create = format!("aimd {min} {initial} {max} {backoff} {}", timeout.as_nanos());
        walk(&mut netflix, &create, &mut Aimd::new(settings).unwrap(), seed as u64, 3);
    }
}

#[test]
fn vegas_is_as_netflix_s_between_probes() {
    let Some(class_path) = java_class_path() else { return };
    let mut netflix = netflix(class_path);
    for (seed, (initial, max, alpha, beta, smoothing)) in
        [(20, 1_000, 3, 6, 1.0), (1, 30, 2, 4, 0.5), (150, 2_000, 1, 9, 0.37)]
            .into_iter()
            .enumerate()
    {
        let bounds = Bounds { min: 1, initial, max };
        let settings =
            VegasSettings { bounds, alpha, beta, smoothing, probe: u32::MAX, seed: seed as u64 };
        let create = format!("vegas {initial} {max} {alpha} {beta} {smoothing}");
        // The first sample says what no load is: there none may be dropped.
        let mut ours = Vegas::new(settings).unwrap();
        walk(&mut netflix, &create, &mut ours, seed as u64, 0);
        let mut ours = Vegas::new(settings).unwrap();
        walk(&mut netflix, &create, &mut ours, seed as u64 + 10, 10);
    }
}

#[test]
fn gradient2_is_as_netflix_s_while_nothing_is_dropped() {
    let Some(class_path) = java_class_path() else { return };
    let mut netflix = netflix(class_path);
    for (seed, (min, initial, max, smoothing, queue, tolerance, long_window)) in [
        (20, 20, 200, 0.2, 4, 1.5, 600),
        (1, 5, 50, 1.0, 1, 1.0, 20),
        (10, 100, 1_000, 0.73, 10, 2.1, 100),
    ]
    .into_iter()
    .enumerate()
    {
        let bounds = Bounds { min, initial, max };
        let settings = Gradient2Settings { bounds, smoothing, queue, tolerance, long_window };
        let create = format!(
            "gradient2 {min} {initial} {max} {smoothing} {queue} {tolerance} {long_window}"
        );
        walk(&mut netflix, &create, &mut Gradient2::new(settings).unwrap(), seed as u64, 0);
    }
}

#[test]
fn shares_are_as_netflix_s() {
    let Some(class_path) = java_class_path() else { return };
    let mut netflix = netflix(class_path);
    let mut random = fastrand::Rng::with_seed(4);
    const NAMES: [&str; 4] = ["batch", "live", "test", "other"];
    for limit in [1, 2, 7, 10, 40] {
        netflix.ask(&format!("shares {limit} batch 25 live 50 test 25"));
        let shares = Shares::new([("batch", 25), ("live", 50), ("test", 25)]).unwrap();
        let bounds = Bounds { min: limit, initial: limit, max: limit };
        let fixed = Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap();
        let ours = AdaptiveLimiter::with_shares(fixed, shares);
        let mut calls = NAMES.map(|_| VecDeque::new());
        for i in 0..500 {
            let who = random.usize(..4);
            // Now one wants much, now another.
            let wants = if i / 50 % 4 == who { 3 } else { 1 };
            if random.u32(..4) < wants {
                let permit = ours.acquire_for(NAMES[who]);
                let answer = if permit.is_some() { "passed" } else { "refused" };
                let theirs = netflix.ask(&format!("acquire {}", NAMES[who]));
                assert_eq!(answer, theirs, "{} of {limit}, call {i}", NAMES[who]);
                calls[who].extend(permit);
            } else if let Some(permit) = calls[who].pop_front() {
                netflix.ask(&format!("release {}", NAMES[who]));
                permit.release(Tick::from_ms(i as u64), Outcome::Ignored);
            }
        }
    }
}
