//! What is done for an engine once a second.

use std::{fs, time::Duration};

use limiter::{
    Param,
    local::{Arg, SystemStatus},
    rule::{Contents, ParamRule, parse, parse_system},
};
use tokio::{task::JoinSet, time::sleep};

use super::{super::log, with_flow};
use crate::{Engine, SystemReader};

const SECOND: Duration = Duration::from_secs(1);

fn param_rules(text: &str) -> Vec<ParamRule> {
    parse(text, "test", "", Contents::Param, false).unwrap().rules.param
}

/// Keeps the engine in a task.
fn keep(engine: &Engine) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let nowhere = tempfile::tempdir().unwrap();
    tasks.spawn(engine.keep_with(SystemReader::new(nowhere.path())));
    tasks
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_last_clone_whatever_guards_and_registries_remain() {
    let engine = with_flow("[]");
    let mut registry = prometheus_client::registry::Registry::default();
    engine.register_metrics(&mut registry);
    let (mut tasks, clone) = (keep(&engine), engine.clone());
    let guard = clone.entry("r").acquire().await.unwrap();
    drop(engine);
    sleep(3 * SECOND).await;
    assert!(tasks.try_join_next().is_none());
    drop(clone);
    tasks.join_next().await.unwrap().unwrap();
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn system_rules_learn_how_busy_the_machine_is() {
    let engine = with_flow("[]");
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    let put = |file: &str, text: &str| fs::write(root.path().join("proc").join(file), text);
    put("loadavg", "0.25 0 0 1/2 3\n").unwrap();
    put("stat", "cpu  100 0 0 100 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0\n").unwrap();
    let rules = parse_system(r#"[{"highestCpuUsage": 0.7}]"#, "test").unwrap().rules;
    engine.local().load_system(&rules);
    let mut tasks = JoinSet::new();
    tasks.spawn(engine.keep_with(SystemReader::new(root.path())));
    sleep(SECOND / 2).await;
    assert_eq!(engine.local().status(), SystemStatus { load: 0.25, cpu: -1.0 });
    drop(engine.entry("r").inbound().acquire().await.unwrap());
    put("stat", "cpu  175 0 0 125 0 0 0 0\ncpu0 175 0 0 125 0 0 0 0\n").unwrap();
    sleep(SECOND).await;
    assert_eq!(engine.local().status(), SystemStatus { load: 0.25, cpu: 0.75 });
    let refused = engine.entry("r").inbound().acquire().await.unwrap_err();
    assert_eq!(refused.to_string(), "system rule: cpu");
    drop(engine.entry("r").acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn calls_without_the_argument_of_a_rule_are_logged_once_a_resource_and_rule() {
    let engine = with_flow("[]");
    let rules = r#"[{"resource": "a", "paramIdx": 0, "count": 1},
                    {"resource": "a", "paramIdx": 1, "count": 1},
                    {"resource": "b", "paramIdx": 0, "count": 1}]"#;
    engine.local().load_param(param_rules(rules));
    let _tasks = keep(&engine);
    let call = async |resource: &str, args: &[Arg<'_>]| {
        drop(engine.entry(resource).args(args).acquire().await.unwrap());
    };
    log::lines();
    for number in 0..3 {
        call("a", &[Arg::One(Param::Int(number))]).await;
        sleep(SECOND).await;
    }
    let line = |resource, index| {
        format!(
            "WARN calls without the argument of a hot-parameter rule are not limited by it \
             resource={resource} param_idx={index}"
        )
    };
    assert_eq!(log::lines(), [line("a", 1)]);
    call("a", &[]).await;
    call("b", &[]).await;
    sleep(2 * SECOND).await;
    assert_eq!(log::lines(), [line("a", 0), line("b", 0)]);
    // One that goes and comes back is a new rule.
    engine.local().load_param(Vec::new());
    sleep(2 * SECOND).await;
    engine.local().load_param(param_rules(rules));
    call("b", &[]).await;
    sleep(2 * SECOND).await;
    assert_eq!(log::lines(), [line("b", 0)]);
}

#[tokio::test(start_paused = true)]
async fn unused_values_are_given_back() {
    let engine = with_flow("[]");
    engine.local().load_param(param_rules(r#"[{"resource": "r", "paramIdx": 0, "count": 1}]"#));
    let _tasks = keep(&engine);
    for number in 0..50 {
        drop(engine.entry("r").args(&[Arg::One(Param::Int(number))]).acquire().await.unwrap());
    }
    assert_eq!(engine.local().params(engine.now(), "r").values, 50);
    sleep(10 * SECOND).await;
    assert_eq!(engine.local().params(engine.now(), "r").values, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_writes_no_line() {
    let engine = with_flow(r#"[{"resource": "r", "count": 0}]"#);
    let _tasks = keep(&engine);
    log::lines();
    for _ in 0..100 {
        engine.entry("r").acquire().await.unwrap_err();
    }
    sleep(2 * SECOND).await;
    assert_eq!(log::lines(), Vec::<String>::new());
}
