//! A call that the engine has seen the like of allocates nothing, from its enter to its exit.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, clippy::panic, reason = "the rules are what the test wrote")]

use std::{sync::Arc, time::Duration};

use allocation_counter::measure;
use limiter::{
    Param, Tick,
    local::{Arg, Call, ContextHandle, EntryType, LocalEngine, LocalSettings, Step},
    rule::{Contents, parse, parse_degrade, parse_system},
};

/// Every slot has something to do, and every flow rule its kind of counters.
fn engine() -> Arc<LocalEngine> {
    let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
    let flow = r#"[
        {"resource": "r", "count": 50},
        {"resource": "r", "count": 40, "limitApp": "app"},
        {"resource": "r", "count": 40, "strategy": 2, "refResource": "web"},
        {"resource": "r", "count": 100, "strategy": 1, "refResource": "other"},
        {"resource": "r", "count": 100, "grade": 0},
        {"resource": "r", "count": 1000, "controlBehavior": 1},
        {"resource": "paced", "count": 100, "controlBehavior": 2}
    ]"#;
    engine.load_flow(parse(flow, "test", "", Contents::Flow, false).unwrap().rules.flow);
    let param = r#"[
        {"resource": "r", "paramIdx": 0, "count": 45},
        {"resource": "r", "paramIdx": 1, "count": 45, "grade": 0}
    ]"#;
    engine.load_param(parse(param, "test", "", Contents::Param, false).unwrap().rules.param);
    let degrade = r#"[{"resource": "r", "grade": 1, "count": 0.9, "timeWindow": 1}]"#;
    engine.load_degrade(parse_degrade(degrade, "test").unwrap().rules);
    engine.load_system(&parse_system(r#"[{"qps": 1000}]"#, "test").unwrap().rules);
    engine
}

/// Makes calls of each kind, and gives how many passed, were refused and waited.
fn calls(engine: &Arc<LocalEngine>, web: &ContextHandle, now: Tick) -> [u32; 3] {
    let args = [Arg::One(Param::Str("hot".into())), Arg::One(Param::Int(7))];
    let mut count = [0; 3];
    for number in 0..60 {
        let call = match number % 4 {
            0 => Call::new("other"),
            1 => Call::new("paced"),
            2 => Call::new("r").args(&args).prioritized(),
            _ => Call::new("r").context(web).origin("app").entry_type(EntryType::In).args(&args),
        };
        let mut step = engine.enter(now, call);
        if let Step::Wait(waiting) = step {
            count[2] += 1;
            let turn = now.plus(waiting.wait());
            step = waiting.resume(turn);
        }
        match step {
            Step::Passed(mut entry) => {
                count[0] += 1;
                if number % 3 == 0 {
                    entry.fail();
                }
                entry.exit(now);
            }
            Step::Blocked(_) => count[1] += 1,
            other => panic!("neither passed nor refused: {other:?}"),
        }
    }
    count
}

#[test]
fn nothing_is_allocated_from_enter_to_exit_once_the_like_was_seen() {
    let engine = engine();
    let web = engine.context("web");
    let mut now = Tick::from_ms(1_700_000_040_000);
    for _ in 0..10 {
        calls(&engine, &web, now);
        now = now.plus(Duration::from_millis(170));
    }
    let mut all = [0; 3];
    let counted = measure(|| {
        for _ in 0..500 {
            let some = calls(&engine, &web, now);
            all = [0, 1, 2].map(|kind| all[kind] + some[kind]);
            now = now.plus(Duration::from_millis(170));
        }
    });
    assert!(all.iter().all(|&calls| calls > 500), "{all:?}");
    assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "of {all:?}");
}
