//! Calls that wait for their turn.

use std::{future::pending, time::Duration};

use limiter::local::BlockKind;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{ended, node, with_flow};
use crate::{Engine, NotNow, time::now};

const MS: Duration = Duration::from_millis(1);
/// A call each 100 ms, and at most ten wait.
const PACED: &str =
    r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#;

#[track_caller]
fn assert_near(took: Duration, ms: u32) {
    // The runtime's timers are exact to a millisecond.
    assert!((ms * MS..=(ms + 1) * MS).contains(&took), "{took:?}, not {ms} ms");
}

#[tokio::test(start_paused = true)]
async fn paced_calls_go_one_after_the_other_in_the_order_in_which_they_came() {
    let engine = with_flow(PACED);
    let (mut calls, start) = (JoinSet::new(), now());
    for number in 0..12 {
        let engine = engine.clone();
        calls.spawn(async move {
            let guard = engine.entry("r").acquire().await;
            (number, guard.map(drop), start.elapsed())
        });
    }
    let mut done = Vec::new();
    while let Some(call) = calls.join_next().await {
        done.push(call.unwrap());
    }
    // The last one would have waited for 1.1 s, and heard so at once.
    let refused = done.iter().position(|(number, ..)| *number == 11).unwrap();
    let (_, refused, took) = done.remove(refused);
    assert_eq!(refused.unwrap_err().kind(), BlockKind::Flow);
    assert_near(took, 0);
    for (place, (number, passed, took)) in (0..11).zip(done) {
        assert_eq!((number, passed), (place, Ok(())));
        assert_near(took, place * 100);
    }
    assert_eq!(ended(&engine, "r"), (0, 11, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_away_while_it_waits_is_not_in_progress_and_its_turn_stays_used() {
    let engine = with_flow(PACED);
    let (first, start) = (engine.entry("r").acquire().await.unwrap(), now());
    timeout(50 * MS, engine.entry("r").acquire()).await.unwrap_err();
    assert_eq!(node(&engine, "r").threads, 1);
    drop(first);
    assert_eq!(node(&engine, "r").threads, 0);
    let third = engine.entry("r").acquire().await.unwrap();
    assert_near(start.elapsed(), 200);
    drop(third);
    assert_eq!(ended(&engine, "r"), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_how_long_it_would_have_been() {
    let engine = with_flow(PACED);
    let first = engine.entry("r").try_acquire().unwrap();
    assert_eq!(engine.entry("r").try_acquire().unwrap_err(), NotNow::MustWait(100 * MS));
    assert_eq!(engine.entry("r").try_acquire().unwrap_err(), NotNow::MustWait(200 * MS));
    assert_eq!(node(&engine, "r").threads, 1);
    drop(first);
    for _ in 0..8 {
        assert!(matches!(engine.entry("r").try_acquire(), Err(NotNow::MustWait(_))));
    }
    let refused = engine.entry("r").try_acquire().unwrap_err();
    assert_eq!(refused.to_string(), "flow rule of r: 10 calls per second");
    assert_eq!(ended(&engine, "r"), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_prioritized_call_borrows_from_the_next_half_second_and_waits_for_it() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    drop(engine.entry("r").acquire().await.unwrap());
    sleep(700 * MS).await;
    let start = now();
    engine.entry("r").acquire().await.unwrap_err();
    let borrowed = engine.entry("r").prioritized().acquire().await.unwrap();
    assert_near(start.elapsed(), 300);
    assert_eq!(node(&engine, "r").threads, 1);
    drop(borrowed);
    assert_eq!(node(&engine, "r").threads, 0);
}

#[tokio::test(start_paused = true)]
async fn rules_one_behind_the_other_make_a_call_wait_for_each() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000},
            {"resource": "r", "count": 2, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#,
    );
    let start = now();
    drop(engine.entry("r").acquire().await.unwrap());
    drop(engine.entry("r").acquire().await.unwrap());
    assert_near(start.elapsed(), 500);
}

/// Makes a call that never ends by itself.
async fn hang(engine: Engine) {
    let forever = pending::<Result<(), ()>>();
    engine.entry("r").run(forever).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tasks_that_are_aborted_leave_all_room_behind_them() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 3, "grade": 0},
            {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#,
    );
    for _ in 0..3 {
        let mut calls = JoinSet::new();
        for _ in 0..3 {
            calls.spawn(hang(engine.clone()));
        }
        // The first is made, the others wait.
        sleep(50 * MS).await;
        assert_eq!(node(&engine, "r").threads, 1);
        calls.shutdown().await;
        assert_eq!(node(&engine, "r").threads, 0);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(ended(&engine, "r"), (0, 3, 0));
}
