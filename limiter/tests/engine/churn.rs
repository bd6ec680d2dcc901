//! Rules that come and go: nothing of them stays once it no longer counts.

use std::time::{Duration, UNIX_EPOCH};

use limiter::{ClusterEngine, Decision, Param, Settings, What};

use super::{at, load, rule, settings};

/// Flow rules and hot-parameter rules with the ids of one round.
fn rules(round: i64) -> Vec<String> {
    let of = |id: i64, fields: &str| {
        let algorithm = match id % 3 {
            0 => r#","algorithm":"tokenBucket""#,
            1 => r#","lease":{"maxTokens":5,"ttlMs":200}"#,
            _ => "",
        };
        let algorithm = if fields.is_empty() || id % 3 == 0 { algorithm } else { "" };
        let config = format!(r#","localCount":{id}{algorithm}"#);
        rule(5, fields, &config).replace(r#""flowId":1"#, &format!(r#""flowId":{id}"#))
    };
    let ids = 1_000 * round + 1..=1_000 * round + 500;
    let flows = ids.clone().map(|id| of(id, ""));
    flows.chain(ids.map(|id| of(id, r#""paramIdx":0,"#))).collect()
}

fn saved(engine: &ClusterEngine, ms: u64) -> usize {
    let mut records = 0;
    let saved: Result<(), ()> = engine.save(at(ms), |_| {
        records += 1;
        Ok(())
    });
    saved.unwrap();
    records
}

#[test]
fn a_hundred_thousand_ids_leave_nothing_behind() {
    // Room for the values of two rounds, so that what is not given back is missed.
    let settings = Settings { values_bytes_max: 2 * 500 * 8 * 400, ..settings() };
    let engine = ClusterEngine::new(settings);
    let value = |value| [Param::Long(value)];
    for round in 0..100_i64 {
        let ms = 600 * round as u64;
        let applied = load(&engine, &rules(round));
        assert_eq!((applied.revision, applied.flows, applied.params), (round as u64 + 1, 500, 500));
        let rules = engine.rules();
        for (id, _) in rules.flows() {
            assert_eq!(
                rules.acquire_flow(at(ms), id, 5, false),
                Ok(Decision::Pass { remaining: 0 })
            );
            let _granted_or_not = rules.lease(at(ms), id, 1, None).unwrap();
            for key in 0..3 {
                let decided = rules.acquire_param(at(ms), id, 5, value(key));
                assert_eq!(decided, Ok(Decision::Pass { remaining: 0 }), "round {round}");
            }
        }
        for (_, param) in rules.params() {
            assert_eq!((param.totals().overflow_uses, param.totals().values), (0, 3));
        }
        drop(rules);
        engine.tidy(at(ms), UNIX_EPOCH + Duration::from_millis(ms));
        // What counts is that of this round and of the one before.
        assert!(saved(&engine, ms) <= 2 * 1_000, "{}", saved(&engine, ms));
    }
    load(&engine, &[]);
    engine.tidy(at(100_000), UNIX_EPOCH);
    assert_eq!(saved(&engine, 100_000), 0);
}

#[test]
fn values_of_a_rule_that_counts_anew_give_their_memory_back() {
    let settings = Settings { values_bytes_max: 400 * 1_000, ..settings() };
    let engine = ClusterEngine::new(settings);
    for round in 0..20 {
        let window = 1_000 * (1 + round % 2);
        let config = format!(r#","windowIntervalMs":{window}"#);
        load(&engine, &[rule(5, r#""paramIdx":0,"#, &config)]);
        let rules = engine.rules();
        for key in 0..1_000 {
            rules.acquire_param(at(0), 1, 1, [Param::Long(key)]).unwrap();
        }
        assert_eq!(rules.param(1).unwrap().totals().overflow_uses, 0, "round {round}");
        drop(rules);
        engine.tidy(at(0), UNIX_EPOCH);
    }
}

#[test]
fn a_debt_that_is_paid_for_years_keeps_no_other_value() {
    let engine = ClusterEngine::new(Settings { values_max: 1_000, ..settings() });
    load(&engine, &[rule(1, r#""paramIdx":0,"#, r#","algorithm":"tokenBucket""#)]);
    let rules = engine.rules();
    for debtor in 0..10 {
        let values = &[Param::Long(-1 - debtor)];
        rules.charge(at(0), &What::Param { id: 1, count: i32::MAX, values }).unwrap();
    }
    for key in 0..100_000_u64 {
        let decided = rules.acquire_param(at(10 * key), 1, 1, [Param::Long(key.cast_signed())]);
        assert_eq!(decided, Ok(Decision::Pass { remaining: 0 }));
    }
    let totals = rules.param(1).unwrap().totals();
    assert_eq!(totals.overflow_uses, 0);
    assert!(totals.values < 300, "those of the last second and the debtors: {}", totals.values);
}

/// As it ships, ten million; the suite with debug assertions has fewer.
const ONE_SHOTS: u64 = if cfg!(debug_assertions) { 200_000 } else { 10_000_000 };

#[test]
fn a_flood_of_one_shot_values_stays_under_the_cap_and_neither_wipes_nor_tightens_a_limit() {
    // Within ten seconds, so that ten times as many count at once as have room.
    let cap = ONE_SHOTS / 100;
    for algorithm in ["slidingWindow", "tokenBucket"] {
        let engine = ClusterEngine::new(Settings { values_max: cap as usize, ..settings() });
        let config = format!(r#","algorithm":"{algorithm}""#);
        load(&engine, &[rule(5, r#""paramIdx":0,"#, &config)]);
        let rules = engine.rules();
        let param = rules.param(1).unwrap();
        let ask = |ms, value| rules.acquire_param(at(ms), 1, 1, [Param::Long(value)]).unwrap();
        let mut passed = Vec::new();
        for one in 0..ONE_SHOTS {
            let ms = one * 10_000 / ONE_SHOTS;
            if one.is_multiple_of(ONE_SHOTS / 2_000) && ask(ms, -1) != Decision::Block {
                passed.push(ms);
            }
            ask(ms, one.cast_signed());
        }
        let totals = param.totals();
        assert!(totals.values <= cap as usize && totals.overflow_uses > 0, "{totals:?}");
        // Five at once and five in each second after the first; a bucket has its burst besides.
        let right = if algorithm == "tokenBucket" { 5 + 49 } else { 5 * 10 };
        assert_eq!(passed.len(), right, "{algorithm}: {passed:?}");
        engine.tidy(at(12_000), UNIX_EPOCH);
        assert_eq!(param.totals().values, 0, "{algorithm}");
    }
}
