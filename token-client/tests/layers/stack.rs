//! All layers of a client at once.

use axum::{Router, http::StatusCode, routing::any};
use limiter::adaptive::{AdaptiveLimiter, Vegas};
use token_client::{
    RunError,
    adaptive::AdaptiveLayer,
    bulkhead::{Bulkhead, BulkheadLayer},
    limiter,
    outgoing::OutgoingLayer,
    retry::{Budget, BudgetSettings, RetryLayer},
};
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
