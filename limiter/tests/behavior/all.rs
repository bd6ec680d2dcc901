//! Several requests that take all or nothing.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use limiter::{All, Param, Switches, Undecided, What, rule::Mode};

use crate::{at, engine, flow, param, passes};

fn of(id: i64, count: i32) -> (What<'static>, bool) {
    (What::Flow { id, count }, false)
}

#[test]
fn all_are_taken_or_none() {
    let engine = engine(&[flow(1, 5.0, ""), flow(2, 3.0, "")]);
    let ask = |count| engine.snapshot().acquire_all(at(0), &[of(1, count), of(2, count)]);
    assert_eq!(ask(2), Ok(All::Taken { wait: Duration::ZERO }));
    let retry = Some(Duration::from_secs(1));
    assert_eq!(ask(2), Ok(All::Refused { index: 1, retry }));
    assert_eq!(ask(4), Ok(All::Refused { index: 0, retry }), "the first that says no");
    assert_eq!(ask(6), Ok(All::Refused { index: 0, retry: None }));
    assert_eq!((passes(&engine, 0, 1, 9), passes(&engine, 0, 2, 9)), (3, 1));
    let rules = engine.rules();
    let blocked = |id| rules.flow(id).unwrap().totals().block_requests;
    // Of the single calls, 6 and 8 were refused.
    assert_eq!((blocked(1), blocked(2)), (2 + 6, 1 + 8), "counted where it was refused");
}

#[test]
fn flows_and_values_go_together_and_the_longest_wait_counts() {
    let paced =
        |id, count| flow(id, count, "").replace("\"count\"", "\"controlBehavior\":2,\"count\"");
    let engine = engine(&[paced(1, 10.0), paced(2, 4.0), param(1, 2.0, "", "")]);
    let values = [Param::Int(7)];
    let ask = || {
        let value = (What::Param { id: 1, count: 1, values: &values }, false);
        engine.snapshot().acquire_all(at(0), &[of(1, 1), of(2, 1), value])
    };
    assert_eq!(ask(), Ok(All::Taken { wait: Duration::ZERO }));
    assert_eq!(ask(), Ok(All::Taken { wait: Duration::from_millis(250) }));
    let retry = Some(Duration::from_secs(1));
    assert_eq!(ask(), Ok(All::Refused { index: 2, retry }), "the value has had its two");
    let (next, _) = (engine.snapshot().acquire_flow(at(0), 1, 1, false).unwrap(), ());
    assert_eq!(next, limiter::Decision::Wait { wait: Duration::from_millis(200) }, "no turn lost");
}

#[test]
fn what_is_answered_taken_is_counted_though_clients_come_and_go_and_switches_are_set() {
    const FLOWS: i64 = 16;
    // The first and the last count per client.
    let rule = |id| match id {
        1 | FLOWS => flow(id, 1.0, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#),
        _ => flow(id, 1.0, ""),
    };
    let engine = engine(&(1..=FLOWS).map(rule).collect::<Vec<_>>());
    let (rules, done) = (engine.rules(), AtomicBool::new(false));
    let all: Vec<_> = (1..=FLOWS).map(|id| of(id, 1)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for mode in [Mode::Enforce, Mode::Block, Mode::Enforce] {
                    engine.switch(Switches { mode, ..Switches::default() });
                    let _clients: Vec<_> = (0..20).map(|_| engine.join("ns").unwrap()).collect();
                }
            }
        });
        let taken = (0..20_000).filter(|second| {
            let taken = rules.acquire_all(at(second * 1_000), &all).unwrap();
            matches!(taken, All::Taken { .. })
        });
        let taken = taken.count() as u64;
        done.store(true, Ordering::Relaxed);
        for id in 1..=FLOWS {
            assert_eq!(rules.flow(id).unwrap().totals().pass_requests, taken, "{id}");
        }
    });
}

#[test]
fn what_cannot_be_asked_is_named() {
    let engine = engine(&[flow(1, 5.0, ""), flow(2, 5.0, "")]);
    let ask = |requests: &[(What<'_>, bool)]| engine.snapshot().acquire_all(at(0), requests);
    assert_eq!(ask(&[]), Err((0, Undecided::BadRequest)));
    assert_eq!(ask(&[of(1, 1); 17]), Err((0, Undecided::BadRequest)));
    assert_eq!(ask(&[of(1, 1), of(2, 1), of(1, 1)]), Err((2, Undecided::BadRequest)), "twice");
    assert_eq!(ask(&[of(1, 1), of(9, 1)]), Err((1, Undecided::NoRule)));
    assert_eq!(ask(&[of(1, 1), of(2, 0)]), Err((1, Undecided::BadRequest)));
    let none = What::Param { id: 1, count: 1, values: &[] };
    assert_eq!(ask(&[(none, false)]), Err((0, Undecided::BadRequest)));
    assert_eq!(passes(&engine, 0, 1, 9), 5, "nothing was taken");
}

#[test]
fn threads_that_ask_in_opposite_orders_neither_wait_for_each_other_nor_take_too_much() {
    let engine = engine(&[flow(1, 1_000.0, ""), flow(2, 1_500.0, "")]);
    let taken: usize = thread::scope(|scope| {
        let threads: Vec<_> = [[1, 2], [2, 1]]
            .map(|ids| {
                let engine = &engine;
                scope.spawn(move || {
                    let ask =
                        || engine.snapshot().acquire_all(at(0), &ids.map(|id| of(id, 1))).unwrap();
                    (0..2_000).filter(|_| matches!(ask(), All::Taken { .. })).count()
                })
            })
            .into();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 1_000);
    assert_eq!(passes(&engine, 0, 2, 1_000), 500);
}
