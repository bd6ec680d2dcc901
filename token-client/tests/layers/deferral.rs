//! Writes to a real server that come too fast.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{any, delete, post},
};
use limiter::{
    Tick,
    local::{Seen, Slot},
};
use reqwest::Response;
use token_client::{
    deferral::{Deferral, DeferralLayer, Drained, Settings},
    limiter,
};
use tokio::{task::JoinSet, time::Instant, time::sleep};

use super::kit::{MS, client, engine, now, serve};

/// Ten writes a second, evenly.
const PACED: &str =
    r#"[{"resource": "orders", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#;

/// What was written, and when.
type Made = Arc<Mutex<Vec<(String, Instant)>>>;

struct Shop {
    url: String,
    client: reqwest::Client,
    deferral: Deferral,
    made: Made,
    _serving: tokio_util::task::AbortOnDropHandle<()>,
}

impl Shop {
    async fn open(rules: &str, settings: Settings) -> Self {
        let deferral = Deferral::new(engine(rules), "orders", settings);
        let made = Made::default();
        let write = async |State(made): State<Made>, body: String| {
            made.lock().unwrap().push((body, now()));
            "made"
        };
        let tickets = deferral.clone();
        let cancel = async move |Path(ticket): Path<u64>| {
            if tickets.cancel(ticket) { StatusCode::NO_CONTENT } else { StatusCode::GONE }
        };
        let router = Router::new()
            .route("/orders", post(write).get(async || "read"))
            .layer(DeferralLayer::new(deferral.clone()))
            .route("/tickets/{ticket}", delete(cancel))
            .fallback(any(StatusCode::NOT_FOUND))
            .with_state(Arc::clone(&made));
        let (addr, serving) = serve(router).await;
        Self { url: format!("http://{addr}"), client: client(), deferral, made, _serving: serving }
    }

    fn write(&self, body: &str) -> impl Future<Output = Response> + Send + 'static + use<> {
        let request = self.client.post(format!("{}/orders", self.url)).body(body.to_owned());
        async move { request.send().await.unwrap() }
    }

    /// Bodies, and milliseconds since the first.
    fn made(&self) -> Vec<(String, u128)> {
        let made = self.made.lock().unwrap();
        let start = made[0].1;
        made.iter().map(|(body, at)| (body.clone(), (*at - start).as_millis())).collect()
    }
}

fn ticket(answer: &Response) -> Option<u64> {
    answer.headers().get("deferral-ticket")?.to_str().ok()?.parse().ok()
}

/// Until nobody waits and the last is made.
async fn settle(shop: &Shop) {
    while shop.deferral.waiting() > 0 {
        sleep(MS).await;
    }
    sleep(10 * MS).await;
}

#[tokio::test(start_paused = true)]
async fn writes_over_the_limit_are_answered_202_and_made_whole_at_the_rate_of_the_rule() {
    let shop = Shop::open(PACED, Settings::default()).await;
    let first = shop.write("0").await;
    assert_eq!((first.status(), ticket(&first)), (StatusCode::OK, None));
    assert_eq!(first.text().await.unwrap(), "made");
    let mut writes = JoinSet::new();
    for number in 1..=8 {
        writes.spawn(shop.write(&number.to_string()));
        sleep(2 * MS).await;
    }
    let read = shop.client.get(format!("{}/orders", shop.url)).send().await.unwrap();
    assert_eq!(read.text().await.unwrap(), "read", "reads are not limited");
    let mut tickets: Vec<_> = writes
        .join_all()
        .await
        .iter()
        .map(|answer| {
            assert_eq!(answer.status(), StatusCode::ACCEPTED);
            ticket(answer).unwrap()
        })
        .collect();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..8).collect::<Vec<_>>());
    settle(&shop).await;
    let made = shop.made();
    let mut bodies: Vec<_> = made.iter().map(|(body, _)| &**body).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    for (place, (_, at)) in made.iter().enumerate() {
        let due = 100 * place as u128;
        assert!((due.saturating_sub(5)..due + 10).contains(at), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_turn_comes_soon_is_made_and_answered() {
    let patience = Duration::from_millis(101);
    let shop = Shop::open(PACED, Settings { patience, ..Settings::default() }).await;
    for body in ["0", "1", "2"] {
        assert_eq!(shop.write(body).await.text().await.unwrap(), "made");
    }
    let made = shop.made();
    assert!((200..210).contains(&made[2].1), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_and_a_long_body_are_answered_429_and_say_when_to_come_back() {
    let retry_after = Duration::from_millis(2_500);
    let settings = Settings { waiting_max: 2, body_max: 10, retry_after, ..Settings::default() };
    let shop = Shop::open(PACED, settings).await;
    let refused = |answer: &Response| {
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.headers()["retry-after"], "3");
        assert_eq!(ticket(answer), None);
    };
    assert_eq!(shop.write("longer than what may wait").await.status(), StatusCode::OK);
    refused(&shop.write("eleven byte").await);
    for _ in 0..2 {
        assert_eq!(shop.write("ten bytes.").await.status(), StatusCode::ACCEPTED);
    }
    refused(&shop.write("3").await);
    settle(&shop).await;
    assert_eq!(shop.made().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_takes_his_write_back_leaves_the_queue() {
    let shop = Shop::open(PACED, Settings::default()).await;
    let mut tickets = Vec::new();
    for body in ["0", "1", "2", "3"] {
        tickets.push(ticket(&shop.write(body).await));
    }
    let cancel = async |ticket: u64| {
        let request = shop.client.delete(format!("{}/tickets/{ticket}", shop.url));
        request.send().await.unwrap().status()
    };
    assert_eq!(cancel(tickets[2].unwrap()).await, StatusCode::NO_CONTENT);
    assert_eq!(cancel(tickets[2].unwrap()).await, StatusCode::GONE);
    settle(&shop).await;
    let bodies: Vec<_> = shop.made().into_iter().map(|(body, _)| body).collect();
    assert_eq!(bodies, ["0", "1", "3"]);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_waits_is_made_and_what_would_have_to_wait_is_answered_503() {
    let shop = Shop::open(PACED, Settings::default()).await;
    for body in ["0", "1", "2"] {
        shop.write(body).await;
    }
    let (drained, late) =
        tokio::join!(shop.deferral.shutdown(Duration::from_secs(10)), shop.write("late"));
    assert_eq!(drained, Drained::default());
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(shop.made().len(), 3);
}

/// Refuses everything.
#[derive(Debug)]
struct Closed;

impl Slot for Closed {
    fn enter(&self, _: Tick, _: &Seen<'_>) -> Result<(), Cow<'static, str>> {
        Err("closed on Sundays".into())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_does_not_wait() {
    let engine = engine("[]");
    engine.local().insert_slot(0, Arc::new(Closed));
    let deferral = Deferral::new(engine, "orders", Settings::default());
    let router =
        Router::new().route("/", post(async || "made")).layer(DeferralLayer::new(deferral.clone()));
    let (addr, _serving) = serve(router).await;
    let answer = client().post(format!("http://{addr}")).send().await.unwrap();
    assert_eq!((answer.status(), deferral.waiting()), (StatusCode::TOO_MANY_REQUESTS, 0));
}
