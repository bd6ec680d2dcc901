//! Numbers that no algorithm can hold a rule to.

use super::{errors, mixed, rule};

const ITEMS: &str = r#""paramIdx":0,"count":1,"paramFlowItemList":[{"object":"a","count":-1},
    {"object":"b","count":10000},
{"object":"c","count":10001}, {"object":"d","count":2147483647}],"#;

fn refusal(fields: &str, config: &str) -> String {
    let found = errors(&rule(fields, config));
    assert_eq!(found.len(), 1, "{fields} {config}: {found:?}");
    let found = found.concat();
    found.split_once(" rule 0: ").unwrap().1.into()
}

#[test]
fn a_log_keeps_up_to_10_000_tokens_of_a_window() {
    let log = r#","algorithm":"slidingLog""#;
    assert!(mixed(&rule(r#""count":10000.9,"#, log)).warnings.is_empty());
    assert_eq!(
        refusal(r#""count":10001,"#, log),
        "count = 10001: slidingLog keeps each of the 10001 tokens of a window, of which 10000 are \
         allowed; use slidingWindow with a higher sampleCount, or gcra"
    );
    let minute = format!(r#"{log},"windowIntervalMs":60000"#);
    assert!(refusal(r#""count":167,"#, &minute).contains("each of the 10020 tokens"));
    let per_window = format!(r#"{minute},"thresholdUnit":"window""#);
    assert!(mixed(&rule(r#""count":10000,"#, &per_window)).warnings.is_empty());
    // Sentinel compares an average with whole tokens: a short window has the whole count.
    let short = format!(r#"{log},"windowIntervalMs":100"#);
    assert!(refusal(r#""count":10001,"#, &short).contains("each of the 10001 tokens"));
}

#[test]
fn the_count_of_each_item_is_built_too_and_named_where_it_stands() {
    let found = errors(&rule(ITEMS, r#","algorithm":"slidingLog""#));
    assert_eq!(found.len(), 2, "{found:?}");
    let start = "rules.json:3: rule 0: paramFlowItemList[2].count = 10001: slidingLog keeps";
    assert!(found[0].starts_with(start), "{found:?}");
    assert!(found[1].contains("paramFlowItemList[3].count = 2147483647: "), "{found:?}");
    let fixed = r#","algorithm":"fixedWindow","windowIntervalMs":31622400000"#;
    let found = errors(&rule(ITEMS, fixed));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("paramFlowItemList[3].count = 2147483647: comes to "), "{found:?}");
    assert_eq!(mixed(&rule(ITEMS, r#","algorithm":"tokenBucket""#)).rules.param[0].items.len(), 3);
}

#[test]
fn a_fixed_window_of_seconds_has_at_most_2_to_the_53_tokens() {
    let fixed = r#","algorithm":"fixedWindow","windowIntervalMs":2000"#;
    assert!(mixed(&rule(r#""count":4503599627370496,"#, fixed)).warnings.is_empty());
    assert_eq!(
        refusal(r#""count":4503599627370497,"#, fixed),
        "count = 4503599627370497: \
         comes to 9007199254740994 tokens a window, over 9007199254740992 (2^53)"
    );
    let per_window = format!(r#"{fixed},"thresholdUnit":"window""#);
    assert!(mixed(&rule(r#""count":9007199254740992,"#, &per_window)).warnings.is_empty());
}

#[test]
fn a_token_or_a_burst_that_takes_ages_is_refused() {
    let gcra = r#","algorithm":"gcra""#;
    let slow = "too slow: a token takes more than 250 000 years; 0 lets nothing pass";
    assert_eq!(refusal(r#""count":1e-40,"#, gcra), format!("count = 1e-40: {slow}"));
    let pacing = r#""controlBehavior":2,"count":1e-40,"#;
    assert_eq!(refusal(pacing, ""), format!("count = 1e-40: {slow}"));
    assert_eq!(refusal(&format!(r#""paramIdx":0,{pacing}"#), ""), format!("count = 1e-40: {slow}"));
    let vast = format!(r#"{gcra},"burst":9007199254740992"#);
    assert_eq!(
        refusal(r#""count":1e-13,"#, &vast),
        "clusterConfig.burst = 9007199254740992: \
         too large: at this count it fills up in more than 250 000 years"
    );
    for fine in [r#""count":1e-13,"#, r#""count":0,"#, r#""count":9007199254740992,"#] {
        assert!(mixed(&rule(fine, gcra)).warnings.is_empty(), "{fine}");
        assert!(mixed(&rule(fine, "")).warnings.is_empty(), "{fine}");
    }
}

#[test]
fn a_warm_up_of_ages_is_refused() {
    for behavior in [1, 3] {
        let warm_up = |count: f64, seconds: u32| {
            format!(r#""controlBehavior":{behavior},"count":{count},"warmUpPeriodSec":{seconds},"#)
        };
        assert_eq!(
            refusal(&warm_up(1.0, 31_622_401), ""),
            "warmUpPeriodSec = 31622401: must be at most 31622400 (366 days)"
        );
        assert_eq!(
            refusal(&warm_up(1e12, 10_000), ""),
            "warmUpPeriodSec = 10000: times the count must be at most 9007199254740992 (2^53)"
        );
        assert!(mixed(&rule(&warm_up(1e12, 9_007), "")).warnings.is_empty());
        assert!(mixed(&rule(&warm_up(0.0, 31_622_400), "")).warnings.is_empty());
    }
}
