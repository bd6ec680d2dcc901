//! Counters that two calls share, and the locks that they take.

use limiter::local::{Call, EntryType, Step};

use crate::support::*;

#[test]
fn rules_that_look_at_each_other_s_resources_wait_for_nobody() {
    let rules = flow(
        r#"[{"resource": "a", "count": 1, "grade": 0, "strategy": 1, "refResource": "b"},
            {"resource": "b", "count": 1, "grade": 0, "strategy": 1, "refResource": "a"}]"#,
    );
    model(move || {
        let engine = with_flow(&rules);
        for resource in ["a", "b"] {
            assert!(passes(&engine, 0, Call::new(resource)));
        }
        let call = |resource| move |e: &Engine| passes(e, 0, Call::new(resource));
        let passed = race(&engine, call("a"), call("b"));
        assert!(count(passed) > 0, "somebody was first");
        ended(&engine, 0, "a");
        ended(&engine, 0, "b");
        let busy = engine.enter(at(0), Call::new("a"));
        assert!(is_passed(&busy) && !passes(&engine, 0, Call::new("b")));
    });
}

/// The other resource is called while its counters are read for this one.
#[test]
fn a_rule_that_looks_at_another_resource_sees_the_call_before() {
    let rules = flow(
        r#"[{"resource": "a", "count": 0, "strategy": 1, "refResource": "b"},
            {"resource": "b", "count": 1}]"#,
    );
    model(move || {
        let engine = with_flow(&rules);
        let both = |e: &Engine| {
            let first = passes(e, 0, Call::new("b"));
            (first, passes(e, 0, Call::new("a")))
        };
        let ((b1, a1), (b2, a2)) = race(&engine, both, both);
        assert_eq!(count((b1, b2)), 1);
        assert_eq!((a1, a2), (false, false), "b was called before, by whomever");
    });
}

#[test]
fn calls_in_both_directions_inside_each_other_end() {
    let rules = flow(
        r#"[{"resource": "a", "count": 9, "strategy": 1, "refResource": "b"},
            {"resource": "b", "count": 9, "strategy": 2, "refResource": "one"}]"#,
    );
    model(move || {
        fn nested(engine: &Engine, outer: &'static str, inner: &'static str) -> bool {
            let context = engine.context("one");
            let call = Call::new(outer).context(&context).entry_type(EntryType::In);
            let Step::Passed(outer) = engine.enter(at(0), call) else { return false };
            passes(engine, 0, Call::new(inner).parent(&outer))
        }
        let engine = with_flow(&rules);
        let passed = race(&engine, |e| nested(e, "a", "b"), |e| nested(e, "b", "a"));
        assert_eq!(count(passed), 2);
        let reading = (ended(&engine, 0, "a"), ended(&engine, 0, "b"), engine.inbound(at(0)));
        assert_eq!((reading.0.total_pass, reading.1.total_pass), (2, 2));
        assert_eq!((reading.2.total_pass, reading.2.threads), (2, 0));
    });
}

#[test]
fn new_contexts_and_origins_count_what_the_resource_counts() {
    let rules = flow(
        r#"[{"resource": "r", "count": 2}, {"resource": "r", "count": 1,
                          "strategy": 2, "refResource": "one"}]"#,
    );
    model(move || {
        fn call(engine: &Engine, context: &str, origin: &str) -> bool {
            let context = engine.context(context);
            passes(engine, 0, Call::new("r").context(&context).origin(origin))
        }
        let engine = with_flow(&rules);
        let twice = |origin: &'static str| {
            move |e: &Engine| (call(e, "one", origin), call(e, "two", origin))
        };
        let (a, b) = race(&engine, twice("a"), twice("b"));
        assert!(count((a.0, b.0)) <= 1, "the context has one token");
        assert_eq!(count(a) + count(b), 2, "of the resource");
        let passed = ended(&engine, 0, "r").total_pass;
        let origins = engine.origins(at(0), "r");
        let by_origin: u64 = origins.iter().map(|(_, reading)| reading.total_pass).sum();
        let tree = engine.tree(at(0));
        let named = |name: &str| tree.iter().filter(|node| &*node.name == name).count();
        assert_eq!((passed, by_origin, tree[0].reading.total_pass), (2, 2, 2));
        assert_eq!((named("one"), named("two"), origins.len()), (1, 1, 2));
    });
}

#[test]
fn resources_that_are_new_at_once_are_all_kept() {
    model(|| {
        let engine = engine();
        // Of three one shard holds two.
        let (names, others) = (["a", "b"], ["c", "a"]);
        let call = |names: [&'static str; 2]| {
            move |e: &Engine| names.map(|name| passes(e, 0, Call::new(name)))
        };
        race(&engine, call(names), call(others));
        let passed = ["a", "b", "c"].map(|name| ended(&engine, 0, name).total_pass);
        assert_eq!(passed, [2, 1, 1]);
    });
}

#[test]
fn readings_in_the_middle_of_a_call_see_all_of_it_or_nothing() {
    let rules = param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    model(move || {
        let engine = engine();
        engine.load_param(rules.clone());
        assert!(passes(&engine, 0, Call::new("r").args(&text("a"))));
        let look = |e: &Engine| {
            e.tidy(at(5_000));
            let resource = e.resources(at(5_000)).remove(0);
            let node = resource.node;
            let in_progress = i64::from(resource.oldest.is_some());
            assert_eq!(node.threads, in_progress);
            assert_eq!(node.total_pass - node.total_success, node.threads.unsigned_abs());
        };
        let (passed, ()) =
            race(&engine, |e| passes(e, 5_000, Call::new("r").args(&text("a"))), look);
        assert!(passed);
        ended(&engine, 5_000, "r");
        engine.tidy(at(10_000));
        assert_eq!(engine.params(at(10_000), "r").values, 0);
    });
}

#[test]
fn a_value_that_is_in_progress_is_never_tidied_away() {
    let rules = param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    model(move || {
        let engine = engine();
        engine.load_param(rules.clone());
        let args = text("a");
        let held = engine.enter(at(0), Call::new("r").args(&args));
        assert!(is_passed(&held));
        let again = |e: &Engine| passes(e, 5_000, Call::new("r").args(&text("a")));
        let passed = race(&engine, again, |e| {
            e.tidy(at(5_000));
            passes(e, 5_000, Call::new("r").args(&text("a")))
        });
        assert_eq!(count(passed), 0);
        drop(held);
        ended(&engine, 5_000, "r");
    });
}
