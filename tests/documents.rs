//! What the documents name exists, and each claim names something.

mod alerts;
mod exported;
mod links;
mod runbook;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a document, by its path from the root.
fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path));
    assert!(text.is_ok(), "{path}: {text:?}");
    text.unwrap()
}

/// All functions in a folder's Rust files, each with the name of its file.
fn functions(folder: &Path, found: &mut BTreeSet<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let file = path.file_stem().unwrap().to_str().unwrap();
            for rest in fs::read_to_string(&path).unwrap().split("fn ").skip(1) {
                let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
                found.insert((file.to_owned(), rest.chars().take_while(is_part).collect()));
            }
        }
    }
}

/// What stands between two of these marks, that of code or of emphasis.
fn between(mark: char, text: &str) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// What stands between backticks and is long enough to be the name of a test: with the file that it
/// is said to be in, if one is.
fn tests_named(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    between('`', text).filter_map(|quoted| {
        let mut path = quoted.rsplit("::");
        let name = path.next()?;
        let is_test =
            name.matches('_').count() >= 3 && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_test.then(|| (path.find(|module| *module != "tests"), name))
    })
}

/// What is emphasized and begins as a headline does: a section of the benchmarks.
fn sections_named(text: &str) -> impl Iterator<Item = &str> {
    between('*', text).filter(|words| words.starts_with(char::is_uppercase))
}

/// Whether a claim names a test, a section of the benchmarks, or an address.
fn is_shown(claim: &str) -> bool {
    tests_named(claim).next().is_some()
        || sections_named(claim).next().is_some()
        || claim.contains("](https://")
}

fn guide() -> String {
    // Bold would be an emphasis of nothing.
    read("docs/choosing.md").replace("**", "")
}

#[test]
fn every_test_that_the_guide_to_choosing_names_exists() {
    let mut found = BTreeSet::new();
    for sources in ["limiter/src", "limiter/tests", "token-server/src", "token-client/src", "tests"]
    {
        functions(&root().join(sources), &mut found);
    }
    let guide = guide();
    let named: Vec<_> = tests_named(&guide).collect();
    assert!(named.len() > 20, "{named:?}");
    let exists = |(file, name): &(Option<&str>, &str)| {
        found
            .iter()
            .any(|(in_file, function)| function == name && file.is_none_or(|file| file == in_file))
    };
    let missing: Vec<_> = named.into_iter().filter(|named| !exists(named)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_section_of_the_benchmarks_that_the_guide_to_choosing_names_exists() {
    let benchmarks = read("docs/benchmarks.md");
    let headlines: Vec<_> =
        benchmarks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let guide = guide();
    let named: Vec<_> = sections_named(&guide).collect();
    assert!(named.len() > 5, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !headlines.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_claim_on_us_and_on_others_and_each_case_against_us_names_what_shows_it() {
    let guide = guide();
    let (_, others) = guide.split_once("\n## Us, ").unwrap();
    let (table, against) = others.split_once("We are the wrong choice").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.flat_map(|row| row.trim_matches('|').split(" | ").skip(1));
    // What the reader's own script does, or what stands to the left, is no claim.
    let claims = cells
        .map(str::trim)
        .filter(|cell| !cell.starts_with("your ") && !cell.starts_with("as the Redis behind it"));
    let claims: Vec<_> = claims.chain(against.split("\n- ").skip(1)).collect();
    assert!(claims.len() > 25, "{claims:?}");
    let bare: Vec<_> = claims.into_iter().filter(|claim| !is_shown(claim)).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
