//! Several texts make one set: files of the same namespace come together, and no flow id may
//! stand twice, whatever the namespace.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Finding, NamespaceRules, Parsed, RuleErrors};

/// Puts the texts together, one entry a namespace, in the order of their names.
///
/// # Errors
///
/// Every flow id that stands twice, with the file and line of both.
pub fn merge(texts: Vec<Parsed>) -> Result<Vec<NamespaceRules>, RuleErrors> {
    let mut errors = duplicates(&texts, |t| {
        t.rules.flow.iter().map(|r| r.cluster.map(|c| c.flow_id)).zip(&t.flow_lines).collect()
    });
    errors.extend(duplicates(&texts, |t| {
        t.rules.param.iter().map(|r| r.cluster.map(|c| c.flow_id)).zip(&t.param_lines).collect()
    }));
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

fn duplicates<'t>(
    texts: &'t [Parsed],
    ids: impl Fn(&'t Parsed) -> Vec<(Option<i64>, &'t u32)>,
) -> Vec<Finding> {
    let all = texts.iter().flat_map(|text| {
        ids(text)
            .into_iter()
            .enumerate()
            .filter_map(move |(index, (id, line))| Some((id?, (&*text.source, index, *line))))
    });
    duplicate_ids(
        all,
        |(source, _, line)| format!("{source}:{line}"),
        |(source, _, line), remedy| Finding { line: Some(line), ..Finding::of_set(source, remedy) },
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
