//! Concurrency tokens, two threads, every interleaving: never above the level, nothing lost.
//!
//! Run as `tests/loom.rs` is.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use limiter::{Concurrency, Hold, Level, OwnerId, Released, Tenant, Tick, TokenId};
use loom::{sync::Arc, thread};

type Shared = Arc<(Concurrency, Arc<Level>, Arc<Level>)>;

fn store(max: u64) -> Shared {
    let tokens = Concurrency::new(max, 1);
    let tenant = Arc::new(Tenant::default());
    let levels = (tokens.level(&tenant), tokens.level(&tenant));
    Arc::new((tokens, levels.0, levels.1))
}

fn owner() -> OwnerId {
    OwnerId::new(1).unwrap()
}

fn take(shared: &Shared, level: &Arc<Level>, ms: u64) -> Option<TokenId> {
    let hold = Hold { count: 1, owner: owner(), resource_timeout_ms: 100, client_offline_ms: 10 };
    shared.0.acquire(Tick::from_ms(ms), level, 1.0, hold).ok().flatten()
}

/// Runs `a` and `b` side by side and gives what both saw.
fn race<A: Send + 'static, B>(
    shared: &Shared,
    a: impl FnOnce(&Shared) -> A + Send + 'static,
    b: impl FnOnce(&Shared) -> B,
) -> (A, B) {
    let other = {
        let shared = shared.clone();
        thread::spawn(move || a(&shared))
    };
    let mine = b(shared);
    (other.join().unwrap(), mine)
}

#[test]
fn two_threads_and_one_place_make_one_token() {
    loom::model(|| {
        let s = store(9);
        let (a, b) = race(&s, |s| take(s, &s.1, 0), |s| take(s, &s.1, 0));
        assert!(a.is_some() != b.is_some());
        assert_eq!((s.1.in_use(), s.0.live()), (1, 1));
    });
}

#[test]
fn two_shards_and_one_token_that_may_live_make_one_token() {
    loom::model(|| {
        let s = store(1);
        let (a, b) = race(&s, |s| take(s, &s.1, 0), |s| take(s, &s.2, 0));
        assert!(a.is_some() != b.is_some());
        assert_eq!((s.1.in_use() + s.2.in_use(), s.0.live()), (1, 1));
    });
}

#[test]
fn a_token_that_is_released_and_ends_at_once_is_given_back_once() {
    loom::model(|| {
        let s = store(9);
        let token = take(&s, &s.1, 0).unwrap();
        let (released, ended) = race(
            &s,
            move |s| s.0.release(Tick::from_ms(99), token),
            |s| s.0.expire(Tick::from_ms(100)),
        );
        assert_eq!(ended == 1, released == Released::AlreadyReleased);
        assert_eq!((s.1.in_use(), s.0.live()), (0, 0));
        assert!(take(&s, &s.1, 100).is_some());
        assert_eq!(take(&s, &s.1, 100), None);
    });
}

#[test]
fn a_token_that_is_released_twice_at_once_is_given_back_once() {
    loom::model(|| {
        let s = store(9);
        let token = take(&s, &s.1, 0).unwrap();
        let release = move |s: &Shared| s.0.release(Tick::from_ms(1), token);
        let (a, b) = race(&s, release, release);
        assert!((a == Released::Ok) != (b == Released::Ok));
        assert_eq!((s.1.in_use(), s.0.live()), (0, 0));
    });
}

#[test]
fn a_token_that_is_released_while_its_connection_closes_is_given_back_once() {
    loom::model(|| {
        let s = store(9);
        let (first, second) = (take(&s, &s.1, 0).unwrap(), take(&s, &s.2, 0).unwrap());
        let (released, let_go) = race(
            &s,
            move |s| s.0.release(Tick::from_ms(1), first),
            |s| s.0.owner_gone(Tick::from_ms(1), owner()),
        );
        assert_eq!(released, Released::Ok, "it was held either way");
        assert!(let_go == 1 || let_go == 2);
        assert_eq!((s.1.in_use(), s.2.in_use(), s.0.live()), (0, 1, 1));
        assert_eq!(s.0.next_expiry(), Some(Tick::from_ms(11)));
        assert_eq!(s.0.expire(Tick::from_ms(11)), 1);
        assert_eq!(s.0.release(Tick::from_ms(11), second), Released::AlreadyReleased);
        assert_eq!((s.2.in_use(), s.0.live()), (0, 0));
    });
}

#[test]
fn a_token_whose_end_is_postponed_and_due_at_once_is_held_or_not_but_not_both() {
    loom::model(|| {
        let s = store(9);
        let token = take(&s, &s.1, 0).unwrap();
        let (renewed, next) =
            race(&s, move |s| s.0.renew(Tick::from_ms(99), token, owner()), |s| take(s, &s.1, 100));
        assert_eq!(renewed, next.is_none());
        assert_eq!((s.1.in_use(), s.0.live()), (1, 1));
    });
}
