//! Rules from a source.

use std::sync::{Arc, Mutex};

use limiter::{
    local::LocalSettings,
    rule::{Contents, RuleErrors, merge, parse, parse_degrade, parse_system},
};
use rule_sources::{Changes, Loaded, LocalRules, RuleSource, WatchError};
use tokio::{
    sync::Notify,
    task::{JoinSet, yield_now},
};

use super::super::log::{keep, lines};
use crate::{Engine, sync::lock};

/// A source that holds flow rules and breakers, and is told by hand that it changed.
#[derive(Debug)]
struct Text {
    flow: Mutex<String>,
    changed: Arc<Notify>,
}

impl Text {
    fn set(&self, flow: &str) {
        flow.clone_into(&mut lock(&self.flow));
        self.changed.notify_one();
    }
}

impl RuleSource for Text {
    fn describe(&self) -> String {
        "a text".into()
    }

    fn load(&self) -> Result<Loaded, RuleErrors> {
        let flow = parse(&lock(&self.flow), "text", "shop", Contents::Flow, false)?;
        let breaker = r#"[{"resource": "b", "grade": 2, "count": 0, "timeWindow": 9,
                           "minRequestAmount": 1}]"#;
        let degrade = parse_degrade(breaker, "text")?.rules;
        let local = LocalRules { degrade, ..LocalRules::default() };
        Ok(Loaded { rules: merge(vec![flow])?, local, files: 2, ..Loaded::default() })
    }

    fn watch(&self) -> Result<Changes, WatchError> {
        Ok(Changes::new(Arc::clone(&self.changed), ()))
    }
}

fn source(flow: &str) -> Arc<Text> {
    Arc::new(Text { flow: Mutex::new(flow.into()), changed: Arc::default() })
}

#[tokio::test]
async fn rules_are_in_force_after_each_change_and_a_mistake_changes_nothing() {
    keep();
    let engine = Engine::new(LocalSettings::default());
    let text = source(r#"[{"resource": "r", "count": 0}]"#);
    engine.load(&*text).unwrap();
    engine.entry("r").try_acquire().unwrap_err();
    engine.entry("b").try_acquire().unwrap().fail();
    engine.entry("b").try_acquire().expect_err("its breaker is open");

    let mut following = JoinSet::new();
    following.spawn(engine.follow(Arc::<Text>::clone(&text)));
    text.set(r#"[{"resource": "r", "count": -1}]"#);
    while !lines().iter().any(|line| line.contains("count")) {
        yield_now().await;
    }
    engine.entry("r").try_acquire().expect_err("the rules before");

    text.set("[]");
    while engine.entry("r").try_acquire().is_err() {
        yield_now().await;
    }
    engine.entry("b").try_acquire().expect_err("an equal breaker stays open");
    drop(engine);
    following.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_the_callers_to_say() {
    keep();
    let engine = Engine::new(LocalSettings::default());
    let errors = engine.load(&*source(r#"[{"resource": "r", "count": -1}]"#)).unwrap_err();
    assert_eq!(errors.0.len(), 1);
}

/// A source that holds limits of all inbound calls.
#[derive(Debug)]
struct Limits(&'static str);

impl RuleSource for Limits {
    fn describe(&self) -> String {
        "limits".into()
    }

    fn load(&self) -> Result<Loaded, RuleErrors> {
        let local =
            LocalRules { system: parse_system(self.0, "text")?.rules, ..Default::default() };
        Ok(Loaded { local, files: 1, ..Loaded::default() })
    }

    fn watch(&self) -> Result<Changes, WatchError> {
        Ok(Changes::new(Arc::default(), ()))
    }
}

#[tokio::test]
async fn a_load_that_changes_only_limits_of_the_system_is_logged() {
    keep();
    let engine = Engine::new(LocalSettings::default());
    for (rules, logged) in [("[]", None), (r#"[{"qps": 5}]"#, Some(1)), (r#"[{"qps": 5}]"#, None)] {
        engine.load(&Limits(rules)).unwrap();
        let line = |rules| format!(r#"INFO rules in force source="limits" rules={rules} files=1"#);
        assert_eq!(lines(), Vec::from_iter(logged.map(line)), "{rules}");
    }
}
