//! What guards count, and where.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

use limiter::local::{Arg, BlockKind, Checked, Said, SlotName};
use tokio::{
    task::JoinSet,
    time::{advance, timeout},
};

use super::{ended, node, with_flow};
use crate::{Engine, Guard, NotNow, RunError};

const MS: Duration = Duration::from_millis(1);

fn enter(engine: &Engine, resource: &str) -> Guard {
    engine.entry(resource).try_acquire().unwrap()
}

#[tokio::test(start_paused = true)]
async fn guards_may_be_dropped_in_any_order_on_any_thread() {
    let engine = with_flow("[]");
    let mut guards: Vec<Guard> = (0..8).map(|_| enter(&engine, "r")).collect();
    advance(30 * MS).await;
    assert_eq!(ended(&engine, "r"), (8, 0, 0));
    guards.swap(1, 6);
    // The paused clock belongs to this thread's runtime.
    let runtime = tokio::runtime::Handle::current();
    for guard in guards.drain(2..).rev() {
        let runtime = runtime.clone();
        let dropped = thread::spawn(move || {
            let _runtime = runtime.enter();
            drop(guard);
        });
        dropped.join().unwrap();
    }
    assert_eq!(ended(&engine, "r"), (2, 6, 0));
    drop(guards);
    assert_eq!((ended(&engine, "r"), node(&engine, "r").avg_rt), ((0, 8, 0), 30.0));
}

#[tokio::test(start_paused = true)]
async fn an_err_counts_as_an_error_and_ok_does_not() {
    let engine = with_flow("[]");
    assert_eq!(engine.entry("r").run(async { Ok::<_, ()>(7) }).await, Ok(7));
    assert_eq!(ended(&engine, "r"), (0, 1, 0));
    let failed = engine.entry("r").run(async { Err::<(), _>("no") }).await;
    assert_eq!(failed, Err(RunError::Failed("no")));
    assert_eq!(ended(&engine, "r"), (0, 2, 1));
    let mut guard = engine.entry("r").acquire().await.unwrap();
    guard.fail();
    drop(guard);
    assert_eq!(ended(&engine, "r"), (0, 3, 2));
}

async fn broken() -> Result<(), ()> {
    tokio::task::yield_now().await;
    panic!("a bug");
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_an_error_and_leaves_nothing_in_progress() {
    let engine = with_flow("[]");
    let mut calls = JoinSet::new();
    calls.spawn({
        let engine = engine.clone();
        async move { engine.entry("r").run(broken()).await }
    });
    assert!(calls.join_next().await.unwrap().unwrap_err().is_panic());
    assert_eq!(ended(&engine, "r"), (0, 1, 1));
    let guard = enter(&engine, "r");
    let holds_guard = AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("another");
    });
    catch_unwind(holds_guard).unwrap_err();
    assert_eq!(ended(&engine, "r"), (0, 2, 2));
}

/// Makes a call when it is dropped.
struct CallsAtItsEnd<'a>(&'a Engine);

impl Drop for CallsAtItsEnd<'_> {
    fn drop(&mut self) {
        drop(enter(self.0, "clean up"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_during_a_panic_does_not_fail_by_it() {
    let engine = with_flow("[]");
    let clean_up = CallsAtItsEnd(&engine);
    let holds_it = AssertUnwindSafe(move || {
        let _clean_up = clean_up;
        panic!("meanwhile");
    });
    catch_unwind(holds_it).unwrap_err();
    assert_eq!(ended(&engine, "clean up"), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_or_left_early_is_over_without_error() {
    let engine = with_flow("[]");
    let forever = std::future::pending::<Result<(), ()>>();
    timeout(40 * MS, engine.entry("r").run(forever)).await.unwrap_err();
    let reading = node(&engine, "r");
    assert_eq!(ended(&engine, "r"), (0, 1, 0));
    assert!((40.0..=41.0).contains(&reading.avg_rt), "{reading:?}");
    let left = async || -> Result<i32, std::num::ParseIntError> {
        let _guard = enter(&engine, "r");
        Ok("seven".parse::<i32>()? + 1)
    };
    left().await.unwrap_err();
    assert_eq!(ended(&engine, "r"), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_not_made() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1, "grade": 0}]"#);
    let held = enter(&engine, "r");
    let made = engine.entry("r").run_with(async |_| -> Result<(), ()> { panic!("made") }).await;
    let Err(RunError::Blocked(block)) = made else { panic!("{made:?}") };
    assert_eq!(block.to_string(), "flow rule of r: 1 calls in progress");
    drop(held);
    assert_eq!(engine.entry("r").run(async { Ok::<_, ()>(()) }).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_resource_inside_itself_counts_twice() {
    let engine = with_flow("[]");
    let outer = enter(&engine, "r");
    let inner = engine.entry("r").inside(&outer).acquire().await.unwrap();
    assert_eq!((node(&engine, "r").threads, node(&engine, "r").total_pass), (2, 2));
    drop(outer);
    assert_eq!(node(&engine, "r").threads, 1);
    drop(inner);
    assert_eq!(node(&engine, "r").threads, 0);
}

#[tokio::test(start_paused = true)]
async fn calls_stand_in_the_tree_below_the_calls_that_they_are_made_in() {
    let engine = with_flow("[]");
    let mut calls = JoinSet::new();
    calls.spawn({
        let engine = engine.clone();
        async move {
            let web = engine.context("web");
            let orders = engine.entry("GET:/orders").context(&web).inbound().origin("shop");
            let db = async |orders: &mut Guard| {
                engine.entry("db").inside(orders).count(2).run(async { Ok::<_, ()>(()) }).await
            };
            orders.run_with(db).await
        }
    });
    calls.join_next().await.unwrap().unwrap().unwrap();
    drop(enter(&engine, "db"));
    let tree = engine.local().tree(engine.now());
    let tree: Vec<(usize, &str, u64)> =
        tree.iter().map(|node| (node.depth, &*node.name, node.reading.total_pass)).collect();
    let expected = [
        (0, "machine-root", 4),
        (1, "sentinel_default_context", 1),
        (2, "db", 1),
        (1, "web", 1),
        (2, "GET:/orders", 1),
        (3, "db", 2),
    ];
    assert_eq!(tree.len(), expected.len(), "{tree:?}");
    for (seen, expected) in tree.iter().zip(expected).filter(|(seen, _)| seen.0 >= 2) {
        assert_eq!(*seen, expected);
    }
    assert_eq!(tree.iter().map(|node| node.1).collect::<Vec<_>>(), expected.map(|node| node.1));
    let origins = engine.local().origins(engine.now(), "GET:/orders");
    assert!(matches!(&origins[..], [(name, node)] if &**name == "shop" && node.total_pass == 1));
    assert_eq!(engine.local().inbound(engine.now()).total_pass, 1);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_call_in_progress_shows_its_age() {
    let engine = with_flow("[]");
    let oldest = |engine: &Engine| {
        let open = engine.local().open_entries(engine.now());
        open.first().map(|open| (open.resource.to_string(), open.oldest))
    };
    let forgotten = enter(&engine, "r");
    advance(70_000 * MS).await;
    let young = enter(&engine, "r");
    advance(5 * MS).await;
    assert_eq!(oldest(&engine), Some(("r".into(), 70_005 * MS)));
    drop(forgotten);
    assert_eq!(oldest(&engine), Some(("r".into(), 5 * MS)));
    drop(young);
    assert_eq!(oldest(&engine), None);
}

#[tokio::test(start_paused = true)]
async fn a_traced_call_lists_its_slots() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 1000}]"#,
    );
    drop(enter(&engine, "r"));
    let mut trace = engine.trace();
    drop(engine.entry("r").traced(&mut trace).acquire().await.unwrap());
    let slots: Vec<_> = trace.marks().iter().map(|mark| (mark.slot, mark.said)).collect();
    let found = [SlotName::NodeSelection, SlotName::ClusterNode];
    let expected = [found, [SlotName::Log, SlotName::Statistics]]
        .into_iter()
        .chain([[SlotName::Authority, SlotName::System], [SlotName::Gateway, SlotName::Param]])
        .flatten()
        .map(|slot| (slot, Said::Pass))
        .chain([(SlotName::Flow, Said::Wait(100 * MS)), (SlotName::Flow, Said::Pass)])
        .chain([SlotName::DefaultBreaker, SlotName::Breaker].map(|slot| (slot, Said::Pass)));
    assert_eq!(slots, expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn arguments_of_the_statement_reach_their_rule() {
    let engine = with_flow("[]");
    let rules = r#"[{"resource": "r", "paramIdx": 0, "count": 1}]"#;
    let rules = limiter::rule::parse(rules, "t", "", limiter::rule::Contents::Param, false);
    engine.local().load_param(rules.unwrap().rules.param);
    for (value, passes) in [("a", true), ("b", true), ("a", false)] {
        let value = limiter::Param::Str(value.into());
        let asked = engine.entry("r").args(&[Arg::One(value)]).acquire().await;
        assert_eq!(
            asked.as_ref().map(|_| ()).map_err(limiter::local::Block::kind),
            if passes { Ok(()) } else { Err(BlockKind::ParamFlow) }
        );
    }
    assert!(matches!(
        engine.entry("r").args(&[Arg::One(limiter::Param::Str("b".into()))]).try_acquire(),
        Err(NotNow::Blocked(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_check_asks_the_flow_rules_and_guards_nothing() {
    let engine = with_flow(r#"[{"resource": "r", "count": 2}]"#);
    for _ in 0..2 {
        assert_eq!(engine.check("r", 1), Checked::Pass);
    }
    assert!(matches!(engine.check("r", 1), Checked::Blocked(_)));
    assert_eq!((node(&engine, "r").pass_qps, node(&engine, "r").threads), (2.0, 0));
    tokio::time::sleep(1_000 * MS).await;
    assert_eq!(engine.check("r", 2), Checked::Pass);
}
