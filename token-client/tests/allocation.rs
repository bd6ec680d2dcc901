//! A guarded call that the engine has seen the like of allocates nothing.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use allocation_counter::measure;
use token_client::{
    Engine,
    limiter::{
        Param,
        local::{Arg, LocalSettings},
        rule::{Contents, parse},
    },
};

/// What a future gives that has nothing to wait for.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn a_guarded_call_allocates_nothing() {
    let engine = Engine::new(LocalSettings::default());
    let flow = r#"[
        {"resource": "r", "count": 1000000}, {"resource": "r", "count": 10, "grade": 0},
        {"resource": "never", "count": 0},
        {"resource": "paced", "count": 0.01, "controlBehavior": 2, "maxQueueingTimeMs": 2000000000}
    ]"#;
    engine.local().load_flow(parse(flow, "test", "", Contents::Flow, false).unwrap().rules.flow);
    let param = r#"[{"resource": "r", "paramIdx": 0, "count": 1000000}]"#;
    engine
        .local()
        .load_param(parse(param, "test", "", Contents::Param, false).unwrap().rules.param);
    let web = engine.context("web");
    let args = [Arg::One(Param::Str("hot".into()))];
    let calls = || {
        for _ in 0..100 {
            let entry = || engine.entry("r").context(&web).origin("app").args(&args);
            drop(at_once(entry().inbound().acquire()).unwrap().unwrap());
            let outer = entry().try_acquire().unwrap();
            let inner = entry().inside(&outer).run(async { Err::<(), _>("no") });
            at_once(inner).unwrap().unwrap_err();
            at_once(engine.entry("never").acquire()).unwrap().unwrap_err();
            // The first goes, the others would wait.
            drop(engine.entry("paced").try_acquire());
        }
    };
    calls();
    let counted = measure(calls);
    assert_eq!(counted.count_total, 0, "{counted:?}");
    // That something would be seen.
    assert_eq!(measure(|| drop(Box::new(7))).count_total, 1);
}
