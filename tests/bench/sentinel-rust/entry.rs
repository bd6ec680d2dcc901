//! What a guarded call costs, from enter to exit, beside the Rust port of Sentinel: the crate
//! `sentinel-core` 0.1.3, which is sentinel-rust.
//!
//! Both sides do the same for a call: find the resource by its name, ask its flow rule (calls per
//! second, refused at once, a count that is never reached) or none, count the call as passed, and
//! at its end its response time. Each is used as its users use it:
//!
//! * sentinel-rust: `EntryBuilder::new(name).build()` and `exit()` through its global chain, whose
//!   clock is a number that a thread of its own sets each millisecond (`use_cache_time`, its
//!   default). The builder wants a `String`, which is made for each call, as there is no other way.
//! * tollgate: `LocalEngine::enter` and `Entry::exit`, told a time that is kept in the same way.
//! * tollgate, two clock readings: the same, told what `MonotonicClock::now` reads from the system
//!   for each of the two.
//!
//! `cargo bench --locked` here runs one thread without a rule and with one, and two threads with a
//! rule and a resource each; of two threads the time is that which each of them takes for a call.

use std::{
    hint::black_box,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use limiter::{
    Clock, MonotonicClock, Tick,
    local::{Call, LocalEngine, LocalSettings, Step},
    rule,
};
use sentinel_core::{EntryBuilder, flow, init_default};

const FREE: &str = "GET:/health";
const LIMITED: [&str; 2] = ["GET:/api/v1/orders/{id}", "GET:/api/v1/customers/{id}"];
/// A count that is never reached.
const COUNT: f64 = 1e12;

fn sentinel_rust() -> impl Fn(&str) + Sync {
    init_default().expect("sentinel-rust starts with its defaults");
    let rule = |name: &str| flow::Rule {
        resource: name.to_owned(),
        threshold: COUNT,
        calculate_strategy: flow::CalculateStrategy::Direct,
        control_strategy: flow::ControlStrategy::Reject,
        ..flow::Rule::default()
    };
    flow::load_rules(LIMITED.map(|name| Arc::new(rule(name))).to_vec());
    for name in LIMITED {
        assert_eq!(flow::get_rules_of_resource(&name.to_owned()).len(), 1, "{name}");
    }
    |resource| {
        let entry = EntryBuilder::new(black_box(resource).to_owned()).build();
        entry.expect("the count is never reached").exit();
    }
}

/// A clock whose time is set each millisecond, by a thread that ends with the process.
#[expect(clippy::disallowed_methods, reason = "as the other side's clock does")]
fn kept_time() -> impl Fn() -> Tick + Sync {
    let clock = MonotonicClock::start();
    let kept = Arc::new(AtomicU64::new(clock.now().0));
    let shown = Arc::clone(&kept);
    thread::spawn(move || {
        loop {
            // Relaxed, here and below: the number is the whole state.
            kept.store(clock.now().0, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
    });
    move || Tick(shown.load(Ordering::Relaxed))
}

fn tollgate(now: impl Fn() -> Tick + Sync) -> impl Fn(&str) + Sync {
    let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
    let rules = LIMITED.map(|name| serde_json::json!({"resource": name, "count": COUNT}));
    let text = serde_json::json!(rules).to_string();
    let parsed = rule::parse(&text, "bench", "", rule::Contents::Flow, false);
    let loaded = engine.load_flow(parsed.expect("two good rules").rules.flow);
    assert_eq!(loaded.rules, LIMITED.len());
    move |resource| {
        let step = engine.enter(now(), Call::new(black_box(resource)));
        let Step::Passed(entry) = step else { panic!("the count is never reached") };
        entry.exit(now());
    }
}

/// The time of the slower of two threads that make `calls` calls each.
fn two_threads(call: &(impl Fn(&str) + Sync), calls: u64) -> Duration {
    let (clock, start) = (MonotonicClock::start(), Barrier::new(LIMITED.len()));
    let work = |resource| {
        start.wait();
        let began = clock.now();
        (0..calls).for_each(|_| call(resource));
        clock.now().since(began)
    };
    thread::scope(|scope| {
        let threads = LIMITED.map(|resource| scope.spawn(move || work(resource)));
        let times = threads.map(|thread| thread.join().expect("no call panics"));
        times.into_iter().max().unwrap_or_default()
    })
}

fn compare(criterion: &mut Criterion, name: &str, call: &(impl Fn(&str) + Sync)) {
    let mut group = criterion.benchmark_group("entry");
    let mut alone = |case, resource| {
        group.bench_function(BenchmarkId::new(case, name), |bench| bench.iter(|| call(resource)));
    };
    let [limited, _] = LIMITED;
    alone("no rule", FREE);
    alone("one flow rule", limited);
    group.bench_function(BenchmarkId::new("two threads", name), |bench| {
        bench.iter_custom(|calls| two_threads(call, calls));
    });
}

fn entries(criterion: &mut Criterion) {
    compare(criterion, "sentinel-rust", &sentinel_rust());
    compare(criterion, "tollgate", &tollgate(kept_time()));
    let clock = MonotonicClock::start();
    compare(criterion, "tollgate, two clock readings", &tollgate(move || clock.now()));
}

criterion_group!(benches, entries);
criterion_main!(benches);
