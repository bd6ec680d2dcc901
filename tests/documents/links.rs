//! Links of the documents lead somewhere, and the files that they name are there.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{read, root};

/// The documents that people read.
pub(super) const DOCUMENTS: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "docs/benchmarks.md",
    "docs/choosing.md",
    "docs/from-sentinel.md",
    "docs/rules.md",
    "docs/runbook.md",
    "token-server/configuration.md",
];

/// The file, from the root, and the anchor that a link in a document of `folder` leads to; the file
/// is empty for an anchor in the document itself.
pub(super) fn target<'l>(folder: &str, link: &'l str) -> (String, Option<&'l str>) {
    let (path, anchor) =
        link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return (String::new(), anchor);
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => assert!(parts.pop().is_some(), "{link} leads out of the tree"),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    (parts.join("/"), anchor)
}

/// What is left of a document without its blocks of code.
fn prose(document: &str) -> String {
    document.split("```").step_by(2).collect()
}

/// The anchors of a document's headlines, as they are made of them where Markdown is shown.
pub(super) fn anchors(document: &str) -> BTreeSet<String> {
    let mut times = BTreeMap::<String, usize>::new();
    let mut anchors = BTreeSet::new();
    for line in prose(&read(document)).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let anchor = title.chars().filter(kept).collect::<String>().replace(' ', "-");
        let before = times.entry(anchor.clone()).or_default();
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut followed = 0;
    for document in DOCUMENTS {
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        let text = prose(&read(document));
        for found in link.captures_iter(&text).filter(|found| !found[1].starts_with("http")) {
            let (file, anchor) = target(folder, &found[1]);
            let file = if file.is_empty() { document } else { &file };
            assert!(root().join(file).exists(), "{document}: there is no {file}");
            if let Some(anchor) = anchor {
                assert!(anchors(file).contains(anchor), "{document}: {file} has no #{anchor}");
            }
            followed += 1;
        }
    }
    assert!(followed > 60, "{followed}");
}

/// A path with one choice in braces, as all the paths that it stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.into()] };
    let (choice, after) = rest.split_once('}').unwrap();
    choice.split(',').map(|part| format!("{before}{part}{after}")).collect()
}

#[test]
fn every_source_that_a_document_names_is_there() {
    let path = Regex::new(r"`([a-z][a-z-]*/[\w{},./-]+\.(?:rs|md|json|yml|toml))`").unwrap();
    let mut seen = 0;
    for document in DOCUMENTS {
        let text = prose(&read(document));
        let named = path.captures_iter(&text).flat_map(|found| expanded(&found[1]));
        // What stands in a folder that is none of ours is the reader's.
        let ours = |path: &String| root().join(path.split('/').next().unwrap()).is_dir();
        for path in named.filter(ours) {
            assert!(root().join(&path).is_file(), "{document}: there is no {path}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn every_document_is_looked_at() {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for name in names.filter(|name| name.ends_with(".md")) {
        assert!(DOCUMENTS.contains(&&*format!("docs/{name}")), "{name} is not among DOCUMENTS");
    }
}
