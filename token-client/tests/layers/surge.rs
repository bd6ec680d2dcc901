//! A tenfold surge on a service whose database has ten connections: what becomes of it without a
//! guard, and with one.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Request};
use token_client::Engine;
use tower::ServiceExt;

use super::kit::{MS, engine};

#[path = "../../examples/surge/load.rs"]
mod load;
#[path = "../../examples/surge/service.rs"]
mod service;

use self::{
    load::{Call, SECONDS, surge, well},
    service::{POOL_TIMEOUT, Pool, QUERY, RULES, router},
};

async fn run(engine: Option<Engine>) -> (Vec<Call>, Arc<Pool>) {
    let pool = Arc::new(Pool::new());
    let router = router(Arc::clone(&pool), engine);
    let calls = surge(|path| {
        let answer = router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap());
        async move { answer.await.unwrap().status().as_u16() }
    })
    .await;
    (calls, pool)
}

/// Calls of a second and a kind.
fn of(calls: &[Call], second: u32, is_probe: bool) -> impl Iterator<Item = &Call> {
    calls.iter().filter(move |call| call.second == second && call.is_probe == is_probe)
}

#[tokio::test(start_paused = true)]
async fn without_a_guard_the_pool_is_exhausted_and_everybody_waits_for_it() {
    let (calls, pool) = run(None).await;
    let (served, p99) = well(of(&calls, 0, false));
    assert_eq!(served, of(&calls, 0, false).count(), "it can do what it is for");
    assert!(p99 < QUERY + 5 * MS, "{p99:?}");
    let last = SECONDS - 1;
    assert!(pool.most_waiting() > 300, "{}", pool.most_waiting());
    let (served, p99) = well(of(&calls, last, false));
    assert!(p99 > POOL_TIMEOUT, "{p99:?}");
    assert!(served * 4 < of(&calls, last, false).count(), "most orders fail, after a second");
    let (probes, _) = well(of(&calls, last, true));
    assert!(probes < 5, "{probes} of 10 probes, which nobody sees but the one who restarts it");
}

#[tokio::test(start_paused = true)]
async fn with_a_rule_on_calls_in_progress_the_pool_stays_usable() {
    let (calls, pool) = run(Some(engine(RULES))).await;
    assert_eq!(pool.most_orders(), 8, "exactly what the rule allows");
    assert_eq!(pool.most_waiting(), 0, "nobody ever waited for a connection");
    let (_, p99) = well(calls.iter().filter(|call| !call.is_probe));
    assert!(p99 <= QUERY + 5 * MS, "{p99:?}");
    let probes: Vec<_> = calls.iter().filter(|call| call.is_probe).collect();
    let (served, p99) = well(probes.iter().copied());
    assert_eq!((served, p99 <= QUERY + 5 * MS), (probes.len(), true), "{p99:?}");
    for second in 2..SECONDS {
        let (served, _) = well(of(&calls, second, false));
        // Eight each 100 ms, and up to two milliseconds until the next one comes.
        assert!((76..=80).contains(&served), "{served} in second {second}");
        let refused = of(&calls, second, false).filter(|call| call.status == 429);
        let slowest = refused.map(|call| call.took).max();
        assert_eq!(slowest, Some(Duration::ZERO), "a refusal costs nothing");
    }
    let others = calls.iter().filter(|call| ![200, 429].contains(&call.status)).count();
    assert_eq!(others, 0);
}
