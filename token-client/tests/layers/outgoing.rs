//! Calls of a client to a real server: what limits and what breakers hear of them.

use axum::{Router, extract::Path, http::StatusCode, response::IntoResponse, routing::any};
use limiter::{local::BlockKind, rule::parse_degrade};
use token_client::{Engine, RunError, exchange::Request, limiter, outgoing::OutgoingLayer};
use tokio::time::sleep;
use tower::{Layer, ServiceExt};

use super::kit::{MS, client, engine, request, serve};

/// Answers with the status or the gRPC code in the path, or after a while.
async fn answer(Path((kind, code)): Path<(String, u16)>) -> impl IntoResponse {
    match &*kind {
        "status" => StatusCode::from_u16(code).unwrap().into_response(),
        "grpc" => [("grpc-status", code.to_string())].into_response(),
        _ => {
            sleep(u32::from(code) * MS).await;
            StatusCode::OK.into_response()
        }
    }
}

fn router() -> Router {
    Router::new().route("/{kind}/{code}", any(answer))
}

fn layer(engine: &Engine) -> OutgoingLayer {
    OutgoingLayer::new(engine.clone()).named(|_: &dyn Request| "peer".into())
}

/// In progress, ended, and ended with an error.
fn ended(engine: &Engine, resource: &str) -> (i64, u64, u64) {
    let node = engine.local().node(engine.now(), resource).unwrap_or_default();
    (node.threads, node.total_success, node.total_exception)
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_server_are_errors_and_those_of_the_caller_are_not() {
    let (addr, serving) = serve(router()).await;
    let engine = engine("[]");
    let client = layer(&engine).layer(client());
    let get = async |path: &str| {
        let url = format!("http://{addr}/{path}");
        client.clone().oneshot(request("GET", &url)).await
    };
    for (path, errors) in [
        ("status/200", 0),
        ("status/404", 0),
        ("status/429", 0),
        ("grpc/0", 0),
        ("grpc/8", 0),
        ("status/500", 1),
        ("status/503", 2),
        ("grpc/14", 3),
        ("grpc/2", 4),
    ] {
        get(path).await.unwrap();
        assert_eq!(ended(&engine, "peer").2, errors, "{path}");
    }
    drop(serving);
    // Until the port is closed, the server may still take a call.
    while get("status/200").await.is_ok() {}
    assert_eq!(ended(&engine, "peer").2, 5, "no answer");
    assert_eq!(ended(&engine, "peer").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_not_sent_and_says_why() {
    let (addr, _serving) = serve(router()).await;
    let resource = format!("GET:{addr}/*");
    let engine = engine(&format!(r#"[{{"resource": "{resource}", "count": 2}}]"#));
    let client = OutgoingLayer::new(engine.clone()).layer(client());
    let url = format!("http://{addr}/status/200");
    for _ in 0..2 {
        client.clone().oneshot(request("GET", &url)).await.unwrap();
    }
    let refused = client.clone().oneshot(request("GET", &url)).await.unwrap_err();
    assert!(matches!(&refused, RunError::Blocked(block) if block.kind() == BlockKind::Flow));
    assert_eq!(refused.to_string(), format!("flow rule of {resource}: 2 calls per second"));
    client.oneshot(request("POST", &url)).await.unwrap();
    assert_eq!(ended(&engine, &resource), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_for_a_server_that_fails_and_spares_it() {
    let (addr, _serving) = serve(router()).await;
    let engine = engine("[]");
    let rule = r#"[{"resource": "peer", "grade": 2, "count": 4, "minRequestAmount": 5,
                    "timeWindow": 10}]"#;
    engine.local().load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let client = layer(&engine).layer(client());
    let get = async |path: &str| {
        let url = format!("http://{addr}/{path}");
        client.clone().oneshot(request("GET", &url)).await
    };
    for _ in 0..5 {
        assert_eq!(get("status/500").await.unwrap().status(), 500);
    }
    let refused = get("status/200").await.unwrap_err();
    assert!(matches!(refused, RunError::Blocked(block) if block.kind() == BlockKind::Degrade));
    sleep(10_001 * MS).await;
    assert_eq!(get("status/200").await.unwrap().status(), 200, "a probe closes it");
    assert_eq!(get("status/200").await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_their_turn_and_leave_nothing_behind_when_they_are_given_up() {
    let (addr, _serving) = serve(router()).await;
    let engine = engine(
        r#"[{"resource": "peer", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#,
    );
    let client = layer(&engine).layer(client());
    let start = engine.now();
    for _ in 0..3 {
        let url = format!("http://{addr}/status/200");
        client.clone().oneshot(request("GET", &url)).await.unwrap();
    }
    let took = engine.now().since(start);
    assert!((200 * MS..205 * MS).contains(&took), "{took:?}");
    let slow = client.oneshot(request("GET", &format!("http://{addr}/wait/5000")));
    tokio::time::timeout(300 * MS, slow).await.unwrap_err();
    assert_eq!(ended(&engine, "peer"), (0, 4, 0));
}
