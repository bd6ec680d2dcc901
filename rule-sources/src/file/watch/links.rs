//! Where a path leads, link by link: a change of any of the links changes the file.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// Links that are followed for one path: Linux stops at 40 as well.
const LINKS_MAX: u32 = 40;

/// Adds the directories of every link on the way to `path` and of what it leads to, and the names
/// that `path` and its target have there.
///
/// `rules.json -> ..data/rules.json` with `..data -> ..2026_1`, as Kubernetes mounts it, gives the
/// directory of `..data`, where the link is swapped, and `..2026_1`, where the file is.
pub(super) fn follow(
    path: &Path,
    directories: &mut BTreeSet<PathBuf>,
    names: &mut BTreeSet<OsString>,
) {
    names.extend(path.file_name().map(OsString::from));
    let mut ahead: Vec<OsString> = parts(path);
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        at.push(part);
        let Ok(target) = fs::read_link(&at) else { continue };
        links += 1;
        if links > LINKS_MAX {
            return;
        }
        directories.extend(directory(&at));
        at.pop();
        ahead.extend(parts(&target));
    }
    names.extend(at.file_name().map(OsString::from));
    directories.extend(directory(&at));
}

/// The parts of a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().into()).collect()
}

/// The directory that `path` stands in.
fn directory(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".").into() } else { parent.into() })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn followed(path: &Path) -> (BTreeSet<PathBuf>, BTreeSet<OsString>) {
        let (mut directories, mut names) = Default::default();
        follow(path, &mut directories, &mut names);
        (directories, names)
    }

    #[test]
    fn a_plain_file_leads_to_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (directories, names) = followed(&root.join("rules.json"));
        assert_eq!(directories, [root].into());
        assert_eq!(names, ["rules.json".into()].into());
        assert_eq!(followed(Path::new("rules.json")).0, [".".into()].into());
    }

    #[test]
    fn every_link_on_the_way_is_in_a_watched_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["etc", "mount", "mount/..2026_1"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("mount/..2026_1/shop.json"), "[]").unwrap();
        symlink("..2026_1", root.join("mount/..data")).unwrap();
        symlink("../mount/..data/shop.json", root.join("etc/rules.json")).unwrap();
        let (directories, names) = followed(&root.join("etc/rules.json"));
        let directories: Vec<_> =
            directories.iter().map(|path| path.canonicalize().unwrap()).collect();
        for name in ["etc", "mount", "mount/..2026_1"] {
            assert!(directories.contains(&root.join(name)), "{name} in {directories:?}");
        }
        assert_eq!(names, ["rules.json".into(), "shop.json".into()].into());
    }

    #[test]
    fn a_circle_of_links_ends() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        assert_eq!(followed(&root.join("a")).0, [root].into());
    }
}
