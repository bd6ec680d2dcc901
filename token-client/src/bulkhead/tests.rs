//! Full, waiting, hanging and given up.

use std::{sync::mpsc, thread, time::Duration};

use tokio::{
    sync::{Barrier, oneshot},
    task::{JoinSet, yield_now},
    time::sleep,
};
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::{sync::join_all, time::now};

const S: Duration = Duration::from_secs(1);

fn filled(running: usize, waiting: usize) -> Filled {
    Filled { running, waiting }
}

#[tokio::test(start_paused = true)]
async fn workers_run_the_queue_waits_in_order_and_the_rest_is_refused_at_once() {
    let bulkhead = Bulkhead::new(2, 3);
    let (mut calls, start) = (JoinSet::new(), now());
    for call in 0..9 {
        let bulkhead = bulkhead.clone();
        calls.spawn(async move {
            let result = bulkhead.run(async { sleep(S).await }).await;
            (call, result, start.elapsed().as_secs())
        });
        yield_now().await;
    }
    assert_eq!(bulkhead.filled(), filled(2, 3));
    let mut ended = calls.join_all().await;
    ended.sort_by_key(|(call, ..)| *call);
    let refused = |call| (call, Err(Refused::Full), 0);
    let right = [(0, Ok(()), 1), (1, Ok(()), 1), (2, Ok(()), 2), (3, Ok(()), 2), (4, Ok(()), 3)];
    assert_eq!(ended, [&right[..], &[5, 6, 7, 8].map(refused)].concat());
    assert_eq!((bulkhead.filled(), bulkhead.refused()), (filled(0, 0), 4));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_queue_or_the_worker() {
    let bulkhead = Bulkhead::new(1, 1);
    let mut running = Box::pin(bulkhead.run(sleep(30 * S)));
    let mut waiting = Box::pin(bulkhead.run(sleep(30 * S)));
    tokio::select! { biased;
        _ = &mut running => panic!("it hangs"),
        _ = &mut waiting => panic!("it waits"),
        () = yield_now() => {}
    }
    assert_eq!(bulkhead.filled(), filled(1, 1));
    assert_eq!(bulkhead.run(async {}).await, Err(Refused::Full));
    drop(waiting);
    assert_eq!(bulkhead.filled(), filled(1, 0));
    drop(running);
    assert_eq!(bulkhead.run(async { 7 }).await, Ok(7));
}

#[tokio::test]
async fn nothing_and_everything_are_sizes() {
    assert_eq!(Bulkhead::new(0, 9).run(async {}).await, Err(Refused::Full));
    assert_eq!(Bulkhead::new(0, 9).run_blocking(|| ()).await, Err(Refused::Full));
    assert_eq!(Bulkhead::new(1, 0).run(async {}).await, Ok(()));
    assert_eq!(Bulkhead::new(usize::MAX, usize::MAX).run(async {}).await, Ok(()));
}

/// The test's only thread goes on while the dependency blocks all of the bulkhead's.
#[tokio::test]
async fn a_dependency_that_blocks_its_threads_blocks_nobody_else() {
    let bulkhead = Bulkhead::with_threads("hangs", 1, 2, 1).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (started, starts) = oneshot::channel();
    let mut calls = JoinSet::new();
    let hanging = bulkhead.clone();
    calls.spawn(async move {
        let call = async move {
            started.send(thread::current().name().map(str::to_owned)).unwrap();
            // A client that was said to be async.
            released.recv().unwrap_err();
        };
        hanging.run(call).await
    });
    assert_eq!(starts.await.unwrap().as_deref(), Some("hangs"));
    for _ in 0..2 {
        let hanging = bulkhead.clone();
        calls.spawn(async move { hanging.run(async {}).await });
    }
    while bulkhead.filled() != filled(2, 1) {
        yield_now().await;
    }
    assert_eq!(bulkhead.run(async {}).await, Err(Refused::Full));
    // Another dependency on this thread, as ever.
    assert_eq!(Bulkhead::new(1, 0).run(async { 7 }).await, Ok(7));
    drop(release);
    assert_eq!(calls.join_all().await, [Ok(()); 3]);
    assert_eq!(bulkhead.filled(), filled(0, 0));
}

#[tokio::test]
async fn blocking_calls_have_a_thread_each_and_keep_their_worker_to_the_end() {
    for bulkhead in [Bulkhead::new(2, 0), Bulkhead::with_threads("own", 1, 2, 0).unwrap()] {
        let (started, mut starts) = tokio::sync::mpsc::channel(2);
        let mut releases = Vec::new();
        let mut calls = JoinSet::new();
        for _ in 0..2 {
            let (release, released) = mpsc::channel::<()>();
            releases.push(release);
            let (bulkhead, started) = (bulkhead.clone(), started.clone());
            calls.spawn(async move {
                let call = move || {
                    started.blocking_send(thread::current().id()).unwrap();
                    released.recv().unwrap_err();
                };
                bulkhead.run_blocking(call).await
            });
        }
        let threads = (starts.recv().await.unwrap(), starts.recv().await.unwrap());
        assert_ne!(threads.0, threads.1);
        assert_eq!(bulkhead.run_blocking(|| ()).await, Err(Refused::Full));
        // Whoever asked is gone; the threads are not.
        calls.shutdown().await;
        assert_eq!(bulkhead.filled(), filled(2, 0));
        assert_eq!(bulkhead.run_blocking(|| ()).await, Err(Refused::Full));
        drop(releases);
        while bulkhead.filled() != filled(0, 0) {
            yield_now().await;
        }
        assert_eq!(bulkhead.run_blocking(|| 7).await, Ok(7));
    }
}

#[tokio::test]
async fn a_panic_reaches_its_caller_and_frees_the_worker() {
    for bulkhead in [Bulkhead::new(1, 0), Bulkhead::with_threads("own", 1, 1, 0).unwrap()] {
        let mut calls = JoinSet::new();
        let (one, two) = (bulkhead.clone(), bulkhead.clone());
        calls.spawn(async move { one.run(async { panic!("of the call") }).await });
        assert!(calls.join_next().await.unwrap().unwrap_err().is_panic());
        calls.spawn(async move { two.run_blocking(|| panic!("of the call")).await });
        assert!(calls.join_next().await.unwrap().unwrap_err().is_panic());
        assert_eq!(bulkhead.run(async { 7 }).await, Ok(7));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_keeps_its_workers_and_no_others() {
    #[derive(Clone)]
    struct NeverReady;

    impl tower_service::Service<u32> for NeverReady {
        type Response = u32;
        type Error = ();
        type Future = std::future::Ready<Result<u32, ()>>;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), ()>> {
            std::task::Poll::Pending
        }

        fn call(&mut self, _: u32) -> Self::Future {
            panic!("it is not ready")
        }
    }

    let hanging = BulkheadLayer::new(Bulkhead::new(1, 0)).layer(NeverReady);
    tokio::select! { biased;
        _ = hanging.clone().oneshot(1) => panic!("it is not ready"),
        refused = hanging.clone().oneshot(2) => {
            assert_eq!(refused, Err(BulkheadError::Refused(Refused::Full)));
        }
    }
    let failing = service_fn(async |n: u32| if n == 0 { Err("zero") } else { Ok(n) });
    let failing = BulkheadLayer::new(Bulkhead::new(1, 0)).layer(failing);
    assert_eq!(failing.clone().oneshot(7).await, Ok(7));
    assert_eq!(failing.oneshot(0).await, Err(BulkheadError::Failed("zero")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_run_than_there_are_workers_whoever_gives_up() {
    for bulkhead in [Bulkhead::new(3, 5), Bulkhead::with_threads("own", 2, 3, 5).unwrap()] {
        let running = Arc::new(AtomicU64::new(0));
        let most = Arc::new(AtomicU64::new(0));
        let all_run = Arc::new(Barrier::new(3));
        let together = (0..3).map(|_| {
            let (running, most, all_run) = (running.clone(), most.clone(), all_run.clone());
            bulkhead.run(async move {
                let _running = Running::new(running, &most);
                all_run.wait().await;
            })
        });
        assert_eq!(join_all(together).await, [Ok(()); 3]);
        let mut callers = JoinSet::new();
        for caller in 0..16 {
            let (bulkhead, running, most) = (bulkhead.clone(), running.clone(), most.clone());
            callers.spawn(async move {
                let mut random = fastrand::Rng::with_seed(caller);
                let mut full = 0;
                for _ in 0..200 {
                    let (running, most, yields) = (running.clone(), most.clone(), random.u8(..4));
                    let call = bulkhead.run(async move {
                        let _running = Running::new(running, &most);
                        for _ in 0..yields {
                            yield_now().await;
                        }
                    });
                    let gives_up = async {
                        for _ in 0..random.u8(1..8) {
                            yield_now().await;
                        }
                    };
                    tokio::select! {
                        result = call => full += u64::from(result == Err(Refused::Full)),
                        () = gives_up => {}
                    }
                }
                full
            });
        }
        let full: u64 = callers.join_all().await.into_iter().sum();
        while bulkhead.filled() != filled(0, 0) {
            yield_now().await;
        }
        assert_eq!((most.load(Ordering::Relaxed), full), (3, bulkhead.refused()));
        assert_eq!(bulkhead.run(async { 7 }).await, Ok(7));
    }
}

/// Counts one more that runs, until it is dropped.
struct Running(Arc<AtomicU64>);

impl Running {
    fn new(count: Arc<AtomicU64>, most: &AtomicU64) -> Self {
        most.fetch_max(count.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time from start to end of calls that share their handlers with those of a dependency that hangs:
/// 64 handlers, 200 calls a second of 10 ms each, and 20 a second that hang for 30 s.
async fn longest_but_one_percent(dependency: Option<Bulkhead>, hangs: bool) -> Duration {
    let handlers = Arc::new(Semaphore::new(64));
    let (mut others, mut hanging) = (JoinSet::new(), JoinSet::new());
    for call in 0..4_000 {
        if hangs && call % 10 == 0 {
            let (handlers, dependency) = (Arc::clone(&handlers), dependency.clone());
            hanging.spawn(async move {
                let _handler = handlers.acquire().await.unwrap();
                match dependency {
                    Some(bulkhead) => bulkhead.run(sleep(30 * S)).await.is_ok(),
                    None => {
                        sleep(30 * S).await;
                        true
                    }
                }
            });
        }
        let handlers = Arc::clone(&handlers);
        others.spawn(async move {
            let start = now();
            let _handler = handlers.acquire().await.unwrap();
            sleep(S / 100).await;
            start.elapsed()
        });
        sleep(S / 200).await;
    }
    let mut took = others.join_all().await;
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_hangs_for_thirty_seconds_costs_others_nothing() {
    let alone = longest_but_one_percent(None, false).await;
    let without = longest_but_one_percent(None, true).await;
    assert!(without > 20 * S, "{without:?}: all handlers hang");
    let with = longest_but_one_percent(Some(Bulkhead::new(4, 8)), true).await;
    assert!(with <= alone.mul_f64(1.2), "p99 {with:?}, alone {alone:?}");
}
