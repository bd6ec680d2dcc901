//! A refusal says when to come back: a nanosecond earlier the same request is still refused, and at
//! that time it is admitted, if nobody else asks meanwhile. Under every algorithm, for flows and for
//! values.
#![expect(clippy::unwrap_used, reason = "the rules are what the test wrote")]

use std::time::Duration;

use limiter::{
    Ask, ClusterEngine, Decision, Explained, Param, Record, Settings, Tick, What,
    rule::{Contents, NamespaceRules, merge, parse},
};
use proptest::prelude::*;

/// Fields of the rule, and of its `clusterConfig`.
const KINDS: [(&str, &str); 15] = [
    ("", ""),
    ("", r#","windowIntervalMs":3000,"sampleCount":2"#),
    ("", r#","windowIntervalMs":600,"sampleCount":3,"thresholdUnit":"window""#),
    ("", r#","windowIntervalMs":700,"sampleCount":1,"thresholdUnit":"window""#),
    ("", r#","lease":{"maxTokens":3,"ttlMs":170}"#),
    ("", r#","algorithm":"fixedWindow","windowIntervalMs":700"#),
    ("", r#","algorithm":"slidingLog","windowIntervalMs":2000,"thresholdUnit":"window""#),
    ("", r#","algorithm":"tokenBucket","burst":4"#),
    ("", r#","algorithm":"leakyBucket","windowIntervalMs":60000,"thresholdUnit":"window""#),
    ("", r#","algorithm":"gcra","burst":3"#),
    ("", r#","calendar":"minute","timeZone":"Asia/Kolkata""#),
    (r#","controlBehavior":2,"maxQueueingTimeMs":400"#, ""),
    (r#","controlBehavior":1,"warmUpPeriodSec":3"#, ""),
    (r#","controlBehavior":1,"warmUpPeriodSec":5"#, r#","windowIntervalMs":2000,"sampleCount":4"#),
    (r#","controlBehavior":3,"warmUpPeriodSec":3,"maxQueueingTimeMs":700"#, r#","coldFactor":5"#),
];

/// A flow rule and a hot-parameter rule, both with id 1. Hot parameters know no warm-up and no
/// leases.
fn rules(count: f64, (fields, cluster): (&str, &str)) -> Vec<NamespaceRules> {
    let flow = format!(
        r#"[{{"resource":"f","count":{count},"clusterMode":true{fields},
            "clusterConfig":{{"flowId":1,"thresholdType":1{cluster}}}}}]"#
    );
    let cluster = if cluster.contains("lease") { "" } else { cluster };
    let param = format!(
        r#"[{{"resource":"p","paramIdx":0,"count":{count},"clusterMode":true{fields},
            "paramFlowItemList":[{{"object":"7","count":2,"classType":"long"}}],
            "clusterConfig":{{"flowId":1,"thresholdType":1{cluster}}}}}]"#
    );
    let flow = parse(&flow, "test", "ns", Contents::Flow, true).unwrap();
    let param = parse(&param, "test", "ns", Contents::Param, true).unwrap();
    merge(vec![flow, param]).unwrap()
}

fn engine(rules: &[NamespaceRules]) -> ClusterEngine {
    let engine = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    engine.replace(rules.to_vec()).unwrap();
    engine
}

/// The same engine, to look into its future: time does not go back, and ours goes on.
fn copy(engine: &ClusterEngine, now: Tick, rules: &[NamespaceRules]) -> ClusterEngine {
    let mut records: Vec<Record> = Vec::new();
    let saved = engine.save(now, |record| {
        records.push(record);
        Ok::<(), ()>(())
    });
    saved.unwrap();
    let copy = ClusterEngine::new(Settings { max_allowed_qps: None, ..Settings::default() });
    copy.restore(now, now, records);
    copy.replace(rules.to_vec()).unwrap();
    copy
}

fn admitted(explained: &Explained) -> bool {
    explained.decision != Decision::Block
}

/// What it says about a refused request must be so.
fn holds(
    (engine, rules): (&ClusterEngine, &[NamespaceRules]),
    now: Tick,
    what: &What<'_>,
    ask: Ask,
) -> Result<(), TestCaseError> {
    let peek = Ask { peek: true, ..ask };
    let said = engine.snapshot().ask(now, what, peek).unwrap();
    let asked = engine.snapshot().ask(now, what, ask).unwrap();
    prop_assert_eq!(
        (&said.decision, said.retry),
        (&asked.decision, asked.retry),
        "peek: {:?}",
        what
    );
    if admitted(&asked) {
        prop_assert_eq!(asked.retry, None);
        return Ok(());
    }
    let copy = copy(engine, now, rules);
    let at = |tick| copy.snapshot().ask(tick, what, peek).unwrap();
    match asked.retry {
        Some(retry) => {
            prop_assert!(retry > Duration::ZERO, "{:?}", asked);
            prop_assert!(
                !admitted(&at(now.plus(retry - Duration::from_nanos(1)))),
                "early: {:?}",
                asked
            );
            prop_assert!(
                admitted(&at(now.plus(retry))),
                "late: {:?} {:?}",
                asked,
                at(now.plus(retry))
            );
        }
        None => {
            for days in [1, 400, 40_000] {
                let later = now.plus(Duration::from_secs(days * 86_400));
                prop_assert!(!admitted(&at(later)), "never, but after {} days: {:?}", days, asked);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_time_to_the_next_token_is_exact(
        kind in prop::sample::select(KINDS.to_vec()),
        count in prop::sample::select(vec![0.0, 0.4, 1.0, 3.0, 7.5]),
        start in 1_700_000_000_000_000_000_u64..1_700_000_100_000_000_000,
        steps in prop::collection::vec(
            (0_u64..400_000_000, 1_i32..5, any::<bool>(), prop::option::of(0_u64..300), 0_u8..8), 1..60),
    ) {
        let rules = rules(count, kind);
        let engine = &(&engine(&rules), &rules[..]);
        let mut now = Tick(start);
        for (by, count, prioritized, max_wait, what) in steps {
            now = now.plus(Duration::from_nanos(by));
            // A queue is forgotten once its longest wait is over, though a call for more tokens than
            // fit into it would still be refused then; a copy of the engine has forgotten it.
            let (count, what) = if kind.0.is_empty() { (count, what) } else { (1, what.min(6)) };
            let ask = Ask { prioritized, peek: false, max_wait: max_wait.map(Duration::from_millis) };
            let value = [Param::Long(7), Param::Long(8), Param::Long(8)];
            match what {
                0..4 => holds(*engine, now, &What::Flow { id: 1, count }, ask)?,
                4 => drop(engine.0.snapshot().lease(now, 1, count.unsigned_abs(), None).unwrap()),
                5 => holds(*engine, now, &What::Param { id: 1, count, values: &value[..1] }, ask)?,
                6 => holds(*engine, now, &What::Param { id: 1, count, values: &value[1..2] }, ask)?,
                _ => holds(*engine, now, &What::Param { id: 1, count, values: &value }, ask)?,
            }
        }
    }
}
