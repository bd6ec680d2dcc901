//! Loads that leave the rules of a resource as they are, whatever comes and goes beside them: an
//! engine that is loaded at any time says and counts what one says that never is.

use limiter::{
    Param,
    local::{Arg, Call, EntryType, Step},
};
use proptest::prelude::*;

use crate::{
    rounds::{BESIDE, NONE, Rules, Side, load, said},
    support::at,
};

/// What may happen. A number chooses among the calls that there are.
#[derive(Clone, Copy, Debug)]
enum Event {
    Call { value: usize, prioritized: bool },
    Resume(usize),
    GiveUp(usize),
    End(usize, bool),
    Later(u64),
    Tidy,
    Load(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0_usize..2, any::<bool>())
            .prop_map(|(value, prioritized)| Event::Call { value, prioritized }),
        3 => any::<usize>().prop_map(Event::Resume),
        1 => any::<usize>().prop_map(Event::GiveUp),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(which, fails)| Event::End(which, fails)),
        4 => prop_oneof![0_u64..60, 0_u64..600, 0_u64..4_000].prop_map(Event::Later),
        1 => Just(Event::Tidy),
        4 => (0..BESIDE.len()).prop_map(Event::Load),
    ];
    prop::collection::vec(event, 1..150)
}

/// Rules of which each remembers something.
fn rules() -> impl Strategy<Value = Rules> {
    prop::sample::select(vec![
        Rules {
            flow: r#"{"resource": "r", "count": 6}, {"resource": "r", "count": 4, "grade": 0},
                     {"resource": "r", "count": 10, "controlBehavior": 2, "maxQueueingTimeMs": 300}"#,
            ..NONE
        },
        Rules {
            flow: r#"{"resource": "r", "count": 9, "controlBehavior": 1, "warmUpPeriodSec": 3}"#,
            degrade: r#"{"resource": "r", "grade": 2, "count": 2, "timeWindow": 1,
                         "minRequestAmount": 2}"#,
            ..NONE
        },
        Rules {
            flow: r#"{"resource": "r", "count": 9, "controlBehavior": 3, "warmUpPeriodSec": 3,
                      "maxQueueingTimeMs": 900}"#,
            degrade: r#"{"resource": "r", "grade": 0, "count": 100, "timeWindow": 1,
                         "slowRatioThreshold": 0.5, "minRequestAmount": 2}"#,
            ..NONE
        },
        Rules {
            flow: r#"{"resource": "r", "count": 3, "limitApp": "left"},
                     {"resource": "r", "count": 5}"#,
            param: r#"{"resource": "r", "paramIdx": 0, "count": 2, "grade": 0},
                      {"resource": "r", "paramIdx": 0, "count": 3, "burstCount": 2}"#,
            ..NONE
        },
        Rules {
            param: r#"{"resource": "r", "paramIdx": 0, "count": 10, "controlBehavior": 2,
                       "maxQueueingTimeMs": 300},
                      {"resource": "r", "paramIdx": 0, "count": 3, "grade": 0}"#,
            degrade: r#"{"resource": "r", "grade": 1, "count": 0.5, "timeWindow": 2,
                         "minRequestAmount": 3, "statIntervalMs": 20000}"#,
            ..NONE
        },
    ])
}

proptest! {
    #[test]
    fn a_load_that_changes_no_rule_of_a_resource_changes_nothing(
        rules in rules(),
        events in events(),
    ) {
        let args = ["a", "b"].map(|value| [Arg::One(Param::Str(value.into()))]);
        let sides = [Side::new(1, rules), Side::new(1, rules)];
        let (mut ms, mut open, mut waiting) = (0, Vec::new(), Vec::new());
        for event in events {
            // A step of both, if it was one, and which calls are open or wait from now on.
            let steps = match event {
                Event::Call { value, prioritized } => sides.each_ref().map(|side| {
                    let call = Call::new("r").args(&args[value]).origin(["left", "right"][value]);
                    let call = call.entry_type(EntryType::In);
                    side.engine.enter(at(ms), if prioritized { call.prioritized() } else { call })
                }),
                Event::Resume(which) if !waiting.is_empty() => {
                    let pair: [limiter::local::Waiting<'_>; 2] =
                        waiting.swap_remove(which % waiting.len());
                    ms += u64::try_from(pair[0].wait().as_millis()).unwrap();
                    pair.map(|turn| turn.resume(at(ms)))
                }
                Event::GiveUp(which) if !waiting.is_empty() => {
                    drop(waiting.swap_remove(which % waiting.len()));
                    continue;
                }
                Event::End(which, fails) if !open.is_empty() => {
                    let pair: [limiter::local::Entry; 2] = open.swap_remove(which % open.len());
                    for mut entry in pair {
                        if fails {
                            entry.fail();
                        }
                        entry.exit(at(ms));
                    }
                    continue;
                }
                Event::Later(by) => {
                    ms += by;
                    continue;
                }
                Event::Tidy => {
                    for side in &sides {
                        side.engine.tidy(at(ms));
                    }
                    continue;
                }
                Event::Load(which) => {
                    load(&sides[0].engine, rules, BESIDE[which]);
                    continue;
                }
                Event::Resume(_) | Event::GiveUp(_) | Event::End(..) => continue,
            };
            prop_assert_eq!(said(&steps[0]), said(&steps[1]));
            match steps {
                [Step::Passed(a), Step::Passed(b)] => open.push([a, b]),
                [Step::Wait(a), Step::Wait(b)] => waiting.push([a, b]),
                [a, b] => drop((a, b)),
            }
        }
        let [loaded, never] = &sides;
        if never.engine.node(at(ms), "r").is_some() {
            prop_assert_eq!(loaded.breakers(ms, never), never.breakers(ms, never));
        }
        prop_assert_eq!(loaded.counted(ms), never.counted(ms));
        drop((open, waiting));
        prop_assert_eq!(loaded.counted(ms), never.counted(ms));
    }
}
