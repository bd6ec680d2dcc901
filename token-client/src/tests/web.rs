//! The layer for tower around services that are functions, on a stopped clock.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use limiter::rule::{Contents, parse, parse_authority, parse_degrade};
use tokio::time::{advance, sleep};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::engine::{ended, node, with_flow};
use crate::{
    Engine,
    web::{Draft, Ended, GuardBody, GuardLayer, RateLimitHeaders, SHARED, UNMATCHED, header},
};

const MS: Duration = Duration::from_millis(1);

type Reply = Response<GuardBody<Full<Bytes>>>;

fn layer(engine: &Engine) -> GuardLayer {
    GuardLayer::new(engine).route(|request| Some(request.uri.path().into()))
}

fn get(path: &str) -> http::request::Builder {
    Request::get(path)
}

/// Asks a service that answers with what it is told to, behind the layer.
async fn ask_for(layer: &GuardLayer, request: http::request::Builder, answer: u16) -> Reply {
    let service = service_fn(move |_: Request<Empty<Bytes>>| async move {
        let mut response = Response::new(Full::from("done"));
        *response.status_mut() = StatusCode::from_u16(answer).unwrap();
        Ok::<_, Infallible>(response)
    });
    layer.layer(service).oneshot(request.body(Empty::new()).unwrap()).await.unwrap()
}

async fn ask(layer: &GuardLayer, path: &str) -> Reply {
    ask_for(layer, get(path), 200).await
}

fn field<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn text(response: Reply) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_what_is_left_and_a_refusal_when_to_come_back() {
    let engine = with_flow(r#"[{"resource": "GET:/orders", "count": 2}]"#);
    let layer = layer(&engine).headers(RateLimitHeaders::default().and_x());
    let first = ask(&layer, "/orders").await;
    assert_eq!(first.status(), 200);
    assert_eq!(field(&first, "ratelimit-policy"), r#""GET:/orders";q=2;w=1"#);
    assert_eq!(field(&first, "ratelimit"), r#""GET:/orders";r=1;t=1"#);
    assert_eq!(field(&first, "x-ratelimit-remaining"), "1");
    assert_eq!(field(&first, "retry-after"), "");
    assert_eq!(text(first).await, "done");
    ask(&layer, "/orders").await;
    let refused = ask(&layer, "/orders").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(field(&refused, "retry-after"), "1");
    assert_eq!(field(&refused, "ratelimit"), r#""GET:/orders";r=0;t=1"#);
    assert_eq!(field(&refused, "content-type"), "text/plain; charset=utf-8");
    assert_eq!(text(refused).await, "too many requests");
    let without = layer.headers(RateLimitHeaders::NONE);
    advance(1_000 * MS).await;
    let passed = ask(&without, "/orders").await;
    assert!(passed.status() == 200 && passed.headers().is_empty(), "{passed:?}");
}

/// One call of a value in ten minutes: the time to come back is that to the second.
#[tokio::test(start_paused = true)]
async fn the_time_to_come_back_is_the_rest_of_a_long_window() {
    let engine = with_flow("[]");
    let rules = r#"[{"resource": "GET:/report", "paramIdx": 1, "count": 1, "durationInSec": 600}]"#;
    let rules = parse(rules, "test", "", Contents::Param, false).unwrap().rules;
    engine.local().load_param(rules.param);
    let layer = layer(&engine)
        .key(header("x-tenant"))
        .key(header("x-user"))
        .headers(RateLimitHeaders::of(Draft::Six));
    let of = |user: &str| get("/report").header("x-user", user);
    assert_eq!(ask_for(&layer, of("ann"), 200).await.status(), 200);
    advance(100_250 * MS).await;
    let refused = ask_for(&layer, of("ann"), 200).await;
    assert_eq!((refused.status().as_u16(), field(&refused, "retry-after")), (429, "500"));
    assert_eq!(field(&refused, "ratelimit-policy"), "1;w=600");
    assert_eq!(field(&refused, "ratelimit-reset"), "500");
    for other in [of("bob"), get("/report")] {
        assert_eq!(ask_for(&layer, other, 200).await.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_method_and_route_and_their_number_is_bounded() {
    let engine = with_flow("[]");
    let layer = GuardLayer::new(&engine)
        .route(|request| request.uri.path().strip_prefix("/api").map(Into::into))
        .names_max(2);
    for (method, path) in [
        ("GET", "/api/a"),
        ("HEAD", "/api/a"),
        ("BREW", "/api/a"),
        ("GET", "/api/b"),
        ("GET", "/api/c"),
        ("GET", "/admin.php"),
        ("GET", "/.env"),
    ] {
        ask_for(&layer, Request::builder().method(method).uri(path), 200).await;
    }
    let counted = |name| node(&engine, name).total_pass;
    let names = ["GET:/a", "OTHER:/a", SHARED, UNMATCHED, "GET:/b"];
    assert_eq!((names.map(counted), layer.shared_names()), ([2, 1, 2, 2, 0], 2));
    assert_eq!(engine.local().inbound(engine.now()).total_pass, 7);
}

#[tokio::test(start_paused = true)]
async fn tiers_and_callers_have_rules_of_their_own() {
    let engine = with_flow(
        r#"[{"resource": "GET:/a", "count": 1}, {"resource": "GET:/a@vip", "count": 2},
            {"resource": "GET:/b", "count": 1, "limitApp": "shop"}]"#,
    );
    let layer = layer(&engine)
        .origin(header("x-caller"))
        .tier(|request| request.headers.contains_key("x-paid").then_some("vip"));
    let mut passed = [0, 0];
    for _ in 0..4 {
        let vip = ask_for(&layer, get("/a").header("x-paid", "1"), 200).await.status();
        passed[0] += u32::from(vip == 200);
        passed[1] += u32::from(ask(&layer, "/a").await.status() == 200);
    }
    assert_eq!(passed, [2, 1]);
    let by = async |caller: &str| {
        let request = get("/b").header("x-caller", caller);
        ask_for(&layer, request, 200).await.status().as_u16()
    };
    assert_eq!([by("shop").await, by("shop").await, by("desk").await], [200, 429, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_server_error_opens_the_breaker_and_the_answer_says_when_it_closes() {
    let engine = with_flow("[]");
    let rule = r#"[{"resource": "GET:/r", "grade": 2, "count": 1, "minRequestAmount": 1,
        "timeWindow": 7}]"#;
    engine.local().load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let layer = layer(&engine);
    for (answer, status) in [(404, 404), (500, 500), (503, 503), (200, 503)] {
        let response = ask_for(&layer, get("/r"), answer).await;
        assert_eq!(response.status(), status);
        let retry = if answer == 200 { "7" } else { "" };
        assert_eq!(field(&response, "retry-after"), retry);
    }
    assert_eq!(ended(&engine, "GET:/r"), (0, 3, 2));
    let strict = layer.errors(|ended| ended != Ended::Http(200));
    ask_for(&strict, get("/other"), 404).await;
    assert_eq!(ended(&engine, "GET:/other"), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_call_is_told_so_and_the_answer_can_be_changed() {
    let engine = with_flow(r#"[{"resource": "GET:/b", "count": 0}]"#);
    let rule = r#"[{"resource": "GET:/a", "limitApp": "shop", "strategy": 0}]"#;
    engine.local().load_authority(parse_authority(rule, "test").unwrap().rules);
    let layer = layer(&engine).origin(header("x-caller")).respond(|refusal, mut answer| {
        if refusal.resource == "GET:/b" {
            assert!(!refusal.is_grpc && refusal.block.to_string().contains("0 calls per second"));
            answer.status = 403;
            answer.message = format!("{{\"no\": \"{}\"}}", refusal.resource).into();
            answer.content_type = "application/json".into();
            answer.fields.push(("x-why".into(), "a rule".into()));
            answer.fields.push(("not a name".into(), "left out".into()));
            answer.fields.push(("x-bad".into(), "line\nbreak".into()));
        }
        answer
    });
    let refused = ask_for(&layer, get("/a").header("x-caller", "desk"), 200).await;
    assert_eq!((refused.status().as_u16(), field(&refused, "retry-after")), (403, ""));
    let refused = ask(&layer, "/b").await;
    assert_eq!((refused.status().as_u16(), field(&refused, "x-why")), (403, "a rule"));
    assert!(!refused.headers().contains_key("x-bad") && refused.headers().len() == 4);
    assert_eq!(text(refused).await, r#"{"no": "GET:/b"}"#);
}

/// Frames, and then nothing more.
fn frames(
    frames: Vec<Result<Frame<Bytes>, &'static str>>,
) -> impl Body<Data = Bytes, Error = &'static str> {
    struct Frames(std::vec::IntoIter<Result<Frame<Bytes>, &'static str>>);
    impl Body for Frames {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(self.0.next())
        }
    }
    Frames(frames.into_iter())
}

fn trailers(code: &str) -> Result<Frame<Bytes>, &'static str> {
    let mut map = HeaderMap::new();
    map.insert("grpc-status", code.parse().unwrap());
    Ok(Frame::trailers(map))
}

fn data() -> Result<Frame<Bytes>, &'static str> {
    Ok(Frame::data(Bytes::from_static(b"message")))
}

/// A call of gRPC with this answer: calls in progress, ended, failed before and after its body.
async fn grpc_call(
    head: &[(&str, &str)],
    body: Vec<Result<Frame<Bytes>, &'static str>>,
) -> [(i64, u64, u64); 2] {
    let engine = with_flow("[]");
    let layer = GuardLayer::new(&engine).grpc();
    let mut answer = Response::new(frames(body));
    for (name, value) in head {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        answer.headers_mut().insert(name, value.parse().unwrap());
    }
    let service = Once(Arc::new(Mutex::new(Some(answer))));
    let request = Request::post("/shop.Orders/List").body(Empty::new()).unwrap();
    let response = layer.layer(service).oneshot(request).await.unwrap();
    let before = ended(&engine, "/shop.Orders/List");
    let _ = response.into_body().collect().await;
    [before, ended(&engine, "/shop.Orders/List")]
}

/// Gives its answer once.
#[derive(Debug)]
struct Once<B>(Arc<Mutex<Option<Response<B>>>>);

impl<B> Clone for Once<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Service<Request<Empty<Bytes>>> for Once<B> {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        std::future::ready(Ok(self.0.lock().unwrap().take().unwrap()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_grpc_call_ends_with_the_code_at_the_end_of_its_body() {
    const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");
    let ok = grpc_call(&[GRPC], vec![data(), trailers("0")]).await;
    assert_eq!(ok, [(1, 0, 0), (0, 1, 0)]);
    let not_found = grpc_call(&[GRPC], vec![data(), trailers("5")]).await;
    assert_eq!(not_found, [(1, 0, 0), (0, 1, 0)]);
    let internal = grpc_call(&[GRPC], vec![trailers("13")]).await;
    assert_eq!(internal, [(1, 0, 0), (0, 1, 1)]);
    let cut_off = grpc_call(&[GRPC], vec![data()]).await;
    assert_eq!(cut_off, [(1, 0, 0), (0, 1, 1)]);
    let broken = grpc_call(&[GRPC], vec![data(), Err("reset")]).await;
    assert_eq!(broken, [(1, 0, 0), (0, 1, 1)]);
    let at_once = grpc_call(&[GRPC, ("grpc-status", "14")], vec![]).await;
    assert_eq!(at_once, [(0, 1, 1); 2]);
    let no_grpc = grpc_call(&[("content-type", "text/html")], vec![data()]).await;
    assert_eq!(no_grpc, [(0, 1, 0); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_grpc_is_an_answer_of_trailers_alone() {
    let engine = with_flow(r#"[{"resource": "/shop.Orders/List", "count": 0}]"#);
    let layer = GuardLayer::new(&engine).grpc();
    let post = Request::post("/shop.Orders/List").header("content-type", "application/grpc");
    let refused = ask_for(&layer, post, 200).await;
    assert_eq!((refused.status().as_u16(), refused.body().is_end_stream()), (200, true));
    assert_eq!(field(&refused, "content-type"), "application/grpc");
    assert_eq!(
        (field(&refused, "grpc-status"), field(&refused, "grpc-message")),
        ("8", "too many requests")
    );
    assert_eq!(field(&refused, "grpc-retry-pushback-ms"), "-1");
    for path in ["/", "/a/b/c"] {
        ask_for(&layer, Request::post(path), 200).await;
    }
    assert_eq!(node(&engine, UNMATCHED).total_pass, 2);
}

/// What a client says it speaks changes neither the name of a resource nor what is an error.
#[tokio::test(start_paused = true)]
async fn a_web_request_that_calls_itself_grpc_is_one_all_the_same() {
    let engine = with_flow(r#"[{"resource": "GET:/api/orders", "count": 1}]"#);
    let layer = layer(&engine);
    let request = || get("/api/orders").header("content-type", "application/grpc");
    assert_eq!(ask_for(&layer, request(), 200).await.status(), 200);
    assert_eq!(ended(&engine, "GET:/api/orders"), (0, 1, 0));
    let refused = ask_for(&layer, request(), 200).await;
    assert_eq!(field(&refused, "grpc-status"), "8");
}

#[tokio::test(start_paused = true)]
async fn a_call_lasts_until_its_head_or_its_body_or_until_its_client_goes() {
    let engine = with_flow("[]");
    let until_head = layer(&engine);
    let response = ask(&until_head, "/r").await;
    assert_eq!(ended(&engine, "GET:/r"), (0, 1, 0));
    drop(response);
    let until_body = until_head.clone().until_body_ends();
    let response = ask(&until_body, "/r").await;
    assert_eq!(ended(&engine, "GET:/r"), (1, 1, 0));
    assert_eq!(text(response).await, "done");
    assert_eq!(ended(&engine, "GET:/r"), (0, 2, 0));
    drop(ask(&until_body, "/r").await);
    assert_eq!(ended(&engine, "GET:/r"), (0, 3, 0));

    let hangs = service_fn(|_: Request<Empty<Bytes>>| async {
        sleep(3_600_000 * MS).await;
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let call = until_head.layer(hangs).oneshot(get("/r").body(Empty::new()).unwrap());
    tokio::time::timeout(50 * MS, call).await.unwrap_err();
    assert_eq!(ended(&engine, "GET:/r"), (0, 4, 0));

    let fails =
        service_fn(|_: Request<Empty<Bytes>>| async { Err::<Response<Empty<Bytes>>, _>("reset") });
    let call = until_head.layer(fails).oneshot(get("/r").body(Empty::new()).unwrap());
    assert_eq!(call.await.unwrap_err(), "reset");
    assert_eq!(ended(&engine, "GET:/r"), (0, 5, 1));
}

/// Pacing: the second request waits for its turn before the service sees it.
#[tokio::test(start_paused = true)]
async fn a_request_that_must_wait_is_held_back() {
    let engine = with_flow(
        r#"[{"resource": "GET:/r", "count": 4, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#,
    );
    let layer = layer(&engine);
    let started = engine.now();
    assert_eq!(ask(&layer, "/r").await.status(), 200);
    assert_eq!(ask(&layer, "/r").await.status(), 200);
    assert_eq!(engine.now().since(started), 250 * MS);
}
