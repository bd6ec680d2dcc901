//! Rules that are loaded while a call is on its way.

use std::{
    borrow::Cow,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use limiter::{
    local::{BlockKind, Call, GatewayRequest, LocalEngine, Step},
    rule::{GatewayFlowRule, ResourceMode, parse_degrade, parse_gateway},
};

use crate::support::{at, block, engine, flow, pass, with_flow};

const BY_ADDRESS: &str = r#"{"resource": "r", "count": 100, "paramItem": {"parseStrategy": 0}}"#;

/// A request during whose reading rules are loaded, once.
struct Loading {
    engine: Weak<LocalEngine>,
    load: fn(&LocalEngine),
    has_loaded: AtomicBool,
}

impl Loading {
    fn new(engine: &Arc<LocalEngine>, load: fn(&LocalEngine)) -> Self {
        Self { engine: Arc::downgrade(engine), load, has_loaded: AtomicBool::new(false) }
    }
}

impl GatewayRequest for Loading {
    fn client_ip(&self) -> Option<Cow<'_, str>> {
        // Relaxed: one thread.
        if !self.has_loaded.swap(true, Ordering::Relaxed) {
            (self.load)(&self.engine.upgrade().unwrap());
        }
        Some("1.1.1.1".into())
    }
}

fn gateway(rules: &str) -> Vec<GatewayFlowRule> {
    parse_gateway(&format!("[{rules}]"), "test").unwrap().rules
}

fn load_other(engine: &LocalEngine, name: usize) {
    let rule = format!(r#"[{{"resource": "{name}", "grade": 2, "count": 1, "timeWindow": 1}}]"#);
    engine.load_degrade(parse_degrade(&rule, "test").unwrap().rules);
}

#[test]
fn a_load_in_the_middle_of_a_call_leaves_no_rule_out_that_looks_at_another_resource() {
    let of_b = r#"[{"resource": "r", "count": 0, "strategy": 1, "refResource": "b"}]"#;
    for rules in [of_b, r#"[{"resource": "r", "count": 9, "strategy": 1, "refResource": "a"}]"#] {
        let engine = with_flow(rules);
        engine.load_gateway(gateway(BY_ADDRESS));
        for other in ["a", "b"] {
            drop(pass(engine.enter(at(0), Call::new(other))));
        }
        let request = Loading::new(&engine, |engine| {
            load_other(engine, 0);
            engine.load_flow(flow(
                r#"[{"resource": "r", "count": 0, "strategy": 1, "refResource": "b"}]"#,
            ));
        });
        let call = Call::new("r").gateway(ResourceMode::Route, &request);
        assert_eq!(block(engine.enter(at(0), call)).kind(), BlockKind::Flow);
    }
}

#[test]
fn loads_next_to_calls_leave_no_rule_out_that_looks_at_another_resource() {
    let engine =
        with_flow(r#"[{"resource": "r", "count": 0, "strategy": 1, "refResource": "other"}]"#);
    drop(pass(engine.enter(at(0), Call::new("other"))));
    let (passed, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Relaxed: the scope joins the threads.
                while !is_over.load(Ordering::Relaxed) {
                    if matches!(engine.enter(at(0), Call::new("r")), Step::Passed(_)) {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for name in 0..500 {
            load_other(&engine, name);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(passed.into_inner(), 0, "the rule was in force all the time");
}

#[test]
fn a_request_is_held_to_the_gateway_rules_that_were_loaded_while_it_was_read() {
    let engine = engine();
    engine.load_gateway(gateway(BY_ADDRESS));
    let request = Loading::new(&engine, |engine| {
        engine.load_gateway(gateway(&format!(r#"{BY_ADDRESS}, {{"resource": "r", "count": 0}}"#)));
    });
    let call = Call::new("r").gateway(ResourceMode::Route, &request);
    assert_eq!(block(engine.enter(at(0), call)).kind(), BlockKind::Gateway);
}
