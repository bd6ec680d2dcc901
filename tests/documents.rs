//! What the documents name exists.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all functions in a folder's Rust files.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let found = text.split("fn ").skip(1);
            names.extend(found.map(|rest| {
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            }));
        }
    }
}

/// What stands between backticks and is long enough to be the name of a test.
fn tests_named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|quoted| quoted.rsplit("::").next());
    names.filter(|name| {
        name.matches('_').count() >= 3 && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn every_test_that_the_guide_to_choosing_names_exists() {
    let mut names = BTreeSet::new();
    for sources in ["limiter/src", "limiter/tests", "token-client/src", "tests"] {
        functions(&root().join(sources), &mut names);
    }
    let guide = fs::read_to_string(root().join("docs/choosing.md")).unwrap();
    let named: Vec<&str> = tests_named(&guide).collect();
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<_> = named.into_iter().filter(|name| !names.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
