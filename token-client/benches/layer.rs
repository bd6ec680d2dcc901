//! What the layer adds to a request on an idle route: a service that answers at once, alone and
//! behind the layer, without rules and with one, without header fields and with those of the
//! current draft, and with a caller and a key.
//!
//! The bar is a microsecond. Times are those that the thread was running, so that other programs on
//! the machine count less. `cargo bench -p token-client --features tower --bench layer`.

use std::{
    convert::Infallible,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use criterion::{
    Criterion, criterion_group, criterion_main,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Empty;
use limiter::{
    local::LocalSettings,
    rule::{Contents, parse},
};
use rustix::time::{ClockId, clock_gettime};
use token_client::{
    Engine,
    web::{GuardLayer, RateLimitHeaders, header},
};
use tower::{Layer, Service, service_fn};

type Nothing = Empty<Bytes>;

/// The time that this thread was running.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }

    fn end(&self, started: Duration) -> Duration {
        self.start().saturating_sub(started)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_secs_f64() * 1e9
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A route's handler with nothing to do.
fn service()
-> impl Service<Request<Nothing>, Response = Response<Nothing>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(|request: Request<Nothing>| async move {
        black_box(request);
        Ok(Response::new(Nothing::new()))
    })
}

/// As hyper does: waits until it is ready, makes the call, and runs it to its end, where it is.
fn ask<S, B>(service: &mut S)
where
    S: Service<Request<Nothing>, Response = Response<B>, Error = Infallible>,
    B: Body,
{
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    let request = Request::get("/orders/7")
        .header("x-caller", "shop")
        .header("x-user", "ann")
        .body(Nothing::new());
    let Ok(request) = request else { return };
    let answer = pin!(service.call(request)).poll(&mut context);
    assert!(matches!(answer, Poll::Ready(Ok(answer)) if answer.status() == 200));
}

fn layers(criterion: &mut Criterion<CpuTime>) {
    let free = Engine::new(LocalSettings::default());
    let ruled = Engine::new(LocalSettings::default());
    let rules = r#"[{"resource": "GET:/orders/{id}", "count": 1000000000}]"#;
    let parsed = parse(rules, "rules", "", Contents::Flow, false);
    let Ok(parsed) = parsed else { return };
    ruled.local().load_flow(parsed.rules.flow);
    let layer = |engine: &Engine| {
        GuardLayer::new(engine)
            .route(|_| Some("/orders/{id}".into()))
            .headers(RateLimitHeaders::NONE)
    };
    let with_headers = || layer(&ruled).headers(RateLimitHeaders::default());
    let cases = [
        ("behind the layer, no rule", layer(&free)),
        ("behind the layer, a flow rule", layer(&ruled)),
        ("behind the layer, a flow rule and header fields", with_headers()),
        (
            "behind the layer, a flow rule, header fields, a caller and a key",
            with_headers().origin(header("x-caller")).key(header("x-user")),
        ),
    ];
    let mut group = criterion.benchmark_group("a request");
    group.bench_function("to the service alone", |bencher| {
        let mut service = service();
        bencher.iter(|| ask(&mut service));
    });
    for (name, layer) in cases {
        group.bench_function(name, |bencher| {
            let mut service = layer.layer(service());
            bencher.iter(|| ask(&mut service));
        });
    }
    group.finish();
}

criterion_group!(
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = layers
);
criterion_main!(benches);
