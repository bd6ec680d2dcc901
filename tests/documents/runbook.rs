//! The runbook has a paragraph for each metric and for each alert, and what documents say of metrics
//! is so.

use std::collections::BTreeSet;

use regex::Regex;

use super::{
    exported::{exported, names_in},
    links::DOCUMENTS,
    read,
};

/// The paragraphs of the runbook that begin with a name, in the form **`name`**: name and text.
pub(super) fn paragraphs(text: &str) -> Vec<(String, String)> {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs
        .filter_map(|paragraph| {
            let (name, rest) = paragraph.strip_prefix("**`")?.split_once("`**")?;
            Some((name.to_owned(), rest.to_owned()))
        })
        .collect()
}

#[test]
fn each_metric_has_one_paragraph_in_the_runbook_which_says_its_kind_and_labels() {
    let text = read("docs/runbook.md");
    let about: Vec<_> =
        paragraphs(&text).into_iter().filter(|(name, _)| name.starts_with("tollgate_")).collect();
    let named: BTreeSet<&str> = about.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named.len(), about.len(), "a metric stands twice");
    let families: BTreeSet<&str> = exported().keys().map(String::as_str).collect();
    let missing: Vec<_> = families.difference(&named).collect();
    assert!(missing.is_empty(), "docs/runbook.md has no paragraph for {missing:#?}");
    let gone: Vec<_> = named.difference(&families).collect();
    assert!(gone.is_empty(), "nothing exports {gone:#?}");

    let head = Regex::new(r"^, (\w+)(?: by ([^.]*))?\. ").unwrap();
    for (name, text) in &about {
        let said = head.captures(text).unwrap_or_else(|| panic!("{name}{text}"));
        let family = &exported()[name];
        assert_eq!(&said[1], family.kind, "{name}");
        let labels = said.get(2).map_or("", |labels| labels.as_str());
        let labels: BTreeSet<&str> = labels.split('`').skip(1).step_by(2).collect();
        let exported: BTreeSet<&str> = family.labels.keys().map(String::as_str).collect();
        assert_eq!(labels, exported, "labels of {name}");
        let tells = ["Normal: ", "Alarm: "].iter().all(|part| text.contains(part));
        assert!(tells, "{name}: what is normal, when to alarm? {text}");
    }
}

#[test]
fn every_metric_that_a_document_names_exists() {
    let exists = |name: &str| exported().contains_key(name);
    let begins = |name: &str| exported().keys().any(|family| family.starts_with(name));
    let mut known = 0;
    for document in DOCUMENTS.iter().chain(&["docs/examples/alerts.yml"]) {
        for line in read(document).lines() {
            for (name, rest) in names_in(line) {
                let is_right = if let Some(choice) = rest.strip_prefix('(') {
                    // A pattern, which begins names.
                    let choice = choice.split(')').next().unwrap();
                    choice.split('|').all(|part| begins(&format!("{name}{part}")))
                } else if line.contains("grep ") || rest.starts_with(['*', '…']) {
                    begins(name)
                } else {
                    exists(name)
                };
                assert!(is_right, "{document} names {name}: {line}");
                known += 1;
            }
        }
    }
    assert!(known > 150, "{known}");
}
