//! Each finding names its place: file, line, rule, field and value.

use limiter::rule::{Contents, parse};
use proptest::prelude::*;

use super::{errors, mixed};

#[test]
fn every_mistake_is_said_with_line_field_value_and_remedy() {
    let text = r#"[
  {"resource": "a", "clusterMode": true, "clusterConfig": {"flowId": 1}},
  {
    "resource": " ",
    "count": -1,
    "grade": 2,
    "clusterMode": true,
    "clusterConfig": {
      "flowId": 0,
      "windowIntervalMs": 1000,
      "sampleCount": 3
    }
  },
  {"resource": "c", "clusterMode": true}
]"#;
    assert_eq!(
        errors(text),
        [
            "rules.json:4: rule 1: resource = \" \": required: the name of what is protected",
            "rules.json:6: rule 1: grade = 2: must be one of 0 (calls in progress), 1 (calls per \
             second)",
            "rules.json:5: rule 1: count = -1: \
             must be tokens per second or window (grade 1), from 0 to 9007199254740992 (2^53)",
            "rules.json:9: rule 1: clusterConfig.flowId = 0: \
             must be a whole number from 1 to 9223372036854775807",
            "rules.json:10: rule 1: clusterConfig.windowIntervalMs = 1000: \
             must be a multiple of sampleCount (3)",
            "rules.json:14: rule 2: clusterConfig: clusterMode needs it: {\"flowId\": …}",
        ]
    );
}

#[test]
fn a_line_is_that_of_the_field_itself_and_of_no_namesake() {
    let text = r#"[{
  "refResource": "strategy",
  "clusterConfig": {
    "strategy": 1,
    "flowId": 1
  },
  "x": {"count": "\"count\": 1"},
  "resource": "count",
  "strategy":
    -1,
  "COUNT": -1,
  "clusterMode": true
}]"#;
    let starts = [
        "rules.json:11: rule 0: count = -1:",
        "rules.json:9: rule 0: strategy = -1:",
        "rules.json:4: rule 0: clusterConfig.strategy = 1:",
    ];
    let found = errors(text);
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (finding, start) in found.iter().zip(starts) {
        assert!(finding.starts_with(start), "{finding}");
    }
}

#[test]
fn an_absent_field_is_missed_on_the_line_of_what_should_hold_it() {
    let text = "[\n{\n\"resource\":\"r\",\"clusterMode\":true,\n\"clusterConfig\":\n{}},\n{\n\n\
                \"clusterMode\":true,\"clusterConfig\":{\"flowId\":1}}]";
    let found = errors(text);
    assert!(found[0].starts_with("rules.json:4: rule 0: clusterConfig.flowId: "), "{found:?}");
    assert!(found[1].starts_with("rules.json:6: rule 1: resource: "), "{found:?}");
}

#[test]
fn each_of_many_bad_items_is_named_with_its_own_line() {
    let bad = "{\"object\":\"x\",\n\"count\":-1},\n";
    let text = format!(
        "[{{\"resource\":\"r\",\"paramIdx\":0,\"clusterMode\":true,\"clusterConfig\":{{\"flowId\":1}},\n\
         \"paramFlowItemList\":[\n{}\n7\n]}}]",
        bad.repeat(20_000)
    );
    let warnings = mixed(&text).warnings;
    assert_eq!(warnings.len(), 20_001);
    for (i, warning) in warnings[..20_000].iter().enumerate() {
        assert_eq!(&*warning.field, format!("paramFlowItemList[{i}].count"));
        assert_eq!(warning.line, u32::try_from(2 * i + 4).ok());
    }
    let last = warnings[20_000].to_string();
    let start = "rules.json:40004: rule 0: paramFlowItemList[20000] = 7: dropped: ";
    assert!(last.starts_with(start), "{last}");
}

#[test]
fn a_value_that_json_cannot_hold_is_named_with_the_reason() {
    let text = "[{\"clusterMode\":true,\"clusterConfig\":{\"flowId\":1},\n\"count\":1e400,\n\
                \"resource\":\"a\\ud800b\"}]";
    let found = errors(text);
    assert_eq!(
        found,
        [
            "rules.json:3: rule 0: resource = \"a\\ud800b\": unexpected end of hex escape",
            "rules.json:2: rule 0: count = 1e400: \
             must be tokens per second or window (grade 1), from 0 to 9007199254740992 (2^53)",
        ]
    );
}

#[test]
fn what_nobody_reads_may_be_any_json() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = format!(
        r#"[{{"resource":"r","clusterMode":true,"clusterConfig":{{"flowId":1}},
             "a":1e400,"b":"\ud800","\ud800":1,"c":{deep},"d\nd":{{}}}}]"#
    );
    let fields: Vec<String> =
        mixed(&text).warnings.iter().map(|w| format!("{}:{}", w.field, w.value)).collect();
    let shown = format!("c:{}…", "[".repeat(60));
    assert_eq!(fields, ["a:1e400", r#"b:"\ud800""#, r"\ud800:1", &shown, r"d\nd:{}"]);
}

#[test]
fn an_entry_that_is_no_object_is_named() {
    let found = errors("[\n7,\n[],\nnull]");
    let starts = ["rules.json:2: rule 0: ", "rules.json:3: rule 1: ", "rules.json:4: rule 2: "];
    assert_eq!(found.len(), 3);
    for (finding, start) in found.iter().zip(starts) {
        assert!(finding.starts_with(start) && finding.contains("JSON object"), "{finding}");
    }
}

/// Something of everything, to be spoilt.
const WHOLE: &str = r#"[
  {"resource": "a", "count": "1,000", "clusterMode": true,
   "clusterConfig": {"flow_id": 1, "thresholdType": 1, "sampleCount": 5.0, "x": [1, {"y": null}]}},
  {"id": 1, "rule": {"resource": "\u00e9", "paramIdx": 0, "clusterMode": "T",
   "paramFlowItemList": [{"object": "5", "count": 3, "classType": "int"}, null],
   "clusterConfig": {"flowId": 2, "localCount": 1e2}}}
]"#;

proptest! {
    #[test]
    fn whatever_is_wrong_with_a_text_is_on_one_of_its_lines(
        at in 0..WHOLE.len(),
        cut in 0_usize..30,
        put in prop_oneof![
            Just(String::new()),
            "[\"{}:,\\[\\]\\\\a-c0-9'/.\n \u{0}-\u{1f}é-]{0,8}",
            prop::sample::select(vec!["1e400", "\"\\ud800\"", "null", "{}", "[]", "-1", "true"])
                .prop_map(String::from),
        ],
    ) {
        let end = (at + cut).min(WHOLE.len());
        let text = format!("{}{put}{}", &WHOLE[..at], &WHOLE[end..]);
        let lines = u32::try_from(text.matches('\n').count() + 1).unwrap();
        let found = match parse(&text, "rules.json", "default", Contents::Mixed, false) {
            Ok(parsed) => parsed.warnings,
            Err(errors) => errors.0,
        };
        for finding in found {
            prop_assert!((1..=lines).contains(&finding.line.unwrap()), "{text}\n{finding}");
        }
    }
}
