//! Names and values in every form that fastjson takes, and the forms of the text that we refuse.

use limiter::rule::{FallbackPolicy, ItemValue, Scope};

use super::{errors, mixed, rule};

#[test]
fn numbers_and_booleans_may_be_text_and_names_may_have_any_case() {
    let parsed = mixed(
        r#"[{"RESOURCE":"r","Count":"7.5","clustermode":"true",
             "ClusterConfig":{"FLOWID":"42","thresholdtype":"1","sampleCount":5.0}}]"#,
    );
    let rule = &parsed.rules.flow[0];
    let cluster = rule.cluster.as_ref().unwrap();
    assert_eq!((rule.count, cluster.flow_id, cluster.scope), (7.5, 42, Scope::Global));
    assert_eq!(cluster.window.buckets(), 5);
}

#[test]
fn names_may_have_underscores_and_dashes_and_a_booleans_an_is() {
    let parsed = mixed(
        r#"[{"resource":"r","COUNT_":7,"is_cluster_mode":"T","cluster-config":
              {"flow_id":42,"threshold-type":1,"isFallbackToLocalWhenFail":"N","local_count":3}},
            {"resource":"p","PARAM-IDX":"1","isClusterMode":1,"param_flow_item_list":
              [{"Object":5,"COUNT":"1,000","class_type":"int"}],"clusterConfig":{"flowId":1}}]"#,
    );
    let rule = &parsed.rules.flow[0];
    let cluster = rule.cluster.as_ref().unwrap();
    assert_eq!((rule.count, cluster.flow_id, cluster.scope), (7.0, 42, Scope::Global));
    assert_eq!((cluster.fallback, cluster.local_count()), (FallbackPolicy::Pass, Some(3.0)));
    let rule = &parsed.rules.param[0];
    assert_eq!((rule.param_idx, &rule.items[0].value), (1, &ItemValue::Int(5)));
    assert_eq!(rule.items[0].count, 1_000.0);
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
}

#[test]
fn empty_text_and_the_word_null_are_no_value_but_in_text() {
    for absent in ["null", r#""""#, r#""null""#, r#""NULL""#] {
        let parsed = mixed(&rule(
            &format!(r#""count":{absent},"grade":{absent},"regex":{absent},"#),
            &format!(
                r#","sampleCount":{absent},"fallbackToLocalWhenFail":{absent},
                   "fallbackPolicy":{absent},"localCount":{absent}"#
            ),
        ));
        assert_eq!(parsed, mixed(&rule("", "")), "{absent}");
        let text = format!(r#"[{{"resource":"r","clusterMode":{absent}}}]"#);
        assert_eq!(mixed(&text).skipped, 1, "{absent}");
        let text = format!(
            r#"[{{"resource":"r","paramIdx":{absent},"clusterMode":true,
                 "clusterConfig":{{"flowId":{absent}}}}}]"#
        );
        let found = errors(&text);
        assert!(found.len() == 2 && found.iter().all(|e| e.contains("required")), "{found:?}");
    }
    let parsed = mixed(r#"[{"resource":"null","clusterMode":true,"clusterConfig":{"flowId":1}}]"#);
    assert_eq!(&*parsed.rules.flow[0].resource, "null");
}

#[test]
fn numbers_are_cut_grouped_and_made_of_booleans_as_fastjson_does() {
    let parsed = mixed(&rule(
        r#""count":"1,000.5","grade":true,"#,
        r#","sampleCount":5.9,"windowIntervalMs":"5,000""#,
    ));
    let rule = &parsed.rules.flow[0];
    assert_eq!(rule.count, 1_000.5);
    let window = rule.cluster.as_ref().unwrap().window;
    assert_eq!((window.buckets(), window.interval_ms()), (5, 5_000));
}

#[test]
fn a_mode_that_is_a_number_other_than_one_is_off_and_one_that_is_no_boolean_is_a_mistake() {
    let mode = |mode| format!(r#"[{{"resource":"r","clusterMode":{mode}}}]"#);
    for off in ["2", "0", "-1", r#""F""#, r#""false""#] {
        assert_eq!(mixed(&mode(off)).skipped, 1, "{off}");
    }
    for wrong in [r#""yes""#, r#"" ""#, "[]", "{}"] {
        assert!(errors(&mode(wrong))[0].contains("clusterMode"), "{wrong}");
    }
}

#[test]
fn of_a_field_that_stands_twice_the_first_counts() {
    let parsed = mixed(&rule(r#""Count":5,"count":"x","#, r#","flow_id":7,"#).replace(",}", "}"));
    let rule = &parsed.rules.flow[0];
    assert_eq!((rule.count, rule.cluster.as_ref().unwrap().flow_id), (5.0, 1));
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings.iter().all(|w| w.contains("stands a second time")), "{warnings:?}");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = format!("\u{feff}{}", rule("", ""));
    assert_eq!(mixed(&text), mixed(&rule("", "")));
}

#[test]
fn a_single_item_needs_no_list_around_it() {
    let text = rule(r#""paramIdx":0,"paramFlowItemList":{"object":"x","count":3},"#, "");
    assert_eq!(mixed(&text).rules.param[0].items.len(), 1);
}

#[test]
fn what_is_no_json_is_refused_with_its_line_and_what_to_do() {
    for (text, line, what) in [
        ("[\n{\"a\": 1},\n]", 3, "is there a comma too many?"),
        ("[\n{\"a\": 1,\n}]", 3, "is there a comma too many?"),
        ("[\n{\"a\": 1,,\n\"b\": 2}]", 2, "is there a comma too many?"),
        ("[\n// all of them\n{}]", 2, "take the comment out"),
        ("[{\"a\": 1, // one\n\"b\": 2}]", 1, "take the comment out"),
        ("[\n\n{\"a\": /* one */ 1}]", 3, "take the comment out"),
        ("[\n{'a': 1}]", 2, "use double quotes"),
        ("[\n{\"é\": 'b'}]", 2, "use double quotes"),
        ("[\n{a: 1}]", 2, "put text and names into double quotes"),
        ("[\n{\"a\": NaN}]", 2, "put text and names into double quotes"),
        ("[\n{\"a\": \"x\ty\"}]", 2, "write \\t, \\n and the like in text"),
        ("[\n{\"a\": +1}]", 2, "must be a JSON array of rules"),
        ("[\n{\"a\": 1}\n", 3, "must be a JSON array of rules"),
        ("{\"a\": 1}", 1, "must be a JSON array of rules"),
    ] {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let start = format!("rules.json:{line}: ");
        assert!(found[0].starts_with(&start) && found[0].contains(what), "{text}: {found:?}");
    }
}
