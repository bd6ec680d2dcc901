//! Several texts make one set: files of the same namespace come together, and no flow id may
//! stand twice, whatever the namespace.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Finding, NamespaceRules, Parsed, RuleErrors, json::Place};

/// Puts the texts together, one entry a namespace, in the order of their names.
///
/// # Errors
///
/// Every flow id that stands twice, with the file and line of both and the index of the second.
pub fn merge(texts: Vec<Parsed>) -> Result<Vec<NamespaceRules>, RuleErrors> {
    let ids =
        |t: &Parsed| t.rules.flow.iter().map(|r| r.cluster.as_ref().map(|c| c.flow_id)).collect();
    let mut errors = duplicates(&texts, ids, |t| &t.flow_places);
    let ids =
        |t: &Parsed| t.rules.param.iter().map(|r| r.cluster.as_ref().map(|c| c.flow_id)).collect();
    errors.extend(duplicates(&texts, ids, |t| &t.param_places));
    if !errors.is_empty() {
        return Err(RuleErrors(errors));
    }
    let mut sets: BTreeMap<Box<str>, NamespaceRules> = BTreeMap::new();
    for text in texts {
        let set = sets.entry(text.rules.namespace.clone()).or_default();
        set.namespace = text.rules.namespace;
        set.flow.extend(text.rules.flow);
        set.param.extend(text.rules.param);
    }
    Ok(sets.into_values().collect())
}

fn duplicates(
    texts: &[Parsed],
    ids: impl Fn(&Parsed) -> Vec<Option<i64>>,
    places: impl Fn(&Parsed) -> &Vec<Place>,
) -> Vec<Finding> {
    let all = texts.iter().flat_map(|text| {
        let ids = ids(text).into_iter().zip(places(text));
        ids.filter_map(|(id, place)| Some((id?, (&*text.source, *place))))
    });
    duplicate_ids(
        all,
        |(source, place)| format!("{source}:{}", place.line),
        |(source, Place { index, line }), remedy| Finding {
            line: Some(line),
            index: Some(index),
            ..Finding::of_set(source, remedy)
        },
    )
}

/// A finding for each place whose id stood in an earlier place already.
pub(crate) fn duplicate_ids<P: Copy>(
    ids: impl Iterator<Item = (i64, P)>,
    name: impl Fn(&P) -> String,
    finding: impl Fn(P, &str) -> Finding,
) -> Vec<Finding> {
    let mut first = FxHashMap::default();
    let mut findings = Vec::new();
    for (id, place) in ids {
        match first.get(&id) {
            None => drop(first.insert(id, place)),
            Some(earlier) => {
                let remedy = format!("already used at {}; ids are unique", name(earlier));
                findings.push(Finding {
                    field: "clusterConfig.flowId".into(),
                    value: id.to_string().into(),
                    ..finding(place, &remedy)
                });
            }
        }
    }
    findings
}
