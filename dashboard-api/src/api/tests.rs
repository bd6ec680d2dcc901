//! Every route, by `oneshot`: what comes back, and what is refused.

use std::{
    net::SocketAddr,
    sync::{Mutex, atomic::AtomicBool, atomic::Ordering},
};

use axum::{
    body::{Body, to_bytes},
    extract::ConnectInfo,
    http::{HeaderMap, Request, header},
};
use limiter::{MonotonicClock, Settings};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::*;

const FILTER: &str = "/api/v1/log-filter";

/// A log whose filter is any text without "bad" in it.
#[derive(Debug)]
struct FakeLog(Mutex<String>);

impl LogControl for FakeLog {
    fn filter(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn set_filter(&self, directives: &str) -> Result<(), String> {
        if directives.contains("bad") {
            return Err(format!("{directives:?} is no filter"));
        }
        *self.0.lock().unwrap() = directives.into();
        Ok(())
    }
}

struct Site {
    router: Router,
    ready: Arc<AtomicBool>,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    fn assert_problem(&self, status: u16, title: &str, detail: &str) {
        assert_eq!(self.header(header::CONTENT_TYPE), "application/problem+json", "{}", self.body);
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body, json!({"status": status, "title": title, "detail": detail}));
        assert_eq!(self.status, status);
    }
}

impl Site {
    fn new() -> Self {
        let engine = Arc::new(ClusterEngine::new(Settings::default()));
        let mut metrics = Registry::default();
        let clock = Arc::new(MonotonicClock::start());
        crate::register_engine(&mut metrics, Arc::clone(&engine), clock);
        let ready = Arc::new(AtomicBool::new(true));
        let is_ready = Arc::clone(&ready);
        let readiness = move || match is_ready.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("draining".into()),
        };
        let log = Arc::new(FakeLog(Mutex::new("info".into())));
        let api = Api { engine, metrics: Arc::new(metrics), readiness: Arc::new(readiness), log };
        Self { router: router(api), ready }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.into()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Puts a log filter as `peer`, asking for `host`.
    async fn put(&self, peer: Option<&str>, host: Option<&str>, body: impl Into<Body>) -> Answer {
        let mut request = Request::put(FILTER);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        let mut request = request.body(body.into()).unwrap();
        if let Some(peer) = peer {
            let peer: SocketAddr = peer.parse().unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        self.send(request).await
    }
}

#[tokio::test]
async fn alive_is_ok_also_when_not_ready() {
    let site = Site::new();
    for ready in [true, false] {
        site.ready.store(ready, Ordering::Relaxed);
        let answer = site.get("/healthz").await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"));
    }
}

#[tokio::test]
async fn not_ready_says_why_and_is_asked_anew_each_time() {
    let site = Site::new();
    let answer = site.get("/readyz").await;
    assert_eq!((answer.status, &*answer.body), (200, "ready"));
    site.ready.store(false, Ordering::Relaxed);
    let answer = site.get("/readyz").await;
    assert_eq!((answer.status, &*answer.body), (503, "draining"));
    assert_eq!(answer.header(header::CONTENT_TYPE), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn metrics_come_in_the_format_that_was_asked_for() {
    let site = Site::new();
    let plain = site.get("/metrics").await;
    let content_type = plain.header(header::CONTENT_TYPE);
    assert_eq!((plain.status, content_type), (200, "text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.body.contains("# TYPE tollgate_flow_requests_total counter\n"), "{}", plain.body);
    assert!(plain.body.contains("\ntollgate_rules_revision 0.0\n"), "{}", plain.body);

    // What Prometheus sends, shortened.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    let request = Request::get("/metrics").header(header::ACCEPT, accept);
    let open = site.send(request.body(Body::empty()).unwrap()).await;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!((open.status, open.header(header::CONTENT_TYPE)), (200, content_type));
    assert!(open.body.contains("# TYPE tollgate_flow_requests counter\n"), "{}", open.body);
    assert!(open.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn many_scrapes_at_once_are_all_answered_and_a_scraper_that_left_holds_up_none() {
    let site = Site::new();
    let scrape =
        || site.router.clone().oneshot(Request::get("/metrics").body(Body::empty()).unwrap());
    let mut scrapes = JoinSet::new();
    for _ in 0..20 {
        scrapes.spawn(scrape());
        scrapes.spawn(scrape()).abort();
    }
    let mut answered = 0;
    while let Some(scrape) = scrapes.join_next().await {
        match scrape {
            Ok(answer) => {
                assert_eq!(answer.unwrap().status(), StatusCode::OK);
                answered += 1;
            }
            Err(left) => assert!(left.is_cancelled()),
        }
    }
    assert_eq!(answered, 20);
}

#[tokio::test]
async fn the_machine_itself_changes_the_log_filter() {
    let site = Site::new();
    let hosts = ["localhost:8719", "127.0.0.1:8719", "[::1]:8719"];
    let peers = ["127.0.0.1:40000", "[::1]:40000", "[::ffff:127.0.0.1]:40000"];
    for (i, (peer, host)) in peers.into_iter().zip(hosts).enumerate() {
        let filter = format!("info,token_server=debug{i}");
        let answer = site.put(Some(peer), Some(host), format!(" {filter}\n")).await;
        assert_eq!((answer.status, &answer.body), (200, &filter));
        let answer = site.get(FILTER).await;
        assert_eq!((answer.status, &answer.body), (200, &filter));
        assert_eq!(answer.header(header::CONTENT_TYPE), "text/plain; charset=utf-8");
    }
}

#[tokio::test]
async fn nobody_else_does() {
    let site = Site::new();
    let loopback = Some("127.0.0.1:40000");
    let host = "the Host header must name localhost or a loopback address";
    for (peer, named, detail) in [
        (
            Some("192.0.2.7:40000"),
            Some("localhost"),
            "only the machine itself may do this, 192.0.2.7 is not",
        ),
        (None, Some("localhost"), "the peer's address is not known"),
        (loopback, Some("rebound.example:8719"), host),
        (loopback, None, host),
    ] {
        let answer = site.put(peer, named, "trace").await;
        answer.assert_problem(403, "Forbidden", detail);
    }
    let mut request = Request::put("http://rebound.example/api/v1/log-filter")
        .header(header::HOST, "localhost")
        .body(Body::from("trace"))
        .unwrap();
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>("127.0.0.1:1".parse().unwrap()));
    site.send(request).await.assert_problem(403, "Forbidden", host);
    assert_eq!(site.get(FILTER).await.body, "info");
}

#[tokio::test]
async fn a_bad_filter_is_refused_with_the_reason_and_the_old_one_stays() {
    let site = Site::new();
    let put = |body: Vec<u8>| site.put(Some("127.0.0.1:1"), Some("localhost"), body);
    put(b"bad\n".into()).await.assert_problem(400, "Bad Request", "\"bad\" is no filter");
    let answer = put(vec![0xff]).await;
    assert_eq!(
        (answer.status, answer.header(header::CONTENT_TYPE)),
        (400, "application/problem+json")
    );
    let answer = put(vec![b'a'; BODY_LEN_MAX + 1]).await;
    assert_eq!(
        (answer.status, answer.header(header::CONTENT_TYPE)),
        (413, "application/problem+json")
    );
    assert_eq!(put(vec![b'a'; BODY_LEN_MAX]).await.status, 200);
}

#[tokio::test]
async fn every_path_of_the_index_is_there_and_takes_its_methods_only() {
    let site = Site::new();
    let index: Value = serde_json::from_str(&site.get("/").await.body).unwrap();
    assert_eq!(index["rules"]["revision"], 0);
    let paths = index["paths"].as_array().unwrap();
    assert_eq!(paths.len(), PATHS.len());
    for path in paths {
        let (path, methods) = (path["path"].as_str().unwrap(), path["methods"].as_str().unwrap());
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let answer = site.send(request).await;
            if methods.split(", ").any(|m| m == method) {
                assert!(![404, 405].contains(&answer.status), "{method} {path}");
                continue;
            }
            let detail = format!("{path} takes no {method}; see the Allow header");
            answer.assert_problem(405, "Method Not Allowed", &detail);
            let allow: Vec<_> = answer.header(header::ALLOW).split(',').collect();
            assert!(methods.split(", ").all(|m| allow.contains(&m)), "{path}: {allow:?}");
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_that_says_what_is() {
    let detail = "there is no /no/such; / lists what there is";
    Site::new().get("/no/such?x=1").await.assert_problem(404, "Not Found", detail);
}
