//! Which files hold rules, and whose.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use limiter::rule::Contents;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rules that a token server may decide.
    Tokens(Contents),
    /// Rules that only a service enforces.
    Local(Local),
}

/// Kinds of rules that only a service enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    Degrade,
    System,
    Authority,
    Gateway,
}

/// What stands before [`ENDING`], and what it means.
const KINDS: [(&str, Kind); 6] = [
    ("-flow", Kind::Tokens(Contents::Flow)),
    ("-param", Kind::Tokens(Contents::Param)),
    ("-degrade", Kind::Local(Local::Degrade)),
    ("-system", Kind::Local(Local::System)),
    ("-authority", Kind::Local(Local::Authority)),
    ("-gateway", Kind::Local(Local::Gateway)),
];

/// What every name of a rule file in a directory ends with.
const ENDING: &str = "-rules.json";

/// The files of a source, each list in the order of its names.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    /// Files whose names end as rule files' do, and yet say neither namespace nor kind.
    pub(super) unknown: Vec<PathBuf>,
}

/// Whose rules of which kind `path` holds. What the operator named need not have the form: it is
/// of the default namespace then.
pub(super) fn meaning(path: &Path) -> (&str, Kind) {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(form).unwrap_or(("default", Kind::Tokens(Contents::Mixed)))
}

/// What a name of the form says.
fn form(name: &str) -> Option<(&str, Kind)> {
    let name = name.strip_suffix(ENDING)?;
    let told = |(suffix, kind)| name.strip_suffix(suffix).map(|namespace| (namespace, kind));
    KINDS.into_iter().find_map(told).filter(|(namespace, _)| !namespace.is_empty())
}

/// The rule files of the directory `path`, or the file `path`, which need not exist.
pub(super) fn list(path: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    if !path.is_dir() {
        listing.files.push(path.into());
        return Ok(listing);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with('.') || !shown.ends_with(ENDING) {
            continue;
        }
        match name.to_str().and_then(form) {
            Some(_) => listing.files.push(entry.path()),
            None => listing.unknown.push(entry.path()),
        }
    }
    listing.files.sort();
    listing.unknown.sort();
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_namespace_and_kind() {
        let (flow, param) = (Kind::Tokens(Contents::Flow), Kind::Tokens(Contents::Param));
        assert_eq!(form("shop-flow-rules.json"), Some(("shop", flow)));
        assert_eq!(form("shop-param-rules.json"), Some(("shop", param)));
        assert_eq!(form("shop-degrade-rules.json"), Some(("shop", Kind::Local(Local::Degrade))));
        assert_eq!(form("a-flow-param-rules.json"), Some(("a-flow", param)));
        assert_eq!(form("größe-flow-rules.json"), Some(("größe", flow)));
        for name in ["-flow-rules.json", "flow-rules.json", "shop-rules.json", "shop-flow.json"] {
            assert_eq!(form(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_of_any_other_name_is_of_the_default_namespace() {
        let meaning = |path| meaning(Path::new(path));
        assert_eq!(meaning("conf/rules.json"), ("default", Kind::Tokens(Contents::Mixed)));
        let param = Kind::Tokens(Contents::Param);
        assert_eq!(meaning("conf/shop-param-rules.json"), ("shop", param));
    }

    #[test]
    fn a_directory_gives_its_rule_files_and_names_the_odd_ones() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b-flow-rules.json",
            "a-param-rules.json",
            "a-flow-rules.json~",
            ".a-flow-rules.json.swp",
            ".hidden-flow-rules.json",
            "notes.txt",
            "odd-rules.json",
        ] {
            fs::write(dir.path().join(name), "[]").unwrap();
        }
        let listing = list(dir.path()).unwrap();
        let names: Vec<_> = listing.files.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["a-param-rules.json", "b-flow-rules.json"]);
        assert_eq!(listing.unknown, [dir.path().join("odd-rules.json")]);
    }
}
