//! Who may depend on whom (ARCHITECTURE, "Code map"), read from the manifests.

use std::{collections::BTreeMap, fs, path::Path};

use toml::{Table, Value};

/// Each crate and those of ours that it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("limiter", &[]),
    ("rule-sources", &["limiter"]),
    ("dashboard-api", &["limiter"]),
    ("token-client", &["protocol", "limiter", "rule-sources", "token-client-macros"]),
    ("token-client-macros", &[]),
    ("token-server", &["protocol", "limiter", "rule-sources", "dashboard-api"]),
];

fn manifest(folder: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Every dependency of every kind, under whatever target.
fn dependencies(manifest: &Table, kinds: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in manifest {
        let Value::Table(table) = value else { continue };
        if kinds.contains(&key.as_str()) {
            names.extend(table.keys().cloned());
        } else if key == "target" {
            for target in table.values().filter_map(Value::as_table) {
                names.extend(dependencies(target, kinds));
            }
        }
    }
    names
}

const EVERY_KIND: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

#[test]
fn every_crate_depends_only_on_those_below_it() {
    let ours: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for (name, may_use) in MAY_USE {
        for dependency in dependencies(&manifest(name), EVERY_KIND) {
            let is_ours = ours.contains_key(dependency.as_str());
            let allowed = may_use.contains(&dependency.as_str());
            assert!(!is_ours || allowed, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn every_member_of_the_workspace_is_in_the_list() {
    let root = manifest(".");
    let members = root["workspace"]["members"].as_array().unwrap();
    let members = members.iter().filter_map(Value::as_str).filter(|member| *member != "tests");
    let mut members: Vec<&str> = members.collect();
    members.sort_unstable();
    let mut listed: Vec<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    assert_eq!(members, listed);
}

#[test]
fn decisions_and_wire_format_know_no_runtime() {
    let runtimes = ["tokio", "tokio-util", "async-std", "mio", "hyper", "axum", "socket2"];
    for name in ["protocol", "limiter"] {
        for dependency in dependencies(&manifest(name), &["dependencies"]) {
            assert!(!runtimes.contains(&dependency.as_str()), "{name} depends on {dependency}");
        }
    }
}
