//! Rules that count per client: the threshold follows the connected clients, and `exceedCount` is a
//! factor on all of it.

use limiter::{Ask, ClusterEngine, Decision, Membership, Param, Settings, Tick, What};
use proptest::prelude::*;

use super::{
    START, at, engine,
    kinds::{Kind, OTHERS, SLIDING, Went, of_values},
    load, ms, settings,
};

fn per_client(kind: Kind, count: f64, fields: &str) -> String {
    kind.rule(count, fields, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#)
}

const VALUE: [Param<'static>; 1] = [Param::Long(7)];

fn passes(engine: &ClusterEngine, now: Tick, what: &What<'_>) -> usize {
    let rules = engine.rules();
    let passes = |_: &u32| {
        let explained = rules.ask(now, what, Ask::default()).unwrap();
        matches!(explained.decision, Decision::Pass { .. })
    };
    (0..100).filter(passes).count()
}

/// Those that let a whole count through at once.
fn in_bursts() -> impl Iterator<Item = Kind> {
    let cold = |kind: &Kind| kind.is_queue() || matches!(kind, Kind::WarmUp { .. });
    SLIDING.into_iter().chain(OTHERS).filter(move |kind| !cold(kind))
}

#[test]
fn a_client_that_comes_brings_its_part_and_takes_it_along_when_it_goes() {
    for kind in in_bursts() {
        let engine = engine();
        load(&engine, &[per_client(kind, 3.0, ""), per_client(kind, 3.0, r#""paramIdx":0,"#)]);
        for what in
            [What::Flow { id: 1, count: 1 }, What::Param { id: 1, count: 1, values: &VALUE }]
        {
            let passes = || passes(&engine, at(0), &what);
            assert_eq!(passes(), 0, "{kind:?}: nobody is connected");
            let one = engine.join("ns").unwrap();
            assert_eq!(passes(), 3, "{kind:?}");
            let two = engine.join("ns").unwrap();
            assert_eq!(passes(), 3, "{kind:?}: six in all");
            drop(one);
            assert_eq!(passes(), 0, "{kind:?}: six of three");
            drop(two);
            assert_eq!(passes(), 0, "{kind:?}");
            let _back = [engine.join("ns").unwrap(), engine.join("ns").unwrap()];
            assert_eq!(passes(), 0, "{kind:?}: six of six, though nobody was there");
            let _third = engine.join("ns").unwrap();
            assert_eq!(passes(), 3, "{kind:?}");
        }
    }
}

#[test]
fn turns_that_were_promised_stay_though_all_clients_go_and_come_back() {
    let engine = engine();
    let fields = r#""controlBehavior":2,"maxQueueingTimeMs":900,"#;
    load(
        &engine,
        &[super::rule(10, fields, "").replace(r#""thresholdType":1"#, r#""thresholdType":0"#)],
    );
    let ask = || engine.rules().acquire_flow(at(0), 1, 1, false).unwrap();
    let client = engine.join("ns").unwrap();
    assert_eq!(ask(), Decision::Pass { remaining: 0 });
    assert_eq!(ask(), Decision::Wait { wait: ms(100) });
    drop(client);
    assert_eq!(ask(), Decision::Block);
    let _back = engine.join("ns").unwrap();
    assert_eq!(ask(), Decision::Wait { wait: ms(200) });
}

#[test]
fn exceed_count_is_a_factor_on_flows_and_not_on_values() {
    for (exceed_count, flows) in [(0.0, 0), (0.5, 2), (1.0, 4), (1.5, 6)] {
        for kind in in_bursts() {
            let engine = ClusterEngine::new(Settings { exceed_count, ..settings() });
            load(&engine, &[kind.rule(4.0, "", ""), kind.rule(4.0, r#""paramIdx":0,"#, "")]);
            assert_eq!(passes(&engine, at(0), &What::Flow { id: 1, count: 1 }), flows, "{kind:?}");
            let values = What::Param { id: 1, count: 1, values: &VALUE };
            assert_eq!(passes(&engine, at(0), &values), 4, "{kind:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(i32),
    Clock(u64),
    Join,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_i32..4).prop_map(Step::Ask),
        6 => (0_u64..150_000_000).prop_map(Step::Clock),
        1 => (0_u64..4_000_000_000).prop_map(Step::Clock),
        1 => Just(Step::Join),
        1 => Just(Step::Leave),
    ]
}

fn holds(kind: Kind, is_param: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let engine = engine();
    let fields = if is_param { r#""paramIdx":0,"# } else { "" };
    load(&engine, &[per_client(kind, 2.5, fields)]);
    let (mut now, mut went) = (START * 1_000_000, Vec::new());
    let mut clients: Vec<Membership> = Vec::new();
    for step in steps {
        match step {
            Step::Clock(by) => now += by,
            Step::Join => clients.push(engine.join("ns").unwrap()),
            Step::Leave => drop(clients.pop()),
            Step::Ask(tokens) => {
                let count = 2.5 * clients.len() as f64;
                let tokens = tokens.min(kind.largest(count));
                let what = if is_param {
                    What::Param { id: 1, count: tokens, values: &VALUE }
                } else {
                    What::Flow { id: 1, count: tokens }
                };
                let wait =
                    match engine.rules().ask(Tick(now), &what, Ask::default()).unwrap().decision {
                        Decision::Pass { .. } => 0,
                        Decision::Wait { wait } => wait.as_nanos() as u64,
                        Decision::Block => continue,
                    };
                let goes = now + wait;
                let at = goes - goes % kind.grain();
                went.push(Went { at, asked: at, tokens: tokens as u64, count, spent: None });
            }
        }
    }
    went.sort_by_key(|went| went.at);
    kind.allows(&went).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn clients_that_come_and_go_never_make_a_rule_let_more_through_than_it_promises(
        kind in prop::sample::select([&SLIDING[..], &OTHERS[..]].concat()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        holds(kind, false, steps)?;
    }

    #[test]
    fn nor_a_value(
        kind in prop::sample::select(of_values()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        holds(kind, true, steps)?;
    }
}
