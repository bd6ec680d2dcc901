//! What a call is told to expect is what happens.

use std::{sync::Arc, time::Duration};

use limiter::{
    Param, Tick,
    local::{Arg, Call, EntryType, LocalEngine, Outlook, Quota, Retry, Step},
    rule::{Contents, parse, parse_degrade, parse_system},
};
use proptest::prelude::*;

use crate::support::{at, block, engine, flow, pass, with_flow};

const SECOND: Option<Duration> = Some(Duration::from_secs(1));
const MS: Duration = Duration::from_millis(1);

/// Calls that end at once: after how many milliseconds, of how many tokens, whether they borrow.
type Script = Vec<(u64, u32, bool)>;

fn scripts() -> impl Strategy<Value = Script> {
    let after = prop_oneof![Just(0), 0_u64..40, 0_u64..700, 0_u64..3_000];
    prop::collection::vec((after, 1_u32..4, any::<bool>()), 0..40)
}

fn with_param(rule: &str) -> Arc<LocalEngine> {
    let engine = engine();
    let rules = parse(rule, "test", "", Contents::Param, false).unwrap().rules.param;
    assert_eq!(engine.load_param(rules).rules, 1);
    engine
}

fn made(rule: &str) -> Arc<LocalEngine> {
    if rule.contains("paramIdx") { with_param(rule) } else { with_flow(rule) }
}

const ARGS: &[Arg<'static>] = &[Arg::One(Param::Int(7))];

fn call(n: u32) -> Call<'static> {
    Call::new("r").args(ARGS).count(n)
}

/// An engine after the script, and the tick after it.
fn after(rule: &str, script: &Script) -> (Arc<LocalEngine>, Tick) {
    let (engine, mut now) = (made(rule), at(123));
    for (ms, n, borrows) in script {
        now = now.plus(MS * u32::try_from(*ms).unwrap());
        let asked = if *borrows { call(*n).prioritized() } else { call(*n) };
        // One that waits is not made, but its turn is used.
        if let Step::Passed(entry) = engine.enter(now, asked) {
            entry.exit(now);
        }
    }
    (engine, now)
}

/// Whether a call of `n` is not refused `wait` after the script.
fn is_let_in(rule: &str, script: &Script, wait: Duration, n: u32) -> bool {
    let (engine, now) = after(rule, script);
    !matches!(engine.enter(now.plus(wait), call(n)), Step::Blocked(_))
}

/// How many calls of one token are let in one after the other, at most `most`.
fn let_in(rule: &str, script: &Script, wait: Duration, most: u64) -> u64 {
    let (engine, now) = after(rule, script);
    let enter = |_: &u64| match engine.enter(now.plus(wait), call(1)) {
        Step::Passed(entry) => {
            entry.exit(now.plus(wait));
            true
        }
        Step::Wait(_) | Step::Ask(_) | Step::Blocked(_) => false,
    };
    u64::try_from((0..most).take_while(enter).count()).unwrap()
}

const EXACT: &[&str] = &[
    r#"[{"resource": "r", "count": 7}]"#,
    r#"[{"resource": "r", "count": 2.5}]"#,
    r#"[{"resource": "r", "count": 0}]"#,
    r#"[{"resource": "r", "paramIdx": 0, "count": 4}]"#,
    r#"[{"resource": "r", "paramIdx": 0, "count": 3, "durationInSec": 2, "burstCount": 5}]"#,
    r#"[{"resource": "r", "paramIdx": 0, "count": 9, "paramFlowItemList":
        [{"object": 7, "classType": "int", "count": 2}]}]"#,
];
const PACED: &[&str] = &[
    r#"[{"resource": "r", "count": 7, "controlBehavior": 2, "maxQueueingTimeMs": 300}]"#,
    r#"[{"resource": "r", "count": 0.4, "controlBehavior": 2, "maxQueueingTimeMs": 1}]"#,
    r#"[{"resource": "r", "paramIdx": 0, "count": 7, "controlBehavior": 2,
        "maxQueueingTimeMs": 300}]"#,
    r#"[{"resource": "r", "paramIdx": 0, "count": 2, "durationInSec": 3, "controlBehavior": 2}]"#,
    r#"[{"resource": "r", "count": 20, "controlBehavior": 1, "warmUpPeriodSec": 4}]"#,
];

fn is_exact(rule: &str, script: &Script, n: u32) -> Result<(), TestCaseError> {
    let (engine, now) = after(rule, script);
    let outlook = engine.outlook(now, &call(n));
    match outlook.retry {
        Retry::After(wait) => {
            prop_assert!(is_let_in(rule, script, wait, n), "{} {:?}", rule, outlook);
            if let Some(before) = wait.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(!is_let_in(rule, script, before, n), "{} {:?}", rule, outlook);
            }
        }
        Retry::Never => {
            for wait in [0, 500, 1_000, 1_500, 100_000] {
                prop_assert!(!is_let_in(rule, script, wait * MS, n), "{} {:?}", rule, outlook);
            }
        }
        Retry::Unknown => prop_assert!(false, "{:?}", outlook),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A nanosecond before the time the call is refused, at that time it is not.
    #[test]
    fn the_time_of_a_retry_is_exact(script in scripts(), n in 1_u32..4) {
        for rule in EXACT.iter().chain(PACED) {
            is_exact(rule, &script, n)?;
        }
    }

    #[test]
    fn as_many_pass_as_remain_and_one_more_when_it_is_said_to(script in scripts()) {
        for rule in EXACT {
            let (engine, now) = after(rule, &script);
            let quota = engine.outlook(now, &call(1)).quota.unwrap();
            let Quota { remaining, more_in, .. } = quota;
            prop_assert_eq!(let_in(rule, &script, Duration::ZERO, 20), remaining, "{}", rule);
            if let Some(wait) = more_in {
                let before = wait.checked_sub(Duration::from_nanos(1)).unwrap();
                prop_assert_eq!(let_in(rule, &script, before, 20), remaining, "{}", rule);
                let more = let_in(rule, &script, wait, 20);
                prop_assert!(more > remaining, "{} {} {:?}", rule, more, quota);
            } else {
                let later = let_in(rule, &script, Duration::from_secs(100), 20);
                prop_assert_eq!(later, remaining, "{} {:?}", rule, quota);
            }
        }
    }
}

fn quota(limit: u64, remaining: u64, more_ms: Option<u32>) -> Option<Quota> {
    let more_in = more_ms.map(|ms| ms * MS);
    Some(Quota { window: SECOND, limit, remaining, more_in })
}

#[test]
fn looking_takes_nothing_and_a_resource_without_rules_has_no_quota() {
    let engine = with_flow(r#"[{"resource": "r", "count": 2}]"#);
    for _ in 0..5 {
        let seen = engine.outlook(at(0), &Call::new("r"));
        let expected = Outlook { retry: Retry::After(Duration::ZERO), quota: quota(2, 2, None) };
        assert_eq!(seen, expected);
    }
    assert_eq!(engine.node(at(0), "r"), None);
    assert_eq!(engine.outlook(at(0), &Call::new("other")).quota, None);
    assert!(engine.has_rules("r") && !engine.has_rules("other"));
    engine.load_flow(flow(r#"[{"resource": "o.*", "count": 2, "regex": true}]"#));
    assert!(!engine.has_rules("r") && engine.has_rules("other"));
}

#[test]
fn the_rule_that_leaves_least_is_shown_and_the_latest_time_holds() {
    let engine = with_flow(
        r#"[{"resource": "r", "count": 100}, {"resource": "r", "count": 1, "limitApp": "shop"}]"#,
    );
    let of = |origin: &'static str| Call::new("r").origin(origin);
    pass(engine.enter(at(100), of("shop"))).exit(at(100));
    let shop = engine.outlook(at(200), &of("shop"));
    assert_eq!(shop, Outlook { retry: Retry::After(800 * MS), quota: quota(1, 0, Some(800)) });
    let other = engine.outlook(at(200), &of("desk"));
    assert_eq!(other.quota, quota(100, 99, Some(800)));
}

#[test]
fn calls_in_progress_end_when_they_like() {
    let engine = with_flow(r#"[{"resource": "r", "count": 2, "grade": 0}]"#);
    let held = pass(engine.enter(at(0), Call::new("r").count(1)));
    let seen = |n| engine.outlook(at(10), &Call::new("r").count(n));
    assert_eq!(seen(1).retry, Retry::After(Duration::ZERO));
    assert_eq!(seen(2).retry, Retry::Unknown);
    assert_eq!(seen(3).retry, Retry::Never);
    let left = Quota { window: None, limit: 2, remaining: 1, more_in: None };
    assert_eq!(seen(1).quota, Some(left));
    held.exit(at(20));
    let rule = r#"[{"resource": "r", "paramIdx": 0, "count": 1, "grade": 0}]"#;
    let engine = with_param(rule);
    let _held = pass(engine.enter(at(0), call(1)));
    let seen = engine.outlook(at(0), &call(1));
    let left = Quota { window: None, limit: 1, remaining: 0, more_in: None };
    assert_eq!(seen, Outlook { retry: Retry::Unknown, quota: Some(left) });
}

#[test]
fn an_open_breaker_says_when_it_lets_a_probe_through() {
    let engine = engine();
    let rule = r#"[{"resource": "r", "grade": 2, "count": 0, "minRequestAmount": 1,
        "timeWindow": 5}]"#;
    engine.load_degrade(parse_degrade(rule, "test").unwrap().rules);
    let mut failed = pass(engine.enter(at(0), Call::new("r")));
    failed.fail();
    failed.exit(at(1_000));
    block(engine.enter(at(2_000), Call::new("r")));
    let retry = |ms| engine.outlook(at(ms), &Call::new("r")).retry;
    assert_eq!(
        (retry(2_000), retry(6_000)),
        (Retry::After(4_000 * MS), Retry::After(Duration::ZERO))
    );
    let _probe = pass(engine.enter(at(6_000), Call::new("r")));
    // When the next probe is let through, if this one does not end before.
    assert_eq!(retry(6_001), Retry::After(4_999 * MS));
}

#[test]
fn system_rules_and_authority_say_what_they_know() {
    let engine = engine();
    engine.load_system(&parse_system(r#"[{"qps": 1}]"#, "test").unwrap().rules);
    let inbound = || Call::new("r").entry_type(EntryType::In);
    pass(engine.enter(at(600), inbound())).exit(at(600));
    block(engine.enter(at(700), inbound()));
    assert_eq!(engine.outlook(at(700), &inbound()).retry, Retry::After(800 * MS));
    assert_eq!(engine.outlook(at(700), &Call::new("r")).retry, Retry::After(Duration::ZERO));
    assert_eq!(engine.outlook(at(700), &inbound().count(2)).retry, Retry::Never);
    engine.load_system(&parse_system(r#"[{"maxThread": 0}]"#, "test").unwrap().rules);
    let _held = pass(engine.enter(at(2_000), inbound()));
    assert_eq!(engine.outlook(at(2_000), &inbound()).retry, Retry::Unknown);
}

#[test]
fn who_asks_a_server_is_not_told_what_is_counted_here() {
    let engine = engine();
    let text = r#"[{"resource": "r", "count": 0, "clusterMode": true,
        "clusterConfig": {"flowId": 7, "fallbackToLocalWhenFail": true}}]"#;
    engine.load_flow(flow(text));
    let seen = engine.outlook(at(0), &Call::new("r"));
    assert_eq!(seen, Outlook { retry: Retry::After(Duration::ZERO), quota: None });
}
