//! How the files of a source look from outside: enough to tell that one of them changed.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::name;

/// All files of a source, with what the system says of each; links are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look(BTreeMap<PathBuf, Option<Stamp>>);

/// One file. A write that leaves all of it the same came within one tick of the file system's
/// clock; the event of that write tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Device and inode, and the change of the inode itself: a file that is renamed over another
    /// keeps its own time of modification.
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Look {
    /// The files of `path` now. What cannot be listed has no files.
    pub(super) fn at(path: &Path) -> Self {
        let listing = name::list(path).unwrap_or_default();
        let stamped = listing.files.into_iter().map(|path| {
            let stamp = fs::metadata(&path).ok().as_ref().map(Stamp::of);
            (path, stamp)
        });
        // What is not read is only seen to be there.
        Self(stamped.chain(listing.unknown.into_iter().map(|path| (path, None))).collect())
    }

    /// The paths of the files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_changes_no_look() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = Look::at(file.path());
        fs::read(file.path()).unwrap();
        assert_eq!(Look::at(file.path()), before);
    }

    #[test]
    fn length_inode_and_presence_each_change_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shop-flow-rules.json");
        let mut looks = vec![Look::at(dir.path())];
        fs::write(&path, "[]").unwrap();
        looks.push(Look::at(dir.path()));
        fs::write(&path, "[ ]").unwrap();
        looks.push(Look::at(dir.path()));
        let copy = dir.path().join("copy");
        fs::write(&copy, "[1]").unwrap();
        fs::rename(&copy, &path).unwrap();
        looks.push(Look::at(dir.path()));
        fs::write(dir.path().join("odd-rules.json"), "").unwrap();
        looks.push(Look::at(dir.path()));
        for (i, look) in looks.iter().enumerate() {
            assert!(!looks[i + 1..].contains(look), "{i}: {look:?}");
        }
    }
}
