//! Turns, tickets and the end, on a stopped clock.

use std::{
    convert::Infallible,
    future::{pending, ready},
    io,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use limiter::{
    Clock, Tick,
    local::LocalSettings,
    rule::{Contents, parse, parse_system},
};
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::{sync::lock, time::now};

const MS: Duration = Duration::from_millis(1);
/// Ten a second, evenly.
const PACED: &str =
    r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 500}]"#;

#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Tick {
        Tick::from_ms(1_700_000_040_000).plus(now().duration_since(self.0))
    }

    fn wall(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + self.now().since(Tick(0))
    }
}

fn engine(rules: &str) -> Engine {
    let engine = Engine::with_clock(LocalSettings::default(), Arc::new(RuntimeClock(now())));
    engine.local().load_flow(parse(rules, "test", "", Contents::Flow, false).unwrap().rules.flow);
    engine
}

fn deferral(rules: &str) -> Deferral {
    Deferral::new(engine(rules), "r", Settings::default())
}

/// Which calls were made, and when, to a hundredth of a second.
#[derive(Clone)]
struct Made(Instant, Arc<Mutex<Vec<(u32, u128)>>>);

impl Made {
    fn new() -> Self {
        Self(now(), Arc::default())
    }

    fn call(
        &self,
        number: u32,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static + use<> {
        let Self(start, made) = self.clone();
        async move {
            lock(&made).push((number, start.elapsed().as_millis() / 10));
            Ok(())
        }
    }

    fn all(&self) -> Vec<(u32, u128)> {
        lock(&self.1).clone()
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_made_in_order_at_the_rate_of_the_rule() {
    let (deferral, made) = (deferral(PACED), Made::new());
    let tickets: Vec<_> =
        (0..20).map(|number| deferral.defer(made.call(number)).unwrap().detach()).collect();
    assert_eq!(tickets.iter().map(|id| deferral.ahead(*id)).collect::<Vec<_>>(), {
        (0..20).map(Some).collect::<Vec<_>>()
    });
    // Longer than the rule itself would let anybody wait.
    sleep(2_500 * MS).await;
    let right: Vec<_> = (0..20).map(|number| (number, 10 * u128::from(number))).collect();
    assert_eq!(made.all(), right);
    assert_eq!((deferral.waiting(), deferral.ahead(tickets[0])), (0, None));
}

#[tokio::test(start_paused = true)]
async fn who_is_taken_back_leaves_his_turn_to_the_next() {
    let (deferral, made) = (deferral(PACED), Made::new());
    let mut tickets: Vec<_> =
        (0..6).map(|number| Some(deferral.defer(made.call(number)).unwrap())).collect();
    sleep(50 * MS).await;
    assert!(tickets[1].take().unwrap().cancel());
    drop(tickets[2].take());
    let id = tickets[4].as_ref().unwrap().id();
    assert!(deferral.cancel(id) && !deferral.cancel(id));
    assert!(!tickets[0].take().unwrap().cancel(), "it was made");
    assert_eq!(deferral.ahead(tickets[5].as_ref().unwrap().id()), Some(1));
    sleep(450 * MS).await;
    assert_eq!(made.all(), [(0, 0), (3, 10), (5, 20)]);
    // With nobody left, no turn is waited for or used.
    let number = deferral.defer(made.call(7)).unwrap().detach();
    assert_eq!(deferral.ahead(number), Some(0));
    sleep(50 * MS).await;
    assert_eq!(made.all().last(), Some(&(7, 50)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_waits_for_any_more_is_given_up() {
    let (deferral, made) = (deferral(PACED), Made::new());
    let first = deferral.defer(made.call(0)).unwrap().detach();
    let second = deferral.defer(made.call(1)).unwrap();
    sleep(50 * MS).await;
    assert_eq!(deferral.ahead(first), None);
    drop(second);
    sleep(500 * MS).await;
    let node = deferral.0.queue.node();
    assert_eq!((node.threads, node.total_success), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_refuses_is_asked_again() {
    let (deferral, made) = (deferral(r#"[{"resource": "r", "count": 2}]"#), Made::new());
    for number in 0..6 {
        deferral.defer(made.call(number)).unwrap().detach();
    }
    sleep(2_500 * MS).await;
    assert_eq!(made.all(), [(0, 0), (1, 0), (2, 100), (3, 100), (4, 200), (5, 200)]);
}

#[tokio::test(start_paused = true)]
async fn system_rules_look_at_requests_and_not_at_calls_that_are_made() {
    for (inbound, last) in [(true, 200), (false, 0)] {
        let (engine, made) = (engine("[]"), Made::new());
        let rules = parse_system(r#"[{"qps": 2}]"#, "test").unwrap().rules;
        engine.local().load_system(&rules);
        let deferral = Deferral::new(engine, "r", Settings { inbound, ..Settings::default() });
        for number in 0..6 {
            deferral.defer(made.call(number)).unwrap().detach();
        }
        sleep(2_500 * MS).await;
        assert_eq!(made.all().last(), Some(&(5, last)), "{inbound}");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_wait_as_may_and_a_place_is_free_when_one_has_gone() {
    let settings = Settings { waiting_max: 3, ..Settings::default() };
    let (deferral, made) = (Deferral::new(engine(PACED), "r", settings), Made::new());
    for number in 0..3 {
        deferral.defer(made.call(number)).unwrap().detach();
    }
    assert_eq!(deferral.defer(made.call(3)).unwrap_err(), NotDeferred::Full);
    sleep(50 * MS).await;
    deferral.defer(made.call(4)).unwrap().detach();
    assert_eq!(deferral.defer(made.call(5)).unwrap_err(), NotDeferred::Full);
    let none = Settings { waiting_max: 0, ..settings };
    let none = Deferral::new(engine(PACED), "r", none);
    assert_eq!(none.defer(made.call(6)).unwrap_err(), NotDeferred::Full);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_in_progress_while_it_runs_and_fails_by_err_and_by_panic() {
    let deferral = deferral("[]");
    let slow = async {
        sleep(100 * MS).await;
        Err::<(), _>("too late")
    };
    deferral.defer(slow).unwrap().detach();
    sleep(50 * MS).await;
    assert_eq!(deferral.0.queue.node().threads, 1);
    let panics = async {
        if true {
            panic!("of the call");
        }
        Ok::<_, ()>(())
    };
    deferral.defer(panics).unwrap().detach();
    deferral.defer(async { Ok::<_, ()>(()) }).unwrap().detach();
    sleep(100 * MS).await;
    let node = deferral.0.queue.node();
    assert_eq!((node.threads, node.total_success, node.total_exception), (0, 3, 2));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_waits_is_made_at_the_same_rate() {
    let (deferral, made, start) = (deferral(PACED), Made::new(), now());
    for number in 0..5 {
        deferral.defer(made.call(number)).unwrap().detach();
    }
    let (drained, refused) = tokio::join!(deferral.shutdown(Duration::from_secs(5)), async {
        sleep(150 * MS).await;
        deferral.defer(made.call(9)).unwrap_err()
    });
    assert_eq!((drained, refused), (Drained::default(), NotDeferred::Closed));
    assert_eq!(made.all(), [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]);
    assert!(start.elapsed() < 410 * MS, "{:?}", start.elapsed());
    assert_eq!(deferral.shutdown(Duration::ZERO).await, Drained::default(), "again");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_made_by_the_deadline_is_reported_and_never_made() {
    let (deferral, made) = (deferral(PACED), Made::new());
    deferral.defer(async { pending::<Result<(), ()>>().await }).unwrap().detach();
    for number in 1..5 {
        deferral.defer(made.call(number)).unwrap().detach();
    }
    let drained = deferral.shutdown(250 * MS).await;
    assert_eq!(drained, Drained { left: vec![3, 4], running: 1 });
    sleep(Duration::from_secs(60)).await;
    assert_eq!(made.all(), [(1, 10), (2, 20)]);
    assert_eq!(deferral.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_the_last_clone_goes_what_waits() {
    let (deferral, made) = (deferral(PACED), Made::new());
    let held = Arc::new(());
    for number in 0..3 {
        let (held, call) = (Arc::clone(&held), made.call(number));
        let call = async move {
            let _held = held;
            call.await
        };
        deferral.defer(call).unwrap().detach();
    }
    sleep(50 * MS).await;
    drop(deferral);
    sleep(500 * MS).await;
    assert_eq!((made.all(), Arc::strong_count(&held)), (vec![(0, 0)], 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_call_is_made_once_or_taken_back() {
    let settings = Settings { waiting_max: 2_400, ..Settings::default() };
    let deferral = Deferral::new(engine("[]"), "r", settings);
    let made: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let (deferral, made) = (deferral.clone(), Arc::clone(&made));
        callers.spawn(async move {
            let mut random = fastrand::Rng::with_seed(caller);
            let mut taken_back = Vec::new();
            for number in (0..300).map(|number| 300 * caller + number) {
                let made = Arc::clone(&made);
                let call = async move {
                    lock(&made).push(number);
                    Ok::<_, ()>(())
                };
                let ticket = deferral.defer(call).unwrap();
                if random.bool() {
                    tokio::task::yield_now().await;
                }
                if random.bool() {
                    ticket.detach();
                } else if ticket.cancel() {
                    taken_back.push(number);
                }
            }
            taken_back
        });
    }
    let taken_back = callers.join_all().await.concat();
    assert_eq!(deferral.shutdown(Duration::from_secs(60)).await, Drained::default());
    let made = lock(&made).clone();
    assert!(!taken_back.is_empty() && !made.is_empty());
    let mut all = [taken_back, made].concat();
    all.sort_unstable();
    assert_eq!(all, (0..2_400).collect::<Vec<_>>());
}

/// A body that is whole, or breaks off.
#[derive(Debug)]
struct Upload(Option<Bytes>);

impl From<Bytes> for Upload {
    fn from(bytes: Bytes) -> Self {
        Self(Some(bytes))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let bytes = self.0.replace(Bytes::new());
        Poll::Ready(match bytes {
            None => Some(Err(io::ErrorKind::ConnectionReset.into())),
            Some(bytes) if bytes.is_empty() => None,
            Some(bytes) => Some(Ok(Frame::data(bytes))),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_no_write_and_uses_no_place() {
    let deferral = deferral(PACED);
    let service =
        service_fn(|_: http::Request<Upload>| ready(Ok::<_, Infallible>(http::Response::new(()))));
    let service = DeferralLayer::new(deferral.clone()).layer(service);
    let write = async |body| {
        let request = http::Request::post("/").body(Upload(body)).unwrap();
        service.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(write(None).await, 200, "who may go reads his body himself");
    assert_eq!(write(None).await, 400);
    assert_eq!(write(Some(Bytes::from_static(b"whole"))).await, 202);
    assert_eq!(deferral.waiting(), 1);
}
