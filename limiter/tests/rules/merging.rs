//! Several texts together.

use limiter::rule::{Contents, merge, parse};

#[test]
fn one_flow_id_twice_names_both_places() {
    let rule = |id: u32| {
        format!(r#"{{"resource":"r","clusterMode":true,"clusterConfig":{{"flowId":{id}}}}}"#)
    };
    let a = format!("[{},\n{},\n{}]", rule(1), rule(2), rule(1));
    let b = format!("[{{}},\n{}]", rule(2));
    let parsed = |text: &str, source, namespace| {
        parse(text, source, namespace, Contents::Flow, true).unwrap()
    };
    let texts = vec![parsed(&a, "a.json", "one"), parsed(&b, "b.json", "two")];
    assert_eq!(
        merge(texts).unwrap_err().to_string(),
        "a.json:3: rule 2: clusterConfig.flowId = 1: already used at a.json:1; ids are unique\n\
         b.json:2: rule 1: clusterConfig.flowId = 2: already used at a.json:2; ids are unique"
    );
}

#[test]
fn flow_rules_and_param_rules_are_two_id_spaces_and_files_of_a_namespace_come_together() {
    let flow = r#"[{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
    let param =
        r#"[{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":1}}]"#;
    let texts = vec![
        parse(flow, "a", "one", Contents::Flow, true).unwrap(),
        parse(param, "b", "one", Contents::Param, true).unwrap(),
    ];
    let merged = merge(texts).unwrap();
    assert_eq!(merged.len(), 1);
    assert_eq!((merged[0].flow.len(), merged[0].param.len()), (1, 1));
}
