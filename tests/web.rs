//! Services that protect themselves, over real sockets: the examples, and clients that go away.

use std::{net::SocketAddr, process::Command, sync::Arc};

use axum::{Router, extract::MatchedPath, routing::get};
use limiter::local::{LocalSettings, NodeReading};
use support::{Http, Process, TextCodec, eventually, example};
use token_client::{Engine, web::GuardLayer};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};
use tonic::{
    Code, Request, Response, Status, client::Grpc, codegen::http::uri::PathAndQuery,
    transport::Endpoint,
};

/// Starts an example on a free port, which it says behind `word`.
fn start(name: &str, word: &str) -> (Process, SocketAddr) {
    let mut process = Process::start(Command::new(example(name)).arg("127.0.0.1:0"));
    let line = process.line();
    let address = line.strip_prefix(word).and_then(|address| address.trim().parse().ok());
    assert!(address.is_some(), "{line}: {}", process.log());
    (process, address.unwrap())
}

/// What axum and actix-web do alike.
async fn is_guarded(name: &str) {
    let (_process, address) = start(name, "http");
    let mut http = Http::connect(address).await;
    let order = http.get("/orders/7", &[]).await;
    assert_eq!((order.status, &*order.body), (200, "order 7"));
    assert_eq!(order.field("ratelimit-policy"), r#""GET:/orders/{id}";q=100;w=1"#);
    assert!(order.field("ratelimit").starts_with(r#""GET:/orders/{id}";r="#), "{order:?}");

    let ann = [("x-api-key", "ann")];
    let first = http.get("/report", &ann).await;
    assert_eq!((first.status, &*first.body), (200, "all is well"));
    assert_eq!(first.field("ratelimit-policy"), r#""GET:/report";q=1;w=3600"#);
    assert!(first.field("ratelimit").starts_with(r#""GET:/report";r=0;t=3"#), "{first:?}");
    let second = http.get("/report", &ann).await;
    assert_eq!((second.status, &*second.body), (429, "too many requests"));
    let wait: u64 = second.field("retry-after").parse().unwrap();
    assert!((3_500..=3_601).contains(&wait), "{second:?}");
    assert_eq!(http.get("/report", &[("x-api-key", "bob")]).await.status, 200);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(http.get("/report", &[("x-api-key", "gold-ann")]).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);

    assert_eq!(http.get("/broken", &[]).await.status, 500);
    assert_eq!(http.get("/broken", &[]).await.status, 500);
    let open = http.get("/broken", &[]).await;
    assert_eq!((open.status, &*open.body), (503, "temporarily unavailable"));
    let wait: u64 = open.field("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{open:?}");
    assert_eq!(http.get("/nothing", &[]).await.status, 404);
}

#[tokio::test]
async fn a_service_in_axum_is_guarded_by_route_by_key_and_by_tier() {
    is_guarded("axum").await;
}

#[tokio::test]
async fn a_service_in_actix_web_is_guarded_by_route_by_key_and_by_tier() {
    is_guarded("actix").await;
}

/// One call of the example as a tonic client makes it.
async fn grpc(address: SocketAddr, method: &'static str, user: &str) -> Result<String, Status> {
    let channel = Endpoint::try_from(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let mut request = Request::new(user.to_owned());
    request.metadata_mut().insert("x-user", user.parse().unwrap());
    let method = PathAndQuery::from_static(method);
    client.unary(request, method, TextCodec).await.map(Response::into_inner)
}

#[tokio::test]
async fn a_service_in_tonic_refuses_in_grpc_and_its_codes_open_the_breaker() {
    let (_process, address) = start("tonic", "grpc");
    let list = async |user| grpc(address, "/shop.Orders/List", user).await;
    assert_eq!(list("ann").await.unwrap(), "orders of ann");
    assert_eq!(list("ann").await.unwrap(), "orders of ann");
    let refused = list("ann").await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "too many requests"));
    let field = |name| refused.metadata().get(name).unwrap().to_str().unwrap().to_owned();
    let wait: u64 = field("retry-after").parse().unwrap();
    assert!((3_500..=3_601).contains(&wait), "{refused:?}");
    let pushback: u64 = field("grpc-retry-pushback-ms").parse().unwrap();
    assert!(pushback <= wait * 1_000 && pushback > (wait - 1) * 1_000, "{refused:?}");
    assert_eq!(field("ratelimit-policy"), r#""/shop.Orders/List";q=2;w=3600"#);
    assert_eq!(list("bob").await.unwrap(), "orders of bob");

    let delete = async || grpc(address, "/shop.Orders/Delete", "ann").await.unwrap_err().code();
    let codes = [delete().await, delete().await, delete().await];
    assert_eq!(codes, [Code::Internal, Code::Internal, Code::Unavailable]);
    let unknown = grpc(address, "/shop.Orders/Nothing", "ann").await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
}

#[test]
fn a_worker_puts_off_what_is_refused() {
    let mut process = Process::start(&mut Command::new(example("worker")));
    let said: Vec<String> = ["ann tea", "ann coffee", "ann cake", "bob -", "bob -", "eve pie"]
        .iter()
        .map(|job| {
            process.tell(job);
            process.line()
        })
        .collect();
    let expected = [
        "ann gets tea",
        "ann gets coffee",
        "ann waits for cake: hot-parameter rule of order: 2 calls for each value of argument 0 \
         per 3600 s",
        "bob gets nothing: the disk fails",
        "bob gets nothing: the disk fails",
        "eve gets nothing: circuit breaker of store: open for its number of failed calls",
    ];
    assert_eq!(said, expected);
}

/// A client closes its connection while the service works for it: the call is over, without error.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_client_goes_away_is_over() {
    let engine = Engine::new(LocalSettings::default());
    let entered = Arc::new(Notify::new());
    let hangs = {
        let entered = Arc::clone(&entered);
        move || async move {
            entered.notify_one();
            std::future::pending::<&str>().await
        }
    };
    let service = Router::new()
        .route("/hang", get(hangs))
        .layer(GuardLayer::new(&engine).matched(MatchedPath::as_str));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, service).await.unwrap() });

    let mut client = JoinSet::new();
    client.spawn(async move { Http::connect(address).await.get("/hang", &[]).await.status });
    entered.notified().await;
    let node = || engine.local().node(engine.now(), "GET:/hang").unwrap();
    assert_eq!(node().threads, 1);
    client.shutdown().await;
    eventually("the call has ended", || node().threads == 0);
    let NodeReading { total_success, total_exception, .. } = node();
    assert_eq!((total_success, total_exception), (1, 0));
}
