//! What each layer adds to a call: the median of batches, around a service that answers at once.
//!
//! ```text
//! cargo run --release -p token-client --features tower --example layer-cost
//! ```

use std::{convert::Infallible, error::Error, fmt::Debug, future::ready, time::Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use token_client::{
    Engine,
    adaptive::AdaptiveLayer,
    bulkhead::{Bulkhead, BulkheadLayer},
    deferral::{Deferral, DeferralLayer, Settings},
    limiter::{
        adaptive::{AdaptiveLimiter, Vegas, Windowed},
        local::LocalSettings,
    },
    outgoing::OutgoingLayer,
    retry::RetryLayer,
};
use tower::{Layer, Service, service_fn};

type Body = Full<Bytes>;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service =
        service_fn(|_: Request<Body>| ready(Ok::<_, Infallible>(Response::new(Body::default()))));
    let bare = median(service).await;
    let engine = Engine::new(LocalSettings::default());
    let limiter = AdaptiveLimiter::new(Windowed::averages(Vegas::default()));
    let deferral = Deferral::new(engine.clone(), "POST:/orders", Settings::default());
    let threads = Bulkhead::with_threads("own", 1, 4, 8)?;
    println!("the service alone: {bare} ns, with the making of a request; and with a layer in ns:");
    for (name, with) in [
        ("outgoing", median(OutgoingLayer::new(engine).layer(service)).await),
        ("retry", median(RetryLayer::default().layer(service)).await),
        ("adaptive", median(AdaptiveLayer::new(limiter).layer(service)).await),
        ("bulkhead", median(BulkheadLayer::new(Bulkhead::new(4, 8)).layer(service)).await),
        ("bulkhead, own threads", median(BulkheadLayer::new(threads).layer(service)).await),
        ("deferral", median(DeferralLayer::new(deferral).layer(service)).await),
    ] {
        println!("{name:>22}: + {}", with.saturating_sub(bare));
    }
    Ok(())
}

/// Nanoseconds a call: the median of 501 batches, each shorter than a time slice.
#[expect(clippy::disallowed_methods, reason = "an example measures real time")]
async fn median<S: Service<Request<Body>, Error: Debug>>(mut service: S) -> u128 {
    const BATCH: u16 = 300;
    let mut took = Vec::new();
    for _ in 0..501 {
        let start = Instant::now();
        for _ in 0..BATCH {
            let request = Request::post("http://shop.example/orders/17").body(Body::default());
            let request = request.expect("the parts are valid");
            service.call(request).await.expect("it answers");
        }
        took.push(start.elapsed().as_nanos() / u128::from(BATCH));
    }
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}
