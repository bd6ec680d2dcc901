//! Calls on their way while rules are loaded.

use limiter::{
    local::{Call, EntryType, Step},
    rule::parse_system,
};

use crate::support::*;

fn r() -> Call<'static> {
    Call::new("r")
}

#[test]
fn rules_that_are_in_force_are_never_passed_by_and_never_forgotten() {
    let (none, all) = (Vec::new(), flow(r#"[{"resource": "r", "count": 0}]"#));
    model(move || {
        let engine = with_flow(&none);
        let of_other = all.clone();
        let (_, after) = race(
            &engine,
            |e| passes(e, 0, r()),
            |e| {
                e.load_flow(of_other);
                passes(e, 0, r())
            },
        );
        assert!(!after && !passes(&engine, 0, r()));
        ended(&engine, 0, "r");
    });
}

#[test]
fn an_equal_rule_counts_on_while_others_come_and_go() {
    let one = r#"{"resource": "r", "count": 1}"#;
    let before = flow(&format!("[{one}]"));
    let after = flow(&format!(r#"[{{"resource": "r", "count": 5, "grade": 0}}, {one}]"#));
    model(move || {
        let engine = with_flow(&before);
        let of_other = after.clone();
        let passed = race(
            &engine,
            |e| passes(e, 0, r()),
            |e| {
                e.load_flow(of_other);
                passes(e, 0, r())
            },
        );
        assert_eq!(count(passed), 1);
        assert_eq!(ended(&engine, 0, "r").total_pass, 1);
    });
}

#[test]
fn calls_in_progress_stay_in_progress_while_rules_are_loaded() {
    let one = r#"{"resource": "r", "count": 1, "grade": 0}"#;
    let before = flow(&format!("[{one}]"));
    let after = flow(&format!(r#"[{{"resource": "r", "count": 5}}, {one}]"#));
    model(move || {
        let (engine, open, of_other) = (with_flow(&before), Open::new(), after.clone());
        let by_other = open.clone();
        let loading = move |e: &Engine| {
            e.load_flow(of_other);
            by_other.alone(e, r())
        };
        let passed = race(&engine, loading, |e| open.alone(e, r()));
        assert_eq!(ended(&engine, 0, "r").total_pass, count(passed) as u64);
        assert!(open.alone(&engine, r()));
    });
}

#[test]
fn a_value_is_in_progress_until_its_call_ends_whatever_rules_come_and_go() {
    let rules = param(r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#);
    model(move || {
        let (engine, open) = (engine(), Open::new());
        engine.load_param(rules.clone());
        let held = open.begin(&engine, r().args(&text("a"))).unwrap();
        let (of_other, by_other) = (rules.clone(), open.clone());
        let loading = move |e: &Engine| {
            e.load_param(Vec::new());
            let unlimited = passes(e, 0, r().args(&text("a")));
            e.load_param(of_other);
            by_other.alone(e, r().args(&text("a")));
            unlimited
        };
        let (unlimited, ()) = race(&engine, loading, |_| open.end(held));
        assert!(unlimited);
        let held = open.begin(&engine, r().args(&text("a"))).unwrap();
        assert!(!passes(&engine, 0, r().args(&text("a"))));
        open.end(held);
        ended(&engine, 0, "r");
    });
}

/// Whoever is second in the queue waits for twice as long, also if rules are loaded between the
/// two, and after its wait nobody waits again.
#[test]
fn a_turn_in_a_queue_is_given_once_and_kept_while_rules_are_loaded() {
    let paced = r#"{"resource": "r", "count": 10, "controlBehavior": 2,
                    "maxQueueingTimeMs": 500}"#;
    let before = flow(&format!("[{paced}]"));
    let after = flow(&format!(r#"[{paced}, {{"resource": "r", "count": 5}}]"#));
    model(move || {
        fn waited(engine: &Engine) -> u64 {
            let Step::Wait(waiting) = engine.enter(at(0), r()) else { panic!("no turn") };
            let ms = u64::try_from(waiting.wait().as_millis()).unwrap();
            assert!(is_passed(&waiting.resume(at(ms))));
            ms
        }
        let engine = with_flow(&before);
        assert!(passes(&engine, 0, r()));
        let of_other = after.clone();
        let (a, b) = race(&engine, waited, |e| {
            e.load_flow(of_other);
            waited(e)
        });
        // The engine has seen the end of the first wait when the second call is made after it.
        assert!([(100, 200), (200, 100), (100, 100)].contains(&(a, b)), "{a} {b}");
        let reading = ended(&engine, 200, "r");
        assert_eq!(reading.total_pass, 3);
    });
}

#[test]
fn a_call_that_is_given_up_while_rules_are_loaded_leaves_nothing_behind() {
    let paced = r#"{"resource": "r", "count": 10, "controlBehavior": 2}"#;
    let before = flow(&format!("[{paced}]"));
    let after = flow(&format!(r#"[{paced}, {{"resource": "r", "count": 5, "grade": 0}}]"#));
    model(move || {
        let engine = with_flow(&before);
        assert!(passes(&engine, 0, r()));
        let Step::Wait(waiting) = engine.enter(at(0), r()) else { panic!("no turn") };
        drop(waiting);
        let of_other = after.clone();
        race(
            &engine,
            |e| drop(e.enter(at(0), r())),
            |e| {
                e.load_flow(of_other);
                drop(e.enter(at(0), r()));
            },
        );
        let reading = ended(&engine, 0, "r");
        assert_eq!((reading.total_pass, reading.total_block), (1, 0));
        let Step::Wait(waiting) = engine.enter(at(0), r()) else { panic!("no turn") };
        assert_eq!(waiting.wait().as_millis(), 400, "three turns were given and stay used");
    });
}

#[test]
fn two_loads_at_once_both_come_into_force() {
    let (of_flow, of_param) = (
        flow(r#"[{"resource": "a", "count": 0}]"#),
        param(r#"[{"resource": "b", "paramIdx": 0, "count": 0}]"#),
    );
    model(move || {
        let engine = engine();
        let (of_flow, of_param) = (of_flow.clone(), of_param.clone());
        let load_flow = |e: &Engine| e.load_flow(of_flow).rules;
        race(&engine, load_flow, |e| e.load_param(of_param).rules);
        assert!(!passes(&engine, 0, Call::new("a")));
        assert!(!passes(&engine, 0, Call::new("b").args(&text("v"))));
    });
}

#[test]
fn a_call_that_began_before_the_system_rule_ends_where_it_began() {
    let rules = parse_system(r#"[{"maxThread": 0}]"#, "model").unwrap().rules;
    model(move || {
        let engine = engine();
        let inbound = |resource| Call::new(resource).entry_type(EntryType::In);
        let of_other = rules.clone();
        race(
            &engine,
            move |e| passes(e, 0, inbound("a")),
            |e| {
                e.load_system(&of_other);
                passes(e, 0, inbound("b"))
            },
        );
        assert_eq!(engine.inbound(at(0)).threads, 0);
        let held = engine.enter(at(0), inbound("a"));
        assert!(is_passed(&held) && !passes(&engine, 0, inbound("b")));
    });
}

#[test]
fn an_engine_that_is_switched_off_in_the_middle_of_a_call_counts_it_whole_or_not_at_all() {
    model(|| {
        let engine = engine();
        assert!(passes(&engine, 0, r()));
        let (passed, ()) = race(&engine, |e| passes(e, 0, r()), |e| e.set_enabled(false));
        assert!(passed);
        let reading = ended(&engine, 0, "r");
        assert_eq!(reading.total_pass, reading.total_success);
    });
}
