//! Layers together: those of a client, and those of a server.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, error_handling::HandleErrorLayer, http::StatusCode, routing::any};
use limiter::adaptive::{AdaptiveLimiter, Aimd, AimdSettings, Bounds, Vegas};
use token_client::{
    RunError,
    adaptive::{AdaptiveError, AdaptiveLayer},
    bulkhead::{Bulkhead, BulkheadError, BulkheadLayer},
    limiter,
    outgoing::OutgoingLayer,
    retry::{Budget, BudgetSettings, RetryLayer},
};
use tokio::{sync::Notify, task::JoinSet};
use tower::{ServiceBuilder, ServiceExt};

use super::kit::{client, clock, engine, request, serve};

#[tokio::test(start_paused = true)]
async fn a_call_passes_through_all_layers_and_a_refusal_comes_back_at_once() {
    let refuse = async || (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")]);
    let (addr, _serving) = serve(Router::new().route("/", any(refuse))).await;
    let engine = engine(&format!(r#"[{{"resource": "GET:{addr}/", "count": 1}}]"#));
    let budget = Budget::new(BudgetSettings { reserve: 100, ..BudgetSettings::default() });
    let client = ServiceBuilder::new()
        .layer(RetryLayer::default().budget(budget.clone()))
        .layer(OutgoingLayer::new(engine.clone()))
        .layer(AdaptiveLayer::new(AdaptiveLimiter::new(Vegas::default())).clock(clock()))
        .layer(BulkheadLayer::new(Bulkhead::new(4, 8)))
        .service(client());
    let refused = client.oneshot(request("GET", &format!("http://{addr}/"))).await.unwrap_err();
    assert!(matches!(refused, RunError::Blocked(_)), "{refused}");
    assert_eq!(budget.retries(), 1, "of two that may be: the rule refused the first");
    let node = engine.local().node(engine.now(), &format!("GET:{addr}/")).unwrap();
    assert_eq!((node.threads, node.total_exception), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn around_the_handlers_of_a_server_a_refusal_is_an_answer() {
    let bounds = Bounds { min: 1, initial: 3, max: 3 };
    let limit = Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap();
    let limiter = AdaptiveLimiter::new(limit);
    let bulkhead = Bulkhead::new(1, 1);
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |error: AdaptiveError<BulkheadError<Infallible>>| {
            match error {
                AdaptiveError::Failed(error) => (StatusCode::BAD_GATEWAY, error.to_string()),
                error => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            }
        }))
        .layer(AdaptiveLayer::new(limiter.clone()).clock(clock()))
        .layer(BulkheadLayer::new(bulkhead.clone()));
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let handler = async move || released.notified().await;
    let (addr, _serving) = serve(Router::new().route("/", any(handler)).layer(layers)).await;
    let client = client();
    let get = || {
        let call = client.get(format!("http://{addr}")).send();
        async move { call.await.unwrap().status().as_u16() }
    };
    let mut calls = JoinSet::new();
    for waiting in 1..=2 {
        calls.spawn(get());
        while limiter.in_flight() < waiting {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((bulkhead.filled().running, bulkhead.filled().waiting), (1, 1));
    assert_eq!(get().await, 502, "no worker and no place in the queue");
    // A refusal is no answer, and so lowers the limit from three to two.
    assert_eq!((limiter.limit(), get().await), (2, 503));
    release.notify_one();
    assert_eq!(calls.join_next().await.unwrap().unwrap(), 200);
    release.notify_one();
    assert_eq!(calls.join_next().await.unwrap().unwrap(), 200);
    assert_eq!((limiter.in_flight(), bulkhead.refused()), (0, 1));
}
