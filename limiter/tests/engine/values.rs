//! Hot values under every algorithm: each by itself, several at once, and beyond the cap.

use std::time::Duration;

use limiter::{Ask, ClusterEngine, Decision, Explained, Param, Settings, Tick, What};

use super::{at, engine, kinds::of_values, load, ms, rule, settings};

fn ask(
    engine: &ClusterEngine,
    now: Tick,
    count: i32,
    values: &[Param<'_>],
    peek: bool,
) -> Explained {
    let ask = Ask { peek, ..Ask::default() };
    engine.rules().ask(now, &What::Param { id: 1, count, values }, ask).unwrap()
}

fn longs(values: impl IntoIterator<Item = i64>) -> Vec<Param<'static>> {
    values.into_iter().map(Param::Long).collect()
}

#[test]
fn each_user_has_fifty_at_once_and_then_ten_a_second() {
    for algorithm in ["tokenBucket", "leakyBucket", "gcra"] {
        let engine = engine();
        let config = format!(r#","algorithm":"{algorithm}","burst":50"#);
        load(&engine, &[rule(10, r#""paramIdx":0,"#, &config)]);
        for user in 0..3 {
            let passes = |ms, calls: u32| {
                let user = longs([user]);
                let passes =
                    |_: &u32| ask(&engine, at(ms), 1, &user, false).decision != Decision::Block;
                (0..calls).filter(passes).count()
            };
            assert_eq!(passes(0, 60), 50, "{algorithm}");
            // Each millisecond of the next two seconds.
            assert_eq!((1..=2_000).map(|ms| passes(ms, 1)).sum::<usize>(), 20, "{algorithm}");
            assert_eq!(passes(12_000, 200), 50, "{algorithm}");
        }
    }
}

#[test]
fn several_values_that_nobody_knew_are_each_charged() {
    for kind in of_values() {
        let engine = engine();
        load(&engine, &[kind.rule(3.0, r#""paramIdx":0,"#, "")]);
        let all = longs(0..5);
        let taken = ask(&engine, at(0), 1, &all, false);
        let remaining = if kind.is_queue() { 0 } else { 2 };
        assert_eq!(taken.decision, Decision::Pass { remaining }, "{kind:?}");
        for value in &all {
            let (one, peek) = (std::slice::from_ref(value), true);
            let next = ask(&engine, at(0), 1, one, peek);
            let right = if kind.is_queue() {
                Decision::Wait { wait: Duration::from_nanos(333_333_334) }
            } else {
                Decision::Pass { remaining: 1 }
            };
            assert_eq!(next.decision, right, "{kind:?} {value:?}");
        }
    }
}

#[test]
fn a_refusal_for_several_values_waits_for_the_last_of_them() {
    for kind in of_values().into_iter().filter(|kind| !kind.is_queue()) {
        let engine = engine();
        load(&engine, &[kind.rule(3.0, r#""paramIdx":0,"#, "")]);
        ask(&engine, at(0), 3, &longs([1]), false);
        ask(&engine, at(700), 3, &longs([2]), false);
        let retry = |values| ask(&engine, at(700), 2, &longs(values), true).retry;
        let both = retry([1, 2]);
        assert_eq!(both, retry([2, 1]), "{kind:?}");
        let admitted = |after| ask(&engine, at(700).plus(after), 2, &longs([1, 2]), true).decision;
        let (both, early) = (both.unwrap(), Duration::from_nanos(1));
        assert_eq!(admitted(both - early), Decision::Block, "{kind:?}");
        assert_ne!(admitted(both), Decision::Block, "{kind:?}");
    }
}

#[test]
fn beyond_the_cap_a_refusal_tells_when_the_shared_counter_has_room() {
    let engine = ClusterEngine::new(Settings { values_max: 2, ..settings() });
    load(&engine, &[rule(3, r#""paramIdx":0,"#, "")]);
    for known in 0..2 {
        ask(&engine, at(900), 1, &longs([known]), false);
    }
    assert_eq!(ask(&engine, at(0), 1, &longs([0]), true).used, 1);
    assert_eq!(
        ask(&engine, at(950), 2, &longs([7]), false).decision,
        Decision::Pass { remaining: 1 }
    );
    let refused = ask(&engine, at(1_850), 2, &longs([8]), false);
    assert_eq!((refused.decision, refused.used, refused.retry), (Decision::Block, 2, Some(ms(50))));
    assert_eq!(ask(&engine, at(1_899), 2, &longs([8]), true).decision, Decision::Block);
    assert_ne!(ask(&engine, at(1_900), 2, &longs([8]), true).decision, Decision::Block);
}

#[test]
fn an_item_whose_count_is_changed_to_nothing_and_back_keeps_what_it_used() {
    for kind in of_values() {
        let engine = engine();
        let rule = |own: u32| {
            let items = format!(
                r#""paramFlowItemList":[{{"object":"7","count":{own},"classType":"long"}}],"#
            );
            kind.rule(9.0, &format!(r#""paramIdx":0,{items}"#), "")
        };
        load(&engine, &[rule(2)]);
        let take = || ask(&engine, at(0), 1, &longs([7]), false).decision;
        assert_ne!(take(), Decision::Block);
        load(&engine, &[rule(0)]);
        assert_eq!(take(), Decision::Block, "{kind:?}");
        load(&engine, &[rule(2)]);
        if kind.is_queue() {
            assert_eq!(take(), Decision::Wait { wait: ms(500) });
        } else {
            assert_eq!(take(), Decision::Pass { remaining: 0 }, "{kind:?}");
            assert_eq!(take(), Decision::Block, "{kind:?}");
        }
    }
}
