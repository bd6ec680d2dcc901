//! The group of APIs (`GatewayApiDefinitionManager.isValidApi`).

use super::{NO_MEANING, required};
use crate::rule::{
    AntPattern, ApiDefinition, PathPattern, Pattern,
    api::has_wildcards,
    object::{Object, Owner},
    report::Report,
    value::Value,
};

/// Reads a group; `None` when it is wrong (said in `report`).
pub(in crate::rule) fn api_definition(
    mut f: Object<'_>,
    report: &mut Report<'_>,
) -> Option<ApiDefinition> {
    let before = report.errors.len();
    let remedy = "required: the name that gateway rules have as their resource";
    let api_name = required(&mut f, report, "apiName", remedy);
    let is_given = f.gives("predicateItems");
    let items = f.take("predicateItems").and_then(Value::elements);
    match &items {
        None if is_given => f.error(report, "predicateItems", "must be a list"),
        None => f.error(report, "predicateItems", "required: the list of paths"),
        Some(items) if items.is_empty() => {
            f.warn(report, "predicateItems", "no path belongs to the group");
        }
        Some(_) => {}
    }
    let items = items.unwrap_or_default().into_iter().enumerate();
    let paths = items.filter_map(|(index, item)| path(index, item, report)).collect();
    f.warn_unknown(report, NO_MEANING);
    (report.errors.len() == before).then_some(ApiDefinition { api_name, paths })
}

fn path(index: usize, item: Value<'_>, report: &mut Report<'_>) -> Option<PathPattern> {
    let at = item.written();
    let Some(mut f) = Object::new(Owner::Predicate(index), at, item) else {
        report.error(at, &format!("predicateItems[{index}]"), at, "must be an object");
        return None;
    };
    let before = report.errors.len();
    let pattern = f.text(report, "pattern").unwrap_or_default();
    let make = f.code::<fn(&str) -> Result<PathPattern, String>>(
        report,
        "matchStrategy",
        |text| Ok(PathPattern::Exact(text.into())),
        &[
            (0, "exact", |text| Ok(PathPattern::Exact(text.into()))),
            (1, "prefix, such as /foo/**", |text| AntPattern::new(text).map(PathPattern::Ant)),
            (2, "regular expression", |text| Pattern::new(text).map(PathPattern::Regex)),
        ],
    );
    f.warn_unknown(report, NO_MEANING);
    if report.errors.len() > before {
        return None;
    }
    if pattern.trim().is_empty() {
        f.warn(report, "pattern", "dropped, as in Sentinel: matches nothing");
        return None;
    }
    let made = make(&pattern);
    match &made {
        Err(wrong) => f.error(report, "pattern", wrong),
        Ok(PathPattern::Ant(_)) if !has_wildcards(&pattern) => {
            let remedy = "taken for this path and all beneath it; Sentinel needs a wildcard, such \
                          as /foo/**, and matches nothing without one";
            f.warn(report, "pattern", remedy);
        }
        Ok(_) => {}
    }
    made.ok()
}

#[cfg(test)]
mod tests {
    use crate::rule::{PathPattern, RuleErrors, parse_apis};

    /// The recorded text of the command centre, and the dashboard's entity.
    #[test]
    fn definitions_are_read() {
        let text = r#"[{"apiName":"api1","predicateItems":[{"matchStrategy":1,"pattern":"/foo/**"}]},
            {"id": 1, "app": "a", "ip": "i", "port": 1, "gmtCreate": 1, "gmtModified": 1,
             "apiName": "api2", "predicateItems": [{"pattern": "/a", "matchStrategy": 0},
             {"pattern": "/b"}, {"pattern": "/c[0-9]", "matchStrategy": "2"}]}]"#;
        let list = parse_apis(text, "test").unwrap();
        assert!(list.warnings.is_empty(), "{:?}", list.warnings);
        assert!(list.rules[0].matches("/foo/x") && !list.rules[0].matches("/a"));
        assert_eq!(list.rules[1].paths[1], PathPattern::Exact("/b".into()));
        assert!(["/a", "/b", "/c7"].iter().all(|path| list.rules[1].matches(path)));
    }

    #[test]
    fn each_mistake_is_named() {
        let text = r#"[{"predicateItems": null}, {"apiName": "a", "predicateItems": 7},
            {"apiName": "b", "predicateItems": [7, {"pattern": "[", "matchStrategy": 2},
             {"pattern": "a/**", "matchStrategy": 1}, {"pattern": "/a", "matchStrategy": 3}]},
            {"apiName": "c", "predicateItems": []}, {"apiName": "c", "predicateItems": []}]"#;
        let RuleErrors(found) = parse_apis(text, "test").unwrap_err();
        let found: Vec<String> = found
            .iter()
            .map(|f| format!("{} {} {}", f.index.unwrap(), f.field, f.remedy))
            .collect();
        assert_eq!(
            found,
            [
                "0 apiName required: the name that gateway rules have as their resource",
                "0 predicateItems required: the list of paths",
                "1 predicateItems must be a list",
                "2 predicateItems[0] must be an object",
                "2 predicateItems[1].pattern no such pattern: unclosed character class",
                "2 predicateItems[2].pattern must begin with `/`, as every path does",
                "2 predicateItems[3].matchStrategy must be one of 0 (exact), 1 (prefix, such as \
                 /foo/**), 2 (regular expression)",
                "4 apiName rule 3 on line 4 has it; names are unique",
            ]
        );
    }

    #[test]
    fn what_matches_nothing_in_sentinel_is_warned_of() {
        let text = r#"[{"apiName": "a", "predicateItems": []},
            {"apiName": "b", "predicateItems": [{"pattern": " "}, {"matchStrategy": 1},
             {"pattern": "/foo", "matchStrategy": 1}]}]"#;
        let list = parse_apis(text, "test").unwrap();
        let fields: Vec<&str> = list.warnings.iter().map(|warning| &*warning.field).collect();
        assert_eq!(
            fields,
            [
                "predicateItems",
                "predicateItems[0].pattern",
                "predicateItems[1].pattern",
                "predicateItems[2].pattern",
            ]
        );
        assert!(list.rules[1].paths.len() == 1 && list.rules[1].matches("/foo/x"));
    }
}
