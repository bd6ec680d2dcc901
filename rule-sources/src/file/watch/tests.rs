//! Each way a file can change, seen by events alone, by looks alone, and by both.

use std::{fs, os::unix::fs::symlink};

use notify::event::{CreateKind, DataChange, Event, Flag, ModifyKind};
use tempfile::TempDir;

use super::*;
use crate::{FileSource, RuleSource};

const QUIET: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(3_600);

const BY_EVENTS: Pace = Pace { look: NEVER, quiet: QUIET, events: true };
const BY_LOOKS: Pace = Pace { look: QUIET, quiet: QUIET, events: false };

/// A watched source, and what is expected of it.
struct Watched {
    source: FileSource,
    changes: Changes,
}

impl Watched {
    fn new(path: &Path, pace: Pace) -> Self {
        let source = FileSource::of_server(path);
        source.load().unwrap();
        let changes = source.watch_at(pace).unwrap();
        Self { source, changes }
    }

    /// Waits for changes until one of them shows what is wanted.
    async fn until(&mut self, wanted: impl Fn(&str) -> bool) {
        let mut shown = String::new();
        let seen = async {
            while !wanted(&shown) {
                self.changes.next().await;
                shown = match self.source.load() {
                    Ok(loaded) => {
                        let sets = loaded.rules.iter();
                        let rules: Vec<_> =
                            sets.flat_map(|set| &set.flow).map(|rule| &*rule.resource).collect();
                        format!("{} warnings: {}", loaded.warnings.len(), rules.join(" "))
                    }
                    Err(errors) => errors.to_string(),
                };
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), seen).await;
        waited.unwrap_or_else(|_| panic!("no change showed it; last: {shown:?}"));
    }

    async fn until_rules(&mut self, rules: &str) {
        self.until(|shown| shown == format!("0 warnings: {rules}")).await;
    }
}

fn rules(resource: &str) -> String {
    format!(
        r#"[{{"resource": "{resource}", "count": 1, "clusterMode": true, "clusterConfig": {{"flowId": 1}}}}]"#
    )
}

fn directory() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("shop-flow-rules.json");
    fs::write(&file, rules("old")).unwrap();
    (dir, file)
}

async fn a_write_in_place(pace: Pace) {
    let (dir, file) = directory();
    let mut watched = Watched::new(dir.path(), pace);
    fs::write(&file, rules("new")).unwrap();
    watched.until_rules("new").await;
}

async fn a_rename_over_the_file(pace: Pace) {
    let (dir, file) = directory();
    let mut watched = Watched::new(&file, pace);
    let other = dir.path().join(".new");
    fs::write(&other, rules("new")).unwrap();
    fs::rename(other, file).unwrap();
    watched.until_rules("new").await;
}

async fn a_new_file(pace: Pace) {
    let dir = TempDir::new().unwrap();
    let mut watched = Watched::new(dir.path(), pace);
    fs::write(dir.path().join("shop-flow-rules.json"), rules("new")).unwrap();
    watched.until_rules("new").await;
}

async fn a_removal(pace: Pace) {
    let (dir, file) = directory();
    let mut watched = Watched::new(dir.path(), pace);
    fs::remove_file(file).unwrap();
    watched.until(|shown| shown == "1 warnings: old").await;
}

async fn bad_and_good_again(pace: Pace) {
    let (_dir, file) = directory();
    let mut watched = Watched::new(&file, pace);
    fs::write(&file, "[{").unwrap();
    watched.until(|shown| shown.contains("must be a JSON array of rules")).await;
    fs::write(&file, rules("new")).unwrap();
    watched.until_rules("new").await;
}

async fn a_change_between_load_and_watch(pace: Pace) {
    let (dir, file) = directory();
    let source = FileSource::of_server(dir.path());
    source.load().unwrap();
    fs::write(file, rules("newer")).unwrap();
    let changes = source.watch_at(pace).unwrap();
    Watched { source, changes }.until_rules("newer").await;
}

/// A volume as Kubernetes mounts it: files are links through `..data`, which is swapped.
struct Mount(TempDir);

impl Mount {
    fn new() -> Self {
        let mount = Self(TempDir::new().unwrap());
        mount.publish("old", "..2026_1");
        symlink("..data/shop-flow-rules.json", mount.file()).unwrap();
        mount
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("shop-flow-rules.json")
    }

    fn publish(&self, resource: &str, version: &str) {
        let at = |name: &str| self.0.path().join(name);
        let old = fs::read_link(at("..data"));
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("shop-flow-rules.json"), rules(resource)).unwrap();
        symlink(version, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        if let Ok(old) = old {
            fs::remove_dir_all(self.0.path().join(old)).unwrap();
        }
    }
}

async fn a_swapped_link_of_a_directory(pace: Pace) {
    let mount = Mount::new();
    let mut watched = Watched::new(mount.0.path(), pace);
    for (resource, version) in [("new", "..2026_2"), ("newer", "..2026_3")] {
        mount.publish(resource, version);
        watched.until_rules(resource).await;
    }
}

async fn a_swapped_link_behind_a_link_elsewhere(pace: Pace) {
    let mount = Mount::new();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("rules.json");
    symlink(mount.file(), &file).unwrap();
    let mut watched = Watched::new(&file, pace);
    for (resource, version) in [("new", "..2026_2"), ("newer", "..2026_3")] {
        mount.publish(resource, version);
        watched.until_rules(resource).await;
    }
}

async fn a_write_to_the_file_behind_a_link(pace: Pace) {
    let (_target, file) = directory();
    let dir = TempDir::new().unwrap();
    let link = dir.path().join("rules.json");
    symlink(&file, &link).unwrap();
    let mut watched = Watched::new(&link, pace);
    fs::write(&file, rules("new")).unwrap();
    watched.until_rules("new").await;
}

async fn a_directory_that_is_made_anew(pace: Pace) {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("rules");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("shop-flow-rules.json");
    fs::write(&file, rules("old")).unwrap();
    let mut watched = Watched::new(&dir, pace);
    fs::rename(&dir, parent.path().join("away")).unwrap();
    watched.until(|shown| shown.contains("no such file or directory")).await;
    fs::create_dir(&dir).unwrap();
    watched.until(|shown| shown == "1 warnings: old").await;
    fs::write(&file, rules("new")).unwrap();
    watched.until_rules("new").await;
    fs::write(&file, rules("newer")).unwrap();
    watched.until_rules("newer").await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn what_could_not_be_read_is_tried_again_though_nothing_changes() {
    let (dir, file) = directory();
    let mut watched = Watched::new(&file, BY_LOOKS);
    // Page 0 of a process is never mapped: a regular file that gives an I/O error.
    let other = dir.path().join(".new");
    symlink("/proc/self/mem", &other).unwrap();
    fs::rename(other, &file).unwrap();
    for _ in 0..3 {
        let refused = format!("{}: cannot be read: Input/output error", file.display());
        watched.until(|shown| shown.starts_with(&refused)).await;
    }
    fs::remove_file(&file).unwrap();
    watched.until(|shown| shown == "1 warnings: old").await;
}

macro_rules! seen {
    ($($pace:ident = $value:expr;)*) => {$(
        mod $pace {
            use super::*;
            seen!(@ $value; a_write_in_place a_rename_over_the_file a_new_file a_removal
                bad_and_good_again a_change_between_load_and_watch a_swapped_link_of_a_directory
                a_swapped_link_behind_a_link_elsewhere a_write_to_the_file_behind_a_link
                a_directory_that_is_made_anew);
        }
    )*};
    (@ $value:expr; $($change:ident)*) => {$(
        #[tokio::test]
        async fn $change() {
            super::$change($value).await;
        }
    )*};
}

seen! {
    events_show = BY_EVENTS;
    looks_show = BY_LOOKS;
    both_show = Pace::default();
}

#[test]
fn a_change_is_told_within_two_seconds_also_without_events() {
    let pace = Pace::default();
    assert!(pace.look + pace.quiet * QUIET_ROUNDS_MAX < Duration::from_secs(2));
}

fn woken_and_touched(event: notify::Result<Event>) -> (bool, bool) {
    let desk = Desk::default();
    desk.state().names.insert("shop-flow-rules.json".into());
    desk.event(event);
    let state = desk.state();
    (state.woken, state.touched)
}

#[test]
fn only_events_of_rule_files_tell_of_a_change_unseen() {
    let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    let closed = |mode| EventKind::Access(AccessKind::Close(mode));
    let of = |kind, name: &str| Event::new(kind).add_path(Path::new("rules").join(name));
    let ours = "shop-flow-rules.json";
    for (event, expected) in [
        (of(write, ours), (true, true)),
        (of(closed(AccessMode::Write), ours), (true, true)),
        (of(EventKind::Create(CreateKind::File), "shop-flow-rules.json~"), (true, false)),
        (of(write, "access.log"), (true, false)),
        (of(EventKind::Access(AccessKind::Open(AccessMode::Any)), ours), (false, false)),
        (of(closed(AccessMode::Read), ours), (false, false)),
        (Event::new(EventKind::Other).set_flag(Flag::Rescan), (true, true)),
    ] {
        assert_eq!(woken_and_touched(Ok(event.clone())), expected, "{event:?}");
    }
    assert_eq!(woken_and_touched(Err(notify::Error::generic("lost"))), (true, true));
}

#[test]
fn a_file_that_never_rests_is_told_of_all_the_same() {
    let desk = Arc::new(Desk::default());
    let busy = {
        let desk = Arc::clone(&desk);
        thread::spawn(move || {
            let mut events = 0_u64;
            while !desk.state().stopped {
                desk.event(Err(notify::Error::generic("again")));
                events += 1;
                thread::yield_now();
            }
            events
        })
    };
    let pace = Pace { look: NEVER, quiet: Duration::from_millis(1), events: true };
    assert_eq!(desk.next(pace), Some(true));
    drop(StopOnDrop(Arc::clone(&desk)));
    assert_eq!(desk.next(pace), None);
    assert!(busy.join().unwrap() > 0);
}
