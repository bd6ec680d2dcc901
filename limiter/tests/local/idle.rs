//! What counts no more is given back.

use std::borrow::Cow;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use limiter::{
    Param, Tick,
    local::{Arg, Call, LocalEngine, LocalSettings, OVERFLOW, Seen, Slot},
    rule::{Contents, ControlBehavior, parse, parse_authority, parse_degrade},
};

use crate::support::{Step, at, block, engine, flow, node, pass, passes, wait, with_flow};

const MINUTE: u64 = 60_000;

fn names(engine: &LocalEngine, ms: u64) -> Vec<String> {
    engine.nodes(at(ms)).into_iter().map(|(name, _)| name.into()).collect()
}

fn origins(engine: &LocalEngine, ms: u64, resource: &str) -> Vec<String> {
    engine.origins(at(ms), resource).into_iter().map(|(name, _)| name.into()).collect()
}

#[test]
fn a_resource_that_counted_nothing_for_a_minute_is_like_one_that_was_never_called() {
    let engine = engine();
    assert!(passes(&engine, 0, "once") && passes(&engine, 900, "later"));
    engine.tidy(at(MINUTE - 1));
    assert_eq!(names(&engine, MINUTE - 1), ["later", "once"]);
    assert!(passes(&engine, MINUTE - 1, "later"));
    engine.tidy(at(MINUTE));
    assert_eq!(names(&engine, MINUTE), ["later"]);
    assert_eq!(engine.node(at(MINUTE), "once"), None);
    assert!(passes(&engine, MINUTE, "once"));
    assert_eq!(node(&engine, MINUTE, "once").total_pass, 1);
}

#[test]
fn names_that_come_once_do_not_fill_the_bound() {
    let settings = LocalSettings { resources: 10, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    for minute in 0..10 {
        for name in 0..10 {
            assert!(passes(&engine, minute * MINUTE, &format!("{minute}-{name}")));
        }
        engine.tidy(at((minute + 1) * MINUTE));
    }
    assert_eq!(engine.overflow().resources, 0);
    assert_eq!(names(&engine, 10 * MINUTE), [""; 0]);
}

#[test]
fn a_resource_stays_while_a_call_of_it_is_open_or_on_its_way() {
    let engine = engine();
    // Not what can be written in JSON, where a pattern is for windows only.
    let mut rules = flow(r#"[{"resource": "paced.*", "regex": true, "count": 1}]"#);
    (rules[0].behavior, rules[0].max_queueing_time_ms) = (ControlBehavior::Pacing, 9_000);
    engine.load_flow(rules);
    let open = pass(engine.enter(at(0), Call::new("open")));
    drop(pass(engine.enter(at(0), Call::new("paced").origin("a"))));
    let waits = wait(engine.enter(at(0), Call::new("paced").origin("a")), 1_000);
    engine.tidy(at(9 * MINUTE));
    assert_eq!(names(&engine, 9 * MINUTE), ["open", "paced"]);
    assert_eq!(origins(&engine, 9 * MINUTE, "paced"), [""; 0], "of a nothing is counted");
    let entry = pass(waits.resume(at(9 * MINUTE)));
    assert_eq!(engine.origins(at(9 * MINUTE), "paced")[0].1.threads, 1);
    assert_eq!(node(&engine, 9 * MINUTE, "paced").threads, 1);
    drop((entry, open));
    engine.tidy(at(19 * MINUTE));
    assert_eq!(names(&engine, 19 * MINUTE), [""; 0]);
}

#[test]
fn a_call_that_comes_to_its_slot_after_a_minute_is_held_to_its_rules() {
    /// Takes a minute, in which the engine is tidied.
    #[derive(Debug)]
    struct Slow(std::sync::Weak<LocalEngine>);
    impl Slot for Slow {
        fn enter(&self, _: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>> {
            self.0.upgrade().unwrap().tidy(at(MINUTE));
            if call.count == 7 { Err("seven".into()) } else { Ok(()) }
        }
    }
    let engine = with_flow(r#"[{"resource": "r", "count": 0, "limitApp": "a"}]"#);
    engine.insert_slot(-2_500, Arc::new(Slow(Arc::downgrade(&engine))));
    block(engine.enter(at(0), Call::new("r").origin("a")));
    assert_eq!(engine.origins(at(MINUTE), "r")[0].1.block_qps, 1.0);
    block(engine.enter(at(0), Call::new("r").origin("b").count(7)));
}

#[test]
fn what_a_rule_names_stays_and_what_matches_one_goes_when_nothing_is_remembered() {
    let engine = engine();
    let mut rules = flow(
        r#"[{"resource": "named", "count": 9},
            {"resource": "x", "count": 9, "strategy": 1, "refResource": "compared"},
            {"resource": "/plain/.*", "regex": true, "count": 9},
            {"resource": "/cold/.*", "regex": true, "count": 90, "warmUpPeriodSec": 600}]"#,
    );
    rules[3].behavior = ControlBehavior::WarmUp;
    engine.load_flow(rules);
    let breaker = r#"[{"resource": "/trips/.*", "regex": true, "grade": 2, "count": 0,
                       "timeWindow": 300, "minRequestAmount": 1},
                      {"resource": "/fails/.*", "regex": true, "grade": 2, "count": 9,
                       "timeWindow": 1, "statIntervalMs": 600000}]"#;
    engine.load_degrade(parse_degrade(breaker, "test").unwrap().rules);
    let hot = r#"[{"resource": "/hot/.*", "regex": true, "paramIdx": 0, "count": 1,
                   "durationInSec": 300,
                   "paramFlowItemList": [{"object": "7", "classType": "int", "count": 1}]}]"#;
    engine.load_param(parse(hot, "test", "", Contents::Param, false).unwrap().rules.param);
    let all =
        ["/cold/1", "/fails/1", "/hot/1", "/hot/7", "/plain/1", "/trips/1", "compared", "named"];
    for name in all {
        let value = if name == "/hot/7" { 7 } else { 1 };
        let mut entry =
            pass(engine.enter(at(0), Call::new(name).args(&[Arg::One(Param::Int(value))])));
        if name.contains("i") {
            entry.fail();
        }
    }
    let of = |ms| {
        for ms in ms..ms + 10 {
            engine.tidy(at(ms));
        }
        names(&engine, ms)
    };
    assert_eq!(
        of(2 * MINUTE),
        ["/fails/1", "/hot/1", "/hot/7", "/trips/1", "compared", "named"],
        "a warm-up was cold all the time"
    );
    assert_eq!(engine.params_gone().param_missing, 0);
    drop(pass(engine.enter(at(2 * MINUTE), Call::new("/hot/without argument"))));
    assert_eq!(of(6 * MINUTE), ["/trips/1", "compared", "named"]);
    assert_eq!(engine.params_gone().param_missing, 1, "what it counted is not lost");
    drop(pass(engine.enter(at(6 * MINUTE), Call::new("/trips/1"))));
    engine.load_flow(Vec::new());
    assert_eq!(of(8 * MINUTE), [""; 0]);
}

#[test]
fn names_that_fail_once_do_not_fill_the_bound_with_open_breakers() {
    let settings = LocalSettings { resources: 2, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    let breaker = r#"[{"resource": "*", "grade": 2, "count": 0, "timeWindow": 100,
                       "minRequestAmount": 1}]"#;
    engine.load_default_degrade(parse_degrade(breaker, "test").unwrap().rules, &[]);
    let fails = |name: &str, ms| {
        let mut entry = pass(engine.enter(at(ms), Call::new(name)));
        entry.fail();
        entry.exit(at(ms));
    };
    fails("opens", 0);
    fails("probes", 0);
    // The probe hangs, and is given up in the end.
    let probe = pass(engine.enter(at(100_000), Call::new("probes")));
    engine.tidy(at(199_999));
    assert_eq!(names(&engine, 199_999), ["opens", "probes"]);
    engine.tidy(at(200_000));
    assert_eq!(names(&engine, 200_000), ["probes"], "a probe was due for 100 s");
    drop(probe);
    fails("probes", 200_000);
    fails("next", 200_000);
    assert!(passes(&engine, 200_000, "opens"), "nobody else's breaker is its own");
    engine.tidy(at(400_000));
    assert_eq!(names(&engine, 400_000), [""; 0]);
}

#[test]
fn a_flood_of_hot_values_is_given_back_in_seconds_and_not_at_once() {
    let settings = LocalSettings { values_bytes: 4 << 20, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    let rules = r#"[{"resource": "flooded", "paramIdx": 0, "count": 5},
                    {"resource": "other", "paramIdx": 0, "count": 5}]"#;
    engine.load_param(parse(rules, "test", "", Contents::Param, false).unwrap().rules.param);
    let asks = |ms, resource, value| {
        let args = [Arg::One(Param::Int(value))];
        matches!(engine.enter(at(ms), Call::new(resource).args(&args)), Step::Passed(_))
    };
    let passed = (0..100_000).filter(|value| asks(0, "flooded", *value)).count();
    assert!((40_000..100_000).contains(&passed), "{passed} found room");
    engine.tidy(at(2_000));
    let left = engine.params(at(2_000), "flooded").values;
    assert!((5_000..passed - 30_000).contains(&left), "{left} of {passed} are left");
    for second in 3..7 {
        engine.tidy(at(second * 1_000));
    }
    assert_eq!(engine.params(at(6_000), "flooded").values, 0);
    assert!((0..5_000).all(|value| asks(6_000, "other", value)), "each has room for its own");
}

#[test]
fn idle_origins_and_contexts_of_a_busy_resource_make_room_for_others() {
    let settings = LocalSettings { origins: 2, nodes: 4, contexts: 9, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    let busy = pass(engine.enter(at(0), Call::new("r").origin("busy")));
    let call = |ms, origin: &str, context: &str| {
        let context = engine.context(context);
        drop(pass(engine.enter(at(ms), Call::new("r").origin(origin).context(&context))));
    };
    for minute in 0..5 {
        call(minute * MINUTE, &format!("o{minute}"), &format!("c{minute}"));
        assert_eq!(origins(&engine, minute * MINUTE, "r"), ["busy".into(), format!("o{minute}")]);
        engine.tidy(at((minute + 1) * MINUTE));
    }
    assert_eq!((engine.overflow().origins, engine.overflow().contexts), (0, 0));
    call(5 * MINUTE, "a", "c0");
    call(5 * MINUTE, "b", "c1");
    assert_eq!(origins(&engine, 5 * MINUTE, "r"), ["busy", "a", OVERFLOW]);
    drop(busy);
}

#[test]
fn counters_by_origin_and_context_are_bounded_over_all_resources() {
    let settings = LocalSettings { nodes: 3, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    engine.load_flow(flow(
        r#"[{"resource": "r1", "count": 1, "limitApp": "named"},
            {"resource": "r1", "count": 1, "strategy": 2, "refResource": "web"},
            {"resource": "r1", "count": 2, "limitApp": "other"}]"#,
    ));
    let call = |resource, origin| {
        let entry = engine.enter(at(0), Call::new(resource).origin(origin));
        matches!(entry, Step::Passed(_))
    };
    for origin in ["a", "b", "c"] {
        assert!(call("r0", origin));
    }
    assert!(call("r1", "d") && call("r1", "e") && !call("r1", "f"), "they share what other have");
    assert!(call("r1", "named") && !call("r1", "named"), "its own");
    assert_eq!(origins(&engine, 0, "r1"), [OVERFLOW, "named"]);
    assert_eq!(engine.overflow().origins, 3);
    let context = |name: &str| {
        let context = engine.context(name);
        matches!(engine.enter(at(0), Call::new("r1").context(&context)), Step::Passed(_))
    };
    assert!(context("x") && context("y"), "they share a node of that resource");
    assert!(context("web") && !context("web"), "its own");
    assert_eq!(engine.overflow().contexts, 2);
    // A resource that goes gives back what it had.
    engine.load_flow(Vec::new());
    engine.tidy(at(MINUTE));
    for origin in ["a", "b", "c"] {
        assert!(call("r2", origin));
    }
    assert_eq!(engine.overflow().origins, 3);
}

#[test]
fn resources_above_the_bound_that_match_more_sets_of_patterns_than_are_kept_are_held_to_all() {
    let settings = LocalSettings { resources: 0, patterns: 1, ..LocalSettings::default() };
    let engine = Arc::new(LocalEngine::new(settings));
    engine.load_flow(flow(
        r#"[{"resource": "/a/.*", "regex": true, "count": 2},
            {"resource": "/b/.*", "regex": true, "count": 1}]"#,
    ));
    let authority = r#"[{"resource": "/a/.*", "regex": true, "limitApp": "nobody", "strategy": 1},
                        {"resource": "/b/.*", "regex": true, "limitApp": "bad", "strategy": 1}]"#;
    engine.load_authority(parse_authority(authority, "test").unwrap().rules);
    assert!(
        passes(&engine, 0, "/a/1") && passes(&engine, 0, "/a/2") && !passes(&engine, 0, "/a/3")
    );
    block(engine.enter(at(0), Call::new("/b/1").origin("bad")));
    assert!(passes(&engine, 0, "/b/1") && !passes(&engine, 0, "/b/2"));
    assert!(passes(&engine, 0, "no rule"));
    let overflow = engine.overflow();
    assert_eq!((overflow.resources, overflow.patterns), (7, 3));
    // The first set is gone, and another may be kept.
    engine.tidy(at(MINUTE));
    assert!(passes(&engine, MINUTE, "/b/1"));
    assert_eq!(names(&engine, MINUTE), ["/b/.*"]);
}

#[test]
fn what_was_called_from_a_resource_that_is_gone_stands_below_the_entrance() {
    let engine = engine();
    let outer = pass(engine.enter(at(0), Call::new("outer")));
    let inner = pass(engine.enter(at(0), Call::new("inner").parent(&outer)));
    let leaf = pass(engine.enter(at(0), Call::new("leaf").parent(&inner)));
    drop((leaf, outer));
    engine.tidy(at(MINUTE));
    drop(pass(engine.enter(at(MINUTE), Call::new("leaf").parent(&inner))));
    let shown = |ms| {
        let tree = engine.tree(at(ms)).into_iter();
        Vec::from_iter(
            tree.map(|node| format!("{} {} {}", node.depth, node.name, node.reading.threads)),
        )
    };
    let entrance = "1 sentinel_default_context 1";
    assert_eq!(shown(MINUTE), ["0 machine-root 1", entrance, "2 inner 1", "3 leaf 0"]);
    // Called from each other, they are shown all the same.
    let outer = pass(engine.enter(at(MINUTE), Call::new("outer").parent(&inner)));
    assert_eq!(shown(MINUTE).len(), 5);
    drop((inner, outer));
}

#[test]
fn calls_next_to_a_tidying_are_all_counted() {
    let engine = engine();
    let (is_over, tidied) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: the scope joins the threads.
            while !is_over.load(Ordering::Relaxed) {
                engine.tidy(at(0));
                tidied.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..200 {
            // Not counted yet, so that it is as idle as can be.
            let name = format!("{round}");
            let call = || pass(engine.enter(at(0), Call::new(&name)));
            let entries = std::thread::scope(|callers| {
                let both = [callers.spawn(call), callers.spawn(call)];
                both.map(|caller| caller.join().unwrap())
            });
            assert_eq!(node(&engine, 0, &name).threads, 2, "{name}");
            drop(entries);
            assert_eq!(
                (node(&engine, 0, &name).threads, node(&engine, 0, &name).total_pass),
                (0, 2)
            );
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(tidied.into_inner() > 0);
}
