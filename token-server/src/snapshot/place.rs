//! The file of a snapshot, and what stands beside it.
//!
//! | name | what |
//! |---|---|
//! | `FILE` | the last snapshot, always whole: it is replaced by a rename |
//! | `FILE.tmp` | the next one, while it is written |
//! | `FILE.lock` | empty; locked by the process that writes |
//! | `FILE.damaged-1` … `-9`, `FILE.newer-1` …, `FILE.older-1` … | what could not be read, set aside |

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tracing::warn;

/// Files of a kind that are set aside; beyond, the oldest is replaced.
const SET_ASIDE_MAX: u32 = 9;

/// Bytes that are written with one system call.
const WRITE_LEN: usize = 1 << 16;

/// Where snapshots cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Another server keeps its snapshots there: each needs a file of its own.
    #[error("snapshot: {} is another server's, which holds {}", path.display(), lock.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// What the other one has locked.
        lock: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("snapshot: there is no folder {}", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder or a device has the name.
    #[error("snapshot: {} is no file", path.display())]
    NoFile {
        /// The name.
        path: PathBuf,
    },
}

/// Why a file is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    Newer,
    Older,
}

/// The file, of which this process is the only writer.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    folder: PathBuf,
    /// Locked as long as it is open; `None` while the folder cannot be written to.
    lock: Option<File>,
    /// Why the file cannot be read, while it could not be set aside either.
    in_the_way: Option<(Fault, String)>,
}

impl Place {
    /// Makes this process the only writer of `path`. A folder that cannot be written to now is
    /// tried again by [`replace`](Self::replace).
    pub(super) fn take(path: &Path) -> Result<Self, SnapshotError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(SnapshotError::NoFolder { folder: folder.into() });
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(SnapshotError::NoFile { path: path.into() });
        }
        let folder = folder.into();
        let mut place = Self { path: path.into(), folder, lock: None, in_the_way: None };
        match place.lock() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let (path, lock) = (place.path.clone(), place.beside("lock"));
                Err(SnapshotError::InUse { path, lock })
            }
            _ => Ok(place),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts what `write` writes in place of the file, all of it or nothing.
    pub(super) fn replace<T>(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.clear_the_way()?;
        let next = self.beside("tmp");
        let written = write_to(&next, write).and_then(|written| {
            fs::rename(&next, &self.path)?;
            Ok(written)
        });
        match written {
            // The new name is on disk once the folder is.
            Ok(written) => File::open(&self.folder)?.sync_all().map(|()| written),
            Err(error) => {
                // Room for others on a full disk. Should this fail too, the cause is the same.
                drop(fs::remove_file(&next));
                Err(error)
            }
        }
    }

    /// Gives the file, which cannot be read, another name, under which it is left alone.
    pub(super) fn set_aside(&mut self, fault: Fault, cause: String) -> io::Result<()> {
        self.in_the_way = Some((fault, cause));
        self.clear_the_way()
    }

    fn clear_the_way(&mut self) -> io::Result<()> {
        self.lock()?;
        let Some((fault, cause)) = &self.in_the_way else { return Ok(()) };
        let kind = match fault {
            Fault::Damaged => "damaged",
            Fault::Newer => "newer",
            Fault::Older => "older",
        };
        let names = || (1..=SET_ASIDE_MAX).map(|n| self.beside(&format!("{kind}-{n}")));
        let modified = |name: &PathBuf| fs::symlink_metadata(name).and_then(|it| it.modified());
        let free = names().find(|name| modified(name).is_err());
        let replaces = free.is_none();
        let oldest = || names().min_by_key(|name| modified(name).ok());
        let Some(to) = free.or_else(oldest) else { return Ok(()) };
        match fs::rename(&self.path, &to) {
            Ok(()) => {
                let (file, to) = (self.path.display(), to.display());
                warn!(%file, cause, set_aside = %to, replaces, "snapshot cannot be used");
            }
            // Somebody else took it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.in_the_way = None;
        Ok(())
    }

    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_none() {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).mode(0o600);
            let file = file.open(self.beside("lock"))?;
            match file.try_lock() {
                Ok(()) => self.lock = Some(file),
                Err(TryLockError::WouldBlock) => {
                    let said = "another server writes snapshots there";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, said));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// The file's name and more behind it.
    fn beside(&self, more: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(".");
        name.push(more);
        name.into()
    }
}

/// Writes a file, to the disk and not only to the kernel.
fn write_to<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<T> {
    let mut options = OpenOptions::new();
    // What flows have used is nobody else's business: hot values may be names of people.
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut to = BufWriter::with_capacity(WRITE_LEN, file);
    let written = write(&mut to)?;
    to.flush()?;
    to.get_ref().sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::{io::Error, time::SystemTime};

    use super::*;
    use crate::testing::Log;

    struct Scene {
        folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("counters");
            Self { folder, path }
        }

        /// The names in the folder, in order.
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<_> =
                entries.map(|entry| name(entry).into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn put(place: &mut Place, text: &str) -> io::Result<()> {
        place.replace(|to| to.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all_and_its_owner_alone_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let scene = Scene::new();
        let mut place = Place::take(&scene.path).unwrap();
        put(&mut place, "first").unwrap();
        let full = place.replace(|to| {
            to.write_all(&[7; 200_000])?;
            Err::<(), _>(Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&scene.path).unwrap(), b"first");
        assert_eq!(scene.names(), ["counters", "counters.lock"], "no half file takes room");
        put(&mut place, "second").unwrap();
        assert_eq!(fs::read(&scene.path).unwrap(), b"second");
        let mode = fs::metadata(&scene.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_half_file_of_a_killed_process_is_written_over() {
        let scene = Scene::new();
        fs::write(scene.folder.path().join("counters.tmp"), [7; 1_000]).unwrap();
        let mut place = Place::take(&scene.path).unwrap();
        put(&mut place, "whole").unwrap();
        assert_eq!(fs::read(&scene.path).unwrap(), b"whole");
        assert_eq!(scene.names(), ["counters", "counters.lock"]);
    }

    #[test]
    fn a_second_writer_is_refused_until_the_first_has_gone() {
        let scene = Scene::new();
        let first = Place::take(&scene.path).unwrap();
        let error = Place::take(&scene.path).unwrap_err();
        assert!(matches!(error, SnapshotError::InUse { .. }));
        assert!(error.to_string().starts_with("snapshot: "), "the key is named: {error}");
        drop(first);
        Place::take(&scene.path).unwrap();
    }

    #[test]
    fn what_can_be_no_file_is_refused() {
        let scene = Scene::new();
        let folder = Place::take(scene.folder.path()).unwrap_err();
        assert!(matches!(folder, SnapshotError::NoFile { .. }), "{folder}");
        let nowhere = Place::take(&scene.folder.path().join("no/counters")).unwrap_err();
        assert!(matches!(nowhere, SnapshotError::NoFolder { .. }), "{nowhere}");
        assert_eq!(scene.names(), [""; 0], "nothing was made");
    }

    #[test]
    fn what_cannot_be_read_is_set_aside_and_of_many_the_oldest_goes_with_a_word() {
        let (scene, log) = (Scene::new(), Log::start());
        let mut place = Place::take(&scene.path).unwrap();
        let mut set_aside = |text: &str, fault| {
            fs::write(&scene.path, text).unwrap();
            place.set_aside(fault, "a reason".into()).unwrap();
        };
        set_aside("new", Fault::Newer);
        for n in 1..=11 {
            set_aside(&n.to_string(), Fault::Damaged);
            // Times of files are coarse.
            let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n);
            let name = if n > 9 { n - 9 } else { n };
            let path = scene.folder.path().join(format!("counters.damaged-{name}"));
            File::options().write(true).open(path).unwrap().set_modified(now).unwrap();
        }
        let read = |n| fs::read_to_string(scene.folder.path().join(format!("counters.{n}")));
        let kept: Vec<_> = (1..=9).map(|n| read(format!("damaged-{n}")).unwrap()).collect();
        assert_eq!(kept, ["10", "11", "3", "4", "5", "6", "7", "8", "9"]);
        assert_eq!(read("newer-1".into()).unwrap(), "new");
        assert_eq!(scene.names().len(), 11, "and the lock");
        let lines: Vec<&str> = [&["replaces=false"; 10][..], &["replaces=true"; 2]].concat();
        log.assert(&lines);
    }

    #[test]
    fn what_cannot_be_set_aside_is_never_written_over() {
        let (scene, log) = (Scene::new(), Log::start());
        fs::write(&scene.path, "precious").unwrap();
        let mut place = Place::take(&scene.path).unwrap();
        // A file cannot take the name of a folder.
        let names = (1..=9).map(|n| scene.folder.path().join(format!("counters.damaged-{n}")));
        names.clone().for_each(|name| fs::create_dir(name).unwrap());
        place.set_aside(Fault::Damaged, "a reason".into()).unwrap_err();
        put(&mut place, "next").unwrap_err();
        assert_eq!(fs::read(&scene.path).unwrap(), b"precious");
        names.for_each(|name| fs::remove_dir(name).unwrap());
        put(&mut place, "next").unwrap();
        assert_eq!(fs::read(&scene.path).unwrap(), b"next");
        let aside = scene.folder.path().join("counters.damaged-1");
        assert_eq!(fs::read(aside).unwrap(), b"precious");
        log.assert(&["a reason"]);
    }
}
