//! The alerts are ones that can fire: what they look at exists, and the runbook says what to do.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde::Deserialize;

use super::{
    exported::{exported, names_in},
    links::{anchors, target},
    read,
    runbook::paragraphs,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    lasting: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn alerts() -> Vec<Alert> {
    let file: File = serde_saphyr::from_str(&read("docs/examples/alerts.yml")).unwrap();
    let names: BTreeSet<_> = file.groups.iter().map(|group| &group.name).collect();
    assert_eq!(names.len(), file.groups.len(), "{names:?}");
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// The text with one space wherever it has any white space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_alert_has_one_paragraph_with_its_expression_and_leads_to_a_symptom() {
    let runbook = read("docs/runbook.md");
    let paragraphs = paragraphs(&runbook);
    let text = words(&runbook);
    let alerts = alerts();
    assert!(alerts.len() > 20, "{alerts:?}");
    for Alert { alert, expr, lasting, labels, annotations } in &alerts {
        let about: Vec<_> = paragraphs.iter().filter(|(name, _)| name == alert).collect();
        assert_eq!(about.len(), 1, "{alert}: {about:?}");
        let about = &about[0].1;
        let severity = &labels["severity"];
        assert!(["page", "ticket"].contains(&severity.as_str()), "{alert}: {severity}");
        let waits = if lasting == "0m" { "at once".into() } else { format!("after {lasting}") };
        assert!(about.starts_with(&format!(" ({severity}, {waits}). ")), "{alert}{about}");
        let block = format!("```promql {} ```", words(expr));
        assert!(text.contains(&block), "the runbook has another expression for {alert}: {block}");
        let (file, anchor) = target("", &annotations["runbook"]);
        assert!(anchors(&file).contains(anchor.unwrap()), "{alert}: {annotations:?}");
        assert!(about.contains(&format!("(#{})", anchor.unwrap())), "{alert}{about}");
        assert!(!annotations["summary"].is_empty(), "{alert}");
    }
    let named: BTreeSet<_> = alerts.iter().map(|alert| alert.alert.as_str()).collect();
    assert_eq!(named.len(), alerts.len(), "an alert stands twice");
    let quoted = Regex::new("`(Tollgate[A-Z][A-Za-z]*)`").unwrap();
    for found in quoted.captures_iter(&runbook) {
        assert!(named.contains(&found[1]), "there is no alert {}", &found[1]);
    }
}

#[test]
fn alerts_select_series_by_labels_and_values_that_are_exported() {
    let selector = Regex::new(r"([a-z_]+)\{([^}]*)\}").unwrap();
    let matcher = Regex::new(r#"(\w+)(=|!=|=~|!~)"([^"]*)""#).unwrap();
    let grouping = Regex::new(r"(?:by|without|ignoring|on) \(([^)]*)\)").unwrap();
    let shown = Regex::new(r"\$labels\.(\w+)").unwrap();
    let time = Regex::new("^[0-9]+[smh]$").unwrap();
    let (mut matched, mut grouped) = (0, 0);
    for Alert { alert, expr, lasting, annotations, .. } in alerts() {
        assert!(time.is_match(&lasting), "{alert}: {lasting}");
        let metrics = names_in(&expr).map(|(name, _)| (name, &exported()[name]));
        // What Prometheus adds to every series.
        let mut labels: BTreeSet<&str> = ["job", "instance"].into();
        labels.extend(metrics.flat_map(|(_, family)| family.labels.keys().map(String::as_str)));
        for found in selector.captures_iter(&expr) {
            if &found[1] == "up" {
                continue;
            }
            let family = &exported()[&found[1]];
            for part in matcher.captures_iter(&found[2]) {
                let values = &family.labels[&part[1]];
                let named: Vec<&str> = part[3].split('|').collect();
                let unknown = named.iter().find(|value| !values.contains(**value));
                assert!(unknown.is_none(), "{alert}: {unknown:?} is not among {values:?}");
                matched += 1;
            }
        }
        for found in grouping.captures_iter(&expr) {
            for label in found[1].split(',').map(str::trim) {
                assert!(labels.contains(label), "{alert}: {label} is not among {labels:?}");
                grouped += 1;
            }
        }
        for found in shown.captures_iter(&annotations["summary"]) {
            assert!(labels.contains(&found[1]), "{alert}: {} of {labels:?}", &found[1]);
        }
    }
    assert!(matched >= 10 && grouped >= 8, "{matched} {grouped}");
}
