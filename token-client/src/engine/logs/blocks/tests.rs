//! Refusals of an engine, as they would be written.

use std::{collections::BTreeMap, sync::Arc};

use allocation_counter::measure;
use limiter::{
    local::{Arg, Call, LocalEngine, LocalSettings, Step},
    rule::{Contents, parse},
};

use super::*;

/// An engine that refuses every call of `r` and of an odd name, and of `p` every call with an argument.
struct Refusing {
    engine: Arc<LocalEngine>,
    blocks: Arc<Blocks>,
}

impl Refusing {
    fn new() -> Self {
        let engine = Arc::new(LocalEngine::new(LocalSettings::default()));
        let rules = |text, contents| parse(text, "test", "", contents, false).unwrap().rules;
        let flow = r#"[{"resource": "r", "count": 0},
            {"resource": "a|b,c\r\n2026-11-30 04:12:37|1|r", "count": 0}]"#;
        engine.load_flow(rules(flow, Contents::Flow).flow);
        let param = r#"[{"resource": "p", "paramIdx": 0, "count": 0}]"#;
        engine.load_param(rules(param, Contents::Param).param);
        let blocks = Arc::<Blocks>::default();
        engine.observe(Arc::new(Counting(Arc::downgrade(&blocks))));
        Self { engine, blocks }
    }

    #[track_caller]
    fn refuse(&self, ms: u64, call: Call<'_>) {
        let step = self.engine.enter(Tick::from_ms(ms), call);
        assert!(matches!(step, Step::Blocked(_)), "{step:?}");
    }

    /// Second, text and tokens of all refusals that have ended.
    fn take(&self, ms: u64) -> Vec<(u64, String, u64)> {
        let (seconds, lost) = self.blocks.take(Tick::from_ms(ms), false);
        assert_eq!(lost, 0);
        let lines = seconds.into_iter().flat_map(|refusals| {
            let sorted: BTreeMap<_, _> = refusals.counts.into_iter().collect();
            sorted.into_iter().map(move |(key, n)| (refusals.second, String::from(key), n))
        });
        lines.collect()
    }
}

#[test]
fn refusals_are_added_up_by_second_and_text_with_their_tokens() {
    let refusing = Refusing::new();
    refusing.refuse(1_000, Call::new("r").origin("shop"));
    refusing.refuse(1_999, Call::new("r").origin("shop").count(3));
    refusing.refuse(1_500, Call::new("r"));
    refusing.refuse(3_000, Call::new("r"));
    // Late: it counts where the log is.
    refusing.refuse(2_999, Call::new("r"));
    let first = [
        (1, "r,FlowException,default,,".to_owned(), 1),
        (1, "r,FlowException,default,shop,".to_owned(), 4),
    ];
    assert_eq!(refusing.take(3_999), first);
    assert_eq!(refusing.take(3_999), []);
    assert_eq!(refusing.take(4_000), [(3, "r,FlowException,default,,".to_owned(), 2)]);
}

#[test]
fn names_keep_their_commas_and_bars_but_make_no_line() {
    let refusing = Refusing::new();
    refusing.refuse(1_000, Call::new("a|b,c\r\n2026-11-30 04:12:37|1|r").origin("o\nr"));
    let key = "a|b,c__2026-11-30 04:12:37|1|r,FlowException,default,o_r,";
    assert_eq!(refusing.take(2_000), [(1, key.to_owned(), 1)]);
}

#[test]
fn a_hot_parameter_is_shown_as_java_shows_it() {
    let many = [Param::Int(1), Param::Str("b".into())];
    let cases = [
        (Param::Long(-7).into(), "-7"),
        (Param::Bool(true).into(), "true"),
        (Param::Str("x\ny".into()).into(), "x_y"),
        (Param::Double(1.0).into(), "1.0"),
        (Param::Double(0.001).into(), "0.001"),
        (Param::Double(9_999_999.5).into(), "9999999.5"),
        (Param::Double(1e7).into(), "1.0E7"),
        (Param::Double(-1.25e-4).into(), "-1.25E-4"),
        (Param::Double(f64::NAN).into(), "NaN"),
        (Param::Double(f64::NEG_INFINITY).into(), "-Infinity"),
        (Param::Float(0.1).into(), "0.1"),
        (Arg::Many(&many), "[1, b]"),
    ];
    for (arg, shown) in cases {
        let refusing = Refusing::new();
        refusing.refuse(1_000, Call::new("p").args(&[arg]));
        let key = format!("p,ParamFlowException,{shown},,");
        assert_eq!(refusing.take(2_000), [(1, key, 1)]);
    }
}

#[test]
fn beyond_the_bound_refusals_are_counted_by_their_kind() {
    let refusing = Refusing::new();
    for n in 0..KEYS_MAX + 10 {
        refusing.refuse(1_000, Call::new("r").origin(&n.to_string()));
        refusing.refuse(1_000, Call::new("r").origin("0"));
    }
    let lines = refusing.take(2_000);
    assert_eq!(lines.len(), KEYS_MAX + 1);
    let of = |key: &str| lines.iter().find(|line| line.1 == key).map(|line| line.2);
    assert_eq!(of("__other__,FlowException,,,"), Some(10));
    assert_eq!(of("r,FlowException,default,0,"), Some(KEYS_MAX as u64 + 11));
}

#[test]
fn long_names_have_a_bound_together() {
    let refusing = Refusing::new();
    for n in 0..20 {
        let origin = format!("{n}{}", "x".repeat(100_000));
        refusing.refuse(1_000, Call::new("r").origin(&origin));
    }
    let lines = refusing.take(2_000);
    assert_eq!(lines.len(), 11);
    assert_eq!(lines.iter().map(|line| line.2).sum::<u64>(), 20);
}

#[test]
fn seconds_that_nobody_takes_make_room_and_are_told_of() {
    let refusing = Refusing::new();
    for second in 1..=20 {
        refusing.refuse(second * 1_000, Call::new("r").count(2));
    }
    let (seconds, lost) = refusing.blocks.take(Tick::from_ms(20_500), true);
    let seconds: Vec<u64> = seconds.iter().map(|refusals| refusals.second).collect();
    assert_eq!(seconds, (11..=20).collect::<Vec<_>>());
    assert_eq!(lost, 20);
}

#[test]
fn a_refusal_whose_like_was_counted_in_its_second_allocates_nothing() {
    let refusing = Refusing::new();
    let arg = [Arg::One(Param::Str("hot".into()))];
    let refuse = || {
        refusing.refuse(1_000, Call::new("r").origin("shop"));
        refusing.refuse(1_000, Call::new("p").args(&arg));
    };
    refuse();
    let counted = measure(refuse);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn nothing_is_counted_when_nobody_writes_any_more() {
    let Refusing { engine, blocks } = Refusing::new();
    let weak = Arc::downgrade(&blocks);
    drop(blocks);
    assert!(weak.upgrade().is_none());
    assert!(matches!(engine.enter(Tick::from_ms(1_000), Call::new("r")), Step::Blocked(_)));
}
