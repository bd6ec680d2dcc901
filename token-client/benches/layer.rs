//! What the layer adds to a request on an idle route: a service that answers at once, alone and
//! behind the layer, without rules and with one, without header fields and with those of the
//! current draft, and with a caller and a key.
//!
//! The bar is a microsecond. `cargo bench -p token-client --features tower --bench layer`.

use std::{
    convert::Infallible,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Empty;
use limiter::{
    local::LocalSettings,
    rule::{Contents, parse},
};
use token_client::{
    Engine,
    web::{GuardLayer, RateLimitHeaders, header},
};
use tower::{Layer, Service, service_fn};

type Nothing = Empty<Bytes>;

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

fn layers(criterion: &mut Criterion) {
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

criterion_group!(benches, layers);
criterion_main!(benches);
