//! Rule texts as Sentinel's own parser and validity check take them, beside our own: the same
//! texts are accepted, and mean the same, but for the differences that are listed with a reason.

mod ours;
mod table;

use limiter::rule::Contents;
use serde_json::{Value, json};
use support::{JavaClient, java_class_path};

use self::table::{FLOW, PARAM};

#[test]
fn a_rule_text_is_taken_as_sentinel_takes_it_but_for_what_is_listed() {
    let Some(class_path) = java_class_path() else { return };
    let mut java = JavaClient::start(class_path, "rules");
    let flow = FLOW.iter().map(|case| ("flow", Contents::Flow, case));
    let param = PARAM.iter().map(|case| ("param", Contents::Param, case));
    for (kind, contents, (text, reason)) in flow.chain(param) {
        let text = text.replace('\n', " ");
        let answer = java.ask(&format!("valid {kind} {text}"));
        let theirs = sentinel(&answer);
        let ours = ours::fields(&text, contents);
        let same = match (&theirs, &ours) {
            (Some(theirs), Some(ours)) => agree(theirs, ours),
            _ => theirs.is_none() && ours.is_none(),
        };
        assert_eq!(same, reason.is_none(), "{text}: {reason:?}\n{answer}\n{theirs:?}\n{ours:?}");
    }
}

/// What Sentinel made of a text; `None` when it refuses it or calls the rule invalid. Values that
/// its checks take for others are those others.
fn sentinel(answer: &Value) -> Option<Value> {
    if answer["valid"] != true {
        return None;
    }
    let mut rule = answer["rule"].clone();
    let blank = |name: &Value| name.as_str().is_none_or(|name| name.trim().is_empty());
    if blank(&rule["limitApp"]) {
        rule["limitApp"] = json!("default");
    }
    if blank(&rule["refResource"]) {
        rule["refResource"] = Value::Null;
    }
    for (name, last) in [("strategy", 2), ("controlBehavior", 3)] {
        if rule[name].as_i64() > Some(last) {
            rule[name] = json!(0);
        }
    }
    if rule["clusterMode"] == false {
        rule["clusterConfig"] = Value::Null;
    } else if rule["clusterConfig"]["thresholdType"] != 1 {
        rule["clusterConfig"]["thresholdType"] = json!(0);
    }
    if let Some(items) = answer["items"].as_array() {
        let mut items = items.clone();
        items.sort_by_key(Value::to_string);
        rule["items"] = items.into();
    }
    Some(rule)
}

/// Whether Sentinel's rule has all that ours has; it has getters for more.
fn agree(theirs: &Value, ours: &Value) -> bool {
    match ours {
        Value::Object(ours) => ours.iter().all(|(name, ours)| agree(&theirs[name], ours)),
        ours => theirs == ours,
    }
}
