//! Retries against servers that refuse, fail and hang up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::any,
};
use token_client::{
    Engine,
    retry::{Budget, BudgetSettings, RetryLayer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::{Layer, ServiceExt};

use super::kit::{MS, client, engine, now, request, serve};

/// A server that admits thirty calls a second, refuses the others for a second, and remembers who
/// came when.
#[derive(Clone)]
struct Refusing {
    engine: Engine,
    came: Arc<Mutex<HashMap<u32, Vec<Instant>>>>,
}

async fn limited(State(server): State<Refusing>, Path(call): Path<u32>) -> impl IntoResponse {
    server.came.lock().unwrap().entry(call).or_default().push(now());
    match server.engine.entry("orders").acquire().await {
        Ok(_guard) => (StatusCode::OK, [(header::RETRY_AFTER, "")]),
        Err(_) => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]),
    }
}

/// Ten seconds of a hundred calls each: how many requests came, and how many calls went well.
async fn offered(budget: Budget) -> (usize, usize) {
    let engine = engine(r#"[{"resource": "orders", "count": 30}]"#);
    let server = Refusing { engine, came: Arc::default() };
    let router = Router::new().route("/{call}", any(limited)).with_state(server.clone());
    let (addr, _serving) = serve(router).await;
    let random = Mutex::new(fastrand::Rng::with_seed(7));
    let layer = RetryLayer::default().budget(budget).random(move || random.lock().unwrap().f64());
    let client = layer.layer(client());
    let mut calls = JoinSet::new();
    for call in 0..1_000 {
        let url = format!("http://{addr}/{call}");
        calls.spawn(client.clone().oneshot(request("POST", &url)));
        sleep(10 * MS).await;
    }
    let answers = calls.join_all().await;
    let well = answers.iter().filter(|answer| answer.as_ref().unwrap().status() == 200).count();
    let came = server.came.lock().unwrap();
    for times in came.values() {
        for pair in times.windows(2) {
            let apart = pair[1] - pair[0];
            assert!((999 * MS..1_510 * MS).contains(&apart), "asked for 1 s, came after {apart:?}");
        }
    }
    (came.values().map(Vec::len).sum(), well)
}

#[tokio::test(start_paused = true)]
async fn retries_of_refused_calls_raise_the_offered_load_at_most_by_a_tenth() {
    let budget = Budget::default();
    let (requests, well) = offered(budget.clone()).await;
    assert!(requests <= 1_100, "{requests} requests of 1000 calls");
    assert_eq!(requests, 1_000 + usize::try_from(budget.retries()).unwrap());
    assert!(budget.retries() >= 90 && budget.denied() > 500, "{budget:?}");
    assert!(well >= 290, "{well}");

    // What the budget is for: the same without one.
    let settings = BudgetSettings { reserve: u32::MAX, ..BudgetSettings::default() };
    let (requests, _) = offered(Budget::new(settings)).await;
    assert!(requests > 2_000, "{requests} requests of 1000 calls");
}

#[tokio::test(start_paused = true)]
async fn a_date_is_kept_by_the_clock_of_the_server() {
    let came: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let handler = async |State(came): State<Arc<Mutex<Vec<Instant>>>>| {
        let mut came = came.lock().unwrap();
        came.push(now());
        let (status, after) = match came.len() {
            1 => (StatusCode::SERVICE_UNAVAILABLE, "Sun, 06 Nov 1994 08:49:43 GMT"),
            _ => (StatusCode::OK, ""),
        };
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        (status, [(header::RETRY_AFTER, after), (header::DATE, date)])
    };
    let (addr, _serving) =
        serve(Router::new().route("/", any(handler)).with_state(Arc::clone(&came))).await;
    let settings = BudgetSettings { reserve: 1, ..BudgetSettings::default() };
    let layer = RetryLayer::default().budget(Budget::new(settings)).random(|| 0.5);
    let answer =
        layer.layer(client()).oneshot(request("POST", &format!("http://{addr}"))).await.unwrap();
    assert_eq!(answer.status(), 200);
    let came = came.lock().unwrap();
    let apart = came[1] - came[0];
    // 6 s, and half of the half of it.
    assert!((7_499 * MS..7_510 * MS).contains(&apart), "{apart:?}");
}

/// Hangs up on as many connections, then answers 200 on all; counts them.
async fn hanging_up(times: usize) -> (String, Arc<Mutex<usize>>, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&connections);
    let serving = async move {
        loop {
            let (mut peer, _) = listener.accept().await.unwrap();
            let nth = {
                let mut counted = counted.lock().unwrap();
                *counted += 1;
                *counted
            };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(peer.read_u8().await.unwrap());
            }
            if nth > times {
                let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                peer.write_all(answer).await.unwrap();
            }
        }
    };
    (url, connections, AbortOnDropHandle::new(TaskTracker::new().spawn(serving)))
}

fn generous() -> RetryLayer {
    let settings = BudgetSettings { reserve: 100, ..BudgetSettings::default() };
    RetryLayer::default().budget(Budget::new(settings))
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_only_if_it_may_be_done_twice() {
    let (url, connections, _serving) = hanging_up(2).await;
    let client = generous().layer(client());
    let answer = client.clone().oneshot(request("PUT", &url)).await.unwrap();
    assert_eq!((answer.status().as_u16(), *connections.lock().unwrap()), (200, 3));

    let (url, connections, _serving) = hanging_up(1).await;
    client.clone().oneshot(request("POST", &url)).await.unwrap_err();
    assert_eq!(*connections.lock().unwrap(), 1);

    let (url, connections, _serving) = hanging_up(usize::MAX).await;
    client.oneshot(request("GET", &url)).await.unwrap_err();
    assert_eq!(*connections.lock().unwrap(), 3, "once, and two retries");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_while_it_waits_is_not_sent_again() {
    let engine = engine(r#"[{"resource": "orders", "count": 0}]"#);
    let server = Refusing { engine, came: Arc::default() };
    let router = Router::new().route("/{call}", any(limited)).with_state(server.clone());
    let (addr, _serving) = serve(router).await;
    let call = generous().layer(client()).oneshot(request("GET", &format!("http://{addr}/1")));
    tokio::time::timeout(500 * MS, call).await.unwrap_err();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.came.lock().unwrap()[&1].len(), 1);
}
