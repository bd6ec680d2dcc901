//! A limit that learns, before a server of a size that nobody told it.

use std::{
    convert::Infallible,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::{Request, Response};
use limiter::adaptive::{
    AdaptiveLimiter, Aimd, AimdSettings, Bounds, Limit, Shares, Vegas, Windowed, WindowedSettings,
};
use token_client::{
    adaptive::{AdaptiveError, AdaptiveLayer},
    limiter,
};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower::{Layer, ServiceExt, service_fn};

use super::kit::{MS, clock};

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

fn answer(status: u16) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

/// A limit of ten that falls by a tenth with each dropped call.
fn ten() -> Aimd {
    let bounds = Bounds { min: 1, initial: 10, max: 10 };
    Aimd::new(AimdSettings { bounds, ..AimdSettings::default() }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_says_of_the_server() {
    // Each falls to 9 if the call was dropped; a limit at its bound does not rise.
    let limits = async |status: u16, grpc: &'static str| {
        let limiter = AdaptiveLimiter::new(ten());
        let layer = AdaptiveLayer::new(limiter.clone()).clock(clock());
        let service = layer.layer(service_fn(move |_: Request<()>| {
            let answer = Response::builder().status(status).header("grpc-status", grpc);
            ready(Ok::<_, Infallible>(answer.body(()).unwrap()))
        }));
        service.oneshot(get("/")).await.unwrap();
        assert_eq!(limiter.in_flight(), 0);
        limiter.limit()
    };
    for status in [429, 503, 504] {
        assert_eq!(limits(status, "").await, 9, "{status}");
    }
    for status in [200, 302, 404, 500, 501, 502] {
        assert_eq!(limits(status, "").await, 10, "{status}");
    }
    for (code, limit) in [("0", 10), ("4", 9), ("5", 10), ("8", 9), ("13", 10), ("14", 9)] {
        assert_eq!(limits(200, code).await, limit, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_and_none_in_time_are_dropped_and_one_that_was_given_up_is_nothing() {
    let limiter = AdaptiveLimiter::new(ten());
    let layer = AdaptiveLayer::new(limiter.clone()).clock(clock()).timeout(500 * MS);
    let failing = layer.layer(service_fn(async |_: Request<()>| Err::<Response<()>, _>("reset")));
    let failed = failing.oneshot(get("/")).await.unwrap_err();
    assert_eq!((failed, limiter.limit()), (AdaptiveError::Failed("reset"), 9));

    let hanging = layer.layer(service_fn(async |_: Request<()>| {
        sleep(Duration::from_secs(30)).await;
        Ok::<_, Infallible>(answer(200))
    }));
    let given_up = timeout(400 * MS, hanging.clone().oneshot(get("/"))).await;
    assert_eq!((given_up.is_err(), limiter.in_flight(), limiter.limit()), (true, 0, 9));
    let late = hanging.oneshot(get("/")).await.unwrap_err();
    assert_eq!((late, limiter.limit()), (AdaptiveError::TimedOut(500 * MS), 8));
    assert_eq!(limiter.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_those_go_who_have_a_share_left() {
    let shares = Shares::new([("live", 50)]).unwrap();
    let limiter = AdaptiveLimiter::with_shares(ten(), shares);
    let layer = AdaptiveLayer::new(limiter.clone())
        .share(|request| request.headers().get("x-tier")?.to_str().ok());
    let service = layer.layer(service_fn(async |_: Request<()>| {
        sleep(100 * MS).await;
        Ok::<_, Infallible>(answer(200))
    }));
    let mut calls = JoinSet::new();
    for tier in ["batch", "live"] {
        for _ in 0..20 {
            let request = Request::get("/").header("x-tier", tier).body(()).unwrap();
            let call = service.clone().oneshot(request);
            calls.spawn(async move { (tier, call.await.is_ok()) });
        }
        tokio::task::yield_now().await;
    }
    let went = calls.join_all().await;
    let count = |of| went.iter().filter(|(tier, well)| *tier == of && *well).count();
    assert_eq!((count("batch"), count("live")), (10, 5));
    assert_eq!(limiter.in_flight(), 0);
}

/// A server of eight workers and a queue, 20 ms a call; 64 callers who come back at once. The most
/// that were at the server together in the last second, and its calls of that second.
async fn settled<L: Limit + Send + 'static>(limit: L) -> (usize, usize) {
    let workers = Arc::new(Semaphore::new(8));
    let (inside, most, served) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let server = {
        let (inside, most, served) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&served));
        service_fn(move |_: Request<()>| {
            let workers = Arc::clone(&workers);
            let (inside, most, served) =
                (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&served));
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let _worker = workers.acquire().await.unwrap();
                sleep(20 * MS).await;
                inside.fetch_sub(1, Ordering::Relaxed);
                served.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(answer(200))
            }
        })
    };
    let limited = AdaptiveLayer::new(AdaptiveLimiter::new(limit)).clock(clock()).layer(server);
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let limited = limited.clone();
        callers.spawn(async move {
            loop {
                if limited.clone().oneshot(get("/")).await.is_err() {
                    sleep((15 + caller % 7) * MS).await;
                }
            }
        });
    }
    sleep(Duration::from_secs(9)).await;
    most.store(0, Ordering::Relaxed);
    served.store(0, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    (most.load(Ordering::Relaxed), served.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_limit_finds_how_many_the_server_can_take() {
    let bounds = Bounds { min: 1, initial: 20, max: 200 };
    let window = WindowedSettings { min: 100 * MS, max: 100 * MS, ..WindowedSettings::default() };
    let aimd = AimdSettings { bounds, timeout: 40 * MS, ..AimdSettings::default() };
    let limits: [(&str, Box<dyn Limit + Send>); 2] = [
        ("AIMD", Box::new(Windowed::new(Aimd::new(aimd).unwrap(), window).unwrap())),
        ("Vegas", Box::new(Windowed::new(Vegas::default(), window).unwrap())),
    ];
    for (name, limit) in limits {
        let (most, served) = settled(limit).await;
        assert!(most < 40, "{name}: {most} together, of 64 who would");
        assert!((380..=400).contains(&served), "{name}: {served} of 400 a second");
    }
}
